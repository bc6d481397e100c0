//! A shard's state beside its keyspace: settings, clients, counters, what the tick left to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use netback::{Close, ConnId, FileOp};

use crate::blocking::{Pause, Waits};
use crate::clock;
use crate::cluster::AwaitSaved;
use crate::config::{Config, OutputLimit};
use crate::conn::{Client, Clients, SharedBytes};
use crate::cron::Rates;
use crate::fabric::PeerMessage;
use crate::keyspace::ShardSet;
use crate::notify::Classes;
use crate::process::Process;
use crate::pubsub::Subscriptions;
use crate::replace_file::{Owner, ReplaceFile};
use crate::resp::{Limits, Reply};
use crate::stats::Stats;
use crate::tracking::TrackingState;

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
    /// `client-output-buffer-limit` of normal clients, and of subscribers.
    pub output_limits: [OutputLimit; 2],
    /// `notify-keyspace-events`.
    pub events: Classes,
    /// This shard's part of `tracking-table-max-keys`; 0 is without limit.
    pub tracked_keys_max: usize,
    /// `maxmemory`; 0 is without limit.
    pub memory_max: u64,
    /// Whether clients must authenticate.
    pub password_required: bool,
    /// `pipeline-order relaxed`.
    pub relaxed_order: bool,
    /// Requests for hash slots of other nodes are refused.
    pub redirects: bool,
    /// `cluster-slot-stats-enabled`, in a cluster.
    pub slot_stats: bool,
}

/// Empty buffers that are kept for reuse.
#[derive(Debug, Default)]
pub struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    /// Takes a buffer in, unless there are enough or it is too large.
    #[inline]
    pub fn give(&mut self, mut buffer: Vec<u8>) {
        if self.0.len() < POOL_LEN_MAX && (1..=POOL_CAPACITY_MAX).contains(&buffer.capacity()) {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}

/// A shard's state beside its keyspace.
pub struct ShardState {
    /// Number of the shard.
    pub index: usize,
    /// What all shards share.
    pub process: Arc<Process>,
    /// A peer has not taken what it was told; see [`crate::fabric::TOLD_BYTES_MAX`].
    pub peers_behind: bool,
    /// Clients that wait for this.
    pub held_by_peers: Vec<ConnId>,
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
    /// Subscribers among the clients.
    pub subscriptions: Subscriptions,
    /// Clients that monitor.
    pub monitors: Vec<ConnId>,
    /// Clients that wait.
    pub waits: Waits,
    /// What CLIENT PAUSE has stopped, as of the tick's begin.
    pub pause: Pause,
    /// Client-side caching.
    pub tracking: TrackingState,
    /// Bytes of messages that are shared between clients.
    pub shared_bytes: Arc<AtomicUsize>,
    /// The client whose command is running, and what it is to get behind the reply.
    pub running: Option<ConnId>,
    own_pushes: Vec<Arc<SharedBytes>>,
    /// Messages of the tick, by shard.
    pub outgoing: Vec<Vec<PeerMessage>>,
    /// Shards to be woken at the end of the tick even without a message.
    pub wake: ShardSet,
    /// Requests under way, by shard; in our own place those that wait for files.
    pub under_way: Vec<usize>,
    /// Files to be replaced, with the first operation of each, to be started at the end of the
    /// tick.
    pub file_jobs: Vec<(Owner, ReplaceFile, FileOp)>,
    /// Clients that wait for the cluster's file.
    pub await_saved: Vec<AwaitSaved>,
    /// Effects at hand, empty between units of work.
    pub effects: Vec<u8>,
    /// Log position up to which all is durable; replies with later marks wait.
    pub durable_position: u64,
    /// State of the random number generator.
    random: u64,
    /// Buffers for reuse.
    pub buffers: Buffers,
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
            hot: hot(&config, shards),
            config,
            peers_behind: false,
            held_by_peers: Vec::new(),
            config_version,
            stats_version,
            stats: Stats::default(),
            rates: Rates::default(),
            clients: Clients::default(),
            now_us,
            cycles: clock::cycles(),
            dirty: Vec::new(),
            subscriptions: Subscriptions::default(),
            monitors: Vec::new(),
            waits: Waits::default(),
            pause: Pause::None,
            tracking: TrackingState::default(),
            shared_bytes: Arc::default(),
            running: None,
            own_pushes: Vec::new(),
            outgoing: (0..shards).map(|_| Vec::new()).collect(),
            wake: ShardSet::default(),
            under_way: vec![0; shards],
            file_jobs: Vec::new(),
            await_saved: Vec::new(),
            effects: Vec::new(),
            durable_position: u64::MAX,
            random: seed | 1,
            buffers: Buffers::default(),
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
        self.hot = hot(&self.config, self.process.shards);
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

    /// A random number that clients hold exactly even as a double.
    pub fn random_token(&mut self) -> u64 {
        self.random() >> 11
    }

    /// An empty buffer.
    #[inline]
    pub fn take_buffer(&mut self) -> Vec<u8> {
        self.buffers.0.pop().unwrap_or_default()
    }

    /// Gives a buffer back.
    #[inline]
    pub fn give_buffer(&mut self, buffer: Vec<u8>) {
        self.buffers.give(buffer);
    }

    /// Bytes of pooled buffers and of messages shared between clients.
    pub fn buffer_bytes(&self) -> usize {
        let pooled: usize = self.buffers.0.iter().map(Vec::capacity).sum();
        pooled + self.shared_bytes.load(Ordering::Relaxed)
    }

    /// Has the end of the tick look at a client.
    #[inline]
    pub fn mark_dirty(&mut self, client: &mut Client) {
        if !client.dirty {
            client.dirty = true;
            self.dirty.push(client.conn);
        }
    }

    /// Sends a client what answers no command, as an array in RESP2 or a push in RESP3: bytes in
    /// wire form without the first one.
    pub fn push(&mut self, conn: ConnId, form: &Arc<SharedBytes>) {
        if self.running == Some(conn) {
            self.own_pushes.push(Arc::clone(form));
        } else if let Some(mut client) = self.clients.take(conn) {
            self.push_to(&mut client, form);
            self.clients.insert(client);
        }
    }

    /// Sends a client a line of the feed of commands.
    pub(crate) fn push_line(&mut self, conn: ConnId, line: &Arc<SharedBytes>) {
        if let Some(mut client) = self.clients.take(conn) {
            client.replies.push_shared(b'+', line, client.sending_bytes > 0);
            self.mark_dirty(&mut client);
            self.clients.insert(client);
        }
    }

    fn push_to(&mut self, client: &mut Client, form: &Arc<SharedBytes>) {
        let lead = client.protocol.push_lead();
        client.replies.push_shared(lead, form, client.sending_bytes > 0);
        self.mark_dirty(client);
    }

    /// Whether the running client is to get something behind its reply.
    #[inline]
    pub fn has_own_pushes(&self) -> bool {
        !self.own_pushes.is_empty()
    }

    /// Adds what the running client is to get behind its reply.
    pub fn write_own_pushes(&mut self, client: &mut Client, reply: &mut Reply) {
        for form in std::mem::take(&mut self.own_pushes) {
            reply.raw(&[client.protocol.push_lead()]);
            reply.raw(form.bytes());
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

fn hot(config: &Config, shards: usize) -> Hot {
    Hot {
        bulk_max: config.proto_max_bulk_len,
        query_buffer_max: config.client_query_buffer_limit as usize,
        slow_cycles: u64::try_from(config.slowlog_log_slower_than).map_or(u64::MAX, clock::from_us),
        slow_log_len_max: config.slowlog_max_len as usize,
        output_limits: [config.output_limit("normal"), config.output_limit("pubsub")],
        events: Classes::from_letters(config.value("notify-keyspace-events")),
        tracked_keys_max: (config.tracking_table_max_keys() as usize).div_ceil(shards),
        memory_max: config.maxmemory,
        password_required: !config.requirepass.is_empty(),
        relaxed_order: config.pipeline_order_relaxed(),
        redirects: config.cluster_enabled
            && !(config.is_port_per_shard() && config.is_yes("cluster-forward")),
        slot_stats: config.cluster_enabled && config.is_yes("cluster-slot-stats-enabled"),
    }
}
