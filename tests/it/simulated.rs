//! The world that simulations run in: a server of several shards on one thread, its network, disk
//! and clocks; the seeds to try; requests as bytes.

use std::cell::Cell;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use netback::Address;
use netback::sim::{Faults, Sim, SimClient, SimNet};
use server::clock::{self, Clock};
use server::config::Config;
use server::fabric::Fabric;
use server::process::Process;
use server::shard::Shard;
use server::start::open_shard;

/// Turns after which a run counts as stuck.
pub(crate) const TURNS_MAX: usize = 2_000_000;

/// When the simulated world begins, in microseconds since the Unix epoch.
const START_US: u64 = 1_700_000_000_000_000;

/// The clocks of a simulated machine: each look at the cycle counter takes 60 microseconds, so
/// that upkeep ends after the same number of steps in every run.
struct SimClock {
    net: SimNet,
    looks: Cell<u64>,
}

impl Clock for SimClock {
    fn unix_us(&self) -> u64 {
        START_US + self.net.now().as_micros() as u64
    }

    fn cycles(&self) -> u64 {
        self.looks.set(self.looks.get() + 1);
        clock::from_us(60) * self.looks.get()
    }

    fn run_delay_ns(&self) -> u64 {
        0
    }
}

/// A server on a simulated machine.
pub(crate) struct Server {
    pub(crate) net: SimNet,
    shards: Vec<Shard<Sim, SimClock>>,
    address: Address,
}

const CONFIG_FILE: &str = "/etc/osmia.conf";

impl Server {
    /// A server whose network and clocks follow from the seed.
    pub(crate) fn start(seed: u64, shards: usize, faults: Faults) -> Self {
        server::log::set_level(None);
        let net = SimNet::new(seed, faults);
        net.disk().make_directory(Path::new("/etc"));
        let entered = net.enter();
        let args = ["--port", "6379", "--bind", "127.0.0.1", "--save", ""];
        let mut config = Config::load(&args.map(Into::into)).expect("a good configuration");
        config.file = Some(CONFIG_FILE.into());
        let process = Arc::new(Process::new(config, shards, "sim", START_US));
        let fabric = Fabric::new(shards);
        let mut shards: Vec<_> = (0..shards)
            .map(|index| {
                let clock = SimClock { net: net.clone(), looks: Cell::new(0) };
                open_shard::<Sim, _>(index, &process, &fabric, clock, seed).expect("a shard")
            })
            .collect();
        shards[0].listen().expect("a free port");
        drop(entered);
        let address = Address::Tcp("127.0.0.1:6379".parse().expect("an address"));
        Self { net, shards, address }
    }

    /// One turn of a shard.
    pub(crate) fn tick(&mut self, shard: usize) {
        self.shards[shard].tick().expect("a working backend");
    }

    /// A new client; the first shard takes turns until there is room for it.
    pub(crate) fn connect(&mut self) -> SimClient {
        loop {
            match self.net.connect(&self.address) {
                Ok(client) => return client,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
            self.tick(0);
        }
    }
}

/// The seeds to run: the one that `OSMIA_SEED` names, or as many as `OSMIA_SEEDS` asks for, or as
/// many as a plain `cargo test` has time for.
pub(crate) fn seeds(plain: u64) -> std::ops::Range<u64> {
    match number_of("OSMIA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number_of("OSMIA_SEEDS").unwrap_or(plain),
    }
}

fn number_of(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A request of some words.
pub(crate) fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    words.iter().for_each(|word| bytes.extend_from_slice(&bulk(Some(word))));
    bytes
}

/// A bulk string or, for `None`, what stands for none.
pub(crate) fn bulk(value: Option<&[u8]>) -> Vec<u8> {
    match value {
        None => b"$-1\r\n".to_vec(),
        Some(value) => [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat(),
    }
}
