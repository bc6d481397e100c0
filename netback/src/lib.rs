//! Network backends behind one completion-shaped trait.
//!
//! The shard loop speaks to the network only through [`Backend`]. The trait has the shape of the
//! stricter side: io_uring completes operations while epoll only announces readiness, so every
//! call here submits and every result arrives as an [`Event`].
//!
//! # What a backend promises
//!
//! - **Receive.** The backend owns the receive buffers and lends the bytes for the length of one
//!   handler call. It delivers the bytes of one connection in order. It receives on its own from
//!   the moment a socket is adopted until the connection closes or [`Backend::pause`] stops it.
//! - **Send.** A buffer that is being sent belongs to the backend until it comes back, at once as
//!   [`Sent::Complete`] or later in [`Event::Sent`]. Short writes are the backend's to finish.
//!   Buffers of one connection leave in the order of their calls.
//! - **Errors.** An error on a connection ends it: one [`Event::Closed`] with the reason, and no
//!   event of that connection after it. Buffers not yet sent are dropped.
//! - **Close.** [`Backend::close`] is answered by one [`Event::Closed`] too, after the queued
//!   buffers have left ([`Close::AfterSends`]) or at once ([`Close::Now`]). A [`ConnId`] carries a
//!   generation, so a late call with an old one does nothing.
//! - **Files.** File operations end as events of the same enum; [`file`] says in which order.
//! - **Bounds.** One [`Backend::wait`] delivers at most [`EVENTS_MAX`] events.

#[cfg(test)]
mod conformance;
mod disk;
pub mod epoll;
pub mod file;
mod places;
pub mod sim;
mod socket;
mod start;
#[cfg(feature = "io-uring")]
pub mod uring;

/// The backend that this build prefers: io_uring where it is compiled in. epoll always is, since
/// a kernel may refuse io_uring.
#[cfg(feature = "io-uring")]
type Preferred = uring::Uring;
#[cfg(not(feature = "io-uring"))]
type Preferred = epoll::Epoll;

/// Whether [`Preferred`] is io_uring.
const PREFERS_IO_URING: bool = cfg!(feature = "io-uring");

#[cfg(feature = "io-uring")]
use uring::probe as probe_io_uring;

/// Says why io_uring cannot run.
#[cfg(not(feature = "io-uring"))]
fn probe_io_uring() -> Result<(), String> {
    Err("io_uring is not compiled in; build with --features io-uring".to_owned())
}

pub use file::{FileId, FileOp, FileOutput, FileResult, FileToken, OpenMode};
pub use start::{Choice, Kind, Preference, Run, choose, start};

use std::io;
use std::time::Duration;

/// The most events that one [`Backend::wait`] delivers; the rest waits for the next call.
pub const EVENTS_MAX: usize = 1024;

/// Name of a connection within its backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId {
    /// Place in the backend's table; small and reused, so callers may index a table of their own.
    pub index: u32,
    /// Counts the uses of that place.
    pub generation: u32,
}

/// Name of a listening socket within its backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId(pub u32);

/// An address of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// TCP over IPv4 or IPv6.
    Tcp(std::net::SocketAddr),
    /// A Unix socket by path; clients' own ends have the path of the listener.
    Unix(std::path::PathBuf),
}

/// How to open a listening socket.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// Length of the kernel's queue of connections not yet accepted.
    pub backlog: u32,
    /// Mode bits of a Unix socket's file; 0 keeps what the umask gives.
    pub unix_mode: u32,
}

/// Options of an accepted TCP connection.
#[derive(Clone, Copy, Debug)]
pub struct SocketOptions {
    /// Seconds of silence before keepalive probes; 0 sends none.
    pub keepalive_s: u32,
    /// Sends small segments at once (TCP_NODELAY).
    pub nodelay: bool,
}

/// Why a connection ended.
#[derive(Debug)]
pub enum CloseReason {
    /// The peer closed its end.
    Peer,
    /// [`Backend::close`] was called.
    Local,
    /// The socket failed.
    Error(io::Error),
}

/// What [`Backend::close`] does with buffers that have not left yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// Send them first.
    AfterSends,
    /// Drop them.
    Now,
}

/// Answer of [`Backend::send`].
#[derive(Debug)]
pub enum Sent {
    /// All bytes are with the kernel; here is the buffer.
    Complete(Vec<u8>),
    /// The backend keeps the buffer and returns it in [`Event::Sent`].
    Pending,
    /// The connection is closing or gone; here is the buffer, unsent.
    Refused(Vec<u8>),
}

/// What happened, told to the handler of [`Backend::wait`].
#[derive(Debug)]
pub enum Event<'a, S> {
    /// A client connected. The socket does nothing until some backend of the same type adopts it.
    Accepted {
        /// The listening socket it came by.
        listener: ListenerId,
        /// The connection, to be adopted here or on another shard.
        socket: S,
    },
    /// Accepting failed (out of descriptors, say); the backend tries again on its own.
    AcceptFailed {
        /// The listening socket.
        listener: ListenerId,
        /// The kernel's answer.
        error: io::Error,
    },
    /// Bytes arrived.
    Received {
        /// The connection.
        conn: ConnId,
        /// The bytes, at least one, lent for this call.
        bytes: &'a [u8],
    },
    /// All bytes of a buffer are with the kernel.
    Sent {
        /// The connection.
        conn: ConnId,
        /// The buffer, back to its owner.
        buffer: Vec<u8>,
    },
    /// The connection is gone; its [`ConnId`] names nothing any more.
    Closed {
        /// The connection.
        conn: ConnId,
        /// Why.
        reason: CloseReason,
    },
    /// A file operation is over; see [`Backend::submit_file`].
    File {
        /// The operation's name.
        token: FileToken,
        /// What it came to.
        result: FileResult,
    },
    /// A [`Waker`] was used, once or several times, since the last such event.
    Woken,
}

/// Wakes a backend from any thread.
pub trait Waker: Clone + Send + Sync + 'static {
    /// Makes the current or next [`Backend::wait`] return with [`Event::Woken`].
    fn wake(&self);
}

/// One shard's way to the network.
pub trait Backend: Sized {
    /// An accepted connection that no backend has adopted.
    type Socket: Send + 'static;
    /// Wakes this backend from other threads.
    type Waker: Waker;

    /// Opens a backend for the calling thread.
    ///
    /// # Errors
    /// The kernel's error.
    fn open() -> io::Result<Self>;

    /// The backend's name as INFO shows it: `epoll`, `io_uring` or `sim`.
    fn name(&self) -> &'static str;

    /// Starts to listen.
    ///
    /// # Errors
    /// The kernel's error of socket, bind or listen.
    fn listen(&mut self, address: &Address, options: &ListenOptions) -> io::Result<ListenerId>;

    /// The address a listener got (a port of 0 is chosen by the kernel).
    fn listen_address(&self, listener: ListenerId) -> Option<Address>;

    /// Stops listening; connections already accepted stay.
    fn unlisten(&mut self, listener: ListenerId);

    /// Takes a socket into this backend and starts to receive on it.
    ///
    /// # Errors
    /// The kernel's error; the socket is closed then.
    fn adopt(&mut self, socket: Self::Socket, options: &SocketOptions) -> io::Result<ConnId>;

    /// The peer's address.
    fn peer_address(&self, conn: ConnId) -> Option<Address>;

    /// Our end's address.
    fn local_address(&self, conn: ConnId) -> Option<Address>;

    /// The descriptor's number, for CLIENT LIST; -1 where there is none.
    fn descriptor(&self, conn: ConnId) -> i32;

    /// Sends a whole buffer. An empty buffer is complete at once.
    fn send(&mut self, conn: ConnId, buffer: Vec<u8>) -> Sent;

    /// Stops (`true`) or resumes (`false`) receiving. Bytes already taken from the kernel may
    /// still be delivered once.
    fn pause(&mut self, conn: ConnId, paused: bool);

    /// Keeps a connection open (`true`) although its peer has closed its sending end, because it is
    /// still to be sent something, or no longer (`false`). A peer's end is told in a later wait
    /// than its last bytes, so that there is time to call this.
    fn hold(&mut self, conn: ConnId, held: bool);

    /// Ends a connection; see [`Close`].
    fn close(&mut self, conn: ConnId, how: Close);

    /// Starts a file operation; [`Event::File`] tells its result. See [`file`].
    fn submit_file(&mut self, token: FileToken, op: FileOp);

    /// A handle that wakes this backend.
    fn waker(&self) -> Self::Waker;

    /// Bytes of memory that the backend holds for connections and buffers.
    fn memory_bytes(&self) -> usize;

    /// Submits what is pending, waits until something happens or `timeout` has passed (`None`
    /// waits for ever), and hands each event to `handler`.
    ///
    /// # Errors
    /// Only what makes the backend itself unusable; errors of connections are events.
    fn wait(
        &mut self,
        timeout: Option<Duration>,
        handler: &mut dyn FnMut(Event<'_, Self::Socket>),
    ) -> io::Result<()>;
}
