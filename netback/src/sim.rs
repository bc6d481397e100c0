//! The simulated backend: a network and a disk in memory, with faults and a clock of their own.
//!
//! All that happens on a [`SimNet`] follows from its seed, its [`Faults`] and the order of the
//! calls, so a failing run is repeated by its seed. Time is virtual: a wait that finds nothing to
//! do goes on to what is due next and does not sleep. Whoever drives several backends calls their
//! waits in turn on one thread.
//!
//! Only a wait without timeout, with nothing due on the whole network, sleeps; it takes another
//! thread to end it.

mod disk;
mod faults;
mod files;
mod net;
mod pipe;
#[cfg(test)]
mod tests;
mod world;

pub use disk::{DiskFaults, SimDisk};
pub use faults::Faults;
pub use net::{Entered, SimClient, SimNet};

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::time::Duration;

use crate::places::Places;
use crate::{
    Address, Backend, Close, CloseReason, ConnId, EVENTS_MAX, Event, FileOp, FileToken,
    ListenOptions, ListenerId, Sent, SocketOptions,
};
use files::Files;
use world::{Accept, Side};

/// Bytes that one read takes at most.
const RECEIVE_BUFFER_LEN: usize = 64 * 1024;

/// Connections accepted in one wait.
const ACCEPTS_MAX: usize = 256;

type Handler<'a> = dyn FnMut(Event<'_, SimSocket>) + 'a;

/// The backend; see the top of the file.
pub struct Sim {
    net: SimNet,
    /// Its number on the network.
    owner: usize,
    conns: Places<Conn>,
    /// Connections that may have something to read.
    ready: BTreeSet<ConnId>,
    /// Events that came up outside of a wait.
    pending: VecDeque<Pending>,
    buffer: Box<[u8]>,
    files: Files,
}

struct Conn {
    link: usize,
    paused: bool,
    /// Buffers not yet taken by the network, the first one from `sent` on.
    unsent: VecDeque<Vec<u8>>,
    sent: usize,
    /// Buffers that are with the network and whose event has not been delivered.
    untold: usize,
    /// To be closed once nothing is unsent.
    closing: bool,
    /// Stays open after the peer's end, as it is still to be sent something.
    owed: bool,
    /// The peer's end was seen while it was owed something.
    ended: bool,
}

enum Pending {
    Sent(ConnId, Vec<u8>),
    Closed(ConnId, CloseReason),
}

/// An accepted connection.
pub struct SimSocket {
    net: SimNet,
    /// Taken by the backend that adopts it.
    link: Option<usize>,
}

impl Drop for SimSocket {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            self.net.change().close(link, Side::Server);
        }
    }
}

/// Wakes a [`Sim`].
#[derive(Clone)]
pub struct SimWaker {
    net: SimNet,
    owner: usize,
}

impl crate::Waker for SimWaker {
    fn wake(&self) {
        self.net.change().owner(self.owner).woken = true;
    }
}

impl Sim {
    fn on(net: SimNet) -> Self {
        let owner = net.world().add_owner();
        let files = Files::new(net.disk().clone());
        Self {
            net,
            files,
            owner,
            conns: Places::default(),
            ready: BTreeSet::new(),
            pending: VecDeque::new(),
            buffer: vec![0; RECEIVE_BUFFER_LEN].into_boxed_slice(),
        }
    }

    /// The network that it is on.
    pub fn net(&self) -> &SimNet {
        &self.net
    }

    /// Lets time pass until there is something to do, here or for another backend.
    fn pass_time(&self, timeout: Option<Duration>) {
        let mut world = self.net.world();
        world.settle();
        if !self.pending.is_empty() || !self.ready.is_empty() || self.files.has_ready() {
            return;
        }
        let limit = timeout.map(|timeout| world.now() + timeout);
        while !world.has_work_for(self.owner) {
            if limit.is_none() && !world.has_due() {
                world = self.net.sleep(world);
                world.settle();
            } else if !world.pass(limit.unwrap_or(Duration::MAX)) || world.has_work() {
                return;
            }
        }
    }

    /// Takes in which connections have changed, and sends on.
    fn take_looks(&mut self) {
        let looks = std::mem::take(&mut self.net.world().owner(self.owner).looks);
        for id in looks {
            self.flush(id);
            self.list(id);
        }
    }

    fn list(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get(id)
            && !conn.paused
            && !conn.closing
            && self.net.world().is_readable(conn.link, Side::Server)
        {
            self.ready.insert(id);
        }
    }

    /// Sends what is unsent as far as the network takes it.
    fn flush(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        while let Some(buffer) = conn.unsent.front() {
            let written = self.net.world().write(conn.link, Side::Server, &buffer[conn.sent..]);
            match written {
                Ok(0) => return,
                Ok(len) => conn.sent += len,
                Err(error) => {
                    self.drop_conn(id, CloseReason::Error(error));
                    return;
                }
            }
            if conn.sent == buffer.len()
                && let Some(buffer) = conn.unsent.pop_front()
            {
                conn.sent = 0;
                conn.untold += 1;
                self.pending.push_back(Pending::Sent(id, buffer));
            }
        }
        if conn.closing {
            self.drop_conn(id, CloseReason::Local);
        }
    }

    /// Tries once more to send what is unsent, past the drawn faults but not past the room.
    fn flush_last(&mut self, id: ConnId) {
        let faults = self.net.world().faults;
        self.net.world().faults = Faults { full_queues: 0, short_writes: 0, ..faults };
        self.flush(id);
        self.net.world().faults = faults;
    }

    /// Draws whether a send that is over is told later.
    fn is_late(&self) -> bool {
        let mut world = self.net.world();
        let lateness = world.faults.late_completions;
        world.random.chance(lateness)
    }

    /// Answers a send whose buffer is the only one of its connection.
    fn take_back(&mut self, id: ConnId) -> Sent {
        let Some(last) = self.pending.pop_back() else { return Sent::Pending };
        match (last, self.conns.get_mut(id)) {
            (Pending::Sent(_, buffer), Some(conn)) if conn.untold == 1 => {
                conn.untold = 0;
                Sent::Complete(buffer)
            }
            (other, _) => {
                self.pending.push_back(other);
                Sent::Pending
            }
        }
    }

    /// Closes our end; the event follows, and the place is free after it.
    fn drop_conn(&mut self, id: ConnId, reason: CloseReason) {
        if let Some(conn) = self.conns.vacate(id) {
            self.net.world().close(conn.link, Side::Server);
            self.ready.remove(&id);
            self.pending.push_back(Pending::Closed(id, reason));
        }
    }

    /// The ready connections of this wait, in a drawn order; some may stay for a later one.
    fn draw_ready(&mut self) -> Vec<ConnId> {
        let mut world = self.net.world();
        let lateness = world.faults.late_readiness;
        if lateness == 0 {
            return std::mem::take(&mut self.ready).into_iter().collect();
        }
        let (kept, mut drawn): (Vec<_>, Vec<_>) =
            self.ready.iter().partition(|_| world.random.chance(lateness));
        world.random.shuffle(&mut drawn);
        self.ready = kept.into_iter().collect();
        drawn
    }

    /// Reads from one ready connection and hands the bytes on.
    fn receive(&mut self, id: ConnId, handler: &mut Handler<'_>) {
        let Some(conn) = self.conns.get(id).filter(|conn| !conn.paused && !conn.closing) else {
            return;
        };
        let result = self.net.world().read(conn.link, Side::Server, &mut self.buffer);
        match result {
            Ok(0) if self.conns.get(id).is_some_and(|conn| conn.owed) => {
                if let Some(conn) = self.conns.get_mut(id) {
                    conn.ended = true;
                }
            }
            Ok(0) => {
                // A peer that has closed its sending end only can still get a reply.
                self.flush_last(id);
                self.drop_conn(id, CloseReason::Peer);
            }
            Ok(len) => {
                self.list(id);
                handler(Event::Received { conn: id, bytes: &self.buffer[..len] });
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => self.drop_conn(id, CloseReason::Error(error)),
        }
    }

    fn accept(&mut self, listener: usize, handler: &mut Handler<'_>) {
        let id = ListenerId(listener as u32);
        for _ in 0..ACCEPTS_MAX {
            let accepted = self.net.world().accept(listener);
            match accepted {
                Accept::Link(link) => {
                    let socket = SimSocket { net: self.net.clone(), link: Some(link) };
                    handler(Event::Accepted { listener: id, socket });
                }
                Accept::Failed(error) => {
                    handler(Event::AcceptFailed { listener: id, error });
                    return;
                }
                Accept::Nothing => return,
            }
        }
    }

    fn deliver_files(&mut self, budget: &mut usize, handler: &mut Handler<'_>) {
        let now = {
            let mut world = self.net.world();
            let is_due = std::mem::take(&mut world.owner(self.owner).files_due);
            is_due.then(|| world.now())
        };
        if let Some(now) = now {
            self.files.settle(now);
        }
        while *budget > 0
            && let Some((token, result)) = self.files.next()
        {
            *budget -= 1;
            handler(Event::File { token, result });
        }
    }

    fn deliver_pending(&mut self, budget: &mut usize, handler: &mut Handler<'_>) {
        while *budget > 0
            && let Some(pending) = self.pending.pop_front()
        {
            *budget -= 1;
            match pending {
                Pending::Sent(conn, buffer) => {
                    if let Some(conn) = self.conns.get_mut(conn) {
                        conn.untold -= 1;
                    }
                    handler(Event::Sent { conn, buffer });
                }
                Pending::Closed(conn, reason) => {
                    self.conns.release(conn);
                    handler(Event::Closed { conn, reason });
                }
            }
        }
    }
}

impl Backend for Sim {
    type Socket = SimSocket;
    type Waker = SimWaker;

    /// Joins the network that the thread has entered, or a new one without faults.
    fn open() -> io::Result<Self> {
        Ok(Self::on(SimNet::current()))
    }

    fn name(&self) -> &'static str {
        "sim"
    }

    fn listen(&mut self, address: &Address, options: &ListenOptions) -> io::Result<ListenerId> {
        let index = self.net.change().listen(self.owner, address, options.backlog)?;
        Ok(ListenerId(index as u32))
    }

    fn listen_address(&self, listener: ListenerId) -> Option<Address> {
        self.net.world().listen_address(listener.0 as usize)
    }

    fn unlisten(&mut self, listener: ListenerId) {
        self.net.change().unlisten(self.owner, listener.0 as usize);
    }

    fn adopt(&mut self, mut socket: SimSocket, _options: &SocketOptions) -> io::Result<ConnId> {
        let Some(link) = socket.link.take() else { return Err(io::ErrorKind::NotConnected.into()) };
        let id = self.conns.next_id();
        let unsent = VecDeque::new();
        self.conns.occupy(
            id,
            Conn {
                link,
                paused: false,
                unsent,
                sent: 0,
                untold: 0,
                closing: false,
                owed: false,
                ended: false,
            },
        );
        self.net.change().adopt(link, self.owner, id);
        Ok(id)
    }

    fn peer_address(&self, conn: ConnId) -> Option<Address> {
        let conn = self.conns.get(conn)?;
        self.net.world().addresses(conn.link).map(|(client, _)| client)
    }

    fn local_address(&self, conn: ConnId) -> Option<Address> {
        let conn = self.conns.get(conn)?;
        self.net.world().addresses(conn.link).map(|(_, server)| server)
    }

    fn descriptor(&self, _conn: ConnId) -> i32 {
        -1
    }

    fn send(&mut self, id: ConnId, buffer: Vec<u8>) -> Sent {
        let Some(conn) = self.conns.get_mut(id).filter(|conn| !conn.closing) else {
            return Sent::Refused(buffer);
        };
        if buffer.is_empty() {
            return Sent::Complete(buffer);
        }
        conn.unsent.push_back(buffer);
        if conn.unsent.len() > 1 {
            return Sent::Pending;
        }
        let is_first = conn.untold == 0;
        self.flush(id);
        if is_first && !self.is_late() { self.take_back(id) } else { Sent::Pending }
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
                conn.ended = false;
                self.list(id);
            }
        }
    }

    fn close(&mut self, id: ConnId, how: Close) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        if how == Close::Now || conn.unsent.is_empty() {
            self.drop_conn(id, CloseReason::Local);
        } else {
            conn.closing = true;
        }
    }

    fn submit_file(&mut self, token: FileToken, op: FileOp) {
        let mut world = self.net.change();
        let at = self.files.submit(world.now(), token, op);
        world.schedule_files(self.owner, at);
    }

    fn waker(&self) -> SimWaker {
        SimWaker { net: self.net.clone(), owner: self.owner }
    }

    fn memory_bytes(&self) -> usize {
        let unsent = self.conns.iter().flat_map(|conn| &conn.unsent).map(Vec::capacity);
        self.buffer.len() + self.conns.bytes() + unsent.sum::<usize>()
    }

    fn wait(&mut self, timeout: Option<Duration>, handler: &mut Handler<'_>) -> io::Result<()> {
        self.pass_time(timeout);
        if std::mem::take(&mut self.net.world().owner(self.owner).woken) {
            handler(Event::Woken);
        }
        self.take_looks();
        let mut budget = EVENTS_MAX - 1;
        self.deliver_pending(&mut budget, handler);
        self.deliver_files(&mut budget, handler);
        let listeners = self.net.world().owner(self.owner).listeners.clone();
        for listener in listeners {
            if budget > ACCEPTS_MAX {
                budget -= ACCEPTS_MAX;
                self.accept(listener, handler);
            }
        }
        let drawn = self.draw_ready();
        let (now, later) = drawn.split_at(drawn.len().min(budget));
        self.ready.extend(later);
        budget -= now.len();
        for id in now {
            self.receive(*id, handler);
        }
        self.deliver_pending(&mut budget, handler);
        Ok(())
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        let mut world = self.net.change();
        for conn in self.conns.iter() {
            world.close(conn.link, Side::Server);
        }
        for listener in world.owner(self.owner).listeners.clone() {
            world.unlisten(self.owner, listener);
        }
    }
}
