//! The built program, tried as a process: transcripts on each backend, start and stop.
//!
//! A transcript is plain text: `> ` lines are requests (words, quoted as redis-cli takes them),
//! `< ` lines the exact lines of the replies that must follow, `= RESP` sends raw bytes with
//! escapes. `OSMIA_PEER_PORT=6379` replays them on a server of your own as well (it is flushed).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use server::resp::inline;
use socket2::SockRef;

mod lists;
mod nodes_file;
mod osmia;
mod redis_rs;

use osmia::{Osmia, backends, connect, free_port};

fn encode(words: &[Vec<u8>]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend(format!("${}\r\n", word.len()).into_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    request
}

fn replay(path: &Path, port: u16) {
    let text = std::fs::read_to_string(path).expect("a transcript");
    let mut stream = connect(port);
    stream.write_all(&encode(&[b"FLUSHALL".to_vec()])).expect("a send");
    let mut ok = [0; 5];
    stream.read_exact(&mut ok).expect("a reply");
    assert_eq!(&ok, b"+OK\r\n");
    for (number, line) in text.lines().enumerate() {
        let place = format!("{}:{}", path.display(), number + 1);
        if let Some(request) = line.strip_prefix("> ") {
            let words = inline::split(request.as_bytes()).expect(&place);
            stream.write_all(&encode(&words)).expect(&place);
        } else if let Some(raw) = line.strip_prefix("= ") {
            let words = inline::split(raw.as_bytes()).expect(&place);
            stream.write_all(&words.concat()).expect(&place);
        } else if let Some(expected) = line.strip_prefix("< ") {
            let mut wanted = expected.as_bytes().to_vec();
            wanted.extend_from_slice(b"\r\n");
            let mut found = vec![0; wanted.len()];
            let read = stream.read_exact(&mut found);
            assert!(
                read.is_ok() && found == wanted,
                "{place}: wanted {expected:?}, got {:?}",
                String::from_utf8_lossy(&found)
            );
        } else {
            assert!(line.is_empty() || line.starts_with('#'), "{place}: {line}");
        }
    }
    // Nothing may be left over.
    stream.write_all(b"PING\r\n").expect("a send");
    let mut pong = [0; 7];
    stream.read_exact(&mut pong).expect("a reply");
    assert_eq!(&pong, b"+PONG\r\n", "{}: a reply too many", path.display());
}

fn transcripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/transcripts");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the transcripts")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

#[test]
fn transcripts_on_each_backend() {
    for backend in backends() {
        let server = Osmia::start(&backend);
        for path in transcripts() {
            replay(&path, server.port);
        }
    }
    if let Ok(port) = std::env::var("OSMIA_PEER_PORT") {
        for path in transcripts() {
            replay(&path, port.parse().expect("a port"));
        }
    }
}

#[test]
fn a_termination_signal_ends_the_process_cleanly() {
    for backend in backends() {
        let server = Osmia::start(&backend);
        let mut stream = server.connect();
        stream.write_all(b"PING\r\n").expect("a send");
        let mut pong = [0; 7];
        stream.read_exact(&mut pong).expect("a reply");
        assert!(server.stop().success());
    }
}

#[test]
fn the_files_of_a_server_end_with_it() {
    let folder = std::env::temp_dir().join(format!("osmia-files-{}", free_port()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = |name| folder.join(name).display().to_string();
    let (socket, pid) = (path("osmia.sock"), path("osmia.pid"));
    let server = Osmia::start(&["--unixsocket", &socket, "--pidfile", &pid]);
    assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), 2);
    assert!(server.stop().success());
    assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), 0);
    std::fs::remove_dir(&folder).expect("the folder");
}

#[test]
fn a_busy_port_is_told_and_ends_the_start() {
    let server = Osmia::start(&[]);
    let output = Command::new(env!("CARGO_BIN_EXE_osmia"))
        .args(["server", "--port", &server.port.to_string(), "--bind", "127.0.0.1"])
        .output()
        .expect("the program");
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(&format!("Failed listening on port {}", server.port)), "{text}");
}

#[test]
fn a_request_that_looks_like_http_is_cut_off_without_an_answer() {
    let server = Osmia::start(&[]);
    for request in ["POST / HTTP/1.1\r\n\r\nPING\r\n", "Host: localhost\r\nPING\r\n"] {
        let mut stream = server.connect();
        stream.write_all(request.as_bytes()).expect("a send");
        let mut answer = Vec::new();
        // The close may come as a reset, since the server leaves bytes unread.
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"", "{request}");
    }
}

#[test]
fn daemonize_returns_at_once_and_leaves_a_server_behind() {
    let port = free_port();
    let folder = std::env::temp_dir().join(format!("osmia-daemon-{port}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    let pid_file = folder.join("osmia.pid");
    let status = Command::new(env!("CARGO_BIN_EXE_osmia"))
        .args(["server", "--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--daemonize", "yes", "--pidfile", &pid_file.display().to_string()])
        .status()
        .expect("the program");
    assert!(status.success());
    let connected = (0..100).find_map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        TcpStream::connect(("127.0.0.1", port)).ok()
    });
    let mut stream = connected.expect("a server in the background");
    let pid: u32 =
        std::fs::read_to_string(&pid_file).expect("the pid file").trim().parse().expect("a number");
    stream.write_all(b"SHUTDOWN NOSAVE\r\n").expect("a send");
    let gone = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        !Path::new(&format!("/proc/{pid}")).exists()
    });
    assert!(gone && !pid_file.exists());
    std::fs::remove_dir_all(&folder).expect("the folder");
}

#[test]
fn a_client_that_never_reads_does_not_stall_the_others() {
    for backend in backends() {
        let server = Osmia::start(&backend);
        let mut greedy = server.connect();
        greedy.set_write_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        let value = vec![b'x'; 1 << 20];
        let set = encode(&[b"SET".to_vec(), b"k".to_vec(), value]);
        greedy.write_all(&set).expect("a send");
        // Answers of more than the server is willing to hold for one client.
        let get = encode(&[b"GET".to_vec(), b"k".to_vec()]);
        for _ in 0..2000 {
            if greedy.write_all(&get).is_err() {
                break;
            }
        }
        let mut other = server.connect();
        other.write_all(b"PING\r\n").expect("a send");
        let mut pong = [0; 7];
        other.read_exact(&mut pong).expect("a reply");
        let rss_kib = server.rss_kib();
        assert!(rss_kib < 256 * 1024, "{rss_kib} KiB");
    }
}

#[test]
fn connections_that_come_and_go_leave_nothing_behind() {
    const CONNECTIONS: usize = 100_000;
    for backend in backends() {
        let server = Osmia::start(&backend);
        let mut fresh_kib = 0;
        for number in 0..CONNECTIONS {
            if number == CONNECTIONS / 10 {
                fresh_kib = server.rss_kib();
            }
            let mut stream = server.connect();
            // Some leave without a word, some in the middle of one.
            if number % 4 == 0 {
                stream.write_all(b"*1\r\n$4\r\nPI").expect("a send");
            }
            // A reset leaves no port behind that has to wait.
            SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("the option");
        }
        let mut stream = server.connect();
        let mut last = String::new();
        let clients = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            last = ask(&mut stream, b"INFO clients\r\n");
            last.contains("connected_clients:1\r\n")
        });
        assert!(clients, "{backend:?}: connections that are gone are still counted: {last}");
        let rss_kib = server.rss_kib();
        assert!(
            rss_kib < fresh_kib + 4096,
            "{fresh_kib} KiB after a tenth, {rss_kib} KiB in the end"
        );
    }
}

#[test]
fn a_termination_signal_under_load_ends_the_process_cleanly() {
    for backend in backends() {
        let server = Osmia::start(&backend);
        let loads: Vec<_> = (0..4)
            .map(|_| {
                let mut stream = server.connect();
                std::thread::spawn(move || {
                    let mut bytes = vec![0; 64 * 1024];
                    while stream.write_all(&b"INCR k\r\n".repeat(100)).is_ok()
                        && stream.read(&mut bytes).is_ok_and(|len| len > 0)
                    {}
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(200));
        assert!(server.stop().success());
        loads.into_iter().for_each(|load| load.join().expect("a thread that ends"));
    }
}

#[test]
fn the_configuration_is_rewritten_in_the_order_of_the_commands() {
    for backend in backends() {
        let folder = std::env::temp_dir().join(format!("osmia-rewrite-{}", free_port()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("osmia.conf");
        std::fs::write(&file, "# ours\nmaxclients 100\n").expect("a file");
        let mut args = vec![file.to_str().expect("a path")];
        args.extend(&backend);
        let server = Osmia::start_with(&args[..1], &args[1..]);
        let mut stream = server.connect();
        let requests =
            b"CONFIG SET maxclients 200\r\nCONFIG REWRITE\r\nCONFIG SET maxclients 300\r\nPING\r\n";
        stream.write_all(requests).expect("a send");
        let mut replies = [0; 22];
        stream.read_exact(&mut replies).expect("replies");
        assert_eq!(&replies, b"+OK\r\n+OK\r\n+OK\r\n+PONG\r\n");
        let text = std::fs::read_to_string(&file).expect("the file");
        assert!(text.starts_with("# ours\nmaxclients 200\n"), "{text}");
        // Nothing else is left in the folder, and a folder that is gone is told.
        assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), 1);
        std::fs::remove_dir_all(&folder).expect("the folder");
        stream.write_all(b"CONFIG REWRITE\r\nPING\r\n").expect("a send");
        let expected = b"-ERR Rewriting config file: No such file or directory\r\n+PONG\r\n";
        let mut reply = vec![0; expected.len()];
        stream.read_exact(&mut reply).expect("a reply");
        assert_eq!(reply.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }
}

/// Sends a request and reads one reply that is a bulk string.
fn ask(stream: &mut TcpStream, request: &[u8]) -> String {
    stream.write_all(request).expect("a send");
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).expect("a reply");
    let len: usize = line.trim_end().trim_start_matches('$').parse().expect("a length");
    let mut bytes = vec![0; len + 2];
    reader.read_exact(&mut bytes).expect("its bytes");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Replies to what was sent, up to the end that the server makes.
fn read_all(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("replies, then the end");
    bytes
}

#[test]
fn a_client_that_half_closes_gets_the_replies_that_it_is_owed() {
    for backend in backends() {
        let osmia = Osmia::start(&[&["--shards", "3"], backend.as_slice()].concat());
        for round in 0..200 {
            let mut stream = osmia.connect();
            let (mut request, mut expected) = (String::new(), String::new());
            for key in 0..=round % 6 {
                request.push_str(&format!("SET {round}:{key} v\r\nMGET {round}:{key} a{key}\r\n"));
                expected.push_str("+OK\r\n*2\r\n$1\r\nv\r\n$-1\r\n");
            }
            stream.write_all(request.as_bytes()).expect("a request");
            stream.shutdown(std::net::Shutdown::Write).expect("half a close");
            assert_eq!(String::from_utf8_lossy(&read_all(stream)), expected, "{backend:?}");
        }
    }
}

#[test]
fn unread_replies_of_inline_requests_stay_bounded() {
    for backend in backends() {
        for shards in ["1", "3"] {
            let osmia = Osmia::start(&[&["--shards", shards], backend.as_slice()].concat());
            let mut stream = osmia.connect();
            let set = encode(&[b"SET".to_vec(), b"k".to_vec(), vec![b'x'; 1 << 20]]);
            stream.write_all(&set).expect("a large value");
            let mut status = [0; 5];
            stream.read_exact(&mut status).expect("its status");
            let mut greedy = osmia.connect();
            greedy.write_all("GET k\r\n".repeat(1600).as_bytes()).expect("requests");
            // The bystander is served meanwhile.
            for _ in 0..20 {
                stream.write_all(b"PING\r\n").expect("a request");
                stream.read_exact(&mut [0; 7]).expect("its reply");
                std::thread::sleep(Duration::from_millis(20));
            }
            let rss_mib = osmia.rss_kib() / 1024;
            assert!(rss_mib < 500, "{backend:?}, {shards} shards: {rss_mib} MiB");
        }
    }
}

#[test]
fn subscribers_on_all_shards_hear_all_in_order_and_slow_ones_are_cut() {
    const FAST: usize = 60;
    const SLOW: usize = 6;
    const MESSAGES: usize = 120;
    let payload = "x".repeat(64 * 1024);
    for backend in backends() {
        let limit = ["--shards", "4", "--client-output-buffer-limit", "pubsub 1mb 0 0"];
        let osmia = Osmia::start(&[limit.as_slice(), backend.as_slice()].concat());
        let subscribe = || {
            let mut stream = osmia.connect();
            stream.write_all(b"SUBSCRIBE news\r\n").expect("a request");
            stream.read_exact(&mut [0; 33]).expect("its confirmation");
            stream
        };
        let slow: Vec<TcpStream> = (0..SLOW).map(|_| subscribe()).collect();
        let fast: Vec<TcpStream> = (0..FAST).map(|_| subscribe()).collect();
        let message = |number: usize| {
            format!("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$65540\r\n{number:04}{payload}\r\n")
        };
        // The publisher stays so close to the fast ones that the limit cannot hit them.
        let heard_by_all = Arc::new(AtomicUsize::new(0));
        let readers: Vec<_> = fast
            .into_iter()
            .map(|mut stream| {
                let expected_len = message(0).len();
                let heard_by_all = Arc::clone(&heard_by_all);
                let spawn = move || {
                    let mut heard = vec![0; expected_len];
                    for number in 0..MESSAGES {
                        stream.read_exact(&mut heard).expect("a message");
                        let number = format!("{number:04}");
                        assert_eq!(&heard[35..39], number.as_bytes(), "in their order");
                        heard_by_all.fetch_add(1, Ordering::Relaxed);
                    }
                };
                std::thread::spawn(spawn)
            })
            .collect();
        let mut publisher = osmia.connect();
        let mut counts = Vec::new();
        for number in 0..MESSAGES {
            let near = || heard_by_all.load(Ordering::Relaxed) + FAST >= FAST * number;
            let waits = (0..30_000).take_while(|_| !near());
            waits.for_each(|_| std::thread::sleep(Duration::from_millis(1)));
            assert!(near(), "{backend:?}: subscribers hear nothing any more");
            let words =
                [b"PUBLISH".to_vec(), b"news".to_vec(), format!("{number:04}{payload}").into()];
            publisher.write_all(&encode(&words)).expect("a request");
            let mut reply = [0; 5];
            publisher.read_exact(&mut reply).expect("a count");
            counts.push(reply);
        }
        readers.into_iter().for_each(|reader| reader.join().expect("a subscriber that hears all"));
        assert_eq!(&counts[0], b":66\r\n");
        assert_eq!(counts.last().expect("a count"), b":60\r\n", "{backend:?}: the slow are cut");
        drop(slow);
    }
}

/// Sends requests of 64 KiB from a client of one shard while that of another client sleeps, and looks at
/// the memory. All messages for the other client, which may be slow, and all replies must arrive.
fn press_on_a_busy_shard(hello: &str, request: &[Vec<u8>], reply_len: usize, message_len: usize) {
    const REQUESTS: usize = 4_000;
    for backend in backends() {
        let options = ["--shards", "2", "--enable-debug-command", "yes"];
        let unlimited = ["--client-output-buffer-limit", "pubsub", "0", "0", "0"];
        let osmia = Osmia::start(&[&options[..], &unlimited, &backend].concat());
        let mut sleeper = osmia.connect();
        sleeper.write_all(hello.as_bytes()).expect("requests");
        std::thread::sleep(Duration::from_millis(100));
        // The next connection goes to the other shard.
        let mut sender = osmia.connect();
        sender.write_all(b"PING\r\n").expect("a request");
        sender.read_exact(&mut [0; 7]).expect("its reply");
        sleeper.write_all(b"DEBUG SLEEP 1.5\r\n").expect("a request");
        std::thread::sleep(Duration::from_millis(100));
        let request = encode(request);
        let writer = std::thread::spawn(move || {
            let mut replies = sender.try_clone().expect("a second handle");
            let reader = std::thread::spawn(move || {
                replies.read_exact(&mut vec![0; reply_len * REQUESTS]).expect("all replies");
            });
            (0..REQUESTS).for_each(|_| sender.write_all(&request).expect("a request"));
            reader.join().expect("the replies");
        });
        let mut rss_mib = 0;
        for _ in 0..24 {
            std::thread::sleep(Duration::from_millis(50));
            rss_mib = osmia.rss_kib().max(rss_mib * 1024) / 1024;
        }
        assert!(rss_mib < 160, "{backend:?}: {rss_mib} MiB");
        let mut heard = vec![0; 1 << 20];
        let mut len = 0;
        while len < REQUESTS * message_len {
            let read = sleeper.read(&mut heard).expect("messages");
            assert!(read > 0, "{backend:?}: the client was cut");
            len += read;
        }
        writer.join().expect("the sender");
    }
}

#[test]
fn messages_to_a_shard_that_is_busy_do_not_pile_up() {
    let payload = vec![b'x'; 64 * 1024];
    let len = payload.len() + 30;
    let request = [b"PUBLISH".to_vec(), b"news".to_vec(), payload];
    press_on_a_busy_shard("HELLO 3\r\nSUBSCRIBE news\r\n", &request, b":1\r\n".len(), len);
}

#[test]
fn requests_of_a_client_that_waits_for_another_shard_do_not_pile_up() {
    // The slot of this key is the first shard's, which is busy.
    let request = [b"SET".to_vec(), b"bar".to_vec(), vec![b'x'; 64 * 1024]];
    assert!(engine::hash_slot(b"bar") < 8192);
    press_on_a_busy_shard("PING\r\n", &request, b"+OK\r\n".len(), 0);
}

/// Reads a reply that is one bulk string.
fn bulk_of(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).expect("a reply");
    let len: usize = line[1..].trim_end().parse().expect("a length");
    let mut bytes = vec![0; len + 2];
    stream.read_exact(&mut bytes).expect("its bytes");
    String::from_utf8(bytes).expect("text")
}

/// Sends a request and reads its reply: strings and integers, also in arrays, one after another.
fn words_of(stream: &mut BufReader<TcpStream>, request: &str) -> Vec<String> {
    stream.get_mut().write_all(format!("{request}\r\n").as_bytes()).expect("a request");
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).expect("a reply");
        line.trim_end().to_owned()
    };
    let (mut words, mut missing) = (Vec::new(), 1);
    while missing > 0 {
        let head = line();
        missing -= 1;
        match head.strip_prefix('*') {
            Some(len) => missing += len.parse::<usize>().expect("a length"),
            None => words.push(if head.starts_with('$') { line() } else { head[1..].to_owned() }),
        }
    }
    words
}

#[test]
fn of_all_who_miss_a_key_one_fills_it() {
    const CALLERS: usize = 24;
    for backend in backends() {
        let osmia = Osmia::start(&[&["--shards", "3"], backend.as_slice()].concat());
        for round in 0..20 {
            let callers: Vec<_> = (0..CALLERS)
                .map(|_| {
                    let mut stream = BufReader::new(osmia.connect());
                    std::thread::spawn(move || {
                        let key = format!("cached:{round}");
                        let reply =
                            words_of(&mut stream, &format!("FILLGET {key} LEASE 60000 WAIT 60000"));
                        let [word, token] = &reply[..] else { return (reply[0].clone(), 0) };
                        assert_eq!(word, "fill");
                        // A filler whose token a deletion makes stale must not store.
                        if round % 2 == 1 {
                            words_of(&mut stream, &format!("DEL {key}"));
                            let refusal =
                                words_of(&mut stream, &format!("FILLSET {key} {token} old"));
                            assert!(refusal[0].starts_with("STALEFILL"), "{refusal:?}");
                            return ("refused".to_owned(), 1);
                        }
                        let stored = words_of(&mut stream, &format!("FILLSET {key} {token} new"));
                        assert_eq!(stored, ["OK"]);
                        ("new".to_owned(), 1)
                    })
                })
                .collect();
            let ends: Vec<_> =
                callers.into_iter().map(|caller| caller.join().expect("a caller")).collect();
            let fills: usize = ends.iter().map(|(_, fills)| fills).sum();
            let expected = if round % 2 == 1 { CALLERS } else { 1 };
            assert_eq!(fills, expected, "{backend:?}, round {round}: {ends:?}");
        }
    }
}

#[test]
fn clients_beyond_the_limit_of_open_files_are_told() {
    for backend in backends() {
        let mut osmia = Osmia::start_in_shell("ulimit -n 200; ", &backend);
        let mut stream = osmia.connect();
        let room: usize = {
            stream.write_all(b"CONFIG GET maxclients\r\n").expect("a request");
            let mut reply = [0; 64];
            let len = stream.read(&mut reply).expect("a reply");
            let text = String::from_utf8_lossy(&reply[..len]).into_owned();
            text.lines().last().expect("a number").parse().expect("a number")
        };
        assert_eq!(room, 200 - 32, "{backend:?}");
        let streams: Vec<TcpStream> = (1..room).map(|_| osmia.connect()).collect();
        std::thread::sleep(Duration::from_millis(200));
        let refusal = read_all(osmia.connect());
        assert_eq!(refusal, b"-ERR max number of clients reached\r\n", "{backend:?}");
        stream.write_all(b"CONFIG SET maxclients 1000000000\r\n").expect("a request");
        let mut reply = [0; 200];
        let len = stream.read(&mut reply).expect("a reply");
        let text = String::from_utf8_lossy(&reply[..len]).into_owned();
        assert!(text.contains("try with 168"), "{text}");
        drop(streams);
        osmia.child.kill().expect("its end");
    }
}
