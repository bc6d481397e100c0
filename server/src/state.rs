//! A shard's state beside its keyspace: settings, clients, counters, what the tick left to do.

use std::sync::Arc;

use netback::{Close, ConnId, FileOp};

use crate::clock;
use crate::config::{Config, OutputLimit};
use crate::conn::{Client, Clients};
use crate::cron::Rates;
use crate::fabric::PeerMessage;
use crate::keyspace::ShardSet;
use crate::process::Process;
use crate::replace_file::ReplaceFile;
use crate::resp::Limits;
use crate::stats::Stats;

/// Reply and query buffers kept for reuse.
const POOL_LEN_MAX: usize = 64;

/// Buffers with more room than this are freed, not kept.
const POOL_CAPACITY_MAX: usize = 64 * 1024;

/// Settings that the request path reads, in the form in which it wants them.
#[derive(Clone, Copy, Debug)]
pub struct Hot {
    /// `proto-max-bulk-len`.
    pub bulk_max: i64,
    /// `client-query-buffer-limit`.
    pub query_buffer_max: usize,
    /// `slowlog-log-slower-than` in cycles; `u64::MAX` is never.
    pub slow_cycles: u64,
    /// `slowlog-max-len`.
    pub slow_log_len_max: usize,
    /// `client-output-buffer-limit` of normal clients.
    pub output_limit: OutputLimit,
    /// `maxmemory`; 0 is without limit.
    pub memory_max: u64,
    /// Whether clients must authenticate.
    pub password_required: bool,
    /// `pipeline-order relaxed`.
    pub relaxed_order: bool,
}

/// A shard's state beside its keyspace.
pub struct ShardState {
    /// Number of the shard.
    pub index: usize,
    /// What all shards share.
    pub process: Arc<Process>,
    /// The configuration as of [`ShardState::config_version`].
    pub config: Config,
    /// Version of [`ShardState::config`].
    pub config_version: u64,
    /// Version of the counters: CONFIG RESETSTAT begins a new one.
    pub stats_version: u64,
    /// Settings of the request path.
    pub hot: Hot,
    /// Counters.
    pub stats: Stats,
    /// Rates of the last seconds.
    pub rates: Rates,
    /// The clients, but the one whose command is running.
    pub clients: Clients,
    /// The tick's time, microseconds since the Unix epoch.
    pub now_us: u64,
    /// The cycle counter when the last command ended.
    pub cycles: u64,
    /// Clients with replies to send, or to be closed.
    pub dirty: Vec<ConnId>,
    /// Messages of the tick, by shard.
    pub outgoing: Vec<Vec<PeerMessage>>,
    /// Shards to be woken at the end of the tick even without a message.
    pub wake: ShardSet,
    /// Requests under way, by shard; in our own place those that wait for files.
    pub under_way: Vec<usize>,
    /// Files that clients wait for, with the first operation of each, to be started at the end of
    /// the tick.
    pub file_jobs: Vec<(ConnId, ReplaceFile, FileOp)>,
    /// Log position up to which all is durable; replies with later marks wait.
    pub durable_position: u64,
    /// State of the random number generator.
    random: u64,
    buffers: Vec<Vec<u8>>,
}

impl ShardState {
    /// State for a shard that is starting.
    pub fn new(index: usize, process: Arc<Process>, now_us: u64, seed: u64) -> Self {
        let config_version = process.config_version();
        let config = process.config();
        let stats_version = process.stats_version();
        let shards = process.shards;
        let mut state = Self {
            index,
            process,
            hot: hot(&config),
            config,
            config_version,
            stats_version,
            stats: Stats::default(),
            rates: Rates::default(),
            clients: Clients::default(),
            now_us,
            cycles: clock::cycles(),
            dirty: Vec::new(),
            outgoing: (0..shards).map(|_| Vec::new()).collect(),
            wake: ShardSet::default(),
            under_way: vec![0; shards],
            file_jobs: Vec::new(),
            durable_position: u64::MAX,
            random: seed | 1,
            buffers: Vec::new(),
        };
        state.apply_config();
        state
    }

    /// The tick's time in milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.now_us / 1000
    }

    /// Takes over the process's configuration if it has changed; says whether it has.
    pub fn refresh_config(&mut self) -> bool {
        let version = self.process.config_version();
        if version == self.config_version {
            return false;
        }
        self.config = self.process.config();
        self.config_version = version;
        self.apply_config();
        true
    }

    fn apply_config(&mut self) {
        self.hot = hot(&self.config);
        self.stats.track_latency = self.config.latency_tracking;
    }

    /// What a client may send now.
    pub fn limits(&self, client: &Client) -> Limits {
        Limits { bulk_max: self.hot.bulk_max, authenticated: client.authenticated }
    }

    /// The next random number (xorshift64*, after Vigna 2016).
    pub fn random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// An empty buffer.
    #[inline]
    pub fn take_buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    /// Gives a buffer back.
    #[inline]
    pub fn give_buffer(&mut self, mut buffer: Vec<u8>) {
        if self.buffers.len() < POOL_LEN_MAX && (1..=POOL_CAPACITY_MAX).contains(&buffer.capacity())
        {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    /// Bytes of pooled buffers.
    pub fn pool_bytes(&self) -> usize {
        self.buffers.iter().map(Vec::capacity).sum()
    }

    /// Has the end of the tick look at a client.
    #[inline]
    pub fn mark_dirty(&mut self, client: &mut Client) {
        if !client.dirty {
            client.dirty = true;
            self.dirty.push(client.conn);
        }
    }

    /// Closes another client at the end of the tick.
    pub fn close_other(&mut self, conn: ConnId, how: Close) {
        if let Some(client) = self.clients.get_mut(conn) {
            client.close = Some(how);
            if !client.dirty {
                client.dirty = true;
                self.dirty.push(conn);
            }
        }
    }
}

fn hot(config: &Config) -> Hot {
    Hot {
        bulk_max: config.proto_max_bulk_len,
        query_buffer_max: config.client_query_buffer_limit as usize,
        slow_cycles: u64::try_from(config.slowlog_log_slower_than).map_or(u64::MAX, clock::from_us),
        slow_log_len_max: config.slowlog_max_len as usize,
        output_limit: config.output_limit(),
        memory_max: config.maxmemory,
        password_required: !config.requirepass.is_empty(),
        relaxed_order: config.pipeline_order_relaxed(),
    }
}
