//! Commands about the server as a whole.
//!
//! This file holds the rows and the shortest handlers; the others stand in files by command.

mod commands;
mod config;
mod debug;
mod digest;
mod info;
mod memory;
mod shutdown;
mod slowlog;

use super::dispatch::{CommandCtx, CommandResult};
use super::error::CommandError;
use crate::blocking::{Blocked, Claim};
use crate::figures::Figures;

use super::spec::{Command, Group, Handler, KeySpec, acl, flag, key_flag as key};

const SERVER: Group = Group::Server;

/// Flags of commands that may be given at any time.
const ALWAYS: u32 = flag::LOADING | flag::STALE;
const OPERATOR: u32 = ALWAYS | flag::ADMIN;
const OPERATOR_ALONE: u32 = OPERATOR | flag::NOSCRIPT;

const VARYING: &[&str] = &["nondeterministic_output"];
const VARYING_ORDER: &[&str] = &["nondeterministic_output_order"];
const EACH_NODE: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];
const EACH_SHARD: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];
const SHARDS_REPORT: &[&str] =
    &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];

fn wait(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let replicas = ctx.args.integer(1)?;
    let until_ms = ctx.args.until_ms(2, ctx.shard.now_ms())?;
    // No replica can be attached yet.
    if replicas <= 0 || !ctx.may_block() {
        ctx.reply.integer(0);
        return Ok(());
    }
    let on_timeout = b":0\r\n".to_vec();
    ctx.block(Blocked { claim: Claim::default(), until_ms, on_timeout, request: Vec::new() });
    Ok(())
}

const fn row(name: &'static str, arity: i32, flags: u32, run: Handler) -> Command {
    Command::new(name, arity, flags, run)
}

/// A row of COMMAND, whose category is that of connections.
const fn about_commands(name: &'static str, arity: i32, run: Handler) -> Command {
    Command::new(name, arity, ALWAYS, run).acl(acl::CONNECTION)
}

/// The rows of this family.
pub const COMMANDS: &[Command] = &[
    about_commands("command", -1, commands::all)
        .subcommands(COMMAND)
        .docs(
            SERVER,
            "2.8.13",
            "O(N) where N is the total number of Redis commands",
            "Describes all commands.",
        )
        .tips(VARYING_ORDER),
    Command::container("config", CONFIG).docs(
        SERVER,
        "2.0.0",
        "Depends on subcommand.",
        "Shows and changes the configuration.",
    ),
    row("debug", -2, OPERATOR_ALONE | flag::ALL_SHARDS, debug::debug).docs(
        SERVER,
        "1.0.0",
        "Depends on subcommand.",
        "Looks behind the scenes, for tests of the server.",
    ),
    row("info", -1, ALWAYS | flag::OWN_SHARE, info::info)
        .acl(acl::DANGEROUS)
        .surveyed(Figures::survey)
        .docs(SERVER, "1.0.0", "O(1)", "Describes the state of the server in figures.")
        .tips(SHARDS_REPORT),
    Command::container("memory", MEMORY).docs(
        SERVER,
        "4.0.0",
        "Depends on subcommand.",
        "Tells where the memory is.",
    ),
    row("monitor", 1, OPERATOR_ALONE, monitor).docs(
        SERVER,
        "1.0.0",
        "O(1) to start; a part of the throughput while it runs",
        "Shows all commands that the server runs, as they come.",
    ),
    row("role", 1, ALWAYS | flag::NOSCRIPT | flag::FAST, role)
        .acl(acl::ADMIN | acl::DANGEROUS)
        .docs(SERVER, "2.8.12", "O(1)", "Tells the server's part in replication."),
    row("shutdown", -1, OPERATOR_ALONE | flag::NO_MULTI | flag::ALLOW_BUSY, shutdown::shutdown)
        .docs(
            SERVER,
            "1.0.0",
            "O(N) when saving, where N is the total number of keys in all databases when saving \
             data, otherwise O(1)",
            "Stops the server.",
        ),
    Command::container("slowlog", SLOWLOG).docs(
        SERVER,
        "2.2.12",
        "Depends on subcommand.",
        "Shows which commands took long.",
    ),
    row("wait", 3, flag::BLOCKING, wait)
        .acl(acl::CONNECTION)
        .docs(Group::Generic, "3.0.0", "O(1)", "Waits until replicas have the connection's writes.")
        .tips(&["request_policy:all_shards", "response_policy:agg_min"]),
    row("time", 1, ALWAYS | flag::FAST, time)
        .docs(SERVER, "2.6.0", "O(1)", "Answers the server's time.")
        .tips(VARYING),
];

/// The subcommands of COMMAND.
const COMMAND: &[Command] = &[
    about_commands("count", 2, commands::count).docs(
        SERVER,
        "2.8.13",
        "O(1)",
        "Counts the commands.",
    ),
    about_commands("docs", -2, commands::docs)
        .docs(
            SERVER,
            "7.0.0",
            "O(N) where N is the number of commands to look up",
            "Documents commands, or all of them.",
        )
        .tips(VARYING_ORDER),
    about_commands("getkeys", -3, commands::getkeys).docs(
        SERVER,
        "2.8.13",
        "O(N) where N is the number of arguments to the command",
        "Picks the keys out of a command.",
    ),
    about_commands("getkeysandflags", -3, commands::getkeysandflags).docs(
        SERVER,
        "7.0.0",
        "O(N) where N is the number of arguments to the command",
        "Picks the keys out of a command and tells what it does to each.",
    ),
    about_commands("help", 2, commands::help).docs(
        SERVER,
        "5.0.0",
        "O(1)",
        "Lists the subcommands.",
    ),
    about_commands("info", -2, commands::info)
        .docs(
            SERVER,
            "2.8.13",
            "O(N) where N is the number of commands to look up",
            "Describes commands, or all of them.",
        )
        .tips(VARYING_ORDER),
    about_commands("list", -2, commands::list)
        .docs(
            SERVER,
            "7.0.0",
            "O(N) where N is the total number of Redis commands",
            "Lists the names of commands.",
        )
        .tips(VARYING_ORDER),
];

/// The subcommands of CONFIG.
const CONFIG: &[Command] = &[
    row("get", -3, OPERATOR_ALONE, config::get).docs(
        SERVER,
        "2.0.0",
        "O(N) when N is the number of configuration parameters provided",
        "Shows the values of directives.",
    ),
    row("help", 2, ALWAYS, config::help).docs(SERVER, "5.0.0", "O(1)", "Lists the subcommands."),
    row("resetstat", 2, OPERATOR_ALONE | flag::OWN_SHARE, config::resetstat)
        .docs(SERVER, "2.0.0", "O(1)", "Sets the counters of INFO to zero.")
        .tips(EACH_NODE),
    row("rewrite", 2, OPERATOR_ALONE, config::rewrite)
        .docs(
            SERVER,
            "2.8.0",
            "O(1)",
            "Writes the configuration to the file that it was read from.",
        )
        .tips(EACH_NODE),
    row("set", -4, OPERATOR_ALONE | flag::OWN_SHARE, config::set)
        .docs(
            SERVER,
            "2.0.0",
            "O(N) when N is the number of configuration parameters provided",
            "Changes directives, all that are named or none.",
        )
        .tips(EACH_NODE),
];

/// The subcommands of MEMORY.
const MEMORY: &[Command] = &[
    row("doctor", 2, flag::OWN_SHARE, memory::doctor)
        .surveyed(Figures::survey)
        .docs(SERVER, "4.0.0", "O(1)", "Tells in words what is odd about the use of memory.")
        .tips(SHARDS_REPORT),
    row("help", 2, ALWAYS, memory::help).docs(SERVER, "4.0.0", "O(1)", "Lists the subcommands."),
    row("malloc-stats", 2, 0, memory::malloc_stats)
        .docs(
            SERVER,
            "4.0.0",
            "Depends on how much memory is allocated, could be slow",
            "Shows the general allocator's own report.",
        )
        .tips(SHARDS_REPORT),
    row("purge", 2, flag::ALL_SHARDS, memory::purge)
        .docs(
            SERVER,
            "4.0.0",
            "Depends on how much memory is allocated, could be slow",
            "Gives memory that is not in use back to the system.",
        )
        .tips(EACH_SHARD),
    row("stats", 2, flag::OWN_SHARE, memory::stats)
        .surveyed(Figures::survey)
        .docs(SERVER, "4.0.0", "O(1)", "Shows the use of memory in figures.")
        .tips(SHARDS_REPORT),
    row("usage", -3, flag::READONLY, memory::usage).keys(&[KeySpec::one(2, key::RO)]).docs(
        SERVER,
        "4.0.0",
        "O(N) where N is the number of samples.",
        "Tells how many bytes a key and its value take.",
    ),
];

/// The subcommands of SLOWLOG.
const SLOWLOG: &[Command] = &[
    row("get", -2, OPERATOR, slowlog::get)
        .docs(
            SERVER,
            "2.2.12",
            "O(N) where N is the number of entries returned",
            "Shows the last slow commands.",
        )
        .tips(&["request_policy:all_nodes", "nondeterministic_output"]),
    row("help", 2, ALWAYS, slowlog::help).docs(SERVER, "6.2.0", "O(1)", "Lists the subcommands."),
    row("len", 2, OPERATOR, slowlog::len)
        .docs(SERVER, "2.2.12", "O(1)", "Counts the slow commands that are kept.")
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"]),
    row("reset", 2, OPERATOR, slowlog::reset)
        .docs(
            SERVER,
            "2.2.12",
            "O(N) where N is the number of entries in the slowlog",
            "Forgets the slow commands.",
        )
        .tips(EACH_NODE),
];

fn time(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let now_us = ctx.shard.now_us;
    ctx.reply.array(2);
    ctx.reply.bulk_integer((now_us / 1_000_000) as i64);
    ctx.reply.bulk_integer((now_us % 1_000_000) as i64);
    Ok(())
}

fn monitor(ctx: &mut CommandCtx<'_>) -> CommandResult {
    if !ctx.may_block() {
        return Err(CommandError::new("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    ctx.shard.start_monitoring(ctx.client);
    ctx.reply.ok();
    Ok(())
}

fn role(ctx: &mut CommandCtx<'_>) -> CommandResult {
    // No replica can be attached yet.
    ctx.reply.array(3);
    ctx.reply.bulk(b"master");
    ctx.reply.integer(0);
    ctx.reply.array(0);
    Ok(())
}
