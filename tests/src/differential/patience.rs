//! The one place here that reads the clock: how long servers are waited for.
#![allow(
    clippy::disallowed_methods,
    reason = "servers are waited for in real time; what is compared never hangs on it"
)]

use std::time::{Duration, Instant};

/// A deadline.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    start: Instant,
    end: Instant,
}

impl Patience {
    /// Ends after this time.
    pub fn of(duration: Duration) -> Self {
        let start = Instant::now();
        Self { start, end: start + duration }
    }

    /// Whether the time is over.
    pub fn is_over(self) -> bool {
        Instant::now() >= self.end
    }

    /// What is left of the time.
    pub fn left(self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// What has passed since it began.
    pub fn passed(self) -> Duration {
        self.start.elapsed()
    }
}
