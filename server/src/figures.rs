//! What a shard tells of itself, for INFO and MEMORY STATS.
//!
//! Figures of several shards are summed: each tells its own when a command asks for them.

use engine::Partition;

use crate::command::args::Args;
use crate::command::dispatch::CommandCtx;
use crate::conn::Client;
use crate::input::Core;
use crate::keyspace::Share;
use crate::state::ShardState;
use crate::stats::Stats;
use crate::survey::Report;

/// The figures of a shard, or of several.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Counters.
    pub stats: Stats,
    /// Commands a second.
    pub commands_per_s: u64,
    /// Bytes a second from clients.
    pub input_per_s: u64,
    /// Bytes a second to clients.
    pub output_per_s: u64,
    /// Ticks a second.
    pub ticks_per_s: u64,
    /// Cycles a second that ticks take.
    pub tick_cycles_per_s: u64,
    /// Counters of the keyspace.
    pub keyspace: engine::Stats,
    /// Changes of the keyspace.
    pub changes: u64,
    /// Memory of the keyspace.
    pub memory: engine::Memory,
    /// What clients wait for and listen to.
    pub listening: Listening,
    /// Clients connected.
    pub clients: usize,
    /// Bytes that the clients hold.
    pub client_bytes: usize,
    /// Bytes of pooled buffers and shared messages.
    pub pool_bytes: usize,
    /// The longest query buffer of a client.
    pub query_len_max: usize,
    /// The most bytes that a client has not taken yet.
    pub output_len_max: usize,
    /// By database number.
    pub databases: Vec<DatabaseFigures>,
    /// Each shard by itself, in their order.
    pub shards: Vec<ShardFigures>,
}

/// How many clients wait for something, listen to something, or watch something.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listening {
    /// Blocked clients.
    pub blocked: usize,
    /// Those of them with a timeout.
    pub timeouts: usize,
    /// Keys that clients wait for.
    pub awaited_keys: usize,
    /// Keys whose loss ends the waiting of clients.
    pub awaited_group_keys: usize,
    /// Subscribers.
    pub subscribers: usize,
    /// Clients that track.
    pub trackers: usize,
    /// Keys that clients track.
    pub tracked_keys: usize,
    /// Pairs of a client and a key that it tracks.
    pub tracked_items: usize,
    /// Clients that watch keys.
    pub watchers: usize,
    /// Keys that clients watch.
    pub watched_keys: usize,
}

impl Listening {
    fn of(state: &ShardState, share: &Share) -> Self {
        Self {
            blocked: state.waits.len(),
            timeouts: state.waits.timers(),
            awaited_keys: share.awaited_keys(),
            awaited_group_keys: share.stream_waiters.awaited(|read| read.is_of_member()).count(),
            subscribers: state.subscriptions.clients,
            trackers: state.tracking.clients,
            tracked_keys: share.tracked.len(),
            tracked_items: share.tracked.items(),
            watchers: 0,
            watched_keys: share.watchers.len(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.blocked += other.blocked;
        self.timeouts += other.timeouts;
        self.awaited_keys += other.awaited_keys;
        self.awaited_group_keys += other.awaited_group_keys;
        self.subscribers += other.subscribers;
        self.trackers += other.trackers;
        self.tracked_keys += other.tracked_keys;
        self.tracked_items += other.tracked_items;
        self.watchers += other.watchers;
        self.watched_keys += other.watched_keys;
    }
}

/// What is shown of each shard by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShardFigures {
    /// Number of the shard.
    pub index: usize,
    /// Clients connected.
    pub clients: usize,
    /// Keys of all databases.
    pub keys: usize,
    /// Bytes in use.
    pub used_memory: u64,
    /// Commands run.
    pub commands: u64,
    /// Reservations of other shards' shares.
    pub reservations: u64,
    /// How often its share was lent.
    pub lendings: u64,
    /// Cycles that its share was away: in all, the median and the 99th percentile.
    pub lent_cycles: (u64, u64, u64),
}

/// Figures of one database.
#[derive(Clone, Copy, Debug, Default)]
pub struct DatabaseFigures {
    /// Keys.
    pub keys: usize,
    /// Keys with an expire time.
    pub volatile: usize,
    /// Of these, keys whose fields or members have times.
    pub with_timed_members: usize,
    /// Their mean time to live, estimated.
    pub average_ttl_ms: u64,
}

impl Figures {
    /// Figures of one shard. `running` is the client whose command runs.
    pub fn of(state: &ShardState, share: &Share, running: Option<&Client>) -> Self {
        let partition = &share.partition;
        let mut figures = Self {
            stats: state.stats.clone(),
            commands_per_s: state.rates.commands.per_second(),
            input_per_s: state.rates.input.per_second(),
            output_per_s: state.rates.output.per_second(),
            ticks_per_s: state.rates.ticks.per_second(),
            tick_cycles_per_s: state.rates.tick_cycles.per_second(),
            keyspace: partition.stats(),
            changes: partition.dirty(),
            memory: partition.memory(),
            listening: Listening::of(state, share),
            pool_bytes: state.buffer_bytes(),
            databases: (0..partition.databases())
                .map(|db| DatabaseFigures::of(partition, db, state.now_us))
                .collect(),
            ..Self::default()
        };
        for client in state.clients.iter().chain(running) {
            figures.clients += 1;
            figures.listening.watchers += usize::from(client.watch.is_some());
            figures.client_bytes += client.memory_bytes();
            figures.query_len_max = figures.query_len_max.max(client.query_len());
            figures.output_len_max = figures.output_len_max.max(client.output_len());
        }
        let stats = &state.stats;
        figures.shards = vec![ShardFigures {
            index: state.index,
            clients: figures.clients,
            keys: figures.keys(),
            used_memory: figures.used_memory(),
            commands: stats.commands_processed,
            reservations: stats.reservations,
            lendings: stats.lent.count(),
            lent_cycles: (
                stats.lent_cycles,
                stats.lent.percentile(50.0),
                stats.lent.percentile(99.0),
            ),
        }];
        figures.stats.memory_peak = figures.stats.memory_peak.max(figures.used_memory());
        figures
    }

    /// A shard's part of the figures of the process.
    pub(crate) fn survey(_: Args<'_>, core: &mut Core) -> Report {
        let figures = Self::of(&core.state, core.keyspace.share(core.state.index), None);
        Report::Figures(Box::new(figures))
    }

    /// Figures of the whole process, for a command whose row has [`Figures::survey`].
    pub(crate) fn of_process(ctx: &mut CommandCtx<'_>) -> Self {
        let share = ctx.keyspace.share(ctx.shard.index);
        let mut all = vec![Self::of(ctx.shard, share, Some(ctx.client))];
        all.extend(ctx.reports().into_iter().filter_map(|report| match report {
            Report::Figures(figures) => Some(*figures),
            _ => None,
        }));
        all.sort_by_key(|figures| figures.shards[0].index);
        let sum = all.into_iter().reduce(|mut sum, figures| {
            sum.add(&figures);
            sum
        });
        sum.expect("the own figures at least")
    }

    /// Bytes in use: the keyspace, the clients and the buffers.
    pub fn used_memory(&self) -> u64 {
        (self.memory.used + self.client_bytes + self.pool_bytes) as u64
    }

    /// What of the used memory is not data: indexes, clients and buffers.
    pub fn overhead(&self) -> u64 {
        let indexes = self.memory.index + self.memory.expire + self.memory.effects;
        (indexes + self.client_bytes + self.pool_bytes) as u64
    }

    /// Keys of all databases.
    pub fn keys(&self) -> usize {
        self.databases.iter().map(|database| database.keys).sum()
    }

    fn add(&mut self, other: &Self) {
        self.stats.add(&other.stats);
        self.commands_per_s += other.commands_per_s;
        self.input_per_s += other.input_per_s;
        self.output_per_s += other.output_per_s;
        self.ticks_per_s += other.ticks_per_s;
        self.tick_cycles_per_s += other.tick_cycles_per_s;
        add_keyspace(&mut self.keyspace, &other.keyspace);
        self.changes += other.changes;
        add_memory(&mut self.memory, &other.memory);
        self.listening.add(&other.listening);
        self.clients += other.clients;
        self.client_bytes += other.client_bytes;
        self.pool_bytes += other.pool_bytes;
        self.query_len_max = self.query_len_max.max(other.query_len_max);
        self.output_len_max = self.output_len_max.max(other.output_len_max);
        self.shards.extend_from_slice(&other.shards);
        if self.databases.len() < other.databases.len() {
            self.databases.resize(other.databases.len(), DatabaseFigures::default());
        }
        for (sum, other) in self.databases.iter_mut().zip(&other.databases) {
            sum.add(other);
        }
    }
}

impl DatabaseFigures {
    fn of(partition: &Partition, db: usize, seed: u64) -> Self {
        let keys = partition.len(db);
        if keys == 0 {
            return Self::default();
        }
        Self {
            keys,
            volatile: partition.expires_len(db),
            with_timed_members: partition.with_timed_members_len(db),
            average_ttl_ms: partition.average_ttl_ms(db, seed),
        }
    }

    fn add(&mut self, other: &Self) {
        let weighed = |figures: &Self| figures.average_ttl_ms as u128 * figures.volatile as u128;
        let volatile = self.volatile + other.volatile;
        let sum_ms = weighed(self) + weighed(other);
        self.average_ttl_ms = (sum_ms / (volatile.max(1) as u128)) as u64;
        self.volatile = volatile;
        self.keys += other.keys;
        self.with_timed_members += other.with_timed_members;
    }
}

fn add_keyspace(sum: &mut engine::Stats, other: &engine::Stats) {
    sum.hits += other.hits;
    sum.misses += other.misses;
    sum.expired_keys += other.expired_keys;
    sum.expired_members += other.expired_members;
    sum.expire_lag_max_ms = sum.expire_lag_max_ms.max(other.expire_lag_max_ms);
    sum.blocks_moved += other.blocks_moved;
}

fn add_memory(sum: &mut engine::Memory, other: &engine::Memory) {
    sum.blocks += other.blocks;
    sum.index += other.index;
    sum.expire += other.expire;
    sum.large += other.large;
    sum.effects += other.effects;
    sum.dying += other.dying;
    sum.used += other.used;
    sum.committed += other.committed;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_to_live_are_weighed_by_their_keys() {
        let mut sum =
            DatabaseFigures { keys: 5, volatile: 1, average_ttl_ms: 100, ..Default::default() };
        sum.add(&DatabaseFigures {
            keys: 5,
            volatile: 3,
            average_ttl_ms: 500,
            ..Default::default()
        });
        assert_eq!((sum.keys, sum.volatile, sum.average_ttl_ms), (10, 4, 400));
        sum.add(&DatabaseFigures::default());
        assert_eq!((sum.keys, sum.volatile, sum.average_ttl_ms), (10, 4, 400));
    }
}
