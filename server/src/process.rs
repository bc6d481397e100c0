//! What the shards of one process share: configuration, identity, client numbers, shutdown.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use netback::ConnId;

use crate::blocking::Pause;
use crate::cluster::Cluster;
use crate::config::Config;
use crate::monitor::Feed;
use crate::pubsub::Registry;
use crate::reserve::Reservations;
use crate::slowlog::SlowLog;
use crate::tracking::Prefixes;

/// Shared state; each shard holds it in an `Arc`.
pub struct Process {
    config: Mutex<Config>,
    /// Counts changes of the configuration, so that shards notice.
    config_version: AtomicU64,
    /// 40 hexadecimal digits, new at each start.
    pub run_id: String,
    /// When the process started, microseconds since the Unix epoch.
    pub started_us: u64,
    /// How many shards there are.
    pub shards: usize,
    /// The network backend's name.
    pub backend: &'static str,
    /// Path of the program.
    pub executable: String,
    next_client_id: AtomicU64,
    /// Until when CLIENT PAUSE stops commands, milliseconds since the Unix epoch.
    paused_until_ms: AtomicU64,
    /// Whether it stops reads, too.
    paused_all: AtomicBool,
    /// Whether RESTORE takes payloads with a wrong checksum (DEBUG).
    skips_checksums: AtomicBool,
    slow_log: Mutex<SlowLog>,
    /// Bytes in use by each shard, as of its last turn of [`crate::cron`].
    used_memory: Vec<AtomicU64>,
    /// What all clients do, for those who monitor.
    pub feed: Feed,
    /// Nodes and hash slots.
    pub cluster: Cluster,
    /// Prefixes of clients that track by broadcast.
    pub prefixes: Prefixes,
    /// Where each client is.
    homes: Mutex<BTreeMap<u64, (u16, ConnId)>>,
    /// Subscribers by shard.
    pub pubsub: Registry,
    /// Who may have which shards' shares.
    pub reservations: Reservations,
    stats_version: AtomicU64,
    /// Clients connected, by shard.
    pub clients: Vec<AtomicUsize>,
    shutdown: AtomicBool,
    wakers: Mutex<Vec<Box<dyn Fn() + Send>>>,
}

impl Process {
    /// State for a process that is starting.
    pub fn new(config: Config, shards: usize, backend: &'static str, started_us: u64) -> Self {
        let per_shard = config.is_port_per_shard();
        Self {
            config: Mutex::new(config),
            config_version: AtomicU64::new(1),
            run_id: random_hex(),
            started_us,
            shards,
            backend,
            executable: std::env::current_exe()
                .map(|path| path.display().to_string())
                .unwrap_or_default(),
            next_client_id: AtomicU64::new(1),
            paused_until_ms: AtomicU64::new(0),
            paused_all: AtomicBool::new(false),
            skips_checksums: AtomicBool::new(false),
            slow_log: Mutex::default(),
            used_memory: (0..shards).map(|_| AtomicU64::new(0)).collect(),
            feed: Feed::new(shards),
            cluster: Cluster::new(per_shard, shards),
            prefixes: Prefixes::default(),
            homes: Mutex::default(),
            pubsub: Registry::default(),
            reservations: Reservations::new(shards),
            stats_version: AtomicU64::new(1),
            clients: (0..shards).map(|_| AtomicUsize::new(0)).collect(),
            shutdown: AtomicBool::new(false),
            wakers: Mutex::new(Vec::new()),
        }
    }

    /// The configuration's version; it grows with each change.
    #[inline]
    pub fn config_version(&self) -> u64 {
        self.config_version.load(Ordering::Acquire)
    }

    /// A copy of the configuration.
    pub fn config(&self) -> Config {
        self.config.lock().expect("no thread panics while it holds the lock").clone()
    }

    /// Changes the configuration; other shards notice by its version.
    pub fn change_config<R>(&self, change: impl FnOnce(&mut Config) -> R) -> R {
        let mut config = self.config.lock().expect("no thread panics while it holds the lock");
        let result = change(&mut config);
        self.config_version.fetch_add(1, Ordering::Release);
        result
    }

    /// The next client number.
    pub fn next_client_id(&self) -> u64 {
        self.next_client_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Tells where a client is, or that it has gone.
    pub fn set_home(&self, id: u64, home: Option<(usize, ConnId)>) {
        let mut homes = self.homes.lock().expect("no thread panics while it holds the lock");
        match home {
            Some((shard, conn)) => homes.insert(id, (shard as u16, conn)),
            None => homes.remove(&id),
        };
    }

    /// The shard and the connection of a client.
    pub fn home_of(&self, id: u64) -> Option<(usize, ConnId)> {
        let homes = self.homes.lock().expect("no thread panics while it holds the lock");
        homes.get(&id).map(|(shard, conn)| (usize::from(*shard), *conn))
    }

    /// What is stopped at a time in milliseconds.
    #[inline]
    pub fn pause(&self, now_ms: u64) -> Pause {
        if self.paused_until_ms.load(Ordering::Acquire) <= now_ms {
            return Pause::None;
        }
        if self.paused_all.load(Ordering::Acquire) { Pause::All } else { Pause::Writes }
    }

    /// Stops commands until a time in milliseconds, or until that of an earlier pause if it is
    /// later.
    pub fn pause_until(&self, until_ms: u64, all: bool) {
        self.paused_all.store(all, Ordering::Release);
        self.paused_until_ms.fetch_max(until_ms, Ordering::AcqRel);
    }

    /// Sets whether payloads of DUMP must have the right checksum.
    pub fn check_payloads(&self, on: bool) {
        self.skips_checksums.store(!on, Ordering::Relaxed);
    }

    /// Whether payloads of DUMP must have the right checksum.
    pub fn checks_payloads(&self) -> bool {
        !self.skips_checksums.load(Ordering::Relaxed)
    }

    /// Ends the pause.
    pub fn unpause(&self) {
        self.paused_until_ms.store(0, Ordering::Release);
    }

    /// The slow log of all shards. It is touched only by slow commands and by SLOWLOG.
    pub fn slow_log(&self) -> MutexGuard<'_, SlowLog> {
        self.slow_log.lock().expect("no thread panics while it holds the lock")
    }

    /// Tells the other shards how many bytes one uses.
    pub fn set_used_memory(&self, shard: usize, bytes: u64) {
        self.used_memory[shard].store(bytes, Ordering::Relaxed);
    }

    /// Bytes in use by the other shards, a tenth of a second old at most.
    pub fn used_by_others(&self, shard: usize) -> u64 {
        let others = self.used_memory.iter().enumerate().filter(|(other, _)| *other != shard);
        others.map(|(_, bytes)| bytes.load(Ordering::Relaxed)).sum()
    }

    /// Asks all shards to set their counters back; they notice as they notice a change of the
    /// configuration. Returns the version of counters that begins now.
    pub fn reset_stats(&self) -> u64 {
        let version = self.stats_version.fetch_add(1, Ordering::AcqRel) + 1;
        self.config_version.fetch_add(1, Ordering::Release);
        version
    }

    /// Which version of counters is current.
    pub fn stats_version(&self) -> u64 {
        self.stats_version.load(Ordering::Acquire)
    }

    /// Clients connected, over all shards.
    pub fn client_count(&self) -> usize {
        self.clients.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// The shard with the fewest clients.
    pub fn least_loaded_shard(&self) -> usize {
        let loads = self.clients.iter().enumerate();
        let least = loads.min_by_key(|(_, count)| count.load(Ordering::Relaxed));
        least.map_or(0, |(shard, _)| shard)
    }

    /// Adds a way to wake a shard.
    pub fn add_waker(&self, wake: Box<dyn Fn() + Send>) {
        self.wakers.lock().expect("no thread panics while it holds the lock").push(wake);
    }

    /// Asks all shards to stop.
    pub fn shut_down(&self) {
        self.shutdown.store(true, Ordering::Release);
        self.wake_all();
    }

    /// Wakes all shards.
    pub fn wake_all(&self) {
        for wake in self.wakers.lock().expect("no thread panics while it holds the lock").iter() {
            wake();
        }
    }

    /// Whether the shards have been asked to stop.
    #[inline]
    pub fn is_shutting_down(&self) -> bool {
        self.shutdown.load(Ordering::Acquire)
    }
}

/// 40 random hexadecimal digits, from the operating system.
pub(crate) fn random_hex() -> String {
    let bytes = crate::system::random_bytes::<20>().unwrap_or_else(|| {
        // Without a random device the process number still tells two servers apart.
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&std::process::id().to_le_bytes());
        bytes
    });
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
