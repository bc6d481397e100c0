//! What the commands that wait for a key have in common.
//!
//! Who waits leaves what it wants with the share of each key. Whoever makes a value there serves it
//! when the whole unit of work is over, first come first served.

use std::ops::Range;
use std::sync::Arc;

use encodings::float80::Float80;
use engine::Key;

use super::dispatch::{CommandCtx, CommandResult};
use super::error::CommandError;
use crate::blocking::{Blocked, Claim, Waiter, Waiters};
use crate::keyspace::{Keyspace, Share};
use crate::resp::Reply;

/// When a request that gives a timeout in seconds gives up; `None` is never.
pub(super) fn until_ms(ctx: &mut CommandCtx<'_>, text: &[u8]) -> Result<Option<u64>, CommandError> {
    const NO_FLOAT: CommandError = CommandError::new("ERR timeout is not a float or out of range");
    const OUT_OF_RANGE: CommandError = CommandError::new("ERR timeout is out of range");
    let seconds = Float80::parse(text).ok_or(NO_FLOAT)?;
    if !seconds.is_finite() {
        return Err(OUT_OF_RANGE);
    }
    let seconds: f64 = seconds.to_text().parse().map_err(|_| NO_FLOAT)?;
    let ms = (seconds * 1000.0).ceil();
    if ms < 0.0 {
        return Err(CommandError::new("ERR timeout is negative"));
    }
    if ms + ctx.shard.now_ms() as f64 >= i64::MAX as f64 {
        return Err(OUT_OF_RANGE);
    }
    // A request that runs again has its time from before.
    if let Some(until_ms) = ctx.client.until_ms.take() {
        return Ok(until_ms);
    }
    Ok((ms > 0.0).then(|| ctx.shard.now_ms() + ms as u64))
}

/// Blocks the client until one of the keys has what it wants, or answers a null array when its time
/// is over. With a `request` its home runs that when a key is ready.
pub(super) fn wait<W: Clone>(
    ctx: &mut CommandCtx<'_>,
    keys: Range<usize>,
    until_ms: Option<u64>,
    want: &W,
    waiters: impl Fn(&mut Share) -> &mut Waiters<W>,
    request: Vec<u8>,
) -> CommandResult {
    let (claim, db) = (Claim::default(), ctx.client.db);
    let names: Arc<[Box<[u8]>]> = match keys.len() {
        1 => Arc::default(),
        _ => keys.clone().map(|index| ctx.args.get(index).into()).collect(),
    };
    for index in keys {
        let key = ctx.key(index);
        let waiter = Waiter {
            home: ctx.client.home.unwrap_or(ctx.shard.index),
            conn: ctx.client.conn,
            protocol: ctx.client.protocol,
            claim: claim.clone(),
            keys: Arc::clone(&names),
            want: want.clone(),
        };
        let share = ctx.keyspace.share_of(&key);
        waiters(share).add(db, key.bytes, waiter);
        share.update_listening();
    }
    let mut on_timeout = Reply::new(Vec::new(), ctx.client.protocol);
    on_timeout.null_array();
    ctx.block(Blocked { claim, until_ms, on_timeout: on_timeout.into_bytes(), request });
    Ok(())
}

/// The key that a waiter is served from when one of its keys is ready: as when the request runs, the
/// first one that is there, among those whose shares are at hand.
pub(super) fn served_from<'a, W>(
    keyspace: &mut Keyspace,
    db: usize,
    waiter: &'a Waiter<W>,
    ready: &'a [u8],
) -> Key<'a> {
    for name in waiter.keys.iter().take_while(|name| ***name != *ready) {
        let key = keyspace.key(name);
        if keyspace.has(keyspace.owner(&key)) && keyspace.of(&key).holds(db, &key) {
            return key;
        }
    }
    keyspace.key(ready)
}
