//! Set commands.
//!
//! This file holds the rows and what works on one set; commands on several stand in `algebra.rs`.

mod algebra;
pub mod times;

use engine::{Event, StringValue};

use super::dispatch::{CommandCtx, CommandResult};
use super::error::{CommandError, SYNTAX};
use super::keys::scan::scan_members;
use super::sample::{Sample, sample};
use super::spec::{Command, Family, Group, KeySpec, acl, flag, key_flag as key};
use super::string::answer_string;

const READ: &[KeySpec] = &[KeySpec::one(1, key::RO | key::ACCESS)];
const LOOK: &[KeySpec] = &[KeySpec::one(1, key::RO)];
const INSERT: &[KeySpec] = &[KeySpec::one(1, key::RW | key::INSERT)];
const REMOVE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::DELETE)];
const TAKE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::ACCESS | key::DELETE)];
const MOVE: &[KeySpec] =
    &[KeySpec::one(1, key::RW | key::ACCESS | key::DELETE), KeySpec::one(2, key::RW | key::INSERT)];
const READ_ALL: &[KeySpec] = &[KeySpec::all(1, 1, key::RO | key::ACCESS)];
const READ_COUNTED: &[KeySpec] = &[KeySpec::counted(1, key::RO | key::ACCESS)];
const COMPUTE: &[KeySpec] =
    &[KeySpec::one(1, key::OW | key::UPDATE), KeySpec::all(2, 1, key::RO | key::ACCESS)];

const FAST_READ: u32 = flag::READONLY | flag::FAST;
const FAST_WRITE: u32 = flag::WRITE | flag::FAST;
const GROWTH: u32 = flag::WRITE | flag::DENYOOM;

const SUMMED: &str = "O(N) with the members of all sets together";
const CROSSED: &str = "O(N*M) with the members of the smallest set and the number of sets";
const ANY_ORDER: &[&str] = &["nondeterministic_output_order"];
const VARYING: &[&str] = &["nondeterministic_output"];

const SET: Family = Family { group: Group::Set, categories: acl::SET };

/// The rows of this family.
#[rustfmt::skip]
pub const COMMANDS: &[Command] = &[
    SET.row("sadd", -3, GROWTH | flag::FAST, sadd, INSERT, "1.0.0", "O(1) for each member",
        "Adds members to a set, which it creates if needed."),
    SET.row("srem", -3, FAST_WRITE, srem, REMOVE, "1.0.0", "O(N) with the number of members named",
        "Takes members out of a set, and the key with the last one."),
    SET.row("smove", 4, FAST_WRITE, algebra::smove, MOVE, "1.0.0", "O(1)",
        "Moves a member from one set to another."),
    SET.row("sismember", 3, FAST_READ, sismember, LOOK, "1.0.0", "O(1)",
        "Tells whether a set has a member."),
    SET.row("smismember", -3, FAST_READ, smismember, READ, "6.2.0",
        "O(N) with the number of members named",
        "Tells which of several members a set has."),
    SET.row("scard", 2, FAST_READ, scard, LOOK, "1.0.0", "O(1)",
        "Counts the members of a set."),
    SET.row("smembers", 2, flag::READONLY, smembers, READ, "1.0.0",
        "O(N) with the number of members",
        "Lists the members of a set.").tips(ANY_ORDER),
    SET.row("spop", -2, FAST_WRITE, spop, TAKE, "1.0.0",
        "O(1) for one member, O(N) with the number asked for",
        "Takes random members out of a set.").tips(VARYING),
    SET.row("srandmember", -2, flag::READONLY, srandmember, READ, "1.0.0",
        "O(1) for one member, O(N) with the number asked for",
        "Answers random members of a set.").tips(VARYING),
    SET.row("sscan", -3, flag::READONLY, sscan, READ, "2.8.0",
        "O(1) for each call, O(N) for a whole walk with the number of members",
        "Walks over the members of a set.").tips(VARYING),
    SET.row("sinter", -2, flag::READONLY, algebra::sinter, READ_ALL, "1.0.0", CROSSED,
        "Answers the members that all of several sets have.").tips(ANY_ORDER),
    SET.row("sintercard", -3, flag::READONLY | flag::MOVABLE_KEYS, algebra::sintercard, READ_COUNTED,
        "7.0.0", CROSSED,
        "Counts the members that all of several sets have, up to a limit if asked."),
    SET.row("sinterstore", -3, GROWTH, algebra::sinterstore, COMPUTE, "1.0.0", CROSSED,
        "Stores the members that all of several sets have."),
    SET.row("sunion", -2, flag::READONLY, algebra::sunion, READ_ALL, "1.0.0", SUMMED,
        "Answers the members that any of several sets has.").tips(ANY_ORDER),
    SET.row("sunionstore", -3, GROWTH, algebra::sunionstore, COMPUTE, "1.0.0", SUMMED,
        "Stores the members that any of several sets has."),
    SET.row("sdiff", -2, flag::READONLY, algebra::sdiff, READ_ALL, "1.0.0", SUMMED,
        "Answers the members of a set that none of several others has.").tips(ANY_ORDER),
    SET.row("sdiffstore", -3, GROWTH, algebra::sdiffstore, COMPUTE, "1.0.0", SUMMED,
        "Stores the members of a set that none of several others has."),
];

fn sadd(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let added = ctx.keyspace.set_add(db, &key, args.from(2), Event::Sadd)?;
    ctx.reply.count(added);
    Ok(())
}

fn srem(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let removed = ctx.keyspace.remove_members(db, &key, args.from(2), Event::Srem)?;
    ctx.reply.count(removed);
    Ok(())
}

fn sismember(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, member) = (ctx.key(1), ctx.client.db, ctx.args.get(2));
    let set = ctx.keyspace.set_members(db, &key)?;
    ctx.reply.integer(i64::from(set.is_some_and(|set| set.get(member).is_some())));
    Ok(())
}

fn smismember(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let set = ctx.keyspace.set_members(db, &key)?;
    ctx.reply.array(args.len() - 2);
    for member in args.from(2) {
        ctx.reply.integer(i64::from(set.is_some_and(|set| set.get(member).is_some())));
    }
    Ok(())
}

fn scard(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db) = (ctx.key(1), ctx.client.db);
    let set = ctx.keyspace.set_members(db, &key)?;
    ctx.reply.count(set.map_or(0, |set| set.len()));
    Ok(())
}

fn smembers(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db) = (ctx.key(1), ctx.client.db);
    let Some(set) = ctx.keyspace.set_members(db, &key)? else {
        ctx.reply.set(0);
        return Ok(());
    };
    ctx.reply.set(set.len());
    set.for_each(|member| answer_string(ctx.reply, Some(member.name)));
    Ok(())
}

fn sscan(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db) = (ctx.key(1), ctx.client.db);
    scan_members(
        ctx,
        false,
        |partition| Ok(partition.set_members(db, &key)?),
        |reply, member, _| {
            answer_string(reply, Some(member.name));
            1
        },
    )
}

fn srandmember(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let word = ctx.shard.random();
    if args.len() == 2 {
        let member = ctx.keyspace.set_members(db, &key)?.and_then(|set| set.random(word));
        answer_string(ctx.reply, member.map(|member| member.name));
        return Ok(());
    }
    if args.len() > 3 {
        return Err(SYNTAX);
    }
    let wanted = Sample::parse(args.get(2), false)?;
    let Some(set) = ctx.keyspace.set_members(db, &key)? else {
        ctx.reply.array(0);
        return Ok(());
    };
    ctx.reply.array(wanted.count(set.len()));
    sample(&set, wanted, word, |member| answer_string(ctx.reply, Some(member.name)));
    Ok(())
}

fn spop(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let word = ctx.shard.random();
    if args.len() > 3 {
        return Err(SYNTAX);
    }
    let count = if args.len() == 3 { Some(pop_count(args.get(2))?) } else { None };
    let mut popped: Vec<Vec<u8>> = Vec::new();
    if let Some(set) = ctx.keyspace.set_members(db, &key)? {
        let wanted = Sample::Different(count.unwrap_or(1));
        let bytes = |name: StringValue<'_>| name.with_text(<[u8]>::to_vec);
        if count.is_none() {
            popped.extend(set.random(word).map(|member| bytes(member.name)));
        } else {
            sample(&set, wanted, word, |member| popped.push(bytes(member.name)));
        }
    }
    match (count, popped.first()) {
        (None, None) => ctx.reply.null(),
        (None, Some(member)) => ctx.reply.bulk(member),
        (Some(_), _) => {
            ctx.reply.set(popped.len());
            popped.iter().for_each(|member| ctx.reply.bulk(member));
        }
    }
    let members = popped.iter().map(Vec::as_slice);
    ctx.keyspace.remove_members(db, &key, members, Event::Spop)?;
    Ok(())
}

fn pop_count(text: &[u8]) -> Result<usize, CommandError> {
    let count = encodings::integer::parse_i64(text).and_then(|count| usize::try_from(count).ok());
    count.ok_or(CommandError::new("ERR value is out of range, must be positive"))
}
