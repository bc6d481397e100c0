//! A whole server in simulation: shards, fabric, network, disk and clocks on one thread, from one
//! seed.
//!
//! Clients send drawn commands in pipelines over a network that cuts, delays and breaks; each has
//! keys of its own, so that every byte of its replies is known beforehand. A failure names its
//! seed: `OSMIA_SEED=7 cargo test -p tests simulation` repeats it, and `OSMIA_SEEDS=10000` tries
//! that many.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use netback::sim::{Faults, SimClient};

use crate::fuzz::next;
use crate::simulated::{Server, TURNS_MAX, bulk, request, seeds};

/// Seeds of one test run.
const SEEDS: u64 = 500;

/// A client that knows what it must be answered.
struct Session {
    client: SimClient,
    /// Starts its keys; a new one after a connection was lost.
    name: String,
    lives: u64,
    values: BTreeMap<u64, Vec<u8>>,
    counters: BTreeMap<u64, i64>,
    /// Commands yet to be made.
    left: u64,
    unsent: Vec<u8>,
    expected: Vec<u8>,
    received: usize,
}

impl Session {
    fn new(client: SimClient, number: u64, commands: u64) -> Self {
        Self {
            client,
            name: format!("{number}"),
            lives: 0,
            values: BTreeMap::new(),
            counters: BTreeMap::new(),
            left: commands,
            unsent: Vec::new(),
            expected: Vec::new(),
            received: 0,
        }
    }

    fn is_done(&self) -> bool {
        self.left == 0 && self.received == self.expected.len()
    }

    /// Makes a command, and behind the last one maybe bytes that break the protocol.
    fn make(&mut self, random: &mut u64) {
        self.left -= 1;
        self.make_command(random);
        let (bytes, error) = match next(random) % 3 {
            0 => ("*x\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
            1 => ("ECHO \"x\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"),
            _ => return,
        };
        if self.left == 0 {
            self.unsent.extend_from_slice(bytes.as_bytes());
            self.expected.extend_from_slice(error.as_bytes());
        }
    }

    /// Makes a command and works out its reply.
    fn make_command(&mut self, random: &mut u64) {
        let number = next(random) % 12;
        let key = format!("{}:{}:{number}", self.name, self.lives);
        let len = match next(random) % 20 {
            0 => next(random) % 20_000,
            _ => next(random) % 24,
        };
        let value: Vec<u8> = (0..len).map(|index| (index ^ *random) as u8).collect();
        let held = self.values.get(&number).cloned();
        let integer = |number: usize| format!(":{number}\r\n").into_bytes();
        let (words, reply): (Vec<&[u8]>, _) = match next(random) % 11 {
            0 | 1 => {
                self.values.insert(number, value.clone());
                (vec![b"SET", key.as_bytes(), &value], b"+OK\r\n".to_vec())
            }
            2 => {
                self.values.insert(number, value.clone());
                let words = vec![b"SET", key.as_bytes(), &value, b"EX", b"1000000000"];
                (words, b"+OK\r\n".to_vec())
            }
            3 => (vec![b"GET", key.as_bytes()], bulk(held.as_deref())),
            4 => {
                let all = self.values.entry(number).or_default();
                all.extend_from_slice(&value);
                (vec![b"APPEND", key.as_bytes(), &value], integer(all.len()))
            }
            5 => {
                let removed = self.values.remove(&number).is_some();
                (vec![b"DEL", key.as_bytes()], integer(removed.into()))
            }
            6 => {
                self.values.remove(&number);
                (vec![b"GETDEL", key.as_bytes()], bulk(held.as_deref()))
            }
            7 => {
                let len = held.as_ref().map_or(0, Vec::len);
                (vec![b"STRLEN", key.as_bytes()], integer(len))
            }
            8 if next(random).is_multiple_of(2) => {
                self.unsent.extend_from_slice(format!("PING {key}\r\n").as_bytes());
                self.expected.extend_from_slice(&bulk(Some(key.as_bytes())));
                return;
            }
            8 => (vec![b"ECHO", &value], bulk(Some(&value))),
            9 if next(random).is_multiple_of(4) => {
                (vec![b"CONFIG", b"REWRITE"], b"+OK\r\n".to_vec())
            }
            _ => {
                let count = self.counters.entry(number).or_default();
                *count += 1;
                let reply = integer(*count as usize);
                self.unsent.extend_from_slice(&request(&[b"INCR", format!("n{key}").as_bytes()]));
                self.expected.extend_from_slice(&reply);
                return;
            }
        };
        self.unsent.extend_from_slice(&request(&words));
        self.expected.extend_from_slice(&reply);
    }

    /// Writes and reads what the network takes and has; returns what came, or `None` for a
    /// connection that is lost.
    fn exchange(&mut self) -> Option<Vec<u8>> {
        match self.client.write(&self.unsent) {
            Ok(len) => drop(self.unsent.drain(..len)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
        let mut bytes = vec![0; 4096];
        match self.client.read(&mut bytes) {
            Ok(0) => None,
            Ok(len) => {
                bytes.truncate(len);
                Some(bytes)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Some(Vec::new()),
            Err(_) => None,
        }
    }

    fn check(&mut self, bytes: &[u8], seed: u64) {
        let rest = &self.expected[self.received..];
        assert!(
            rest.starts_with(bytes),
            "seed {seed}, client {}: got {:?} where {:?} should be",
            self.name,
            bytes.escape_ascii().to_string(),
            rest[..rest.len().min(bytes.len() + 20)].escape_ascii().to_string(),
        );
        self.received += bytes.len();
    }

    /// Goes on with a new connection and new keys: what of the old ones happened is unknown.
    fn reconnect(&mut self, client: SimClient) {
        let (name, left, lives) = (std::mem::take(&mut self.name), self.left, self.lives + 1);
        *self = Self { name, lives, ..Self::new(client, 0, left) };
    }
}

/// Runs some clients to their ends; returns a hash of all that happened, as the clients saw it.
fn run(seed: u64) -> u64 {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    next(&mut random);
    let shards = [1, 1, 2, 3][(next(&mut random) % 4) as usize];
    let faults = Faults::drawn(seed);
    let mut server = Server::start(seed, shards, faults);
    let clients = 1 + next(&mut random) % 6;
    let mut sessions: Vec<Session> = (0..clients)
        .map(|number| Session::new(server.connect(), number, 40 + next(&mut random) % 200))
        .collect();
    let mut seen = DefaultHasher::new();
    for _ in 0..TURNS_MAX {
        if sessions.iter().all(Session::is_done) {
            return seen.finish();
        }
        if next(&mut random).is_multiple_of(2) {
            server.tick((next(&mut random) % shards as u64) as usize);
            continue;
        }
        let index = (next(&mut random) % clients) as usize;
        let session = &mut sessions[index];
        if session.unsent.len() < 4096 {
            let burst = (next(&mut random) % 20).min(session.left);
            (0..burst).for_each(|_| session.make(&mut random));
        }
        let came = session.exchange();
        (index, &came).hash(&mut seen);
        match came {
            Some(bytes) => session.check(&bytes, seed),
            None => {
                assert!(faults.resets > 0 || session.is_done(), "seed {seed}: a lost connection");
                sessions[index].reconnect(server.connect());
            }
        }
    }
    panic!("seed {seed}: no end after {TURNS_MAX} turns");
}

#[test]
fn every_client_gets_its_replies_in_order() {
    for seed in seeds(SEEDS) {
        run(seed);
    }
}

#[test]
fn a_seed_is_a_run() {
    for seed in 0..8 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}

#[test]
fn keys_go_when_they_are_due_and_no_earlier() {
    let mut server = Server::start(1, 1, Faults::NONE);
    let mut session = Session::new(server.connect(), 0, 0);
    let mut ask = |server: &mut Server, words: &[&[u8]], expected: &[u8]| {
        session.unsent = request(words);
        session.expected = expected.to_vec();
        session.received = 0;
        while session.received < session.expected.len() {
            let came = session.exchange().expect("a connection that stays");
            session.check(&came, 1);
            server.tick(0);
        }
    };
    ask(&mut server, &[b"SET", b"a", b"1", b"PX", b"5000"], b"+OK\r\n");
    ask(&mut server, &[b"SET", b"b", b"1", b"PX", b"9000"], b"+OK\r\n");
    let begin = server.net.now();
    for (ms, keys) in [(4900, ":2\r\n"), (5100, ":1\r\n"), (8900, ":1\r\n"), (9100, ":0\r\n")] {
        while server.net.now() < begin + Duration::from_millis(ms) {
            server.tick(0);
        }
        ask(&mut server, &[b"DBSIZE"], keys.as_bytes());
    }
}
