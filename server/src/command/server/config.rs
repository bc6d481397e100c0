//! CONFIG: the configuration as clients see and change it.

use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{CommandError, SYNTAX};
use crate::config::{Config, SetError, is_sensitive};
use crate::{files_limit, listen, log};

const HELP: &[&str] = &[
    "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET <pattern>",
    "    Show the directives that match <pattern>, with their values.",
    "SET <directive> <value>",
    "    Change <directive> to <value>.",
    "RESETSTAT",
    "    Set the counters of INFO to zero.",
    "REWRITE",
    "    Write the configuration to its file.",
    "HELP",
    "    Print this help.",
];

pub(super) fn help(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.reply.lines(HELP);
    Ok(())
}

pub(super) fn get(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let config = &ctx.shard.config;
    let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for pattern in ctx.args.from(2) {
        let is_pattern = pattern.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['));
        for (name, value) in config.matching(&[pattern]) {
            // A name comes back as the client spells it.
            let name = if is_pattern { name.as_bytes() } else { pattern };
            if !found.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
                found.push((name.to_vec(), value));
            }
        }
    }
    ctx.reply.map(found.len());
    for (name, value) in &found {
        ctx.reply.bulk(name);
        ctx.reply.bulk(value);
    }
    Ok(())
}

pub(super) fn set(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let args = ctx.args;
    if !args.len().is_multiple_of(2) {
        return Err(SYNTAX);
    }
    let pairs: Vec<(&[u8], &[u8])> =
        (2..args.len()).step_by(2).map(|index| (args.get(index), args.get(index + 1))).collect();
    for (index, (name, _)) in pairs.iter().enumerate() {
        if is_sensitive(name) {
            ctx.redact(2 * index + 3);
        }
    }
    let local = ctx.client.is_local();
    let shards = ctx.shard.process.shards;
    let changed = ctx.shard.process.change_config(|config| {
        let mut new = config.clone();
        new.set(&pairs, local)?;
        take_effect(config, &new, &pairs, shards)?;
        *config = new;
        Ok(())
    });
    changed.map_err(refusal)?;
    // What follows in the pipeline runs under the new configuration already.
    ctx.shard.refresh_config();
    let share = ctx.keyspace.share_mut(ctx.shard.index);
    share.configure(ctx.shard);
    ctx.reply.ok();
    Ok(())
}

fn refusal(error: SetError) -> CommandError {
    match error {
        SetError::Unknown(name) => {
            let before = "ERR Unknown option or number of arguments for CONFIG SET - '";
            CommandError::naming(before, &name, "'")
        }
        SetError::Refused(name, why) => CommandError::text(format!(
            "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
        )),
    }
}

/// Does what a change asks for beyond being remembered. What can fail comes first.
fn take_effect(
    old: &Config,
    config: &Config,
    pairs: &[(&[u8], &[u8])],
    shards: usize,
) -> Result<(), SetError> {
    let is_named =
        |name: &str| pairs.iter().any(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()));
    let refuse = |name: &str, why: &str| Err(SetError::Refused(name.to_owned(), why.to_owned()));
    if config.bind != old.bind && !listen::can_move(old, config, shards) {
        return refuse("bind", "Failed to bind to specified addresses.");
    }
    if config.port != old.port && !listen::can_move(old, config, shards) {
        return refuse("port", "Unable to listen on this port. Check server logs.");
    }
    if config.maxclients > old.maxclients
        && let Err((room, _)) = files_limit::make_room(config.maxclients as u64, shards)
    {
        let why = format!(
            "The operating system is not able to handle the specified number of clients, try with \
             {room}"
        );
        return refuse("maxclients", &why);
    }
    if is_named("dir") {
        std::env::set_current_dir(&config.dir)
            .map_err(|error| SetError::Refused("dir".to_owned(), crate::start::plain(&error)))?;
    }
    if is_named("loglevel") {
        log::set_level(log::Level::from_name(&config.loglevel));
    }
    Ok(())
}

pub(super) fn resetstat(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.shard.stats_version = ctx.shard.process.reset_stats();
    ctx.shard.stats.reset();
    let share = ctx.keyspace.share_mut(ctx.shard.index);
    share.stats_version = ctx.shard.stats_version;
    share.partition.reset_stats();
    ctx.reply.ok();
    Ok(())
}

pub(super) fn rewrite(ctx: &mut CommandCtx<'_>) -> CommandResult {
    rewrite_file(ctx, false)
}

/// Rewrites the configuration's file, with `all` its defaults too. The client waits for it.
///
/// # Errors
/// There is no file.
pub(super) fn rewrite_file(ctx: &mut CommandCtx<'_>, all: bool) -> CommandResult {
    if !ctx.may_block() {
        // The answer comes when the file is written, and a transaction does not wait for it.
        return Err(CommandError::new("ERR CONFIG REWRITE is not possible in a transaction"));
    }
    let config = ctx.shard.process.config();
    let Some(file) = config.file.clone() else {
        return Err(CommandError::new("ERR The server is running without a config file"));
    };
    ctx.answer_after_file(file, Box::new(move |old| config.rewrite(old, all)));
    Ok(())
}
