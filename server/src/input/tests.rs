//! Requests through a shard without its network.

use std::sync::Arc;

use engine::{Options, Partition};

use super::*;
use crate::config::Config;
use crate::fabric::PeerMessage;
use crate::keyspace::{Share, shard_of};
use crate::process::Process;

const CONN: ConnId = ConnId { index: 0, generation: 1 };

/// The first of two shards, with a client.
fn core() -> Core {
    let process = Arc::new(Process::new(Config::new(), 2, "sim", 1));
    let state = ShardState::new(0, process, 1, 1);
    let options = Options { route: true, ..Options::default() };
    let partition = Partition::new(&options, 1).expect("address space");
    let mut core = Core::new(state, Keyspace::new(0, 2, Share::new(partition)));
    let mut client = Client::new(1, CONN, 1);
    client.authenticated = true;
    core.state.clients.insert(Box::new(client));
    core
}

fn is_far(key: &String) -> bool {
    shard_of(engine::hash_slot(key.as_bytes()), 2) == 1
}

/// A key of the first shard.
fn near_key() -> String {
    (0..).map(|number| format!("n{number}")).find(|key| !is_far(key)).expect("a key")
}

/// The requests that were sent to the other shard.
fn forwarded(core: &mut Core) -> Vec<Vec<u8>> {
    let messages = std::mem::take(&mut core.state.outgoing[1]);
    let bytes = messages.into_iter().map(|message| match message {
        PeerMessage::Request(request) => request.bytes,
        _ => panic!("only requests are sent"),
    });
    bytes.collect()
}

#[test]
fn a_pipeline_that_stops_at_each_request_parses_little_ahead() {
    let mut core = core();
    let far: Vec<String> = (0..).map(|n| format!("k{n}")).filter(is_far).take(500).collect();
    // A write to the other shard, then one here, which must wait for it.
    let pairs = far.iter().map(|key| {
        let set = |key: &str| format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n$1\r\nv\r\n", key.len());
        (set(key), set(&near_key()))
    });
    let pairs: Vec<(String, String)> = pairs.collect();
    let pipeline: String = pairs.iter().flat_map(|(far, near)| [far.as_str(), near]).collect();
    core.received(CONN, pipeline.as_bytes());
    core.batch = Batch::default();
    for (far, _) in &pairs {
        assert_eq!(forwarded(&mut core), [far.as_bytes()]);
        core.answered(1, CONN, b"+OK\r\n".to_vec());
        let parsed = core.batch.requests.capacity();
        assert!(parsed < BATCH_MAX / 4, "{parsed} requests parsed to run two");
    }
    let client = core.state.clients.get(CONN).expect("the client");
    assert!(client.query.is_none() && client.waiting.is_empty() && client.stall.is_none());
    assert_eq!(client.replies.bytes, b"+OK\r\n".repeat(2 * pairs.len()));
}

#[test]
fn requests_of_others_wait_while_a_peer_has_much_to_take() {
    let mut core = core();
    let key = near_key();
    let request = || {
        let request = crate::fabric::Request {
            conn: CONN,
            bytes: format!("*2\r\n$4\r\nINCR\r\n${}\r\n{key}\r\n", key.len()).into_bytes(),
            origin: Arc::new(crate::conn::Origin { address: String::new(), name: Vec::new() }),
            db: 0,
            resp3: false,
            no_touch: false,
            tracks: None,
        };
        PeerMessage::Request(request)
    };
    core.state.peers_behind = true;
    core.told(1, request());
    core.told(1, request());
    assert!(core.state.outgoing[1].is_empty());
    assert!(!core.lending.is_pending(core.state.peers_behind, true));
    core.state.peers_behind = false;
    assert!(core.lending.is_pending(core.state.peers_behind, true));
    core.run_deferred();
    let answers = std::mem::take(&mut core.state.outgoing[1]);
    let texts = answers.into_iter().map(|message| match message {
        PeerMessage::Answer(_, bytes) => bytes,
        _ => panic!("only answers are sent"),
    });
    assert_eq!(texts.collect::<Vec<_>>(), [b":1\r\n", b":2\r\n"]);
}
