//! Stream commands.
//!
//! This file holds the rows and what reads and deletes entries; XADD and XTRIM stand in `add.rs`, what
//! waits for entries in `read.rs`, groups in `group.rs`, what is pending in them in `pending.rs`, XINFO
//! in `info.rs`.

mod add;
mod group;
mod id;
mod info;
mod pending;
mod read;
mod reply;

pub use read::Read;

use std::ops::Range;

use engine::{Deletion, References, StreamId};

use super::dispatch::{CommandCtx, CommandResult};
use super::error::{CommandError, NO_SUCH_KEY, SYNTAX, c_string};
use super::spec::{Command, Family, Group, KeySpec, Keyword, Reach, acl, flag, key_flag as key};
use crate::resp::Reply;

/// What the keys of XREAD and XREADGROUP stand behind, and what may stand before that.
const STREAMS: Keyword = Keyword {
    word: "STREAMS",
    options: &[("block", 1), ("count", 1), ("group", 2), ("noack", 0)],
    reach: Reach::Half,
};
const READ_MANY: &[KeySpec] = &[KeySpec::behind(STREAMS, 1, key::RO | key::ACCESS)];
const READ_GROUP: &[KeySpec] = &[KeySpec::behind(STREAMS, 4, key::RO | key::ACCESS)];
const READ: &[KeySpec] = &[KeySpec::one(1, key::RO | key::ACCESS)];
const LOOK: &[KeySpec] = &[KeySpec::one(1, key::RO)];
const UPDATE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::UPDATE)];
const REMOVE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::DELETE)];
const ACK_REMOVE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::UPDATE | key::DELETE)];
const SUB_READ: &[KeySpec] = &[KeySpec::one(2, key::RO | key::ACCESS)];
const SUB_INSERT: &[KeySpec] = &[KeySpec::one(2, key::RW | key::INSERT)];
const SUB_UPDATE: &[KeySpec] = &[KeySpec::one(2, key::RW | key::UPDATE)];
const SUB_REMOVE: &[KeySpec] = &[KeySpec::one(2, key::RW | key::DELETE)];

const FAST_WRITE: u32 = flag::WRITE | flag::FAST;
const FAST_GROWTH: u32 = FAST_WRITE | flag::DENYOOM;
const WAITS: u32 = flag::BLOCKING | flag::MOVABLE_KEYS;

const NONDETERMINISTIC: &[&str] = &["nondeterministic_output"];

const STREAM: Family = Family { group: Group::Stream, categories: acl::STREAM };

/// The rows of this family.
#[rustfmt::skip]
pub const COMMANDS: &[Command] = &[
    STREAM.row("xadd", -5, FAST_GROWTH, add::xadd, UPDATE, "5.0.0",
        "O(1), and O(N) with the entries trimmed",
        "Adds an entry to a stream, which it creates if needed.")
        .tips(NONDETERMINISTIC),
    STREAM.row("xtrim", -4, flag::WRITE, add::xtrim, REMOVE, "5.0.0",
        "O(N) with the entries trimmed",
        "Takes the oldest entries of a stream away.")
        .tips(NONDETERMINISTIC),
    STREAM.row("xlen", 2, flag::READONLY | flag::FAST, xlen, LOOK, "5.0.0", "O(1)",
        "Counts the entries of a stream."),
    STREAM.row("xrange", -4, flag::READONLY, xrange, READ, "5.0.0",
        "O(N) with the entries answered",
        "Reads the entries of a stream from one id to another."),
    STREAM.row("xrevrange", -4, flag::READONLY, xrevrange, READ, "5.0.0",
        "O(N) with the entries answered",
        "Reads the entries of a stream from one id back to another."),
    STREAM.row("xdel", -3, FAST_WRITE, xdel, REMOVE, "5.0.0", "O(1) for each entry",
        "Deletes entries of a stream."),
    STREAM.row("xdelex", -5, FAST_WRITE, xdelex, REMOVE, "8.2.0", "O(1) for each entry",
        "Deletes entries of a stream, with or without what groups know of them."),
    STREAM.row("xsetid", -3, FAST_GROWTH, xsetid, UPDATE, "5.0.0", "O(1)",
        "Sets what a stream knows of its past: its last id, and what it ever had."),
    STREAM.row("xread", -4, flag::READONLY | WAITS, read::xread, READ_MANY, "5.0.0",
        "O(N) with the entries answered",
        "Reads what several streams have behind given ids, or waits for it."),
    STREAM.row("xreadgroup", -7, flag::WRITE | WAITS, read::xreadgroup, READ_GROUP, "5.0.0",
        "O(N) with the entries answered",
        "Reads as a member of a group what it has not been given yet, or what is pending for this \
         consumer, or waits for something new."),
    STREAM.row("xack", -4, FAST_WRITE, group::xack, UPDATE, "5.0.0", "O(1) for each entry",
        "Tells that entries that a group was given are done with."),
    STREAM.row("xackdel", -6, FAST_WRITE, group::xackdel, ACK_REMOVE, "8.2.0",
        "O(1) for each entry",
        "Tells that entries that a group was given are done with, and deletes them."),
    STREAM.row("xpending", -3, flag::READONLY, pending::xpending, READ, "5.0.0",
        "O(N) with the entries answered, or with the consumers",
        "Tells what a group was given and is not done with.")
        .tips(NONDETERMINISTIC),
    STREAM.row("xclaim", -6, FAST_WRITE, pending::xclaim, UPDATE, "5.0.0",
        "O(log N) with what is pending, for each entry",
        "Gives a consumer entries that another one was given.")
        .tips(NONDETERMINISTIC),
    STREAM.row("xautoclaim", -6, FAST_WRITE, pending::xautoclaim, REMOVE, "6.2.0",
        "O(1) for a fixed number of entries",
        "Gives a consumer entries that others have had for long.")
        .tips(NONDETERMINISTIC),
    Command::container("xgroup", XGROUP).docs(Group::Stream, "5.0.0", "Depends on the subcommand.",
        "Groups of consumers."),
    Command::container("xinfo", XINFO).docs(Group::Stream, "5.0.0", "Depends on the subcommand.",
        "What streams, groups and consumers are like."),
];

#[rustfmt::skip]
const XGROUP: &[Command] = &[
    STREAM.row("create", -5, flag::WRITE | flag::DENYOOM, group::create, SUB_INSERT, "5.0.0",
        "O(1)", "Makes a group."),
    STREAM.row("createconsumer", 5, flag::WRITE | flag::DENYOOM, group::createconsumer, SUB_INSERT,
        "6.2.0", "O(1)", "Makes a consumer of a group."),
    STREAM.row("delconsumer", 5, flag::WRITE, group::delconsumer, SUB_REMOVE, "5.0.0",
        "O(1), and O(N) with what is pending for it",
        "Takes a consumer away, with what is pending for it."),
    STREAM.row("destroy", 4, flag::WRITE, group::destroy, SUB_REMOVE, "5.0.0",
        "O(N) with what is pending", "Takes a group away."),
    STREAM.row("setid", -5, flag::WRITE, group::setid, SUB_UPDATE, "5.0.0", "O(1)",
        "Sets the last entry that a group was given."),
    STREAM.row("help", 2, flag::LOADING | flag::STALE, group::help, &[], "5.0.0", "O(1)",
        "Lists the subcommands."),
];

#[rustfmt::skip]
const XINFO: &[Command] = &[
    STREAM.row("consumers", 4, flag::READONLY, info::consumers, SUB_READ, "5.0.0",
        "O(1) for each consumer", "Lists the consumers of a group.")
        .tips(NONDETERMINISTIC),
    STREAM.row("groups", 3, flag::READONLY, info::groups, SUB_READ, "5.0.0",
        "O(1) for each group", "Lists the groups of a stream."),
    STREAM.row("stream", -3, flag::READONLY, info::stream, SUB_READ, "5.0.0",
        "O(1), and O(N) with the packed nodes",
        "Describes a stream, with its entries and groups if asked."),
    STREAM.row("help", 2, flag::LOADING | flag::STALE, info::help, &[], "5.0.0", "O(1)",
        "Lists the subcommands."),
];

fn xlen(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db) = (ctx.key(1), ctx.client.db);
    let len = ctx.keyspace.stream(db, &key)?.map_or(0, |stream| stream.len());
    ctx.reply.count(len);
    Ok(())
}

/// Reads `COUNT count` behind a range: none is all, nothing positive is none.
fn range_count(ctx: &CommandCtx<'_>) -> Result<Option<usize>, CommandError> {
    let mut count = None;
    let mut cursor = ctx.args.cursor(4);
    while cursor.remaining() > 0 {
        let text = cursor.accept_with_value("count").ok_or(SYNTAX)?;
        let number = encodings::integer::parse_i64(text).ok_or(super::error::NOT_AN_INTEGER)?;
        count = Some(usize::try_from(number).unwrap_or(0));
    }
    Ok(count)
}

fn range(ctx: &mut CommandCtx<'_>, is_back: bool) -> CommandResult {
    let (first, last) = if is_back { (3, 2) } else { (2, 3) };
    let start = id::start(ctx.args.get(first))?;
    let end = id::end(ctx.args.get(last))?;
    let count = range_count(ctx)?;
    let (key, db) = (ctx.key(1), ctx.client.db);
    let Some(stream) = ctx.keyspace.stream(db, &key)? else {
        ctx.reply.array(0);
        return Ok(());
    };
    match count {
        Some(0) => ctx.reply.null_array(),
        count => {
            let count = count.unwrap_or(usize::MAX);
            if is_back {
                reply::answer_entries(ctx.reply, stream.range_back(start, end), count);
            } else {
                reply::answer_entries(ctx.reply, stream.range(start, end), count);
            }
        }
    }
    Ok(())
}

fn xrange(ctx: &mut CommandCtx<'_>) -> CommandResult {
    range(ctx, false)
}

fn xrevrange(ctx: &mut CommandCtx<'_>) -> CommandResult {
    range(ctx, true)
}

/// The text about a key or a group that is not there: what is missing with its name, and the same of
/// the other one.
fn no_group(first: &str, name: &[u8], second: &str, other: &[u8], after: &str) -> CommandError {
    CommandError::text(
        [
            b"NOGROUP ",
            first.as_bytes(),
            b" '",
            c_string(name),
            b"' or ",
            second.as_bytes(),
            b" '",
            c_string(other),
            b"'",
            after.as_bytes(),
        ]
        .concat(),
    )
}

/// The text about a key, or a group of it, that is not there.
fn key_or_group_missing(key: &[u8], group: &[u8]) -> CommandError {
    no_group("No such key", key, "consumer group", group, "")
}

/// The text about a group that the stream at a key does not have.
fn group_missing(group: &[u8], key: &[u8]) -> CommandError {
    CommandError::text(
        [
            b"NOGROUP No such consumer group '",
            c_string(group),
            b"' for key name '",
            c_string(key),
            b"'",
        ]
        .concat(),
    )
}

fn xdel(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    if ctx.keyspace.stream_look(db, &key)?.is_none() {
        ctx.reply.integer(0);
        return Ok(());
    }
    let ids = id::list(args, 2..args.len())?;
    let done = ctx.keyspace.stream_delete(db, &key, &ids, References::Keep)?.unwrap_or_default();
    ctx.reply.count(done.iter().filter(|done| **done == Deletion::Deleted).count());
    Ok(())
}

/// Reads `[KEEPREF | DELREF | ACKED] IDS count id ...` from an argument on; tells where the ids are.
fn parse_deletion(
    ctx: &CommandCtx<'_>,
    first: usize,
) -> Result<(References, Range<usize>), CommandError> {
    const NO_COUNT: CommandError =
        CommandError::new("ERR Number of IDs must be a positive integer");
    const OTHER_COUNT: CommandError =
        CommandError::new("ERR The `numids` parameter must match the number of arguments");
    let (args, mut references, mut ids) = (ctx.args, None, None);
    let mut at = first;
    while at < args.len() {
        if references.is_none() && add::references(args, at).is_some() {
            references = add::references(args, at);
            at += 1;
        } else if ids.is_none() && at + 1 < args.len() && args.is(at, "ids") {
            let count = encodings::integer::parse_i64(args.get(at + 1));
            let count = count.and_then(|count| usize::try_from(count).ok());
            let count = count.filter(|count| *count > 0).ok_or(NO_COUNT)?;
            let end = count.checked_add(at + 2).filter(|end| *end <= args.len());
            let end = end.ok_or(OTHER_COUNT)?;
            ids = Some(at + 2..end);
            at = end;
        } else {
            return Err(SYNTAX);
        }
    }
    Ok((references.unwrap_or_default(), ids.ok_or(SYNTAX)?))
}

/// Answers what became of entries; without any of them where nothing is known of their stream.
fn answer_deletions(reply: &mut Reply, count: usize, done: Option<&[Deletion]>) {
    reply.array(count);
    for index in 0..count {
        reply.integer(match done.map(|done| done[index]) {
            Some(Deletion::Deleted) => 1,
            Some(Deletion::Referenced) => 2,
            Some(Deletion::Missing) | None => -1,
        });
    }
}

fn xdelex(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let is_there = ctx.keyspace.stream_look(db, &key)?.is_some();
    let (references, ids) = parse_deletion(ctx, 2)?;
    let count = ids.len();
    let done = match is_there {
        true => {
            let ids = id::list(args, ids)?;
            ctx.keyspace.stream_delete(db, &key, &ids, references)?
        }
        false => None,
    };
    answer_deletions(ctx.reply, count, done.as_deref());
    Ok(())
}

/// What XSETID sets.
struct Past {
    last_id: StreamId,
    entries_added: Option<u64>,
    max_deleted_id: Option<StreamId>,
}

impl Past {
    fn parse(ctx: &CommandCtx<'_>) -> Result<Self, CommandError> {
        const BEFORE_DELETED: CommandError = CommandError::new(
            "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
        );
        let last_id = id::strict(ctx.args.get(2), 0)?;
        let mut past = Self { last_id, entries_added: None, max_deleted_id: None };
        let mut cursor = ctx.args.cursor(3);
        while cursor.remaining() > 0 {
            if cursor.accept_with_value("entriesadded").is_some() {
                let count = ctx.args.integer(cursor.position() - 1)?;
                let negative = CommandError::new("ERR entries_added must be positive");
                past.entries_added = Some(u64::try_from(count).map_err(|_| negative)?);
            } else if let Some(text) = cursor.accept_with_value("maxdeletedid") {
                let id = id::strict(text, 0)?;
                if last_id < id {
                    return Err(BEFORE_DELETED);
                }
                past.max_deleted_id = Some(id);
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(past)
    }
}

fn xsetid(ctx: &mut CommandCtx<'_>) -> CommandResult {
    const BEFORE_DELETED: CommandError = CommandError::new(
        "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id",
    );
    const BEFORE_LAST: CommandError = CommandError::new(
        "ERR The ID specified in XSETID is smaller than the target stream top item",
    );
    const TOO_FEW: CommandError = CommandError::new(
        "ERR The entries_added specified in XSETID is smaller than the target stream length",
    );
    let past = Past::parse(ctx)?;
    let (key, db) = (ctx.key(1), ctx.client.db);
    let stream = ctx.keyspace.stream_look(db, &key)?.ok_or(NO_SUCH_KEY)?;
    if past.last_id < stream.max_deleted_id() {
        return Err(BEFORE_DELETED);
    }
    if let Some(last) = stream.range_back(StreamId::MIN, StreamId::MAX).next() {
        if past.last_id < last.id {
            return Err(BEFORE_LAST);
        }
        if past.entries_added.is_some_and(|added| added < stream.len() as u64) {
            return Err(TOO_FEW);
        }
    }
    let entries_added = past.entries_added.unwrap_or(stream.entries_added());
    let max_deleted_id = past.max_deleted_id.filter(|id| *id != StreamId::MIN);
    let max_deleted_id = max_deleted_id.unwrap_or(stream.max_deleted_id());
    ctx.keyspace.stream_set_id(db, &key, past.last_id, entries_added, max_deleted_id)?;
    ctx.reply.ok();
    Ok(())
}
