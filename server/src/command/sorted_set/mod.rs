//! Sorted set commands.
//!
//! This file holds the rows and the commands about single members; ranges stand in `range.rs`, what
//! takes members from the ends in `pop.rs`, what makes one of several in `algebra.rs`.

mod algebra;
mod bounds;
mod pop;
mod range;
pub mod times;

use encodings::double;
use engine::{Event, Member, Members, OpError};

use super::dispatch::{CommandCtx, CommandResult, wrong_arity};
use super::error::{CommandError, NOT_A_FLOAT, SYNTAX};
use super::keys::scan::scan_members;
use super::sample::{Sample, sample};
use super::spec::{Command, Family, Group, KeySpec, acl, flag, key_flag as key};
use super::string::answer_string;
use crate::resp::{Protocol, Reply};

const READ: &[KeySpec] = &[KeySpec::one(1, key::RO | key::ACCESS)];
const LOOK: &[KeySpec] = &[KeySpec::one(1, key::RO)];
const UPDATE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::UPDATE)];
const CHANGE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::ACCESS | key::UPDATE)];
const REMOVE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::DELETE)];
const TAKES: u16 = key::RW | key::ACCESS | key::DELETE;
const TAKE: &[KeySpec] = &[KeySpec::one(1, TAKES)];
const TAKE_ALL: &[KeySpec] = &[KeySpec { last: -2, ..KeySpec::all(1, 1, TAKES) }];
const TAKE_COUNTED: &[KeySpec] = &[KeySpec::counted(1, TAKES)];
const TAKE_COUNTED_LATE: &[KeySpec] = &[KeySpec::counted(2, TAKES)];
const READ_COUNTED: &[KeySpec] = &[KeySpec::counted(1, key::RO | key::ACCESS)];
const COMPUTE: &[KeySpec] =
    &[KeySpec::one(1, key::OW | key::UPDATE), KeySpec::counted(2, key::RO | key::ACCESS)];
const STORE_RANGE: &[KeySpec] =
    &[KeySpec::one(1, key::OW | key::UPDATE), KeySpec::one(2, key::RO | key::ACCESS)];

const FAST_READ: u32 = flag::READONLY | flag::FAST;
const FAST_WRITE: u32 = flag::WRITE | flag::FAST;
const GROWTH: u32 = flag::WRITE | flag::DENYOOM;
const FAST_GROWTH: u32 = GROWTH | flag::FAST;
const MOVABLE_READ: u32 = flag::READONLY | flag::MOVABLE_KEYS;
const MOVABLE_GROWTH: u32 = GROWTH | flag::MOVABLE_KEYS;
const FAST_WAIT: u32 = FAST_WRITE | flag::BLOCKING;

const LOG: &str = "O(log(N)) with the number of members";
const LOG_EACH: &str = "O(log(N)) for each member named";
const LOG_REMOVED: &str = "O(M*log(N)) with the number of members and of those named";
const LOG_AND_FOUND: &str = "O(log(N)+M) with the number of members and of those in the range";
const POPPED: &str = "O(log(N)*M) with the number of members and of those taken";
const POPPED_OF_MANY: &str =
    "O(K) + O(M*log(N)) with the keys, the members of the set, and those taken";
const SUMMED: &str = "O(N)+O(M*log(M)) with the members of all inputs together and of the result";
const CROSSED: &str =
    "O(N*K)+O(M*log(M)) with the members of the smallest input, the inputs, and the result";
const LEFT: &str =
    "O(N*K)+O(M*log(M)) with the members of the first input, the inputs, and the result";

const ZSET: Family = Family { group: Group::SortedSet, categories: acl::SORTEDSET };

/// The rows of this family.
#[rustfmt::skip]
pub const COMMANDS: &[Command] = &[
    ZSET.row("zadd", -4, FAST_GROWTH, zadd, UPDATE, "1.2.0", LOG_EACH,
        "Gives members of a sorted set their scores; creates the set if needed."),
    ZSET.row("zincrby", 4, FAST_GROWTH, zincrby, CHANGE, "1.2.0", LOG,
        "Adds to the score of a member; a missing one counts as 0."),
    ZSET.row("zrem", -3, FAST_WRITE, zrem, REMOVE, "1.2.0", LOG_REMOVED,
        "Takes members out of a sorted set, and the key with the last one."),
    ZSET.row("zcard", 2, FAST_READ, zcard, LOOK, "1.2.0", "O(1)",
        "Counts the members of a sorted set."),
    ZSET.row("zscore", 3, FAST_READ, zscore, READ, "1.2.0", "O(1)",
        "Tells the score of a member."),
    ZSET.row("zmscore", -3, FAST_READ, zmscore, READ, "6.2.0", "O(N) with the number of members named",
        "Tells the scores of several members."),
    ZSET.row("zrank", -3, FAST_READ, zrank, READ, "2.0.0", LOG,
        "Tells the rank of a member, counted from the lowest score."),
    ZSET.row("zrevrank", -3, FAST_READ, zrevrank, READ, "2.0.0", LOG,
        "Tells the rank of a member, counted from the highest score."),
    ZSET.row("zrandmember", -2, flag::READONLY, zrandmember, READ, "6.2.0",
        "O(N) with the number of members answered",
        "Answers random members of a sorted set.").tips(&["nondeterministic_output"]),
    ZSET.row("zscan", -3, flag::READONLY, zscan, READ, "2.8.0",
        "O(1) for each call, O(N) for a whole walk with the number of members",
        "Walks over the members of a sorted set.").tips(&["nondeterministic_output"]),
    ZSET.row("zrange", -4, flag::READONLY, range::zrange, READ, "1.2.0", LOG_AND_FOUND,
        "Answers members by a range of ranks, scores or names."),
    ZSET.row("zrangestore", -5, GROWTH, range::zrangestore, STORE_RANGE, "6.2.0", LOG_AND_FOUND,
        "Stores members that a range of ranks, scores or names has."),
    ZSET.row("zrevrange", -4, flag::READONLY, range::zrevrange, READ, "1.2.0", LOG_AND_FOUND,
        "Answers members by a range of ranks, from the highest score down."),
    ZSET.row("zrangebyscore", -4, flag::READONLY, range::zrangebyscore, READ, "1.0.5", LOG_AND_FOUND,
        "Answers members by a range of scores."),
    ZSET.row("zrevrangebyscore", -4, flag::READONLY, range::zrevrangebyscore, READ, "2.2.0", LOG_AND_FOUND,
        "Answers members by a range of scores, from the highest down."),
    ZSET.row("zrangebylex", -4, flag::READONLY, range::zrangebylex, READ, "2.8.9", LOG_AND_FOUND,
        "Answers members by a range of names; all scores must be the same."),
    ZSET.row("zrevrangebylex", -4, flag::READONLY, range::zrevrangebylex, READ, "2.8.9", LOG_AND_FOUND,
        "Answers members by a range of names, from the last one down."),
    ZSET.row("zcount", 4, FAST_READ, range::zcount, READ, "2.0.0", LOG,
        "Counts the members in a range of scores."),
    ZSET.row("zlexcount", 4, FAST_READ, range::zlexcount, READ, "2.8.9", LOG,
        "Counts the members in a range of names."),
    ZSET.row("zremrangebyrank", 4, flag::WRITE, range::zremrangebyrank, REMOVE, "2.0.0", LOG_AND_FOUND,
        "Takes the members in a range of ranks away."),
    ZSET.row("zremrangebyscore", 4, flag::WRITE, range::zremrangebyscore, REMOVE, "1.2.0", LOG_AND_FOUND,
        "Takes the members in a range of scores away."),
    ZSET.row("zremrangebylex", 4, flag::WRITE, range::zremrangebylex, REMOVE, "2.8.9", LOG_AND_FOUND,
        "Takes the members in a range of names away."),
    ZSET.row("zpopmin", -2, FAST_WRITE, pop::zpopmin, TAKE, "5.0.0", POPPED,
        "Takes the members with the lowest scores."),
    ZSET.row("zpopmax", -2, FAST_WRITE, pop::zpopmax, TAKE, "5.0.0", POPPED,
        "Takes the members with the highest scores."),
    ZSET.row("zmpop", -4, flag::WRITE | flag::MOVABLE_KEYS, pop::zmpop, TAKE_COUNTED, "7.0.0", POPPED_OF_MANY,
        "Takes members from an end of the first of several sorted sets that has any."),
    ZSET.row("bzpopmin", -3, FAST_WAIT, pop::bzpopmin, TAKE_ALL, "5.0.0", LOG,
        "Takes the member with the lowest score of the first of several sorted sets, or waits for one."),
    ZSET.row("bzpopmax", -3, FAST_WAIT, pop::bzpopmax, TAKE_ALL, "5.0.0", LOG,
        "Takes the member with the highest score of the first of several sorted sets, or waits for one."),
    ZSET.row("bzmpop", -5, flag::WRITE | flag::BLOCKING | flag::MOVABLE_KEYS, pop::bzmpop,
        TAKE_COUNTED_LATE, "7.0.0", POPPED_OF_MANY,
        "Takes members from an end of the first of several sorted sets that has any, or waits for some."),
    ZSET.row("zunion", -3, MOVABLE_READ, algebra::zunion, READ_COUNTED, "6.2.0", SUMMED,
        "Answers the members that any of several sorted sets has."),
    ZSET.row("zinter", -3, MOVABLE_READ, algebra::zinter, READ_COUNTED, "6.2.0", CROSSED,
        "Answers the members that all of several sorted sets have."),
    ZSET.row("zintercard", -3, MOVABLE_READ, algebra::zintercard, READ_COUNTED, "7.0.0", CROSSED,
        "Counts the members that all of several sorted sets have, up to a limit if asked."),
    ZSET.row("zdiff", -3, MOVABLE_READ, algebra::zdiff, READ_COUNTED, "6.2.0", LEFT,
        "Answers the members of a sorted set that none of several others has."),
    ZSET.row("zunionstore", -4, MOVABLE_GROWTH, algebra::zunionstore, COMPUTE, "2.0.0", SUMMED,
        "Stores the members that any of several sorted sets has."),
    ZSET.row("zinterstore", -4, MOVABLE_GROWTH, algebra::zinterstore, COMPUTE, "2.0.0", CROSSED,
        "Stores the members that all of several sorted sets have."),
    ZSET.row("zdiffstore", -4, MOVABLE_GROWTH, algebra::zdiffstore, COMPUTE, "6.2.0", LEFT,
        "Stores the members of a sorted set that none of several others has."),
];

/// The sorted set at argument 1.
fn read<'c>(ctx: &'c mut CommandCtx<'_>) -> Result<Option<Members<'c>>, CommandError> {
    let (key, db) = (ctx.key(1), ctx.client.db);
    Ok(ctx.keyspace.sorted_set(db, &key)?)
}

/// Answers the header of an array of members, with their scores in pairs if asked.
fn answer_count(reply: &mut Reply, count: usize, with_scores: bool) {
    let flat = with_scores && reply.protocol() == Protocol::Resp2;
    reply.array(if flat { 2 * count } else { count });
}

/// Answers one of them.
fn answer_member(reply: &mut Reply, member: &Member<'_>, with_scores: bool) {
    if with_scores && reply.protocol() == Protocol::Resp3 {
        reply.array(2);
    }
    answer_string(reply, Some(member.name));
    if with_scores {
        reply.double(member.score);
    }
}

/// When ZADD gives a member its score.
#[derive(Clone, Copy, Default)]
pub(super) struct AddOptions {
    /// Only a new one.
    pub(super) nx: bool,
    /// Only one that is there.
    pub(super) xx: bool,
    /// Only a higher score than before.
    pub(super) gt: bool,
    /// Only a lower score than before.
    pub(super) lt: bool,
    /// The number is added to the score.
    incr: bool,
    /// Answers how many scores changed, not how many members are new.
    pub(super) ch: bool,
}

impl AddOptions {
    /// The score that a member is to have, `None` if all stays as it is.
    fn decide(self, old: Option<f64>, given: f64) -> Result<Option<f64>, OpError> {
        let Some(old) = old else { return Ok((!self.xx).then_some(given)) };
        if self.nx {
            return Ok(None);
        }
        let score = if self.incr { old + given } else { given };
        if score.is_nan() {
            return Err(OpError::NotANumber);
        }
        let refused = self.lt && score >= old || self.gt && score <= old;
        Ok((!refused).then_some(score))
    }

    /// Refuses options that exclude each other.
    pub(super) fn check(self) -> Result<Self, CommandError> {
        if self.nx && self.xx {
            return Err(CommandError::new(
                "ERR XX and NX options at the same time are not compatible",
            ));
        }
        if [self.nx, self.gt, self.lt].into_iter().filter(|on| *on).count() > 1 {
            return Err(CommandError::new(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        Ok(self)
    }
}

/// What ZADD and its kin did.
#[derive(Default)]
struct Added {
    added: usize,
    updated: usize,
    /// The score of the last member that the options let through.
    score: Option<f64>,
}

/// Gives the members at a key their scores.
fn add<'a>(
    ctx: &mut CommandCtx<'_>,
    pairs: impl Iterator<Item = (f64, &'a [u8])> + Clone,
    options: AddOptions,
) -> Result<Added, CommandError> {
    let (key, db) = (ctx.key(1), ctx.client.db);
    let mut added = Added::default();
    let decide = |old: Option<f64>, given| {
        let decided = options.decide(old, given)?;
        if let Some(score) = decided {
            added.score = decided;
            added.added += usize::from(old.is_none());
            added.updated += usize::from(old.is_some_and(|old| old != score));
        }
        Ok(decided)
    };
    let event = if options.incr { Event::Zincr } else { Event::Zadd };
    ctx.keyspace.sorted_set_add(db, &key, pairs, decide, event)?;
    Ok(added)
}

/// Answers ZADD, or a command that does what it does.
pub(super) fn answer_added<'a>(
    ctx: &mut CommandCtx<'_>,
    pairs: impl Iterator<Item = (f64, &'a [u8])> + Clone,
    options: AddOptions,
) -> CommandResult {
    let added = add(ctx, pairs, options)?;
    match added.score {
        Some(score) if options.incr => ctx.reply.double(score),
        None if options.incr => ctx.reply.null(),
        _ => ctx.reply.count(added.added + if options.ch { added.updated } else { 0 }),
    }
    Ok(())
}

fn score(text: &[u8]) -> Result<f64, CommandError> {
    double::parse(text).ok_or(NOT_A_FLOAT)
}

fn zadd(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let args = ctx.args;
    let mut options = AddOptions::default();
    let mut first = 2;
    while first < args.len() {
        let option = match () {
            () if args.is(first, "nx") => &mut options.nx,
            () if args.is(first, "xx") => &mut options.xx,
            () if args.is(first, "ch") => &mut options.ch,
            () if args.is(first, "incr") => &mut options.incr,
            () if args.is(first, "gt") => &mut options.gt,
            () if args.is(first, "lt") => &mut options.lt,
            () => break,
        };
        *option = true;
        first += 1;
    }
    let count = args.len() - first;
    if count == 0 || !count.is_multiple_of(2) {
        return Err(SYNTAX);
    }
    let options = options.check()?;
    if options.incr && count > 2 {
        return Err(CommandError::new("ERR INCR option supports a single increment-element pair"));
    }
    let scores: smallvec::SmallVec<[f64; 8]> =
        args.from(first).step_by(2).map(score).collect::<Result<_, _>>()?;
    let members = args.from(first + 1).step_by(2);
    answer_added(ctx, scores.iter().copied().zip(members), options)
}

fn zincrby(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let pair = (score(ctx.args.get(2))?, ctx.args.get(3));
    let options = AddOptions { incr: true, ..AddOptions::default() };
    answer_added(ctx, std::iter::once(pair), options)
}

fn zrem(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let removed = ctx.keyspace.remove_members(db, &key, args.from(2), Event::Zrem)?;
    ctx.reply.count(removed);
    Ok(())
}

fn zcard(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let len = read(ctx)?.map_or(0, |set| set.len());
    ctx.reply.count(len);
    Ok(())
}

fn answer_score(reply: &mut Reply, set: Option<Members<'_>>, name: &[u8]) {
    match set.and_then(|set| set.get(name)) {
        Some(member) => reply.double(member.score),
        None => reply.null(),
    }
}

fn zscore(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, name) = (ctx.key(1), ctx.client.db, ctx.args.get(2));
    let set = ctx.keyspace.sorted_set(db, &key)?;
    answer_score(ctx.reply, set, name);
    Ok(())
}

fn zmscore(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let set = ctx.keyspace.sorted_set(db, &key)?;
    ctx.reply.array(args.len() - 2);
    args.from(2).for_each(|name| answer_score(ctx.reply, set, name));
    Ok(())
}

fn answer_rank(ctx: &mut CommandCtx<'_>, from_highest: bool) -> CommandResult {
    let args = ctx.args;
    if args.len() > 4 {
        return Err(wrong_arity(ctx.entry));
    }
    let with_score = args.len() == 4;
    if with_score && !args.is(3, "withscore") {
        return Err(SYNTAX);
    }
    let found = read(ctx)?.and_then(|set| {
        let (rank, score) = set.rank(args.get(2))?;
        Some((if from_highest { set.len() - 1 - rank } else { rank }, score))
    });
    match found {
        None if with_score => ctx.reply.null_array(),
        None => ctx.reply.null(),
        Some((rank, score)) => {
            if with_score {
                ctx.reply.array(2);
            }
            ctx.reply.count(rank);
            if with_score {
                ctx.reply.double(score);
            }
        }
    }
    Ok(())
}

fn zrank(ctx: &mut CommandCtx<'_>) -> CommandResult {
    answer_rank(ctx, false)
}

fn zrevrank(ctx: &mut CommandCtx<'_>) -> CommandResult {
    answer_rank(ctx, true)
}

fn zscan(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db) = (ctx.key(1), ctx.client.db);
    // Here Redis prints the scores of a skiplist with 17 digits.
    let found = ctx.keyspace.sorted_set_look(db, &key);
    let is_packed = found.is_ok_and(|set| set.is_some_and(|set| set.is_packed()));
    let text = if is_packed { double::format } else { double::format_17g };
    scan_members(
        ctx,
        false,
        |partition| Ok(partition.sorted_set(db, &key)?),
        |reply, member, _| {
            answer_string(reply, Some(member.name));
            reply.bulk(text(member.score).as_bytes());
            2
        },
    )
}

fn zrandmember(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let word = ctx.shard.random();
    if args.len() == 2 {
        let member = ctx.keyspace.sorted_set(db, &key)?.and_then(|set| set.random(word));
        answer_string(ctx.reply, member.map(|member| member.name));
        return Ok(());
    }
    let with_scores = args.len() > 3;
    let is_sound = !with_scores || args.len() == 4 && args.is(3, "withscores");
    let wanted = Sample::parse(args.get(2), with_scores && is_sound)?;
    if !is_sound {
        return Err(SYNTAX);
    }
    let Some(set) = ctx.keyspace.sorted_set(db, &key)? else {
        ctx.reply.array(0);
        return Ok(());
    };
    answer_count(ctx.reply, wanted.count(set.len()), with_scores);
    sample(&set, wanted, word, |member| answer_member(ctx.reply, &member, with_scores));
    Ok(())
}
