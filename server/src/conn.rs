//! A client: what the server knows of one connection.

mod clients;
pub(crate) mod query;
mod replies;

use std::collections::VecDeque;
use std::sync::Arc;

use netback::{Close, ConnId};

use crate::blocking::Blocked;
use crate::command::table::Entry;
use crate::config::OutputLimit;
use crate::multi::{Multi, Watch};
use crate::pubsub::Subscribed;
use crate::resp::Protocol;
use crate::survey::Survey;
use crate::tracking::Tracking;

pub use clients::Clients;
pub use query::QueryBuffer;
pub use replies::{ReplyBuffer, SharedBytes};

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
        /// Whether it may block the client, so that nothing goes after it.
        blocking: bool,
        /// CLIENT REPLY asked that its reply is not sent.
        silent: bool,
    },
    /// The client is blocked; whoever has its claim answers.
    Blocked {
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
    /// Other shards must take what this one has told them before it tells them more.
    Peers,
    /// CLIENT PAUSE.
    Paused,
}

/// What the slow log and MONITOR show of a client.
#[derive(Debug)]
pub struct Origin {
    /// Its address.
    pub address: String,
    /// CLIENT SETNAME.
    pub name: Vec<u8>,
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
    /// Gets what all clients do (MONITOR).
    pub monitors: bool,
    /// What other shards are told of it with its requests; made when first needed.
    pub origin: Option<Arc<Origin>>,
    /// Its shard, if that is another one, which has sent a request of it.
    pub home: Option<usize>,
    /// What it waits for.
    pub blocked: Option<Box<Blocked>>,
    /// The answer to a request that is said to wait only after it was answered.
    pub early_answer: Option<Vec<u8>>,
    /// When the request that runs again gives up, if it ever does.
    pub until_ms: Option<Option<u64>>,
    /// How it is told of keys that change.
    pub tracking: Option<Box<Tracking>>,
    /// Channels and patterns that it subscribes to.
    pub subscribed: Option<Box<Subscribed>>,
    /// What other shards told for the next request.
    pub survey: Option<Box<Survey>>,
    /// Since when it has been over the soft output limit.
    pub over_soft_limit_ms: Option<u64>,
    /// The backend keeps it open after the peer's end.
    pub held: bool,
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
            monitors: false,
            origin: None,
            home: None,
            blocked: None,
            early_answer: None,
            until_ms: None,
            tracking: None,
            subscribed: None,
            survey: None,
            over_soft_limit_ms: None,
            held: false,
            paused: false,
            close: None,
            dirty: false,
        }
    }

    /// Sets everything back that RESET sets back, but the authentication.
    pub fn reset(&mut self) {
        self.end_transaction();
        self.set_name(b"");
        self.db = 0;
        self.protocol = Protocol::Resp2;
        self.no_touch = false;
        self.no_evict = false;
        // The reply of the command at hand stays unsent if that was asked for.
        if self.reply_mode != ReplyMode::Skip {
            self.reply_mode = ReplyMode::On;
        }
    }

    /// What other shards are told of it.
    pub fn origin(&mut self) -> Arc<Origin> {
        let origin = self.origin.get_or_insert_with(|| {
            let address = self.address.clone();
            Arc::new(Origin { address, name: self.name.clone() })
        });
        Arc::clone(origin)
    }

    /// The address to be shown, also of a client of another shard.
    pub fn shown_address(&self) -> &str {
        let origin = self.origin.as_ref().filter(|_| self.home.is_some());
        origin.map_or(&self.address, |origin| &origin.address)
    }

    /// The name to be shown, also of a client of another shard.
    pub fn shown_name(&self) -> &[u8] {
        let origin = self.origin.as_ref().filter(|_| self.home.is_some());
        origin.map_or(&self.name, |origin| &origin.name)
    }

    /// Gives the client a name.
    pub fn set_name(&mut self, name: &[u8]) {
        name.clone_into(&mut self.name);
        self.origin = None;
    }

    /// Gives a blocked client's request its answer.
    pub fn answer_blocked(&mut self, answer: Vec<u8>) {
        let place =
            self.waiting.iter_mut().find(|waiting| matches!(waiting, Waiting::Blocked { .. }));
        if let Some(place) = place {
            let silent = matches!(place, Waiting::Blocked { silent: true });
            *place = Waiting::Ready(if silent { Vec::new() } else { answer });
        }
        self.release_ready();
    }

    /// Ends what CLIENT CACHING has said about the command that has run.
    pub fn end_caching(&mut self) {
        if let Some(tracking) = &mut self.tracking {
            tracking.caching = false;
        }
    }

    /// Adds what answers no command, behind the answers that are owed.
    pub fn push_in_order(&mut self, bytes: Vec<u8>) {
        if self.waiting.is_empty() {
            self.replies.bytes.extend_from_slice(&bytes);
        } else {
            self.waiting.push_back(Waiting::Ready(bytes));
        }
    }

    /// Whether a request may go to a shard while answers to earlier ones are under way: a shard works
    /// on what it gets in its order, and reads may go together.
    pub fn may_overtake(&self, shard: usize, read: bool, relaxed: bool) -> bool {
        self.waiting.iter().all(|waiting| match waiting {
            Waiting::Remote { blocking: true, .. } | Waiting::Blocked { .. } => false,
            Waiting::Remote { shard: other, read: other_read, .. } => {
                relaxed || usize::from(*other) == shard || read && *other_read
            }
            Waiting::Ready(_) => true,
        })
    }

    /// Takes the answers at the end of the line that are there, to be added to.
    pub fn end_of_line(&mut self) -> Vec<u8> {
        match self.waiting.pop_back_if(|last| matches!(last, Waiting::Ready(_))) {
            Some(Waiting::Ready(bytes)) => bytes,
            _ => Vec::new(),
        }
    }

    /// Moves the answers at the head of the line to the replies.
    pub fn release_ready(&mut self) {
        while let Some(Waiting::Ready(bytes)) =
            self.waiting.pop_front_if(|waiting| matches!(waiting, Waiting::Ready(_)))
        {
            self.replies.bytes.extend_from_slice(&bytes);
        }
    }

    /// Whether it is owed replies that take no longer than the server needs for them, so that they
    /// go out even if the client sends no more.
    pub fn is_owed(&self) -> bool {
        let works = self.stall.is_some_and(|stall| stall != Stall::Paused);
        self.blocked.is_none() && (works || !self.waiting.is_empty())
    }

    /// Whether nothing is read from it until it goes on, so that what it sends does not pile up here.
    /// Who waits for something that may take long may hang up, which only who is read from can.
    pub fn is_stopped(&self) -> bool {
        matches!(self.stall, Some(Stall::Answers | Stall::Room | Stall::Peers))
            && self.blocked.is_none()
    }

    /// Whether the client runs on this machine.
    pub fn is_local(&self) -> bool {
        let address = self.address.parse::<std::net::SocketAddr>();
        self.is_unix || address.is_ok_and(|address| address.ip().to_canonical().is_loopback())
    }

    /// Bytes of requests that have not run: in the query buffer, or queued.
    pub fn query_len(&self) -> usize {
        let queued = self.multi.as_ref().map_or(0, |multi| multi.bytes);
        self.query.as_ref().map_or(0, |query| query.len()) + queued
    }

    /// Answers that are there and wait for earlier ones.
    fn ready(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.waiting.iter().filter_map(|waiting| match waiting {
            Waiting::Ready(bytes) => Some(bytes),
            Waiting::Remote { .. } | Waiting::Blocked { .. } => None,
        })
    }

    /// Bytes of replies made and not sent.
    pub fn output_len(&self) -> usize {
        self.sending_bytes + self.replies.len() + self.ready().map(Vec::len).sum::<usize>()
    }

    /// How many buffers of replies there are beside the reply buffer, and their bytes: those that are
    /// being sent, pieces, and answers that wait for earlier ones.
    pub fn output_list(&self) -> (usize, usize) {
        let count = self.sending_buffers + self.replies.pieces() + self.ready().count();
        let bytes = self.output_len() - self.replies.bytes.len();
        (count, bytes)
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

    /// Bytes that the client holds: its buffers, answers that wait and queued commands with it. What it
    /// shares with others is counted there.
    pub fn memory_bytes(&self) -> usize {
        let texts = self.address.capacity()
            + self.local_address.capacity()
            + self.name.capacity()
            + self.lib_name.capacity()
            + self.lib_version.capacity();
        let waiting = self.waiting.capacity() * size_of::<Waiting>()
            + self.ready().map(Vec::capacity).sum::<usize>();
        let blocked = self.blocked.as_ref().map_or(0, |blocked| {
            size_of::<Blocked>() + blocked.request.capacity() + blocked.on_timeout.capacity()
        });
        let multi = self.multi.as_ref();
        size_of::<Self>()
            + texts
            + self.query.as_ref().map_or(0, |query| query.memory_bytes())
            + multi.map_or(0, |multi| size_of::<Multi>() + multi.memory_bytes())
            + waiting
            + blocked
            + self.early_answer.as_ref().map_or(0, Vec::capacity)
            + self.replies.memory_bytes()
            + self.sending_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocking::Claim;
    use crate::command::args::{Args, KeptArgs};
    use crate::command::table::table;
    use crate::input::Needs;
    use crate::multi::Queued;
    use crate::resp::ArgRange;

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
    fn all_that_waits_with_a_client_is_counted_as_its_memory() {
        let mut client = Client::new(1, ConnId { index: 0, generation: 0 }, 0);
        let mut before = client.memory_bytes();
        let mut grew_by = |client: &Client, least: usize| {
            let now = client.memory_bytes();
            assert!(
                (least..least + 1000).contains(&(now - before)),
                "{} for {least}",
                now - before
            );
            before = now;
        };
        client.waiting.push_back(Waiting::Blocked { silent: false });
        client.waiting.push_back(Waiting::Ready(vec![0; 5000]));
        grew_by(&client, 5000);
        assert_eq!(client.output_list(), (1, 5000));
        client.multi = Some(Box::default());
        let wire = [b"*1\r\n$6000\r\n".to_vec(), vec![b'x'; 6000], b"\r\n".to_vec()].concat();
        let ranges = [ArgRange { start: 11, end: 6011 }];
        let args = KeptArgs::new(Args::new(&wire, &ranges), &wire);
        let entry = table().find(b"ping").expect("a row");
        client.multi.as_mut().expect("set").push(Queued { args, entry }, Needs::Nothing);
        grew_by(&client, 6000);
        client.replies.bytes = vec![0; 7000];
        grew_by(&client, 7000);
        client.sending_bytes = 8000;
        client.sending_buffers = 2;
        grew_by(&client, 8000);
        assert_eq!(client.output_list(), (3, 13_000));
        let blocked = Blocked {
            claim: Claim::default(),
            until_ms: None,
            on_timeout: Vec::new(),
            request: vec![0; 9000],
        };
        client.blocked = Some(Box::new(blocked));
        grew_by(&client, 9000);
    }
}
