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

/// A command that was slow, before it is trimmed.
#[derive(Clone, Copy, Debug)]
pub struct Slow<'a> {
    /// Its arguments.
    pub args: Args<'a>,
    /// Bits of the arguments that must not be shown, by index.
    pub redacted: u32,
    /// When it ended, seconds since the Unix epoch.
    pub unix_s: u64,
    /// How long it ran.
    pub duration_us: u64,
    /// The client's address.
    pub address: &'a str,
    /// The client's name.
    pub name: &'a [u8],
}

/// The entries, newest first.
#[derive(Debug, Default)]
pub struct SlowLog {
    entries: VecDeque<Entry>,
    next_id: u64,
}

impl SlowLog {
    /// Adds a command; at most `len_max` entries stay.
    pub fn record(&mut self, slow: &Slow<'_>, len_max: usize) {
        if len_max == 0 {
            return;
        }
        self.entries.push_front(Entry {
            id: self.next_id,
            unix_s: slow.unix_s,
            duration_us: slow.duration_us,
            args: trim(slow.args, slow.redacted),
            address: slow.address.to_owned(),
            name: slow.name.to_vec(),
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

fn trim(args: Args<'_>, redacted: u32) -> Vec<Vec<u8>> {
    let kept = args.len().min(ARGS_MAX);
    (0..kept)
        .map(|index| {
            if kept != args.len() && index == kept - 1 {
                return format!("... ({} more arguments)", args.len() - kept + 1).into_bytes();
            }
            if redacted >> index & 1 == 1 {
                return b"(redacted)".to_vec();
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
