//! The fabric: how the shards of a process talk.
//!
//! Between each pair of shards that talk there is one queue in each direction. A shard collects
//! what it has for a peer during its tick and hands it over as one batch with one wake. Requests
//! are bounded: a shard may have [`REQUESTS_MAX`] of them under way to one peer, and a client
//! whose request finds no place waits. Answers and sockets are never refused: an answer's place
//! is the request's. What a shard only tells its peers (messages of channels, changed keys) is never
//! refused either, but while a peer has not taken [`TOLD_BYTES_MAX`] of it, the shard runs no further
//! request, of its own clients or of other shards. The peer needs nothing from them to go on, so it
//! will take what it was told.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use netback::{ConnId, ListenerId, Waker};

use crate::blocking::Blocked;
use crate::conn::Origin;
use crate::keyspace::Share;
use crate::pubsub::Published;
use crate::survey::Report;
use crate::tracking::{Author, Changes, Invalidation};

/// Requests that one shard may have under way to one other.
pub const REQUESTS_MAX: usize = 16 * 1024;

/// Bytes that a shard tells a peer before it waits until the peer has taken them.
pub const TOLD_BYTES_MAX: usize = 4 << 20;

/// A command for the shard that owns its key.
#[derive(Debug)]
pub struct Request {
    /// The client, in the asking shard.
    pub conn: ConnId,
    /// The arguments in RESP form.
    pub bytes: Vec<u8>,
    /// Who sent it.
    pub origin: Arc<Origin>,
    /// The client's database.
    pub db: usize,
    /// Whether the client speaks RESP3.
    pub resp3: bool,
    /// CLIENT NO-TOUCH.
    pub no_touch: bool,
    /// The client's number, if it is to hear of changes of the keys that it reads.
    pub tracks: Option<u64>,
}

/// What one shard tells another.
pub enum PeerMessage {
    /// A command to run.
    Request(Request),
    /// The reply of a [`PeerMessage::Request`], in wire form, in the order of the requests.
    Answer(ConnId, Vec<u8>),
    /// The share of a shard: to its borrower, or back.
    Share(usize, Box<Share>),
    /// Instead of an answer: the request's client is blocked.
    Parked(ConnId, Blocked),
    /// The answer to a blocked client.
    Served(ConnId, Vec<u8>),
    /// The request of a blocked client is to run again.
    Again(ConnId),
    /// What a client of the receiver is to hear of changed keys.
    Invalidate(Invalidation),
    /// All clients of the receiver that track are to hear that all keys have changed.
    InvalidateAll(Author),
    /// Keys that changed under a prefix which clients of the receiver named.
    Changes(Arc<Changes>),
    /// A message for the receiver's subscribers.
    Publish(Arc<Published>),
    /// A request for the receiver's part of an answer, in RESP form.
    Survey {
        /// The client, in the asking shard.
        conn: ConnId,
        /// Which of several requests of the client it is.
        part: usize,
        /// The request.
        bytes: Vec<u8>,
    },
    /// The answer to a [`PeerMessage::Survey`].
    Report {
        /// The client, in the asking shard.
        conn: ConnId,
        /// Which of several requests of the client it is.
        part: usize,
        /// The answer.
        report: Report,
    },
}

/// What goes through a queue.
pub enum Message<S> {
    /// A new connection to be served there.
    Socket(ListenerId, S),
    /// Anything else.
    Peer(PeerMessage),
}

impl<S> Message<S> {
    /// Bytes that count towards [`TOLD_BYTES_MAX`].
    fn told_bytes(&self) -> usize {
        match self {
            Self::Peer(PeerMessage::Publish(published)) => published.bytes(),
            Self::Peer(PeerMessage::Changes(changes)) => changes.bytes(),
            Self::Peer(PeerMessage::Invalidate(invalidation)) => invalidation.bytes(),
            _ => 0,
        }
    }
}

/// One direction between two shards.
struct Queue<S> {
    messages: Mutex<Vec<Message<S>>>,
    told_bytes: AtomicUsize,
}

impl<S> Default for Queue<S> {
    fn default() -> Self {
        Self { messages: Mutex::default(), told_bytes: AtomicUsize::new(0) }
    }
}

/// All queues of a process; shared by its shards.
pub struct Fabric<S, W> {
    /// `queues[to][from]`.
    queues: Vec<Vec<Queue<S>>>,
    wakers: Mutex<Vec<Option<W>>>,
}

impl<S: Send, W: Waker> Fabric<S, W> {
    /// Queues for `shards` shards.
    pub fn new(shards: usize) -> Arc<Self> {
        let row = || (0..shards).map(|_| Queue::default()).collect();
        Arc::new(Self {
            queues: (0..shards).map(|_| row()).collect(),
            wakers: Mutex::new((0..shards).map(|_| None).collect()),
        })
    }

    /// Tells how to wake a shard. Until then its messages wait.
    pub fn join(&self, shard: usize, waker: W) {
        self.wakers.lock().expect("no panic under the lock")[shard] = Some(waker);
    }

    /// Hands a tick's messages over and wakes the peer once. `batch` comes back empty.
    pub fn send(&self, from: usize, to: usize, batch: &mut Vec<Message<S>>) {
        if batch.is_empty() {
            return;
        }
        let queue = &self.queues[to][from];
        let told = batch.iter().map(Message::told_bytes).sum();
        if told > 0 {
            queue.told_bytes.fetch_add(told, Ordering::Relaxed);
        }
        queue.messages.lock().expect("no panic under the lock").append(batch);
        self.wake(to);
    }

    /// Whether a peer has not taken what a shard has told it, so that the shard should wait.
    pub fn is_behind(&self, from: usize) -> bool {
        self.queues.iter().any(|row| row[from].told_bytes.load(Ordering::Relaxed) > TOLD_BYTES_MAX)
    }

    /// Wakes a peer that finds what it has to do elsewhere.
    pub fn wake(&self, to: usize) {
        if let Some(waker) = &self.wakers.lock().expect("no panic under the lock")[to] {
            waker.wake();
        }
    }

    /// Takes all messages from a peer, in the order in which they were sent.
    pub fn receive(&self, from: usize, to: usize, into: &mut Vec<Message<S>>) {
        let queue = &self.queues[to][from];
        into.append(&mut queue.messages.lock().expect("no panic under the lock"));
        if queue.told_bytes.swap(0, Ordering::Relaxed) > TOLD_BYTES_MAX {
            // It waits for this.
            self.wake(from);
        }
    }
}
