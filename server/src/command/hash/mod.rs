//! Hash commands.
//!
//! This file holds the rows and what reads and writes fields; commands about the times of fields
//! stand in `times.rs`, random fields and HSCAN in `walk.rs`.

mod times;
mod walk;

use std::collections::HashSet;

use encodings::float80::Float80;
use engine::{Event, Member, Members, StringValue};

use super::dispatch::{CommandCtx, CommandResult, wrong_arity};
use super::error::{CommandError, NOT_A_FLOAT};
use super::spec::{Command, Family, Group, KeySpec, acl, flag, key_flag as key};
use super::string::answer_string;
use super::times::FIELDS;

const READ: &[KeySpec] = &[KeySpec::one(1, key::RO | key::ACCESS)];
const LOOK: &[KeySpec] = &[KeySpec::one(1, key::RO)];
const UPDATE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::UPDATE)];
const CHANGE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::ACCESS | key::UPDATE)];
const INSERT: &[KeySpec] = &[KeySpec::one(1, key::RW | key::INSERT)];
const REMOVE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::DELETE)];
const TAKE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::ACCESS | key::DELETE)];

const FAST_READ: u32 = flag::READONLY | flag::FAST;
const FAST_WRITE: u32 = flag::WRITE | flag::FAST;
const FAST_GROWTH: u32 = FAST_WRITE | flag::DENYOOM;

const BY_FIELDS: &str = "O(N) with the number of fields named";
const BY_SIZE: &str = "O(N) with the number of fields of the hash";

const HASH: Family = Family { group: Group::Hash, categories: acl::HASH };

/// The rows of this family.
#[rustfmt::skip]
pub const COMMANDS: &[Command] = &[
    HASH.row("hset", -4, FAST_GROWTH, hset, UPDATE, "2.0.0", "O(1) for each field",
        "Gives fields of a hash values."),
    HASH.row("hsetnx", 4, FAST_GROWTH, hsetnx, INSERT, "2.0.0", "O(1)",
        "Gives a field of a hash a value if it has none."),
    HASH.row("hmset", -4, FAST_GROWTH, hmset, UPDATE, "2.0.0", BY_FIELDS,
        "Gives several fields of a hash values; HSET does the same."),
    HASH.row("hsetex", -6, FAST_GROWTH, times::hsetex, UPDATE, "8.0.0", BY_FIELDS,
        "Gives fields of a hash values and a time, with conditions if asked."),
    HASH.row("hget", 3, FAST_READ, hget, READ, "2.0.0", "O(1)",
        "Reads a field of a hash."),
    HASH.row("hmget", -3, FAST_READ, hmget, READ, "2.0.0", BY_FIELDS,
        "Reads several fields of a hash."),
    HASH.row("hgetall", 2, flag::READONLY, hgetall, READ, "2.0.0", BY_SIZE,
        "Reads all fields of a hash with their values.")
        .tips(&["nondeterministic_output_order"]),
    HASH.row("hkeys", 2, flag::READONLY, hkeys, READ, "2.0.0", BY_SIZE,
        "Lists the fields of a hash.")
        .tips(&["nondeterministic_output_order"]),
    HASH.row("hvals", 2, flag::READONLY, hvals, READ, "2.0.0", BY_SIZE,
        "Lists the values of a hash.")
        .tips(&["nondeterministic_output_order"]),
    HASH.row("hgetdel", -5, FAST_WRITE, hgetdel, TAKE, "8.0.0", BY_FIELDS,
        "Reads fields of a hash and takes them away."),
    HASH.row("hgetex", -5, FAST_WRITE, times::hgetex, CHANGE, "8.0.0", BY_FIELDS,
        "Reads fields of a hash and changes or removes their times."),
    HASH.row("hdel", -3, FAST_WRITE, hdel, REMOVE, "2.0.0", BY_FIELDS,
        "Takes fields of a hash away, and the key with the last one."),
    HASH.row("hlen", 2, FAST_READ, hlen, LOOK, "2.0.0", "O(1)",
        "Counts the fields of a hash."),
    HASH.row("hstrlen", 3, FAST_READ, hstrlen, LOOK, "3.2.0", "O(1)",
        "Measures the value of a field."),
    HASH.row("hexists", 3, FAST_READ, hexists, LOOK, "2.0.0", "O(1)",
        "Tells whether a hash has a field."),
    HASH.row("hincrby", 4, FAST_GROWTH, hincrby, CHANGE, "2.0.0", "O(1)",
        "Adds a number to the integer in a field; a missing one counts as 0."),
    HASH.row("hincrbyfloat", 4, FAST_GROWTH, hincrbyfloat, CHANGE, "2.6.0", "O(1)",
        "Adds a floating-point number to the number in a field; a missing one counts as 0."),
    HASH.row("hrandfield", -2, flag::READONLY, walk::hrandfield, READ, "6.2.0",
        "O(N) with the number of fields answered",
        "Answers random fields of a hash.")
        .tips(&["nondeterministic_output"]),
    HASH.row("hscan", -3, flag::READONLY, walk::hscan, READ, "2.8.0",
        "O(1) for each call, O(N) for a whole walk with the number of fields",
        "Walks over the fields of a hash.")
        .tips(&["nondeterministic_output"]),
    HASH.row("hexpire", -6, FAST_WRITE, times::in_seconds, UPDATE, "7.4.0", BY_FIELDS,
        "Gives fields of a hash a life of some seconds."),
    HASH.row("hpexpire", -6, FAST_WRITE, times::in_ms, UPDATE, "7.4.0", BY_FIELDS,
        "Gives fields of a hash a life of some milliseconds."),
    HASH.row("hexpireat", -6, FAST_WRITE, times::at_seconds, UPDATE, "7.4.0", BY_FIELDS,
        "Gives fields of a hash a time in Unix seconds at which they are due."),
    HASH.row("hpexpireat", -6, FAST_WRITE, times::at_ms, UPDATE, "7.4.0", BY_FIELDS,
        "Gives fields of a hash a time in Unix milliseconds at which they are due."),
    HASH.row("hpersist", -5, FAST_WRITE, times::never, UPDATE, "7.4.0", BY_FIELDS,
        "Takes the times of fields of a hash away."),
    HASH.row("httl", -5, FAST_READ, times::left_seconds, READ, "7.4.0", BY_FIELDS,
        "Tells the seconds that fields of a hash have left.")
        .tips(&["nondeterministic_output"]),
    HASH.row("hpttl", -5, FAST_READ, times::left_ms, READ, "7.4.0", BY_FIELDS,
        "Tells the milliseconds that fields of a hash have left.")
        .tips(&["nondeterministic_output"]),
    HASH.row("hexpiretime", -5, FAST_READ, times::due_seconds, READ, "7.4.0", BY_FIELDS,
        "Tells the Unix seconds at which fields of a hash are due."),
    HASH.row("hpexpiretime", -5, FAST_READ, times::due_ms, READ, "7.4.0", BY_FIELDS,
        "Tells the Unix milliseconds at which fields of a hash are due."),
];

/// The hash at argument 1.
fn read<'c>(ctx: &'c mut CommandCtx<'_>) -> Result<Option<Members<'c>>, CommandError> {
    let (key, db) = (ctx.key(1), ctx.client.db);
    Ok(ctx.keyspace.hash(db, &key)?)
}

fn value_of<'a>(hash: Option<Members<'a>>, field: &[u8]) -> Option<StringValue<'a>> {
    hash?.get(field).map(|field| field.value)
}

/// The fields and values from an argument on.
fn pairs<'a>(
    ctx: &CommandCtx<'a>,
    first: usize,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone + use<'a> {
    let args = ctx.args;
    (first..args.len()).step_by(2).map(move |index| (args.get(index), args.get(index + 1)))
}

fn set_pairs(ctx: &mut CommandCtx<'_>) -> Result<usize, CommandError> {
    if !ctx.args.len().is_multiple_of(2) {
        return Err(wrong_arity(ctx.entry));
    }
    let (key, db, pairs) = (ctx.key(1), ctx.client.db, pairs(ctx, 2));
    Ok(ctx.keyspace.hash_set(db, &key, pairs, false, Event::Hset)?)
}

fn hset(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let added = set_pairs(ctx)?;
    ctx.reply.count(added);
    Ok(())
}

fn hmset(ctx: &mut CommandCtx<'_>) -> CommandResult {
    set_pairs(ctx)?;
    ctx.reply.ok();
    Ok(())
}

fn hsetnx(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, pairs) = (ctx.key(1), ctx.client.db, pairs(ctx, 2));
    let field = ctx.args.get(2);
    let is_there = ctx.keyspace.hash_look(db, &key)?.is_some_and(|hash| hash.get(field).is_some());
    if !is_there {
        ctx.keyspace.hash_set(db, &key, pairs, false, Event::Hset)?;
    }
    ctx.reply.integer(i64::from(!is_there));
    Ok(())
}

fn hget(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, field) = (ctx.key(1), ctx.client.db, ctx.args.get(2));
    let hash = ctx.keyspace.hash(db, &key)?;
    answer_string(ctx.reply, value_of(hash, field));
    Ok(())
}

fn hmget(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let hash = ctx.keyspace.hash(db, &key)?;
    ctx.reply.array(args.len() - 2);
    args.from(2).for_each(|field| answer_string(ctx.reply, value_of(hash, field)));
    Ok(())
}

fn hgetall(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db) = (ctx.key(1), ctx.client.db);
    let Some(hash) = ctx.keyspace.hash(db, &key)? else {
        ctx.reply.map(0);
        return Ok(());
    };
    ctx.reply.map(hash.len());
    hash.for_each(|field| {
        answer_string(ctx.reply, Some(field.name));
        answer_string(ctx.reply, Some(field.value));
    });
    Ok(())
}

/// Answers one part of every field.
fn list<'c>(
    ctx: &'c mut CommandCtx<'_>,
    part: impl Fn(Member<'c>) -> StringValue<'c>,
) -> CommandResult {
    let (key, db) = (ctx.key(1), ctx.client.db);
    let Some(hash) = ctx.keyspace.hash(db, &key)? else {
        ctx.reply.array(0);
        return Ok(());
    };
    ctx.reply.array(hash.len());
    hash.for_each(|field| answer_string(ctx.reply, Some(part(field))));
    Ok(())
}

fn hkeys(ctx: &mut CommandCtx<'_>) -> CommandResult {
    list(ctx, |field| field.name)
}

fn hvals(ctx: &mut CommandCtx<'_>) -> CommandResult {
    list(ctx, |field| field.value)
}

fn hdel(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let removed = ctx.keyspace.remove_members(db, &key, args.from(2), Event::Hdel)?;
    ctx.reply.count(removed);
    Ok(())
}

fn hgetdel(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let hash = ctx.keyspace.hash(db, &key)?;
    let first = FIELDS.first_of(args, 2)?;
    ctx.reply.array(args.len() - first);
    let mut seen = HashSet::new();
    for field in args.from(first) {
        // A field that is named twice is gone the second time.
        let is_gone = !seen.insert(field);
        answer_string(ctx.reply, value_of(hash, field).filter(|_| !is_gone));
    }
    ctx.keyspace.remove_members(db, &key, args.from(first), Event::Hdel)?;
    Ok(())
}

fn hlen(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let len = read(ctx)?.map_or(0, |hash| hash.len());
    ctx.reply.count(len);
    Ok(())
}

fn hstrlen(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let field = ctx.args.get(2);
    let len = value_of(read(ctx)?, field).map_or(0, |value| value.len());
    ctx.reply.count(len);
    Ok(())
}

fn hexists(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let field = ctx.args.get(2);
    let is_there = value_of(read(ctx)?, field).is_some();
    ctx.reply.integer(i64::from(is_there));
    Ok(())
}

fn hincrby(ctx: &mut CommandCtx<'_>) -> CommandResult {
    const NO_INTEGER: CommandError = CommandError::new("ERR hash value is not an integer");
    let delta = ctx.args.integer(3)?;
    let (key, db, field) = (ctx.key(1), ctx.client.db, ctx.args.get(2));
    let hash = ctx.keyspace.hash_look(db, &key)?;
    let value = match value_of(hash, field) {
        None => 0,
        Some(StringValue::Int(value)) => value,
        Some(StringValue::Bytes(bytes)) => {
            encodings::integer::parse_i64(bytes).ok_or(NO_INTEGER)?
        }
    };
    let sum = value.checked_add(delta);
    let sum = sum.ok_or(CommandError::new("ERR increment or decrement would overflow"))?;
    let mut digits = itoa::Buffer::new();
    let pair = std::iter::once((field, digits.format(sum).as_bytes()));
    ctx.keyspace.hash_set(db, &key, pair, true, Event::Hincrby)?;
    ctx.reply.integer(sum);
    Ok(())
}

fn hincrbyfloat(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let delta = Float80::parse(ctx.args.get(3)).ok_or(NOT_A_FLOAT)?;
    if !delta.is_finite() {
        return Err(CommandError::new("ERR value is NaN or Infinity"));
    }
    let (key, db, field) = (ctx.key(1), ctx.client.db, ctx.args.get(2));
    let hash = ctx.keyspace.hash_look(db, &key)?;
    let value = match value_of(hash, field) {
        None => Some(Float80::from_i64(0)),
        Some(StringValue::Int(value)) => Some(Float80::from_i64(value)),
        Some(StringValue::Bytes(bytes)) => Float80::parse(bytes),
    };
    let value = value.ok_or(CommandError::new("ERR hash value is not a float"))?;
    let sum = value + delta;
    if !sum.is_finite() {
        return Err(CommandError::new("ERR increment would produce NaN or Infinity"));
    }
    let text = sum.to_text();
    let pair = std::iter::once((field, text.as_bytes()));
    ctx.keyspace.hash_set(db, &key, pair, true, Event::Hincrbyfloat)?;
    ctx.reply.bulk(text.as_bytes());
    Ok(())
}
