//! Many connections, several listeners, all kinds of addresses.

use std::os::unix::fs::PermissionsExt;

use super::{Client, Rig, World, loopback};
use crate::conformance::rig::{LISTEN, SOCKET};
use crate::{Address, Backend, Close, ConnId, Event, ListenOptions, Sent, Waker};

pub(crate) fn serves_many_connections<W: World>(mut rig: Rig<W>) {
    rig.echoes = true;
    let mut clients: Vec<_> = (0..300).map(|_| rig.pair().0).collect();
    for round in 0..5_u8 {
        for (index, client) in clients.iter_mut().enumerate() {
            rig.write(&mut **client, &[round, index as u8, 9]);
        }
        for (index, client) in clients.iter_mut().enumerate() {
            assert_eq!(rig.read(&mut **client, 3), [round, index as u8, 9]);
        }
    }
    drop(clients);
    rig.until("all ends", |rig| rig.told.values().all(|told| told.closed.is_some()));
}

pub(crate) fn tells_listeners_apart<W: World>(mut rig: Rig<W>) {
    let second = rig.backend.listen(&loopback(), &LISTEN).unwrap();
    let second_address = rig.backend.listen_address(second).unwrap();
    assert_ne!(rig.address, second_address);
    assert!(rig.backend.listen(&second_address, &LISTEN).is_err(), "the port is taken");
    let check = |rig: &mut Rig<W>, address: &Address, listener| {
        let _client = rig.world.connect(address);
        rig.until("an accept", |rig| !rig.accepted.is_empty());
        assert_eq!(rig.accepted[0].0, listener);
        let conn = rig.adopt();
        assert_eq!(rig.backend.local_address(conn).as_ref(), Some(address));
        rig.close(conn, Close::Now);
    };
    let (first, first_address) = (rig.listener, rig.address.clone());
    check(&mut rig, &first_address, first);
    check(&mut rig, &second_address, second);
    check(&mut rig, &first_address, first);
}

pub(crate) fn stops_listening<W: World>(mut rig: Rig<W>) {
    rig.echoes = true;
    let (mut client, _) = rig.pair();
    let address = rig.address.clone();
    rig.backend.unlisten(rig.listener);
    assert_eq!(rig.backend.listen_address(rig.listener), None);
    rig.backend.unlisten(rig.listener);
    rig.settle();
    assert!(rig.world.is_refused(&address));
    rig.write(&mut *client, b"connected");
    assert_eq!(rig.read(&mut *client, 9), b"connected");
    let again = rig.backend.listen(&address, &LISTEN).unwrap();
    let _client = rig.pair_at(&address);
    assert_ne!(again, rig.listener);
}

pub(crate) fn listens_on_ipv6<W: World>(mut rig: Rig<W>) {
    rig.echoes = true;
    let address = Address::Tcp((std::net::Ipv6Addr::LOCALHOST, 0).into());
    let Ok(listener) = rig.backend.listen(&address, &LISTEN) else {
        eprintln!("skipped: no IPv6");
        return;
    };
    let address = rig.backend.listen_address(listener).unwrap();
    let (mut client, conn) = rig.pair_at(&address);
    rig.write(&mut *client, b"six");
    assert_eq!(rig.read(&mut *client, 3), b"six");
    assert!(matches!(rig.backend.peer_address(conn), Some(Address::Tcp(peer)) if peer.is_ipv6()));
}

pub(crate) fn listens_on_unix_sockets<W: World>(mut rig: Rig<W>) {
    rig.echoes = true;
    let path = rig.world.directory().join("socket");
    let address = Address::Unix(path.clone());
    // A socket that an earlier process has left behind is in nobody's way.
    if W::IS_REAL {
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    }
    let options = ListenOptions { unix_mode: 0o750, ..LISTEN };
    let listener = rig.backend.listen(&address, &options).unwrap();
    assert_eq!(rig.backend.listen_address(listener), Some(address.clone()));
    let (mut client, conn) = rig.pair_at(&address);
    rig.write(&mut *client, b"unix");
    assert_eq!(rig.read(&mut *client, 4), b"unix");
    assert_eq!(rig.backend.peer_address(conn), Some(address.clone()));
    if W::IS_REAL {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o750);
    }
    rig.backend.unlisten(listener);
    rig.settle();
    assert!(rig.world.is_refused(&address));
}

pub(crate) fn idle_connections_are_cheap<W: World>(mut rig: Rig<W>) {
    let before = rig.backend.memory_bytes();
    let mut clients = Vec::new();
    for _ in 0..1000 {
        let (mut client, conn) = rig.pair();
        // Idle, but not new: each has been served once.
        rig.write(&mut *client, b"ping");
        rig.until("bytes", |rig| rig.told(conn).received.len() == 4);
        rig.send(conn, b"pong".to_vec());
        assert_eq!(rig.read(&mut *client, 4), b"pong");
        clients.push(client);
    }
    rig.settle();
    let each = rig.backend.memory_bytes().saturating_sub(before) / clients.len();
    assert!(each < 1024, "{each} bytes for an idle connection");
}

pub(crate) fn sockets_move_between_backends<W: World>(mut rig: Rig<W>) {
    let mut other = rig.world.open_another();
    let mut client = rig.world.connect(&rig.address.clone());
    rig.until("an accept", |rig| !rig.accepted.is_empty());
    let (_, socket) = rig.accepted.remove(0);
    let conn = other.adopt(socket, &SOCKET).unwrap();
    rig.write(&mut *client, b"elsewhere");
    let mut read = Vec::new();
    rig.until("the echo", |_| {
        echo_once(&mut other, conn);
        if let super::Read::Bytes(more) = client.read() {
            read.extend(more);
        }
        read.len() == 9
    });
    assert_eq!(read, b"elsewhere");
    // Each backend has its own waker.
    rig.backend.waker().wake();
    rig.until("a wake", |rig| rig.wakes == 1);
}

fn echo_once<B: Backend>(backend: &mut B, conn: ConnId) {
    let mut arrived = Vec::new();
    let handler = &mut |event: Event<'_, B::Socket>| match event {
        Event::Received { bytes, .. } => arrived.extend_from_slice(bytes),
        Event::Sent { .. } => {}
        _ => panic!("an event of nobody"),
    };
    backend.wait(Some(std::time::Duration::from_millis(1)), handler).unwrap();
    if !arrived.is_empty() {
        assert!(!matches!(backend.send(conn, arrived), Sent::Refused(_)));
    }
}

pub(crate) fn places_are_reused_with_new_names<W: World>(mut rig: Rig<W>) {
    let mut names = std::collections::BTreeSet::new();
    let mut index_max = 0;
    for round in 0..50 {
        let (client, conn): (Box<dyn Client>, ConnId) = rig.pair();
        assert!(names.insert(conn));
        index_max = index_max.max(conn.index);
        if round % 2 == 0 {
            drop(client);
            rig.until_closed(conn);
        } else {
            rig.close(conn, Close::Now);
        }
    }
    assert!(index_max < 4, "places are reused");
}

/// Without descriptors a server says so now and then, does not spin, and goes on when it can.
/// The limit is a process's, so the test runs itself in a process of its own.
pub(crate) fn accepts_again_when_descriptors_are_free<W: World>(mut rig: Rig<W>) {
    const MARK: &str = "NETBACK_TEST_FEW_DESCRIPTORS";
    if !W::IS_REAL {
        return;
    }
    if std::env::var_os(MARK).is_none() {
        let name = std::thread::current().name().unwrap().to_owned();
        let status = std::process::Command::new("sh")
            .args(["-c", "ulimit -n 100; exec \"$0\" --exact \"$1\""])
            .args([std::env::current_exe().unwrap().into_os_string(), name.into()])
            .env(MARK, "1")
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    rig.accept_failures = Some(0);
    let mut taken: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    taken.pop();
    let _client = rig.world.connect(&rig.address.clone());
    rig.until("a failure", |rig| rig.accept_failures > Some(0));
    let start = rig.world.now();
    let mut turns = 0;
    while rig.world.now() - start < std::time::Duration::from_millis(350) {
        rig.turn(std::time::Duration::from_secs(1));
        turns += 1;
    }
    assert!(rig.accept_failures < Some(10) && turns < 20, "{:?}, {turns}", rig.accept_failures);
    taken.clear();
    rig.until("an accept", |rig| !rig.accepted.is_empty());
}
