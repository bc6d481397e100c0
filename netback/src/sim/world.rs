//! The state of a simulated network: connections, listeners, and what is due when.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::faults::{Faults, Random};
use super::pipe::{End, Pipe};
use crate::{Address, ConnId};

/// Ports that the network gives out begin here.
const PORTS_START: u16 = 32_768;

/// A write that was refused by a fault is tried again within this.
const RETRY_MAX: Duration = Duration::from_millis(1);

/// An accept that failed is tried again after this.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct World {
    pub(super) random: Random,
    pub(super) faults: Faults,
    /// Virtual time since the start.
    now: Duration,
    due: BinaryHeap<Reverse<(Duration, Due)>>,
    listeners: Vec<Listener>,
    links: Vec<Option<Link>>,
    free_links: Vec<usize>,
    owners: Vec<Owner>,
    port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Link(usize),
    Listener(usize),
    Files(usize),
}

/// What the world has to tell one backend.
#[derive(Default)]
pub(super) struct Owner {
    pub(super) woken: bool,
    /// Some file operation may be over.
    pub(super) files_due: bool,
    /// Connections on which something may have changed.
    pub(super) looks: BTreeSet<ConnId>,
    /// Its listeners.
    pub(super) listeners: Vec<usize>,
}

struct Listener {
    owner: usize,
    address: Address,
    backlog: VecDeque<usize>,
    backlog_max: usize,
    open: bool,
    /// Accepting failed and may be tried again at this time.
    retry_at: Option<Duration>,
}

/// A connection with its two ends.
struct Link {
    to_server: Pipe,
    to_client: Pipe,
    client: Address,
    server: Address,
    client_open: bool,
    server_open: bool,
    owner: Option<(usize, ConnId)>,
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// Answer of [`World::accept`].
pub(super) enum Accept {
    Link(usize),
    Failed(io::Error),
    Nothing,
}

impl Link {
    fn incoming(&mut self, side: Side) -> &mut Pipe {
        match side {
            Side::Client => &mut self.to_client,
            Side::Server => &mut self.to_server,
        }
    }

    fn outgoing(&mut self, side: Side) -> &mut Pipe {
        match side {
            Side::Client => &mut self.to_server,
            Side::Server => &mut self.to_client,
        }
    }
}

impl World {
    pub(super) fn new(seed: u64, faults: Faults) -> Self {
        Self {
            random: Random::new(seed),
            faults,
            now: Duration::ZERO,
            due: BinaryHeap::new(),
            listeners: Vec::new(),
            links: Vec::new(),
            free_links: Vec::new(),
            owners: Vec::new(),
            port: PORTS_START,
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.now
    }

    pub(super) fn add_owner(&mut self) -> usize {
        self.owners.push(Owner::default());
        self.owners.len() - 1
    }

    pub(super) fn owner(&mut self, owner: usize) -> &mut Owner {
        &mut self.owners[owner]
    }

    // Time.

    /// Goes on to what is due next, but not past `limit`. False: nothing was due by then, and
    /// the time is `limit`.
    pub(super) fn pass(&mut self, limit: Duration) -> bool {
        match self.due.peek() {
            Some(Reverse((at, _))) if *at <= limit => {
                self.now = self.now.max(*at);
                self.settle();
                true
            }
            _ => {
                self.now = self.now.max(limit);
                false
            }
        }
    }

    /// Whether anything is due at some time.
    pub(super) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Does what is due by now.
    pub(super) fn settle(&mut self) {
        while let Some(Reverse((at, due))) = self.due.peek().copied()
            && at <= self.now
        {
            self.due.pop();
            match due {
                Due::Link(link) => self.settle_link(link),
                Due::Listener(listener) => self.listeners[listener].retry_at = None,
                Due::Files(owner) => self.owners[owner].files_due = true,
            }
        }
    }

    /// Has a backend look at its file operations at a time.
    pub(super) fn schedule_files(&mut self, owner: usize, at: Duration) {
        self.due.push(Reverse((at, Due::Files(owner))));
    }

    fn settle_link(&mut self, link: usize) {
        let now = self.now;
        if let Some(link) = &mut self.links[link] {
            link.to_server.settle(now);
            link.to_client.settle(now);
            if let Some((owner, conn)) = link.owner {
                self.owners[owner].looks.insert(conn);
            }
        }
    }

    /// Whether some backend has something to look at.
    pub(super) fn has_work(&self) -> bool {
        (0..self.owners.len()).any(|owner| self.has_work_for(owner))
    }

    /// Whether a backend has something to look at.
    pub(super) fn has_work_for(&self, owner: usize) -> bool {
        let owner = &self.owners[owner];
        owner.woken
            || owner.files_due
            || !owner.looks.is_empty()
            || owner.listeners.iter().any(|listener| {
                let listener = &self.listeners[*listener];
                listener.retry_at.is_none() && !listener.backlog.is_empty()
            })
    }

    // Listeners.

    pub(super) fn listen(
        &mut self,
        owner: usize,
        address: &Address,
        backlog: u32,
    ) -> io::Result<usize> {
        let mut address = address.clone();
        match &mut address {
            Address::Tcp(address) if address.port() == 0 => address.set_port(self.next_port()),
            Address::Tcp(address) => {
                if self.find_listener(&Address::Tcp(*address)).is_some() {
                    return Err(io::ErrorKind::AddrInUse.into());
                }
            }
            Address::Unix(_) => {}
        }
        self.listeners.push(Listener {
            owner,
            address,
            backlog: VecDeque::new(),
            backlog_max: backlog as usize,
            open: true,
            retry_at: None,
        });
        let index = self.listeners.len() - 1;
        self.owners[owner].listeners.push(index);
        Ok(index)
    }

    pub(super) fn listen_address(&self, listener: usize) -> Option<Address> {
        self.listeners.get(listener).filter(|state| state.open).map(|state| state.address.clone())
    }

    pub(super) fn unlisten(&mut self, owner: usize, listener: usize) {
        let Some(state) = self.listeners.get_mut(listener) else { return };
        if state.owner != owner {
            return;
        }
        state.open = false;
        for link in std::mem::take(&mut state.backlog) {
            self.reset(link, Side::Server);
        }
        self.owners[owner].listeners.retain(|other| *other != listener);
    }

    fn find_listener(&self, address: &Address) -> Option<usize> {
        let listens_at = |listener: &Listener| match (&listener.address, address) {
            (Address::Tcp(own), Address::Tcp(other)) => {
                own.port() == other.port()
                    && own.is_ipv4() == other.is_ipv4()
                    && (own.ip() == other.ip() || own.ip().is_unspecified())
            }
            (own, other) => own == other,
        };
        self.listeners.iter().rposition(|listener| listener.open && listens_at(listener))
    }

    fn next_port(&mut self) -> u16 {
        self.port = self.port.checked_add(1).unwrap_or(PORTS_START);
        self.port
    }

    // Connections.

    pub(super) fn connect(&mut self, address: &Address) -> io::Result<usize> {
        let listener = self.find_listener(address).ok_or(io::ErrorKind::ConnectionRefused)?;
        let state = &self.listeners[listener];
        if state.backlog.len() > state.backlog_max {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let client = match address {
            Address::Tcp(SocketAddr::V4(_)) => IpAddr::from([127, 0, 0, 1]),
            Address::Tcp(SocketAddr::V6(_)) => IpAddr::from(std::net::Ipv6Addr::LOCALHOST),
            Address::Unix(_) => return Ok(self.add_link(listener, address.clone(), address)),
        };
        let port = self.next_port();
        Ok(self.add_link(listener, Address::Tcp(SocketAddr::new(client, port)), address))
    }

    fn add_link(&mut self, listener: usize, client: Address, server: &Address) -> usize {
        let link = Link {
            to_server: Pipe::default(),
            to_client: Pipe::default(),
            client,
            server: server.clone(),
            client_open: true,
            server_open: true,
            owner: None,
        };
        let index = match self.free_links.pop() {
            Some(index) => {
                self.links[index] = Some(link);
                index
            }
            None => {
                self.links.push(Some(link));
                self.links.len() - 1
            }
        };
        self.listeners[listener].backlog.push_back(index);
        index
    }

    pub(super) fn accept(&mut self, listener: usize) -> Accept {
        let state = &mut self.listeners[listener];
        if state.retry_at.is_some() || state.backlog.is_empty() {
            return Accept::Nothing;
        }
        if self.random.chance(self.faults.accept_failures) {
            let retry_at = self.now + ACCEPT_PAUSE;
            state.retry_at = Some(retry_at);
            self.due.push(Reverse((retry_at, Due::Listener(listener))));
            return Accept::Failed(io::Error::from_raw_os_error(libc::EMFILE));
        }
        state.backlog.pop_front().map_or(Accept::Nothing, Accept::Link)
    }

    /// Gives the server's end to a backend.
    pub(super) fn adopt(&mut self, link: usize, owner: usize, conn: ConnId) {
        if let Some(link) = &mut self.links[link] {
            link.owner = Some((owner, conn));
            self.owners[owner].looks.insert(conn);
        }
    }

    /// The client's and the server's address.
    pub(super) fn addresses(&self, link: usize) -> Option<(Address, Address)> {
        self.links[link].as_ref().map(|link| (link.client.clone(), link.server.clone()))
    }

    /// Writes as much as there is room for; returns how much.
    ///
    /// # Errors
    /// `ConnectionReset` where the connection was reset, `BrokenPipe` where the peer is gone.
    pub(super) fn write(&mut self, index: usize, side: Side, bytes: &[u8]) -> io::Result<usize> {
        if self.fault_resets(index, side) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let at = self.now + self.random.delay(self.faults.delay_max);
        let Some(link) = &mut self.links[index] else { return Err(io::ErrorKind::NotFound.into()) };
        if link.incoming(side).end() == Some(End::Reset) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let reader_open = if side == Side::Client { link.server_open } else { link.client_open };
        if !reader_open {
            // The bytes leave and find nobody; the answer is a reset.
            let at = link.incoming(side).put_end(at, End::Reset);
            self.due.push(Reverse((at, Due::Link(index))));
            return Ok(bytes.len());
        }
        let mut len = link.outgoing(side).room(self.faults.queue_bytes, bytes.len());
        if len > 0 {
            let wanted = len;
            if self.random.chance(self.faults.full_queues) {
                len = 0;
            } else if self.random.chance(self.faults.short_writes) {
                len = self.random.between(1, len as u64) as usize;
            }
            if len < wanted {
                let retry_at = self.now + self.random.delay(RETRY_MAX);
                self.due.push(Reverse((retry_at, Due::Link(index))));
            }
        }
        if len > 0 {
            let at = link.outgoing(side).put(at, &bytes[..len]);
            self.due.push(Reverse((at, Due::Link(index))));
        }
        Ok(len)
    }

    /// Reads what has arrived into `buffer`; returns how much, 0 at the end.
    ///
    /// # Errors
    /// `WouldBlock` where nothing has arrived, `ConnectionReset` where the connection was reset.
    pub(super) fn read(
        &mut self,
        index: usize,
        side: Side,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        if self.fault_resets(index, side) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let Some(link) = &mut self.links[index] else { return Err(io::ErrorKind::NotFound.into()) };
        let pipe = link.incoming(side);
        match pipe.end() {
            Some(End::Closed) => return Ok(0),
            Some(End::Reset) => return Err(io::ErrorKind::ConnectionReset.into()),
            None => {}
        }
        let mut len = pipe.arrived().min(buffer.len());
        if len == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if self.random.chance(self.faults.short_reads) {
            len = self.random.between(1, len as u64) as usize;
        }
        if pipe.take(&mut buffer[..len]) {
            self.due.push(Reverse((self.now, Due::Link(index))));
        }
        Ok(len)
    }

    /// Whether a read would tell anything.
    pub(super) fn is_readable(&mut self, index: usize, side: Side) -> bool {
        self.links[index].as_mut().is_some_and(|link| link.incoming(side).is_readable())
    }

    /// Only the server's end meets drawn resets, so that a test knows them by its own end.
    fn fault_resets(&mut self, index: usize, side: Side) -> bool {
        let resets = side == Side::Server && self.random.chance(self.faults.resets);
        if resets && let Some(link) = &mut self.links[index] {
            link.to_server.cut(End::Reset);
            link.to_client.cut(End::Reset);
        }
        resets
    }

    /// Ends the direction away from `side`; the other one goes on.
    pub(super) fn shut_down(&mut self, index: usize, side: Side) {
        self.put_end(index, side, End::Closed);
    }

    /// Closes an end. Unread bytes make it a reset, as in TCP.
    pub(super) fn close(&mut self, index: usize, side: Side) {
        let Some(link) = &mut self.links[index] else { return };
        let end = if link.incoming(side).has_unread() { End::Reset } else { End::Closed };
        self.put_end(index, side, end);
        self.leave(index, side);
    }

    /// Breaks a connection off and closes the end.
    pub(super) fn reset(&mut self, index: usize, side: Side) {
        self.put_end(index, side, End::Reset);
        self.leave(index, side);
    }

    fn put_end(&mut self, index: usize, side: Side, end: End) {
        let at = self.now + self.random.delay(self.faults.delay_max);
        if let Some(link) = &mut self.links[index] {
            let at = link.outgoing(side).put_end(at, end);
            self.due.push(Reverse((at, Due::Link(index))));
        }
    }

    fn leave(&mut self, index: usize, side: Side) {
        let Some(link) = &mut self.links[index] else { return };
        match side {
            Side::Client => link.client_open = false,
            Side::Server => {
                link.server_open = false;
                link.owner = None;
            }
        }
        if !link.client_open && !link.server_open {
            self.links[index] = None;
            self.free_links.push(index);
        }
    }
}
