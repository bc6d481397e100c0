//! Every benchmark at a tiny size, with its answers checked.
//!
//! They run against a server inside this test, and against a real one too where `OSMIA_BIN` names
//! its program (and beside Redis where `REDIS_BIN` names that).

mod shards;
mod tiny;

use std::sync::atomic::Ordering;
use std::time::Duration;

use benchmark::complaints::{churn, deletion, due, stalls};
use benchmark::density::structures::{Filling, KEY_SHAPE, VALUE_LEN};
use benchmark::load::{self, Load, Stop};
use benchmark::peer::{Peer, Running};
use benchmark::rows::{self, Cell, Generator};
use benchmark::template::{self, Batch, Keys};
use benchmark::{Result, density};

/// A server under test: the one inside, or the program that the environment names.
fn servers() -> Vec<Running> {
    let mut servers = vec![Running::in_process("tiny", tiny::start().1)];
    servers.extend(osmia());
    servers
}

fn osmia() -> Option<Running> {
    let program = std::env::var("OSMIA_BIN").ok()?;
    let peer = Peer::parse(&format!("osmia='{program}' server --port {{port}}")).expect("a peer");
    Some(peer.start(None).expect("OSMIA_BIN starts"))
}

fn row_options(names: &[&str]) -> rows::Options {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    rows::Options {
        rows: rows::rows(None, &names).expect("built-in rows"),
        pipelines: vec![1, 4],
        clients: vec![3],
        value_lens: vec![64],
        keys: None,
        stop: Stop::Requests(240),
        rounds: 2,
        generator: Generator::Own,
        cores: None,
    }
}

/// Cells of one row, each with one server.
fn cells_of<'a>(cells: &'a [Cell], row: &str) -> Vec<&'a rows::Visits> {
    let of_row = cells.iter().filter(|cell| cell.row == row);
    of_row.flat_map(|cell| &cell.servers).collect()
}

#[test]
fn rows_are_measured_and_rows_with_errors_are_marked() {
    for server in servers() {
        let is_tiny = server.label == "tiny";
        let options = row_options(&["GET", "SET", "ZSCORE"]);
        let cells = rows::run(&[server], &options).expect("cells");
        assert_eq!(cells.len(), 6);
        for visits in ["GET", "SET"].iter().flat_map(|row| cells_of(&cells, row)) {
            let median = visits.median.expect("a measured row");
            assert_eq!(visits.rounds.len(), 2);
            assert!(median.requests_per_s > 0.0 && median.p50_us > 0.0, "{median:?}");
            assert!(median.p50_us <= median.p99_us && Some(median.p99_us) <= median.p99_9_us);
            assert_eq!(visits.cpu_ratio, Some(1.0));
        }
        if is_tiny {
            for visits in cells_of(&cells, "ZSCORE") {
                assert!(visits.error.as_ref().is_some_and(|error| error.contains("unknown")));
                assert!(visits.median.is_none() && visits.rounds.is_empty());
            }
        }
        let text = rows::table(&cells);
        assert!(text.contains("GET") && text.contains("geometric mean"), "{text}");
    }
}

#[test]
fn one_error_reply_among_many_marks_a_row() {
    let (tiny, address) = tiny::start();
    tiny.error_every.store(200, Ordering::Relaxed);
    let options = row_options(&["SET"]);
    let cells = rows::run(&[Running::in_process("tiny", address)], &options).expect("cells");
    for visits in cells_of(&cells, "SET") {
        assert!(visits.error.as_ref().is_some_and(|error| error.contains("asked for")));
        assert!(visits.median.is_none());
    }
}

#[test]
fn rows_over_many_keys_make_and_hit_them() {
    for server in servers() {
        let mut observer = server.client().expect("a client");
        let options = rows::Options { keys: Some(50), ..row_options(&["GET", "SADD exist"]) };
        let cells = rows::run(std::slice::from_ref(&server), &options).expect("cells");
        // Rows without a form for many keys are left out.
        assert_eq!(cells.len(), 2);
        assert!(cells.iter().all(|cell| cell.servers[0].error.is_none()));
        let size = observer.call(&["DBSIZE"]).expect("a reply");
        // The fill goes in whole batches and round at the limit.
        assert_eq!(size, benchmark::wire::Reply::Integer(50));
    }
}

#[test]
fn the_floor_answers_as_many_requests_as_it_gets() {
    for backend in ["epoll", "io_uring"] {
        let line = format!(
            "floor-{backend}='{}' floor-server --port {{port}} --backend {backend}",
            env!("CARGO_BIN_EXE_benchmark")
        );
        let floor = match Peer::parse(&line).expect("a peer").start(None) {
            Ok(floor) => floor,
            // Not compiled in, or not allowed here: it says so.
            Err(error) => {
                assert!(backend == "io_uring", "{error}");
                continue;
            }
        };
        let tiny = Running::in_process("tiny", tiny::start().1);
        let cells = rows::run(&[tiny, floor], &row_options(&["GET", "SET"])).expect("cells");
        for cell in cells {
            assert_eq!(cell.servers[1].error, None);
            assert_eq!(cell.servers[1].rounds.len(), 2);
        }
    }
}

#[test]
fn the_load_counts_every_reply_once() -> Result<()> {
    let (tiny, address) = tiny::start();
    let load = Load {
        batch: Batch::new(&template::words("SET key:__rand__ __value__", 10), 7),
        keys: Keys::InTurn(0, 1000),
        clients: 5,
        stop: Stop::Requests(700),
        bystander: None,
    };
    let outcome = load::run("tiny", address, &load)?;
    assert_eq!(outcome.replies, tiny.commands.load(Ordering::Relaxed));
    assert_eq!(outcome.latency.len(), outcome.replies);
    assert_eq!((outcome.replies, outcome.errors), (700, 0));
    Ok(())
}

#[test]
fn a_server_that_talks_nonsense_is_an_error() {
    for nonsense in [&b"nonsense\r\n"[..], b"+OK\r\n+OK\r\n+OK\r\n+OK\r\n", b""] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = std::thread::spawn(move || {
            use std::io::{Read, Write};
            let (mut stream, _) = listener.accept().expect("a connection");
            let _ = stream.read(&mut [0; 100]);
            let _ = stream.write_all(nonsense);
        });
        let load = Load {
            batch: Batch::new(&template::words("GET k", 0), 2),
            keys: Keys::One,
            clients: 1,
            stop: Stop::Requests(2),
            bystander: None,
        };
        assert!(load::run("nonsense", address, &load).is_err());
        server.join().expect("the server");
    }
}

#[test]
fn density_counts_bytes_per_item() {
    let options = density::Options {
        names: vec!["string of 16 B".into(), "bitmap".into()],
        count: Some(300),
        scale: 1,
        filling: Filling { key_shape: KEY_SHAPE.to_owned(), value_len: VALUE_LEN },
        cores: None,
    };
    let mut start = |_: &()| Ok(Running::in_process("tiny", tiny::start().1));
    let density = density::run_with(&[(), ()], &options, &mut start).expect("figures");
    assert_eq!(density.lines.len(), 3);
    let strings = &density.lines[0];
    assert_eq!(strings.servers[0].used, Some(26.0));
    assert_eq!(strings.servers[1].ratio, Some(1.0));
    assert_eq!(strings.is_within_budget, None, "budgets are for the full size");
    let bitmap = density.lines.last().expect("a line");
    assert!(bitmap.servers[0].error.is_some() && bitmap.servers[0].used.is_none());
    let text = density.table();
    assert!(text.contains("unsupported") && text.contains("geometric mean"), "{text}");
}

#[test]
fn keys_that_fall_due_are_watched() {
    for server in servers() {
        let options = due::Options { others: 100, due: 20, spread_ms: 40, wait_ms: 5000 };
        let due = due::run(&server, &options).expect("figures");
        assert_eq!(due.gone, 20);
        assert!(due.p50_ms <= due.p99_ms && due.p99_ms <= due.max_ms, "{due:?}");
    }
}

#[test]
fn deletions_leave_the_rest() {
    for server in servers() {
        let options = deletion::Options { keys: 2000, value_len: 16, percent: 90, wait_s: 1 };
        let deletion = deletion::run(&server, &options).expect("figures");
        assert!((100..300).contains(&deletion.live), "{deletion:?}");
        assert_eq!(deletion.ratio_by_second.len(), 2);
        let size = server.client().expect("a client").call(&["DBSIZE"]).expect("a reply");
        assert_eq!(size, benchmark::wire::Reply::Integer(deletion.live as i64));
    }
}

#[test]
fn churn_knows_the_live_payload() {
    for server in servers() {
        let options = churn::Options { keys: 500, rounds: 3, wait_s: 0 };
        let churn = churn::run(&server, &options).expect("figures");
        let size = server.client().expect("a client").call(&["DBSIZE"]).expect("a reply");
        assert_eq!(size, benchmark::wire::Reply::Integer(churn.live as i64));
        if server.label == "tiny" {
            assert!((churn.used_ratio - 1.0).abs() < 1e-9, "{churn:?}");
        }
    }
}

#[test]
fn stalls_have_a_bystander_in_each_phase() {
    for server in servers() {
        let options = stalls::Options {
            keys: 1000,
            value_len: 16,
            huge_len: 100_000,
            tick_field: "tick_longest_us".to_owned(),
            after_ms: 50,
        };
        let stalls = stalls::run(&server, &options).expect("figures");
        let phases: Vec<&str> = stalls.iter().map(|stall| &*stall.phase).collect();
        assert_eq!(phases, ["growth", "flushall", "huge delete"]);
        for stall in &stalls {
            assert!(stall.bystander.requests > 0, "{stall:?}");
            assert!(stall.bystander.p50_us <= stall.bystander.max_us * 1.01, "{stall:?}");
        }
        if server.label == "tiny" {
            assert_eq!(stalls[0].tick_longest_us, Some(7.0));
        }
    }
}

#[test]
fn redis_benchmark_can_make_the_load() {
    let is_installed = std::process::Command::new("redis-benchmark").arg("--version").output();
    if is_installed.is_err() {
        return;
    }
    let server = Running::in_process("tiny", tiny::start().1);
    let generator = Generator::RedisBenchmark;
    let options = rows::Options { generator, rounds: 1, ..row_options(&["SET", "ZSCORE"]) };
    let cells = rows::run(&[server], &options).expect("cells");
    for visits in cells_of(&cells, "SET") {
        assert!(visits.median.is_some_and(|median| median.p99_9_us.is_none()), "{visits:?}");
    }
    assert!(cells_of(&cells, "ZSCORE").iter().all(|visits| visits.error.is_some()));
}

#[test]
fn every_subcommand_explains_itself() {
    for command in ["density", "rows", "floor", "sweep", "complaints", "shards", "floor-server"] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_benchmark"))
            .args([command, "--help"])
            .output()
            .expect("the program");
        assert!(output.status.success() && output.stdout.len() > 200, "{command}");
    }
}

#[test]
fn loads_can_end_by_time() {
    let server = Running::in_process("tiny", tiny::start().1);
    let stop = Stop::After(Duration::from_millis(30));
    let options = rows::Options { stop, rounds: 1, pipelines: vec![1], ..row_options(&["GET"]) };
    let cells = rows::run(&[server], &options).expect("cells");
    assert!(cells[0].servers[0].median.is_some());
}
