//! The process as a cluster: which node serves which hash slot, and where clients are sent.
//!
//! With `port-mode per-shard` each shard is a node that serves its range of hash slots at a port of
//! its own. With `cluster-enabled yes` alone the process is one node, to which hash slots are
//! assigned by command. There is no bus to other processes yet.

pub mod nodes_file;
mod saving;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use engine::HASH_SLOTS;

use crate::command::args::Args;
use crate::command::error::CommandError;
use crate::command::table::Entry;
use crate::config::Config;
use crate::conn::Client;
use crate::keyspace::{shard_of, slots_of};
use crate::state::ShardState;

pub use saving::{AwaitSaved, Saving};

/// What is known of the cluster; shared by the shards.
pub struct Cluster {
    /// Each shard is a node.
    pub per_shard: bool,
    /// Names of the nodes: 40 hexadecimal digits each.
    pub node_ids: Vec<String>,
    /// Names of their shards in the sense of CLUSTER SHARDS: a master with its replicas.
    pub shard_ids: Vec<String>,
    /// Its file, if it is kept.
    pub saving: Option<Saving>,
    /// Epochs of a cluster that a Redis was the node of before; no shard begins a new one.
    current_epoch: u64,
    own_epoch: u64,
    last_vote_epoch: u64,
    assigned: Vec<AtomicBool>,
    assigned_len: AtomicUsize,
}

impl Cluster {
    /// A cluster of one node, or of one for each shard.
    pub fn new(per_shard: bool, shards: usize) -> Self {
        let nodes = if per_shard { shards } else { 1 };
        let names = || (0..nodes).map(|_| crate::process::random_hex()).collect();
        Self {
            per_shard,
            node_ids: names(),
            shard_ids: names(),
            saving: None,
            current_epoch: 0,
            own_epoch: 0,
            last_vote_epoch: 0,
            assigned: (0..HASH_SLOTS).map(|_| AtomicBool::new(per_shard)).collect(),
            assigned_len: AtomicUsize::new(if per_shard { HASH_SLOTS } else { 0 }),
        }
    }

    /// Whether some node serves a hash slot.
    pub fn is_assigned(&self, slot: u16) -> bool {
        self.assigned[usize::from(slot)].load(Ordering::Acquire)
    }

    /// Has the node serve a hash slot, or no longer.
    pub fn assign(&self, slot: u16, on: bool) {
        let before = self.assigned[usize::from(slot)].swap(on, Ordering::AcqRel);
        match (before, on) {
            (false, true) => drop(self.assigned_len.fetch_add(1, Ordering::AcqRel)),
            (true, false) => drop(self.assigned_len.fetch_sub(1, Ordering::AcqRel)),
            _ => {}
        }
    }

    /// Hash slots that are served.
    pub fn assigned_len(&self) -> usize {
        self.assigned_len.load(Ordering::Acquire)
    }

    /// Whether commands are served as far as hash slots go.
    pub fn is_up(&self, config: &Config) -> bool {
        let len = self.assigned_len();
        len == HASH_SLOTS || len > 0 && !config.is_yes("cluster-require-full-coverage")
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.node_ids.len()
    }

    /// The latest epoch.
    pub fn current_epoch(&self) -> u64 {
        if self.per_shard { self.nodes() as u64 } else { self.current_epoch }
    }

    /// The epoch of a node; no two have the same.
    pub fn epoch_of(&self, node: usize) -> u64 {
        if self.per_shard { node as u64 + 1 } else { self.own_epoch }
    }

    /// The ranges of hash slots that a node serves, first and last.
    pub fn ranges(&self, node: usize) -> Vec<(usize, usize)> {
        if self.per_shard {
            let slots = slots_of(node, self.nodes());
            return vec![(slots.start, slots.end - 1)];
        }
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for slot in (0..HASH_SLOTS).filter(|slot| self.is_assigned(*slot as u16)) {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == slot => *last = slot,
                _ => ranges.push((slot, slot)),
            }
        }
        ranges
    }

    /// The node that serves a hash slot.
    pub fn node_of(&self, slot: u16) -> Option<usize> {
        self.is_assigned(slot).then(|| shard_of(slot, self.nodes()))
    }
}

/// Where a node is, as a client is told.
#[derive(Debug)]
pub struct Endpoint {
    /// The address; empty if the client knows it.
    pub ip: String,
    /// The port for clients.
    pub port: i64,
    /// The port of the bus.
    pub bus_port: i64,
    /// The name in the DNS; empty without.
    pub hostname: String,
}

impl Endpoint {
    /// Where a client finds a node: at the announced address, else at the one that it has reached
    /// this one by.
    pub fn of(node: usize, state: &ShardState, client: &Client) -> Self {
        let mut endpoint = Self::announced(node, &state.config);
        if endpoint.ip.is_empty() && state.process.cluster.per_shard {
            let local = client.local_address.parse::<SocketAddr>();
            endpoint.ip =
                local.map_or_else(|_| "127.0.0.1".to_owned(), |local| local.ip().to_string());
        }
        endpoint
    }

    /// Where a node is as far as the configuration says.
    pub fn announced(node: usize, config: &Config) -> Self {
        let announced = |name: &str| config.value(name).to_owned();
        let offset = node as i64;
        let number = |name: &str| config.value(name).parse::<i64>().unwrap_or(0);
        let or = |value: i64, other: i64| if value > 0 { value } else { other };
        let port = or(number("cluster-announce-port"), config.port) + offset;
        let bus_port = number("cluster-announce-bus-port");
        let bus_port = if bus_port > 0 {
            bus_port + offset
        } else {
            or(number("cluster-port"), config.port + 10_000) + offset
        };
        let ip = announced("cluster-announce-ip");
        Self { ip, port, bus_port, hostname: announced("cluster-announce-hostname") }
    }

    /// The preferred form of the host: `None` if the client is to use the one that it knows.
    pub fn preferred(&self, config: &Config) -> Option<&str> {
        match config.value("cluster-preferred-endpoint-type") {
            "hostname" if self.hostname.is_empty() => Some("?"),
            "hostname" => Some(&self.hostname),
            "unknown-endpoint" => None,
            _ => Some(&self.ip),
        }
    }
}

const DIFFERENT_SLOTS: CommandError =
    CommandError::new("CROSSSLOT Keys in request don't hash to the same slot");

/// The hash slot of all keys of a request; channels count as keys here.
fn slot_of(entry: &Entry, args: Args<'_>, slot: &mut Option<u16>) -> Result<(), CommandError> {
    for index in entry.command.key_indexes(args) {
        let other = engine::hash_slot(args.get(index));
        if *slot.get_or_insert(other) != other {
            return Err(DIFFERENT_SLOTS);
        }
    }
    Ok(())
}

/// The hash slot of a request, if it has one and this node serves it; `known` is the hash slot of its only key, if it is known.
///
/// # Errors
/// Where else to ask: `MOVED`; that nobody serves it: `CLUSTERDOWN`; that its keys cannot be served
/// together: `CROSSSLOT`.
pub(crate) fn check(
    state: &ShardState,
    client: &Client,
    entry: &Entry,
    args: Args<'_>,
    known: Option<u16>,
) -> Result<Option<u16>, CommandError> {
    let mut slot = known;
    if known.is_none() {
        slot_of(entry, args, &mut slot)?;
        for queued in client.queue_of(entry) {
            slot_of(queued.entry, queued.args.args(), &mut slot)?;
        }
    }
    let Some(slot) = slot else { return Ok(None) };
    let cluster = &state.process.cluster;
    let Some(node) = cluster.node_of(slot) else {
        return Err(CommandError::new("CLUSTERDOWN Hash slot not served"));
    };
    if !cluster.is_up(&state.config) {
        return Err(CommandError::new("CLUSTERDOWN The cluster is down"));
    }
    if !cluster.per_shard || node == state.index {
        return Ok(Some(slot));
    }
    let endpoint = Endpoint::of(node, state, client);
    let host = endpoint.preferred(&state.config).unwrap_or_default();
    Err(CommandError::text(format!("MOVED {slot} {host}:{}", endpoint.port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_served_when_they_are_assigned() {
        let cluster = Cluster::new(false, 4);
        assert_eq!((cluster.nodes(), cluster.assigned_len()), (1, 0));
        assert!(cluster.ranges(0).is_empty());
        for slot in [0, 1, 2, 7, 7, 16383] {
            cluster.assign(slot, true);
        }
        cluster.assign(1, false);
        assert_eq!(cluster.ranges(0), [(0, 0), (2, 2), (7, 7), (16383, 16383)]);
        assert_eq!(cluster.assigned_len(), 4);
        assert_eq!((cluster.node_of(7), cluster.node_of(8)), (Some(0), None));
    }

    #[test]
    fn each_shard_is_a_node_with_its_range() {
        let cluster = Cluster::new(true, 3);
        assert_eq!(cluster.assigned_len(), HASH_SLOTS);
        assert_eq!(cluster.ranges(0)[0].0, 0);
        assert_eq!(cluster.ranges(2)[0].1, 16383);
        assert_eq!(cluster.ranges(1)[0].0, cluster.ranges(0)[0].1 + 1);
        assert_eq!(cluster.node_of(16383), Some(2));
    }
}
