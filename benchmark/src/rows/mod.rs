//! `rows`: one command after another, on all servers in turns.
//!
//! A cell is a command at one pipeline depth, number of clients and value length. Each round of a
//! cell visits every server, in the order given and in reverse by turns, so that a slow spell of
//! the machine meets all of them. Before a visit the server is emptied and set up, and the command
//! is run once: a server that answers it with an error is marked in that cell and not measured,
//! and one error reply among millions marks it as well.
//!
//! Ratios compare each server with the first one given, round by round, and their median counts.

mod measure;
mod redis_benchmark;
mod report;

pub use measure::run;
pub(crate) use measure::{SETTLE, medians};
pub use report::{Summary, table};

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::load::Stop;
use crate::peer::Cores;
use crate::{Error, Result};

/// The list of rows that comes with this crate.
pub const BUILT_IN: &str = include_str!("../../rows.json");

/// A command to measure; the format of rows files, which are JSON lists of these.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Row {
    /// Its name.
    pub row: String,
    /// Commands to run first, on an empty server.
    pub setup: Vec<String>,
    /// The command.
    pub command: String,
    /// How it runs over many keys; rows without it only run on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random: Option<Random>,
}

/// A row over many keys.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Random {
    /// The command that makes key number `__rand__`, run once for each.
    pub fill: String,
    /// The command to measure, on random keys.
    pub command: String,
}

/// Reads a rows file, or the built-in list for `None`, and picks the rows named (all if none is).
///
/// # Errors
/// The file cannot be read, is no list of rows, or has no row of a name.
pub fn rows(file: Option<&Path>, names: &[String]) -> Result<Vec<Row>> {
    let text = match file {
        None => BUILT_IN.to_owned(),
        Some(path) => {
            std::fs::read_to_string(path).map_err(Error::io(format!("read {}", path.display())))?
        }
    };
    let all: Vec<Row> = serde_json::from_str(&text)
        .map_err(|error| Error::Input(format!("not a list of rows: {error}")))?;
    if names.is_empty() {
        return Ok(all);
    }
    let find = |name: &String| {
        let row = all.iter().find(|row| row.row.eq_ignore_ascii_case(name));
        row.cloned().ok_or_else(|| Error::Input(format!("no row `{name}`")))
    };
    names.iter().map(find).collect()
}

/// Who makes the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
pub enum Generator {
    /// [`crate::load`].
    Own,
    /// The program of that name, which must be installed. It knows no p99.9.
    RedisBenchmark,
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The commands.
    pub rows: Vec<Row>,
    /// Requests that a connection sends at once.
    pub pipelines: Vec<usize>,
    /// Numbers of connections.
    pub clients: Vec<usize>,
    /// Lengths of `__value__`, in bytes.
    pub value_lens: Vec<usize>,
    /// Number of random keys; `None` runs rows as they are.
    pub keys: Option<u64>,
    /// Length of each visit.
    pub stop: Stop,
    /// Visits to each server in each cell.
    pub rounds: usize,
    /// Who makes the load.
    pub generator: Generator,
    /// Where servers and client run; `None` leaves that to the kernel.
    pub cores: Option<Cores>,
}

/// What one visit showed.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sample {
    /// Requests a second.
    pub requests_per_s: f64,
    /// CPU time of the server's process for each request, in nanoseconds.
    pub server_cpu_ns: f64,
    /// The same of the load generator: where it is much more than the server's, the client was
    /// the limit, and only the server's CPU time says something.
    pub client_cpu_ns: f64,
    /// Median latency, in microseconds.
    pub p50_us: f64,
    /// Latency that one in a hundred exceeds.
    pub p99_us: f64,
    /// Latency that one in a thousand exceeds; `None` if the generator does not know it.
    pub p99_9_us: Option<f64>,
}

/// A server in a cell.
#[derive(Clone, Debug, Serialize)]
pub struct Visits {
    /// The server.
    pub label: String,
    /// The error that it answered with; nothing else is known then.
    pub error: Option<String>,
    /// The medians over the rounds.
    pub median: Option<Sample>,
    /// Its CPU time over that of the first server, above 1 where it needs more; median of rounds.
    pub cpu_ratio: Option<f64>,
    /// The first server's requests a second over its own, above 1 where it answers fewer.
    pub rate_ratio: Option<f64>,
    /// Each round.
    pub rounds: Vec<Sample>,
}

/// A command at one depth, number of clients and value length.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The row's name.
    pub row: String,
    /// Requests that a connection sends at once.
    pub pipeline: usize,
    /// Connections.
    pub clients: usize,
    /// Length of `__value__`.
    pub value_len: usize,
    /// The servers, in the order given.
    pub servers: Vec<Visits>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_list_is_whole() {
        let all = rows(None, &[]).expect("the built-in rows");
        assert_eq!(all.len(), 60);
        let two = rows(None, &["set".to_owned(), "GET".to_owned()]).expect("two rows");
        assert_eq!([&two[0].row, &two[1].row], ["SET", "GET"]);
        assert!(rows(None, &["nothing".to_owned()]).is_err());
        for row in all {
            assert!(!row.command.contains("__rand__"), "{row:?}");
            let random = row.random.as_ref();
            assert!(random.is_none_or(|random| random.fill.contains("__rand__")), "{row:?}");
        }
    }
}
