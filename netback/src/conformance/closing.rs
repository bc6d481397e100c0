//! Ends of connections, from both sides.

use super::{Rig, World, pattern};
use crate::{Backend, Close, CloseReason, ConnId, Sent};

pub(crate) fn a_peer_closes<W: World>(mut rig: Rig<W>) {
    let (mut client, conn) = rig.pair();
    rig.write(&mut *client, b"last words");
    drop(client);
    rig.until_closed(conn);
    assert_eq!(rig.told(conn).received, b"last words");
    assert!(matches!(rig.told(conn).closed, Some(CloseReason::Peer)));
    // `turn` checks that nothing follows.
    rig.settle();
}

pub(crate) fn a_peer_resets<W: World>(mut rig: Rig<W>) {
    let (mut client, conn) = rig.pair();
    rig.write(&mut *client, b"x");
    rig.until("a byte", |rig| rig.told(conn).received.len() == 1);
    client.reset();
    rig.until_closed(conn);
    assert!(matches!(rig.told(conn).closed, Some(CloseReason::Error(_) | CloseReason::Peer)));
    // While something is queued, too.
    let (client, conn) = rig.pair();
    for _ in 0..64 {
        rig.send(conn, vec![1; 256 << 10]);
    }
    rig.settle();
    client.reset();
    rig.until_closed(conn);
    rig.settle();
}

/// `printf 'PING\r\n' | nc` closes its sending end right after the request.
pub(crate) fn a_late_reply_reaches_a_half_closed_peer<W: World>(mut rig: Rig<W>) {
    rig.echoes = true;
    for _ in 0..10 {
        let (mut client, conn) = rig.pair();
        rig.write(&mut *client, b"PING");
        client.finish();
        assert_eq!(rig.read_to_end(&mut *client), (b"PING".to_vec(), true));
        rig.until_closed(conn);
        assert!(matches!(rig.told(conn).closed, Some(CloseReason::Peer)));
    }
}

pub(crate) fn close_after_sends_sends_all<W: World>(mut rig: Rig<W>) {
    for len in [1, 100, 1 << 20, 8 << 20] {
        let (mut client, conn) = rig.pair();
        let bytes = pattern(len);
        rig.send(conn, bytes.clone());
        rig.send(conn, b"end".to_vec());
        rig.backend.close(conn, Close::AfterSends);
        let (read, clean) = rig.read_to_end(&mut *client);
        assert_eq!(read.len(), len + 3);
        assert!(clean && read[..len] == bytes && read.ends_with(b"end"));
        rig.until_closed(conn);
        assert!(matches!(rig.told(conn).closed, Some(CloseReason::Local)));
    }
    let (mut client, conn) = rig.pair();
    rig.close(conn, Close::AfterSends);
    assert_eq!(rig.read_to_end(&mut *client), (Vec::new(), true));
}

pub(crate) fn close_now_drops_the_rest<W: World>(mut rig: Rig<W>) {
    let (mut client, conn) = rig.pair();
    for _ in 0..32 {
        rig.send(conn, vec![1; 1 << 20]);
    }
    rig.settle();
    rig.close(conn, Close::Now);
    assert!(matches!(rig.told(conn).closed, Some(CloseReason::Local)));
    let (read, _) = rig.read_to_end(&mut *client);
    assert!(read.len() < 32 << 20);
    rig.settle();
}

pub(crate) fn close_now_overtakes_close_after_sends<W: World>(mut rig: Rig<W>) {
    let (_client, conn) = rig.pair();
    for _ in 0..32 {
        rig.send(conn, vec![1; 1 << 20]);
    }
    rig.backend.close(conn, Close::AfterSends);
    rig.settle();
    assert!(rig.told(conn).closed.is_none(), "nobody reads");
    rig.close(conn, Close::Now);
    assert!(matches!(rig.told(conn).closed, Some(CloseReason::Local)));
}

pub(crate) fn sends_after_close_are_refused<W: World>(mut rig: Rig<W>) {
    let (mut client, conn) = rig.pair();
    rig.send(conn, pattern(4 << 20));
    rig.backend.close(conn, Close::AfterSends);
    assert!(matches!(rig.backend.send(conn, vec![1]), Sent::Refused(_)));
    // What the peer says is not heard any more.
    rig.write(&mut *client, b"unheard");
    assert_eq!(rig.read_to_end(&mut *client).0.len(), 4 << 20);
    rig.until_closed(conn);
    assert!(rig.told(conn).received.is_empty());
    assert!(matches!(rig.backend.send(conn, vec![1]), Sent::Refused(_)));
}

/// Bytes of the peer that nobody wants any more must not cost it the replies before the close.
pub(crate) fn close_after_sends_bears_what_the_peer_says<W: World>(mut rig: Rig<W>) {
    for round in 0..20 {
        let (mut client, conn) = rig.pair();
        rig.backend.pause(conn, round % 2 == 0);
        rig.settle();
        rig.send(conn, pattern(3 << 20));
        // How much of it fits does not matter.
        client.write(&[1; 10_000]);
        if round % 3 == 0 {
            client.finish();
        }
        rig.backend.close(conn, Close::AfterSends);
        let read = rig.read_to_end(&mut *client).0;
        assert!(read == pattern(3 << 20), "round {round}: {} bytes", read.len());
        rig.until_closed(conn);
    }
}

pub(crate) fn stale_names_do_nothing<W: World>(mut rig: Rig<W>) {
    let (client, old) = rig.pair();
    drop(client);
    rig.until_closed(old);
    rig.echoes = true;
    let (mut client, new) = rig.pair();
    let check = |rig: &mut Rig<W>, stale: ConnId| {
        assert!(matches!(rig.backend.send(stale, vec![1]), Sent::Refused(_)));
        rig.backend.pause(stale, true);
        rig.backend.close(stale, Close::Now);
        rig.backend.close(stale, Close::AfterSends);
        assert_eq!(rig.backend.peer_address(stale), None);
        assert_eq!(rig.backend.local_address(stale), None);
        assert_eq!(rig.backend.descriptor(stale), -1);
    };
    check(&mut rig, old);
    check(&mut rig, ConnId { index: new.index, generation: new.generation + 1 });
    check(&mut rig, ConnId { index: 1 << 20, generation: 0 });
    rig.write(&mut *client, b"alive");
    assert_eq!(rig.read(&mut *client, 5), b"alive");
}

pub(crate) fn closes_while_paused<W: World>(mut rig: Rig<W>) {
    let (mut client, conn) = rig.pair();
    rig.backend.pause(conn, true);
    rig.settle();
    rig.write(&mut *client, b"unread");
    rig.settle();
    rig.close(conn, Close::Now);
    assert!(rig.told(conn).received.is_empty());
    // The peer's end is told after the pause at the latest, after its bytes.
    let (mut client, conn) = rig.pair();
    rig.backend.pause(conn, true);
    rig.settle();
    rig.write(&mut *client, b"bytes");
    drop(client);
    rig.settle();
    if rig.told(conn).closed.is_none() {
        rig.backend.pause(conn, false);
        rig.until_closed(conn);
        assert_eq!(rig.told(conn).received, b"bytes");
    }
}

pub(crate) fn a_backend_is_dropped_in_the_middle<W: World>(mut rig: Rig<W>) {
    let mut clients = Vec::new();
    for _ in 0..10 {
        let (mut client, conn) = rig.pair();
        rig.write(&mut *client, b"unread");
        for _ in 0..16 {
            rig.send(conn, vec![1; 1 << 20]);
        }
        clients.push(client);
    }
    rig.turn(std::time::Duration::from_millis(1));
    rig.send(rig.told.keys().next().copied().unwrap(), vec![2; 100]);
    let Rig { backend, .. } = rig;
    drop(backend);
}
