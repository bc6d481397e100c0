//! Requests that are answered later: by another shard that owns their keys, or when a file has been
//! written. A client's answers come in the order of its requests.

use std::io;

use netback::ConnId;

use super::Core;
use crate::clock;
use crate::command::args::Args;
use crate::command::dispatch;
use crate::command::error::CommandError;
use crate::command::spec::flag;
use crate::command::table::Entry;
use crate::conn::{Client, ReplyMode, Stall, Waiting};
use crate::fabric::{PeerMessage, REQUESTS_MAX, Request};
use crate::resp::{Progress, Protocol, Reply, Step, parse};

/// Requests of one client that may be under way to other shards.
const WAITING_MAX: usize = 256;

impl Core {
    /// Sends a request to another shard, unless the order of the client's commands or a limit
    /// makes it wait.
    pub(super) fn forward(
        &mut self,
        client: &mut Client,
        shard: usize,
        entry: &Entry,
        wire: &[u8],
    ) -> bool {
        let command = entry.command;
        let (read, blocking) = (command.is(flag::READONLY), command.is(flag::BLOCKING));
        if client.output_len() > super::OUTPUT_PAUSE_BYTES {
            client.stall = Some(Stall::Room);
            return false;
        }
        let has_room =
            client.waiting.len() < WAITING_MAX && self.state.under_way[shard] < REQUESTS_MAX;
        let relaxed = self.state.hot.relaxed_order;
        if !has_room || !client.may_overtake(shard, read, relaxed) {
            client.stall = Some(Stall::Answers);
            return false;
        }
        let silent = client.reply_mode != ReplyMode::On;
        if client.reply_mode == ReplyMode::Skip {
            client.reply_mode = ReplyMode::On;
        }
        client.waiting.push_back(Waiting::Remote { shard: shard as u16, read, blocking, silent });
        self.state.under_way[shard] += 1;
        self.state.outgoing[shard].push(PeerMessage::Request(Request {
            conn: client.conn,
            bytes: wire.to_vec(),
            origin: client.origin(),
            db: client.db,
            resp3: client.protocol == Protocol::Resp3,
            no_touch: client.no_touch,
            tracks: (read && client.tracking.as_ref().is_some_and(|it| it.remembers()))
                .then_some(client.id),
        }));
        client.end_caching();
        true
    }

    /// Runs a request that another shard's client sent; the reply goes back there.
    pub fn run_remote(&mut self, from: usize, request: Request) {
        // Only what commands with keys look at is set; the rest of the client is at its home.
        let mut client = Client::new(0, request.conn, self.state.now_ms());
        client.authenticated = true;
        client.home = Some(from);
        client.origin = Some(request.origin);
        if let Some(id) = request.tracks {
            client.id = id;
            client.tracking = Some(Box::default());
        }
        client.db = request.db;
        client.no_touch = request.no_touch;
        client.protocol = if request.resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
        let mut reply = Reply::new(Vec::new(), client.protocol);
        let (mut at, mut progress, mut args) = (0, Progress::default(), Vec::new());
        let limits = self.state.limits(&client);
        self.state.cycles = clock::cycles();
        let parsed = parse::next(&request.bytes, &mut at, &mut progress, &mut args, &limits);
        if parsed != Ok(Step::Request) {
            // `proto-max-bulk-len` may have changed on the way.
            reply.error(b"ERR Protocol error: invalid bulk length");
        } else {
            let args = Args::new(&request.bytes, &args);
            let found = self.table.find(args.get(0));
            self.execute(&mut client, &mut reply, args, found, None, &request.bytes);
        }
        let message = match client.blocked {
            Some(blocked) => PeerMessage::Parked(request.conn, *blocked),
            None => PeerMessage::Answer(request.conn, reply.into_bytes()),
        };
        self.state.outgoing[from].push(message);
    }

    /// Answers a client that waited for a file.
    pub fn file_replaced(&mut self, conn: ConnId, result: io::Result<()>) {
        // Both versions of the protocol have these replies in common.
        let mut reply = Reply::default();
        match result {
            Ok(()) => {
                crate::notice!("CONFIG REWRITE executed with success.");
                reply.ok();
            }
            Err(error) => {
                let error = crate::start::plain(&error);
                crate::warning!("CONFIG REWRITE failed: {error}");
                let error = CommandError::text(format!("ERR Rewriting config file: {error}"));
                dispatch::answer_error(&error, &mut reply, &mut self.state);
            }
        }
        self.answered(self.state.index, conn, reply.into_bytes());
    }

    /// Takes the answer of another shard to the oldest request that is under way there.
    pub fn answered(&mut self, from: usize, conn: ConnId, bytes: Vec<u8>) {
        self.state.under_way[from] -= 1;
        let Some(mut client) = self.state.clients.take(conn) else { return };
        let place = client.waiting.iter_mut().find(|waiting| {
            matches!(waiting, Waiting::Remote { shard, .. } if usize::from(*shard) == from)
        });
        if let Some(place) = place {
            let silent = matches!(place, Waiting::Remote { silent: true, .. });
            *place = Waiting::Ready(if silent { Vec::new() } else { bytes });
        }
        client.release_ready();
        self.state.mark_dirty(&mut client);
        let resume = client.stall == Some(Stall::Answers);
        self.state.clients.insert(client);
        if resume {
            self.resume(conn);
        }
    }
}
