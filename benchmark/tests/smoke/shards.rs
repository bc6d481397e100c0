//! `shards` at a tiny size. Nodes inside the test refuse what a routing client must not send them;
//! `OSMIA_BIN` and `REDIS_BIN` name programs that are measured for real.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use benchmark::load::Stop;
use benchmark::peer::{Peer, Running};
use benchmark::shards::{self, Arrangement, Cell, Fleet, Options, Setup, route};
use benchmark::{Error, Result};

use crate::tiny::{self, Tiny};

fn options(rows: &[&str]) -> Options {
    let rows: Vec<String> = rows.iter().map(|&row| row.to_owned()).collect();
    Options {
        rows: shards::rows(&rows).expect("rows"),
        connections: 5,
        pipeline: 4,
        value_len: 8,
        keys: 2000,
        one_tag: false,
        threads: 2,
        stop: Stop::Requests(400),
        rounds: 2,
    }
}

fn setups(shard_counts: &[usize]) -> Vec<Setup> {
    let peers = ["tiny=tiny {port}", "other=other {port}"];
    let peers = peers.map(|text| Peer::parse(text).expect("a peer"));
    shards::setups(&peers, &Arrangement::ALL, shard_counts)
}

/// Servers inside the test, each with its hash slots if requests are routed.
fn fleet(setup: &Setup) -> (Vec<Arc<Tiny>>, Fleet) {
    let nodes = setup.nodes();
    let (tinies, addresses): (Vec<_>, Vec<_>) = (0..nodes)
        .map(|node| match setup.arrangement.is_routed() {
            true => tiny::start_node(route::slots_of(node, nodes)),
            false => tiny::start(),
        })
        .unzip();
    let processes = vec![Running::in_process("tiny", addresses[0])];
    (tinies, Fleet { processes, addresses })
}

fn check_measured(cell: &Cell, rounds: usize) {
    assert_eq!(cell.error, None, "{cell:?}");
    assert_eq!(cell.rounds.len(), rounds);
    let median = cell.median.expect("a measured row");
    assert!(median.requests_per_s > 0.0 && median.p50_us <= median.p99_us, "{median:?}");
    let to_one = cell.to_one_shard.expect("one shard was measured");
    assert!(to_one.rate.is_some_and(|rate| cell.shards > 1 || rate == 1.0), "{to_one:?}");
}

#[test]
fn requests_go_to_the_nodes_that_serve_their_keys() {
    let setups = setups(&[1, 3]);
    let mut served = Vec::new();
    let mut start = |setup: &Setup| {
        let (tinies, fleet) = fleet(setup);
        served.push(tinies);
        Ok(fleet)
    };
    let (cells, notes) = shards::run(&setups, &options(&[]), &mut start).expect("cells");
    assert_eq!((setups.len(), cells.len(), notes.len()), (9, 45, 9));
    for cell in &cells {
        check_measured(cell, 2);
        let to_alone = cell.to_alone.expect("a server was measured alone");
        assert!(to_alone.rate.is_some_and(|rate| rate > 0.0), "{to_alone:?}");
    }
    assert_eq!(served.len(), 18, "each setup starts anew in each round");
    // 4000 keys, then five rows of 440 requests, in whole batches of each thread.
    for tinies in served {
        let commands = tinies.iter().map(|tiny| tiny.commands.load(Ordering::Relaxed));
        let (all, least) = (commands.clone().sum::<u64>(), commands.min().expect("a node"));
        assert!((4000 + 5 * 440..4000 + 5 * 520).contains(&all), "{all}");
        assert!(least * 4 > all / tinies.len() as u64, "{least} of {all}");
    }
    let text = shards::table(&cells);
    assert!(text.contains("tiny relaxed") && text.contains("rate / other alone"), "{text}");
}

#[test]
fn a_tag_at_one_port_is_as_good_as_many() {
    let options = Options { one_tag: true, ..options(&["MGET", "MSET"]) };
    let setups = setups(&[1]);
    // Nodes of all hash slots refuse requests over several of them.
    let mut start = |setup: &Setup| {
        let (_, address) = tiny::start_node(0..route::HASH_SLOTS);
        let processes = vec![Running::in_process(&setup.label, address)];
        Ok(Fleet { processes, addresses: vec![address] })
    };
    let (cells, _) = shards::run(&setups, &options, &mut start).expect("cells");
    cells.iter().for_each(|cell| check_measured(cell, 2));
    let options = Options { one_tag: false, ..options };
    let (cells, _) = shards::run(&setups, &options, &mut start).expect("cells");
    for cell in cells {
        let is_refused = cell.error.as_ref().is_some_and(|error| error.contains("CROSSSLOT"));
        assert_eq!(is_refused, !cell.arrangement.is_routed(), "{cell:?}");
    }
}

#[test]
fn what_goes_wrong_marks_its_rows_and_no_others() {
    let mut start = |setup: &Setup| match setup.arrangement {
        Arrangement::Strict => Err(Error::server(&setup.label, "does not start")),
        Arrangement::Cluster if setup.shards == 2 => {
            let (_, mut fleet) = fleet(setup);
            fleet.addresses.reverse();
            Ok(fleet)
        }
        Arrangement::Relaxed => {
            let (tinies, fleet) = fleet(setup);
            // The fill and GET pass; the error comes in SET.
            tinies[0].error_every.store(4000 + 500 + 200, Ordering::Relaxed);
            Ok(fleet)
        }
        _ => Ok(fleet(setup).1),
    };
    let setups = setups(&[1, 2]);
    let (cells, _) = shards::run(&setups, &options(&["GET", "SET"]), &mut start).expect("cells");
    for cell in &cells {
        let expected = match (cell.arrangement, cell.shards, &*cell.row) {
            (Arrangement::Strict, _, _) => "does not start",
            (Arrangement::Cluster, 2, _) => "MOVED",
            (Arrangement::Relaxed, _, "SET") => "asked for",
            _ => {
                check_measured(cell, 2);
                continue;
            }
        };
        assert!(cell.error.as_ref().is_some_and(|error| error.contains(expected)), "{cell:?}");
        assert!(cell.median.is_none() && cell.rounds.is_empty() && cell.to_alone.is_none());
    }
    assert!(shards::table(&cells).contains("error: "));
}

#[test]
fn fewer_connections_or_keys_than_nodes_are_refused() {
    let mut start = |setup: &Setup| -> Result<Fleet> { panic!("{setup:?} starts") };
    for wrong in [Options { connections: 2, ..options(&[]) }, Options { keys: 2, ..options(&[]) }] {
        assert!(shards::run(&setups(&[3]), &wrong, &mut start).is_err());
    }
    assert!(shards::run(&setups(&[0]), &options(&[]), &mut start).is_err());
}

#[test]
fn real_servers_run_in_all_arrangements() {
    let Ok(osmia) = std::env::var("OSMIA_BIN") else { return };
    let mut peers = vec![format!("osmia='{osmia}' server --port {{port}} --bind 127.0.0.1")];
    if let Ok(redis) = std::env::var("REDIS_BIN") {
        peers.push(format!("redis='{redis}' --port {{port}} --bind 127.0.0.1 --save \"\""));
    }
    let peers: Vec<Peer> = peers.iter().map(|text| Peer::parse(text).expect("a peer")).collect();
    let setups = shards::setups(&peers, &Arrangement::ALL, &[1, 2]);
    let options = Options { rounds: 1, ..options(&[]) };
    let mut start = |setup: &Setup| shards::start(setup, 23500, None);
    let (cells, notes) = shards::run(&setups, &options, &mut start).expect("cells");
    cells.iter().for_each(|cell| check_measured(cell, 1));
    assert!(
        notes.iter().all(|note| note.version.contains("Osmia") || note.label.contains("redis"))
    );
}
