//! Access stamps: 24 bits in each block that say when or how often a key was used.
//!
//! ```text
//! LRU   seconds of the clock, modulo 2^24
//! LFU   minutes of the last decay, modulo 2^16 (bits 8..24) | logarithmic counter (bits 0..8)
//! ```
//!
//! The rules are Redis's, so that OBJECT IDLETIME and FREQ and the eviction policies mean the same.

/// Which of the two a partition keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessMode {
    /// Count how often (LFU) rather than note when (LRU).
    pub lfu: bool,
    /// The larger, the more uses one step of the counter takes.
    pub lfu_log_factor: u32,
    /// Minutes after which a counter loses one; 0 never.
    pub lfu_decay_minutes: u32,
}

impl Default for AccessMode {
    fn default() -> AccessMode {
        AccessMode { lfu: false, lfu_log_factor: 10, lfu_decay_minutes: 1 }
    }
}

/// Counter of a new key, so that it is not the first to be evicted.
const LFU_START: u32 = 5;
const SECONDS_MASK: u32 = (1 << 24) - 1;

/// The mode with the clock and the dice that it needs.
pub(crate) struct Access {
    pub(crate) mode: AccessMode,
    seconds: u64,
    random: u64,
}

impl Access {
    pub(crate) fn new(seed: u64) -> Access {
        Access { mode: AccessMode::default(), seconds: 0, random: seed | 1 }
    }

    pub(crate) fn set_now(&mut self, now_ms: u64) {
        self.seconds = now_ms / 1000;
    }

    /// Stamp of a new key.
    #[inline]
    pub(crate) fn fresh(&self) -> u32 {
        if self.mode.lfu { self.minutes() << 8 | LFU_START } else { self.lru_clock() }
    }

    /// Stamp of a key that was used so many seconds ago, or so often, if the mode counts that.
    pub(crate) fn stamp_of(&self, idle_s: Option<u64>, frequency: Option<u8>) -> Option<u32> {
        match (self.mode.lfu, idle_s, frequency) {
            (true, _, Some(counter)) => Some(self.minutes() << 8 | u32::from(counter)),
            (false, Some(idle_s), _) => {
                let idle_s = idle_s.min(u64::from(SECONDS_MASK)) as u32;
                Some(self.lru_clock().wrapping_sub(idle_s) & SECONDS_MASK)
            }
            _ => None,
        }
    }

    /// Stamp of a key that is used now.
    #[inline]
    pub(crate) fn used(&mut self, stamp: u32) -> u32 {
        if self.mode.lfu { self.count(stamp) } else { self.lru_clock() }
    }

    fn lru_clock(&self) -> u32 {
        self.seconds as u32 & SECONDS_MASK
    }

    fn minutes(&self) -> u32 {
        (self.seconds / 60) as u32 & 0xffff
    }

    fn count(&mut self, stamp: u32) -> u32 {
        let counter = self.frequency(stamp);
        let above = counter.saturating_sub(LFU_START);
        let chance = 1.0 / f64::from(above * self.mode.lfu_log_factor + 1);
        let grows = counter < 255 && self.dice() < chance;
        self.minutes() << 8 | (counter + u32::from(grows))
    }

    /// The counter after the decay that is due.
    pub(crate) fn frequency(&self, stamp: u32) -> u32 {
        let passed = self.minutes().wrapping_sub(stamp >> 8) & 0xffff;
        let periods = passed.checked_div(self.mode.lfu_decay_minutes).unwrap_or(0);
        (stamp & 255).saturating_sub(periods)
    }

    /// Seconds since the last use.
    pub(crate) fn idle_seconds(&self, stamp: u32) -> u64 {
        u64::from(self.lru_clock().wrapping_sub(stamp) & SECONDS_MASK)
    }

    /// A number in 0..1.
    fn dice(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lru_stamps_are_seconds_and_wrap() {
        let mut access = Access::new(1);
        access.set_now(1_764_550_000_000);
        let stamp = access.fresh();
        access.set_now(1_764_550_010_999);
        assert_eq!(access.idle_seconds(stamp), 10);
        let used = access.used(stamp);
        assert_eq!(access.idle_seconds(used), 0);
    }

    #[test]
    fn lfu_counters_grow_slowly_and_decay() {
        let mut access = Access::new(1);
        access.mode = AccessMode { lfu: true, ..AccessMode::default() };
        access.set_now(1_764_550_000_000);
        let mut stamp = access.fresh();
        assert_eq!(access.frequency(stamp), 5);
        for _ in 0..1000 {
            stamp = access.used(stamp);
        }
        let counter = access.frequency(stamp);
        assert!((12..30).contains(&counter), "{counter}");
        access.set_now(1_764_550_000_000 + 4 * 60_000);
        assert_eq!(access.frequency(stamp), counter - 4);
    }
}
