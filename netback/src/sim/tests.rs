//! The suite on quiet and on faulty networks, and what only a simulation promises.

use std::io::{self, Read as _, Write as _};
use std::time::Duration;

use super::{DiskFaults, Faults, Sim, SimClient, SimDisk, SimNet};
use crate::conformance::{Client, Read, World, loopback, write_some};
use crate::{Address, Backend, Close, CloseReason, Event, ListenOptions, Sent, SocketOptions};

mod disk;

/// A simulated world by seed; seed 0 has no faults.
struct Simulated<const SEED: u64> {
    net: SimNet,
}

impl<const SEED: u64> World for Simulated<SEED> {
    type Backend = Sim;

    fn open() -> Result<(Self, Sim), String> {
        let faults = match SEED {
            0 => Faults::NONE,
            // The suite is about what holds on a network that works, however badly.
            _ => {
                let drawn = Faults::drawn(SEED).without_resets();
                // Some tests read only after they have sent some KiB.
                let queue_bytes = drawn.queue_bytes.max(8 << 10);
                Faults { accept_failures: 0, queue_bytes, ..drawn }
            }
        };
        let delay_max = faults.delay_max;
        let disk = SimDisk::new(SEED, DiskFaults { delay_max, ..DiskFaults::NONE });
        disk.make_directory("/simulated".as_ref());
        let net = SimNet::new(SEED, faults).with_disk(disk);
        let backend = net.backend();
        Ok((Self { net }, backend))
    }

    fn open_another(&mut self) -> Sim {
        self.net.backend()
    }

    fn connect(&mut self, address: &Address) -> Box<dyn Client> {
        Box::new(Wrapped(self.net.connect(address).unwrap()))
    }

    fn is_refused(&mut self, address: &Address) -> bool {
        self.net.connect(address).is_err()
    }

    fn directory(&self) -> std::path::PathBuf {
        "/simulated".into()
    }

    fn now(&self) -> Duration {
        self.net.now()
    }
}

/// A client as the suite sees it.
struct Wrapped(SimClient);

impl Client for Wrapped {
    fn write(&mut self, bytes: &[u8]) -> usize {
        write_some(&mut self.0, bytes)
    }

    fn read(&mut self) -> Read {
        Read::from(&mut self.0)
    }

    fn finish(&mut self) {
        self.0.shut_down_write();
    }

    fn reset(self: Box<Self>) {
        self.0.reset();
    }
}

mod quiet {
    use super::Simulated;

    crate::conformance::suite!(Simulated<0>);
}

mod faulty_1 {
    use super::Simulated;

    crate::conformance::suite!(Simulated<1>);
}

mod faulty_2 {
    use super::Simulated;

    crate::conformance::suite!(Simulated<2>);
}

mod faulty_3 {
    use super::Simulated;

    crate::conformance::suite!(Simulated<3>);
}

/// What a run on a drawn network told, in order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Story {
    lines: Vec<String>,
    failed_accepts: usize,
    ends: [usize; 3],
}

const LISTEN: ListenOptions = ListenOptions { backlog: 64, unix_mode: 0 };
const SOCKET: SocketOptions = SocketOptions { keepalive_s: 0, nodelay: true };

/// An echo server with eight clients, of which some go early, on a network with all faults.
fn tell(seed: u64) -> Story {
    let net = SimNet::new(seed, Faults::drawn(seed));
    let mut server = net.backend();
    let listener = server.listen(&loopback(), &LISTEN).unwrap();
    let address = server.listen_address(listener).unwrap();
    let mut clients: Vec<_> = (0..8).map(|_| Some(net.connect(&address).unwrap())).collect();
    let mut story = Story::default();
    for turn in 0..400 {
        for (index, place) in clients.iter_mut().enumerate() {
            step(place, turn, index, &mut story);
        }
        serve(&mut server, &mut story);
    }
    drop(clients);
    for _ in 0..200 {
        net.advance(Duration::from_millis(100));
        serve(&mut server, &mut story);
    }
    assert_eq!(server.conns.iter().count(), 0, "seed {seed}: every connection has ended");
    story
}

fn step(place: &mut Option<SimClient>, turn: usize, index: usize, story: &mut Story) {
    let Some(client) = place else { return };
    let mut buffer = [0; 512];
    let read = client.read(&mut buffer);
    story.lines.push(format!("{turn} client {index} reads {read:?}"));
    let written = client.write(&[index as u8; 300]);
    let is_over =
        matches!(read, Ok(0)) || written.is_err_and(|e| e.kind() != io::ErrorKind::WouldBlock);
    if is_over || turn == 50 * index {
        *place = None;
    }
}

fn serve(server: &mut Sim, story: &mut Story) {
    let (mut accepted, mut arrived) = (Vec::new(), Vec::new());
    let handler = &mut |event: Event<'_, super::SimSocket>| match event {
        Event::Accepted { socket, .. } => accepted.push(socket),
        Event::AcceptFailed { .. } => story.failed_accepts += 1,
        Event::Received { conn, bytes } => {
            story.lines.push(format!("{conn:?} received {} of {}", bytes.len(), bytes[0]));
            arrived.push((conn, bytes.to_vec()));
        }
        Event::Sent { conn, buffer } => story.lines.push(format!("{conn:?} sent {}", buffer.len())),
        Event::Closed { conn, reason } => {
            story.lines.push(format!("{conn:?} closed: {reason:?}"));
            story.ends[match reason {
                CloseReason::Peer => 0,
                CloseReason::Local => 1,
                CloseReason::Error(_) => 2,
            }] += 1;
        }
        Event::Woken | Event::File { .. } => panic!("nobody asks for it"),
    };
    server.wait(Some(Duration::from_millis(10)), handler).unwrap();
    for socket in accepted {
        server.adopt(socket, &SOCKET).unwrap();
    }
    for (conn, bytes) in arrived {
        let answer = match server.send(conn, bytes) {
            Sent::Complete(_) => "complete",
            Sent::Pending => "pending",
            Sent::Refused(_) => "refused",
        };
        story.lines.push(format!("{conn:?} {answer}"));
        if story.lines.len().is_multiple_of(97) {
            server.close(conn, Close::AfterSends);
        }
    }
}

#[test]
fn a_seed_tells_the_same_story_again() {
    let mut seen = Story::default();
    for seed in 0..60 {
        let story = tell(seed);
        assert_eq!(story, tell(seed), "seed {seed}");
        seen.failed_accepts += story.failed_accepts;
        for (sum, count) in seen.ends.iter_mut().zip(story.ends) {
            *sum += count;
        }
    }
    assert!(seen.failed_accepts > 0, "some network fails to accept");
    assert!(seen.ends.iter().all(|count| *count > 0), "{:?}: ends of all kinds", seen.ends);
    assert_ne!(tell(1), tell(2));
}

#[test]
fn time_passes_by_what_is_due() {
    let faults = Faults { delay_max: Duration::from_secs(1), ..Faults::NONE };
    let net = SimNet::new(7, faults);
    let mut server = net.backend();
    let listener = server.listen(&loopback(), &LISTEN).unwrap();
    let mut client = net.connect(&server.listen_address(listener).unwrap()).unwrap();
    let mut accepted = None;
    server
        .wait(None, &mut |event| {
            if let Event::Accepted { socket, .. } = event {
                accepted = Some(socket);
            }
        })
        .unwrap();
    server.adopt(accepted.unwrap(), &SOCKET).unwrap();
    client.write_all(b"slow").unwrap();
    let mut received = 0;
    while received == 0 {
        server
            .wait(None, &mut |event| {
                if let Event::Received { bytes, .. } = event {
                    received += bytes.len();
                }
            })
            .unwrap();
    }
    assert_eq!(received, 4);
    assert!(net.now() > Duration::ZERO && net.now() <= faults.delay_max);
    let start = net.now();
    server.wait(Some(Duration::from_secs(86_400)), &mut |_| panic!("nothing is due")).unwrap();
    assert_eq!(net.now() - start, Duration::from_secs(86_400));
}

#[test]
fn a_waker_ends_a_wait_on_another_thread() {
    let net = SimNet::new(0, Faults::NONE);
    let mut server = net.backend();
    let waker = server.waker();
    let thread = std::thread::spawn(move || {
        let mut wakes = 0;
        server.wait(None, &mut |event| wakes += u32::from(matches!(event, Event::Woken))).unwrap();
        wakes
    });
    crate::Waker::wake(&waker);
    assert_eq!(thread.join().unwrap(), 1);
}

#[test]
fn opening_joins_the_entered_network() {
    let net = SimNet::new(0, Faults::NONE);
    let entered = net.enter();
    let mut server = <Sim as Backend>::open().unwrap();
    let listener = server.listen(&loopback(), &LISTEN).unwrap();
    let address = server.listen_address(listener).unwrap();
    assert!(net.connect(&address).is_ok());
    drop(entered);
    assert!(Sim::open().unwrap().net().connect(&address).is_err());
    drop(server);
    assert!(net.connect(&address).is_err(), "it listens no more");
}
