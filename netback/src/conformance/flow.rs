//! Bytes in, bytes out, pauses, wakes and time.

use std::time::Duration;

use super::{Read, Rig, World, pattern};
use crate::{Backend, Close, EVENTS_MAX, Sent, Waker};

pub(crate) fn echoes<W: World>(mut rig: Rig<W>) {
    rig.echoes = true;
    let (mut client, conn) = rig.pair();
    for round in 0..20 {
        let bytes = format!("round {round}").into_bytes();
        rig.write(&mut *client, &bytes);
        assert_eq!(rig.read(&mut *client, bytes.len()), bytes);
    }
    rig.until("all buffers", |rig| {
        rig.told(conn).sent.iter().map(Vec::len).sum::<usize>() == rig.told(conn).received.len()
    });
    assert!(rig.backend.peer_address(conn).is_some());
    assert_eq!(rig.backend.local_address(conn), Some(rig.address.clone()));
}

pub(crate) fn takes_in_much_in_order<W: World>(mut rig: Rig<W>) {
    let (mut client, conn) = rig.pair();
    let bytes = pattern(4 << 20);
    rig.write(&mut *client, &bytes);
    rig.until("all bytes", |rig| rig.told(conn).received.len() >= bytes.len());
    assert!(rig.told(conn).received == bytes);
}

pub(crate) fn sends_much_in_order<W: World>(mut rig: Rig<W>) {
    let (mut client, conn) = rig.pair();
    let bytes = pattern(6 << 20);
    // Of all sizes: some fit into the kernel's queue, some do not.
    let mut buffers = Vec::new();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let len = (1 << (buffers.len() % 19)).min(rest.len());
        buffers.push(rest[..len].to_vec());
        rest = &rest[len..];
    }
    for buffer in buffers.clone() {
        rig.send(conn, buffer);
    }
    assert!(rig.read(&mut *client, bytes.len()) == bytes);
    rig.until("all buffers", |rig| rig.told(conn).sent.len() == buffers.len());
    assert!(rig.told(conn).sent == buffers, "each buffer comes back, in order, unchanged");
}

pub(crate) fn echoes_a_long_pipeline<W: World>(mut rig: Rig<W>) {
    rig.echoes = true;
    let (mut client, _) = rig.pair();
    let bytes = pattern(2 << 20);
    let (mut written, mut read) = (0, Vec::new());
    rig.until("the whole echo", |_| {
        let end = (written + 10_000).min(bytes.len());
        written += client.write(&bytes[written..end]);
        if let Read::Bytes(more) = client.read() {
            read.extend(more);
        }
        read.len() == bytes.len()
    });
    assert!(read == bytes);
}

pub(crate) fn sends_many_buffers_within_the_bound_of_a_wait<W: World>(mut rig: Rig<W>) {
    let (mut client, conn) = rig.pair();
    // Fills what the kernel takes, so that all of the small ones queue up and leave together.
    rig.send(conn, pattern(8 << 20));
    let count = EVENTS_MAX * 3;
    for index in 0..count {
        rig.send(conn, vec![index as u8; 3]);
    }
    let bytes = rig.read(&mut *client, (8 << 20) + count * 3);
    assert!(bytes[8 << 20..].chunks(3).enumerate().all(|(index, chunk)| chunk[0] == index as u8));
    // `turn` checks the bound.
    rig.until("all buffers", |rig| rig.told(conn).sent.len() == count + 1);
}

pub(crate) fn pauses_and_resumes<W: World>(mut rig: Rig<W>) {
    let (mut client, conn) = rig.pair();
    rig.write(&mut *client, b"before");
    rig.until("bytes", |rig| rig.told(conn).received.len() == 6);
    rig.backend.pause(conn, true);
    rig.settle();
    rig.write(&mut *client, b" meanwhile");
    rig.settle();
    assert_eq!(rig.told(conn).received, b"before");
    // A paused connection still sends.
    rig.send(conn, b"reply".to_vec());
    assert_eq!(rig.read(&mut *client, 5), b"reply");
    rig.backend.pause(conn, false);
    rig.write(&mut *client, b" after");
    rig.until("bytes", |rig| rig.told(conn).received.len() >= 22);
    assert_eq!(rig.told(conn).received, b"before meanwhile after");
    for _ in 0..5 {
        rig.backend.pause(conn, true);
        rig.backend.pause(conn, false);
    }
    rig.write(&mut *client, b" end");
    rig.until("bytes", |rig| rig.told(conn).received.ends_with(b" end"));
}

/// A pause of a connection whose bytes are on their way must neither lose nor swap any.
pub(crate) fn bytes_held_by_a_pause_come_first<W: World>(mut rig: Rig<W>) {
    let (mut client, conn) = rig.pair();
    let bytes = pattern(3 << 20);
    let (mut written, mut turns) = (0, 0);
    rig.until("all bytes", |rig| {
        turns += 1;
        rig.backend.pause(conn, turns % 3 == 1);
        written += client.write(&bytes[written..]);
        rig.told(conn).received.len() == bytes.len()
    });
    assert!(rig.told(conn).received == bytes);
}

pub(crate) fn an_empty_buffer_is_complete<W: World>(mut rig: Rig<W>) {
    let (_client, conn) = rig.pair();
    assert!(matches!(rig.backend.send(conn, Vec::new()), Sent::Complete(_)));
    // Behind others, too.
    rig.send(conn, vec![1; 16 << 20]);
    assert!(matches!(rig.backend.send(conn, Vec::new()), Sent::Complete(_)));
}

pub(crate) fn a_peer_that_never_reads_harms_nobody<W: World>(mut rig: Rig<W>) {
    rig.echoes = true;
    let (_silent, silent) = rig.pair();
    let (mut client, _) = rig.pair();
    let before = rig.backend.memory_bytes();
    for _ in 0..256 {
        rig.send(silent, vec![7; 64 << 10]);
    }
    rig.settle();
    for _ in 0..20 {
        rig.write(&mut *client, b"still served");
        assert_eq!(rig.read(&mut *client, 12), b"still served");
    }
    let queued = (256 - rig.told(silent).sent.len()) * (64 << 10);
    assert!(queued > 0, "the kernel's queues end somewhere");
    let grown = rig.backend.memory_bytes().saturating_sub(before);
    assert!(grown >= queued && grown < queued + (1 << 20), "{grown} bytes for {queued}");
    rig.close(silent, Close::Now);
    assert!(rig.backend.memory_bytes() < before + (1 << 20));
}

pub(crate) fn timeouts_are_kept<W: World>(mut rig: Rig<W>) {
    rig.settle();
    let check = |rig: &mut Rig<W>, timeout_ms: u64| {
        let start = rig.world.now();
        assert_eq!(rig.turn(Duration::from_millis(timeout_ms)), 0);
        let passed = rig.world.now() - start;
        assert!(passed >= Duration::from_millis(timeout_ms), "{passed:?} of {timeout_ms} ms");
        assert!(passed < Duration::from_millis(timeout_ms + 500), "{passed:?}");
    };
    check(&mut rig, 0);
    check(&mut rig, 30);
    check(&mut rig, 101);
}

pub(crate) fn wakes_are_told_once<W: World>(mut rig: Rig<W>) {
    let waker = rig.backend.waker();
    rig.settle();
    for round in 1..=3 {
        for _ in 0..100 {
            waker.wake();
        }
        rig.until("a wake", |rig| rig.wakes == round);
        rig.settle();
        assert_eq!(rig.wakes, round);
    }
}

pub(crate) fn wakes_come_from_threads<W: World>(mut rig: Rig<W>) {
    for round in 1..=20 {
        let waker = rig.backend.waker();
        let thread = std::thread::spawn(move || waker.wake());
        if round % 2 == 0 {
            rig.turn(Duration::from_millis(1));
        }
        thread.join().unwrap();
        rig.until("a wake", |rig| rig.wakes == round);
    }
}

/// One who waits for a buffer before sending the next must not wait for something else.
pub(crate) fn sent_is_told_without_other_events<W: World>(mut rig: Rig<W>) {
    let (mut client, conn) = rig.pair();
    for round in 1..=50 {
        rig.send(conn, vec![round as u8; 100]);
        let start = rig.world.now();
        while rig.told(conn).sent.len() < round {
            rig.turn(Duration::from_secs(5));
            assert!(rig.world.now() - start < Duration::from_secs(1));
        }
    }
    assert_eq!(rig.read(&mut *client, 5000).len(), 5000);
}
