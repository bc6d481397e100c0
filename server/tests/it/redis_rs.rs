//! The client library for Rust, crate `redis`: its plain client on one port, and its cluster client on
//! a port for each shard.

use redis::cluster::{ClusterClient, ClusterConnection, cluster_pipe};
use redis::{Client, Commands, Connection, RedisResult, Value, pipe};

use super::osmia::{Osmia, backends, free_ports};

/// How often the ports have told their clients to ask another one.
fn redirections(first_port: u16) -> usize {
    let counts = (first_port..first_port + 4).map(|port| {
        let client = Client::open(format!("redis://127.0.0.1:{port}/")).expect("an address");
        let mut connection = client.get_connection().expect("a connection");
        let info: String =
            redis::cmd("INFO").arg("errorstats").query(&mut connection).expect("INFO");
        info.lines()
            .find_map(|line| line.strip_prefix("errorstat_MOVED:count="))
            .map_or(0, |count| count.trim().parse::<usize>().expect("a count"))
    });
    counts.sum()
}

fn exercise(client: &mut impl Commands) {
    for number in 0..300 {
        let _: () = client.set(format!("k{number}"), number).expect("SET");
    }
    for number in 0..300 {
        assert_eq!(client.get(format!("k{number}")), Ok(number));
    }
    let _: () = client.mset(&[("{t}a", 1), ("{t}b", 2)]).expect("MSET");
    assert_eq!(client.mget(&["{t}a", "{t}b", "{t}c"]), Ok((1, 2, None::<i32>)));
    let _: () = client.hset("hash", "field", "value").expect("HSET");
    assert_eq!(client.hget("hash", "field"), Ok("value".to_owned()));
    let refused: RedisResult<i64> = client.incr("hash", 1);
    assert_eq!(refused.expect_err("a hash is no number").code(), Some("WRONGTYPE"));
}

fn plain(connection: &mut Connection) {
    exercise(connection);
    let mut pipeline = pipe();
    for number in 0..200 {
        pipeline.incr(format!("n{number}"), 1);
    }
    let counts: Vec<i64> = pipeline.query(connection).expect("a pipeline");
    assert_eq!(counts, vec![1; 200]);
    let mut transaction = pipe();
    transaction.atomic().set("x", 5).ignore().incr("x", 1).get("y");
    let results: (i64, Value) = transaction.query(connection).expect("EXEC");
    assert_eq!(results, (6, Value::Nil));
}

fn routed(connection: &mut ClusterConnection) {
    exercise(connection);
    let mut pipeline = cluster_pipe();
    for number in 0..200 {
        pipeline.incr(format!("n{number}"), 1);
    }
    let counts: Vec<i64> = pipeline.query(connection).expect("a pipeline over all nodes");
    assert_eq!(counts, vec![1; 200]);
}

#[test]
fn redis_rs_works_on_one_port_with_four_shards() {
    for backend in backends() {
        let osmia = Osmia::start(&[&backend[..], &["--shards", "4"]].concat());
        for protocol in ["resp2", "resp3"] {
            let address = format!("redis://127.0.0.1:{}/?protocol={protocol}", osmia.port);
            let client = Client::open(address).expect("an address");
            let mut connection = client.get_connection().expect("a connection");
            let _: () = redis::cmd("FLUSHALL").query(&mut connection).expect("FLUSHALL");
            plain(&mut connection);
        }
    }
}

#[test]
fn redis_rs_finds_the_shard_of_each_key() {
    for backend in backends() {
        let ports = ["--shards", "4", "--port-mode", "per-shard"];
        let osmia = Osmia::start_at(free_ports(4), &[&backend[..], &ports].concat());
        let client = ClusterClient::new(vec![format!("redis://127.0.0.1:{}/", osmia.port)])
            .expect("an address");
        let mut connection = client.get_connection().expect("the nodes");
        let before = redirections(osmia.port);
        routed(&mut connection);
        assert_eq!(redirections(osmia.port), before);
    }
}
