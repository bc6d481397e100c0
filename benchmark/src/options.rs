//! Subcommands and their options; what they share is said once, in [`Common`].

mod complaints;
mod shards;

use std::path::PathBuf;
use std::time::Duration;

use benchmark::density::structures::{Filling, KEY_SHAPE, VALUE_LEN};
use benchmark::load::Stop;
use benchmark::peer::{Cores, Peer, Running};
use benchmark::record::{Record, ServerNote};
use benchmark::rows::{self, Generator, Summary};
use benchmark::{Result, density, fetch, floor, machine, table};
use clap::{Args, Parser, Subcommand};
use serde_json::{Value, json};

/// Side-by-side measurements of servers that speak the Redis protocol.
///
/// A server is `label=command line`, with {port} for the port that it shall use and {folder} for
/// an empty folder, or the bare word `redis` (8.2.3) or `valkey` (9.1.2) to fetch and use that
/// one. The first server is the one that the others are compared with.
#[derive(Debug, Parser)]
#[command(name = "benchmark", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Memory per item of 21 structures.
    Density(DensityOptions),
    /// Requests a second, CPU time and latency of one command after another.
    Rows(RowsOptions),
    /// GET and SET beside the physical limit, at pipeline 1, 16 and 64.
    Floor(FloorOptions),
    /// GET and SET at pipeline 1, 16, 64; clients 1, 50, 200; values of 64, 1024, 4096 bytes.
    Sweep(SweepOptions),
    /// What users complain about: late expiry, memory that does not come back, stalls.
    Complaints(complaints::ComplaintsOptions),
    /// One process of several shards, beside one Redis and a Redis Cluster of as many processes.
    Shards(shards::ShardsOptions),
    /// The server that is the physical limit: reads, counts and answers without parsing.
    FloorServer {
        /// epoll or io_uring.
        #[arg(long, default_value = "epoll")]
        backend: String,
        /// Port on 127.0.0.1.
        #[arg(long)]
        port: u16,
    },
}

#[derive(Debug, Args)]
struct Common {
    /// Servers, as label=command line, or `redis` or `valkey`.
    #[arg(required = true, value_name = "SERVER")]
    servers: Vec<String>,
    /// Where fetched servers are kept [default: the user's cache folder].
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Where the record is written.
    #[arg(long, default_value = "benchmark/records")]
    records: PathBuf,
    /// Writes no record.
    #[arg(long)]
    no_record: bool,
    /// Name of the record [default: the subcommand's].
    #[arg(long)]
    name: Option<String>,
    /// Lets the kernel place servers and client, instead of one core for each.
    #[arg(long)]
    no_pin: bool,
}

#[derive(Debug, Args)]
struct DensityOptions {
    #[command(flatten)]
    common: Common,
    /// Only structures with one of these texts in their name.
    #[arg(long, value_delimiter = ',')]
    structures: Vec<String>,
    /// Items of each structure [default: as the design's table says].
    #[arg(long)]
    count: Option<usize>,
    /// Factor on the number of items.
    #[arg(long, default_value_t = 1)]
    scale: usize,
    /// Shape of keys; {i:6} is the item's number in at least 6 digits.
    #[arg(long, default_value = KEY_SHAPE)]
    key_shape: String,
    /// Length of the values that the table calls 16 B.
    #[arg(long, default_value_t = VALUE_LEN)]
    value: usize,
}

#[derive(Debug, Args)]
struct RowsOptions {
    #[command(flatten)]
    common: Common,
    /// A JSON list of {row, setup, command} [default: the built-in list].
    #[arg(long)]
    file: Option<PathBuf>,
    /// Names of the rows to run [default: all].
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Requests that a connection sends at once.
    #[arg(long, value_delimiter = ',', default_values_t = [16])]
    pipeline: Vec<usize>,
    /// Connections.
    #[arg(long, value_delimiter = ',', default_values_t = [50])]
    clients: Vec<usize>,
    /// Length of values, in bytes.
    #[arg(long, value_delimiter = ',', default_values_t = [64])]
    value: Vec<usize>,
    /// Runs over this many random keys; rows that know no such form are left out.
    #[arg(long)]
    keys: Option<u64>,
    /// Puts the physical limit beside the servers.
    #[arg(long)]
    floor: bool,
    /// Who makes the load.
    #[arg(long, value_enum, default_value_t = Generator::Own)]
    generator: Generator,
    #[command(flatten)]
    length: Length,
}

#[derive(Debug, Args)]
struct Length {
    /// Visits to each server for each row.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of each visit.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Requests of each visit, instead of seconds.
    #[arg(long)]
    requests: Option<u64>,
}

impl Length {
    fn stop(&self) -> Stop {
        match self.requests {
            Some(count) => Stop::Requests(count),
            None => Stop::After(Duration::from_secs_f64(self.seconds.clamp(0.01, 3600.0))),
        }
    }

    fn note(&self) -> Value {
        match self.requests {
            Some(count) => json!({"rounds": self.rounds, "requests": count}),
            None => json!({"rounds": self.rounds, "seconds": self.seconds}),
        }
    }
}

#[derive(Debug, Args)]
struct FloorOptions {
    #[command(flatten)]
    common: Common,
    /// Length of values, in bytes.
    #[arg(long, default_value_t = 64)]
    value: usize,
    /// Runs over this many random keys.
    #[arg(long)]
    keys: Option<u64>,
    #[command(flatten)]
    length: Length,
}

#[derive(Debug, Args)]
struct SweepOptions {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    length: Length,
}

/// Runs what the command line asks for.
pub(crate) fn run() -> Result<()> {
    match Cli::parse().command {
        Command::Density(options) => run_density(&options),
        Command::Rows(options) => run_rows("rows", &options),
        Command::Floor(options) => {
            let FloorOptions { common, value, keys, length } = options;
            let rows = get_and_set(common, vec![1, 16, 64], vec![50], vec![value], keys, length);
            run_rows("floor", &RowsOptions { floor: true, ..rows })
        }
        Command::Sweep(SweepOptions { common, length }) => {
            let (depths, clients) = (vec![1, 16, 64], vec![1, 50, 200]);
            let values = vec![64, 1024, 4096];
            run_rows("sweep", &get_and_set(common, depths, clients, values, None, length))
        }
        Command::Complaints(options) => complaints::run(&options),
        Command::Shards(options) => shards::run(&options),
        Command::FloorServer { backend, port } => floor::serve(&backend, port),
    }
}

fn get_and_set(
    common: Common,
    pipeline: Vec<usize>,
    clients: Vec<usize>,
    value: Vec<usize>,
    keys: Option<u64>,
    length: Length,
) -> RowsOptions {
    RowsOptions {
        common,
        file: None,
        rows: vec!["GET".to_owned(), "SET".to_owned()],
        pipeline,
        clients,
        value,
        keys,
        floor: false,
        generator: Generator::Own,
        length,
    }
}

impl Common {
    fn peers(&self) -> Result<Vec<Peer>> {
        self.servers.iter().map(|text| fetch::peer(text, self.cache.as_deref())).collect()
    }

    fn cores(&self) -> Option<Cores> {
        if self.no_pin { None } else { Cores::choose() }
    }

    fn record(
        &self,
        what: &str,
        options: Value,
        servers: Vec<ServerNote>,
        results: Value,
    ) -> Result<()> {
        if self.no_record {
            return Ok(());
        }
        let what = self.name.as_deref().unwrap_or(what);
        let path = Record::new(what, options, servers, results).write(&self.records)?;
        table::progress(&format!("record: {}", path.display()));
        Ok(())
    }
}

fn run_density(options: &DensityOptions) -> Result<()> {
    let common = &options.common;
    let cores = common.cores();
    let filling = Filling { key_shape: options.key_shape.clone(), value_len: options.value };
    let asked = density::Options {
        names: options.structures.clone(),
        count: options.count,
        scale: options.scale.max(1),
        filling,
        cores,
    };
    let (density, notes) = density::run(&common.peers()?, &asked)?;
    table::say(&density.table());
    let parameters = json!({
        "structures": options.structures,
        "count": options.count,
        "scale": options.scale,
        "key_shape": options.key_shape,
        "value": options.value,
        "pinned": cores.is_some(),
    });
    common.record("density", parameters, notes, json!(density))
}

fn run_rows(what: &str, options: &RowsOptions) -> Result<()> {
    let common = &options.common;
    let mut peers = common.peers()?;
    if options.floor {
        peers.extend(floor::peers()?);
    }
    let cores = common.cores();
    if let Some(cores) = cores {
        machine::pin(cores.client)?;
    }
    let servers: Vec<Running> =
        peers.iter().map(|peer| peer.start(cores)).collect::<Result<_>>()?;
    let asked = rows::Options {
        rows: rows::rows(options.file.as_deref(), &options.rows)?,
        pipelines: options.pipeline.clone(),
        clients: options.clients.clone(),
        value_lens: options.value.clone(),
        keys: options.keys,
        stop: options.length.stop(),
        rounds: options.length.rounds.max(1),
        generator: options.generator,
        cores,
    };
    let cells = rows::run(&servers, &asked)?;
    table::say(&rows::table(&cells));
    let parameters = json!({
        "pipeline": options.pipeline,
        "clients": options.clients,
        "value": options.value,
        "keys": options.keys,
        "generator": options.generator,
        "length": options.length.note(),
        "pinned": cores.is_some(),
    });
    let notes = servers.iter().map(ServerNote::from).collect();
    let results = json!({"cells": cells, "means": Summary::of(&cells)});
    common.record(what, parameters, notes, results)
}
