//! XGROUP, and acknowledging: XACK, XACKDEL.

use engine::{Deletion, Stream, StreamId};

use super::id;
use super::{answer_deletions, group_missing, parse_deletion};
use crate::command::dispatch::{CommandCtx, CommandResult, subcommand_syntax};
use crate::command::error::CommandError;

/// Lines of XGROUP HELP.
const HELP: &[&str] = &[
    "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CREATE <key> <group> <id|$> [MKSTREAM] [ENTRIESREAD <count>]",
    "    Make a group that is given the entries behind <id>. MKSTREAM makes the stream, too,",
    "    if it is missing; ENTRIESREAD tells how many entries there were up to <id>.",
    "CREATECONSUMER <key> <group> <consumer>",
    "    Make a consumer of a group.",
    "DELCONSUMER <key> <group> <consumer>",
    "    Take a consumer away, with what is pending for it.",
    "DESTROY <key> <group>",
    "    Take a group away.",
    "SETID <key> <group> <id|$> [ENTRIESREAD <count>]",
    "    Set the last entry that a group was given.",
    "HELP",
    "    Print this help.",
];

pub(super) fn help(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.reply.lines(HELP);
    Ok(())
}

/// The options of XGROUP CREATE and SETID.
struct Options {
    makes_stream: bool,
    entries_read: Option<u64>,
}

impl Options {
    fn parse(ctx: &CommandCtx<'_>, is_create: bool) -> Result<Self, CommandError> {
        const NEGATIVE: CommandError =
            CommandError::new("ERR value for ENTRIESREAD must be positive or -1");
        /// All arguments of a request at most, each option once.
        const ARGS_MAX: usize = 8;
        let mut options = Self { makes_stream: false, entries_read: None };
        let mut cursor = ctx.args.cursor(5);
        while cursor.remaining() > 0 {
            if is_create && cursor.accept("mkstream") {
                options.makes_stream = true;
            } else if cursor.accept_with_value("entriesread").is_some() {
                options.entries_read = match ctx.args.integer(cursor.position() - 1)? {
                    -1 => None,
                    count => Some(u64::try_from(count).map_err(|_| NEGATIVE)?),
                };
            } else {
                return Err(subcommand_syntax(ctx));
            }
        }
        if ctx.args.len() > ARGS_MAX - usize::from(!is_create) {
            return Err(subcommand_syntax(ctx));
        }
        Ok(options)
    }
}

/// What a new place of a group depends on.
#[derive(Clone, Copy, Default)]
struct Past {
    last_id: StreamId,
    entries_added: u64,
}

impl Past {
    fn of(stream: &Stream<'_>) -> Self {
        Self { last_id: stream.last_id(), entries_added: stream.entries_added() }
    }

    /// The place that arguments name: an id, or `$`, and how many entries there were up to it.
    fn place(
        self,
        text: &[u8],
        entries_read: Option<u64>,
        id: impl Fn(&[u8], u64) -> Result<StreamId, CommandError>,
    ) -> Result<(StreamId, Option<u64>), CommandError> {
        let last_id = if text == b"$" { self.last_id } else { id(text, 0)? };
        Ok((last_id, entries_read.map(|read| read.min(self.entries_added))))
    }
}

/// What the stream at argument 2, which must be there, knows of its past.
fn stream_past(ctx: &mut CommandCtx<'_>) -> Result<Past, CommandError> {
    const NO_KEY: CommandError = CommandError::new(
        "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want \
         to use the MKSTREAM option to create an empty stream automatically.",
    );
    let (key, db) = (ctx.key(2), ctx.client.db);
    let stream = ctx.keyspace.stream_look(db, &key)?.ok_or(NO_KEY)?;
    Ok(Past::of(&stream))
}

/// Refuses a group at arguments 2 and 3 that is not there; else as [`stream_past`].
fn check_group(ctx: &mut CommandCtx<'_>) -> Result<Past, CommandError> {
    let past = stream_past(ctx)?;
    let (key, db, group) = (ctx.key(2), ctx.client.db, ctx.args.get(3));
    let found = ctx.keyspace.stream_look(db, &key)?.and_then(|stream| stream.group(group));
    if found.is_none() {
        return Err(group_missing(group, key.bytes));
    }
    Ok(past)
}

pub(super) fn create(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let options = Options::parse(ctx, true)?;
    let (key, db, args) = (ctx.key(2), ctx.client.db, ctx.args);
    let past = if options.makes_stream {
        let stream = ctx.keyspace.stream_look(db, &key)?;
        stream.map_or(Past::default(), |stream| Past::of(&stream))
    } else {
        stream_past(ctx)?
    };
    let (last_id, read) = past.place(args.get(4), options.entries_read, id::strict)?;
    if !ctx.keyspace.group_create(db, &key, args.get(3), last_id, read)? {
        return Err(CommandError::new("BUSYGROUP Consumer Group name already exists"));
    }
    ctx.reply.ok();
    Ok(())
}

pub(super) fn setid(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let options = Options::parse(ctx, false)?;
    let past = check_group(ctx)?;
    let (key, db, args) = (ctx.key(2), ctx.client.db, ctx.args);
    let (last_id, read) = past.place(args.get(4), options.entries_read, id::any)?;
    ctx.keyspace.group_set_id(db, &key, args.get(3), last_id, read)?;
    ctx.reply.ok();
    Ok(())
}

pub(super) fn destroy(ctx: &mut CommandCtx<'_>) -> CommandResult {
    stream_past(ctx)?;
    let (key, db, group) = (ctx.key(2), ctx.client.db, ctx.args.get(3));
    let gone = ctx.keyspace.group_destroy(db, &key, group)?;
    ctx.reply.integer(i64::from(gone));
    Ok(())
}

pub(super) fn createconsumer(ctx: &mut CommandCtx<'_>) -> CommandResult {
    check_group(ctx)?;
    let (key, db, args) = (ctx.key(2), ctx.client.db, ctx.args);
    let is_new = ctx.keyspace.consumer_create(db, &key, args.get(3), args.get(4))?;
    ctx.reply.integer(i64::from(is_new));
    Ok(())
}

pub(super) fn delconsumer(ctx: &mut CommandCtx<'_>) -> CommandResult {
    check_group(ctx)?;
    let (key, db, args) = (ctx.key(2), ctx.client.db, ctx.args);
    let pending = ctx.keyspace.consumer_delete(db, &key, args.get(3), args.get(4))?;
    ctx.reply.count(pending.unwrap_or(0));
    Ok(())
}

/// Whether there is a group at arguments 1 and 2.
fn has_group(ctx: &mut CommandCtx<'_>) -> Result<bool, CommandError> {
    let (key, db, group) = (ctx.key(1), ctx.client.db, ctx.args.get(2));
    let stream = ctx.keyspace.stream(db, &key)?;
    Ok(stream.is_some_and(|stream| stream.group(group).is_some()))
}

pub(super) fn xack(ctx: &mut CommandCtx<'_>) -> CommandResult {
    if !has_group(ctx)? {
        ctx.reply.integer(0);
        return Ok(());
    }
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let ids = id::list(args, 3..args.len())?;
    let gone = ctx.keyspace.stream_ack(db, &key, args.get(2), &ids)?;
    ctx.reply.count(gone.len());
    Ok(())
}

pub(super) fn xackdel(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let has_group = has_group(ctx)?;
    let (references, ids) = parse_deletion(ctx, 3)?;
    if !has_group {
        answer_deletions(ctx.reply, ids.len(), None);
        return Ok(());
    }
    let (key, db, group) = (ctx.key(1), ctx.client.db, ctx.args.get(2));
    let ids = id::list(ctx.args, ids)?;
    let gone = ctx.keyspace.stream_ack(db, &key, group, &ids)?;
    let done = ctx.keyspace.stream_delete(db, &key, &gone, references)?.unwrap_or_default();
    let mut left = gone.iter().zip(done).peekable();
    let done = ids.iter().map(|id| {
        let (_, done) = left.next_if(|(gone, _)| *gone == id)?;
        // What was pending and is not there any more is gone all the same.
        Some(if done == Deletion::Referenced { done } else { Deletion::Deleted })
    });
    let done: Vec<Deletion> = done.map(|done| done.unwrap_or(Deletion::Missing)).collect();
    answer_deletions(ctx.reply, ids.len(), Some(&done));
    Ok(())
}
