//! From received bytes to executed requests.
//!
//! Bytes are parsed in batches: up to [`BATCH_MAX`] requests are read, their keys hashed and the
//! index lines and blocks prefetched, and only then does the first one run. A request that is
//! cut, or must wait for an answer from another shard, goes to the client's query buffer. When it
//! goes on, batches begin with one request and double, so that little is parsed again if it must wait
//! again.

mod forward;
mod place;

use engine::Key;
use netback::{Close, ConnId};

use crate::blocking::Pause;
use crate::clock;
use crate::cluster;
use crate::command::args::{Args, KeptArgs};
use crate::command::dispatch::{self, CommandCtx};
use crate::command::error::CommandError;
use crate::command::spec::flag;
use crate::command::table::{Entry, Table, table};
use crate::conn::query::{QueryBuffer, rebase};
use crate::conn::{Client, Stall, Waiting};
use crate::keyspace::{Keyspace, SlotStats};
use crate::lend::Lending;
use crate::multi::Queued;
use crate::resp::{ArgRange, Progress, ProtocolError, Reply, Step, inline, parse};
use crate::state::ShardState;
use place::Place;

pub(crate) use place::{Needs, key_indexes};

/// Requests that are parsed before the first one runs.
const BATCH_MAX: usize = 64;

/// A client with this many unsent bytes of replies is neither read from nor served until it has
/// taken them.
pub const OUTPUT_PAUSE_BYTES: usize = 64 << 20;

/// Query buffers with more room than this are freed when they are empty.
const QUERY_CAPACITY_MAX: usize = 64 * 1024;

/// A shard without its network: state, keyspace and the scratch space of the request path.
pub struct Core {
    /// Everything beside the keyspace.
    pub state: ShardState,
    /// The keyspace.
    pub keyspace: Keyspace,
    /// What is lent and borrowed of it.
    pub lending: Lending,
    pub(crate) table: &'static Table,
    batch: Batch,
}

/// Scratch space, reused from call to call.
#[derive(Default)]
struct Batch {
    requests: Vec<Parsed>,
    args: Vec<ArgRange>,
}

/// A parsed request of a batch.
struct Parsed {
    /// Where it starts in the input.
    start: usize,
    /// Where the next one starts.
    end: usize,
    /// Its arguments within the batch's.
    args: (usize, usize),
    found: Option<&'static Entry>,
    /// Hash and hash slot of the only key.
    key: Option<(u64, u16)>,
}

/// A request that runs now.
struct Run<'a> {
    args: Args<'a>,
    entry: &'static Entry,
    /// Hash and hash slot of its only key.
    key: Option<(u64, u16)>,
    /// The hash slot of all its keys, in a cluster.
    slot: Option<u16>,
    wire: &'a [u8],
}

/// Why a batch has no further request.
enum BatchEnd {
    /// It is full.
    Full,
    /// The input ends, maybe inside a request.
    NeedMore,
    /// An inline request follows.
    Line(ArgRange),
    /// The input breaks the protocol.
    Error(ProtocolError),
}

/// How far the input has been worked off.
struct Consumed {
    /// Offset of the first request that has not run.
    upto: usize,
    /// The parser's offset and state beyond that.
    at: usize,
    progress: Progress,
    /// Requests that are parsed next before the first of them runs.
    batch_len: usize,
}

impl Core {
    /// A core for a shard that is starting.
    pub fn new(state: ShardState, keyspace: Keyspace) -> Self {
        let lending = Lending::default();
        Self { state, keyspace, lending, table: table(), batch: Batch::default() }
    }

    /// Takes bytes from a client and runs what is whole.
    pub fn received(&mut self, conn: ConnId, bytes: &[u8]) {
        let Some(mut client) = self.state.clients.take(conn) else { return };
        self.state.running = Some(conn);
        client.active_ms = self.state.now_ms();
        client.net_input_bytes += bytes.len() as u64;
        self.state.stats.net_input_bytes += bytes.len() as u64;
        if client.close.is_none() {
            self.feed(&mut client, bytes);
        }
        if client.is_stopped() != client.paused {
            // The end of the tick stops its receiving.
            self.state.mark_dirty(&mut client);
        }
        self.state.running = None;
        self.state.clients.insert(client);
    }

    /// Goes on with a client whose requests waited for answers.
    pub fn resume(&mut self, conn: ConnId) {
        let Some(mut client) = self.state.clients.take(conn) else { return };
        self.state.running = Some(conn);
        client.stall = None;
        if client.close.is_none() {
            self.feed(&mut client, &[]);
        }
        // The end of the tick has it received from again.
        self.state.mark_dirty(&mut client);
        self.state.running = None;
        self.state.clients.insert(client);
    }

    fn feed(&mut self, client: &mut Client, bytes: &[u8]) {
        self.state.cycles = clock::cycles();
        match client.query.take() {
            None => self.feed_lent(client, bytes),
            Some(mut query) => {
                query.extend(bytes);
                // Too much is refused before it runs, even if it has become a whole request.
                if client.stall.is_some() || query.len() > self.state.hot.query_buffer_max {
                    client.query = Some(query);
                } else {
                    self.feed_query(client, query);
                }
            }
        }
        if client.query_len() > self.state.hot.query_buffer_max {
            crate::warning!(
                "Closing client that reached max query buffer length: id={} addr={} qbuf={}",
                client.id,
                client.address,
                client.query_len()
            );
            self.state.stats.query_buffer_limit_disconnections += 1;
            client.close = Some(Close::Now);
            self.state.mark_dirty(client);
        }
    }

    /// Works on the backend's bytes in place; what is cut is copied to a query buffer.
    fn feed_lent(&mut self, client: &mut Client, bytes: &[u8]) {
        let mut args = std::mem::take(&mut self.batch.args);
        let progress = Progress::default();
        let start = Consumed { upto: 0, at: 0, progress, batch_len: BATCH_MAX };
        let done = self.work(client, bytes, start, &mut args);
        if done.upto < bytes.len() && client.close.is_none() {
            let mut query = Box::new(QueryBuffer::with_room_of(self.state.take_buffer()));
            query.extend(&bytes[done.upto..]);
            query.at = done.at - done.upto;
            query.progress = done.progress;
            query.args.extend_from_slice(&args);
            rebase(&mut query.args, done.upto);
            client.query = Some(query);
        }
        args.clear();
        self.batch.args = args;
    }

    /// Works on a query buffer; what is left stays in it.
    fn feed_query(&mut self, client: &mut Client, mut query: Box<QueryBuffer>) {
        let mut args = std::mem::take(&mut query.args);
        // A request that had to wait may well be followed by one that has to, too.
        let batch_len = if query.is_unparsed() { 1 } else { BATCH_MAX };
        let (upto, at, progress) = (query.start(), query.at, query.progress);
        let start = Consumed { upto, at, progress, batch_len };
        let done = self.work(client, query.bytes(), start, &mut args);
        if done.upto == query.bytes().len() || client.close.is_some() {
            if query.capacity() <= QUERY_CAPACITY_MAX {
                self.state.give_buffer(query.into_room());
            }
            return;
        }
        query.args = args;
        query.at = done.at;
        query.progress = done.progress;
        query.run_upto(done.upto);
        client.query = Some(query);
    }

    /// Parses and runs the requests of `input`, batch by batch. `args` holds the arguments of a
    /// request that was begun, before and after.
    fn work(
        &mut self,
        client: &mut Client,
        input: &[u8],
        mut done: Consumed,
        args: &mut Vec<ArgRange>,
    ) -> Consumed {
        let bytes = std::mem::take(&mut client.replies.bytes);
        let bytes = if bytes.capacity() == 0 { self.state.take_buffer() } else { bytes };
        let before = bytes.len();
        let mut reply = Reply::new(bytes, client.protocol);
        let mut requests = std::mem::take(&mut self.batch.requests);
        let stopped_at = loop {
            let end = self.parse(client, input, &mut done, args, &mut requests);
            self.prefetch(client, input, args, &requests);
            if let Some(start) = self.run_batch(client, &mut reply, input, args, &requests) {
                break Some(start);
            }
            args.drain(..requests.last().map_or(0, |last| last.args.1));
            requests.clear();
            if client.close.is_some() {
                break None;
            }
            match end {
                BatchEnd::Full => {}
                BatchEnd::NeedMore => break None,
                // Answers that are owed go before what these may answer at once.
                BatchEnd::Line(_) | BatchEnd::Error(_) if !client.waiting.is_empty() => {
                    client.stall = Some(Stall::Answers);
                    break Some(done.upto);
                }
                BatchEnd::Line(line) if self.must_wait(client, &reply) => break Some(line.start),
                BatchEnd::Line(line) => {
                    match self.run_line(client, &mut reply, &input[line.start..line.end]) {
                        Ok(true) => done.upto = done.at,
                        Ok(false) => break Some(line.start),
                        Err(error) => self.protocol_error(client, &mut reply, &error),
                    }
                }
                BatchEnd::Error(error) => self.protocol_error(client, &mut reply, &error),
            }
            if client.close.is_some() {
                break None;
            }
        };
        if let Some(start) = stopped_at {
            // The rest is parsed again when its turn comes.
            args.clear();
            requests.clear();
            done = Consumed { upto: start, at: start, progress: Progress::default(), ..done };
        }
        self.finish(client, reply, requests, before, done)
    }

    /// Runs the requests of a batch until one closes the client. One that must wait, for another
    /// shard or for the client to take its replies, stops it: its start comes back.
    #[inline]
    fn run_batch(
        &mut self,
        client: &mut Client,
        reply: &mut Reply,
        input: &[u8],
        args: &[ArgRange],
        requests: &[Parsed],
    ) -> Option<usize> {
        for request in requests {
            if self.must_wait(client, reply) {
                return Some(request.start);
            }
            let argv = Args::new(input, &args[request.args.0..request.args.1]);
            let wire = &input[request.start..request.end];
            if !self.execute(client, reply, argv, request.found, request.key, wire) {
                return Some(request.start);
            }
            if client.close.is_some() {
                break;
            }
        }
        None
    }

    /// Stalls a client that has so much to take already that nothing more is made for it, or whose
    /// requests might tell other shards more than they have taken.
    #[inline]
    fn must_wait(&mut self, client: &mut Client, reply: &Reply) -> bool {
        if reply.len() + client.sending_bytes > OUTPUT_PAUSE_BYTES {
            client.stall = Some(Stall::Room);
        } else if self.state.peers_behind {
            client.stall = Some(Stall::Peers);
            self.state.held_by_peers.push(client.conn);
            self.state.mark_dirty(client);
        }
        client.stall.is_some()
    }

    fn finish(
        &mut self,
        client: &mut Client,
        reply: Reply,
        requests: Vec<Parsed>,
        before: usize,
        done: Consumed,
    ) -> Consumed {
        self.batch.requests = requests;
        let bytes = reply.into_bytes();
        let hold_changes = client.is_owed() != client.held;
        if bytes.len() != before || client.close.is_some() || hold_changes {
            self.state.mark_dirty(client);
        }
        if bytes.is_empty() {
            self.state.give_buffer(bytes);
        } else {
            client.replies.bytes = bytes;
        }
        done
    }

    /// Parses a batch, and hashes the keys of commands that have one at a fixed place.
    #[inline]
    fn parse(
        &self,
        client: &Client,
        input: &[u8],
        done: &mut Consumed,
        args: &mut Vec<ArgRange>,
        requests: &mut Vec<Parsed>,
    ) -> BatchEnd {
        let limits = self.state.limits(client);
        // What a client may send changes when it authenticates, so nothing is read ahead before.
        let batch_len = if client.authenticated { done.batch_len } else { 1 };
        done.batch_len = BATCH_MAX.min(2 * done.batch_len);
        let mut first_arg = 0;
        while requests.len() < batch_len {
            match parse::next(input, &mut done.at, &mut done.progress, args, &limits) {
                Err(error) => return BatchEnd::Error(error),
                Ok(Step::NeedMore) => return BatchEnd::NeedMore,
                Ok(Step::Inline(line)) => return BatchEnd::Line(line),
                Ok(Step::Empty) => {}
                Ok(Step::Request) => {
                    let argv = Args::new(input, &args[first_arg..]);
                    let found = self.table.find(argv.get(0));
                    let single_key = found.map_or(0, |entry| usize::from(entry.single_key));
                    let key = (single_key > 0 && single_key < argv.len()).then(|| {
                        let key = self.keyspace.key(argv.get(single_key));
                        (key.hash, key.slot)
                    });
                    requests.push(Parsed {
                        start: done.upto,
                        end: done.at,
                        args: (first_arg, args.len()),
                        found,
                        key,
                    });
                    first_arg = args.len();
                }
            }
            done.upto = done.at;
        }
        BatchEnd::Full
    }

    /// Brings the index lines of a batch's keys to the cache, then their blocks.
    #[inline]
    fn prefetch(&self, client: &Client, input: &[u8], args: &[ArgRange], requests: &[Parsed]) {
        let Some(share) = self.keyspace.own() else { return };
        let partition = &share.partition;
        if requests.len() < 2 || !partition.prefetch_pays(client.db) {
            return;
        }
        let keys = requests.iter().filter_map(|request| {
            let (hash, slot) = request.key?;
            let index = request.args.0 + usize::from(request.found?.single_key);
            let range = args[index];
            Some(Key { bytes: &input[range.start..range.end], hash, slot })
        });
        for key in keys.clone() {
            partition.prefetch_bucket(client.db, &key);
        }
        for key in keys {
            partition.prefetch_block(client.db, &key);
        }
    }

    /// Runs an inline request. `false`: it must wait.
    fn run_line(
        &mut self,
        client: &mut Client,
        reply: &mut Reply,
        line: &[u8],
    ) -> Result<bool, ProtocolError> {
        let words = inline::split(line)?;
        if words.is_empty() {
            return Ok(true);
        }
        let mut wire = Reply::default();
        wire.array(words.len());
        let mut ranges = Vec::with_capacity(words.len());
        for word in &words {
            wire.bulk(word);
            let end = wire.len() - 2;
            ranges.push(ArgRange { start: end - word.len(), end });
        }
        let wire = wire.into_bytes();
        let found = self.table.find(&words[0]);
        Ok(self.execute(client, reply, Args::new(&wire, &ranges), found, None, &wire))
    }

    fn protocol_error(&mut self, client: &mut Client, reply: &mut Reply, error: &ProtocolError) {
        let start = reply.len();
        reply.error(&[b"ERR Protocol error: ", error.text().as_slice()].concat());
        dispatch::finish_reply(client, reply, start);
        self.state.stats.error(b"ERR");
        crate::verbose!(
            "Protocol error ({}) from client: id={} addr={}",
            String::from_utf8_lossy(&error.text()),
            client.id,
            client.address
        );
        client.close = Some(Close::AfterSends);
    }

    /// Runs a request here or sends it to the shard that owns its keys. `false`: it must wait
    /// for answers of other shards, and nothing has happened.
    #[inline]
    fn execute(
        &mut self,
        client: &mut Client,
        reply: &mut Reply,
        args: Args<'_>,
        found: Option<&'static Entry>,
        key: Option<(u64, u16)>,
        wire: &[u8],
    ) -> bool {
        if found.is_none() && is_http(args.get(0)) {
            self.close_http(client);
            return true;
        }
        let checked = dispatch::resolve(args, found).and_then(|entry| {
            dispatch::gates(entry, client, &self.keyspace, &self.state).map(|()| entry)
        });
        let mut slot = None;
        let checked = match checked {
            Ok(entry) if self.state.hot.redirects && client.home.is_none() => {
                let known = key.map(|(_, slot)| slot);
                cluster::check(&self.state, client, entry, args, known).map(|found| {
                    slot = found;
                    entry
                })
            }
            other => other,
        };
        if self.state.pause != Pause::None
            && client.home.is_none()
            && checked.as_ref().is_ok_and(|entry| self.state.stops(entry, client))
        {
            self.state.await_unpause(client);
            return false;
        }
        if client.multi.is_some()
            && found.is_none_or(|entry| !entry.command.is(flag::IN_MULTI))
            && client.waiting.is_empty()
        {
            self.queue(client, reply, args, found, checked, wire);
            return true;
        }
        if self.keyspace.shards() > 1 || !client.waiting.is_empty() {
            let place = match &checked {
                Ok(entry) => self.place(client, entry, args, key.map(|(_, slot)| slot)),
                Err(_) if client.waiting.is_empty() => Place::Here,
                Err(_) => Place::AfterAnswers,
            };
            match place {
                Place::Here => {
                    if let Ok(entry) = &checked
                        && !self.surveyed(client, entry, wire)
                    {
                        return false;
                    }
                }
                Place::HereInLine => {
                    let Ok(entry) = checked else { unreachable!("a refused request stays here") };
                    let mut line = Reply::new(client.end_of_line(), client.protocol);
                    self.run_here(client, &mut line, &Run { args, entry, key, slot, wire });
                    client.waiting.push_back(Waiting::Ready(line.into_bytes()));
                    return true;
                }
                Place::Shard(shard) => {
                    let Ok(entry) = checked else { unreachable!("a refused request stays here") };
                    return self.forward(client, shard, entry, wire);
                }
                Place::AfterAnswers => {
                    client.stall = Some(Stall::Answers);
                    return false;
                }
                Place::AfterReturn => {
                    self.await_own_share(client);
                    return false;
                }
                Place::AfterShares(set) => {
                    self.await_shares(client, set);
                    return false;
                }
            }
        }
        match checked {
            Err(error) => {
                dispatch::reject(found, &error, reply, client, &mut self.state);
            }
            Ok(entry) => {
                self.run_here(client, reply, &Run { args, entry, key, slot, wire });
            }
        }
        true
    }

    /// Runs a request on the shares that are here, and what follows from it.
    #[inline]
    fn run_here(&mut self, client: &mut Client, reply: &mut Reply, run: &Run<'_>) {
        let (start, began) = (reply.len(), self.state.cycles);
        self.keyspace.set_no_touch(client.no_touch);
        self.state.tracking.author = Some((client.home.unwrap_or(self.state.index), client.conn));
        let single_key = run.key.map(|(hash, slot)| Key {
            bytes: run.args.get(usize::from(run.entry.single_key)),
            hash,
            slot,
        });
        dispatch::run(&mut CommandCtx {
            args: run.args,
            entry: run.entry,
            reply,
            client,
            keyspace: &mut self.keyspace,
            shard: &mut self.state,
            single_key: single_key.as_ref(),
            redacted: 0,
        });
        if self.state.hot.slot_stats
            && let Some(slot) = run.slot
            && self.keyspace.has(self.keyspace.selected())
        {
            let used = SlotStats {
                cycles: clock::elapsed(began, self.state.cycles),
                bytes_in: run.wire.len() as u64,
                bytes_out: (reply.len() - start) as u64,
            };
            self.keyspace.selected_share().count_use(slot, used);
        }
        self.keyspace.settle(&mut self.state);
        self.keyspace.serve(&mut self.state);
        if self.state.tracking.is_pending() {
            self.state.send_invalidations(Some((client, reply)));
        }
        if self.state.has_own_pushes() {
            self.state.write_own_pushes(client, reply);
        }
    }

    /// Keeps a request for EXEC; one that is refused spoils the transaction.
    #[cold]
    fn queue(
        &mut self,
        client: &mut Client,
        reply: &mut Reply,
        args: Args<'_>,
        found: Option<&'static Entry>,
        checked: Result<&'static Entry, CommandError>,
        wire: &[u8],
    ) {
        let checked = checked.and_then(|entry| match entry.command.is(flag::NO_MULTI) {
            true => Err(CommandError::new("ERR Command not allowed inside a transaction")),
            false => Ok(entry),
        });
        let entry = match checked {
            Ok(entry) => entry,
            Err(error) => {
                dispatch::reject(found, &error, reply, client, &mut self.state);
                if let Some(multi) = &mut client.multi {
                    multi.aborted = true;
                }
                return;
            }
        };
        let needs = self.keyspace.needs(client, entry.command, args, None);
        if let Some(multi) = &mut client.multi {
            multi.push(Queued { args: KeptArgs::new(args, wire), entry }, needs);
        }
        let start = reply.len();
        reply.status("QUEUED");
        dispatch::finish_reply(client, reply, start);
    }

    /// A browser that was made to speak to this port must get nothing done: its request lines
    /// would be followed by whatever an attacker put in the body.
    #[cold]
    fn close_http(&mut self, client: &mut Client) {
        crate::warning!(
            "Possible SECURITY ATTACK detected. It looks like somebody is sending POST or Host: \
             commands to this server, maybe to have a browser run commands. Connection from {} \
             aborted.",
            client.address
        );
        client.close = Some(Close::Now);
    }
}

/// Whether a command's name begins an HTTP request that carries a body, or its second line.
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

#[cfg(test)]
mod tests;
