//! The model: a keyspace of a few integers, one command after another, with the replies that a
//! server owes.

use std::collections::BTreeMap;

use crate::simulated::request;

/// The most keys of a history.
pub(crate) const KEYS_MAX: usize = 5;

/// A key by its number.
pub(crate) type Key = usize;

/// What happens at one instant: a command, or a transaction from MULTI to EXEC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Get(Key),
    Set(Key, i64),
    Incr(Key),
    Del(Vec<Key>),
    GetDel(Key),
    MGet(Vec<Key>),
    MSet(Vec<(Key, i64)>),
    MSetNx(Vec<(Key, i64)>),
    Rename(Key, Key),
    Watch(Vec<Key>),
    Exec(Vec<Command>),
}

impl Command {
    /// The command as one speaks of it; a transaction ends at its semicolons.
    pub(crate) fn text(&self, names: &[String]) -> String {
        let words = |name: &str, keys: &[Key]| {
            keys.iter().fold(name.to_owned(), |text, key| text + " " + &names[*key])
        };
        let pairs = |name: &str, pairs: &[(Key, i64)]| {
            let add = |text, (key, value): &(Key, i64)| format!("{text} {} {value}", names[*key]);
            pairs.iter().fold(name.to_owned(), add)
        };
        match self {
            Self::Get(key) => words("GET", &[*key]),
            Self::Set(key, value) => pairs("SET", &[(*key, *value)]),
            Self::Incr(key) => words("INCR", &[*key]),
            Self::Del(keys) => words("DEL", keys),
            Self::GetDel(key) => words("GETDEL", &[*key]),
            Self::MGet(keys) => words("MGET", keys),
            Self::MSet(values) => pairs("MSET", values),
            Self::MSetNx(values) => pairs("MSETNX", values),
            Self::Rename(from, to) => words("RENAME", &[*from, *to]),
            Self::Watch(keys) => words("WATCH", keys),
            Self::Exec(queued) => {
                let queued: Vec<_> = queued.iter().map(|command| command.text(names)).collect();
                format!("MULTI; {}; EXEC", queued.join("; "))
            }
        }
    }

    /// The bytes that ask for it.
    pub(crate) fn requests(&self, names: &[String]) -> Vec<u8> {
        let text = self.text(names);
        let words =
            |command: &str| request(&command.split(' ').map(str::as_bytes).collect::<Vec<&[u8]>>());
        text.split("; ").flat_map(words).collect()
    }

    /// How many replies come before the one that tells what has happened.
    pub(crate) fn replies_before(&self) -> usize {
        if let Self::Exec(queued) = self { 1 + queued.len() } else { 0 }
    }

    /// The keys of a command that only reads, outside of transactions.
    pub(crate) fn read_keys(&self) -> &[Key] {
        match self {
            Self::Get(key) => std::slice::from_ref(key),
            Self::MGet(keys) => keys,
            _ => &[],
        }
    }
}

/// What a client watches.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Watch {
    /// A bit for each key.
    keys: u8,
    is_dirty: bool,
}

/// The keyspace, and who watches what.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Keyspace {
    values: [Option<i64>; KEYS_MAX],
    watches: BTreeMap<u64, Watch>,
}

impl Keyspace {
    /// Runs a command and returns its reply.
    pub(crate) fn run(&mut self, client: u64, command: &Command) -> String {
        match command {
            Command::Get(key) => bulk(self.values[*key]),
            Command::Set(key, value) => {
                self.set(*key, *value);
                OK.to_owned()
            }
            Command::Incr(key) => {
                let value = self.values[*key].unwrap_or_default() + 1;
                self.set(*key, value);
                integer(value)
            }
            Command::Del(keys) => {
                integer(keys.iter().filter(|key| self.remove(**key).is_some()).count() as i64)
            }
            Command::GetDel(key) => bulk(self.remove(*key)),
            Command::MGet(keys) => array(keys.iter().map(|key| bulk(self.values[*key]))),
            Command::MSet(values) => {
                values.iter().for_each(|(key, value)| self.set(*key, *value));
                OK.to_owned()
            }
            Command::MSetNx(values) => {
                let is_free = values.iter().all(|(key, _)| self.values[*key].is_none());
                if is_free {
                    values.iter().for_each(|(key, value)| self.set(*key, *value));
                }
                integer(is_free.into())
            }
            Command::Rename(from, to) => self.rename(*from, *to),
            Command::Watch(keys) => {
                let watch = self.watches.entry(client).or_default();
                keys.iter().for_each(|key| watch.keys |= 1 << key);
                OK.to_owned()
            }
            Command::Exec(queued) => {
                if self.watches.remove(&client).is_some_and(|watch| watch.is_dirty) {
                    return "*-1\r\n".to_owned();
                }
                let replies: Vec<_> =
                    queued.iter().map(|command| self.run(client, command)).collect();
                array(replies.into_iter())
            }
        }
    }

    fn rename(&mut self, from: Key, to: Key) -> String {
        let Some(value) = self.values[from] else { return "-ERR no such key\r\n".to_owned() };
        if from != to {
            self.remove(from);
            self.set(to, value);
        }
        OK.to_owned()
    }

    fn set(&mut self, key: Key, value: i64) {
        self.values[key] = Some(value);
        self.touch(key);
    }

    fn remove(&mut self, key: Key) -> Option<i64> {
        let value = self.values[key].take();
        if value.is_some() {
            self.touch(key);
        }
        value
    }

    fn touch(&mut self, key: Key) {
        let watches = self.watches.values_mut().filter(|watch| watch.keys >> key & 1 == 1);
        watches.for_each(|watch| watch.is_dirty = true);
    }
}

const OK: &str = "+OK\r\n";

fn integer(value: i64) -> String {
    format!(":{value}\r\n")
}

fn bulk(value: Option<i64>) -> String {
    let text = value.map(|value| value.to_string());
    text.map_or("$-1\r\n".to_owned(), |text| format!("${}\r\n{text}\r\n", text.len()))
}

fn array(replies: impl ExactSizeIterator<Item = String>) -> String {
    format!("*{}\r\n", replies.len()) + &replies.collect::<String>()
}
