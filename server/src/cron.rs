//! What a shard does by the clock, ten times a second: idle clients, peaks, rates.

use netback::Close;

use crate::conn::Client;
use crate::input::Core;

/// Samples over which a rate is taken.
const SAMPLES: usize = 16;

/// Tracked keys above their limit that are forgotten in a turn.
const TRIMMED_KEYS_MAX: usize = 1000;

/// A counter's growth per second over the last [`SAMPLES`] turns.
#[derive(Clone, Debug, Default)]
pub struct Rate {
    last: u64,
    last_us: u64,
    samples: [u64; SAMPLES],
    next: usize,
}

impl Rate {
    /// Takes the counter's value at a time in microseconds.
    pub fn sample(&mut self, value: u64, now_us: u64) {
        let elapsed_us = now_us.saturating_sub(self.last_us);
        if elapsed_us > 0 && self.last_us > 0 {
            let grown = u128::from(value.saturating_sub(self.last));
            self.samples[self.next] = (grown * 1_000_000 / u128::from(elapsed_us)) as u64;
            self.next = (self.next + 1) % SAMPLES;
        }
        (self.last, self.last_us) = (value, now_us);
    }

    /// The mean of the samples.
    pub fn per_second(&self) -> u64 {
        self.samples.iter().sum::<u64>() / SAMPLES as u64
    }
}

/// Rates that INFO shows.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    /// Commands.
    pub commands: Rate,
    /// Bytes from clients.
    pub input: Rate,
    /// Bytes to clients.
    pub output: Rate,
    /// Ticks.
    pub ticks: Rate,
    /// Cycles of the ticks, without the waiting.
    pub tick_cycles: Rate,
}

impl Core {
    /// One turn.
    pub fn cron(&mut self) {
        let now_us = self.state.now_us;
        let stats = &self.state.stats;
        self.state.rates.commands.sample(stats.commands_processed, now_us);
        self.state.rates.input.sample(stats.net_input_bytes, now_us);
        self.state.rates.output.sample(stats.net_output_bytes, now_us);
        self.state.rates.ticks.sample(stats.ticks, now_us);
        self.state.rates.tick_cycles.sample(stats.tick_cycles, now_us);
        let used = self.used_memory();
        self.state.stats.memory_peak = self.state.stats.memory_peak.max(used);
        self.close_idle_clients();
        if let Some(share) = self.keyspace.own_mut() {
            self.state.trim_tracked(share, TRIMMED_KEYS_MAX);
            share.watchers.sweep();
            share.waiters.sweep();
            share.list_waiters.sweep();
            share.sorted_set_waiters.sweep();
            share.stream_waiters.sweep();
            share.configure(&self.state);
            self.state.send_invalidations(None);
        }
        self.state.process.set_used_memory(self.state.index, used);
    }

    /// Bytes in use by this shard: the keyspace, the clients and the buffers.
    pub fn used_memory(&self) -> u64 {
        let clients: usize = self.state.clients.iter().map(crate::conn::Client::memory_bytes).sum();
        let keys = self.keyspace.own().map_or(0, |share| share.partition.memory().used);
        (keys + clients + self.state.buffer_bytes()) as u64
    }

    fn close_idle_clients(&mut self) {
        let timeout_ms = self.state.config.timeout as u64 * 1000;
        if timeout_ms == 0 {
            return;
        }
        let oldest_ms = self.state.now_ms().saturating_sub(timeout_ms);
        // Who waits for something is not idle.
        let is_idle = |client: &&Client| {
            let waits = client.stall.is_some() || !client.waiting.is_empty() || client.monitors;
            client.active_ms < oldest_ms && !waits && client.subscribed.is_none()
        };
        let idle = self.state.clients.iter().filter(is_idle);
        let idle: Vec<_> = idle.map(|client| client.conn).collect();
        for conn in idle {
            crate::verbose!("Closing idle client");
            self.state.close_other(conn, Close::Now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_counter_has_its_rate() {
        let mut rate = Rate::default();
        for turn in 0..40 {
            rate.sample(turn * 50, 1 + turn * 100_000);
        }
        assert_eq!(rate.per_second(), 500);
    }
}
