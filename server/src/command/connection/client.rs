//! The subcommands of CLIENT that are about the connection that sends them.

use crate::command::args::Args;
use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{CommandError, SYNTAX};
use crate::conn::ReplyMode;

const HELP: &[&str] = &[
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GETNAME",
    "    Answer the name of this connection.",
    "ID",
    "    Answer the number of this connection.",
    "INFO",
    "    Describe this connection.",
    "KILL <ip:port>",
    "    Close the connection that comes from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Close the connections that match all options:",
    "    * ADDR (<ip:port>|<unixsocket>:0)",
    "      Where they come from.",
    "    * LADDR (<ip:port>|<unixsocket>:0)",
    "      The address of ours that they are connected to.",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      What they are.",
    "    * USER <username>",
    "      As whom they have authenticated.",
    "    * SKIPME (YES|NO)",
    "      Whether this connection is spared (default: yes).",
    "    * ID <client-id>",
    "      Their number.",
    "    * MAXAGE <maxage>",
    "      They are at least so many seconds old.",
    "LIST [options ...]",
    "    Describe the connections. Options:",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Only those of a type.",
    "    * ID <client-id> [<client-id> ...]",
    "      Only those with these numbers.",
    "REPLY (ON|OFF|SKIP)",
    "    Say which commands of this connection are answered.",
    "SETNAME <name>",
    "    Give this connection a name.",
    "SETINFO <option> <value>",
    "    Tell about the client. Options are:",
    "    * LIB-NAME: the name of its library.",
    "    * LIB-VER: the version of its library.",
    "NO-EVICT (ON|OFF)",
    "    Keep this connection when clients are closed for their memory.",
    "NO-TOUCH (ON|OFF)",
    "    Leave no trace in how recently keys were used.",
    "HELP",
    "    Print this help.",
];

pub(super) fn help(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.reply.lines(HELP);
    Ok(())
}

pub(super) fn id(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.reply.integer(ctx.client.id as i64);
    Ok(())
}

pub(super) fn getname(ctx: &mut CommandCtx<'_>) -> CommandResult {
    if ctx.client.name.is_empty() {
        ctx.reply.null();
    } else {
        ctx.reply.bulk(&ctx.client.name);
    }
    Ok(())
}

pub(super) fn setname(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let name = ctx.args.get(2);
    check_name(name)?;
    ctx.client.set_name(name);
    ctx.reply.ok();
    Ok(())
}

/// Whether a text may stand in a line of CLIENT LIST.
fn is_plain(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_graphic)
}

/// Whether a connection may have this name.
///
/// # Errors
/// The text about characters that a name cannot contain.
pub(super) fn check_name(name: &[u8]) -> CommandResult {
    if is_plain(name) {
        return Ok(());
    }
    Err(CommandError::new(
        "ERR Client names cannot contain spaces, newlines or special characters.",
    ))
}

pub(super) fn setinfo(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let value = ctx.args.get(3);
    let option = ctx.args.get(2);
    let target = if ctx.args.is(2, "lib-name") {
        &mut ctx.client.lib_name
    } else if ctx.args.is(2, "lib-ver") {
        &mut ctx.client.lib_version
    } else {
        return Err(CommandError::naming("ERR Unrecognized option '", option, "'"));
    };
    if !is_plain(value) {
        let after = " cannot contain spaces, newlines or special characters.";
        return Err(CommandError::naming("ERR ", option, after));
    }
    value.clone_into(target);
    ctx.reply.ok();
    Ok(())
}

/// An argument that says ON or OFF.
fn on_or_off(args: Args<'_>, index: usize) -> Result<bool, CommandError> {
    match () {
        () if args.is(index, "on") => Ok(true),
        () if args.is(index, "off") => Ok(false),
        () => Err(SYNTAX),
    }
}

pub(super) fn no_evict(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.client.no_evict = on_or_off(ctx.args, 2)?;
    ctx.reply.ok();
    Ok(())
}

pub(super) fn no_touch(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.client.no_touch = on_or_off(ctx.args, 2)?;
    ctx.reply.ok();
    Ok(())
}

pub(super) fn reply(ctx: &mut CommandCtx<'_>) -> CommandResult {
    if ctx.args.is(2, "skip") {
        if ctx.client.reply_mode != ReplyMode::Off {
            ctx.client.reply_mode = ReplyMode::SkipNext;
        }
        return Ok(());
    }
    if on_or_off(ctx.args, 2)? {
        ctx.client.reply_mode = ReplyMode::On;
        ctx.reply.ok();
    } else {
        ctx.client.reply_mode = ReplyMode::Off;
    }
    Ok(())
}
