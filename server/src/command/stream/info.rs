//! XINFO.

use engine::{Group, Stream, StreamId};

use super::group_missing;
use super::reply::{answer_entries, answer_entry, answer_id};
use crate::command::dispatch::{CommandCtx, CommandResult, subcommand_syntax};
use crate::command::error::{CommandError, NO_SUCH_KEY};
use crate::resp::Reply;

/// Lines of XINFO HELP.
const HELP: &[&str] = &[
    "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CONSUMERS <key> <group>",
    "    List the consumers of a group.",
    "GROUPS <key>",
    "    List the groups of a stream.",
    "STREAM <key> [FULL [COUNT <count>]]",
    "    Describe a stream; with FULL also its entries, and what is pending in its groups.",
    "HELP",
    "    Print this help.",
];

pub(super) fn help(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.reply.lines(HELP);
    Ok(())
}

fn pair(reply: &mut Reply, name: &str, count: u64) {
    reply.bulk(name.as_bytes());
    reply.integer(count as i64);
}

fn id_pair(reply: &mut Reply, name: &str, id: StreamId) {
    reply.bulk(name.as_bytes());
    answer_id(reply, id);
}

fn known_pair(reply: &mut Reply, name: &str, count: Option<i64>) {
    reply.bulk(name.as_bytes());
    match count {
        Some(count) => reply.integer(count),
        None => reply.null(),
    }
}

/// How many entries FULL answers of each list; `None` without FULL.
fn full_count(ctx: &CommandCtx<'_>) -> Result<Option<usize>, CommandError> {
    const COUNT_WITHOUT: usize = 10;
    let args = ctx.args;
    let is_full = |args: crate::command::args::Args<'_>| args.is(3, "full");
    match args.len() {
        3 => Ok(None),
        4 if is_full(args) => Ok(Some(COUNT_WITHOUT)),
        6 if is_full(args) && args.is(4, "count") => Ok(Some(match args.integer(5)? {
            0 => usize::MAX,
            count => usize::try_from(count).unwrap_or(COUNT_WITHOUT),
        })),
        _ => Err(subcommand_syntax(ctx)),
    }
}

pub(super) fn stream(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db) = (ctx.key(2), ctx.client.db);
    ctx.keyspace.stream(db, &key)?.ok_or(NO_SUCH_KEY)?;
    let full = full_count(ctx)?;
    let Some(stream) = ctx.keyspace.stream_look(db, &key)? else { return Ok(()) };
    let reply = &mut *ctx.reply;
    reply.map(if full.is_some() { 9 } else { 10 });
    pair(reply, "length", stream.len() as u64);
    pair(reply, "radix-tree-keys", stream.nodes_len() as u64);
    pair(reply, "radix-tree-nodes", radix_nodes(&stream));
    id_pair(reply, "last-generated-id", stream.last_id());
    id_pair(reply, "max-deleted-entry-id", stream.max_deleted_id());
    pair(reply, "entries-added", stream.entries_added());
    id_pair(reply, "recorded-first-entry-id", stream.first_id());
    match full {
        None => answer_ends(reply, &stream),
        Some(count) => answer_full(reply, &stream, count),
    }
    Ok(())
}

fn answer_ends(reply: &mut Reply, stream: &Stream<'_>) {
    pair(reply, "groups", stream.groups_len() as u64);
    let first = stream.range(StreamId::MIN, StreamId::MAX).next();
    let last = stream.range_back(StreamId::MIN, StreamId::MAX).next();
    for (name, entry) in [("first-entry", first), ("last-entry", last)] {
        reply.bulk(name.as_bytes());
        match entry {
            Some(entry) => answer_entry(reply, entry),
            None => reply.null(),
        }
    }
}

fn answer_full(reply: &mut Reply, stream: &Stream<'_>, count: usize) {
    reply.bulk(b"entries");
    answer_entries(reply, stream.range(StreamId::MIN, StreamId::MAX), count);
    reply.bulk(b"groups");
    reply.array(stream.groups_len());
    for group in stream.groups() {
        reply.map(7);
        reply.bulk(b"name");
        reply.bulk(group.name());
        answer_progress(reply, stream, group);
        pair(reply, "pel-count", group.pending_len() as u64);
        reply.bulk(b"pending");
        reply.array(group.pending_len().min(count));
        for (id, pending) in group.pending_from(StreamId::MIN).take(count) {
            reply.array(4);
            answer_id(reply, id);
            reply.bulk(group.consumer_of(pending).name());
            reply.integer(pending.delivered_ms as i64);
            reply.integer(pending.deliveries as i64);
        }
        answer_full_consumers(reply, group, count);
    }
}

fn answer_progress(reply: &mut Reply, stream: &Stream<'_>, group: &Group) {
    id_pair(reply, "last-delivered-id", group.last_id());
    known_pair(reply, "entries-read", group.entries_read().map(u64::cast_signed));
    known_pair(reply, "lag", stream.lag(group));
}

fn answer_full_consumers(reply: &mut Reply, group: &Group, count: usize) {
    reply.bulk(b"consumers");
    reply.array(group.consumers_len());
    for consumer in group.consumers() {
        reply.map(5);
        reply.bulk(b"name");
        reply.bulk(consumer.name());
        pair(reply, "seen-time", consumer.seen_ms);
        known_time(reply, "active-time", consumer.active_ms);
        pair(reply, "pel-count", consumer.pending_len() as u64);
        reply.bulk(b"pending");
        reply.array(consumer.pending_len().min(count));
        for id in consumer.pending_from(StreamId::MIN).take(count) {
            let pending = group.pending(id);
            reply.array(3);
            answer_id(reply, id);
            reply.integer(pending.map_or(0, |pending| pending.delivered_ms as i64));
            reply.integer(pending.map_or(0, |pending| pending.deliveries as i64));
        }
    }
}

/// A time or a duration that is -1 if it never was.
fn known_time(reply: &mut Reply, name: &str, ms: Option<u64>) {
    reply.bulk(name.as_bytes());
    reply.integer(ms.map_or(-1, u64::cast_signed));
}

pub(super) fn groups(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db) = (ctx.key(2), ctx.client.db);
    let stream = ctx.keyspace.stream(db, &key)?.ok_or(NO_SUCH_KEY)?;
    ctx.reply.array(stream.groups_len());
    for group in stream.groups() {
        ctx.reply.map(6);
        ctx.reply.bulk(b"name");
        ctx.reply.bulk(group.name());
        pair(ctx.reply, "consumers", group.consumers_len() as u64);
        pair(ctx.reply, "pending", group.pending_len() as u64);
        answer_progress(ctx.reply, &stream, group);
    }
    Ok(())
}

pub(super) fn consumers(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, group) = (ctx.key(2), ctx.client.db, ctx.args.get(3));
    let now_ms = ctx.keyspace.now_ms();
    let stream = ctx.keyspace.stream(db, &key)?.ok_or(NO_SUCH_KEY)?;
    let group = stream.group(group).ok_or_else(|| group_missing(group, key.bytes))?;
    ctx.reply.array(group.consumers_len());
    for consumer in group.consumers() {
        ctx.reply.map(4);
        ctx.reply.bulk(b"name");
        ctx.reply.bulk(consumer.name());
        pair(ctx.reply, "pending", consumer.pending_len() as u64);
        pair(ctx.reply, "idle", now_ms.saturating_sub(consumer.seen_ms));
        let inactive = consumer.active_ms.map(|ms| now_ms.saturating_sub(ms));
        known_time(ctx.reply, "inactive", inactive);
    }
    Ok(())
}

/// How many nodes Redis's radix tree has over the ids of the packed nodes: for each place where ids
/// part one for the branches, and one for what they share on the way there; one for each end.
fn radix_nodes(stream: &Stream<'_>) -> u64 {
    let keys: Vec<[u8; 16]> = stream.node_ids().map(StreamId::to_bytes).collect();
    if keys.is_empty() {
        return 1;
    }
    let (mut nodes, mut parts) = (0, vec![(&keys[..], 0)]);
    while let Some((keys, depth)) = parts.pop() {
        let (first, last) = (&keys[0], &keys[keys.len() - 1]);
        let shared = (depth..first.len()).take_while(|at| first[*at] == last[*at]).count();
        let end = depth + shared;
        nodes += 1 + u64::from(shared > 0);
        if end < first.len() {
            parts.extend(keys.chunk_by(|a, b| a[end] == b[end]).map(|part| (part, end + 1)));
        }
    }
    nodes
}
