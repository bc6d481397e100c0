//! Publishing and subscribing.

use super::dispatch::{CommandCtx, CommandResult};
use super::spec::{Command, Group, Handler, KeySpec, flag, key_flag as key};
use crate::pubsub::Kind;
use crate::resp::Reply;

const GROUP: Group = Group::PubSub;
const ANY_TIME: u32 = flag::PUBSUB | flag::LOADING | flag::STALE;
const SUBSCRIBING: u32 = ANY_TIME | flag::NOSCRIPT | flag::IN_SUBSCRIBED;
const PUBLISHING: u32 = ANY_TIME | flag::FAST | flag::STOPS_AS_WRITE;
const SHARD_CHANNEL: &[KeySpec] = &[KeySpec::one(1, key::NOT_KEY)];
const SHARD_CHANNELS: &[KeySpec] = &[KeySpec::all(1, 1, key::NOT_KEY)];

const fn row(name: &'static str, arity: i32, flags: u32, run: Handler) -> Command {
    Command::new(name, arity, flags, run)
}

/// The rows of this family.
pub const COMMANDS: &[Command] = &[
    row("psubscribe", -2, SUBSCRIBING, |ctx| subscribe(ctx, Kind::Pattern)).docs(
        GROUP,
        "2.0.0",
        "O(N) where N is the number of patterns to subscribe to.",
        "Listens to all channels whose names match patterns.",
    ),
    row("publish", 3, PUBLISHING, |ctx| publish(ctx, Kind::Channel)).docs(
        GROUP,
        "2.0.0",
        "O(N+M) where N is the number of clients subscribed to the receiving channel and M is the \
         total number of subscribed patterns (by any client).",
        "Sends a message to all who listen to a channel.",
    ),
    Command::container("pubsub", PUBSUB).docs(
        GROUP,
        "2.8.0",
        "Depends on subcommand.",
        "Shows who listens to what.",
    ),
    row("punsubscribe", -1, SUBSCRIBING, |ctx| unsubscribe(ctx, Kind::Pattern)).docs(
        GROUP,
        "2.0.0",
        "O(N) where N is the number of patterns to unsubscribe.",
        "Stops listening by patterns, those named or all.",
    ),
    row("spublish", 3, PUBLISHING, |ctx| publish(ctx, Kind::ShardChannel))
        .keys(SHARD_CHANNEL)
        .docs(
            GROUP,
            "7.0.0",
            "O(N) where N is the number of clients subscribed to the receiving shard channel.",
            "Sends a message to all who listen to a shard channel.",
        ),
    row("ssubscribe", -2, SUBSCRIBING, |ctx| subscribe(ctx, Kind::ShardChannel))
        .keys(SHARD_CHANNELS)
        .docs(
            GROUP,
            "7.0.0",
            "O(N) where N is the number of shard channels to subscribe to.",
            "Listens to shard channels.",
        ),
    row("subscribe", -2, SUBSCRIBING, |ctx| subscribe(ctx, Kind::Channel)).docs(
        GROUP,
        "2.0.0",
        "O(N) where N is the number of channels to subscribe to.",
        "Listens to channels.",
    ),
    row("sunsubscribe", -1, SUBSCRIBING, |ctx| unsubscribe(ctx, Kind::ShardChannel))
        .keys(SHARD_CHANNELS)
        .docs(
            GROUP,
            "7.0.0",
            "O(N) where N is the number of shard channels to unsubscribe.",
            "Stops listening to shard channels, those named or all.",
        ),
    row("unsubscribe", -1, SUBSCRIBING, |ctx| unsubscribe(ctx, Kind::Channel)).docs(
        GROUP,
        "2.0.0",
        "O(N) where N is the number of channels to unsubscribe.",
        "Stops listening to channels, those named or all.",
    ),
];

/// The subcommands of PUBSUB.
const PUBSUB: &[Command] = &[
    row("channels", -2, ANY_TIME, |ctx| channels(ctx, Kind::Channel)).docs(
        GROUP,
        "2.8.0",
        "O(N) where N is the number of active channels, and assuming constant time pattern \
         matching (relatively short channels and patterns)",
        "Lists the channels that somebody listens to.",
    ),
    row("help", 2, flag::LOADING | flag::STALE, help).docs(
        GROUP,
        "6.2.0",
        "O(1)",
        "Lists the subcommands.",
    ),
    row("numpat", 2, ANY_TIME, numpat).docs(
        GROUP,
        "2.8.0",
        "O(1)",
        "Counts the patterns that somebody listens by.",
    ),
    row("numsub", -2, ANY_TIME, |ctx| numsub(ctx, Kind::Channel)).docs(
        GROUP,
        "2.8.0",
        "O(N) for the NUMSUB subcommand, where N is the number of requested channels",
        "Counts who listens to channels.",
    ),
    row("shardchannels", -2, ANY_TIME, |ctx| channels(ctx, Kind::ShardChannel)).docs(
        GROUP,
        "7.0.0",
        "O(N) where N is the number of active shard channels, and assuming constant time pattern \
         matching (relatively short shard channels).",
        "Lists the shard channels that somebody listens to.",
    ),
    row("shardnumsub", -2, ANY_TIME, |ctx| numsub(ctx, Kind::ShardChannel)).docs(
        GROUP,
        "7.0.0",
        "O(N) for the SHARDNUMSUB subcommand, where N is the number of requested shard channels",
        "Counts who listens to shard channels.",
    ),
];

const HELP: &[&str] = &[
    "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CHANNELS [<pattern>]",
    "    Return the currently active channels matching a <pattern> (default: '*').",
    "NUMPAT",
    "    Return number of subscriptions to patterns.",
    "NUMSUB [<channel> ...]",
    "    Return the number of subscribers for the specified channels, excluding",
    "    pattern subscriptions(default: no channels).",
    "SHARDCHANNELS [<pattern>]",
    "    Return the currently active shard level channels matching a <pattern> (default: '*').",
    "SHARDNUMSUB [<shardchannel> ...]",
    "    Return the number of subscribers for the specified shard level channel(s)",
    "HELP",
    "    Print this help.",
];

/// The word of a confirmation.
fn word(kind: Kind, on: bool) -> &'static [u8] {
    match (kind, on) {
        (Kind::Channel, true) => b"subscribe",
        (Kind::Channel, false) => b"unsubscribe",
        (Kind::Pattern, true) => b"psubscribe",
        (Kind::Pattern, false) => b"punsubscribe",
        (Kind::ShardChannel, true) => b"ssubscribe",
        (Kind::ShardChannel, false) => b"sunsubscribe",
    }
}

fn confirm(reply: &mut Reply, word: &[u8], name: Option<&[u8]>, count: usize) {
    reply.push(3);
    reply.bulk(word);
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.count(count);
}

fn subscribe(ctx: &mut CommandCtx<'_>, kind: Kind) -> CommandResult {
    for name in ctx.args.from(1) {
        ctx.shard.subscribe(ctx.client, kind, name);
        confirm(ctx.reply, word(kind, true), Some(name), ctx.client.subscription_count(kind));
    }
    Ok(())
}

fn unsubscribe(ctx: &mut CommandCtx<'_>, kind: Kind) -> CommandResult {
    let names: Vec<Box<[u8]>> = if ctx.args.len() > 1 {
        ctx.args.from(1).map(Box::from).collect()
    } else {
        let subscribed = ctx.client.subscribed.iter();
        subscribed.flat_map(|subscribed| subscribed.names(kind)).map(Box::from).collect()
    };
    for name in &names {
        ctx.shard.unsubscribe(ctx.client, kind, name);
        confirm(ctx.reply, word(kind, false), Some(name), ctx.client.subscription_count(kind));
    }
    if names.is_empty() {
        confirm(ctx.reply, word(kind, false), None, ctx.client.subscription_count(kind));
    }
    Ok(())
}

fn publish(ctx: &mut CommandCtx<'_>, kind: Kind) -> CommandResult {
    let receivers = ctx.shard.publish(kind, ctx.args.get(1), ctx.args.get(2));
    ctx.reply.count(receivers);
    Ok(())
}

fn channels(ctx: &mut CommandCtx<'_>, kind: Kind) -> CommandResult {
    let pattern = match ctx.args.len() {
        2 => None,
        3 => Some(ctx.args.get(2)),
        _ => return Err(super::dispatch::subcommand_syntax(ctx)),
    };
    let channels = ctx.shard.process.pubsub.channels(kind, pattern);
    ctx.reply.array(channels.len());
    channels.iter().for_each(|name| ctx.reply.bulk(name));
    Ok(())
}

fn numsub(ctx: &mut CommandCtx<'_>, kind: Kind) -> CommandResult {
    ctx.reply.array(2 * (ctx.args.len() - 2));
    for name in ctx.args.from(2) {
        ctx.reply.bulk(name);
        ctx.reply.count(ctx.shard.process.pubsub.subscribers(kind, name));
    }
    Ok(())
}

fn numpat(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.reply.count(ctx.shard.process.pubsub.len(Kind::Pattern));
    Ok(())
}

fn help(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.reply.lines(HELP);
    Ok(())
}
