//! What a shard tells of itself, for INFO and MEMORY STATS.
//!
//! Figures of several shards are summed. A shard reads its own when asked; those of the others
//! are copies that they leave in [`crate::process::Process`] ten times a second.

use engine::Partition;

use crate::conn::Client;
use crate::state::ShardState;
use crate::stats::Stats;

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
    /// Memory of the keyspace.
    pub memory: engine::Memory,
    /// Clients connected.
    pub clients: usize,
    /// Bytes that the clients hold.
    pub client_bytes: usize,
    /// Bytes of pooled buffers.
    pub pool_bytes: usize,
    /// The longest query buffer of a client.
    pub query_len_max: usize,
    /// The most bytes that a client has not taken yet.
    pub output_len_max: usize,
    /// By database number.
    pub databases: Vec<DatabaseFigures>,
    /// Clients of each shard.
    pub shard_clients: Vec<usize>,
}

/// Figures of one database.
#[derive(Clone, Copy, Debug, Default)]
pub struct DatabaseFigures {
    /// Keys.
    pub keys: usize,
    /// Keys with an expire time.
    pub volatile: usize,
    /// Their mean time to live, estimated.
    pub average_ttl_ms: u64,
}

impl Figures {
    /// Figures of one shard. `running` is the client whose command runs.
    pub fn of(state: &ShardState, partition: &Partition, running: Option<&Client>) -> Self {
        let mut figures = Self {
            stats: state.stats.clone(),
            commands_per_s: state.rates.commands.per_second(),
            input_per_s: state.rates.input.per_second(),
            output_per_s: state.rates.output.per_second(),
            ticks_per_s: state.rates.ticks.per_second(),
            tick_cycles_per_s: state.rates.tick_cycles.per_second(),
            keyspace: partition.stats(),
            memory: partition.memory(),
            pool_bytes: state.pool_bytes(),
            databases: (0..partition.databases())
                .map(|db| DatabaseFigures::of(partition, db, state.now_us))
                .collect(),
            ..Self::default()
        };
        for client in state.clients.iter().chain(running) {
            figures.clients += 1;
            figures.client_bytes += client.memory_bytes();
            figures.query_len_max = figures.query_len_max.max(client.query_len());
            figures.output_len_max = figures.output_len_max.max(client.output_len());
        }
        figures.shard_clients = vec![figures.clients];
        figures.stats.memory_peak = figures.stats.memory_peak.max(figures.used_memory());
        figures
    }

    /// Figures of the whole process, from the shard that `state` belongs to.
    pub fn of_process(state: &ShardState, partition: &Partition, running: &Client) -> Self {
        let own = Self::of(state, partition, Some(running));
        let mut sum: Option<Self> = None;
        for shard in 0..state.process.shards {
            let figures =
                if shard == state.index { own.clone() } else { state.process.figures(shard) };
            match &mut sum {
                None => sum = Some(figures),
                Some(sum) => sum.add(&figures),
            }
        }
        sum.unwrap_or(own)
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
        add_memory(&mut self.memory, &other.memory);
        self.clients += other.clients;
        self.client_bytes += other.client_bytes;
        self.pool_bytes += other.pool_bytes;
        self.query_len_max = self.query_len_max.max(other.query_len_max);
        self.output_len_max = self.output_len_max.max(other.output_len_max);
        self.shard_clients.extend_from_slice(&other.shard_clients);
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
    }
}

fn add_keyspace(sum: &mut engine::Stats, other: &engine::Stats) {
    sum.hits += other.hits;
    sum.misses += other.misses;
    sum.expired_keys += other.expired_keys;
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
        let mut sum = DatabaseFigures { keys: 5, volatile: 1, average_ttl_ms: 100 };
        sum.add(&DatabaseFigures { keys: 5, volatile: 3, average_ttl_ms: 500 });
        assert_eq!((sum.keys, sum.volatile, sum.average_ttl_ms), (10, 4, 400));
        sum.add(&DatabaseFigures::default());
        assert_eq!((sum.keys, sum.volatile, sum.average_ttl_ms), (10, 4, 400));
    }
}
