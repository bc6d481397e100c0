//! What the tests hold in hands: a backend, its clients, and all that it has told.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Client, Read, World, loopback};
use crate::{
    Address, Backend, Close, CloseReason, ConnId, EVENTS_MAX, Event, FileResult, FileToken,
    ListenOptions, ListenerId, Sent, SocketOptions,
};

/// Turns before a test that waits for something fails.
const TURNS_MAX: usize = 4000;

/// The longest wait of a turn.
const TURN: Duration = Duration::from_millis(5);

/// What the backend has told about a connection.
#[derive(Default)]
pub(crate) struct Told {
    /// All bytes.
    pub(crate) received: Vec<u8>,
    /// All buffers that came back.
    pub(crate) sent: Vec<Vec<u8>>,
    /// The reason of the one end.
    pub(crate) closed: Option<CloseReason>,
}

/// A backend with clients.
pub(crate) struct Rig<W: World> {
    pub(crate) backend: W::Backend,
    pub(crate) world: W,
    pub(crate) address: Address,
    pub(crate) listener: ListenerId,
    /// Accepted and not adopted.
    pub(crate) accepted: Vec<(ListenerId, <W::Backend as Backend>::Socket)>,
    pub(crate) told: BTreeMap<ConnId, Told>,
    pub(crate) wakes: usize,
    /// How often accepting has failed; `None`: it must not.
    pub(crate) accept_failures: Option<usize>,
    /// Results of file operations that nobody has taken.
    pub(crate) files: BTreeMap<FileToken, FileResult>,
    tokens: u64,
    /// Sends back what arrives.
    pub(crate) echoes: bool,
}

pub(crate) const LISTEN: ListenOptions = ListenOptions { backlog: 2048, unix_mode: 0 };

pub(crate) const SOCKET: SocketOptions = SocketOptions { keepalive_s: 300, nodelay: true };

impl<W: World> Rig<W> {
    pub(crate) fn new(world: W, mut backend: W::Backend) -> Self {
        let listener = backend.listen(&loopback(), &LISTEN).unwrap();
        let address = backend.listen_address(listener).unwrap();
        Self {
            backend,
            world,
            address,
            listener,
            accepted: Vec::new(),
            told: BTreeMap::new(),
            wakes: 0,
            accept_failures: None,
            files: BTreeMap::new(),
            tokens: 0,
            echoes: false,
        }
    }

    /// Connects a client and adopts its connection.
    pub(crate) fn pair(&mut self) -> (Box<dyn Client>, ConnId) {
        let address = self.address.clone();
        self.pair_at(&address)
    }

    pub(crate) fn pair_at(&mut self, address: &Address) -> (Box<dyn Client>, ConnId) {
        let client = self.world.connect(address);
        self.until("an accept", |rig| !rig.accepted.is_empty());
        (client, self.adopt())
    }

    /// Adopts an accepted socket.
    pub(crate) fn adopt(&mut self) -> ConnId {
        let (_, socket) = self.accepted.remove(0);
        let conn = self.backend.adopt(socket, &SOCKET).unwrap();
        let former = self.told.insert(conn, Told::default());
        assert!(former.is_none(), "a name is given once");
        conn
    }

    /// Sends; a buffer that comes back at once counts as sent.
    pub(crate) fn send(&mut self, conn: ConnId, buffer: Vec<u8>) {
        match self.backend.send(conn, buffer) {
            Sent::Complete(buffer) => self.told.get_mut(&conn).unwrap().sent.push(buffer),
            Sent::Pending => {}
            Sent::Refused(_) => panic!("refused"),
        }
    }

    /// One wait, and the echoes.
    pub(crate) fn turn(&mut self, timeout: Duration) -> usize {
        let (mut events, mut arrived) = (0, Vec::new());
        let Self { backend, accepted, told, wakes, files, accept_failures, .. } = self;
        let handler = &mut |event: Event<'_, <W::Backend as Backend>::Socket>| {
            events += 1;
            match event {
                Event::File { token, result } => {
                    assert!(files.insert(token, result).is_none());
                }
                Event::AcceptFailed { error, .. } => match accept_failures {
                    Some(count) => *count += 1,
                    None => panic!("accepting failed: {error}"),
                },
                event => note(accepted, told, wakes, &mut arrived, event),
            }
        };
        backend.wait(Some(timeout), handler).unwrap();
        assert!(events <= EVENTS_MAX, "{events} events in one wait");
        if self.echoes {
            for (conn, bytes) in arrived {
                if let Sent::Complete(buffer) = self.backend.send(conn, bytes) {
                    self.told.get_mut(&conn).unwrap().sent.push(buffer);
                }
            }
        }
        events
    }

    /// Waits, turn by turn, until something holds.
    pub(crate) fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        for _ in 0..TURNS_MAX {
            if holds(self) {
                return;
            }
            self.turn(TURN);
        }
        panic!("waited in vain for {what}");
    }

    /// Lets things that should not happen happen.
    pub(crate) fn settle(&mut self) {
        for _ in 0..10 {
            self.turn(Duration::from_millis(2));
        }
    }

    /// Writes all of `bytes` as a client.
    pub(crate) fn write(&mut self, client: &mut dyn Client, bytes: &[u8]) {
        let mut written = 0;
        self.until("room to write", |_| {
            written += client.write(&bytes[written..]);
            written == bytes.len()
        });
    }

    /// Reads `len` bytes as a client.
    pub(crate) fn read(&mut self, client: &mut dyn Client, len: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.until("bytes to read", |_| {
            while bytes.len() < len {
                match client.read() {
                    Read::Bytes(more) => bytes.extend(more),
                    Read::Nothing => break,
                    other => panic!("{other:?} after {} of {len} bytes", bytes.len()),
                }
            }
            bytes.len() >= len
        });
        bytes
    }

    /// Reads as a client until the end; whether it was a clean one.
    pub(crate) fn read_to_end(&mut self, client: &mut dyn Client) -> (Vec<u8>, bool) {
        let (mut bytes, mut clean) = (Vec::new(), None);
        self.until("the end", |_| {
            loop {
                match client.read() {
                    Read::Bytes(more) => bytes.extend(more),
                    Read::Nothing => return false,
                    Read::End => clean = Some(true),
                    Read::Reset => clean = Some(false),
                }
                if clean.is_some() {
                    return true;
                }
            }
        });
        (bytes, clean.unwrap())
    }

    pub(crate) fn told(&self, conn: ConnId) -> &Told {
        &self.told[&conn]
    }

    pub(crate) fn until_closed(&mut self, conn: ConnId) {
        self.until("the end of a connection", |rig| rig.told(conn).closed.is_some());
    }

    pub(crate) fn next_token(&mut self) -> u64 {
        self.tokens += 1;
        self.tokens
    }

    /// Waits for the result of a file operation.
    pub(crate) fn file_result(&mut self, token: FileToken) -> FileResult {
        self.until("a file operation", |rig| rig.files.contains_key(&token));
        self.files.remove(&token).unwrap()
    }

    /// Closes and waits for the answer.
    pub(crate) fn close(&mut self, conn: ConnId, how: Close) {
        self.backend.close(conn, how);
        self.until_closed(conn);
    }
}

fn note<S>(
    accepted: &mut Vec<(ListenerId, S)>,
    told: &mut BTreeMap<ConnId, Told>,
    wakes: &mut usize,
    arrived: &mut Vec<(ConnId, Vec<u8>)>,
    event: Event<'_, S>,
) {
    match event {
        Event::Accepted { listener, socket } => accepted.push((listener, socket)),
        Event::Woken => *wakes += 1,
        Event::File { .. } | Event::AcceptFailed { .. } => unreachable!("taken before"),
        Event::Received { conn, bytes } => {
            assert!(!bytes.is_empty());
            live(told, conn).received.extend_from_slice(bytes);
            arrived.push((conn, bytes.to_vec()));
        }
        Event::Sent { conn, buffer } => live(told, conn).sent.push(buffer),
        Event::Closed { conn, reason } => live(told, conn).closed = Some(reason),
    }
}

/// The record of a connection that has not ended.
fn live(told: &mut BTreeMap<ConnId, Told>, conn: ConnId) -> &mut Told {
    let entry = told.get_mut(&conn).expect("an event of an adopted connection");
    assert!(entry.closed.is_none(), "nothing follows the end of a connection");
    entry
}
