//! Commands of our own against cache stampedes: FILLGET and FILLSET; see [`crate::fill`].

use std::sync::Arc;

use engine::{SetCondition, SetExpire, SetOptions};

use super::args::Args;
use super::dispatch::{CommandCtx, CommandResult};
use super::error::{CommandError, SYNTAX};
use super::spec::{Command, Group, KeySpec, acl, flag, key_flag as key};
use crate::blocking::{Blocked, Claim, Waiter};
use crate::fill::{reply_fill, reply_value};
use crate::resp::Reply;

const FILL: &[KeySpec] = &[KeySpec::one(1, key::RW | key::ACCESS)];
const STORE: &[KeySpec] = &[KeySpec::one(1, key::OW | key::UPDATE)];

/// The lease without LEASE: as long as a slow query to a database takes.
const LEASE_DEFAULT_MS: u64 = 10_000;

/// The rows of this family.
pub const COMMANDS: &[Command] = &[
    Command::new("fillget", -2, flag::WRITE | flag::FAST | flag::BLOCKING, fillget)
        .keys(FILL)
        .acl(acl::STRING)
        .docs(
            Group::String,
            "8.2.0",
            "O(1)",
            "Reads the string at a key; of all who miss it, gives one the right to fill it.",
        ),
    Command::new("fillset", -4, flag::WRITE | flag::DENYOOM | flag::FAST, fillset)
        .keys(STORE)
        .acl(acl::STRING)
        .docs(
            Group::String,
            "8.2.0",
            "O(1)",
            "Stores a string at a key with the token that FILLGET gave.",
        ),
];

/// The options of FILLGET, in milliseconds.
struct FillGetArgs {
    lease_ms: u64,
    wait_ms: u64,
    /// A value with less left to live is filled anew while it is still served.
    refresh_ms: u64,
}

impl FillGetArgs {
    fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let mut parsed = Self { lease_ms: LEASE_DEFAULT_MS, wait_ms: 0, refresh_ms: 0 };
        let mut cursor = args.cursor(2);
        while cursor.remaining() > 0 {
            if let Some(text) = cursor.accept_with_value("lease") {
                parsed.lease_ms = milliseconds(text, 1)?;
            } else if let Some(text) = cursor.accept_with_value("wait") {
                parsed.wait_ms = milliseconds(text, 0)?;
            } else if let Some(text) = cursor.accept_with_value("refresh") {
                parsed.refresh_ms = milliseconds(text, 1)?;
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(parsed)
    }
}

/// The most milliseconds that an option takes: a hundred years, so that no sum overflows.
const MILLISECONDS_MAX: i64 = 100 * 365 * 24 * 3600 * 1000;

fn milliseconds(text: &[u8], min: i64) -> Result<u64, CommandError> {
    let number = encodings::integer::parse_i64(text);
    let number = number.filter(|number| (min..=MILLISECONDS_MAX).contains(number));
    number
        .map(|number| number as u64)
        .ok_or(CommandError::new("ERR milliseconds are not an integer or out of range"))
}

fn fillget(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let parsed = FillGetArgs::parse(ctx.args)?;
    let (key, db, now_ms) = (ctx.key(1), ctx.client.db, ctx.shard.now_ms());
    let share = ctx.keyspace.share_of(&key);
    let is_due_soon = parsed.refresh_ms > 0
        && share
            .partition
            .peek_expire_time(db, &key)
            .flatten()
            .is_some_and(|at_ms| at_ms < now_ms.saturating_add(parsed.refresh_ms));
    let left_ms = share.leases.left_ms(db, key.bytes, now_ms);
    if let Some(value) = share.partition.get(db, &key)? {
        if is_due_soon && left_ms.is_none() {
            let token = ctx.shard.random_token();
            share.leases.give(db, key.bytes, now_ms + parsed.lease_ms, token);
            ctx.reply.array(3);
            ctx.reply.bulk(b"refresh");
            ctx.reply.integer(token as i64);
        }
        reply_value(ctx.reply, value);
        share.update_listening();
        return Ok(());
    }
    let Some(left_ms) = left_ms else {
        let token = ctx.shard.random_token();
        share.leases.give(db, key.bytes, now_ms + parsed.lease_ms, token);
        share.update_listening();
        reply_fill(ctx.reply, token);
        return Ok(());
    };
    if parsed.wait_ms == 0 || !ctx.may_block() {
        reply_retry(ctx.reply, left_ms);
        return Ok(());
    }
    let claim = Claim::default();
    let waiter = Waiter {
        home: ctx.client.home.unwrap_or(ctx.shard.index),
        conn: ctx.client.conn,
        protocol: ctx.client.protocol,
        claim: claim.clone(),
        keys: Arc::default(),
        want: parsed.lease_ms,
    };
    ctx.keyspace.share_of(&key).waiters.add(db, key.bytes, waiter);
    let mut on_timeout = Reply::default();
    reply_retry(&mut on_timeout, left_ms.saturating_sub(parsed.wait_ms));
    let until_ms = Some(now_ms + parsed.wait_ms);
    ctx.block(Blocked {
        claim,
        until_ms,
        on_timeout: on_timeout.into_bytes(),
        request: Vec::new(),
    });
    Ok(())
}

/// Tells that another client has the right to fill the key, and for how long at most.
fn reply_retry(reply: &mut Reply, left_ms: u64) {
    reply.array(2);
    reply.bulk(b"retry");
    reply.integer(left_ms as i64);
}

fn fillset(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let mut expire = SetExpire::Clear;
    let now_ms = ctx.shard.now_ms();
    match ctx.args.len() {
        4 => {}
        6 if ctx.args.is(4, "px") => {
            expire = SetExpire::At(now_ms + milliseconds(ctx.args.get(5), 1)?);
        }
        _ => return Err(SYNTAX),
    }
    let token = encodings::integer::parse_i64(ctx.args.get(2)).map(|token| token as u64);
    let (key, db) = (ctx.key(1), ctx.client.db);
    let share = ctx.keyspace.share_of(&key);
    if !token.is_some_and(|token| share.leases.is_current(db, key.bytes, token, now_ms)) {
        return Err(CommandError::new(
            "STALEFILL the token is not the current one of this key; nothing was stored",
        ));
    }
    let options = SetOptions { expire, condition: SetCondition::Always };
    share.partition.set(db, &key, ctx.args.get(3), options)?;
    ctx.reply.ok();
    Ok(())
}
