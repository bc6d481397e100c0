//! Counters of a shard: per command by row number, per error code, and in total.

use std::collections::BTreeMap;

use crate::clock;
use crate::command::table::table;

/// Mantissa bits of a histogram: buckets are at most 1/16 of their value wide.
const MANTISSA_BITS: u32 = 4;

/// Buckets of a histogram: values up to 2^40 cycles, about six minutes.
const BUCKETS: usize = (40 - MANTISSA_BITS as usize + 1) << MANTISSA_BITS;

/// Error codes that are counted one by one; beyond that new codes are no longer told apart.
pub const ERROR_CODES_MAX: usize = 128;

/// Durations in cycles, by buckets with four bits of mantissa.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u32>,
    count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0 }
    }
}

impl Histogram {
    /// Counts one duration.
    #[inline]
    pub fn record(&mut self, cycles: u64) {
        let bucket = Self::bucket(cycles);
        self.buckets[bucket] = self.buckets[bucket].saturating_add(1);
        self.count += 1;
    }

    #[inline]
    fn bucket(cycles: u64) -> usize {
        let magnitude = 63 - (cycles | 1 << MANTISSA_BITS).leading_zeros() - MANTISSA_BITS;
        let mantissa = (cycles >> magnitude) as usize;
        ((magnitude as usize) * (1 << MANTISSA_BITS) + mantissa).min(BUCKETS - 1)
    }

    /// The largest value that a bucket holds.
    fn bucket_end(bucket: usize) -> u64 {
        let width = 1usize << MANTISSA_BITS;
        if bucket < 2 * width {
            return bucket as u64;
        }
        let magnitude = bucket / width - 1;
        let mantissa = (bucket - magnitude * width) as u64;
        ((mantissa + 1) << magnitude) - 1
    }

    /// The duration in cycles that `percent` of all are at most.
    pub fn percentile(&self, percent: f64) -> u64 {
        let wanted = ((self.count as f64) * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= wanted {
                return Self::bucket_end(bucket);
            }
        }
        0
    }

    /// Counts the durations of another histogram as well.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum = sum.saturating_add(*count);
        }
        self.count += other.count;
    }

    /// Durations counted.
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// Counters of one command.
#[derive(Clone, Debug, Default)]
pub struct CommandStats {
    /// Runs.
    pub calls: u64,
    /// Cycles over all runs.
    pub cycles: u64,
    /// Refusals before the command ran.
    pub rejected: u64,
    /// Runs that ended in an error.
    pub failed: u64,
    /// Durations, from the first run on.
    pub histogram: Option<Box<Histogram>>,
}

impl CommandStats {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.cycles += other.cycles;
        self.rejected += other.rejected;
        self.failed += other.failed;
        if let Some(histogram) = &other.histogram {
            self.histogram.get_or_insert_default().add(histogram);
        }
    }
}

/// Counters of a shard.
#[derive(Clone, Debug)]
pub struct Stats {
    /// By row number.
    pub commands: Vec<CommandStats>,
    /// Error replies by code.
    pub errors: BTreeMap<String, u64>,
    /// Error replies in all.
    pub error_replies: u64,
    /// Commands run.
    pub commands_processed: u64,
    /// Connections accepted.
    pub connections_received: u64,
    /// Connections refused at `maxclients`.
    pub connections_rejected: u64,
    /// Bytes from clients.
    pub net_input_bytes: u64,
    /// Bytes to clients.
    pub net_output_bytes: u64,
    /// Clients closed at the query buffer limit.
    pub query_buffer_limit_disconnections: u64,
    /// Clients closed at the output buffer limit.
    pub output_buffer_limit_disconnections: u64,
    /// Wrong passwords.
    pub auth_denied: u64,
    /// Ticks that had work.
    pub ticks: u64,
    /// Cycles spent in ticks, without the waiting.
    pub tick_cycles: u64,
    /// The longest tick, in cycles.
    pub tick_longest_cycles: u64,
    /// The most commands run in one tick.
    pub tick_commands_max: u64,
    /// Cycles spent on work by the clock and on upkeep of the keyspace.
    pub upkeep_cycles: u64,
    /// The largest `used_memory` seen.
    pub memory_peak: u64,
    /// How long the shard's share was lent each time.
    pub lent: Histogram,
    /// How long it was lent in all.
    pub lent_cycles: u64,
    /// Reservations of other shards' shares.
    pub reservations: u64,
    /// Whether durations are kept in histograms (`latency-tracking`).
    pub track_latency: bool,
    /// Error codes beyond [`ERROR_CODES_MAX`] were met.
    pub errors_overflowed: bool,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            commands: vec![CommandStats::default(); table().entries().len()],
            errors: BTreeMap::new(),
            error_replies: 0,
            commands_processed: 0,
            connections_received: 0,
            connections_rejected: 0,
            net_input_bytes: 0,
            net_output_bytes: 0,
            query_buffer_limit_disconnections: 0,
            output_buffer_limit_disconnections: 0,
            auth_denied: 0,
            ticks: 0,
            tick_cycles: 0,
            tick_longest_cycles: 0,
            tick_commands_max: 0,
            upkeep_cycles: 0,
            memory_peak: 0,
            lent: Histogram::default(),
            lent_cycles: 0,
            reservations: 0,
            track_latency: true,
            errors_overflowed: false,
        }
    }
}

impl Stats {
    /// Counts one run of a command.
    #[inline]
    pub fn ran(&mut self, id: u16, cycles: u64) {
        let row = &mut self.commands[usize::from(id)];
        row.calls += 1;
        row.cycles += cycles;
        self.commands_processed += 1;
        if self.track_latency {
            row.histogram.get_or_insert_default().record(cycles);
        }
    }

    /// Counts one lending of the shard's share.
    pub fn lent(&mut self, cycles: u64) {
        self.lent.record(cycles);
        self.lent_cycles += cycles;
    }

    /// Counts one error reply. Returns whether the limit of codes was met just now.
    pub fn error(&mut self, code: &[u8]) -> bool {
        self.error_replies += 1;
        let code = String::from_utf8_lossy(code);
        if let Some(count) = self.errors.get_mut(code.as_ref()) {
            *count += 1;
            return false;
        }
        if self.errors_overflowed {
            return false;
        }
        if self.errors.len() >= ERROR_CODES_MAX {
            self.errors_overflowed = true;
            self.errors.clear();
            self.errors.insert("ERRORSTATS_OVERFLOW".to_owned(), 1);
            return true;
        }
        self.errors.insert(code.into_owned(), 1);
        false
    }

    /// Adds the counters of another shard.
    pub fn add(&mut self, other: &Self) {
        for (sum, other) in self.commands.iter_mut().zip(&other.commands) {
            sum.add(other);
        }
        for (code, count) in &other.errors {
            *self.errors.entry(code.clone()).or_default() += count;
        }
        self.error_replies += other.error_replies;
        self.commands_processed += other.commands_processed;
        self.connections_received += other.connections_received;
        self.connections_rejected += other.connections_rejected;
        self.net_input_bytes += other.net_input_bytes;
        self.net_output_bytes += other.net_output_bytes;
        self.query_buffer_limit_disconnections += other.query_buffer_limit_disconnections;
        self.output_buffer_limit_disconnections += other.output_buffer_limit_disconnections;
        self.auth_denied += other.auth_denied;
        self.ticks += other.ticks;
        self.tick_cycles += other.tick_cycles;
        self.tick_longest_cycles = self.tick_longest_cycles.max(other.tick_longest_cycles);
        self.tick_commands_max = self.tick_commands_max.max(other.tick_commands_max);
        self.upkeep_cycles += other.upkeep_cycles;
        self.lent.add(&other.lent);
        self.lent_cycles += other.lent_cycles;
        self.reservations += other.reservations;
        self.memory_peak += other.memory_peak;
    }

    /// Counts a tick: its time and the commands that it ran.
    pub fn tick(&mut self, cycles: u64, commands: u64) {
        self.ticks += 1;
        self.tick_commands_max = self.tick_commands_max.max(commands);
        self.tick_cycles += cycles;
        self.tick_longest_cycles = self.tick_longest_cycles.max(cycles);
    }

    /// Sets everything back that CONFIG RESETSTAT sets back.
    pub fn reset(&mut self) {
        *self = Self {
            track_latency: self.track_latency,
            memory_peak: self.memory_peak,
            ..Self::default()
        };
    }

    /// The longest tick in microseconds.
    pub fn tick_longest_us(&self) -> u64 {
        clock::to_us(self.tick_longest_cycles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_values_fall_in_their_buckets() {
        for value in (0..4096).chain((12..40).map(|shift| (1 << shift) + 12345 % (1 << shift))) {
            let bucket = Histogram::bucket(value);
            assert!(value <= Histogram::bucket_end(bucket), "{value}");
            assert!(bucket == 0 || value > Histogram::bucket_end(bucket - 1), "{value}");
        }
        assert_eq!(Histogram::bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles() {
        let mut histogram = Histogram::default();
        (1..=100).for_each(|value| histogram.record(value * 1000));
        let p50 = histogram.percentile(50.0);
        assert!((50_000..=53_200).contains(&p50), "{p50}");
        assert_eq!(Histogram::default().percentile(99.0), 0);
    }
}
