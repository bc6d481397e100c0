//! Commands that take elements from the ends of lists.

use encodings::integer::parse_i64;
use engine::{End, Event, Key, Partition};

use super::push_event;
use crate::command::args::Args;
use crate::command::dispatch::{CommandCtx, CommandResult, wrong_arity};
use crate::command::error::{CommandError, SYNTAX};
use crate::command::string::answer_string;
use crate::resp::Reply;

fn pop_event(end: End) -> Event {
    if end == End::Head { Event::Lpop } else { Event::Rpop }
}

/// LEFT or RIGHT.
fn end_of(args: Args<'_>, index: usize) -> Result<End, CommandError> {
    if args.is(index, "left") {
        Ok(End::Head)
    } else if args.is(index, "right") {
        Ok(End::Tail)
    } else {
        Err(SYNTAX)
    }
}

/// Takes up to `count` elements from an end of a list that is there, and answers them.
fn take(
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
struct ManyArgs {
    /// Where the keys end.
    keys_end: usize,
    end: End,
    count: usize,
}

impl ManyArgs {
    /// Reads `numkeys key ... LEFT|RIGHT [COUNT count]` from an argument on.
    fn parse(args: Args<'_>, first: usize) -> Result<Self, CommandError> {
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

pub(super) fn lmpop(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let ManyArgs { keys_end, end, count } = ManyArgs::parse(ctx.args, 1)?;
    let db = ctx.client.db;
    for index in 2..keys_end {
        let key = ctx.key(index);
        let partition = ctx.keyspace.of(&key);
        if let Some(len) = partition.list_look(db, &key)?.map(|list| list.len()) {
            ctx.reply.array(2);
            ctx.reply.bulk(key.bytes);
            ctx.reply.array(count.min(len));
            return take(partition, ctx.reply, db, &key, end, count);
        }
    }
    ctx.reply.null_array();
    Ok(())
}

fn move_element(ctx: &mut CommandCtx<'_>, from_end: End, to_end: End) -> CommandResult {
    let (from, to, db) = (ctx.key(1), ctx.key(2), ctx.client.db);
    let source = ctx.keyspace.of(&from).list(db, &from)?;
    let element = source.and_then(|list| match from_end {
        End::Head => list.get(0),
        End::Tail => list.iter_back_from(list.len() - 1).next(),
    });
    let Some(element) = element.map(|element| element.with_text(<[u8]>::to_vec)) else {
        ctx.reply.null();
        return Ok(());
    };
    ctx.keyspace.of(&to).list_look(db, &to)?;
    // What comes first keeps a list alive that moves its only element to itself.
    let once = std::iter::once(element.as_slice());
    ctx.keyspace.of(&to).list_push(db, &to, to_end, once, push_event(to_end))?;
    ctx.keyspace.of(&from).list_pop(db, &from, from_end, 1, pop_event(from_end))?;
    ctx.reply.bulk(&element);
    Ok(())
}

pub(super) fn lmove(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (from_end, to_end) = (end_of(ctx.args, 3)?, end_of(ctx.args, 4)?);
    move_element(ctx, from_end, to_end)
}

pub(super) fn rpoplpush(ctx: &mut CommandCtx<'_>) -> CommandResult {
    move_element(ctx, End::Tail, End::Head)
}
