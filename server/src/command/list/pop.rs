//! Commands that take elements from the ends of lists.

use std::ops::Range;

use encodings::integer::parse_i64;
use engine::{End, Event, Key, Partition};

use super::push_event;
use crate::command::args::Args;
use crate::command::dispatch::{CommandCtx, CommandResult, wrong_arity};
use crate::command::error::{CommandError, SYNTAX};
use crate::command::string::answer_string;
use crate::keyspace::Keyspace;
use crate::resp::Reply;

pub(super) fn pop_event(end: End) -> Event {
    if end == End::Head { Event::Lpop } else { Event::Rpop }
}

/// LEFT or RIGHT.
pub(super) fn end_of(args: Args<'_>, index: usize) -> Result<End, CommandError> {
    if args.is(index, "left") {
        Ok(End::Head)
    } else if args.is(index, "right") {
        Ok(End::Tail)
    } else {
        Err(SYNTAX)
    }
}

/// Takes up to `count` elements from an end of a list that is there, and answers them.
pub(super) fn take(
    partition: &mut Partition,
    reply: &mut Reply,
    db: usize,
    key: &Key<'_>,
    end: End,
    count: usize,
) -> Result<(), CommandError> {
    if let Some(list) = partition.list(db, key)? {
        match end {
            End::Head => {
                list.iter_from(0)
                    .take(count)
                    .for_each(|element| answer_string(reply, Some(element)));
            }
            End::Tail => {
                let last = list.len().saturating_sub(1);
                list.iter_back_from(last)
                    .take(count)
                    .for_each(|element| answer_string(reply, Some(element)));
            }
        }
    }
    partition.list_pop(db, key, end, count, pop_event(end))?;
    Ok(())
}

fn pop(ctx: &mut CommandCtx<'_>, end: End) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let count = match args.len() {
        2 => None,
        3 => {
            let count = parse_i64(args.get(2)).and_then(|count| usize::try_from(count).ok());
            Some(count.ok_or(CommandError::new("ERR value is out of range, must be positive"))?)
        }
        _ => return Err(wrong_arity(ctx.entry)),
    };
    let len = ctx.keyspace.list_look(db, &key)?.map(|list| list.len());
    match (len, count) {
        (None, None) => ctx.reply.null(),
        (None, Some(_)) => ctx.reply.null_array(),
        (Some(_), None) => take(ctx.keyspace, ctx.reply, db, &key, end, 1)?,
        (Some(len), Some(count)) => {
            ctx.reply.array(count.min(len));
            if count > 0 {
                take(ctx.keyspace, ctx.reply, db, &key, end, count)?;
            }
        }
    }
    Ok(())
}

pub(super) fn lpop(ctx: &mut CommandCtx<'_>) -> CommandResult {
    pop(ctx, End::Head)
}

pub(super) fn rpop(ctx: &mut CommandCtx<'_>) -> CommandResult {
    pop(ctx, End::Tail)
}

/// What LMPOP and BLMPOP ask for.
pub(super) struct ManyArgs {
    /// Where the keys end.
    pub(super) keys_end: usize,
    pub(super) end: End,
    pub(super) count: usize,
}

impl ManyArgs {
    /// Reads `numkeys key ... LEFT|RIGHT [COUNT count]` from an argument on.
    pub(super) fn parse(args: Args<'_>, first: usize) -> Result<Self, CommandError> {
        let keys = parse_i64(args.get(first)).filter(|count| *count > 0);
        let keys = keys.ok_or(CommandError::new("ERR numkeys should be greater than 0"))?;
        let keys_end = usize::try_from(keys).ok().and_then(|keys| keys.checked_add(first + 1));
        let keys_end = keys_end.filter(|end| *end < args.len()).ok_or(SYNTAX)?;
        let end = end_of(args, keys_end)?;
        let mut count = None;
        let mut cursor = args.cursor(keys_end + 1);
        while cursor.remaining() > 0 {
            let text = cursor.accept_with_value("count").filter(|_| count.is_none());
            let number = parse_i64(text.ok_or(SYNTAX)?).filter(|number| *number > 0);
            let number = number.ok_or(CommandError::new("ERR count should be greater than 0"))?;
            count = Some(number as usize);
        }
        Ok(Self { keys_end, end, count: count.unwrap_or(1) })
    }
}

/// Takes elements from the first of several lists that has any, and answers its key and them; false
/// without any.
pub(super) fn take_from_first(
    ctx: &mut CommandCtx<'_>,
    keys: Range<usize>,
    end: End,
    count: Option<usize>,
) -> Result<bool, CommandError> {
    let db = ctx.client.db;
    for index in keys {
        let key = ctx.key(index);
        if answer_taken(ctx.keyspace.of(&key), ctx.reply, db, &key, (end, count))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Answers the key of a list with elements that are taken from it: an array of up to `count`, or one;
/// false without the list.
pub(super) fn answer_taken(
    partition: &mut Partition,
    reply: &mut Reply,
    db: usize,
    key: &Key<'_>,
    (end, count): (End, Option<usize>),
) -> Result<bool, CommandError> {
    let Some(list) = partition.list_look(db, key)? else { return Ok(false) };
    let len = list.len();
    reply.array(2);
    reply.bulk(key.bytes);
    if let Some(count) = count {
        reply.array(count.min(len));
    }
    take(partition, reply, db, key, end, count.unwrap_or(1))?;
    Ok(true)
}

pub(super) fn lmpop(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let ManyArgs { keys_end, end, count } = ManyArgs::parse(ctx.args, 1)?;
    if !take_from_first(ctx, 2..keys_end, end, Some(count))? {
        ctx.reply.null_array();
    }
    Ok(())
}

/// Moves an element from an end of a list to an end of another, and answers it; false without one.
pub(super) fn move_element(
    keyspace: &mut Keyspace,
    reply: &mut Reply,
    db: usize,
    (from, from_end): (&Key<'_>, End),
    (to, to_end): (&Key<'_>, End),
) -> Result<bool, CommandError> {
    let source = keyspace.of(from).list(db, from)?;
    let element = source.and_then(|list| match from_end {
        End::Head => list.get(0),
        End::Tail => list.get(list.len() - 1),
    });
    let Some(element) = element.map(|element| element.with_text(<[u8]>::to_vec)) else {
        return Ok(false);
    };
    reply.bulk(&element);
    if from.bytes == to.bytes {
        let (from_end, to_end) = ((from_end, pop_event(from_end)), (to_end, push_event(to_end)));
        keyspace.of(from).list_rotate(db, from, from_end, to_end, &element)?;
        return Ok(true);
    }
    let once = std::iter::once(element.as_slice());
    keyspace.of(to).list_push(db, to, to_end, once, push_event(to_end))?;
    keyspace.of(from).list_pop(db, from, from_end, 1, pop_event(from_end))?;
    Ok(true)
}

fn move_now(ctx: &mut CommandCtx<'_>, from_end: End, to_end: End) -> CommandResult {
    let (from, to, db) = (ctx.key(1), ctx.key(2), ctx.client.db);
    if !move_element(ctx.keyspace, ctx.reply, db, (&from, from_end), (&to, to_end))? {
        ctx.reply.null();
    }
    Ok(())
}

pub(super) fn lmove(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (from_end, to_end) = (end_of(ctx.args, 3)?, end_of(ctx.args, 4)?);
    move_now(ctx, from_end, to_end)
}

pub(super) fn rpoplpush(ctx: &mut CommandCtx<'_>) -> CommandResult {
    move_now(ctx, End::Tail, End::Head)
}
