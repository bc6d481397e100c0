//! The slow log: the last commands whose time passed `slowlog-log-slower-than`.

use std::collections::VecDeque;

use crate::command::args::Args;

/// Arguments kept of one entry; the last one says how many more there were.
const ARGS_MAX: usize = 32;

/// Bytes kept of one argument.
const ARG_LEN_MAX: usize = 128;

/// One slow command.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Counts up over the life of the process.
    pub id: u64,
    /// When it ended, seconds since the Unix epoch.
    pub unix_s: u64,
    /// How long it ran.
    pub duration_us: u64,
    /// Its arguments, trimmed.
    pub args: Vec<Vec<u8>>,
    /// The client's address.
    pub address: String,
    /// The client's name.
    pub name: Vec<u8>,
}

/// The entries, newest first.
#[derive(Debug, Default)]
pub struct SlowLog {
    entries: VecDeque<Entry>,
    next_id: u64,
}

impl SlowLog {
    /// Adds a command; at most `len_max` entries stay.
    pub fn record(
        &mut self,
        args: Args<'_>,
        unix_s: u64,
        duration_us: u64,
        address: &str,
        name: &[u8],
        len_max: usize,
    ) {
        self.entries.push_front(Entry {
            id: self.next_id,
            unix_s,
            duration_us,
            args: trim(args),
            address: address.to_owned(),
            name: name.to_vec(),
        });
        self.next_id += 1;
        self.entries.truncate(len_max);
    }

    /// The entries, newest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Removes all entries; ids go on counting.
    pub fn reset(&mut self) {
        self.entries.clear();
    }
}

fn trim(args: Args<'_>) -> Vec<Vec<u8>> {
    let kept = args.len().min(ARGS_MAX);
    (0..kept)
        .map(|index| {
            if kept != args.len() && index == kept - 1 {
                return format!("... ({} more arguments)", args.len() - kept + 1).into_bytes();
            }
            let arg = args.get(index);
            if arg.len() <= ARG_LEN_MAX {
                return arg.to_vec();
            }
            let mut text = arg[..ARG_LEN_MAX].to_vec();
            text.extend(format!("... ({} more bytes)", arg.len() - ARG_LEN_MAX).into_bytes());
            text
        })
        .collect()
}
