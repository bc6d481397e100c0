//! From a parsed request to its reply: gates, handler, counters, slow log.

use std::ops::Deref;
use std::path::PathBuf;

use engine::Key;

use super::args::Args;
use super::error::{CommandError, OUT_OF_MEMORY, c_string};
use super::spec::flag;
use super::table::{Entry, table};
use crate::blocking::Blocked;
use crate::clock;
use crate::conn::{Client, ReplyMode, Waiting};
use crate::keyspace::Keyspace;
use crate::replace_file::{Make, Owner, ReplaceFile};
use crate::resp::Reply;
use crate::slowlog::Slow;
use crate::state::ShardState;
use crate::survey::Report;

/// What a handler returns: its reply is written, or it refused.
pub type CommandResult = Result<(), CommandError>;

/// Bytes of a name, and of all arguments, that the text about an unknown command repeats.
const REPEATED_MAX: usize = 128;

/// All that a handler works on.
pub struct CommandCtx<'a> {
    /// The request.
    pub args: Args<'a>,
    /// Its row.
    pub entry: &'static Entry,
    /// Where the reply goes.
    pub reply: &'a mut Reply,
    /// Who asked.
    pub client: &'a mut Client,
    /// The keyspace, with the share of the first key selected.
    pub keyspace: &'a mut Keyspace,
    /// The rest of the shard.
    pub shard: &'a mut ShardState,
    /// The key of a command with a single key, hashed already.
    pub single_key: Option<&'a Key<'a>>,
    /// Bits of the arguments that no log may show, by index; see [`CommandCtx::redact`].
    pub redacted: u32,
}

/// A key of a request. The single one of most commands was hashed when its batch was read, and is
/// passed on without a copy.
#[derive(Clone, Copy)]
pub enum KeyArg<'a> {
    /// Hashed with the batch.
    Read(&'a Key<'a>),
    /// Hashed by the command.
    Made(Key<'a>),
}

impl<'a> Deref for KeyArg<'a> {
    type Target = Key<'a>;

    #[inline]
    fn deref(&self) -> &Key<'a> {
        match self {
            Self::Read(key) => key,
            Self::Made(key) => key,
        }
    }
}

impl<'a> CommandCtx<'a> {
    /// Keeps an argument out of the slow log, which keeps 32 of them.
    pub fn redact(&mut self, index: usize) {
        self.redacted |= 1u32.checked_shl(index as u32).unwrap_or(0);
    }

    /// The argument at `index` as a key.
    #[inline(always)]
    pub fn key(&self, index: usize) -> KeyArg<'a> {
        match self.single_key {
            Some(key) if usize::from(self.entry.single_key) == index => KeyArg::Read(key),
            _ => KeyArg::Made(self.keyspace.key(self.args.get(index))),
        }
    }

    /// Replaces a file's text in the background. The client's next request waits for the answer,
    /// which tells the outcome; the handler writes none.
    pub fn answer_after_file(&mut self, path: PathBuf, make: Make) {
        self.await_file();
        let (job, op) = ReplaceFile::start(path, self.client.id, make);
        self.shard.file_jobs.push((Owner::Client(self.client.conn), job, op));
    }

    /// Has the client's next request wait for an answer that this shard will have.
    pub(crate) fn await_file(&mut self) {
        let (index, silent) = (self.shard.index, self.client.reply_mode != ReplyMode::On);
        self.client.waiting.push_back(Waiting::Remote {
            shard: index as u16,
            read: false,
            blocking: true,
            silent,
        });
        self.shard.under_way[index] += 1;
    }

    /// Blocks the client; the handler writes no reply then.
    pub fn block(&mut self, blocked: Blocked) {
        if self.client.home.is_some() {
            self.client.blocked = Some(Box::new(blocked));
        } else {
            let silent = self.client.reply_mode != ReplyMode::On;
            self.shard.block(self.client, blocked, silent);
        }
    }

    /// Whether the command may block its client.
    pub fn may_block(&self) -> bool {
        !self.client.in_exec
    }

    /// What the other shards told for this command.
    pub fn reports(&mut self) -> Vec<Report> {
        self.client.survey.as_mut().map_or_else(Vec::new, |survey| survey.next())
    }

    /// The client's database.
    #[inline]
    pub fn db(&self) -> usize {
        self.client.db
    }
}

/// Finds the row of a request: of a subcommand, where its command has some.
///
/// # Errors
/// The texts about unknown commands, unknown subcommands and numbers of arguments.
#[inline]
pub fn resolve(
    args: Args<'_>,
    found: Option<&'static Entry>,
) -> Result<&'static Entry, CommandError> {
    let Some(mut entry) = found else { return Err(unknown_command(args)) };
    if !entry.command.subcommands.is_empty() && args.len() > 1 {
        entry = table()
            .find_subcommand(entry, args.get(1))
            .ok_or_else(|| unknown_subcommand_text(entry, args.get(1)))?;
    }
    if !entry.command.accepts(args.len()) {
        return Err(wrong_arity(entry));
    }
    Ok(entry)
}

/// Whether the command may run now.
///
/// # Errors
/// The text of the gate that is shut.
#[inline]
pub fn gates(
    entry: &Entry,
    client: &Client,
    keyspace: &Keyspace,
    shard: &ShardState,
) -> CommandResult {
    let command = entry.command;
    if !client.authenticated && shard.hot.password_required && !command.is(flag::NO_AUTH) {
        return Err(CommandError::new("NOAUTH Authentication required."));
    }
    if client.is_listening() && !command.is(flag::IN_SUBSCRIBED) {
        return Err(only_listening(entry));
    }
    if shard.hot.memory_max > 0 && needs_memory(entry, client) {
        let own = keyspace.own().map_or(0, |share| share.partition.memory().used as u64);
        if own + shard.process.used_by_others(shard.index) > shard.hot.memory_max {
            return Err(OUT_OF_MEMORY);
        }
    }
    Ok(())
}

/// Refuses a request before its handler runs.
pub fn reject(
    found: Option<&'static Entry>,
    error: &CommandError,
    reply: &mut Reply,
    client: &mut Client,
    shard: &mut ShardState,
) {
    let start = reply.len();
    client.survey = None;
    if let Some(entry) = found {
        shard.stats.commands[usize::from(entry.id)].rejected += 1;
    }
    if found.is_some_and(|entry| entry.command.is(flag::RUNS_QUEUE)) {
        // A transaction that cannot run is over.
        client.end_transaction();
        let why = error.0.strip_prefix(b"ERR ").unwrap_or(&error.0);
        let before = b"EXECABORT Transaction discarded because of: ";
        answer_error(&CommandError::text([before, why].concat()), reply, shard);
    } else {
        answer_error(error, reply, shard);
    }
    finish_reply(client, reply, start);
}

/// Runs a command whose row and gates have been looked at.
#[inline]
pub fn run(ctx: &mut CommandCtx<'_>) {
    let (entry, start) = (ctx.entry, ctx.reply.len());
    ctx.client.last_command = Some(entry);
    ctx.client.commands += 1;
    let result = (entry.command.run)(ctx);
    let end = clock::cycles();
    let cycles = clock::elapsed(ctx.shard.cycles, end);
    ctx.shard.cycles = end;
    ctx.shard.stats.ran(entry.id, cycles);
    if ctx.client.tracking.is_some() {
        track(ctx);
    }
    if let Err(error) = result {
        ctx.reply.truncate(start);
        ctx.shard.stats.commands[usize::from(entry.id)].failed += 1;
        answer_error(&error, ctx.reply, ctx.shard);
    }
    if ctx.shard.process.feed.is_read() {
        crate::monitor::feed(ctx);
    }
    if cycles >= ctx.shard.hot.slow_cycles && !entry.command.is(flag::SKIP_SLOWLOG) {
        record_slow(ctx, cycles);
    }
    if ctx.client.survey.is_some() && !ctx.client.in_exec {
        ctx.client.survey = None;
    }
    // Confirmations of subscriptions are pushes, which CLIENT REPLY does not silence.
    if !(entry.command.is(flag::PUBSUB) && entry.command.is(flag::IN_SUBSCRIBED)) {
        finish_reply(ctx.client, ctx.reply, start);
    }
}

/// Does what client-side caching asks for after a command.
#[cold]
fn track(ctx: &mut CommandCtx<'_>) {
    let remembers = ctx.client.tracking.as_ref().is_some_and(|tracking| tracking.remembers());
    if remembers && ctx.entry.command.is(flag::READONLY) {
        crate::tracking::remember_keys(ctx);
    }
    if !ctx.entry.command.is(flag::KEEPS_CACHING)
        && ctx.client.multi.is_none()
        && !ctx.client.in_exec
    {
        ctx.client.end_caching();
    }
}

#[cold]
fn record_slow(ctx: &mut CommandCtx<'_>, cycles: u64) {
    let slow = Slow {
        args: ctx.args,
        redacted: ctx.redacted,
        unix_s: ctx.shard.now_us / 1_000_000,
        duration_us: clock::to_us(cycles),
        address: ctx.client.shown_address(),
        name: ctx.client.shown_name(),
    };
    ctx.shard.process.slow_log().record(&slow, ctx.shard.hot.slow_log_len_max);
}

#[cold]
pub(crate) fn answer_error(error: &CommandError, reply: &mut Reply, shard: &mut ShardState) {
    reply.error(&error.0);
    if shard.stats.error(error.code()) {
        crate::warning!(
            "Errorstats stopped adding new errors because the number of errors reached the limit \
             ({}).",
            crate::stats::ERROR_CODES_MAX
        );
    }
}

/// Takes the reply back where CLIENT REPLY asked for silence.
#[inline]
pub(crate) fn finish_reply(client: &mut Client, reply: &mut Reply, start: usize) {
    match client.reply_mode {
        ReplyMode::On => {}
        ReplyMode::Off => reply.truncate(start),
        ReplyMode::SkipNext => {
            reply.truncate(start);
            client.reply_mode = ReplyMode::Skip;
        }
        ReplyMode::Skip => {
            reply.truncate(start);
            client.reply_mode = ReplyMode::On;
        }
    }
}

/// The handler of containers: runs for a container without subcommand words, which its arity
/// forbids.
///
/// # Errors
/// Always: the text about the number of arguments.
pub fn unknown_subcommand(ctx: &mut CommandCtx<'_>) -> CommandResult {
    Err(wrong_arity(ctx.entry))
}

/// Whether a command, or one of the transaction that it runs, may need memory.
fn needs_memory(entry: &Entry, client: &Client) -> bool {
    let mut queued = client.queue_of(entry).iter();
    entry.command.is(flag::DENYOOM) || queued.any(|it| it.entry.command.is(flag::DENYOOM))
}

#[cold]
fn only_listening(entry: &Entry) -> CommandError {
    CommandError::text(format!(
        "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
         allowed in this context",
        entry.name
    ))
}

/// The text about a subcommand that a command does not know, or not with so many arguments.
pub fn subcommand_syntax(ctx: &CommandCtx<'_>) -> CommandError {
    let before = "ERR unknown subcommand or wrong number of arguments for '";
    let command = String::from_utf8_lossy(ctx.args.get(0)).to_ascii_uppercase();
    let word = cut(ctx.args.get(1), REPEATED_MAX);
    CommandError::naming(before, word, &format!("'. Try {command} HELP."))
}

/// The text about a number of arguments that does not fit.
pub fn wrong_arity(entry: &Entry) -> CommandError {
    CommandError::text(format!("ERR wrong number of arguments for '{}' command", entry.name))
}

fn unknown_subcommand_text(entry: &Entry, word: &[u8]) -> CommandError {
    let after = format!("'. Try {} HELP.", entry.command.name.to_uppercase());
    CommandError::naming("ERR unknown subcommand '", cut(word, REPEATED_MAX), &after)
}

fn cut(bytes: &[u8], len_max: usize) -> &[u8] {
    &bytes[..bytes.len().min(len_max)]
}

#[cold]
fn unknown_command(args: Args<'_>) -> CommandError {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(c_string(cut(args.get(0), REPEATED_MAX)));
    text.extend_from_slice(b"', with args beginning with: ");
    let mut room = REPEATED_MAX;
    for arg in args.from(1) {
        if room == 0 {
            break;
        }
        let shown = c_string(cut(arg, room));
        text.push(b'\'');
        text.extend_from_slice(shown);
        text.extend_from_slice(b"' ");
        room = room.saturating_sub(shown.len() + 3);
    }
    CommandError::text(text)
}
