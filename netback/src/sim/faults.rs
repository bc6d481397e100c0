//! What a simulated network does wrong, and the seeded generator that decides when.

use std::time::Duration;

/// How often things go wrong: chances in thousandths for each operation concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// A read takes only a part of what has arrived.
    pub short_reads: u16,
    /// A write takes only a part of what there is room for.
    pub short_writes: u16,
    /// A write takes nothing for a while, as if the queue to the peer were full.
    pub full_queues: u16,
    /// A send that took all bytes is told in a later wait, as completions are.
    pub late_completions: u16,
    /// A ready connection is kept for a later wait; the others come in a drawn order.
    pub late_readiness: u16,
    /// A read or write of the server finds that the connection was reset.
    pub resets: u16,
    /// An accept fails for want of descriptors.
    pub accept_failures: u16,
    /// Every run of bytes, end or reset travels for up to this long.
    pub delay_max: Duration,
    /// Bytes that one direction of a connection holds on the way.
    pub queue_bytes: usize,
}

impl Faults {
    /// A network without faults or delays.
    pub const NONE: Self = Self {
        short_reads: 0,
        short_writes: 0,
        full_queues: 0,
        late_completions: 0,
        late_readiness: 0,
        resets: 0,
        accept_failures: 0,
        delay_max: Duration::ZERO,
        queue_bytes: 256 * 1024,
    };

    /// Draws a mixture. Each kind of fault is absent in some mixtures and frequent in others,
    /// since faults that are always there together hide what each does alone.
    pub fn drawn(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x6661_756c_7473);
        let mut level = |max: u64| match random.below(3) {
            0 => 0,
            1 => random.below(max / 8 + 1) as u16,
            _ => random.below(max + 1) as u16,
        };
        let mut faults = Self {
            short_reads: level(900),
            short_writes: level(900),
            full_queues: level(300),
            late_completions: level(1000),
            late_readiness: level(700),
            resets: level(20),
            accept_failures: level(300),
            ..Self::NONE
        };
        faults.delay_max = Duration::from_micros(random.below(3) * random.below(20_000));
        faults.queue_bytes = 1 << random.between(6, 18);
        faults
    }

    /// The same without resets, for tests that expect every byte to come across.
    pub fn without_resets(self) -> Self {
        Self { resets: 0, ..self }
    }
}

/// A small generator (SplitMix64): the same seed draws the same numbers everywhere.
#[derive(Clone, Debug)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is at least 1.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "there is no number below 0");
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in so many of a thousand cases. A chance of 0 draws nothing.
    pub(super) fn chance(&mut self, thousandths: u16) -> bool {
        thousandths > 0 && self.below(1000) < u64::from(thousandths)
    }

    /// A duration up to `max`.
    pub(super) fn delay(&mut self, max: Duration) -> Duration {
        if max.is_zero() {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.between(0, max.as_nanos() as u64))
    }

    /// Puts a list into a drawn order.
    pub(super) fn shuffle<T>(&mut self, list: &mut [T]) {
        for end in (1..list.len()).rev() {
            list.swap(end, self.below(end as u64 + 1) as usize);
        }
    }
}
