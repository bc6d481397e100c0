//! Clients that draw their commands and keep a history: what they send and how they read replies,
//! over a simulated connection or a real one.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};

use super::history::{History, OpNumber};
use super::model::{Command, Key};
use crate::fuzz::next;

/// What a client draws its commands from.
pub(crate) struct Draw {
    random: u64,
    keys: usize,
    /// The last value that was written; no two clients write the same ones.
    value: i64,
    is_watching: bool,
}

/// Values that belong to one client.
const VALUES: i64 = 1_000_000;

/// Between two written values there is room for those that INCR leads to.
const VALUE_STEP: i64 = 100;

impl Draw {
    fn new(random: u64, client: u64, keys: usize) -> Self {
        Self { random: random | 1, keys, value: client as i64 * VALUES, is_watching: false }
    }

    fn below(&mut self, end: usize) -> usize {
        (next(&mut self.random) >> 8) as usize % end
    }

    fn value(&mut self) -> i64 {
        self.value += VALUE_STEP;
        self.value
    }

    fn key(&mut self) -> Key {
        self.below(self.keys)
    }

    /// All keys in a drawn order.
    fn all_keys(&mut self) -> Vec<Key> {
        let mut keys: Vec<Key> = (0..self.keys).collect();
        (1..keys.len()).rev().for_each(|end| keys.swap(end, self.below(end + 1)));
        keys
    }

    fn some_keys(&mut self) -> Vec<Key> {
        let mut keys = self.all_keys();
        keys.truncate(1 + self.below(self.keys));
        keys
    }

    /// Some keys with one value, or each with its own.
    fn pairs(&mut self, keys: Vec<Key>, is_one_value: bool) -> Vec<(Key, i64)> {
        let value = self.value();
        keys.into_iter().map(|key| (key, value + i64::from(!is_one_value) * key as i64)).collect()
    }

    /// The one command that reads all.
    pub(crate) fn all(&mut self) -> Command {
        Command::MGet((0..self.keys).collect())
    }

    /// Any command.
    pub(crate) fn any(&mut self) -> Command {
        match self.below(8) {
            0 if !self.is_watching => {
                self.is_watching = true;
                Command::Watch(self.some_keys())
            }
            1 | 2 => self.transaction(),
            3 | 4 if self.is_watching => self.transaction(),
            _ => self.command(),
        }
    }

    fn transaction(&mut self) -> Command {
        self.is_watching = false;
        let count = self.below(4);
        Command::Exec((0..=count).map(|_| self.command()).collect())
    }

    fn command(&mut self) -> Command {
        match self.below(16) {
            0..3 => Command::Get(self.key()),
            3..5 => Command::Set(self.key(), self.value()),
            5..7 => Command::Incr(self.key()),
            7 => Command::Del(self.some_keys()),
            8 => Command::GetDel(self.key()),
            9..12 => Command::MGet(self.some_keys()),
            12..14 => {
                let (keys, is_one) = (self.some_keys(), self.below(2) == 0);
                Command::MSet(self.pairs(keys, is_one))
            }
            14 => {
                let keys = self.some_keys();
                Command::MSetNx(self.pairs(keys, false))
            }
            _ => Command::Rename(self.key(), self.key()),
        }
    }

    /// A command that reads all keys, or leaves them with one value.
    pub(crate) fn of_one_value(&mut self) -> Command {
        let keys = self.all_keys();
        let value = self.value();
        match self.below(10) {
            0 | 1 => Command::MGet(keys),
            2 => Command::Exec(keys.into_iter().map(Command::Get).collect()),
            3 => {
                let (some, others) = keys.split_at(keys.len() / 2);
                Command::Exec([some, others].map(|keys| Command::MGet(keys.to_vec())).into())
            }
            4 | 5 => Command::MSet(self.pairs(keys, true)),
            6 => Command::Exec(keys.into_iter().map(|key| Command::Set(key, value)).collect()),
            7 => Command::Exec(keys.into_iter().map(Command::Incr).collect()),
            8 => Command::Del(keys),
            _ => Command::MSetNx(self.pairs(keys, true)),
        }
    }
}

/// A client with its connection.
pub(crate) struct Client<S> {
    pub(crate) stream: S,
    /// Names it in histories; a new one after a connection was lost.
    pub(crate) number: u64,
    pub(crate) draw: Draw,
    unsent: Vec<u8>,
    received: Vec<u8>,
    awaited: VecDeque<Awaited>,
}

struct Awaited {
    number: OpNumber,
    /// Replies to MULTI and to what is queued, which come before.
    is_transaction: bool,
    before: usize,
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn new(stream: S, number: u64, random: u64, keys: usize) -> Self {
        Self {
            stream,
            number,
            draw: Draw::new(random, number, keys),
            unsent: Vec::new(),
            received: Vec::new(),
            awaited: VecDeque::new(),
        }
    }

    /// Whether all replies have come.
    pub(crate) fn is_idle(&self) -> bool {
        self.awaited.is_empty()
    }

    /// Makes a command the next one to send.
    pub(crate) fn invoke(&mut self, command: Command, history: &mut History) {
        self.unsent.extend_from_slice(&command.requests(&history.names));
        let before = command.replies_before();
        let number = history.invoked(self.number, command);
        self.awaited.push_back(Awaited { number, is_transaction: before > 0, before });
    }

    /// Sends and receives what the network takes and has. `false`: the connection is lost.
    pub(crate) fn exchange(&mut self) -> bool {
        match self.stream.write(&self.unsent) {
            Ok(len) => drop(self.unsent.drain(..len)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => return false,
            Ok(len) => self.received.extend_from_slice(&bytes[..len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
        true
    }

    /// Notes the replies that are whole.
    pub(crate) fn note_replies(&mut self, history: &mut History) {
        while let Some(len) = reply_len(&self.received) {
            let reply = String::from_utf8(self.received.drain(..len).collect()).expect("a text");
            let awaited = self.awaited.front_mut().expect("a reply that was asked for");
            if awaited.before == 0 {
                history.returned(awaited.number, reply);
                self.awaited.pop_front();
                continue;
            }
            let expected = if awaited.is_transaction { "+OK\r\n" } else { "+QUEUED\r\n" };
            assert_eq!(reply, expected, "{history}");
            awaited.is_transaction = false;
            awaited.before -= 1;
        }
    }

    /// Goes on as another client; what was under way stays so.
    pub(crate) fn reconnect(&mut self, stream: S, number: u64) {
        let random = next(&mut self.draw.random);
        *self = Self::new(stream, number, random, self.draw.keys);
    }
}

/// Length of the first reply, if it is whole.
fn reply_len(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|pair| pair == b"\r\n")? + 2;
    let text = std::str::from_utf8(&bytes[..line - 2]).expect("a text");
    let number = || text[1..].parse::<i64>().expect("a length");
    match bytes[0] {
        b'$' => match usize::try_from(number()) {
            Ok(len) => (line + len + 2 <= bytes.len()).then_some(line + len + 2),
            Err(_) => Some(line),
        },
        b'*' => (0..number()).try_fold(line, |at, _| Some(at + reply_len(bytes.get(at..)?)?)),
        _ => Some(line),
    }
}

/// The values in a reply, at any depth; `None` for a key that has none.
pub(crate) fn values(reply: &str) -> Vec<Option<&str>> {
    let mut lines = reply.split_terminator("\r\n");
    let mut values = Vec::new();
    while let Some(line) = lines.next() {
        match line {
            "$-1" => values.push(None),
            _ if line.starts_with('$') => values.push(lines.next()),
            _ => {}
        }
    }
    values
}

#[test]
fn replies_are_cut_where_they_end() {
    for reply in ["+OK\r\n", ":12\r\n", "$2\r\nab\r\n", "$-1\r\n", "*-1\r\n"] {
        let nested = format!("*2\r\n*1\r\n{reply}{reply}");
        for reply in [reply, &nested] {
            let more = format!("{reply}+");
            assert_eq!(reply_len(more.as_bytes()), Some(reply.len()), "{reply:?}");
            for cut in 0..reply.len() {
                assert_eq!(reply_len(&reply.as_bytes()[..cut]), None, "{reply:?} {cut}");
            }
        }
    }
    assert_eq!(values("*2\r\n*1\r\n$2\r\nab\r\n$-1\r\n"), [Some("ab"), None]);
}
