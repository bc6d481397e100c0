//! Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! Between MULTI and EXEC requests are queued before dispatch (`input.rs`). EXEC runs where its
//! client is, with the shares of all keys at hand, so that nobody sees it half done.

use super::dispatch::{self, CommandCtx, CommandResult};
use super::error::CommandError;
use super::spec::{Command, Group, Handler, KeySpec, acl, flag, key_flag as key};
use crate::input::Needs;
use crate::keyspace::shard_of;
use crate::multi::Watch;

const ALWAYS: u32 = flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::ALLOW_BUSY;
const EXEC: u32 =
    flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::SKIP_SLOWLOG | flag::RUNS_QUEUE;
const GROUP: Group = Group::Transactions;

const fn row(name: &'static str, arity: i32, flags: u32, run: Handler) -> Command {
    Command::new(name, arity, flags | flag::HOME | flag::IN_MULTI, run).acl(acl::TRANSACTION)
}

/// The rows of this family.
pub const COMMANDS: &[Command] = &[
    row("discard", 1, ALWAYS | flag::FAST, discard).docs(
        GROUP,
        "2.0.0",
        "O(N), when N is the number of queued commands",
        "Drops the queued commands of a transaction.",
    ),
    row("exec", 1, EXEC, exec).placed(|_, client, _| client.exec_needs()).docs(
        GROUP,
        "1.2.0",
        "Depends on commands in the transaction",
        "Runs the queued commands of a transaction, all at one instant.",
    ),
    row("multi", 1, ALWAYS | flag::FAST, multi).docs(
        GROUP,
        "1.2.0",
        "O(1)",
        "Starts a transaction: what follows is queued.",
    ),
    Command::new("unwatch", 1, ALWAYS | flag::FAST | flag::HOME, unwatch)
        .acl(acl::TRANSACTION)
        .docs(GROUP, "2.2.0", "O(1)", "Forgets the watched keys."),
    row("watch", -2, ALWAYS | flag::FAST, watch).keys(&[KeySpec::all(1, 1, key::RO)]).docs(
        GROUP,
        "2.2.0",
        "O(1) for every key.",
        "Watches keys: a transaction runs only if none of them changes before.",
    ),
];

fn multi(ctx: &mut CommandCtx<'_>) -> CommandResult {
    if ctx.client.multi.is_some() {
        return Err(CommandError::new("ERR MULTI calls can not be nested"));
    }
    ctx.client.multi = Some(Box::default());
    ctx.reply.ok();
    Ok(())
}

fn discard(ctx: &mut CommandCtx<'_>) -> CommandResult {
    if ctx.client.multi.is_none() {
        return Err(CommandError::new("ERR DISCARD without MULTI"));
    }
    ctx.client.end_transaction();
    ctx.reply.ok();
    Ok(())
}

fn watch(ctx: &mut CommandCtx<'_>) -> CommandResult {
    if ctx.client.multi.is_some() {
        return Err(CommandError::new("ERR WATCH inside MULTI is not allowed"));
    }
    let (db, shards) = (ctx.client.db, ctx.keyspace.shards());
    for name in ctx.args.from(1) {
        // A key whose time is over goes now, so that its going later is no change.
        let key = ctx.keyspace.key(name);
        ctx.keyspace.of(&key).holds(db, &key);
    }
    ctx.keyspace.settle(ctx.shard);
    let watch = ctx.client.watch.get_or_insert_default();
    // A watch that has come to nothing already needs no more keys.
    if !watch.is_dirty() {
        for name in ctx.args.from(1) {
            let key = ctx.keyspace.key(name);
            let owner = shard_of(key.slot, shards);
            let share = ctx.keyspace.share_mut(owner);
            share.watchers.add(db, name, watch);
            share.update_listening();
            watch.needs = watch.needs.unite(Needs::One(owner));
        }
    }
    ctx.reply.ok();
    Ok(())
}

fn unwatch(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.client.watch = None;
    ctx.reply.ok();
    Ok(())
}

fn exec(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let Some(multi) = ctx.client.multi.take() else {
        return Err(CommandError::new("ERR EXEC without MULTI"));
    };
    let watch = ctx.client.watch.take();
    if multi.aborted {
        return Err(CommandError::new(
            "EXECABORT Transaction discarded because of previous errors.",
        ));
    }
    if watch.is_some_and(|watch| has_changed(&watch, ctx)) {
        ctx.reply.null_array();
        return Ok(());
    }
    ctx.reply.array(multi.queued.len());
    ctx.client.in_exec = true;
    for queued in &multi.queued {
        let args = queued.args.args();
        if let Some(first) = ctx.keyspace.first_shard(ctx.client, queued.entry.command, args) {
            ctx.keyspace.select(first);
        }
        dispatch::run(&mut CommandCtx {
            args,
            entry: queued.entry,
            reply: ctx.reply,
            client: ctx.client,
            keyspace: ctx.keyspace,
            shard: ctx.shard,
            single_key: None,
            redacted: 0,
        });
        // Watchers and subscribers hear of it now; who waits for keys, when all is done.
        ctx.keyspace.settle(ctx.shard);
    }
    ctx.client.in_exec = false;
    Ok(())
}

/// Whether a watched key has changed; one whose time is over meanwhile has.
fn has_changed(watch: &Watch, ctx: &mut CommandCtx<'_>) -> bool {
    for (db, name) in &watch.keys {
        let key = ctx.keyspace.key(name);
        ctx.keyspace.of(&key).holds(*db, &key);
    }
    ctx.keyspace.settle(ctx.shard);
    watch.is_dirty()
}
