//! The load generator: one thread, many connections, each with one batch under way.
//!
//! A connection sends a batch of `pipeline` requests in one write, waits for as many replies, and
//! sends the next batch. Every reply is parsed to its end, so a lost, doubled or broken reply is
//! noticed, and error replies are counted apart. A reply's latency is the time from the batch's
//! write to the read that brought the reply, with one look at the clock for each read.
//!
//! ```text
//! wait for readiness -> read a chunk -> measure its replies -> batch complete?
//!        ^                                                          |
//!        +------------- fill the holes, write the next batch <------+
//! ```
//!
//! A [`Bystander`] is one more connection that sends a single request at even intervals, to see
//! what everybody else suffers while the load runs.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::template::{Batch, Keys};
use crate::wire::{self, Measured};
use crate::{Error, Result, clock};

/// Bytes that one read takes at most.
const CHUNK_LEN: usize = 256 * 1024;

/// Silence of all connections after which the server counts as dead.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Longest latency that a histogram holds, in nanoseconds; longer ones count as this.
const LATENCY_MAX_NS: u64 = 600_000_000_000;

/// When a load ends. Batches under way are finished.
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    /// After this many requests, rounded up to whole batches.
    Requests(u64),
    /// After this time.
    After(Duration),
}

/// What to send.
#[derive(Clone, Debug)]
pub struct Load {
    /// The requests that a connection sends at once.
    pub batch: Batch,
    /// What fills their holes.
    pub keys: Keys,
    /// Number of connections, at least one.
    pub clients: usize,
    /// When to end.
    pub stop: Stop,
    /// Someone else who wants an answer meanwhile.
    pub bystander: Option<Bystander>,
}

/// One more connection, with a request at even intervals.
#[derive(Clone, Debug)]
pub struct Bystander {
    /// The request.
    pub batch: Batch,
    /// Time between requests; one that is late is sent at once.
    pub interval: Duration,
}

/// Where a share of the connections goes, and with which numbers.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    /// The server, or the part of it that answers for these numbers.
    pub address: SocketAddr,
    /// What fills the holes there.
    pub keys: Keys,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Replies received, errors among them.
    pub replies: u64,
    /// Error replies.
    pub errors: u64,
    /// The text of the first error.
    pub first_error: Option<String>,
    /// From the first write to the last reply.
    pub elapsed: Duration,
    /// Nanoseconds from a batch's write to each reply.
    pub latency: Histogram<u64>,
    /// The same for the bystander, counted from when its request was due: who is kept waiting by
    /// the request before also waits.
    pub bystander: Histogram<u64>,
}

impl Outcome {
    /// Replies a second.
    pub fn rate(&self) -> f64 {
        self.replies as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// A histogram of nanoseconds with three digits.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("bounds that are in order")
}

/// Runs a load against a server.
///
/// # Errors
/// A connection cannot be made or ends, a reply is not RESP, more replies come than were asked
/// for, or the server is silent for a minute.
pub fn run(label: &str, address: SocketAddr, load: &Load) -> Result<Outcome> {
    let lane = Lane { address, keys: load.keys.clone() };
    Generator::connect(label, std::slice::from_ref(&lane), load)?.run()
}

/// One connection and the batch that is under way on it.
struct Conn {
    stream: TcpStream,
    batch: Batch,
    /// Index of the keys that fill the batch.
    lane: usize,
    /// Bytes of the batch that the kernel has taken.
    written: usize,
    /// Replies not yet seen.
    waiting: usize,
    sent_at: Instant,
    /// The front of a reply whose rest has not come.
    tail: Vec<u8>,
}

/// Connections that are open and have not sent anything yet, or are at work.
pub(crate) struct Generator<'a> {
    label: &'a str,
    poll: Poll,
    conns: Vec<Conn>,
    /// Conns from this index on are the bystander's: one or none.
    load_count: usize,
    bystander_interval: Duration,
    /// When the bystander's request is or was due.
    bystander_due: Instant,
    /// By lane.
    keys: Vec<Keys>,
    stop: Stop,
    started: Instant,
    issued: u64,
    /// Conns of the load that wait for replies.
    busy: usize,
    chunk: Vec<u8>,
    outcome: Outcome,
}

impl<'a> Generator<'a> {
    /// Opens the connections, dealt to the lanes in turns. The lanes' keys fill the holes, not the
    /// load's.
    pub(crate) fn connect(label: &'a str, lanes: &[Lane], load: &Load) -> Result<Self> {
        let poll = Poll::new().map_err(Error::io("open a poll"))?;
        let bystander = load.bystander.iter().map(|bystander| &bystander.batch);
        let batches = std::iter::repeat_n(&load.batch, load.clients.max(1)).chain(bystander);
        let now = clock::now();
        let mut conns = Vec::new();
        for (index, batch) in batches.enumerate() {
            let lane = index % lanes.len();
            let address = lanes[lane].address;
            let stream = connect(address, &poll, Token(index))
                .map_err(Error::io(format!("{label}: connect to {address}")))?;
            let batch = batch.clone();
            let tail = Vec::new();
            conns.push(Conn { stream, batch, lane, written: 0, waiting: 0, sent_at: now, tail });
        }
        let outcome = Outcome {
            replies: 0,
            errors: 0,
            first_error: None,
            elapsed: Duration::ZERO,
            latency: histogram(),
            bystander: histogram(),
        };
        Ok(Self {
            label,
            poll,
            conns,
            load_count: load.clients.max(1),
            bystander_interval: load.bystander.as_ref().map_or(SILENCE_MAX, |who| who.interval),
            bystander_due: now,
            keys: lanes.iter().map(|lane| lane.keys.clone()).collect(),
            stop: load.stop,
            started: now,
            issued: 0,
            busy: 0,
            chunk: vec![0; CHUNK_LEN],
            outcome,
        })
    }

    /// Sends and receives until the load ends.
    pub(crate) fn run(mut self) -> Result<Outcome> {
        let mut events = Events::with_capacity(1024);
        self.started = clock::now();
        self.bystander_due = self.started;
        for index in 0..self.load_count {
            self.send_next(index, self.started)?;
        }
        let mut last_heard = self.started;
        while self.busy > 0 {
            let now = clock::now();
            self.send_bystander(now)?;
            let timeout = self.timeout(now);
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result.map_err(Error::io("poll"))?,
            }
            if events.is_empty() && clock::now() - last_heard > SILENCE_MAX {
                return Err(Error::server(self.label, "is silent"));
            }
            for event in &events {
                let Token(index) = event.token();
                if event.is_writable() {
                    self.write(index)?;
                }
                if event.is_readable() {
                    last_heard = self.receive(index)?;
                }
            }
        }
        self.outcome.elapsed = last_heard - self.started;
        Ok(self.outcome)
    }

    /// Until the bystander's next request. epoll counts in milliseconds, rounded up, so shorter
    /// times are spent polling.
    fn timeout(&self, now: Instant) -> Duration {
        let idle = self.conns.get(self.load_count).is_some_and(|conn| conn.waiting == 0);
        let due = self.bystander_due.saturating_duration_since(now);
        if idle { due.saturating_sub(Duration::from_millis(2)) } else { SILENCE_MAX }
    }

    fn send_bystander(&mut self, now: Instant) -> Result<()> {
        let index = self.load_count;
        let Some(conn) = self.conns.get_mut(index) else { return Ok(()) };
        if conn.waiting > 0 || now < self.bystander_due {
            return Ok(());
        }
        conn.waiting = conn.batch.requests;
        conn.written = 0;
        conn.sent_at = self.bystander_due;
        self.bystander_due += self.bystander_interval;
        self.write(index)
    }

    /// Sends another batch, unless the load is over.
    fn send_next(&mut self, index: usize, now: Instant) -> Result<()> {
        let over = match self.stop {
            Stop::Requests(limit) => self.issued >= limit,
            Stop::After(limit) => now - self.started >= limit,
        };
        if over {
            return Ok(());
        }
        let conn = &mut self.conns[index];
        conn.batch.fill(&mut self.keys[conn.lane]);
        conn.written = 0;
        conn.waiting = conn.batch.requests;
        conn.sent_at = now;
        self.issued += conn.batch.requests as u64;
        self.busy += 1;
        self.write(index)
    }

    fn write(&mut self, index: usize) -> Result<()> {
        let conn = &mut self.conns[index];
        if conn.waiting == 0 {
            return Ok(());
        }
        while conn.written < conn.batch.bytes.len() {
            match conn.stream.write(&conn.batch.bytes[conn.written..]) {
                Ok(len) => conn.written += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::Io(format!("{}: send", self.label), error)),
            }
        }
        Ok(())
    }

    /// Reads all that is there and returns the time of the last read.
    fn receive(&mut self, index: usize) -> Result<Instant> {
        let mut chunk = std::mem::take(&mut self.chunk);
        let result = loop {
            match self.conns[index].stream.read(&mut chunk) {
                Ok(0) => break Err(Error::server(self.label, "closed a connection")),
                Ok(len) => {
                    let now = clock::now();
                    if let Err(error) = self.take_replies(index, &chunk[..len], now) {
                        break Err(error);
                    }
                    if len < chunk.len() {
                        break Ok(now);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(clock::now()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(Error::Io(format!("{}: receive", self.label), error)),
            }
        };
        self.chunk = chunk;
        result
    }

    fn take_replies(&mut self, index: usize, bytes: &[u8], now: Instant) -> Result<()> {
        let conn = &mut self.conns[index];
        let joined;
        let bytes = if conn.tail.is_empty() {
            bytes
        } else {
            conn.tail.extend_from_slice(bytes);
            joined = std::mem::take(&mut conn.tail);
            &joined[..]
        };
        let mut at = 0;
        let mut count = 0;
        loop {
            match wire::measure(&bytes[at..]) {
                Measured::Whole { len, is_error } => {
                    if is_error {
                        self.outcome.errors += 1;
                        let text = String::from_utf8_lossy(&bytes[at..at + len]);
                        let text = text.trim().chars().take(200).collect();
                        self.outcome.first_error.get_or_insert(text);
                    }
                    at += len;
                    count += 1;
                }
                Measured::Partial => break,
                Measured::Invalid => {
                    return Err(Error::server(self.label, "sent bytes that are no reply"));
                }
            }
        }
        conn.tail.extend_from_slice(&bytes[at..]);
        self.count_replies(index, count, now)
    }

    fn count_replies(&mut self, index: usize, count: usize, now: Instant) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let conn = &mut self.conns[index];
        if count > conn.waiting {
            return Err(Error::server(self.label, "sent more replies than were asked for"));
        }
        conn.waiting -= count;
        let is_done = conn.waiting == 0;
        let latency = clock::nanos(now - conn.sent_at).max(1);
        if index >= self.load_count {
            self.outcome.bystander.saturating_record_n(latency, count as u64);
            return Ok(());
        }
        self.outcome.latency.saturating_record_n(latency, count as u64);
        self.outcome.replies += count as u64;
        if is_done {
            self.busy -= 1;
            self.send_next(index, now)?;
        }
        Ok(())
    }
}

fn connect(address: SocketAddr, poll: &Poll, token: Token) -> std::io::Result<TcpStream> {
    // Connected before it is registered, so that a refusal is reported here.
    let stream = std::net::TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let mut stream = TcpStream::from_std(stream);
    poll.registry().register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
    Ok(stream)
}
