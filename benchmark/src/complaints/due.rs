//! Keys that fall due among many other volatile keys: how late is each gone from DBSIZE?
//!
//! Nobody touches the keys; DBSIZE is asked again and again. The k-th key that vanishes counts
//! against the k-th due time. The clocks of server and client are the same machine's.

use std::time::Duration;

use serde::Serialize;

use super::{command, fill};
use crate::numbers::percentile;
use crate::peer::Running;
use crate::wire::Reply;
use crate::{Error, Result, clock};

/// Time between the last of the due keys being made and the first being due.
const LEAD_MS: u64 = 300;

/// Pause between two looks.
const LOOK_PAUSE: Duration = Duration::from_micros(500);

/// How late is late.
const ON_TIME_MS: f64 = 50.0;

/// What to try.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Options {
    /// Other keys, with an hour to live.
    pub others: u64,
    /// Keys that fall due.
    pub due: u64,
    /// Time over which they fall due, in milliseconds; 0 for all at once.
    pub spread_ms: u64,
    /// How long to wait for the last of them.
    pub wait_ms: u64,
}

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub struct Due {
    /// The server.
    pub label: String,
    /// Keys that vanished within the wait.
    pub gone: u64,
    /// Keys that vanished within 50 ms.
    pub on_time: u64,
    /// Lateness of those that vanished, in milliseconds; `None` if none has.
    pub p50_ms: Option<f64>,
    /// What one in a hundred exceeds.
    pub p99_ms: Option<f64>,
    /// The latest.
    pub max_ms: Option<f64>,
}

/// Tries it on a fresh server.
///
/// # Errors
/// The server dies or answers with an error.
pub fn run(server: &Running, options: &Options) -> Result<Due> {
    fill(server, "SET key:__rand__ __value__ EX 3600", 8, options.others)?;
    let times = plant(server, options)?;
    let mut late = watch(server, options, &times)?;
    late.sort_by(f64::total_cmp);
    let on_time = late.iter().filter(|late| **late <= ON_TIME_MS).count() as u64;
    let ms = |percent| (!late.is_empty()).then(|| percentile(&late, percent));
    Ok(Due {
        label: server.label.clone(),
        gone: late.len() as u64,
        on_time,
        p50_ms: ms(50.0),
        p99_ms: ms(99.0),
        max_ms: ms(100.0),
    })
}

/// Makes the keys that fall due and returns their times, in order.
fn plant(server: &Running, options: &Options) -> Result<Vec<u64>> {
    // Making many of them takes time too: 50 a millisecond is slow for any server.
    let lead = LEAD_MS + options.due / 50;
    let start = clock::unix_ms() + lead;
    let time = |index| start + options.spread_ms * index / options.due.max(1);
    let times: Vec<u64> = (0..options.due).map(time).collect();
    let mut client = server.client()?;
    let mut pipeline = client.pipeline();
    for (index, time) in times.iter().enumerate() {
        let (key, time) = (format!("due:{index}"), time.to_string());
        pipeline.push(&["SET", &key, "x", "PXAT", &time])?;
    }
    match pipeline.finish()?.first_error {
        Some(error) => Err(Error::server(&server.label, error)),
        None if clock::unix_ms() >= start => {
            Err(Error::server(&server.label, "took longer to make the keys than they had to live"))
        }
        None => Ok(times),
    }
}

/// Lateness of each key that vanishes, in milliseconds.
fn watch(server: &Running, options: &Options, times: &[u64]) -> Result<Vec<f64>> {
    let mut client = server.client()?;
    let last = times.last().copied().unwrap_or(0);
    let mut late = Vec::new();
    while late.len() < times.len() && clock::unix_ms() < last + options.wait_ms {
        let Reply::Integer(size) = client.call(&["DBSIZE"])? else {
            return Err(Error::server(&server.label, "DBSIZE gives no number"));
        };
        let now = clock::unix_ms();
        let left = (size as u64).saturating_sub(options.others);
        let gone = (options.due.saturating_sub(left) as usize).min(times.len());
        for time in times.iter().take(gone).skip(late.len()) {
            late.push(now as f64 - *time as f64);
        }
        std::thread::sleep(LOOK_PAUSE);
    }
    // Keys that nobody sees are still gone for whoever asks.
    let reply = command(server, &["GET", "due:0"])?;
    if reply != Reply::Null && !times.is_empty() {
        return Err(Error::server(&server.label, format!("a due key answers {reply:?}")));
    }
    Ok(late)
}
