//! HELLO and RESET: how a connection opens, and how it becomes as good as new.

use super::auth::log_in;
use super::client::check_name;
use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::CommandError;
use crate::resp::Protocol;
use crate::start::REDIS_VERSION;

const NOT_A_VERSION: CommandError =
    CommandError::new("ERR Protocol version is not an integer or out of range");

const UNKNOWN_VERSION: CommandError = CommandError::new("NOPROTO unsupported protocol version");

const NOT_AUTHENTICATED: CommandError = CommandError::new(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
     <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP \
     protocol version at the same time",
);

/// What the arguments ask for.
#[derive(Default)]
struct Wishes<'a> {
    protocol: Option<Protocol>,
    credentials: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

pub(super) fn hello(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let wishes = parse(ctx)?;
    if let Some((user, password)) = wishes.credentials {
        log_in(ctx, user, password)?;
    }
    if !ctx.client.authenticated {
        return Err(NOT_AUTHENTICATED);
    }
    if let Some(name) = wishes.name {
        ctx.client.set_name(name);
    }
    if let Some(protocol) = wishes.protocol {
        ctx.client.protocol = protocol;
        ctx.reply.set_protocol(protocol);
    }
    introduce(ctx);
    Ok(())
}

fn parse<'a>(ctx: &mut CommandCtx<'a>) -> Result<Wishes<'a>, CommandError> {
    let args = ctx.args;
    let mut wishes = Wishes::default();
    if args.len() > 1 {
        wishes.protocol = Some(match args.integer(1).map_err(|_| NOT_A_VERSION)? {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err(UNKNOWN_VERSION),
        });
    }
    let mut cursor = args.cursor(2.min(args.len()));
    while cursor.remaining() > 0 {
        if cursor.remaining() > 2 && cursor.accept("auth") {
            ctx.redact(cursor.position());
            ctx.redact(cursor.position() + 1);
            wishes.credentials = cursor.next().zip(cursor.next());
        } else if let Some(name) = cursor.accept_with_value("setname") {
            check_name(name)?;
            wishes.name = Some(name);
        } else {
            let option = cursor.next().unwrap_or_default();
            return Err(CommandError::naming("ERR Syntax error in HELLO option '", option, "'"));
        }
    }
    Ok(wishes)
}

fn introduce(ctx: &mut CommandCtx<'_>) {
    let mode = if ctx.shard.config.cluster_enabled { "cluster" } else { "standalone" };
    let (id, protocol) = (ctx.client.id, ctx.client.protocol);
    let reply = &mut *ctx.reply;
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(id as i64);
    reply.bulk(b"mode");
    reply.bulk(mode.as_bytes());
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
}

pub(super) fn reset(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.shard.unsubscribe_all(ctx.client);
    ctx.shard.untrack(ctx.client);
    ctx.shard.stop_monitoring(ctx.client);
    ctx.client.reset();
    ctx.client.authenticated = !ctx.shard.hot.password_required;
    ctx.reply.set_protocol(ctx.client.protocol);
    ctx.reply.status("RESET");
    Ok(())
}
