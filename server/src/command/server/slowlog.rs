//! SLOWLOG: the last commands that took long.

use crate::command::dispatch::{CommandCtx, CommandResult, subcommand_syntax};
use crate::command::error::CommandError;

/// Entries that GET shows without a count.
const DEFAULT_COUNT: usize = 10;

const BAD_COUNT: CommandError =
    CommandError::new("ERR count should be greater than or equal to -1");

const HELP: &[&str] = &[
    "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET [<count>]",
    "    Show the last <count> entries (default: 10, -1 is all). An entry is made of:",
    "    id, time in seconds, duration in microseconds, array of arguments, client's address,",
    "    client's name",
    "LEN",
    "    Count the entries.",
    "RESET",
    "    Remove all entries.",
    "HELP",
    "    Print this help.",
];

pub(super) fn help(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.reply.lines(HELP);
    Ok(())
}

pub(super) fn get(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let count = match ctx.args.len() {
        2 => DEFAULT_COUNT,
        3 => match ctx.args.integer(2).map_err(|_| BAD_COUNT)? {
            -1 => usize::MAX,
            count => usize::try_from(count).map_err(|_| BAD_COUNT)?,
        },
        _ => return Err(subcommand_syntax(ctx)),
    };
    let slow_log = ctx.shard.process.slow_log();
    let count = count.min(slow_log.entries().len());
    ctx.reply.array(count);
    for entry in slow_log.entries().take(count) {
        ctx.reply.array(6);
        ctx.reply.integer(entry.id as i64);
        ctx.reply.integer(entry.unix_s as i64);
        ctx.reply.integer(entry.duration_us as i64);
        ctx.reply.array(entry.args.len());
        entry.args.iter().for_each(|arg| ctx.reply.bulk(arg));
        ctx.reply.bulk(entry.address.as_bytes());
        ctx.reply.bulk(&entry.name);
    }
    Ok(())
}

pub(super) fn len(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let len = ctx.shard.process.slow_log().entries().len();
    ctx.reply.count(len);
    Ok(())
}

pub(super) fn reset(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.shard.process.slow_log().reset();
    ctx.reply.ok();
    Ok(())
}
