//! The one place that reads clocks: a benchmark measures time, so here it may.
#![allow(
    clippy::disallowed_methods,
    reason = "measuring time is what this crate is for; no server code depends on it"
)]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The monotonic clock.
pub fn now() -> Instant {
    Instant::now()
}

/// The wall clock in milliseconds since 1970, as servers count expire times.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis().try_into().unwrap_or(u64::MAX)
}

/// Nanoseconds, capped at what 64 bits hold.
pub fn nanos(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}
