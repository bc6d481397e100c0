//! The time that a tick takes, less what the kernel gave to others meanwhile.
//!
//! The cycle counter goes on while another thread has the core. The kernel counts that time (the
//! run delay), but asking it costs a system call of about a microsecond: too much for each tick.
//! So it is asked before a tick only when the last answer has grown old, and after a tick only
//! when this would be the longest one. What was lost between the last answer and the tick, at most
//! within [`STALE_US`], is then taken for the tick's own loss.

use crate::clock::{self, Clock};

/// Age of an answer above which it is asked anew before a tick, in microseconds.
const STALE_US: u64 = 500;

/// Measures ticks.
pub struct TickTimer {
    started: u64,
    /// Run delay of the thread as it was last read, in nanoseconds.
    delay_ns: u64,
    /// When it was read, by the cycle counter.
    delay_read: u64,
}

impl TickTimer {
    /// A timer for the ticks of one thread.
    pub fn new(clock: &impl Clock) -> Self {
        let now = clock.cycles();
        Self { started: now, delay_ns: clock.run_delay_ns(), delay_read: now }
    }

    /// Starts a tick.
    #[inline]
    pub fn start(&mut self, clock: &impl Clock) {
        self.started = clock.cycles();
        if clock::elapsed(self.delay_read, self.started) > clock::from_us(STALE_US) {
            self.delay_ns = clock.run_delay_ns();
            self.delay_read = self.started;
        }
    }

    /// Ends a tick and returns the cycles that it took; without the run delay if they are more
    /// than `longest`.
    #[inline]
    pub fn end(&mut self, clock: &impl Clock, longest: u64) -> u64 {
        let now = clock.cycles();
        let cycles = clock::elapsed(self.started, now);
        if cycles <= longest {
            return cycles;
        }
        let delay_ns = clock.run_delay_ns();
        let lost_ns = delay_ns.saturating_sub(self.delay_ns);
        (self.delay_ns, self.delay_read) = (delay_ns, now);
        cycles.saturating_sub(clock::from_us(lost_ns / 1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::time::Duration;

    /// A clock whose thread has waited for its core for as long as the test says.
    struct Delayed(Cell<u64>);

    impl Clock for Delayed {
        fn unix_us(&self) -> u64 {
            0
        }

        fn run_delay_ns(&self) -> u64 {
            self.0.get()
        }
    }

    #[test]
    fn time_that_others_had_the_core_is_not_the_ticks() {
        let clock = Delayed(Cell::new(7_000_000_000));
        let mut timer = TickTimer::new(&clock);
        timer.start(&clock);
        std::thread::sleep(Duration::from_millis(30));
        clock.0.set(7_020_000_000);
        let us = clock::to_us(timer.end(&clock, 0));
        assert!(us >= 9_000, "30 ms less 20 ms: {us}");
        // Nothing was lost since, so nothing is taken off again.
        timer.start(&clock);
        std::thread::sleep(Duration::from_millis(2));
        assert!(clock::to_us(timer.end(&clock, 0)) >= 1_900);
    }

    #[test]
    fn a_tick_that_is_not_the_longest_is_not_looked_into() {
        let clock = Delayed(Cell::new(0));
        let mut timer = TickTimer::new(&clock);
        timer.start(&clock);
        clock.0.set(u64::MAX);
        assert!(timer.end(&clock, u64::MAX) > 0);
    }
}
