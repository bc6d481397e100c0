//! Stream commands.
//!
//! This file holds the rows and what reads and deletes entries; XADD and XTRIM stand in `add.rs`, what
//! waits for entries in `read.rs`.

mod add;
mod id;
mod reply;

use super::dispatch::{CommandCtx, CommandResult};
use super::error::{CommandError, SYNTAX};
use super::spec::{Command, Family, Group, KeySpec, acl, flag, key_flag as key};

const READ: &[KeySpec] = &[KeySpec::one(1, key::RO | key::ACCESS)];
const LOOK: &[KeySpec] = &[KeySpec::one(1, key::RO)];
const UPDATE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::UPDATE)];
const REMOVE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::DELETE)];

const FAST_WRITE: u32 = flag::WRITE | flag::FAST;
const FAST_GROWTH: u32 = FAST_WRITE | flag::DENYOOM;

const STREAM: Family = Family { group: Group::Stream, categories: acl::STREAM };

/// The rows of this family.
#[rustfmt::skip]
pub const COMMANDS: &[Command] = &[
    STREAM.row("xadd", -5, FAST_GROWTH, add::xadd, UPDATE, "5.0.0",
        "O(1), and O(N) with the entries trimmed",
        "Adds an entry to a stream, which it creates if needed.")
        .tips(&["nondeterministic_output"]),
    STREAM.row("xtrim", -4, flag::WRITE, add::xtrim, REMOVE, "5.0.0",
        "O(N) with the entries trimmed",
        "Takes the oldest entries of a stream away.")
        .tips(&["nondeterministic_output"]),
    STREAM.row("xlen", 2, flag::READONLY | flag::FAST, xlen, LOOK, "5.0.0", "O(1)",
        "Counts the entries of a stream."),
    STREAM.row("xrange", -4, flag::READONLY, xrange, READ, "5.0.0",
        "O(N) with the entries answered",
        "Reads the entries of a stream from one id to another."),
    STREAM.row("xrevrange", -4, flag::READONLY, xrevrange, READ, "5.0.0",
        "O(N) with the entries answered",
        "Reads the entries of a stream from one id back to another."),
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
