//! Time: the wall clock behind a trait, and the cycle counter.
//!
//! One clock read serves a tick. Durations of commands come from the cycle counter, which is
//! calibrated once at start against the OS clock; where the counter has no constant rate, the OS
//! clock stands in and INFO says so.
//!
//! Unsafe code: reading the counter only. The read has no effect but its value.

#![allow(unsafe_code, reason = "the cycle counter has no safe access")]
#![allow(clippy::disallowed_methods, reason = "the one place that asks the OS for the time")]

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The clocks of a shard, real or simulated.
pub trait Clock: Send + 'static {
    /// Microseconds since the Unix epoch.
    fn unix_us(&self) -> u64;

    /// The cycle counter, which measures what the shard's own work takes; see [`cycles`].
    fn cycles(&self) -> u64 {
        cycles()
    }

    /// Nanoseconds for which the calling thread could have run, but others had the core.
    fn run_delay_ns(&self) -> u64 {
        0
    }
}

/// The clock of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsClock;

impl Clock for OsClock {
    fn unix_us(&self) -> u64 {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        elapsed.as_micros() as u64
    }

    fn run_delay_ns(&self) -> u64 {
        crate::system::run_delay_ns()
    }
}

/// Rate of the cycle counter.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// Cycles in one microsecond, as a 32.32 fixed-point number.
    per_us: u64,
    /// Whether the processor's counter is in use.
    hardware: bool,
}

static RATE: LazyLock<Rate> = LazyLock::new(calibrate);

/// How long the calibration runs.
const CALIBRATION: Duration = Duration::from_millis(5);

fn calibrate() -> Rate {
    if !has_constant_rate() {
        return Rate { per_us: 1000 << 32, hardware: false };
    }
    let (start, start_cycles) = (Instant::now(), counter());
    while start.elapsed() < CALIBRATION {
        std::hint::spin_loop();
    }
    let elapsed_ns = start.elapsed().as_nanos();
    let cycles = u128::from(counter().wrapping_sub(start_cycles));
    Rate { per_us: ((cycles << 32) * 1000 / elapsed_ns) as u64, hardware: true }
}

/// Calibrates now rather than at the first use.
pub fn start() {
    LazyLock::force(&RATE);
}

/// Where durations come from, as INFO names it.
pub fn source() -> &'static str {
    if RATE.hardware { "cycle counter" } else { "OS clock" }
}

/// The counter now. Only differences mean anything, and one may be negative on a machine that
/// moved the thread; [`elapsed`] bears that.
#[inline]
pub fn cycles() -> u64 {
    if RATE.hardware { counter() } else { os_nanoseconds() }
}

/// Cycles from `start` to `end`; 0 if the counter stepped back.
#[inline]
pub fn elapsed(start: u64, end: u64) -> u64 {
    let difference = end.wrapping_sub(start);
    if difference > u64::MAX / 2 { 0 } else { difference }
}

/// Converts a difference of cycles to microseconds.
pub fn to_us(cycles: u64) -> u64 {
    ((u128::from(cycles) << 32) / u128::from(RATE.per_us)) as u64
}

/// Converts a difference of cycles to nanoseconds.
pub fn to_ns(cycles: u64) -> u64 {
    ((u128::from(cycles) << 32) * 1000 / u128::from(RATE.per_us)) as u64
}

/// Converts microseconds to cycles.
pub fn from_us(us: u64) -> u64 {
    ((u128::from(us) * u128::from(RATE.per_us)) >> 32).min(u128::from(u64::MAX)) as u64
}

fn os_nanoseconds() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and user mode may use it here.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn counter() -> u64 {
    let value: u64;
    // SAFETY: reads a counter register that user mode may read; touches neither memory nor stack.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack)) };
    value
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter() -> u64 {
    os_nanoseconds()
}

/// Whether the counter ticks at one rate, whatever the processor's frequency does.
fn has_constant_rate() -> bool {
    if cfg!(target_arch = "aarch64") {
        return true;
    }
    std::fs::read_to_string("/proc/cpuinfo")
        .is_ok_and(|text| text.contains("constant_tsc") || text.contains("nonstop_tsc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_measured() {
        let start = cycles();
        std::thread::sleep(Duration::from_millis(20));
        let us = to_us(elapsed(start, cycles()));
        assert!((19_000..2_000_000).contains(&us), "{us}");
    }

    #[test]
    fn a_counter_that_steps_back_counts_as_nothing() {
        assert_eq!(elapsed(10, 9), 0);
        assert_eq!(elapsed(u64::MAX, 4), 5);
    }

    #[test]
    fn conversions_do_not_wrap() {
        let year_us = 366 * 24 * 3600 * 1_000_000;
        let there_and_back = to_us(from_us(year_us));
        assert!(there_and_back.abs_diff(year_us) < 1_000_000);
    }
}
