//! CLIENT PAUSE, UNPAUSE, UNBLOCK: stopping clients and letting them go on.

use crate::blocking::Unblock;
use crate::command::args::Args;
use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{CommandError, NOT_AN_INTEGER};
use crate::input::Core;
use crate::survey::Report;

/// Until when CLIENT PAUSE stops commands, in milliseconds since 1970, and whether all of them.
fn parse_pause(args: Args<'_>, now_ms: u64) -> Result<(u64, bool), CommandError> {
    let all = match args.len() {
        3 => true,
        4 if args.is(3, "all") => true,
        4 if args.is(3, "write") => false,
        4 => {
            return Err(CommandError::new("ERR CLIENT PAUSE mode must be WRITE or ALL"));
        }
        _ => return Err(crate::command::error::SYNTAX),
    };
    Ok((args.until_ms(2, now_ms)?.unwrap_or(now_ms), all))
}

pub(super) fn pause(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (until_ms, all) = parse_pause(ctx.args, ctx.shard.now_ms())?;
    ctx.shard.process.pause_until(until_ms, all);
    ctx.shard.refresh_pause();
    ctx.reply.ok();
    Ok(())
}

/// Has another shard stop before the client is told.
pub(super) fn survey_pause(args: Args<'_>, core: &mut Core) -> Report {
    if let Ok((until_ms, all)) = parse_pause(args, core.state.now_ms()) {
        core.state.process.pause_until(until_ms, all);
        core.state.refresh_pause();
    }
    Report::Count(0)
}

pub(super) fn unpause(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.shard.process.unpause();
    ctx.shard.refresh_pause();
    ctx.reply.ok();
    Ok(())
}

/// Has another shard go on.
pub(super) fn survey_unpause(_: Args<'_>, core: &mut Core) -> Report {
    core.state.process.unpause();
    core.state.refresh_pause();
    Report::Count(0)
}

fn parse_unblock(args: Args<'_>) -> Result<(i64, Unblock), CommandError> {
    let why = match args.len() {
        3 => Unblock::Timeout,
        4 if args.is(3, "timeout") => Unblock::Timeout,
        4 if args.is(3, "error") => Unblock::Error,
        4 => {
            return Err(CommandError::new("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
        }
        _ => return Err(crate::command::error::SYNTAX),
    };
    let id = encodings::integer::parse_i64(args.get(2)).ok_or(NOT_AN_INTEGER)?;
    Ok((id, why))
}

pub(super) fn unblock(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (id, why) = parse_unblock(ctx.args)?;
    let elsewhere = ctx.reports().iter().any(|report| matches!(report, Report::Count(1)));
    let unblocked = ctx.shard.unblock_by_id(id, why) || elsewhere;
    ctx.reply.integer(i64::from(unblocked));
    Ok(())
}

/// Looks for the client among another shard's.
pub(super) fn survey_unblock(args: Args<'_>, core: &mut Core) -> Report {
    let unblocked = parse_unblock(args).is_ok_and(|(id, why)| core.state.unblock_by_id(id, why));
    Report::Count(usize::from(unblocked))
}
