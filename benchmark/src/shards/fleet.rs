//! The processes of a setup: started, joined to a cluster where they are one, ended when dropped.

use std::net::SocketAddr;
use std::time::Duration;

use super::route::slots_of;
use super::{Arrangement, CoreSets, Setup};
use crate::client::{Client, info_text};
use crate::peer::{Running, free_ports};
use crate::wire::Reply;
use crate::{Error, Result, clock, machine};

/// Time that the nodes of a cluster have to agree, or shards to listen. Redis takes 2 to 10 s.
const READY_MAX: Duration = Duration::from_secs(60);

/// Pause between two looks.
const POLL: Duration = Duration::from_millis(20);

/// The server of a setup.
#[derive(Debug)]
pub struct Fleet {
    /// Its processes.
    pub processes: Vec<Running>,
    /// Where its nodes listen, in the order of their hash slots.
    pub addresses: Vec<SocketAddr>,
}

/// Starts a setup at free ports, none below `first_port`, and waits until it serves all keys.
///
/// # Errors
/// A process does not start, or the nodes of a cluster do not agree in time.
pub fn start(setup: &Setup, first_port: u16, cores: Option<&CoreSets>) -> Result<Fleet> {
    // Children inherit the affinity of the thread that starts them.
    if let Some(cores) = cores {
        machine::pin_to(&cores.servers)?;
    }
    let fleet = start_here(setup, first_port);
    if let Some(cores) = cores {
        machine::pin_to(&cores.clients)?;
    }
    fleet
}

fn start_here(setup: &Setup, first_port: u16) -> Result<Fleet> {
    if setup.arrangement == Arrangement::Cluster {
        return start_cluster(setup, first_port);
    }
    let port = free_ports(first_port, setup.nodes())?;
    let process = setup.peer.start_at(port, None)?;
    let addresses: Vec<SocketAddr> = (0..setup.nodes() as u16)
        .map(|node| SocketAddr::new(process.address.ip(), port + node))
        .collect();
    for address in &addresses {
        wait_until(&setup.label, "a shard does not listen", || {
            Ok(Client::connect(&setup.label, *address)
                .and_then(|mut client| client.call(&["PING"]))
                .is_ok())
        })?;
    }
    Ok(Fleet { processes: vec![process], addresses })
}

/// Starts nodes and has them meet. The ports of the bus follow those of the clients.
fn start_cluster(setup: &Setup, first_port: u16) -> Result<Fleet> {
    let nodes = setup.nodes();
    let port = free_ports(first_port, 2 * nodes)?;
    let bus = port + nodes as u16;
    let mut processes = Vec::new();
    for node in 0..nodes as u16 {
        let mut peer = setup.peer.clone();
        for word in &mut peer.words {
            *word = word.replace("{bus}", &(bus + node).to_string());
        }
        processes.push(peer.start_at(port + node, None)?);
    }
    let mut clients: Vec<Client> = processes.iter().map(Running::client).collect::<Result<_>>()?;
    for (node, client) in clients.iter_mut().enumerate() {
        let slots = slots_of(node, nodes);
        let (first, last) = (slots.start, slots.end - 1);
        order(setup, client, &format!("CLUSTER ADDSLOTSRANGE {first} {last}"))?;
        // Epochs of their own, so that the nodes need not settle who is first.
        order(setup, client, &format!("CLUSTER SET-CONFIG-EPOCH {}", node + 1))?;
    }
    let first = processes[0].address;
    for client in &mut clients[1..] {
        let (ip, port) = (first.ip(), first.port());
        order(setup, client, &format!("CLUSTER MEET {ip} {port} {bus}"))?;
    }
    for client in &mut clients {
        wait_until(&setup.label, "the nodes do not agree", || {
            let info = client.call(&["CLUSTER", "INFO"])?;
            let is = |field, value: &str| info_text(&info, field).is_some_and(|had| had == value);
            Ok(is("cluster_state", "ok") && is("cluster_known_nodes", &nodes.to_string()))
        })?;
    }
    let addresses = processes.iter().map(|process| process.address).collect();
    Ok(Fleet { processes, addresses })
}

fn order(setup: &Setup, client: &mut Client, line: &str) -> Result<()> {
    match client.call_line(line)? {
        Reply::Status(text) if text == "OK" => Ok(()),
        other => Err(Error::server(&setup.label, format!("{line}: {other:?}"))),
    }
}

fn wait_until(label: &str, otherwise: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = clock::now() + READY_MAX;
    while !is_so()? {
        if clock::now() > deadline {
            return Err(Error::server(label, otherwise));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}
