//! The commands that wait for a list: BLPOP, BRPOP, BLMPOP, BLMOVE, BRPOPLPUSH.
//!
//! An element that goes on to a list of a share that is not at hand when its waiter is served is
//! moved by the client's shard, which runs the request again.

use std::ops::Range;
use std::sync::Arc;

use engine::{End, Key};

use super::pop::{ManyArgs, answer_taken, end_of, move_element, take_from_first};
use crate::blocking::Pop;
use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::wait::{served_from, until_ms, wait};
use crate::keyspace::Keyspace;
use crate::resp::Reply;
use crate::state::ShardState;

/// Blocks the client until one of the lists has what it wants.
fn wait_for_list(
    ctx: &mut CommandCtx<'_>,
    keys: Range<usize>,
    until_ms: Option<u64>,
    pop: Pop,
) -> CommandResult {
    if !ctx.may_block() {
        match pop.target {
            Some(_) => ctx.reply.null(),
            None => ctx.reply.null_array(),
        }
        return Ok(());
    }
    let mut request = Reply::default();
    if pop.target.is_some() {
        request.array(ctx.args.len());
        ctx.args.from(0).for_each(|arg| request.bulk(arg));
    }
    let (pop, request) = (Arc::new(pop), request.into_bytes());
    wait(ctx, keys, until_ms, &pop, |share| &mut share.list_waiters, request)
}

fn blocking_pop(ctx: &mut CommandCtx<'_>, end: End) -> CommandResult {
    let last = ctx.args.len() - 1;
    let until_ms = until_ms(ctx, ctx.args.get(last))?;
    if take_from_first(ctx, 1..last, end, None)? {
        return Ok(());
    }
    wait_for_list(ctx, 1..last, until_ms, Pop { end, count: None, target: None })
}

pub(super) fn blpop(ctx: &mut CommandCtx<'_>) -> CommandResult {
    blocking_pop(ctx, End::Head)
}

pub(super) fn brpop(ctx: &mut CommandCtx<'_>) -> CommandResult {
    blocking_pop(ctx, End::Tail)
}

pub(super) fn blmpop(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let ManyArgs { keys_end, end, count } = ManyArgs::parse(ctx.args, 2)?;
    let until_ms = until_ms(ctx, ctx.args.get(1))?;
    if take_from_first(ctx, 3..keys_end, end, Some(count))? {
        return Ok(());
    }
    wait_for_list(ctx, 3..keys_end, until_ms, Pop { end, count: Some(count), target: None })
}

fn blocking_move(
    ctx: &mut CommandCtx<'_>,
    from_end: End,
    to_end: End,
    timeout: &[u8],
) -> CommandResult {
    let until_ms = until_ms(ctx, timeout)?;
    let (from, to, db) = (ctx.key(1), ctx.key(2), ctx.client.db);
    if move_element(ctx.keyspace, ctx.reply, db, (&from, from_end), (&to, to_end))? {
        return Ok(());
    }
    let target = Some((to.bytes.into(), to_end));
    wait_for_list(ctx, 1..2, until_ms, Pop { end: from_end, count: None, target })
}

pub(super) fn blmove(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (from_end, to_end) = (end_of(ctx.args, 3)?, end_of(ctx.args, 4)?);
    blocking_move(ctx, from_end, to_end, ctx.args.get(5))
}

pub(super) fn brpoplpush(ctx: &mut CommandCtx<'_>) -> CommandResult {
    blocking_move(ctx, End::Tail, End::Head, ctx.args.get(3))
}

impl Keyspace {
    /// Serves those who wait for a list of a share that is at hand, as long as it has elements.
    pub fn serve_lists(&mut self, state: &mut ShardState, shard: usize, db: usize, name: &[u8]) {
        let key = self.key(name);
        loop {
            let share = self.share_mut(shard);
            let Ok(Some(_)) = share.partition.list_look(db, &key) else { break };
            let Some(waiter) = share.list_waiters.claim_next(db, name) else { break };
            let mut reply = Reply::new(Vec::new(), waiter.protocol);
            let pop = Arc::clone(&waiter.want);
            let served = match &pop.target {
                None => {
                    let key = served_from(self, db, &waiter, name);
                    let want = (pop.end, pop.count);
                    answer_taken(self.of(&key), &mut reply, db, &key, want).map(drop)
                }
                Some((target, to_end)) => {
                    let to: Key<'_> = self.key(target);
                    if !self.has(self.owner(&to)) {
                        state.serve_again(&waiter);
                        // Whoever comes next would take what this one is to have.
                        break;
                    }
                    let from = (&key, pop.end);
                    move_element(self, &mut reply, db, from, (&to, *to_end)).map(drop)
                }
            };
            if let Err(error) = served {
                reply = Reply::new(Vec::new(), waiter.protocol);
                reply.error(&error.0);
            }
            state.serve(&waiter, reply.into_bytes());
        }
        self.share_mut(shard).update_listening();
    }
}
