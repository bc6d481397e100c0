//! DEL, EXISTS, TYPE, TOUCH, RENAME, COPY, MOVE.

use engine::{DeleteCause, Origin, Transfer};

use crate::command::args::Cursor;
use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{
    CommandError, DB_OUT_OF_RANGE, NO_SUCH_KEY, NOT_AN_INTEGER, SAME_OBJECT, SYNTAX,
};

/// DEL and UNLINK: large values are freed in steps by either.
pub(super) fn del(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let mut deleted = 0;
    for index in 1..ctx.args.len() {
        let key = ctx.key(index);
        let share = ctx.keyspace.share_of(&key);
        let found = share.partition.delete(ctx.client.db, &key, DeleteCause::Command);
        if !found {
            // A deletion counts against who is about to fill the key, even if it finds nothing.
            share.leases.make_void(ctx.client.db, key.bytes);
        }
        deleted += i64::from(found);
    }
    ctx.reply.integer(deleted);
    Ok(())
}

/// Answers how many of the keys exist.
fn count(ctx: &mut CommandCtx<'_>, touch: bool) -> CommandResult {
    let mut found = 0;
    for index in 1..ctx.args.len() {
        let key = ctx.key(index);
        let db = ctx.client.db;
        let partition = ctx.keyspace.of(&key);
        let exists = if touch { partition.touch_key(db, &key) } else { partition.exists(db, &key) };
        found += usize::from(exists);
    }
    ctx.reply.count(found);
    Ok(())
}

pub(super) fn exists(ctx: &mut CommandCtx<'_>) -> CommandResult {
    count(ctx, false)
}

pub(super) fn touch(ctx: &mut CommandCtx<'_>) -> CommandResult {
    // The command's only purpose prevails over CLIENT NO-TOUCH.
    ctx.keyspace.set_no_touch(false);
    count(ctx, true)
}

pub(super) fn type_of(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let found = ctx.keyspace.type_of(ctx.client.db, &key);
    ctx.reply.status(found.map_or("none", |value_type| value_type.name()));
    Ok(())
}

pub(super) fn rename(ctx: &mut CommandCtx<'_>) -> CommandResult {
    rename_to(ctx, true)?;
    ctx.reply.ok();
    Ok(())
}

pub(super) fn renamenx(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let renamed = rename_to(ctx, false)?;
    ctx.reply.integer(i64::from(renamed));
    Ok(())
}

/// Renames; `false`: the other name is taken.
fn rename_to(ctx: &mut CommandCtx<'_>, replace: bool) -> Result<bool, CommandError> {
    let (from, to) = (ctx.key(1), ctx.key(2));
    let db = ctx.client.db;
    let outcome = match ctx.keyspace.pair(&from, &to) {
        None => ctx.keyspace.of(&from).rename(db, &from, &to, replace)?,
        Some((source, target)) => {
            source.transfer(db, &from, (target, db, &to), replace, Origin::Rename)?
        }
    };
    match outcome {
        Transfer::SourceMissing => Err(NO_SUCH_KEY),
        outcome => Ok(outcome == Transfer::Done),
    }
}

/// A database number.
///
/// # Errors
/// Redis's three texts: no integer, no `int` of C, no such database.
fn database(text: &[u8], databases: usize) -> Result<usize, CommandError> {
    let number = encodings::integer::parse_i64(text).ok_or(NOT_AN_INTEGER)?;
    if i32::try_from(number).is_err() {
        return Err(CommandError::new(
            "ERR value is out of range, value must between -2147483648 and 2147483647",
        ));
    }
    usize::try_from(number).ok().filter(|number| *number < databases).ok_or(DB_OUT_OF_RANGE)
}

/// The options of COPY.
struct CopyArgs {
    db: usize,
    replace: bool,
}

impl CopyArgs {
    fn parse(mut cursor: Cursor<'_>, db: usize, databases: usize) -> Result<Self, CommandError> {
        let mut parsed = Self { db, replace: false };
        while cursor.remaining() > 0 {
            if cursor.accept("replace") {
                parsed.replace = true;
            } else {
                let text = cursor.accept_with_value("db").ok_or(SYNTAX)?;
                parsed.db = database(text, databases)?;
            }
        }
        Ok(parsed)
    }
}

pub(super) fn copy(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let db = ctx.client.db;
    let parsed = CopyArgs::parse(ctx.args.cursor(3), db, ctx.keyspace.databases())?;
    if ctx.shard.config.cluster_enabled && (db != 0 || parsed.db != 0) {
        return Err(CommandError::new(
            "ERR Copying to another database is not allowed in cluster mode",
        ));
    }
    let (from, to) = (ctx.key(1), ctx.key(2));
    if parsed.db == db && from.bytes == to.bytes {
        return Err(SAME_OBJECT);
    }
    let outcome = match ctx.keyspace.pair(&from, &to) {
        None => ctx.keyspace.of(&from).copy(db, &from, parsed.db, &to, parsed.replace)?,
        Some((source, target)) => {
            source.transfer(db, &from, (target, parsed.db, &to), parsed.replace, Origin::Copy)?
        }
    };
    ctx.reply.integer(i64::from(outcome == Transfer::Done));
    Ok(())
}

pub(super) fn move_key(ctx: &mut CommandCtx<'_>) -> CommandResult {
    if ctx.shard.config.cluster_enabled {
        return Err(CommandError::new("ERR MOVE is not allowed in cluster mode"));
    }
    let (key, db) = (ctx.key(1), ctx.client.db);
    let to_db = database(ctx.args.get(2), ctx.keyspace.databases())?;
    if to_db == db {
        return Err(SAME_OBJECT);
    }
    let outcome = ctx.keyspace.move_key(db, &key, to_db)?;
    ctx.reply.integer(i64::from(outcome == Transfer::Done));
    Ok(())
}
