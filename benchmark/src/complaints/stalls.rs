//! Growth to millions of keys, FLUSHALL of them, deletion of one huge value: who has to wait?
//!
//! A bystander asks for one small key every millisecond and counts from when its request was due,
//! so that one long stop shows in all the requests that it held up. Where the server names its
//! longest tick in INFO, that is read after each phase; the statistics are reset before it.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::{FILL_CLIENTS, FILL_PIPELINE, Latency, command, refuse_errors};
use crate::load::{self, Bystander, Load, Stop};
use crate::peer::Running;
use crate::template::{self, Batch, Keys};
use crate::{Error, Result, clock};

/// Time between the bystander's requests.
const INTERVAL: Duration = Duration::from_millis(1);

/// Quiet time before a phase's command.
const QUIET: Duration = Duration::from_millis(300);

/// What to try.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Keys to grow to.
    pub keys: u64,
    /// Length of their values.
    pub value_len: usize,
    /// Length of the huge value.
    pub huge_len: u64,
    /// Field of INFO with the longest tick, in microseconds.
    pub tick_field: String,
    /// How long the bystander goes on after a command, in milliseconds.
    pub after_ms: u64,
}

/// What was seen in one phase.
#[derive(Clone, Debug, Serialize)]
pub struct Stall {
    /// The server.
    pub label: String,
    /// The phase: `growth`, `flushall`, `huge delete`.
    pub phase: String,
    /// How long the phase's command took to be answered, in milliseconds; for growth, all of it.
    pub command_ms: f64,
    /// What the bystander saw.
    pub bystander: Latency,
    /// The server's longest tick, in microseconds, if it tells.
    pub tick_longest_us: Option<f64>,
}

/// Tries it on a fresh server.
///
/// # Errors
/// The server dies or answers with an error.
pub fn run(server: &Running, options: &Options) -> Result<Vec<Stall>> {
    command(server, &["SET", "bystander", "x"])?;
    let growth = phase(server, options, "growth", || grow(server, options))?;
    let flush = phase(server, options, "flushall", || during(server, options, &["FLUSHALL"]))?;
    command(server, &["SET", "bystander", "x"])?;
    let last = (options.huge_len.max(1) - 1).to_string();
    command(server, &["SETRANGE", "huge", &last, "x"])?;
    let delete =
        phase(server, options, "huge delete", || during(server, options, &["DEL", "huge"]))?;
    Ok(vec![growth, flush, delete])
}

fn phase(
    server: &Running,
    options: &Options,
    name: &str,
    run: impl FnOnce() -> Result<(Duration, Latency)>,
) -> Result<Stall> {
    // Not every server has statistics to reset.
    let _ = command(server, &["CONFIG", "RESETSTAT"]);
    let (took, bystander) = run()?;
    let tick_longest_us = server.client()?.info("all", &options.tick_field)?;
    Ok(Stall {
        label: server.label.clone(),
        phase: name.to_owned(),
        command_ms: took.as_secs_f64() * 1000.0,
        bystander,
        tick_longest_us,
    })
}

fn grow(server: &Running, options: &Options) -> Result<(Duration, Latency)> {
    let words = template::words("SET key:__rand__ __value__", options.value_len);
    let load = Load {
        batch: Batch::new(&words, FILL_PIPELINE),
        keys: Keys::InTurn(0, options.keys),
        clients: FILL_CLIENTS,
        stop: Stop::Requests(options.keys),
        bystander: Some(bystander()),
    };
    let outcome = load::run(&server.label, server.address, &load)?;
    let outcome = refuse_errors(server, outcome)?;
    Ok((outcome.elapsed, Latency::of(&outcome.bystander)))
}

fn bystander() -> Bystander {
    Bystander { batch: Batch::new(&template::words("GET bystander", 0), 1), interval: INTERVAL }
}

/// Runs a command on a connection of its own while the bystander asks, before and after it too.
fn during(server: &Running, options: &Options, words: &[&str]) -> Result<(Duration, Latency)> {
    let load = Load {
        batch: Batch::new(&template::words("PING", 0), 1),
        keys: Keys::One,
        clients: 1,
        stop: Stop::After(QUIET + Duration::from_millis(options.after_ms)),
        bystander: Some(bystander()),
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| -> Result<Duration> {
            std::thread::sleep(QUIET);
            let started: Instant = clock::now();
            command(server, words)?;
            Ok(clock::now() - started)
        });
        let outcome = load::run(&server.label, server.address, &load)?;
        let took =
            other.join().map_err(|_| Error::server(&server.label, "a thread panicked"))??;
        Ok((took, Latency::of(&refuse_errors(server, outcome)?.bystander)))
    })
}
