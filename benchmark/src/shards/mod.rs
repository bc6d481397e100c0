//! `shards`: what one process gains from several shards, beside as many processes of Redis.
//!
//! The first server is the one with shards; it is measured in three arrangements. Every other is
//! measured alone, as one process, and as a Redis Cluster of one process for each shard:
//!
//! ```text
//! ports    --shards N --port-mode per-shard    a routing client, shard i at port P + i
//! strict   --shards N                          all connections at one port, replies in order
//! relaxed  --shards N --pipeline-order relaxed the same without waiting for earlier commands
//! alone    as it is given                      one process, all connections at its port
//! cluster  --cluster-enabled yes               a routing client, N processes
//! ```
//!
//! Each round starts every setup (an arrangement with its number of shards) anew and ends it before
//! the next: an idle process still has timers, and 15 nodes of a cluster talk to each other. The
//! order turns round by round, so that a slow spell of the machine does not always meet the same
//! ones. Where a server does not start, dies, loses keys or answers with an error, its rows are
//! marked and not counted.
//!
//! Requests of many keys take random ones. A routing client must keep to one hash tag, so theirs
//! share a random one; at one port each key has its own, unless asked otherwise. A Redis Cluster
//! passes PUBLISH on to every node, which its CPU time shows.
//!
//! Servers and client have cores of their own. Requests a second grow with the shards only as far
//! as the servers' cores reach and the client is not the limit (its CPU time is beside theirs).

mod fleet;
mod measure;
mod report;
pub mod route;

pub use fleet::{Fleet, start};
pub use measure::run;
pub use report::table;

use serde::Serialize;

use crate::load::Stop;
use crate::machine;
use crate::peer::Peer;
use crate::rows::Sample;
use crate::{Error, Result};

/// How a server runs and how its clients find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Arrangement {
    /// One process with a port for each shard, and a routing client.
    Ports,
    /// One process with one port; a connection's commands run one after another.
    Strict,
    /// One process with one port; commands on other keys need not wait for each other.
    Relaxed,
    /// One process as it is given.
    Alone,
    /// A Redis Cluster of as many processes, and a routing client.
    Cluster,
}

impl Arrangement {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Ports, Self::Strict, Self::Relaxed, Self::Alone, Self::Cluster];

    /// Whether requests go to the node that serves their keys.
    pub fn is_routed(self) -> bool {
        matches!(self, Self::Ports | Self::Cluster)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Ports => "ports",
            Self::Strict => "strict",
            Self::Relaxed => "relaxed",
            Self::Alone => "alone",
            Self::Cluster => "cluster",
        }
    }
}

/// A server in an arrangement, with a number of shards or processes.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Its name in tables and records, the number of shards left out.
    pub label: String,
    /// How it runs.
    pub arrangement: Arrangement,
    /// Shards of the process, or processes of the cluster.
    pub shards: usize,
    /// How to start a process of it; `{bus}` in its words is the port of the cluster bus.
    pub peer: Peer,
}

impl Setup {
    /// A server with what the arrangement adds to its command line.
    pub fn new(peer: &Peer, arrangement: Arrangement, shards: usize) -> Self {
        let more = match arrangement {
            Arrangement::Ports => format!("--shards {shards} --port-mode per-shard"),
            Arrangement::Strict => format!("--shards {shards}"),
            Arrangement::Relaxed => format!("--shards {shards} --pipeline-order relaxed"),
            Arrangement::Alone => String::new(),
            Arrangement::Cluster => {
                "--cluster-enabled yes --cluster-port {bus} --dir {folder}".to_owned()
            }
        };
        let mut peer = peer.clone();
        peer.words.extend(more.split_whitespace().map(str::to_owned));
        let label = format!("{} {}", peer.label, arrangement.name());
        Self { label, arrangement, shards, peer }
    }

    /// Places where requests go.
    pub fn nodes(&self) -> usize {
        if self.arrangement.is_routed() { self.shards } else { 1 }
    }
}

/// All setups of these servers, the first of which is the one with shards.
pub fn setups(peers: &[Peer], arrangements: &[Arrangement], shard_counts: &[usize]) -> Vec<Setup> {
    let mut setups = Vec::new();
    for (index, peer) in peers.iter().enumerate() {
        for &arrangement in arrangements {
            let has_shards = !matches!(arrangement, Arrangement::Alone | Arrangement::Cluster);
            if has_shards != (index == 0) {
                continue;
            }
            let counts = if arrangement == Arrangement::Alone { &[1] } else { shard_counts };
            setups.extend(counts.iter().map(|&shards| Setup::new(peer, arrangement, shards)));
        }
    }
    setups
}

/// A command to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Its words that come once.
    command: &'static str,
    /// Its words that come [`MANY`] times, if it takes many keys.
    each: Option<&'static str>,
    /// What numbers fill it.
    numbers: Numbers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    Keys,
    Tags,
    Channels,
}

/// Keys of a request that takes many.
pub const MANY: usize = 10;

/// The commands, in the order in which they run.
pub const ROWS: [Row; 5] = [
    row("GET", "GET key:__rand__", None, Numbers::Keys),
    row("SET", "SET key:__rand__ __value__", None, Numbers::Keys),
    row("MGET 10", "MGET", Some(" {__rand__}:__rand__"), Numbers::Tags),
    row("MSET 10", "MSET", Some(" {__rand__}:__rand__ __value__"), Numbers::Tags),
    row("PUBLISH", "PUBLISH channel:__rand__ __value__", None, Numbers::Channels),
];

const fn row(
    name: &'static str,
    command: &'static str,
    each: Option<&'static str>,
    numbers: Numbers,
) -> Row {
    Row { name, command, each, numbers }
}

impl Row {
    /// The command with its marks.
    fn line(&self) -> String {
        self.command.to_owned() + &self.each.unwrap_or_default().repeat(MANY)
    }
}

/// The rows of these names, or all if there is none; `mget` names `MGET 10`.
///
/// # Errors
/// There is no row of a name.
pub fn rows(names: &[String]) -> Result<Vec<Row>> {
    if names.is_empty() {
        return Ok(ROWS.to_vec());
    }
    let find = |name: &String| {
        let is_named = |row: &&Row| {
            let command = row.name.split(' ').next().unwrap_or_default();
            [row.name, command].iter().any(|known| known.eq_ignore_ascii_case(name))
        };
        let found = ROWS.iter().find(is_named).copied();
        found.ok_or_else(|| Error::Input(format!("no row `{name}`")))
    };
    names.iter().map(find).collect()
}

/// The cores of a measurement: any number for the servers, the others for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreSets {
    /// Where servers run.
    pub servers: Vec<usize>,
    /// Where the threads of the load generator run.
    pub clients: Vec<usize>,
}

impl CoreSets {
    /// Gives the last cores that this process may use to the client: as many as asked for, or
    /// half of them. `None` if that leaves a side without.
    pub fn choose(clients: Option<usize>) -> Option<Self> {
        let mut servers = machine::allowed_cores();
        let count = clients.unwrap_or(servers.len() / 2);
        if count == 0 || count >= servers.len() {
            return None;
        }
        let clients = servers.split_off(servers.len() - count);
        Some(Self { servers, clients })
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The commands.
    pub rows: Vec<Row>,
    /// Connections, over all nodes.
    pub connections: usize,
    /// Requests that a connection sends at once.
    pub pipeline: usize,
    /// Length of values and messages, in bytes.
    pub value_len: usize,
    /// Keys of GET and SET; there are as many for commands of many keys.
    pub keys: u32,
    /// One hash tag for the keys of a request at one port too.
    pub one_tag: bool,
    /// Threads that make the load.
    pub threads: usize,
    /// Length of each visit.
    pub stop: Stop,
    /// Starts of each setup.
    pub rounds: usize,
}

/// A server over another one, in the medians of the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Requests a second over the other's, above 1 where it answers more.
    pub rate: Option<f64>,
    /// CPU time for each request over the other's, above 1 where it needs more.
    pub cpu: Option<f64>,
}

/// A command on a setup.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The row's name.
    pub row: String,
    /// The setup's label.
    pub label: String,
    /// How the server runs.
    pub arrangement: Arrangement,
    /// Its shards or processes.
    pub shards: usize,
    /// Why it is not counted; nothing else is known then.
    pub error: Option<String>,
    /// The medians over the rounds. CPU time is that of all processes of the server.
    pub median: Option<Sample>,
    /// Compared with one shard, or one process, in the same arrangement.
    pub to_one_shard: Option<Ratio>,
    /// Compared with the first server that was measured alone.
    pub to_alone: Option<Ratio>,
    /// Each round.
    pub rounds: Vec<Sample>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_server_has_shards_and_the_others_are_processes() {
        let peers = ["o=osmia --port {port}", "r=redis --port {port}"]
            .map(|text| Peer::parse(text).expect("a peer"));
        let setups = setups(&peers, &Arrangement::ALL, &[1, 4]);
        let labels: Vec<String> =
            setups.iter().map(|setup| format!("{} {}", setup.label, setup.shards)).collect();
        let expected = [
            "o ports 1",
            "o ports 4",
            "o strict 1",
            "o strict 4",
            "o relaxed 1",
            "o relaxed 4",
            "r alone 1",
            "r cluster 1",
            "r cluster 4",
        ];
        assert_eq!(labels, expected);
        let line = setups[1].peer.display();
        assert_eq!(line, "osmia --port {port} --shards 4 --port-mode per-shard");
        assert_eq!((setups[1].nodes(), setups[3].nodes(), setups[8].nodes()), (4, 1, 4));
    }

    #[test]
    fn rows_are_found_by_name_or_command() {
        let names = ["mget".to_owned(), "SET".to_owned()];
        let found = rows(&names).expect("two rows");
        assert_eq!([found[0].name, found[1].name], ["MGET 10", "SET"]);
        assert_eq!(found[0].line().split(' ').count(), 1 + MANY);
        assert_eq!(rows(&[]).expect("all rows").len(), 5);
        assert!(rows(&["nothing".to_owned()]).is_err());
    }
}
