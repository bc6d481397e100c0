//! The io_uring backend.
//!
//! Requests are collected and handed to the kernel in the one system call that [`Uring::wait`]
//! makes, which also waits. Accepting and receiving are requests that go on by themselves, and
//! received bytes lie in buffers that all connections share (`buffers.rs`), so a tick that reads
//! and answers a hundred connections costs one system call.
//!
//! # Sending
//!
//! A small send is tried at once and is "quiet": the kernel answers only where it did not get all
//! across, so silence after the system call means success, and a reply does not end the very wait
//! that sends it. The buffer comes back with the next event, or [`QUIET_LAG`] later. Where
//! somebody waits for the end of a send (the connection is paused or closing, more is queued, the
//! buffer is large) it is answered. One send a connection is out at a time; what has come up
//! meanwhile leaves together in the next one.
//!
//! # What safe code may rely on
//!
//! A connection stays in the table, with its descriptor and its buffers, until the kernel has
//! answered every request on it ([`Conn::requests`]); closing cancels them and waits for that. So
//! neither a buffer nor a descriptor's number is reused while the kernel may still use it. The
//! files in `uring/` that hold `unsafe` say at their top what they offer.

mod buffers;
mod conn;
mod events;
mod files;
mod lost;
mod probe;
mod ring;
mod socket;
mod waker;

pub use probe::probe;
pub use socket::Socket;
pub use waker::UringWaker;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::places::Places;
use crate::{
    Address, Backend, Close, CloseReason, ConnId, EVENTS_MAX, Event, FileOp, FileToken,
    ListenOptions, ListenerId, Sent, SocketOptions,
};
use buffers::Buffers;
use conn::{Conn, Life, Urgency};
use files::Files;
use lost::Suspects;
use ring::{Completion, Kind, Ring, Token};

/// How much later than done a quiet send may be told.
const QUIET_LAG: Duration = Duration::from_millis(1);

/// Pause after a failed accept: without a free descriptor the next one fails as well.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Waits for the kernel to end all requests before memory is given up for lost.
const END_TRIES: usize = 500;

/// The backend; see the top of the file. The ring stands before what it points to, so that it is
/// dropped first.
pub struct Uring {
    ring: Ring,
    buffers: Buffers,
    conns: Places<Conn>,
    files: Files,
    listeners: Vec<Listener>,
    waker: UringWaker,
    /// Connections with something to send.
    to_send: Vec<ConnId>,
    /// Connections whose peer has closed its end.
    ended: Vec<ConnId>,
    /// Quiet sends that may be done, with their requests' numbers.
    quiet: Vec<(ConnId, u64)>,
    /// Events that came up otherwise than by a completion.
    pending: VecDeque<Pending>,
    suspects: Suspects,
    /// Scratch space of a wait.
    completions: Vec<Completion>,
}

struct Listener {
    socket: Option<OwnedFd>,
    address: Address,
    path: Option<Arc<Path>>,
    /// An accept is out.
    accepting: bool,
    /// The socket is to be closed when no accept is out.
    closing: bool,
    /// Accepting failed and starts again at this time.
    retry_at: Option<Instant>,
}

enum Pending {
    Sent(ConnId, Vec<u8>),
    Held(ConnId),
    Closed(ConnId, CloseReason),
}

impl Uring {
    /// Makes the requests that a connection's state asks for.
    fn settle(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        if conn.cancelling {
            return;
        }
        let fd = conn.as_raw_fd();
        let cancel = Token::new(Kind::Cancel, id.index);
        let receive = Token::new(Kind::Receive, id.index);
        if conn.is_closed() {
            if conn.requests == 0 {
                self.finish(id);
                return;
            }
            self.ring.cancel_all(cancel, fd);
            conn.cancelling = true;
            conn.requests += 1;
        } else if conn.is_open() && conn.paused && conn.receiving {
            self.ring.cancel(cancel, receive);
            conn.cancelling = true;
            conn.requests += 1;
        } else if conn.should_receive() && !conn.receiving {
            self.ring.receive(receive, fd);
            conn.receiving = true;
            conn.requests += 1;
        }
    }

    /// Ends a connection: cancels what is out, and tells once all is in.
    fn end(&mut self, id: ConnId, reason: CloseReason) {
        let Some(conn) = self.conns.get_mut(id).filter(|conn| !conn.is_closed()) else { return };
        conn.life = Life::Closed(reason);
        self.settle(id);
    }

    /// The last answer is in: the descriptor is closed and the buffers are freed.
    fn finish(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.vacate(id)
            && let Life::Closed(reason) = conn.life
        {
            self.pending.push_back(Pending::Closed(id, reason));
        }
    }

    /// Peers that have closed their end: what was queued since then gets one try.
    fn end_ended(&mut self) {
        for id in std::mem::take(&mut self.ended) {
            let Some(conn) = self.conns.get(id).filter(|conn| !conn.owed) else { continue };
            if conn.sends.is_empty() || conn.sends.is_busy() {
                self.end(id, CloseReason::Peer);
            }
        }
    }

    fn list_to_send(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(id)
            && !conn.listed
            && !conn.sends.is_busy()
            && !conn.sends.is_empty()
        {
            conn.listed = true;
            self.to_send.push(id);
        }
    }

    fn start_sends(&mut self) {
        let mut to_send = std::mem::take(&mut self.to_send);
        for id in to_send.drain(..) {
            let Some(conn) = self.conns.get_mut(id) else { continue };
            conn.listed = false;
            let urgency = match conn.life {
                Life::Closed(_) => continue,
                Life::Ended if conn.owed => Urgency::Told,
                Life::Ended => Urgency::LastTry,
                Life::Draining => Urgency::Told,
                Life::Open if conn.paused => Urgency::Told,
                Life::Open => Urgency::Usual,
            };
            let (fd, token) = (conn.as_raw_fd(), Token::new(Kind::Send, id.index));
            conn.requests += 1;
            if let Some(number) = conn.sends.start(&mut self.ring, token, fd, urgency) {
                self.quiet.push((id, number));
            }
        }
        self.to_send = to_send;
    }

    /// Has listeners accept that do not: at first, and after a pause where accepting failed.
    fn start_accepts(&mut self) {
        for (index, listener) in self.listeners.iter_mut().enumerate() {
            if listener.accepting || listener.closing {
                continue;
            }
            if listener.retry_at.is_some_and(|retry_at| now() < retry_at) {
                continue;
            }
            if let Some(socket) = &listener.socket {
                let token = Token::new(Kind::Accept, index as u32);
                self.ring.accept(token, socket.as_raw_fd());
                listener.accepting = true;
                listener.retry_at = None;
            }
        }
    }

    /// How many completions to wait for, and how long.
    fn patience(&self, timeout: Option<Duration>) -> (usize, Option<Duration>) {
        if !self.pending.is_empty() || self.files.has_ready() || timeout == Some(Duration::ZERO) {
            return (0, None);
        }
        let lag = (!self.quiet.is_empty()).then_some(QUIET_LAG);
        let retry_at = self.listeners.iter().filter_map(|listener| listener.retry_at).min();
        let due = [retry_at, self.suspects.look_at()].into_iter().flatten().min();
        let due = due.map(|due| due.saturating_duration_since(now()));
        (1, [timeout, lag, due].into_iter().flatten().min())
    }
}

impl Backend for Uring {
    type Socket = Socket;
    type Waker = UringWaker;

    fn open() -> io::Result<Self> {
        let mut ring = Ring::open()?;
        let buffers = Buffers::open(&ring)?;
        let waker = UringWaker::open()?;
        ring.watch(Token::new(Kind::Waker, 0), waker.as_raw_fd());
        Ok(Self {
            ring,
            buffers,
            conns: Places::default(),
            files: Files::default(),
            listeners: Vec::new(),
            waker,
            to_send: Vec::new(),
            ended: Vec::new(),
            quiet: Vec::new(),
            suspects: Suspects::default(),
            pending: VecDeque::new(),
            completions: Vec::new(),
        })
    }

    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn listen(&mut self, address: &Address, options: &ListenOptions) -> io::Result<ListenerId> {
        let (socket, address) = crate::socket::listen(address, options, false)?;
        let path = match &address {
            Address::Unix(path) => Some(Arc::from(path.as_path())),
            Address::Tcp(_) => None,
        };
        let id = ListenerId(self.listeners.len() as u32);
        self.listeners.push(Listener {
            socket: Some(socket),
            address,
            path,
            accepting: false,
            closing: false,
            retry_at: None,
        });
        Ok(id)
    }

    fn listen_address(&self, listener: ListenerId) -> Option<Address> {
        let listener = self.listeners.get(listener.0 as usize)?;
        (!listener.closing).then(|| listener.address.clone())
    }

    fn unlisten(&mut self, id: ListenerId) {
        let Some(listener) = self.listeners.get_mut(id.0 as usize) else { return };
        if listener.closing {
            return;
        }
        listener.closing = true;
        listener.retry_at = None;
        if let Address::Unix(path) = &listener.address {
            let _ = std::fs::remove_file(path);
        }
        if listener.accepting {
            let target = Token::new(Kind::Accept, id.0);
            self.ring.cancel(Token::new(Kind::CancelAccept, id.0), target);
        } else {
            listener.socket = None;
        }
    }

    fn adopt(&mut self, socket: Socket, options: &SocketOptions) -> io::Result<ConnId> {
        socket.set_options(options);
        let id = self.conns.next_id();
        self.conns.occupy(id, Conn::new(socket));
        self.settle(id);
        Ok(id)
    }

    fn peer_address(&self, conn: ConnId) -> Option<Address> {
        self.conns.get(conn)?.socket.peer_address()
    }

    fn local_address(&self, conn: ConnId) -> Option<Address> {
        self.conns.get(conn)?.socket.local_address()
    }

    fn descriptor(&self, conn: ConnId) -> i32 {
        self.conns.get(conn).map_or(-1, Conn::as_raw_fd)
    }

    fn send(&mut self, id: ConnId, buffer: Vec<u8>) -> Sent {
        match self.conns.get_mut(id) {
            Some(conn) if conn.may_send() => {
                if buffer.is_empty() {
                    return Sent::Complete(buffer);
                }
                conn.sends.push(buffer);
                self.list_to_send(id);
                Sent::Pending
            }
            _ => Sent::Refused(buffer),
        }
    }

    fn pause(&mut self, id: ConnId, paused: bool) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.paused = paused;
        if !paused && !conn.held.is_empty() {
            self.pending.push_back(Pending::Held(id));
        }
        self.settle(id);
    }

    fn hold(&mut self, id: ConnId, held: bool) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.owed = held;
        if !held && matches!(conn.life, Life::Ended) {
            self.ended.push(id);
        }
    }

    fn close(&mut self, id: ConnId, how: Close) {
        let Some(conn) = self.conns.get_mut(id).filter(|conn| !conn.is_closed()) else { return };
        if how == Close::Now || conn.sends.is_empty() {
            self.end(id, CloseReason::Local);
        } else if conn.is_open() {
            conn.life = Life::Draining;
            self.settle(id);
        }
    }

    fn submit_file(&mut self, token: FileToken, op: FileOp) {
        self.files.submit(&mut self.ring, token, op);
    }

    fn waker(&self) -> UringWaker {
        self.waker.clone()
    }

    fn memory_bytes(&self) -> usize {
        let heap = self.conns.iter().map(Conn::heap_bytes).sum::<usize>();
        self.ring.bytes() + self.buffers.memory_bytes() + self.conns.bytes() + heap
    }

    fn wait(
        &mut self,
        timeout: Option<Duration>,
        handler: &mut dyn FnMut(Event<'_, Socket>),
    ) -> io::Result<()> {
        self.end_ended();
        self.start_sends();
        self.start_accepts();
        let (want, timeout) = self.patience(timeout);
        self.ring.enter(want, timeout)?;
        let mut budget = EVENTS_MAX;
        self.deliver_pending(&mut budget, handler);
        self.take_completions(&mut budget, handler);
        self.look_for_lost_ends();
        self.deliver_pending(&mut budget, handler);
        Ok(())
    }
}

impl Drop for Uring {
    /// Ends the connections and waits for the kernel to let go of all memory.
    fn drop(&mut self) {
        for id in self.conns.ids() {
            self.end(id, CloseReason::Local);
        }
        for _ in 0..END_TRIES {
            if self.conns.iter().next().is_none() && !self.files.is_busy() {
                return;
            }
            if self.ring.enter(1, Some(Duration::from_millis(20))).is_err() {
                break;
            }
            self.take_completions(&mut EVENTS_MAX.clone(), &mut |_| {});
        }
        // The kernel may still look at these (on another thread than its own, a ring cannot be
        // asked): better lost than freed.
        std::mem::forget(std::mem::take(&mut self.conns));
        std::mem::forget(std::mem::take(&mut self.files));
        self.buffers.leak();
    }
}

#[allow(clippy::disallowed_methods, reason = "only spaces out failing accepts and late looks")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::real::{Probe, Real};

    impl Probe for Uring {
        fn probe() -> Result<(), String> {
            super::probe()
        }
    }

    crate::conformance::suite!(Real<Uring>);
}
