//! Commands on whole databases: DBSIZE, FLUSHALL, FLUSHDB, SWAPDB.

use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{CommandError, DB_OUT_OF_RANGE, SYNTAX};

pub(super) fn dbsize(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let keys = ctx.keyspace.all().map(|(_, partition)| partition.len(ctx.client.db)).sum();
    ctx.reply.count(keys);
    Ok(())
}

/// Checks the option of FLUSHALL and FLUSHDB. Either way the caller waits for the old tables to
/// be taken out of use only; their memory is freed in steps.
fn check_flush_option(ctx: &CommandCtx<'_>) -> CommandResult {
    let mut cursor = ctx.args.cursor(1);
    if !cursor.accept("async") {
        cursor.accept("sync");
    }
    if cursor.remaining() > 0 { Err(SYNTAX) } else { Ok(()) }
}

pub(super) fn flushall(ctx: &mut CommandCtx<'_>) -> CommandResult {
    check_flush_option(ctx)?;
    ctx.keyspace.all_mut().for_each(|share| share.flush_all());
    ctx.shard.invalidate_all(ctx.client);
    ctx.reply.ok();
    Ok(())
}

pub(super) fn flushdb(ctx: &mut CommandCtx<'_>) -> CommandResult {
    check_flush_option(ctx)?;
    let db = ctx.client.db;
    ctx.keyspace.all_mut().for_each(|share| share.flush_db(db));
    ctx.shard.invalidate_all(ctx.client);
    ctx.reply.ok();
    Ok(())
}

/// A database number of SWAPDB: an `int` of C.
fn number(text: &[u8], refusal: CommandError) -> Result<i32, CommandError> {
    let value = encodings::integer::parse_i64(text).and_then(|value| i32::try_from(value).ok());
    value.ok_or(refusal)
}

pub(super) fn swapdb(ctx: &mut CommandCtx<'_>) -> CommandResult {
    if ctx.shard.config.cluster_enabled {
        return Err(CommandError::new("ERR SWAPDB is not allowed in cluster mode"));
    }
    let first = number(ctx.args.get(1), CommandError::new("ERR invalid first DB index"))?;
    let second = number(ctx.args.get(2), CommandError::new("ERR invalid second DB index"))?;
    let databases = ctx.keyspace.databases();
    let index = |number: i32| {
        usize::try_from(number).ok().filter(|index| *index < databases).ok_or(DB_OUT_OF_RANGE)
    };
    let (first, second) = (index(first)?, index(second)?);
    ctx.keyspace.all_mut().for_each(|share| share.swap_db(first, second));
    ctx.reply.ok();
    Ok(())
}
