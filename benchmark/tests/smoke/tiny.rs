//! A tiny server inside the test: enough of the protocol for every benchmark to run in a moment.
//!
//! It counts memory in a way that tests can predict: the bytes of its keys and values.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use benchmark::clock;
use benchmark::wire::{self, Measured, Reply};

/// A value and the time it falls due at.
struct Entry {
    value: Vec<u8>,
    expire_at_ms: Option<u64>,
}

/// What all its connections share.
pub(crate) struct Tiny {
    keyspace: Mutex<BTreeMap<Vec<u8>, Entry>>,
    /// Commands run, PING and INFO left out.
    pub(crate) commands: AtomicU64,
    /// Every command of this number and its multiples is answered with an error; 0 for none.
    pub(crate) error_every: AtomicU64,
    /// The hash slots that it serves as a node of a cluster.
    slots: Option<Range<usize>>,
}

/// Starts a server; it lives as long as the test.
pub(crate) fn start() -> (Arc<Tiny>, SocketAddr) {
    start_with(None)
}

/// Starts a node of a cluster, which refuses keys of other nodes and keys of several hash slots.
pub(crate) fn start_node(slots: Range<usize>) -> (Arc<Tiny>, SocketAddr) {
    start_with(Some(slots))
}

fn start_with(slots: Option<Range<usize>>) -> (Arc<Tiny>, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let tiny = Arc::new(Tiny {
        keyspace: Mutex::new(BTreeMap::new()),
        commands: AtomicU64::new(0),
        error_every: AtomicU64::new(0),
        slots,
    });
    let shared = Arc::clone(&tiny);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let tiny = Arc::clone(&shared);
            std::thread::spawn(move || tiny.serve(stream));
        }
    });
    (tiny, address)
}

impl Tiny {
    fn serve(&self, mut stream: TcpStream) {
        let mut received = Vec::new();
        let mut chunk = [0; 4096];
        while let Ok(len @ 1..) = stream.read(&mut chunk) {
            received.extend_from_slice(&chunk[..len]);
            let mut replies = Vec::new();
            while let Measured::Whole { len, .. } = wire::measure(&received) {
                if received.is_empty() {
                    break;
                }
                if let Some(Reply::Array(words)) = wire::read(&received[..len]) {
                    self.answer(&words, &mut replies);
                }
                received.drain(..len);
            }
            if stream.write_all(&replies).is_err() {
                return;
            }
        }
    }

    fn answer(&self, words: &[Reply], replies: &mut Vec<u8>) {
        let words: Vec<&[u8]> = words
            .iter()
            .map(|word| match word {
                Reply::Bulk(bytes) => &bytes[..],
                _ => b"",
            })
            .collect();
        let command = String::from_utf8_lossy(words[0]).to_uppercase();
        if !["PING", "INFO", "FLUSHALL"].contains(&&*command) {
            let number = self.commands.fetch_add(1, Ordering::Relaxed) + 1;
            let every = self.error_every.load(Ordering::Relaxed);
            if every > 0 && number.is_multiple_of(every) {
                return replies.extend_from_slice(b"-ERR asked for\r\n");
            }
        }
        if let Some(error) = self.refusal(&command, &words[1..]) {
            return replies.extend_from_slice(error);
        }
        let mut keyspace = self.keyspace.lock().expect("no panic");
        match (&*command, &words[1..]) {
            ("PING", _) => replies.extend_from_slice(b"+PONG\r\n"),
            ("CONFIG", _) => replies.extend_from_slice(b"+OK\r\n"),
            ("FLUSHALL", _) => {
                keyspace.clear();
                replies.extend_from_slice(b"+OK\r\n");
            }
            ("INFO", _) => {
                let used: usize = keyspace.iter().map(|(key, e)| key.len() + e.value.len()).sum();
                let text = format!("# All\r\nused_memory:{used}\r\ntick_longest_us:7\r\n");
                bulk(text.as_bytes(), replies);
            }
            ("DBSIZE", _) => {
                let now = clock::unix_ms();
                keyspace.retain(|_, entry| entry.expire_at_ms.is_none_or(|at| at > now));
                replies.extend_from_slice(format!(":{}\r\n", keyspace.len()).as_bytes());
            }
            ("SET", [key, value, expire @ ..]) => {
                let time = |unit: u64, text: &[u8]| {
                    std::str::from_utf8(text).ok()?.parse().ok().map(|time: u64| time * unit)
                };
                let expire_at_ms = match expire {
                    [b"EX", seconds] => time(1000, seconds).map(|ms| clock::unix_ms() + ms),
                    [b"PXAT", ms] => time(1, ms),
                    _ => None,
                };
                keyspace.insert(key.to_vec(), Entry { value: value.to_vec(), expire_at_ms });
                replies.extend_from_slice(b"+OK\r\n");
            }
            ("MSET", pairs) => {
                for pair in pairs.chunks_exact(2) {
                    let entry = Entry { value: pair[1].to_vec(), expire_at_ms: None };
                    keyspace.insert(pair[0].to_vec(), entry);
                }
                replies.extend_from_slice(b"+OK\r\n");
            }
            ("MGET", keys) => {
                replies.extend_from_slice(format!("*{}\r\n", keys.len()).as_bytes());
                for key in keys {
                    let value = keyspace.get(*key).map(|entry| &entry.value[..]);
                    bulk(value.expect("a key that was made"), replies);
                }
            }
            ("PUBLISH", [_, _]) => replies.extend_from_slice(b":0\r\n"),
            ("SETRANGE", [key, offset, _]) => {
                let len = String::from_utf8_lossy(offset).parse::<usize>().expect("an offset") + 1;
                let entry = Entry { value: vec![b'x'; len], expire_at_ms: None };
                keyspace.insert(key.to_vec(), entry);
                replies.extend_from_slice(format!(":{len}\r\n").as_bytes());
            }
            ("GET", [key]) => match keyspace.get(*key) {
                Some(entry) if entry.expire_at_ms.is_none_or(|at| at > clock::unix_ms()) => {
                    bulk(&entry.value, replies);
                }
                _ => replies.extend_from_slice(b"$-1\r\n"),
            },
            ("DEL", [key]) => {
                let count = usize::from(keyspace.remove(*key).is_some());
                replies.extend_from_slice(format!(":{count}\r\n").as_bytes());
            }
            _ => replies.extend_from_slice(b"-ERR unknown command\r\n"),
        }
    }

    /// What a node of a cluster says to keys that it cannot serve.
    fn refusal(&self, command: &str, arguments: &[&[u8]]) -> Option<&'static [u8]> {
        let served = self.slots.as_ref()?;
        let step = match command {
            "GET" | "SET" => arguments.len(),
            "MGET" => 1,
            "MSET" => 2,
            _ => return None,
        };
        let keys = arguments.iter().step_by(step);
        let slots: Vec<usize> = keys.map(|key| engine::hash_slot(key).into()).collect();
        if slots.iter().any(|slot| *slot != slots[0]) {
            return Some(b"-CROSSSLOT Keys in request don't hash to the same slot\r\n");
        }
        let is_served = served.contains(&slots[0]);
        (!is_served).then_some(b"-MOVED 1 127.0.0.1:1\r\n")
    }
}

fn bulk(bytes: &[u8], replies: &mut Vec<u8>) {
    replies.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
    replies.extend_from_slice(bytes);
    replies.extend_from_slice(b"\r\n");
}
