//! Commands over several shards happen at one instant: histories of some clients on a few keys,
//! checked against one keyspace that runs a command after another.
//!
//! Most run in simulation, so that a failure is repeated by its seed (`OSMIA_SEED=7 cargo test -p
//! tests linearizability`; `OSMIA_SEEDS=10000` tries that many). The same clients then talk to a
//! server of real threads over real sockets, where each run is another one.

mod clients;
mod history;
mod model;

use std::net::TcpStream;
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use netback::epoll::Epoll;
use netback::sim::{Faults, SimClient};
use server::clock::{Clock, OsClock};
use server::config::Config;
use server::fabric::Fabric;
use server::keyspace::shard_of;
use server::process::Process;
use server::start::open_shard;

use crate::fuzz::next;
use crate::simulated::{Server, TURNS_MAX, seeds};
use clients::{Client, Draw, values};
use history::History;
use model::{Command, KEYS_MAX};

/// Seeds of one test run.
const SEEDS: u64 = 1000;

/// Commands that a client sends without waiting for replies.
const PIPELINE_MAX: u64 = 3;

/// Of a thousand reads and writes of the server: what was under way on a lost connection may have
/// happened at any time after, which takes the checker long and proves little.
const RESETS_MAX: u16 = 4;

/// How long a test talks to real threads.
const REAL_TIME: Duration = Duration::from_millis(1500);

const REAL_SHARDS: usize = 4;
const REAL_CLIENTS: u64 = 4;

/// Names of keys that lie on the shards in turn.
fn names(keys: usize, shards: usize, prefix: &str) -> Vec<String> {
    let mut numbers = 0..;
    let on_shard = |name: &String| shard_of(engine::hash_slot(name.as_bytes()), shards);
    (0..keys)
        .map(|key| {
            let mut names = numbers.by_ref().map(|number: u32| format!("{prefix}{number}"));
            names.find(|name| on_shard(name) == key % shards).expect("one of many")
        })
        .collect()
}

/// A simulated server and its clients.
struct World {
    seed: u64,
    random: u64,
    shards: usize,
    server: Server,
    clients: Vec<Client<SimClient>>,
    /// Clients so far, those of lost connections too.
    numbers: u64,
    history: History,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        next(&mut random);
        let mut below = |end: u64| (next(&mut random) >> 8) % end;
        let shards = 1 + below(4) as usize;
        let keys = 3 + below(KEYS_MAX as u64 - 2) as usize;
        let numbers = 2 + below(4);
        let faults = Faults::drawn(seed);
        let faults = Faults { resets: faults.resets.min(RESETS_MAX), ..faults };
        let mut server = Server::start(seed, shards, faults);
        let clients: Vec<_> = (0..numbers)
            .map(|number| Client::new(server.connect(), number, below(u64::MAX), keys))
            .collect();
        let history = History::new(names(keys, shards, "k"), shards);
        Self { seed, random, shards, server, clients, numbers, history }
    }

    fn below(&mut self, end: u64) -> u64 {
        (next(&mut self.random) >> 8) % end
    }

    /// Has each client send its number of drawn commands, and waits for all replies.
    fn run(&mut self, commands: u64, draw: fn(&mut Draw) -> Command) {
        let pipeline_max = if self.below(2) == 0 { 1 } else { PIPELINE_MAX };
        let mut left = vec![commands; self.clients.len()];
        for _ in 0..TURNS_MAX {
            if left.iter().all(|left| *left == 0) && self.clients.iter().all(Client::is_idle) {
                return;
            }
            if self.below(2) == 0 {
                let shard = self.below(self.shards as u64) as usize;
                self.server.tick(shard);
                continue;
            }
            let index = self.below(self.clients.len() as u64) as usize;
            let pipeline = (1 + self.below(pipeline_max)).min(left[index]);
            let Self { server, clients, numbers, history, .. } = self;
            let client = &mut clients[index];
            if client.is_idle() {
                left[index] -= pipeline;
                for _ in 0..pipeline {
                    let command = draw(&mut client.draw);
                    client.invoke(command, history);
                }
            }
            if client.exchange() {
                client.note_replies(history);
            } else {
                client.reconnect(server.connect(), *numbers);
                *numbers += 1;
            }
        }
        panic!("seed {}: no end after {TURNS_MAX} turns\n{}", self.seed, self.history);
    }

    /// Reads all keys when nothing else is under way, until a connection holds for as long.
    fn read_all(&mut self) {
        let before = self.history.completed().count();
        while self.history.completed().count() == before {
            self.clients.truncate(1);
            self.run(1, Draw::all);
        }
    }
}

#[test]
fn histories_in_simulation_have_an_order() {
    for seed in seeds(SEEDS) {
        let mut world = World::new(seed);
        let commands = 3 + world.below(8);
        world.run(commands, Draw::any);
        world.read_all();
        assert!(world.history.is_linearizable(), "seed {seed} has no order:\n{}", world.history);
    }
}

#[test]
fn reads_in_simulation_are_never_torn() {
    for seed in seeds(SEEDS) {
        let mut world = World::new(seed);
        let commands = 20 + world.below(40);
        world.run(commands, Draw::of_one_value);
        world.read_all();
        assert!(!has_torn_reads(&world.history), "seed {seed} has a torn read:\n{}", world.history);
    }
}

fn has_torn_reads(history: &History) -> bool {
    history.completed().any(|(_, reply)| {
        let values = values(reply);
        values.iter().any(|value| *value != values[0])
    })
}

/// A server of real threads.
struct Threads {
    process: Arc<Process>,
    threads: Vec<JoinHandle<()>>,
    port: u16,
}

impl Threads {
    fn start() -> Self {
        server::log::set_level(None);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let args = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""];
        let config = Config::load(&args.map(Into::into)).expect("a good configuration");
        let process = Arc::new(Process::new(config, REAL_SHARDS, "epoll", OsClock.unix_us()));
        let fabric = Fabric::new(REAL_SHARDS);
        let (ready, opened) = mpsc::channel();
        let threads = (0..REAL_SHARDS)
            .map(|index| {
                let (process, fabric, ready) =
                    (Arc::clone(&process), Arc::clone(&fabric), ready.clone());
                std::thread::spawn(move || {
                    let mut shard = open_shard::<Epoll, _>(index, &process, &fabric, OsClock, 1)
                        .expect("a shard");
                    if index == 0 {
                        shard.listen().expect("a free port");
                    }
                    ready.send(()).expect("somebody who waits");
                    drop(ready);
                    shard.run().expect("a working backend");
                })
            })
            .collect();
        drop(ready);
        assert_eq!(opened.iter().count(), REAL_SHARDS);
        Self { process, threads, port }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_nodelay(true).expect("an option");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        stream
    }

    fn stop(self) {
        self.process.shut_down();
        self.threads.into_iter().for_each(|thread| thread.join().expect("a good end"));
    }
}

/// Has real clients talk to real threads, round after round with new keys; returns the rounds.
fn real_rounds(commands: u64, draw: fn(&mut Draw) -> Command, check: fn(&History)) -> u64 {
    let server = Threads::start();
    let keys = REAL_SHARDS + 1;
    let end_us = OsClock.unix_us() + REAL_TIME.as_micros() as u64;
    let mut random = end_us | 1;
    let mut rounds = 0;
    while OsClock.unix_us() < end_us {
        let names = names(keys, REAL_SHARDS, &format!("{rounds}:"));
        let history = Mutex::new(History::new(names, REAL_SHARDS));
        let start = Barrier::new(REAL_CLIENTS as usize);
        std::thread::scope(|scope| {
            for number in 0..REAL_CLIENTS {
                let (history, start, random) = (&history, &start, next(&mut random));
                let client = Client::new(server.connect(), number, random, keys);
                scope.spawn(move || {
                    start.wait();
                    talk(client, commands, draw, history);
                });
            }
        });
        check(&history.into_inner().expect("clients that did not fail"));
        rounds += 1;
    }
    server.stop();
    rounds
}

/// Sends a client's commands and waits for all replies; invocations are noted before they leave, replies when they are here.
fn talk(
    mut client: Client<TcpStream>,
    mut commands: u64,
    draw: fn(&mut Draw) -> Command,
    history: &Mutex<History>,
) {
    let lock = || history.lock().expect("clients that did not fail");
    while commands > 0 {
        let pipeline = (1 + commands % PIPELINE_MAX).min(commands);
        commands -= pipeline;
        for _ in 0..pipeline {
            let command = draw(&mut client.draw);
            client.invoke(command, &mut lock());
        }
        while !client.is_idle() {
            assert!(client.exchange(), "a lost connection");
            client.note_replies(&mut lock());
        }
    }
}

#[test]
fn histories_of_real_threads_have_an_order() {
    let rounds = real_rounds(8, Draw::any, |history| {
        assert!(history.is_linearizable(), "no order:\n{history}");
    });
    assert!(rounds > 0);
}

#[test]
fn reads_from_real_threads_are_never_torn() {
    let rounds = real_rounds(60, Draw::of_one_value, |history| {
        assert!(!has_torn_reads(history), "a torn read:\n{history}");
    });
    assert!(rounds > 0);
}
