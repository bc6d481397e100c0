//! Resident memory against live payload, after many overwrites and deletions.

use std::time::Duration;

use serde::Serialize;

use super::{KEY_LEN, watch_rss};
use crate::client::Pipeline;
use crate::density;
use crate::numbers::Random;
use crate::peer::Running;
use crate::template::{self, DIGITS};
use crate::{Error, Result};

/// Longest value; lengths are spread evenly from 1.
const VALUE_LEN_MAX: usize = 200;

/// Of a hundred operations, this many delete.
const DELETE_PERCENT: u64 = 20;

/// What to try.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Options {
    /// Different keys.
    pub keys: u64,
    /// Operations for each of them, on average.
    pub rounds: u64,
    /// How long the server has to settle.
    pub wait_s: u64,
}

/// What was seen. Memory counts above the empty server's.
#[derive(Clone, Debug, Serialize)]
pub struct Churn {
    /// The server.
    pub label: String,
    /// Keys that are there at the end.
    pub live: u64,
    /// Bytes of their keys and values.
    pub payload: u64,
    /// Resident bytes.
    pub rss: u64,
    /// Resident bytes over payload.
    pub rss_ratio: f64,
    /// `used_memory` over payload.
    pub used_ratio: f64,
    /// Resident bytes over payload after the first load, before the churn.
    pub fresh_ratio: f64,
}

/// Tries it on a fresh server.
///
/// # Errors
/// The server dies or answers with an error.
pub fn run(server: &Running, options: &Options) -> Result<Churn> {
    let mut observer = server.client()?;
    let empty = server.rss_bytes()?;
    let empty_used = density::settled_used(server, &mut observer)?;
    let mut model = Model::new(options.keys);
    model.apply(server, options.keys, Model::load)?;
    std::thread::sleep(Duration::from_secs(1));
    let ratio = |bytes: f64, model: &Model| bytes / model.payload().max(1) as f64;
    let fresh_ratio = ratio(server.rss_bytes()?.saturating_sub(empty) as f64, &model);
    model.apply(server, options.keys * options.rounds, Model::churn)?;
    let seen = watch_rss(server, Duration::from_secs(options.wait_s))?;
    let rss = seen.last().copied().unwrap_or(0).saturating_sub(empty);
    let used = density::settled_used(server, &mut observer)? - empty_used;
    Ok(Churn {
        label: server.label.clone(),
        live: model.live(),
        payload: model.payload(),
        rss,
        rss_ratio: ratio(rss as f64, &model),
        used_ratio: ratio(used, &model),
        fresh_ratio,
    })
}

/// What the server must hold.
struct Model {
    /// Length of each key's value; 0 for a key that is not there.
    lens: Vec<u8>,
    random: Random,
    /// Values are fronts of this.
    text: String,
}

impl Model {
    fn new(keys: u64) -> Self {
        let lens = vec![0; keys as usize];
        Self { lens, random: Random::new(3), text: template::value(VALUE_LEN_MAX) }
    }

    fn live(&self) -> u64 {
        self.lens.iter().filter(|len| **len > 0).count() as u64
    }

    fn payload(&self) -> u64 {
        let values: u64 = self.lens.iter().map(|len| u64::from(*len)).sum();
        values + self.live() * KEY_LEN as u64
    }

    fn apply(
        &mut self,
        server: &Running,
        count: u64,
        step: fn(&mut Self, u64, &mut Pipeline<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut client = server.client()?;
        let mut pipeline = client.pipeline();
        for number in 0..count {
            step(self, number, &mut pipeline)?;
        }
        match pipeline.finish()?.first_error {
            Some(error) => Err(Error::server(&server.label, error)),
            None => Ok(()),
        }
    }

    fn load(&mut self, number: u64, pipeline: &mut Pipeline<'_>) -> Result<()> {
        self.set(number, pipeline)
    }

    fn churn(&mut self, _: u64, pipeline: &mut Pipeline<'_>) -> Result<()> {
        let key = self.random.below(self.lens.len() as u64);
        if self.random.below(100) < DELETE_PERCENT {
            self.lens[key as usize] = 0;
            return pipeline.push(&["DEL", &name(key)]);
        }
        self.set(key, pipeline)
    }

    fn set(&mut self, key: u64, pipeline: &mut Pipeline<'_>) -> Result<()> {
        let len = 1 + self.random.below(VALUE_LEN_MAX as u64) as usize;
        self.lens[key as usize] = u8::try_from(len).unwrap_or(u8::MAX);
        pipeline.push(&["SET", &name(key), &self.text[..len]])
    }
}

fn name(key: u64) -> String {
    format!("key:{key:0DIGITS$}")
}
