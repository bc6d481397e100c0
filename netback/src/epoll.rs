//! The epoll backend, on mio.
//!
//! epoll announces readiness and the calls are made here. mio registers edge-triggered, so what
//! has been announced and not been used up is remembered: a connection stays on the ready list
//! until a read came back short. A request at pipeline depth 1 costs one epoll_wait, one read and
//! one write; a read that would only say "nothing more" is not made.
//!
//! All connections share one receive buffer. A connection that is idle costs its [`Conn`] and
//! nothing else.

mod conn;
mod files;
mod waker;

pub use waker::EpollWaker;

use std::collections::VecDeque;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};

use crate::places::Places;
use crate::socket::{self, Listener, Socket};
use crate::{
    Address, Backend, Close, CloseReason, ConnId, EVENTS_MAX, Event, FileOp, FileToken,
    ListenOptions, ListenerId, Sent, SocketOptions,
};
use conn::{Conn, conn_of, token_of, write_all};
use files::Files;

/// Bytes that one read takes at most.
const RECEIVE_BUFFER_LEN: usize = 64 * 1024;

/// Connections accepted in one wait.
const ACCEPTS_MAX: usize = 256;

/// Reads that drop what a closing connection's peer says, in one go.
const DISCARDS_MAX: usize = 16;

/// Pause after a failed accept: without a free descriptor the next one fails as well.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Token of the waker.
const WAKER: Token = Token(usize::MAX);

/// Bit that tells the tokens of listeners from those of connections.
const LISTENER_BIT: usize = 1 << 63;

/// The backend; see the top of the file.
pub struct Epoll {
    poll: Poll,
    events: Events,
    waker: EpollWaker,
    listeners: Vec<Option<ListenerState>>,
    conns: Places<Conn>,
    /// Connections that may have bytes to read.
    ready: VecDeque<ConnId>,
    /// Events that came up outside of a wait.
    pending: VecDeque<Pending>,
    buffer: Box<[u8]>,
    files: Files,
    /// Some listener failed to accept at this time.
    accept_failed_at: Option<Instant>,
}

struct ListenerState {
    socket: Listener,
    address: Address,
    /// More connections may wait.
    ready: bool,
}

enum Pending {
    Sent(ConnId, Vec<u8>),
    Closed(ConnId, CloseReason),
}

impl Epoll {
    /// Reads from one ready connection and hands the bytes on.
    fn receive(&mut self, id: ConnId, handler: &mut dyn FnMut(Event<'_, Socket>)) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.listed = false;
        if conn.closing {
            self.discard(id);
            return;
        }
        if conn.paused || !conn.readable {
            return;
        }
        match conn.socket.read(&mut self.buffer) {
            Ok(0) if conn.owed => (conn.ended, conn.readable) = (true, false),
            Ok(0) => self.drop_conn(id, CloseReason::Peer),
            Ok(len) => {
                conn.readable = len == self.buffer.len() || conn.read_closed;
                if conn.readable {
                    conn.listed = true;
                    self.ready.push_back(id);
                }
                handler(Event::Received { conn: id, bytes: &self.buffer[..len] });
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => conn.readable = false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                conn.listed = true;
                self.ready.push_back(id);
            }
            Err(error) => self.drop_conn(id, CloseReason::Error(error)),
        }
    }

    /// Drops what the peer of a closing connection still says: the kernel answers bytes that
    /// nobody has read when it closes with a reset, which takes with it what is still to be sent.
    fn discard(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        for _ in 0..DISCARDS_MAX {
            match conn.socket.read(&mut self.buffer) {
                Ok(len) if len > 0 => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Sending tells an error, too.
                _ => {
                    conn.readable = false;
                    return;
                }
            }
        }
        self.list(id);
    }

    /// Sends what is unsent as far as the kernel takes it.
    fn flush(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        while let Some(buffer) = conn.unsent.front() {
            match write_all(&mut conn.socket, buffer, &mut conn.sent) {
                Ok(true) => {
                    conn.sent = 0;
                    if let Some(buffer) = conn.unsent.pop_front() {
                        self.pending.push_back(Pending::Sent(id, buffer));
                    }
                }
                Ok(false) => return,
                Err(error) => {
                    self.drop_conn(id, CloseReason::Error(error));
                    return;
                }
            }
        }
        conn.unsent = VecDeque::new();
        if conn.closing {
            self.discard(id);
            self.drop_conn(id, CloseReason::Local);
        }
    }

    /// Closes the socket; the event follows, and the place is free after it.
    fn drop_conn(&mut self, id: ConnId, reason: CloseReason) {
        if let Some(mut conn) = self.conns.vacate(id) {
            // Closing the descriptor would take it out as well, were it not for copies of it.
            let _ = conn.socket.deregister(self.poll.registry());
            self.pending.push_back(Pending::Closed(id, reason));
        }
    }

    fn list(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(id)
            && conn.readable
            && !conn.listed
            && (conn.closing || !conn.paused)
        {
            conn.listed = true;
            self.ready.push_back(id);
        }
    }

    fn accept(
        &mut self,
        index: usize,
        budget: &mut usize,
        handler: &mut dyn FnMut(Event<'_, Socket>),
    ) {
        let Some(Some(listener)) = self.listeners.get_mut(index) else { return };
        let id = ListenerId(index as u32);
        let tries = ACCEPTS_MAX.min(*budget);
        *budget -= tries;
        for _ in 0..tries {
            match listener.socket.accept() {
                Ok(socket) => handler(Event::Accepted { listener: id, socket }),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    listener.ready = false;
                    return;
                }
                Err(error) if is_transient(&error) => {}
                Err(error) => {
                    self.accept_failed_at = Some(now());
                    handler(Event::AcceptFailed { listener: id, error });
                    return;
                }
            }
        }
    }

    /// Notes what the kernel announced.
    fn take_announcements(&mut self, handler: &mut dyn FnMut(Event<'_, Socket>)) {
        let events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        for event in &events {
            let token = event.token();
            if token == WAKER {
                // Finished file operations wake, too.
                if self.waker.woken.swap(false, Ordering::AcqRel) {
                    handler(Event::Woken);
                }
            } else if token.0 & LISTENER_BIT != 0 {
                if let Some(Some(listener)) = self.listeners.get_mut(token.0 & !LISTENER_BIT) {
                    listener.ready = true;
                }
            } else {
                self.announced(conn_of(token), event);
            }
        }
        self.events = events;
    }

    fn announced(&mut self, id: ConnId, event: &mio::event::Event) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.read_closed |= event.is_read_closed() || event.is_error();
        conn.readable |= event.is_readable() || conn.read_closed;
        let has_unsent = !conn.unsent.is_empty();
        if has_unsent && (event.is_writable() || event.is_error()) {
            self.flush(id);
        }
        self.list(id);
    }

    fn deliver_pending(&mut self, budget: &mut usize, handler: &mut dyn FnMut(Event<'_, Socket>)) {
        while *budget > 0
            && let Some(pending) = self.pending.pop_front()
        {
            *budget -= 1;
            match pending {
                Pending::Sent(conn, buffer) => handler(Event::Sent { conn, buffer }),
                Pending::Closed(conn, reason) => {
                    self.conns.release(conn);
                    handler(Event::Closed { conn, reason });
                }
            }
        }
    }

    fn deliver_files(&mut self, budget: &mut usize, handler: &mut dyn FnMut(Event<'_, Socket>)) {
        while *budget > 0
            && let Some((token, result)) = self.files.next()
        {
            *budget -= 1;
            handler(Event::File { token, result });
        }
    }

    fn has_work(&self) -> bool {
        let accepts = self.accept_failed_at.is_none()
            && self.listeners.iter().flatten().any(|listener| listener.ready);
        accepts || !self.ready.is_empty() || !self.pending.is_empty() || self.files.has_results()
    }
}

impl Backend for Epoll {
    type Socket = Socket;
    type Waker = EpollWaker;

    fn open() -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = EpollWaker {
            waker: Arc::new(mio::Waker::new(poll.registry(), WAKER)?),
            woken: Arc::new(AtomicBool::new(false)),
        };
        let files = Files::new(Arc::clone(&waker.waker));
        Ok(Self {
            poll,
            files,
            events: Events::with_capacity(EVENTS_MAX / 2),
            waker,
            listeners: Vec::new(),
            conns: Places::default(),
            ready: VecDeque::new(),
            pending: VecDeque::new(),
            buffer: vec![0; RECEIVE_BUFFER_LEN].into_boxed_slice(),
            accept_failed_at: None,
        })
    }

    fn name(&self) -> &'static str {
        "epoll"
    }

    fn listen(&mut self, address: &Address, options: &ListenOptions) -> io::Result<ListenerId> {
        let (descriptor, address) = socket::listen(address, options, true)?;
        let mut socket = Listener::new(descriptor, &address);
        let index = self.listeners.len();
        socket.register(self.poll.registry(), Token(LISTENER_BIT | index))?;
        self.listeners.push(Some(ListenerState { socket, address, ready: false }));
        Ok(ListenerId(index as u32))
    }

    fn listen_address(&self, listener: ListenerId) -> Option<Address> {
        let state = self.listeners.get(listener.0 as usize)?.as_ref()?;
        Some(state.address.clone())
    }

    fn unlisten(&mut self, listener: ListenerId) {
        let Some(place) = self.listeners.get_mut(listener.0 as usize) else { return };
        if let Some(mut state) = place.take() {
            let _ = state.socket.deregister(self.poll.registry());
            if let Address::Unix(path) = state.address {
                let _ = std::fs::remove_file::<PathBuf>(path);
            }
        }
    }

    fn adopt(&mut self, socket: Socket, options: &SocketOptions) -> io::Result<ConnId> {
        socket.set_options(options);
        let id = self.conns.next_id();
        let mut conn = Conn::new(socket);
        let interest = Interest::READABLE | Interest::WRITABLE;
        conn.socket.register(self.poll.registry(), token_of(id), interest)?;
        self.conns.occupy(id, conn);
        Ok(id)
    }

    fn peer_address(&self, conn: ConnId) -> Option<Address> {
        self.conns.get(conn)?.peer.clone()
    }

    fn local_address(&self, conn: ConnId) -> Option<Address> {
        self.conns.get(conn)?.local.clone()
    }

    fn descriptor(&self, conn: ConnId) -> i32 {
        self.conns.get(conn).map_or(-1, |conn| conn.socket.as_raw_fd())
    }

    fn send(&mut self, id: ConnId, buffer: Vec<u8>) -> Sent {
        let Some(conn) = self.conns.get_mut(id).filter(|conn| !conn.closing) else {
            return Sent::Refused(buffer);
        };
        if buffer.is_empty() {
            return Sent::Complete(buffer);
        }
        if !conn.unsent.is_empty() {
            conn.unsent.push_back(buffer);
            return Sent::Pending;
        }
        let mut sent = 0;
        match write_all(&mut conn.socket, &buffer, &mut sent) {
            Ok(true) => Sent::Complete(buffer),
            Ok(false) => {
                conn.sent = sent;
                conn.unsent.push_back(buffer);
                Sent::Pending
            }
            Err(error) => {
                self.drop_conn(id, CloseReason::Error(error));
                Sent::Refused(buffer)
            }
        }
    }

    fn pause(&mut self, id: ConnId, paused: bool) {
        if let Some(conn) = self.conns.get_mut(id) {
            conn.paused = paused;
            self.list(id);
        }
    }

    fn hold(&mut self, id: ConnId, held: bool) {
        if let Some(conn) = self.conns.get_mut(id) {
            conn.owed = held;
            if !held && conn.ended {
                conn.readable = true;
                self.list(id);
            }
        }
    }

    fn close(&mut self, id: ConnId, how: Close) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        if how == Close::Now {
            self.drop_conn(id, CloseReason::Local);
        } else if conn.unsent.is_empty() {
            self.discard(id);
            self.drop_conn(id, CloseReason::Local);
        } else {
            conn.closing = true;
            self.list(id);
        }
    }

    fn submit_file(&mut self, token: FileToken, op: FileOp) {
        self.files.submit(token, op);
    }

    fn waker(&self) -> EpollWaker {
        self.waker.clone()
    }

    fn memory_bytes(&self) -> usize {
        let unsent = self.conns.iter().flat_map(|conn| &conn.unsent).map(Vec::capacity);
        self.buffer.len() + self.conns.bytes() + unsent.sum::<usize>()
    }

    fn wait(
        &mut self,
        timeout: Option<Duration>,
        handler: &mut dyn FnMut(Event<'_, Socket>),
    ) -> io::Result<()> {
        let timeout = match timeout {
            _ if self.has_work() => Some(Duration::ZERO),
            other if self.accept_failed_at.is_none() => other,
            other => Some(other.unwrap_or(ACCEPT_PAUSE).min(ACCEPT_PAUSE)),
        };
        match self.poll.poll(&mut self.events, timeout) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        self.accept_failed_at.take_if(|failed_at| now() - *failed_at >= ACCEPT_PAUSE);
        self.take_announcements(handler);
        // Less the wake and a refused accept for each listener.
        let mut budget = EVENTS_MAX - 1 - self.listeners.len().min(EVENTS_MAX / 2);
        self.deliver_pending(&mut budget, handler);
        self.deliver_files(&mut budget, handler);
        if self.accept_failed_at.is_none() {
            for index in 0..self.listeners.len() {
                if self.listeners[index].as_ref().is_some_and(|listener| listener.ready) {
                    self.accept(index, &mut budget, handler);
                }
            }
        }
        // Those that are still readable come again in the next wait, after the others.
        let receives = self.ready.len().min(budget);
        budget -= receives;
        for _ in 0..receives {
            if let Some(id) = self.ready.pop_front() {
                self.receive(id, handler);
            }
        }
        self.deliver_pending(&mut budget, handler);
        Ok(())
    }
}

#[allow(clippy::disallowed_methods, reason = "only spaces out failing accepts")]
fn now() -> Instant {
    Instant::now()
}

/// Errors of accept that concern one connection only.
fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::real::{Probe, Real};

    impl Probe for Epoll {
        fn probe() -> Result<(), String> {
            Ok(())
        }
    }

    crate::conformance::suite!(Real<Epoll>);
}
