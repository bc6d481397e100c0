//! List commands.
//!
//! This file holds the rows and the commands about places in a list; those that take elements from
//! its ends stand in `pop.rs`, those that wait for some in `block.rs`.

mod block;
mod pop;

use encodings::integer::parse_i64;
use engine::{End, Event, StringValue};

use super::dispatch::{CommandCtx, CommandResult};
use super::error::{CommandError, NO_SUCH_KEY, NOT_AN_INTEGER, SYNTAX};
use super::spec::{Command, Family, Group, KeySpec, acl, flag, key_flag as key};
use super::string::answer_string;
use crate::resp::Reply;

const READ: &[KeySpec] = &[KeySpec::one(1, key::RO | key::ACCESS)];
const LOOK: &[KeySpec] = &[KeySpec::one(1, key::RO)];
const INSERT: &[KeySpec] = &[KeySpec::one(1, key::RW | key::INSERT)];
const UPDATE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::UPDATE)];
const REMOVE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::DELETE)];
const TAKE: &[KeySpec] = &[KeySpec::one(1, TAKES)];
const TAKE_COUNTED: &[KeySpec] = &[KeySpec::counted(1, TAKES)];
const TAKE_COUNTED_LATE: &[KeySpec] = &[KeySpec::counted(2, TAKES)];
const TAKE_ALL: &[KeySpec] = &[KeySpec { last: -2, ..KeySpec::all(1, 1, TAKES) }];
const MOVE: &[KeySpec] = &[KeySpec::one(1, TAKES), KeySpec::one(2, key::RW | key::INSERT)];
const TAKES: u16 = key::RW | key::ACCESS | key::DELETE;

const FAST_WRITE: u32 = flag::WRITE | flag::FAST;
const WAITS: u32 = flag::WRITE | flag::BLOCKING;
const GROWTH: u32 = flag::WRITE | flag::DENYOOM;
const FAST_GROWTH: u32 = GROWTH | flag::FAST;

const TO_THE_PLACE: &str = "O(N) with the elements up to the place";

const LIST: Family = Family { group: Group::List, categories: acl::LIST };

/// The rows of this family.
#[rustfmt::skip]
pub const COMMANDS: &[Command] = &[
    LIST.row("lpush", -3, FAST_GROWTH, lpush, INSERT, "1.0.0", "O(1) for each element",
        "Adds elements at the head of a list, which it creates if needed."),
    LIST.row("rpush", -3, FAST_GROWTH, rpush, INSERT, "1.0.0", "O(1) for each element",
        "Adds elements at the tail of a list, which it creates if needed."),
    LIST.row("lpushx", -3, FAST_GROWTH, lpushx, INSERT, "2.2.0", "O(1) for each element",
        "Adds elements at the head of a list that exists."),
    LIST.row("rpushx", -3, FAST_GROWTH, rpushx, INSERT, "2.2.0", "O(1) for each element",
        "Adds elements at the tail of a list that exists."),
    LIST.row("lpop", -2, FAST_WRITE, pop::lpop, TAKE, "1.0.0", "O(N) with the elements taken",
        "Takes elements from the head of a list."),
    LIST.row("rpop", -2, FAST_WRITE, pop::rpop, TAKE, "1.0.0", "O(N) with the elements taken",
        "Takes elements from the tail of a list."),
    LIST.row("lmpop", -4, flag::WRITE | flag::MOVABLE_KEYS, pop::lmpop, TAKE_COUNTED, "7.0.0",
        "O(N+M) with the keys and the elements taken",
        "Takes elements from the first of several lists that has any."),
    LIST.row("lmove", 5, GROWTH, pop::lmove, MOVE, "6.2.0", "O(1)",
        "Moves an element from an end of a list to an end of another, or of the same."),
    LIST.row("rpoplpush", 3, GROWTH, pop::rpoplpush, MOVE, "1.2.0", "O(1)",
        "Moves the last element of a list to the head of another, or of the same."),
    LIST.row("blpop", -3, WAITS, block::blpop, TAKE_ALL, "2.0.0", "O(N) with the number of keys",
        "Takes the first element of the first of several lists that has any, or waits for one."),
    LIST.row("brpop", -3, WAITS, block::brpop, TAKE_ALL, "2.0.0", "O(N) with the number of keys",
        "Takes the last element of the first of several lists that has any, or waits for one."),
    LIST.row("blmpop", -5, WAITS | flag::MOVABLE_KEYS, block::blmpop, TAKE_COUNTED_LATE, "7.0.0",
        "O(N+M) with the keys and the elements taken",
        "Takes elements from the first of several lists that has any, or waits for one."),
    LIST.row("blmove", 6, WAITS | flag::DENYOOM, block::blmove, MOVE, "6.2.0", "O(1)",
        "Moves an element from an end of a list to an end of another, or waits for one."),
    LIST.row("brpoplpush", 4, WAITS | flag::DENYOOM, block::brpoplpush, MOVE, "2.2.0", "O(1)",
        "Moves the last element of a list to the head of another, or waits for one."),
    LIST.row("llen", 2, flag::READONLY | flag::FAST, llen, LOOK, "1.0.0", "O(1)",
        "Counts the elements of a list."),
    LIST.row("lindex", 3, flag::READONLY, lindex, READ, "1.0.0", TO_THE_PLACE,
        "Reads the element of a list at an index."),
    LIST.row("lrange", 4, flag::READONLY, lrange, READ, "1.0.0",
        "O(S+N) with the distance to the start and the elements answered",
        "Reads a range of a list."),
    LIST.row("lset", 4, GROWTH, lset, UPDATE, "1.0.0", TO_THE_PLACE,
        "Gives the element of a list at an index another value."),
    LIST.row("linsert", 5, GROWTH, linsert, INSERT, "2.2.0", TO_THE_PLACE,
        "Puts an element before or after another one."),
    LIST.row("lrem", 4, flag::WRITE, lrem, REMOVE, "1.0.0",
        "O(N+M) with the length and the elements taken away",
        "Takes elements away that are equal to one."),
    LIST.row("ltrim", 4, flag::WRITE, ltrim, REMOVE, "1.0.0", "O(N) with the elements taken away",
        "Leaves only a range of a list."),
    LIST.row("lpos", -3, flag::READONLY, lpos, READ, "6.0.6", "O(N) with the elements looked at",
        "Tells where elements equal to one are."),
];

fn push(ctx: &mut CommandCtx<'_>, end: End, must_exist: bool) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    if must_exist && ctx.keyspace.list_look(db, &key)?.is_none() {
        ctx.reply.integer(0);
        return Ok(());
    }
    let event = push_event(end);
    let len = ctx.keyspace.list_push(db, &key, end, args.from(2), event)?;
    ctx.reply.count(len);
    Ok(())
}

fn push_event(end: End) -> Event {
    if end == End::Head { Event::Lpush } else { Event::Rpush }
}

fn lpush(ctx: &mut CommandCtx<'_>) -> CommandResult {
    push(ctx, End::Head, false)
}

fn rpush(ctx: &mut CommandCtx<'_>) -> CommandResult {
    push(ctx, End::Tail, false)
}

fn lpushx(ctx: &mut CommandCtx<'_>) -> CommandResult {
    push(ctx, End::Head, true)
}

fn rpushx(ctx: &mut CommandCtx<'_>) -> CommandResult {
    push(ctx, End::Tail, true)
}

fn llen(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db) = (ctx.key(1), ctx.client.db);
    let len = ctx.keyspace.list(db, &key)?.map_or(0, |list| list.len());
    ctx.reply.count(len);
    Ok(())
}

/// The place that an index names, which counts from the tail if it is negative.
fn place(index: i64, len: usize) -> Option<usize> {
    let place = if index < 0 { index + len as i64 } else { index };
    usize::try_from(place).ok().filter(|place| *place < len)
}

/// The places from `start` to `end`, both included, of so many: the first one and how many.
fn range(start: i64, end: i64, len: usize) -> (usize, usize) {
    let len = len as i64;
    let from_tail = |index: i64| if index < 0 { index + len } else { index };
    let (start, end) = (from_tail(start).max(0), from_tail(end).min(len - 1));
    if start > end { (0, 0) } else { (start as usize, (end - start + 1) as usize) }
}

fn lindex(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let Some(list) = ctx.keyspace.list(db, &key)? else {
        ctx.reply.null();
        return Ok(());
    };
    let index = args.integer(2)?;
    let element = place(index, list.len()).and_then(|place| list.get(place));
    answer_string(ctx.reply, element);
    Ok(())
}

fn lrange(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (start, end) = (ctx.args.integer(2)?, ctx.args.integer(3)?);
    let (key, db) = (ctx.key(1), ctx.client.db);
    let Some(list) = ctx.keyspace.list(db, &key)? else {
        ctx.reply.array(0);
        return Ok(());
    };
    let (first, count) = range(start, end, list.len());
    ctx.reply.array(count);
    for element in list.iter_from(first).take(count) {
        answer_string(ctx.reply, Some(element));
    }
    Ok(())
}

fn lset(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let len = ctx.keyspace.list_look(db, &key)?.ok_or(NO_SUCH_KEY)?.len();
    let index = args.integer(2)?;
    let place = place(index, len).ok_or(CommandError::new("ERR index out of range"))?;
    ctx.keyspace.list_set(db, &key, place, args.get(3))?;
    ctx.reply.ok();
    Ok(())
}

fn linsert(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let after = args.is(2, "after");
    if !after && !args.is(2, "before") {
        return Err(SYNTAX);
    }
    let Some(list) = ctx.keyspace.list_look(db, &key)? else {
        ctx.reply.integer(0);
        return Ok(());
    };
    let Some(pivot) = list.position(args.get(3)) else {
        ctx.reply.integer(-1);
        return Ok(());
    };
    let len = ctx.keyspace.list_insert(db, &key, pivot + usize::from(after), args.get(4))?;
    ctx.reply.count(len);
    Ok(())
}

fn lrem(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let count = ctx.args.integer(2)?;
    if count == i64::MIN {
        return Err(OUT_OF_RANGE);
    }
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let removed = ctx.keyspace.list_remove(db, &key, count, args.get(3))?;
    ctx.reply.count(removed);
    Ok(())
}

fn ltrim(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (start, end) = (ctx.args.integer(2)?, ctx.args.integer(3)?);
    let (key, db) = (ctx.key(1), ctx.client.db);
    if let Some(len) = ctx.keyspace.list_look(db, &key)?.map(|list| list.len()) {
        let (first, count) = range(start, end, len);
        ctx.keyspace.list_keep(db, &key, first, count)?;
    }
    ctx.reply.ok();
    Ok(())
}

/// The options of LPOS.
struct PosArgs {
    rank: i64,
    count: Option<usize>,
    len_max: usize,
}

impl PosArgs {
    fn parse(ctx: &CommandCtx<'_>) -> Result<Self, CommandError> {
        const ZERO_RANK: CommandError = CommandError::new(
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or \
             use negative to start from the end of the list",
        );
        let mut parsed = Self { rank: 1, count: None, len_max: 0 };
        let mut cursor = ctx.args.cursor(3);
        let size = |text: &[u8], negative: &'static str| {
            let number = parse_i64(text).and_then(|number| usize::try_from(number).ok());
            number.ok_or(CommandError::new(negative))
        };
        while cursor.remaining() > 0 {
            if let Some(text) = cursor.accept_with_value("rank") {
                parsed.rank = parse_i64(text).ok_or(NOT_AN_INTEGER)?;
                match parsed.rank {
                    0 => return Err(ZERO_RANK),
                    i64::MIN => return Err(OUT_OF_RANGE),
                    _ => {}
                }
            } else if let Some(text) = cursor.accept_with_value("count") {
                parsed.count = Some(size(text, "ERR COUNT can't be negative")?);
            } else if let Some(text) = cursor.accept_with_value("maxlen") {
                parsed.len_max = size(text, "ERR MAXLEN can't be negative")?;
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(parsed)
    }
}

const OUT_OF_RANGE: CommandError = CommandError::new(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);

fn lpos(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let PosArgs { rank, count, len_max } = PosArgs::parse(ctx)?;
    let (key, db, element) = (ctx.key(1), ctx.client.db, ctx.args.get(2));
    let Some(list) = ctx.keyspace.list(db, &key)? else {
        match count {
            Some(_) => ctx.reply.array(0),
            None => ctx.reply.null(),
        }
        return Ok(());
    };
    if rank == 1 && count.is_none() && len_max == 0 {
        match list.position(element) {
            Some(place) => ctx.reply.count(place),
            None => ctx.reply.null(),
        }
        return Ok(());
    }
    let len = list.len();
    let looked_at = if len_max == 0 { len } else { len_max };
    if rank > 0 {
        let elements = list.iter_from(0).take(looked_at).enumerate();
        answer_places(ctx.reply, elements, element, rank, count);
    } else {
        let back = list.iter_back_from(len - 1).take(looked_at).enumerate();
        let elements = back.map(|(distance, other)| (len - 1 - distance, other));
        answer_places(ctx.reply, elements, element, rank, count);
    }
    Ok(())
}

/// Answers where elements equal to one are: `count` of them or all from the `rank`th one on, or only
/// that one.
fn answer_places<'l>(
    reply: &mut Reply,
    elements: impl Iterator<Item = (usize, StringValue<'l>)>,
    element: &[u8],
    rank: i64,
    count: Option<usize>,
) {
    let wanted = parse_i64(element).map_or(StringValue::Bytes(element), StringValue::Int);
    let mut found = elements
        .filter(|(_, other)| *other == wanted)
        .map(|(place, _)| place)
        .skip(rank.unsigned_abs() as usize - 1);
    match count {
        None => match found.next() {
            Some(place) => reply.count(place),
            None => reply.null(),
        },
        Some(count) => {
            let start = reply.defer();
            let mut answered = 0;
            for place in found.take(if count == 0 { usize::MAX } else { count }) {
                reply.count(place);
                answered += 1;
            }
            reply.finish_array(start, answered);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_ranges() {
        assert_eq!(place(-1, 3), Some(2));
        assert_eq!(place(-4, 3), None);
        assert_eq!(place(3, 3), None);
        assert_eq!(range(0, -1, 3), (0, 3));
        assert_eq!(range(-100, 100, 3), (0, 3));
        assert_eq!(range(2, 1, 3), (0, 0));
        assert_eq!(range(5, 9, 3), (0, 0));
        assert_eq!(range(-2, -2, 3), (1, 1));
    }
}
