//! OBJECT and DUMP: how a value is kept, and its portable form.

use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::CommandError;
use crate::command::keys::serialize::serialize;

/// Lines of OBJECT HELP.
const HELP: &[&str] = &[
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Name the encoding in which the value at <key> is kept.",
    "FREQ <key>",
    "    Estimate how often <key> is used, on a logarithmic scale from 0 to 255. Needs a",
    "    maxmemory policy of the LFU family.",
    "IDLETIME <key>",
    "    Count the seconds since <key> was used. Not with an LFU policy.",
    "REFCOUNT <key>",
    "    Count the references to the value at <key>. Values are never shared, so it is 1.",
    "HELP",
    "    Print this help.",
];

const NOT_LFU: CommandError = CommandError::new(
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that \
     when switching between policies at runtime LRU and LFU data will take some time to adjust.",
);

const IS_LFU: CommandError = CommandError::new(
    "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when \
     switching between policies at runtime LRU and LFU data will take some time to adjust.",
);

pub(super) fn help(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.reply.array(HELP.len());
    HELP.iter().for_each(|line| ctx.reply.status(line));
    Ok(())
}

/// Whether the key of an OBJECT subcommand exists; answers null if not.
fn found(ctx: &mut CommandCtx<'_>) -> bool {
    let key = ctx.key(2);
    let found = ctx.keyspace.exists(ctx.client.db, &key);
    if !found {
        ctx.reply.null();
    }
    found
}

pub(super) fn encoding(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let key = ctx.key(2);
    if found(ctx)
        && let Some(encoding) = ctx.keyspace.encoding(ctx.client.db, &key)
    {
        ctx.reply.bulk(encoding.as_bytes());
    }
    Ok(())
}

pub(super) fn freq(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let key = ctx.key(2);
    if !found(ctx) {
        return Ok(());
    }
    if !ctx.shard.config.maxmemory_policy.is_lfu() {
        return Err(NOT_LFU);
    }
    let frequency = ctx.keyspace.frequency(ctx.client.db, &key);
    ctx.reply.integer(i64::from(frequency.unwrap_or(0)));
    Ok(())
}

pub(super) fn idletime(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let key = ctx.key(2);
    if !found(ctx) {
        return Ok(());
    }
    if ctx.shard.config.maxmemory_policy.is_lfu() {
        return Err(IS_LFU);
    }
    let idle_s = ctx.keyspace.idle_seconds(ctx.client.db, &key);
    ctx.reply.integer(idle_s.unwrap_or(0) as i64);
    Ok(())
}

pub(super) fn refcount(ctx: &mut CommandCtx<'_>) -> CommandResult {
    if found(ctx) {
        ctx.reply.integer(1);
    }
    Ok(())
}

pub(super) fn dump(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let compress = ctx.shard.config.rdbcompression;
    let db = ctx.client.db;
    if !ctx.keyspace.touch_key(db, &key) {
        ctx.reply.null();
        return Ok(());
    }
    let value = ctx.keyspace.value(db, &key).expect("the key was touched");
    let (payload, version) = serialize(&value, compress);
    let payload = encodings::rdb::sign(payload, version);
    ctx.reply.bulk(&payload);
    Ok(())
}
