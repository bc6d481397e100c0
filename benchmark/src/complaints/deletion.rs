//! Resident memory after most keys were deleted at random.

use std::time::Duration;

use serde::Serialize;

use super::{fill, watch_rss};
use crate::numbers::Random;
use crate::peer::Running;
use crate::template::DIGITS;
use crate::{Error, Result};

/// What to try.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Options {
    /// Keys to load.
    pub keys: u64,
    /// Length of their values.
    pub value_len: usize,
    /// How many of a hundred keys are deleted.
    pub percent: u64,
    /// How long the server has to give memory back.
    pub wait_s: u64,
}

/// What was seen. Resident memory counts above the empty server's.
#[derive(Clone, Debug, Serialize)]
pub struct Deletion {
    /// The server.
    pub label: String,
    /// Keys left.
    pub live: u64,
    /// Resident bytes per key of the fresh load.
    pub fresh: f64,
    /// Resident bytes per live key after the wait.
    pub after: f64,
    /// `after / fresh`.
    pub ratio: f64,
    /// The same ratio right after the deletions and at each second from then on.
    pub ratio_by_second: Vec<f64>,
}

/// Tries it on a fresh server.
///
/// # Errors
/// The server dies or answers with an error.
pub fn run(server: &Running, options: &Options) -> Result<Deletion> {
    let empty = server.rss_bytes()?;
    fill(server, "SET key:__rand__ __value__", options.value_len, options.keys)?;
    std::thread::sleep(Duration::from_secs(1));
    let per_key = |rss: u64, keys: u64| rss.saturating_sub(empty) as f64 / keys.max(1) as f64;
    let fresh = per_key(server.rss_bytes()?, options.keys);
    let live = options.keys - delete(server, options)?;
    let seen = watch_rss(server, Duration::from_secs(options.wait_s))?;
    let ratios: Vec<f64> = seen.iter().map(|rss| per_key(*rss, live) / fresh.max(1e-9)).collect();
    let ratio = ratios.last().copied().unwrap_or(0.0);
    let label = server.label.clone();
    Ok(Deletion { label, live, fresh, after: ratio * fresh, ratio, ratio_by_second: ratios })
}

/// Deletes keys at random; how many.
fn delete(server: &Running, options: &Options) -> Result<u64> {
    let mut random = Random::new(1);
    let mut client = server.client()?;
    let mut pipeline = client.pipeline();
    let mut deleted = 0;
    for key in 0..options.keys {
        if random.below(100) < options.percent {
            pipeline.push(&["DEL", &format!("key:{key:0DIGITS$}")])?;
            deleted += 1;
        }
    }
    match pipeline.finish()?.first_error {
        Some(error) => Err(Error::server(&server.label, error)),
        None => Ok(deleted),
    }
}
