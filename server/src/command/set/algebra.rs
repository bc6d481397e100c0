//! Commands on several sets: intersection, union, difference, and moving a member.

use std::collections::HashSet;

use encodings::integer::parse_i64;
use engine::{Event, Key, Members, ValueType};

use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{CommandError, SYNTAX};
use crate::keyspace::Keyspace;

/// How several sets become one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Inter,
    Union,
    Diff,
}

/// Members by their bytes, each once, in the order in which they came.
#[derive(Default)]
struct Gathered {
    names: Vec<Box<[u8]>>,
    /// All come from an intset.
    by_rows: bool,
}

/// The sets at some keys; a missing one is empty.
fn sets<'k>(
    keyspace: &'k mut Keyspace,
    db: usize,
    keys: &[Key<'_>],
) -> Result<Vec<Option<Members<'k>>>, CommandError> {
    // First as a read of each, which checks the types and lets what is due expire; then all at
    // once without a trace.
    for key in keys {
        keyspace.of(key).set_members(db, key)?;
    }
    let keyspace: &'k Keyspace = keyspace;
    keys.iter()
        .map(|key| Ok(keyspace.view_of(key).view_members(db, key, ValueType::Set)?))
        .collect()
}

/// Calls `f` with the members that all sets have, until it answers false.
fn each_common(mut sets: Vec<Members<'_>>, mut f: impl FnMut(&[u8]) -> bool) -> bool {
    sets.sort_by_key(Members::len);
    let (smallest, others) = sets.split_first().expect("a command names a key");
    let mut goes_on = true;
    smallest.for_each(|member| {
        if goes_on {
            goes_on = member
                .name
                .with_text(|name| !others.iter().all(|other| other.get(name).is_some()) || f(name));
        }
    });
    // Whether the result is made like the smallest set.
    !smallest.is_intset()
}

fn gather(
    keyspace: &mut Keyspace,
    db: usize,
    keys: &[Key<'_>],
    operation: Operation,
) -> Result<Gathered, CommandError> {
    let sets = sets(keyspace, db, keys)?;
    let mut gathered = Gathered::default();
    let names = &mut gathered.names;
    match operation {
        Operation::Inter => {
            if let Some(sets) = sets.into_iter().collect::<Option<Vec<_>>>() {
                gathered.by_rows = each_common(sets, |name| {
                    names.push(name.into());
                    true
                });
            }
        }
        Operation::Union => {
            let mut seen: HashSet<Box<[u8]>> = HashSet::new();
            for set in sets.into_iter().flatten() {
                set.for_each(|member| {
                    member.name.with_text(|name| {
                        if !seen.contains(name) {
                            seen.insert(name.into());
                            names.push(name.into());
                        }
                    });
                });
            }
        }
        Operation::Diff => {
            if let Some((Some(first), others)) = sets.split_first() {
                let others: Vec<_> = others.iter().flatten().collect();
                first.for_each(|member| {
                    member.name.with_text(|name| {
                        if others.iter().all(|other| other.get(name).is_none()) {
                            names.push(name.into());
                        }
                    });
                });
            }
        }
    }
    Ok(gathered)
}

fn keys<'a>(ctx: &CommandCtx<'a>, first: usize) -> Vec<Key<'a>> {
    (first..ctx.args.len()).map(|index| *ctx.key(index)).collect()
}

fn answer(ctx: &mut CommandCtx<'_>, operation: Operation) -> CommandResult {
    let keys = keys(ctx, 1);
    let gathered = gather(ctx.keyspace, ctx.client.db, &keys, operation)?;
    ctx.reply.set(gathered.names.len());
    gathered.names.iter().for_each(|name| ctx.reply.bulk(name));
    Ok(())
}

fn store(ctx: &mut CommandCtx<'_>, operation: Operation, event: Event) -> CommandResult {
    let (keys, db, target) = (keys(ctx, 2), ctx.client.db, ctx.key(1));
    let gathered = gather(ctx.keyspace, db, &keys, operation)?;
    let names = gathered.names.iter().map(AsRef::as_ref);
    let partition = ctx.keyspace.of(&target);
    let count = partition.set_store(db, &target, names, gathered.by_rows, event)?;
    ctx.reply.count(count);
    Ok(())
}

pub(super) fn sinter(ctx: &mut CommandCtx<'_>) -> CommandResult {
    answer(ctx, Operation::Inter)
}

pub(super) fn sunion(ctx: &mut CommandCtx<'_>) -> CommandResult {
    answer(ctx, Operation::Union)
}

pub(super) fn sdiff(ctx: &mut CommandCtx<'_>) -> CommandResult {
    answer(ctx, Operation::Diff)
}

pub(super) fn sinterstore(ctx: &mut CommandCtx<'_>) -> CommandResult {
    store(ctx, Operation::Inter, Event::Sinterstore)
}

pub(super) fn sunionstore(ctx: &mut CommandCtx<'_>) -> CommandResult {
    store(ctx, Operation::Union, Event::Sunionstore)
}

pub(super) fn sdiffstore(ctx: &mut CommandCtx<'_>) -> CommandResult {
    store(ctx, Operation::Diff, Event::Sdiffstore)
}

pub(super) fn sintercard(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let args = ctx.args;
    let count = parse_i64(args.get(1)).filter(|count| *count > 0);
    let count = count.ok_or(CommandError::new("ERR numkeys should be greater than 0"))?;
    let end = usize::try_from(count).ok().and_then(|count| count.checked_add(2));
    let end = end
        .filter(|end| *end <= args.len())
        .ok_or(CommandError::new("ERR Number of keys can't be greater than number of args"))?;
    let mut limit = 0;
    let mut cursor = args.cursor(end);
    while cursor.remaining() > 0 {
        let text = cursor.accept_with_value("limit").ok_or(SYNTAX)?;
        let number = parse_i64(text).and_then(|number| usize::try_from(number).ok());
        limit = number.ok_or(CommandError::new("ERR LIMIT can't be negative"))?;
    }
    let keys: Vec<_> = (2..end).map(|index| *ctx.key(index)).collect();
    let mut found = 0;
    if let Some(sets) = sets(ctx.keyspace, ctx.client.db, &keys)?.into_iter().collect() {
        each_common(sets, |_| {
            found += 1;
            found != limit
        });
    }
    ctx.reply.count(found);
    Ok(())
}

pub(super) fn smove(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (from, to, db) = (ctx.key(1), ctx.key(2), ctx.client.db);
    let member = ctx.args.get(3);
    let once = || std::iter::once(member);
    let source = ctx.keyspace.of(&from).set_members(db, &from)?;
    let Some(is_member) = source.map(|set| set.get(member).is_some()) else {
        ctx.reply.integer(0);
        return Ok(());
    };
    ctx.keyspace.of(&to).set_members(db, &to)?;
    if is_member && from.bytes != to.bytes {
        ctx.keyspace.of(&from).remove_members(db, &from, once(), Event::Srem)?;
        ctx.keyspace.of(&to).set_add(db, &to, once(), Event::Sadd)?;
    }
    ctx.reply.integer(i64::from(is_member));
    Ok(())
}
