//! Commands that take the members with the lowest or the highest scores, and those that wait for
//! some.

use std::ops::Range;

use encodings::integer::parse_i64;
use engine::{Event, Key, Partition};

use super::{answer_count, answer_member};
use crate::blocking::{PopScored, Ranked};
use crate::command::args::Args;
use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{CommandError, SYNTAX};
use crate::command::string::answer_string;
use crate::command::wait::{served_from, until_ms, wait};
use crate::keyspace::Keyspace;
use crate::resp::Reply;
use crate::state::ShardState;

/// Takes up to `count` members from an end of a sorted set and calls `answer` with each.
fn take(
    partition: &mut Partition,
    db: usize,
    key: &Key<'_>,
    end: Ranked,
    count: usize,
    mut answer: impl FnMut(&engine::Member<'_>),
) -> Result<(), CommandError> {
    let Some(set) = partition.sorted_set_look(db, key)? else { return Ok(()) };
    let (len, count) = (set.len(), count.min(set.len()));
    let (ranks, event) = match end {
        Ranked::Lowest => (0..count, Event::Zpopmin),
        Ranked::Highest => (len - count..len, Event::Zpopmax),
    };
    set.each_ranked(ranks.clone(), end == Ranked::Highest, |member| answer(&member));
    partition.sorted_set_remove_ranks(db, key, ranks, event)?;
    Ok(())
}

fn pop(ctx: &mut CommandCtx<'_>, end: Ranked) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let count = match args.len() {
        2 => None,
        3 => {
            let count = parse_i64(args.get(2)).and_then(|count| usize::try_from(count).ok());
            Some(count.ok_or(CommandError::new("ERR value is out of range, must be positive"))?)
        }
        _ => return Err(SYNTAX),
    };
    let len = ctx.keyspace.sorted_set_look(db, &key)?.map_or(0, |set| set.len());
    let taken = count.unwrap_or(1).min(len);
    let reply = &mut *ctx.reply;
    match count {
        Some(_) => {
            answer_count(reply, taken, true);
            take(ctx.keyspace, db, &key, end, taken, |member| answer_member(reply, member, true))
        }
        None => {
            reply.array(2 * taken);
            take(ctx.keyspace, db, &key, end, taken, |member| {
                answer_string(reply, Some(member.name));
                reply.double(member.score);
            })
        }
    }
}

pub(super) fn zpopmin(ctx: &mut CommandCtx<'_>) -> CommandResult {
    pop(ctx, Ranked::Lowest)
}

pub(super) fn zpopmax(ctx: &mut CommandCtx<'_>) -> CommandResult {
    pop(ctx, Ranked::Highest)
}

/// Takes members from a sorted set and answers its key with them: an array of up to `count` pairs, or
/// one member and its score behind the key; false without the set.
fn answer_taken(
    partition: &mut Partition,
    reply: &mut Reply,
    db: usize,
    key: &Key<'_>,
    PopScored { end, count }: PopScored,
) -> Result<bool, CommandError> {
    let Some(set) = partition.sorted_set_look(db, key)? else { return Ok(false) };
    let len = set.len();
    reply.array(if count.is_some() { 2 } else { 3 });
    reply.bulk(key.bytes);
    if let Some(count) = count {
        reply.array(count.min(len));
    }
    take(partition, db, key, end, count.unwrap_or(1), |member| {
        if count.is_some() {
            reply.array(2);
        }
        answer_string(reply, Some(member.name));
        reply.double(member.score);
    })?;
    Ok(true)
}

/// Takes members from the first of several sorted sets that is there, and answers its key and them;
/// false without any.
fn take_from_first(
    ctx: &mut CommandCtx<'_>,
    keys: Range<usize>,
    pop: PopScored,
) -> Result<bool, CommandError> {
    let db = ctx.client.db;
    for index in keys {
        let key = ctx.key(index);
        if answer_taken(ctx.keyspace.of(&key), ctx.reply, db, &key, pop)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads `numkeys key ... MIN|MAX [COUNT count]` from an argument on, and says where the keys end.
fn parse_many(args: Args<'_>, first: usize) -> Result<(usize, PopScored), CommandError> {
    let keys = parse_i64(args.get(first)).filter(|count| *count > 0);
    let keys = keys.ok_or(CommandError::new("ERR numkeys should be greater than 0"))?;
    let keys_end = usize::try_from(keys).ok().and_then(|keys| keys.checked_add(first + 1));
    let keys_end = keys_end.filter(|end| *end < args.len()).ok_or(SYNTAX)?;
    let end = match () {
        () if args.is(keys_end, "min") => Ranked::Lowest,
        () if args.is(keys_end, "max") => Ranked::Highest,
        () => return Err(SYNTAX),
    };
    let mut count = None;
    let mut cursor = args.cursor(keys_end + 1);
    while cursor.remaining() > 0 {
        let text = cursor.accept_with_value("count").filter(|_| count.is_none());
        let number = parse_i64(text.ok_or(SYNTAX)?).filter(|number| *number > 0);
        let number = number.ok_or(CommandError::new("ERR count should be greater than 0"))?;
        count = Some(number as usize);
    }
    Ok((keys_end, PopScored { end, count: Some(count.unwrap_or(1)) }))
}

pub(super) fn zmpop(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (keys_end, pop) = parse_many(ctx.args, 1)?;
    if !take_from_first(ctx, 2..keys_end, pop)? {
        ctx.reply.null_array();
    }
    Ok(())
}

/// Takes members from the first of several sorted sets, or waits for some.
fn take_or_wait(
    ctx: &mut CommandCtx<'_>,
    keys: Range<usize>,
    until_ms: Option<u64>,
    pop: PopScored,
) -> CommandResult {
    if take_from_first(ctx, keys.clone(), pop)? {
        return Ok(());
    }
    if !ctx.may_block() {
        ctx.reply.null_array();
        return Ok(());
    }
    wait(ctx, keys, until_ms, &pop, |share| &mut share.sorted_set_waiters, Vec::new())
}

fn blocking_pop(ctx: &mut CommandCtx<'_>, end: Ranked) -> CommandResult {
    let last = ctx.args.len() - 1;
    let until_ms = until_ms(ctx, ctx.args.get(last))?;
    take_or_wait(ctx, 1..last, until_ms, PopScored { end, count: None })
}

pub(super) fn bzpopmin(ctx: &mut CommandCtx<'_>) -> CommandResult {
    blocking_pop(ctx, Ranked::Lowest)
}

pub(super) fn bzpopmax(ctx: &mut CommandCtx<'_>) -> CommandResult {
    blocking_pop(ctx, Ranked::Highest)
}

pub(super) fn bzmpop(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (keys_end, pop) = parse_many(ctx.args, 2)?;
    let until_ms = until_ms(ctx, ctx.args.get(1))?;
    take_or_wait(ctx, 3..keys_end, until_ms, pop)
}

impl Keyspace {
    /// Serves those who wait for a sorted set of a share that is at hand, as long as it has members.
    pub fn serve_sorted_sets(
        &mut self,
        state: &mut ShardState,
        shard: usize,
        db: usize,
        name: &[u8],
    ) {
        let key = self.key(name);
        loop {
            let share = self.share_mut(shard);
            let Ok(Some(_)) = share.partition.sorted_set_look(db, &key) else { break };
            let Some(waiter) = share.sorted_set_waiters.claim_next(db, name) else { break };
            let mut reply = Reply::new(Vec::new(), waiter.protocol);
            let key = served_from(self, db, &waiter, name);
            let served = answer_taken(self.of(&key), &mut reply, db, &key, waiter.want);
            if let Err(error) = served {
                reply = Reply::new(Vec::new(), waiter.protocol);
                reply.error(&error.0);
            }
            state.serve(&waiter, reply.into_bytes());
        }
        self.share_mut(shard).update_listening();
    }
}
