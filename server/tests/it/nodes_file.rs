//! `cluster-config-file`: nodes keep their names and hash slots over restarts.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::osmia::{Osmia, backends, free_port, free_ports};

/// An empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("osmia-nodes-{name}-{}", free_port()));
    std::fs::create_dir(&folder).expect("a folder");
    folder
}

/// The text that answers a request.
fn ask(port: u16, request: &str) -> String {
    let mut stream = super::connect(port);
    stream.write_all(format!("{request}\r\nQUIT\r\n").as_bytes()).expect("requests");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("a reply");
    reply.strip_suffix("+OK\r\n").expect("the answer to QUIT").to_owned()
}

/// What a server writes that does not start.
fn refusal(folder: &str, args: &[&str]) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_osmia"))
        .args(["server", "--cluster-enabled", "yes", "--dir", folder])
        .args(["--port", &free_port().to_string(), "--bind", "127.0.0.1"])
        .args(args)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program");
    let mut text = String::new();
    child.stdout.take().expect("its output").read_to_string(&mut text).expect("text");
    assert_eq!(child.wait().expect("its end").code(), Some(1), "{text}");
    text
}

#[test]
fn a_node_keeps_its_name_and_hash_slots_over_a_crash() {
    for backend in backends() {
        for shards in ["1", "3"] {
            let folder = folder("crash");
            let path = folder.to_str().expect("UTF-8");
            let options = ["--cluster-enabled", "yes", "--dir", path, "--shards", shards];
            let options = [&options[..], &backend].concat();
            let osmia = Osmia::start(&options);
            let names = ask(osmia.port, "CLUSTER MYID\r\nCLUSTER MYSHARDID");
            assert_eq!(ask(osmia.port, "CLUSTER ADDSLOTSRANGE 0 100 7000 7000"), "+OK\r\n");
            // A kill at once: what was answered is in the file.
            drop(osmia);
            let osmia = Osmia::start(&options);
            assert_eq!(ask(osmia.port, "CLUSTER MYID\r\nCLUSTER MYSHARDID"), names);
            assert!(ask(osmia.port, "CLUSTER NODES").contains(" connected 0-100 7000\n"));
            // A transaction does not wait for the file, but the end of the server does.
            let replies = ask(osmia.port, "MULTI\r\nCLUSTER DELSLOTS 7000\r\nEXEC");
            assert_eq!(replies, "+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n");
            assert!(osmia.stop().success());
            let osmia = Osmia::start(&options);
            assert!(ask(osmia.port, "CLUSTER NODES").contains(" connected 0-100\n"));
            assert_eq!(ask(osmia.port, "CLUSTER SAVECONFIG"), "+OK\r\n");
            drop(osmia);
            let files: Vec<_> = std::fs::read_dir(&folder).expect("the folder").collect();
            assert_eq!(files.len(), 1, "{files:?}");
            std::fs::remove_dir_all(folder).expect("the folder");
        }
    }
}

#[test]
fn a_change_that_cannot_be_kept_is_answered_with_an_error() {
    let folder = folder("lost");
    let path = folder.to_str().expect("UTF-8");
    let osmia = Osmia::start(&["--cluster-enabled", "yes", "--dir", path]);
    assert_eq!(ask(osmia.port, "CLUSTER ADDSLOTS 1"), "+OK\r\n");
    std::fs::remove_dir_all(&folder).expect("the folder");
    let error = "-ERR error saving the cluster node config: No such file or directory\r\n";
    assert_eq!(ask(osmia.port, "CLUSTER ADDSLOTS 2"), error);
    assert_eq!(ask(osmia.port, "CLUSTER SAVECONFIG"), error);
    assert!(osmia.stop().success());
}

#[test]
fn changes_of_many_clients_are_all_in_the_file() {
    let folder = folder("many");
    let path = folder.to_str().expect("UTF-8");
    let options = ["--cluster-enabled", "yes", "--dir", path, "--shards", "4"];
    let osmia = Osmia::start(&options);
    let port = osmia.port;
    let clients = (0..8).map(|client| {
        std::thread::spawn(move || {
            for slot in (0..40).map(|turn| 8 * turn + client) {
                assert_eq!(ask(port, &format!("CLUSTER ADDSLOTS {slot}")), "+OK\r\n");
            }
        })
    });
    clients.collect::<Vec<_>>().into_iter().for_each(|client| client.join().expect("a client"));
    drop(osmia);
    let osmia = Osmia::start(&options);
    assert!(ask(osmia.port, "CLUSTER NODES").contains(" connected 0-319\n"));
    drop(osmia);
    std::fs::remove_dir_all(folder).expect("the folder");
}

#[test]
fn ports_of_shards_keep_their_names_where_a_file_is_named() {
    let folder = folder("ports");
    let path = folder.to_str().expect("UTF-8");
    let per_shard = ["--port-mode", "per-shard", "--shards", "3", "--dir", path];
    let start = |file: &[&str]| Osmia::start_at(free_ports(3), &[&per_shard[..], file].concat());
    let names = |osmia: &Osmia| -> Vec<String> {
        (osmia.port..osmia.port + 3).map(|port| ask(port, "CLUSTER MYID")).collect()
    };
    drop(start(&[]));
    assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), 0);
    let osmia = start(&["--cluster-config-file", "nodes.conf"]);
    let before = names(&osmia);
    assert!(osmia.stop().success());
    let osmia = start(&["--cluster-config-file", "nodes.conf"]);
    assert_eq!(names(&osmia), before);
    drop(osmia);
    std::fs::remove_dir_all(folder).expect("the folder");
}

#[test]
fn a_file_that_is_used_or_corrupt_keeps_a_server_from_starting() {
    let folder = folder("refused");
    let path = folder.to_str().expect("UTF-8");
    let osmia = Osmia::start(&["--cluster-enabled", "yes", "--dir", path]);
    // The lock is also on a file that has been replaced.
    assert_eq!(ask(osmia.port, "CLUSTER ADDSLOTS 1"), "+OK\r\n");
    let text = refusal(path, &[]);
    assert!(text.contains("nodes.conf: another server uses it"), "{text}");
    assert!(osmia.stop().success());
    let file = folder.join("nodes.conf");
    let text = std::fs::read_to_string(&file).expect("the file");
    std::fs::write(&file, text.replace("myself,master", "mine")).expect("the file");
    let refused = refusal(path, &[]);
    assert!(refused.contains("nodes.conf: line 1 is wrong: it has an unknown flag"), "{refused}");
    let other = text.replace("myself,", "").replacen(|c: char| c.is_ascii_digit(), "x", 1);
    std::fs::write(&file, text + &other).expect("the file");
    let refused = refusal(path, &[]);
    assert!(refused.contains("nodes.conf: it names other nodes"), "{refused}");
    let refused = refusal(path, &["--cluster-config-file", "none/nodes.conf"]);
    assert!(refused.contains("none/nodes.conf: No such file or directory"), "{refused}");
    std::fs::remove_dir_all(folder).expect("the folder");
}
