//! A client: what the server knows of one connection, and the table of a shard's clients.

use std::collections::VecDeque;

use netback::{Close, ConnId};

use crate::command::table::Entry;
use crate::config::OutputLimit;
use crate::multi::{Multi, Watch};
use crate::resp::{ArgRange, Progress, Protocol};
use crate::survey::Survey;

/// A request that has not arrived whole, or waits for an earlier one.
#[derive(Debug, Default)]
pub struct QueryBuffer {
    /// The bytes from the start of the first request that has not run.
    pub bytes: Vec<u8>,
    /// Offset up to which the parser has read.
    pub at: usize,
    /// The parser's state at `at`.
    pub progress: Progress,
    /// The arguments read so far.
    pub args: Vec<ArgRange>,
}

/// Replies on their way out, with the log positions that they wait for.
///
/// A mark says: the bytes up to `end` may leave once the log is durable up to `position`. Marks
/// ascend in both; bytes behind the last mark wait for nothing.
#[derive(Debug, Default)]
pub struct ReplyBuffer {
    /// Replies in wire form.
    pub bytes: Vec<u8>,
    marks: VecDeque<ReleaseMark>,
}

/// One step of a [`ReplyBuffer`].
#[derive(Clone, Copy, Debug)]
struct ReleaseMark {
    end: usize,
    position: u64,
}

impl ReplyBuffer {
    /// Holds all bytes so far until the log is durable up to `position`.
    pub fn mark(&mut self, position: u64) {
        let end = self.bytes.len();
        match self.marks.back_mut() {
            Some(last) if last.position == position => last.end = end,
            _ => self.marks.push_back(ReleaseMark { end, position }),
        }
    }

    /// Takes the bytes that may leave once the log is durable up to `durable`.
    pub fn release(&mut self, durable: u64) -> Vec<u8> {
        let mut released = 0;
        while let Some(mark) = self.marks.pop_front_if(|mark| mark.position <= durable) {
            released = mark.end;
        }
        if self.marks.is_empty() {
            return std::mem::take(&mut self.bytes);
        }
        let held = self.bytes.split_off(released);
        self.marks.iter_mut().for_each(|mark| mark.end -= released);
        std::mem::replace(&mut self.bytes, held)
    }
}

/// Bytes of replies that output limits do not count: Redis has a buffer of this size in each
/// client, and limits only what lies beyond it.
const UNLIMITED_OUTPUT: usize = 16 * 1024;

/// What CLIENT REPLY asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// All replies are sent.
    #[default]
    On,
    /// No replies are sent.
    Off,
    /// The next command's reply is not sent.
    SkipNext,
    /// The reply of the command at hand is not sent.
    Skip,
}

/// A reply's place in line, while answers to requests are under way.
#[derive(Debug)]
pub enum Waiting {
    /// Another shard will answer, or this one when a file operation is over.
    Remote {
        /// The shard that answers.
        shard: u16,
        /// Whether the request only reads.
        read: bool,
        /// CLIENT REPLY asked that its reply is not sent.
        silent: bool,
    },
    /// The answer, in wire form.
    Ready(Vec<u8>),
}

/// Why a client's next request has not run yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// Answers that are owed go first.
    Answers,
    /// The client must take replies before it gets more.
    Room,
    /// Shares of the keyspace are elsewhere.
    Shares,
    /// Other shards have not told their parts yet.
    Survey,
}

/// A client of this shard.
#[derive(Debug)]
pub struct Client {
    /// Counts up over the process; CLIENT ID.
    pub id: u64,
    /// Its connection in the backend.
    pub conn: ConnId,
    /// The peer's address, `ip:port`, or the path of the Unix socket with `:0`.
    pub address: String,
    /// Our end's address.
    pub local_address: String,
    /// The descriptor's number.
    pub descriptor: i32,
    /// Came by a Unix socket.
    pub is_unix: bool,
    /// CLIENT SETNAME.
    pub name: Vec<u8>,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: Vec<u8>,
    /// CLIENT SETINFO LIB-VER.
    pub lib_version: Vec<u8>,
    /// The selected database.
    pub db: usize,
    /// The protocol version of the replies.
    pub protocol: Protocol,
    /// Has authenticated, or need not.
    pub authenticated: bool,
    /// CLIENT NO-TOUCH.
    pub no_touch: bool,
    /// CLIENT NO-EVICT.
    pub no_evict: bool,
    /// CLIENT REPLY.
    pub reply_mode: ReplyMode,
    /// When it connected, milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// When it last sent something.
    pub active_ms: u64,
    /// Commands queued since MULTI.
    pub multi: Option<Box<Multi>>,
    /// Keys watched since WATCH.
    pub watch: Option<Box<Watch>>,
    /// The command at hand is one of a transaction.
    pub in_exec: bool,
    /// The last command, for CLIENT LIST.
    pub last_command: Option<&'static Entry>,
    /// Commands run.
    pub commands: u64,
    /// Bytes from the client.
    pub net_input_bytes: u64,
    /// Bytes to the client.
    pub net_output_bytes: u64,
    /// A request that has not run; absent between requests.
    pub query: Option<Box<QueryBuffer>>,
    /// Replies to be sent at the end of the tick.
    pub replies: ReplyBuffer,
    /// Bytes that the backend has not sent yet.
    pub sending_bytes: usize,
    /// Buffers that the backend has not sent yet.
    pub sending_buffers: usize,
    /// Answers in order, from the oldest that is owed.
    pub waiting: VecDeque<Waiting>,
    /// No further request runs until what it waits for has come.
    pub stall: Option<Stall>,
    /// What other shards told for the next request.
    pub survey: Option<Box<Survey>>,
    /// Since when it has been over the soft output limit.
    pub over_soft_limit_ms: Option<u64>,
    /// Receiving is paused.
    pub paused: bool,
    /// To be closed at the end of the tick.
    pub close: Option<Close>,
    /// Stands in the shard's list of clients to flush.
    pub dirty: bool,
}

impl Client {
    /// A client that has just connected.
    pub fn new(id: u64, conn: ConnId, now_ms: u64) -> Self {
        Self {
            id,
            conn,
            address: String::new(),
            local_address: String::new(),
            descriptor: -1,
            is_unix: false,
            name: Vec::new(),
            lib_name: Vec::new(),
            lib_version: Vec::new(),
            db: 0,
            protocol: Protocol::Resp2,
            authenticated: false,
            no_touch: false,
            no_evict: false,
            reply_mode: ReplyMode::On,
            created_ms: now_ms,
            active_ms: now_ms,
            multi: None,
            watch: None,
            in_exec: false,
            last_command: None,
            commands: 0,
            net_input_bytes: 0,
            net_output_bytes: 0,
            query: None,
            replies: ReplyBuffer::default(),
            sending_bytes: 0,
            sending_buffers: 0,
            waiting: VecDeque::new(),
            stall: None,
            survey: None,
            over_soft_limit_ms: None,
            paused: false,
            close: None,
            dirty: false,
        }
    }

    /// Sets everything back that RESET sets back, but the authentication.
    pub fn reset(&mut self) {
        self.end_transaction();
        self.name.clear();
        self.db = 0;
        self.protocol = Protocol::Resp2;
        self.no_touch = false;
        self.no_evict = false;
        // The reply of the command at hand stays unsent if that was asked for.
        if self.reply_mode != ReplyMode::Skip {
            self.reply_mode = ReplyMode::On;
        }
    }

    /// Whether the client runs on this machine.
    pub fn is_local(&self) -> bool {
        let address = self.address.parse::<std::net::SocketAddr>();
        self.is_unix || address.is_ok_and(|address| address.ip().to_canonical().is_loopback())
    }

    /// Bytes of requests that have not run: in the query buffer, or queued.
    pub fn query_len(&self) -> usize {
        let queued = self.multi.as_ref().map_or(0, |multi| multi.bytes);
        self.query.as_ref().map_or(0, |query| query.bytes.len()) + queued
    }

    /// Bytes of replies made and not sent.
    pub fn output_len(&self) -> usize {
        let ready = self.waiting.iter().map(|waiting| match waiting {
            Waiting::Ready(bytes) => bytes.len(),
            Waiting::Remote { .. } => 0,
        });
        self.sending_bytes + self.replies.bytes.len() + ready.sum::<usize>()
    }

    /// Whether the client leaves more unread than it may, at a time in milliseconds.
    pub fn is_over_output_limit(&mut self, limit: &OutputLimit, now_ms: u64) -> bool {
        if limit.hard_bytes == 0 && limit.soft_bytes == 0 {
            return false;
        }
        let len = self.output_len().saturating_sub(UNLIMITED_OUTPUT);
        if limit.hard_bytes > 0 && len > limit.hard_bytes {
            return true;
        }
        if limit.soft_bytes == 0 || len <= limit.soft_bytes {
            self.over_soft_limit_ms = None;
            return false;
        }
        let since_ms = *self.over_soft_limit_ms.get_or_insert(now_ms);
        now_ms.saturating_sub(since_ms) > limit.soft_ms
    }

    /// Bytes that the client holds, buffers with it.
    pub fn memory_bytes(&self) -> usize {
        let query = self.query.as_ref().map_or(0, |query| {
            query.bytes.capacity() + query.args.capacity() * size_of::<ArgRange>()
        });
        size_of::<Self>()
            + query
            + self.replies.bytes.capacity()
            + self.sending_bytes
            + self.address.capacity()
            + self.local_address.capacity()
            + self.name.capacity()
    }
}

/// The clients of a shard, by the index of their connection.
#[derive(Debug, Default)]
pub struct Clients {
    places: Vec<Option<Box<Client>>>,
    len: usize,
}

impl Clients {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a client at its connection's index.
    pub fn insert(&mut self, client: Box<Client>) {
        let index = client.conn.index as usize;
        if index >= self.places.len() {
            self.places.resize_with(index + 1, || None);
        }
        let previous = self.places[index].replace(client);
        debug_assert!(previous.is_none(), "one client a connection");
        self.len += 1;
    }

    /// Takes a client out; [`Clients::insert`] puts it back.
    #[inline]
    pub fn take(&mut self, conn: ConnId) -> Option<Box<Client>> {
        let place = self.places.get_mut(conn.index as usize)?;
        let client = place.take_if(|client| client.conn == conn)?;
        self.len -= 1;
        Some(client)
    }

    /// A client by its connection.
    pub fn get_mut(&mut self, conn: ConnId) -> Option<&mut Client> {
        let place = self.places.get_mut(conn.index as usize)?;
        place.as_deref_mut().filter(|client| client.conn == conn)
    }

    /// All clients, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Client> {
        self.places.iter().filter_map(Option::as_deref)
    }

    /// All clients, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Client> {
        self.places.iter_mut().filter_map(Option::as_deref_mut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_leave_when_their_log_position_is_durable() {
        let mut replies = ReplyBuffer::default();
        replies.bytes.extend_from_slice(b"a");
        replies.mark(1);
        replies.bytes.extend_from_slice(b"bc");
        replies.mark(3);
        replies.bytes.extend_from_slice(b"d");
        assert_eq!(replies.release(0), b"");
        assert_eq!(replies.release(2), b"a");
        assert_eq!(replies.release(2), b"");
        assert_eq!(replies.release(3), b"bcd");
        replies.bytes.extend_from_slice(b"e");
        assert_eq!(replies.release(0), b"e");
    }

    #[test]
    fn output_limits_are_hard_at_once_and_soft_after_a_while() {
        let limit = OutputLimit { hard_bytes: 100, soft_bytes: 10, soft_ms: 1000 };
        let mut client = Client::new(1, ConnId { index: 0, generation: 0 }, 0);
        client.sending_bytes = UNLIMITED_OUTPUT + 11;
        assert!(!client.is_over_output_limit(&limit, 5000));
        assert!(!client.is_over_output_limit(&limit, 6000));
        assert!(client.is_over_output_limit(&limit, 6001));
        client.sending_bytes = UNLIMITED_OUTPUT + 10;
        assert!(!client.is_over_output_limit(&limit, 7000));
        client.sending_bytes = UNLIMITED_OUTPUT + 11;
        assert!(!client.is_over_output_limit(&limit, 8000));
        client.sending_bytes = UNLIMITED_OUTPUT + 101;
        assert!(client.is_over_output_limit(&limit, 8000));
        assert!(!client.is_over_output_limit(&OutputLimit::default(), 9000));
    }

    #[test]
    fn a_late_connection_id_finds_nobody() {
        let mut clients = Clients::default();
        let old = ConnId { index: 3, generation: 1 };
        let new = ConnId { index: 3, generation: 2 };
        clients.insert(Box::new(Client::new(7, new, 0)));
        assert!(clients.take(old).is_none());
        assert!(clients.get_mut(old).is_none());
        assert_eq!(clients.take(new).expect("the client").id, 7);
        assert!(clients.is_empty());
    }
}
