//! `complaints`: what users complain about most, as figures.
//!
//! | name | complaint |
//! | --- | --- |
//! | [`due`] | keys that fall due are gone late when many others have a time |
//! | [`deletion`] | memory does not come back after most keys are deleted |
//! | [`churn`] | memory grows while keys are overwritten and deleted |
//! | [`stalls`] | growth, FLUSHALL and the deletion of a huge value stop everybody |
//!
//! Each is run on a fresh process of each server.

pub mod churn;
pub mod deletion;
pub mod due;
pub mod stalls;

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::load::{self, Load, Outcome, Stop};
use crate::peer::Running;
use crate::template::{self, Batch, Keys};
use crate::{Error, Result};

/// Connections and depth with which keys are made.
const FILL_CLIENTS: usize = 4;
const FILL_PIPELINE: usize = 16;

/// Length of the keys `key:<12 digits>` that complaints use.
const KEY_LEN: usize = 4 + template::DIGITS;

/// Latency of requests, in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Latency {
    /// Requests.
    pub requests: u64,
    /// The median.
    pub p50_us: f64,
    /// What one in a hundred exceeds.
    pub p99_us: f64,
    /// What one in a thousand exceeds.
    pub p99_9_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Self {
        let us = |quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
        Self {
            requests: histogram.len(),
            p50_us: us(0.5),
            p99_us: us(0.99),
            p99_9_us: us(0.999),
            max_us: histogram.max() as f64 / 1000.0,
        }
    }
}

/// Makes `count` keys by a command in which `__rand__` is the key's number.
fn fill(server: &Running, command: &str, value_len: usize, count: u64) -> Result<Outcome> {
    let load = Load {
        batch: Batch::new(&template::words(command, value_len), FILL_PIPELINE),
        keys: Keys::InTurn(0, count),
        clients: FILL_CLIENTS,
        stop: Stop::Requests(count),
        bystander: None,
    };
    refuse_errors(server, load::run(&server.label, server.address, &load)?)
}

/// An error reply makes a complaint's figures worthless.
fn refuse_errors(server: &Running, outcome: Outcome) -> Result<Outcome> {
    match &outcome.first_error {
        Some(error) => Err(Error::server(&server.label, error.clone())),
        None => Ok(outcome),
    }
}

/// Sends one request and refuses an error reply.
fn command(server: &Running, words: &[&str]) -> Result<crate::wire::Reply> {
    match server.client()?.call(words)? {
        crate::wire::Reply::Error(error) => Err(Error::server(&server.label, error)),
        reply => Ok(reply),
    }
}

/// Resident memory once a second, the first look at once.
fn watch_rss(server: &Running, time: Duration) -> Result<Vec<u64>> {
    let mut seen = vec![server.rss_bytes()?];
    for _ in 0..time.as_secs() {
        std::thread::sleep(Duration::from_secs(1));
        seen.push(server.rss_bytes()?);
    }
    Ok(seen)
}
