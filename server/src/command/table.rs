//! The command table: all rows, found by name in any case, with a number each.
//!
//! Row numbers index the counters of [`crate::stats`]; rows themselves hold facts only.

use std::sync::{LazyLock, OnceLock};

use super::spec::Command;
use super::{
    bitmap, cluster, connection, fill, geo, hash, hyperloglog, keys, lcs, list, pubsub, server,
    set, sort, sorted_set, stream, string, transaction,
};

/// The families, in the order in which COMMAND lists them.
const FAMILIES: &[&[Command]] = &[
    string::COMMANDS,
    lcs::COMMANDS,
    bitmap::COMMANDS,
    hyperloglog::COMMANDS,
    list::COMMANDS,
    set::COMMANDS,
    set::times::COMMANDS,
    sorted_set::COMMANDS,
    geo::COMMANDS,
    sorted_set::times::COMMANDS,
    hash::COMMANDS,
    stream::COMMANDS,
    keys::COMMANDS,
    sort::COMMANDS,
    connection::COMMANDS,
    server::COMMANDS,
    transaction::COMMANDS,
    pubsub::COMMANDS,
    fill::COMMANDS,
    cluster::COMMANDS,
];

/// Slots of the name index; a power of two well over the number of commands.
const INDEX_LEN: usize = 2048;

/// What the index knows of a name: its first eight letters in lower case, and its length. Only
/// longer names need a look at the row.
#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u64,
    len: u16,
    id: u16,
}

impl Slot {
    const FREE: Self = Self { head: 0, len: 0, id: 0 };
}

/// A row with its place in the table.
#[derive(Debug)]
pub struct Entry {
    /// Number of the row.
    pub id: u16,
    /// The facts.
    pub command: &'static Command,
    /// Full name: `get`, `client|list`.
    pub name: String,
    /// What clients call a command: its own name, unless the configuration gives it another.
    called: String,
    /// Rows of the subcommands follow one another: first and count.
    subcommands: (u16, u16),
    /// Index of the key where a command has exactly one, at a fixed place; 0 otherwise.
    pub single_key: u16,
}

/// All rows of the program.
#[derive(Debug)]
pub struct Table {
    entries: Vec<Entry>,
    index: Box<[Slot; INDEX_LEN]>,
}

/// Commands with other names than their own; see [`rename`].
static RENAMED: OnceLock<Vec<(String, String)>> = OnceLock::new();

static TABLE: LazyLock<Table> = LazyLock::new(Table::build);

/// The table.
pub fn table() -> &'static Table {
    &TABLE
}

/// Gives commands other names, in lower case; an empty one takes a command away. To be called
/// before the table is used.
pub fn rename(names: &[(String, String)]) {
    RENAMED.get_or_init(|| names.to_vec());
}

/// Whether a command has this name by itself.
pub fn is_command(name: &str) -> bool {
    FAMILIES.iter().copied().flatten().any(|command| command.name == name)
}

impl Table {
    fn build() -> Self {
        let renamed = RENAMED.get().map_or(&[][..], Vec::as_slice);
        let mut table = Self { entries: Vec::new(), index: Box::new([Slot::FREE; INDEX_LEN]) };
        for command in FAMILIES.iter().copied().flatten() {
            let id = table.push(command, command.name.to_owned());
            let first = table.entries.len() as u16;
            for subcommand in command.subcommands {
                table.push(subcommand, format!("{}|{}", command.name, subcommand.name));
            }
            table.entries[usize::from(id)].subcommands = (first, command.subcommands.len() as u16);
            if let Some((_, name)) = renamed.iter().find(|(own, _)| own == command.name) {
                table.entries[usize::from(id)].called.clone_from(name);
                if name.is_empty() {
                    continue;
                }
            }
            let name = table.entries[usize::from(id)].called.as_bytes();
            let head = head(name);
            let mut place = place(head, name.len());
            while table.index[place].len != 0 {
                place = (place + 1) % INDEX_LEN;
            }
            table.index[place] = Slot { head, len: name.len() as u16, id };
        }
        table
    }

    fn push(&mut self, command: &'static Command, name: String) -> u16 {
        let id = self.entries.len() as u16;
        let single_key = match command.keys {
            [only] if only.last == 0 && !only.counted => only.first as u16,
            _ => 0,
        };
        let called = command.name.to_owned();
        self.entries.push(Entry { id, command, name, called, subcommands: (0, 0), single_key });
        id
    }

    /// All rows by number, subcommands after their containers.
    pub fn entries(&'static self) -> &'static [Entry] {
        &self.entries
    }

    /// The commands without the subcommands.
    pub fn commands(&'static self) -> impl Iterator<Item = &'static Entry> {
        self.entries.iter().filter(|entry| !entry.name.contains('|'))
    }

    /// Finds a command by its name, in any case.
    #[inline]
    pub fn find(&'static self, name: &[u8]) -> Option<&'static Entry> {
        let head = head(name);
        let mut place = place(head, name.len());
        loop {
            let slot = self.index[place];
            if slot.len == 0 {
                return None;
            }
            if slot.head == head && usize::from(slot.len) == name.len() {
                let entry = &self.entries[usize::from(slot.id)];
                if name.len() <= 8 || entry.called.as_bytes().eq_ignore_ascii_case(name) {
                    return Some(entry);
                }
            }
            place = (place + 1) % INDEX_LEN;
        }
    }

    /// The subcommands of a container.
    pub fn subcommands(&'static self, container: &Entry) -> &'static [Entry] {
        let (first, count) = container.subcommands;
        &self.entries[usize::from(first)..usize::from(first + count)]
    }

    /// Finds a subcommand by its word, in any case.
    pub fn find_subcommand(
        &'static self,
        container: &Entry,
        word: &[u8],
    ) -> Option<&'static Entry> {
        self.subcommands(container)
            .iter()
            .find(|entry| entry.command.name.as_bytes().eq_ignore_ascii_case(word))
    }

    /// Finds a row by its full name: `get`, `client|list`.
    pub fn find_full(&'static self, name: &[u8]) -> Option<&'static Entry> {
        match memchr::memchr(b'|', name) {
            None => self.find(name),
            Some(bar) => self.find_subcommand(self.find(&name[..bar])?, &name[bar + 1..]),
        }
    }
}

/// The first eight bytes in lower case, zeros behind a shorter name.
#[inline]
fn head(name: &[u8]) -> u64 {
    // Four bytes from either end overlap where there are fewer than eight.
    let bytes = match (name.first_chunk::<8>(), name.first_chunk::<4>(), name.last_chunk::<4>()) {
        (Some(first), ..) => u64::from_le_bytes(*first),
        (_, Some(first), Some(last)) => {
            let shift = 8 * (name.len() as u32 - 4);
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << shift
        }
        _ => match *name {
            [a] => u64::from_le_bytes([a, 0, 0, 0, 0, 0, 0, 0]),
            [a, b] => u64::from_le_bytes([a, b, 0, 0, 0, 0, 0, 0]),
            [a, b, c] => u64::from_le_bytes([a, b, c, 0, 0, 0, 0, 0]),
            _ => 0,
        },
    };
    to_lower(bytes)
}

/// Eight bytes in lower case at once: the top bit of a sum tells which bytes are from `A` to `Z`.
#[inline]
fn to_lower(bytes: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let low = bytes & (0x7f * ONES);
    let from_a = low + (0x80 - b'A' as u64) * ONES;
    let beyond_z = low + (0x7f - b'Z' as u64) * ONES;
    let is_upper = (from_a ^ beyond_z) & !bytes & (0x80 * ONES);
    bytes | is_upper >> 2
}

/// Where the search for a name begins.
#[inline]
fn place(head: u64, len: usize) -> usize {
    let mixed = (head ^ len as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 53) as usize % INDEX_LEN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_alone_change_case() {
        for byte in 0..=u8::MAX {
            let word = u64::from_le_bytes([byte, b'A', 0, b'Z', 0xff, byte, b'@', b'[']);
            let lower = word.to_le_bytes().map(|byte| byte.to_ascii_lowercase());
            assert_eq!(to_lower(word).to_le_bytes(), lower, "{byte}");
        }
    }

    #[test]
    fn every_row_is_found_by_its_name_in_any_case() {
        for entry in table().entries() {
            for name in [entry.name.clone(), entry.name.to_uppercase()] {
                let found = table().find_full(name.as_bytes()).expect("a row of the table");
                assert_eq!(found.id, entry.id, "{name}");
            }
        }
        for name in ["", "g", "gett", "get|x", "nosuchcommand", "client|nosuch"] {
            assert!(table().find_full(name.as_bytes()).is_none(), "{name}");
        }
    }

    #[test]
    fn names_are_lower_case_and_keys_fit_the_arity() {
        for entry in table().entries() {
            let command = entry.command;
            assert_eq!(entry.name, entry.name.to_lowercase());
            for spec in command.keys {
                // Names at the end may be left out.
                let is_there =
                    spec.first < command.arity.abs() || spec.last < 0 || spec.keyword.is_some();
                assert!(spec.first >= 1 && is_there, "{}", entry.name);
            }
            assert!(!command.summary.is_empty(), "{}", entry.name);
        }
    }
}
