//! The subcommand `shards`.

use benchmark::record::ServerNote;
use benchmark::shards::{self, Arrangement, CoreSets};
use benchmark::{Error, Result, machine, table};
use clap::Args;
use serde_json::json;

use super::{Common, Length};

#[derive(Debug, Args)]
pub(super) struct ShardsOptions {
    #[command(flatten)]
    common: Common,
    /// Shards of the first server, and processes of the others' clusters.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8])]
    shards: Vec<usize>,
    /// How servers run: the first in ports, strict and relaxed, the others alone and as a cluster
    /// [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Arrangement>,
    /// GET, SET, MGET, MSET, PUBLISH [default: all].
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Connections, over all shards or processes.
    #[arg(long, default_value_t = 200)]
    connections: usize,
    /// Requests that a connection sends at once.
    #[arg(long, default_value_t = 16)]
    pipeline: usize,
    /// Length of values and messages, in bytes.
    #[arg(long, default_value_t = 64)]
    value: usize,
    /// Random keys of GET and SET, and as many more of MGET and MSET.
    #[arg(long, default_value_t = 100_000)]
    keys: u32,
    /// Gives the keys of MGET and MSET one hash tag at one port too, as a cluster needs it.
    #[arg(long)]
    one_tag: bool,
    /// Threads that make the load [default: the client's cores, or half of all if not pinned].
    #[arg(long)]
    threads: Option<usize>,
    /// Cores of the client, from the last one on; the servers have the others [default: half].
    #[arg(long)]
    client_cores: Option<usize>,
    /// Servers listen at free ports from this one on.
    #[arg(long, default_value_t = 23000)]
    first_port: u16,
    #[command(flatten)]
    length: Length,
}

pub(super) fn run(options: &ShardsOptions) -> Result<()> {
    let common = &options.common;
    let arrangements = match options.only.is_empty() {
        true => &Arrangement::ALL[..],
        false => &options.only,
    };
    let setups = shards::setups(&common.peers()?, arrangements, &options.shards);
    if setups.is_empty() {
        return Err(Error::Input("no server runs like that".to_owned()));
    }
    let cores = if common.no_pin { None } else { CoreSets::choose(options.client_cores) };
    let default_threads = match &cores {
        Some(cores) => cores.clients.len(),
        None => machine::allowed_cores().len() / 2,
    };
    let asked = shards::Options {
        rows: shards::rows(&options.rows)?,
        connections: options.connections,
        pipeline: options.pipeline.max(1),
        value_len: options.value,
        keys: options.keys,
        one_tag: options.one_tag,
        threads: options.threads.unwrap_or(default_threads).max(1),
        stop: options.length.stop(),
        rounds: options.length.rounds.max(1),
    };
    let mut start = |setup: &_| shards::start(setup, options.first_port, cores.as_ref());
    let (cells, notes): (_, Vec<ServerNote>) = shards::run(&setups, &asked, &mut start)?;
    table::say(&shards::table(&cells));
    let parameters = json!({
        "shards": options.shards,
        "connections": options.connections,
        "pipeline": asked.pipeline,
        "value": options.value,
        "keys": options.keys,
        "one_tag": options.one_tag,
        "threads": asked.threads,
        "length": options.length.note(),
        "server_cores": cores.as_ref().map(|cores| cores.servers.len()),
        "client_cores": cores.as_ref().map(|cores| cores.clients.len()),
        "pinned": cores.is_some(),
    });
    common.record("shards", parameters, notes, json!({"cells": cells}))
}
