//! Commands about the connection itself.
//!
//! This file holds the rows; the handlers stand in files by what they are about.

mod auth;
mod client;
mod hello;
mod kill;
mod list;
mod pause;
mod tracking;

use netback::Close;

use super::dispatch::{CommandCtx, CommandResult, wrong_arity};
use super::error::CommandError;
use super::error::DB_OUT_OF_RANGE;
use super::spec::{Command, Group, Handler, acl, flag};

/// Flags of commands that any connection may send at any time.
const ALWAYS: u32 = flag::LOADING | flag::STALE;
const OPENING: u32 = ALWAYS | flag::NOSCRIPT | flag::FAST | flag::NO_AUTH | flag::ALLOW_BUSY;
const OWN: u32 = ALWAYS | flag::NOSCRIPT;
const OPERATOR: u32 = OWN | flag::ADMIN;

const CONNECTION: Group = Group::Connection;
const VARYING: &[&str] = &["nondeterministic_output"];
const EACH_NODE: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];
const EACH_SHARD: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

const fn row(name: &'static str, arity: i32, flags: u32, run: Handler) -> Command {
    Command::new(name, arity, flags, run).acl(acl::CONNECTION)
}

/// A row of CLIENT.
const fn about_client(name: &'static str, arity: i32, flags: u32, run: Handler) -> Command {
    row(name, arity, flags | flag::KEEPS_CACHING, run)
}

/// The rows of this family.
pub const COMMANDS: &[Command] = &[
    row("auth", -2, OPENING, auth::auth).docs(
        CONNECTION,
        "1.0.0",
        "O(N) where N is the number of passwords defined for the user",
        "Proves with a password that the connection may give commands.",
    ),
    Command::container("client", CLIENT).docs(
        CONNECTION,
        "2.4.0",
        "Depends on subcommand.",
        "Shows and controls client connections.",
    ),
    row("echo", 2, ALWAYS | flag::FAST, echo).docs(
        CONNECTION,
        "1.0.0",
        "O(1)",
        "Answers its argument.",
    ),
    row("hello", -1, OPENING, hello::hello).docs(
        CONNECTION,
        "6.0.0",
        "O(1)",
        "Picks the protocol version and answers who the server is.",
    ),
    row("ping", -1, flag::FAST | flag::IN_SUBSCRIBED, ping)
        .docs(CONNECTION, "1.0.0", "O(1)", "Answers, to show that the server does.")
        .tips(EACH_SHARD),
    row("quit", -1, OPENING | flag::IN_MULTI | flag::IN_SUBSCRIBED, quit).docs(
        CONNECTION,
        "1.0.0",
        "O(1)",
        "Closes the connection after the replies that it is owed.",
    ),
    row("reset", 1, OPENING | flag::IN_MULTI | flag::IN_SUBSCRIBED, hello::reset).docs(
        CONNECTION,
        "6.2.0",
        "O(1)",
        "Puts the connection in the state of a new one.",
    ),
    row("select", 2, ALWAYS | flag::FAST, select).docs(
        CONNECTION,
        "1.0.0",
        "O(1)",
        "Picks the database that the connection works on.",
    ),
];

/// The subcommands of CLIENT.
const CLIENT: &[Command] = &[
    about_client("caching", 3, OWN, tracking::caching).docs(
        CONNECTION,
        "6.0.0",
        "O(1)",
        "Says whether the keys of the next command are tracked.",
    ),
    about_client("getname", 2, OWN, client::getname).docs(
        CONNECTION,
        "2.6.9",
        "O(1)",
        "Answers the name that the connection was given.",
    ),
    about_client("getredir", 2, OWN, tracking::getredir).docs(
        CONNECTION,
        "6.0.0",
        "O(1)",
        "Answers which connection hears of changed keys instead.",
    ),
    about_client("help", 2, ALWAYS, client::help).docs(
        CONNECTION,
        "5.0.0",
        "O(1)",
        "Lists the subcommands.",
    ),
    about_client("id", 2, OWN, client::id).docs(
        CONNECTION,
        "5.0.0",
        "O(1)",
        "Answers the number of the connection, which no other will ever have.",
    ),
    about_client("info", 2, OWN, list::info)
        .docs(CONNECTION, "6.2.0", "O(1)", "Describes the connection in one line.")
        .tips(VARYING),
    about_client("kill", -3, OPERATOR, kill::kill).surveyed(kill::survey).docs(
        CONNECTION,
        "2.4.0",
        "O(N) where N is the number of client connections",
        "Closes connections that match an address or filters.",
    ),
    about_client("list", -2, OPERATOR, list::list)
        .surveyed(list::survey)
        .docs(
            CONNECTION,
            "2.4.0",
            "O(N) where N is the number of client connections",
            "Describes the open connections, one a line.",
        )
        .tips(VARYING),
    about_client("no-evict", 3, OPERATOR, client::no_evict).docs(
        CONNECTION,
        "7.0.0",
        "O(1)",
        "Exempts the connection from being closed for its memory.",
    ),
    about_client("no-touch", 3, OWN, client::no_touch).docs(
        CONNECTION,
        "7.2.0",
        "O(1)",
        "Makes the connection's commands leave no trace in how recently keys were used.",
    ),
    about_client("pause", -3, OPERATOR, pause::pause).surveyed(pause::survey_pause).docs(
        CONNECTION,
        "3.0.0",
        "O(1)",
        "Stops commands for a while, all or those that write.",
    ),
    about_client("reply", 3, OWN, client::reply).docs(
        CONNECTION,
        "3.2.0",
        "O(1)",
        "Turns the replies to the connection off, on, or off for one command.",
    ),
    about_client("setinfo", 4, OWN, client::setinfo)
        .docs(
            CONNECTION,
            "7.2.0",
            "O(1)",
            "Notes which client library, in which version, is at the other end.",
        )
        .tips(EACH_NODE),
    about_client("setname", 3, OWN, client::setname)
        .docs(CONNECTION, "2.6.9", "O(1)", "Gives the connection a name.")
        .tips(EACH_NODE),
    about_client("tracking", -3, OWN, tracking::tracking).docs(
        CONNECTION,
        "6.0.0",
        "O(1). Some options may introduce additional complexity.",
        "Has the connection told of changes of keys that it has read.",
    ),
    about_client("trackinginfo", 2, OWN, tracking::trackinginfo).docs(
        CONNECTION,
        "6.2.0",
        "O(1)",
        "Shows how the connection is told of changed keys.",
    ),
    about_client("unblock", -3, OPERATOR, pause::unblock).surveyed(pause::survey_unblock).docs(
        CONNECTION,
        "5.0.0",
        "O(log N) where N is the number of client connections",
        "Lets a blocked client go on.",
    ),
    about_client("unpause", 2, OPERATOR, pause::unpause).surveyed(pause::survey_unpause).docs(
        CONNECTION,
        "6.2.0",
        "O(N) Where N is the number of paused clients",
        "Ends a pause.",
    ),
];

/// A number beyond the `int` of C.
const NOT_AN_INT: CommandError =
    CommandError::new("ERR value is out of range, value must between -2147483648 and 2147483647");

fn echo(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.reply.bulk(ctx.args.get(1));
    Ok(())
}

fn ping(ctx: &mut CommandCtx<'_>) -> CommandResult {
    if ctx.args.len() < 3 && ctx.client.is_listening() {
        ctx.reply.array(2);
        ctx.reply.bulk(b"pong");
        ctx.reply.bulk(ctx.args.from(1).next().unwrap_or_default());
        return Ok(());
    }
    match ctx.args.len() {
        1 => ctx.reply.status("PONG"),
        2 => ctx.reply.bulk(ctx.args.get(1)),
        _ => return Err(wrong_arity(ctx.entry)),
    }
    Ok(())
}

fn quit(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.reply.ok();
    ctx.client.close = Some(Close::AfterSends);
    Ok(())
}

fn select(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let number = ctx.args.integer(1)?;
    let number = i32::try_from(number).map_err(|_| NOT_AN_INT)?;
    if ctx.shard.config.cluster_enabled && number != 0 {
        return Err(CommandError::new("ERR SELECT is not allowed in cluster mode"));
    }
    let databases = ctx.keyspace.databases();
    let db = usize::try_from(number).ok().filter(|db| *db < databases).ok_or(DB_OUT_OF_RANGE)?;
    ctx.client.db = db;
    ctx.reply.ok();
    Ok(())
}
