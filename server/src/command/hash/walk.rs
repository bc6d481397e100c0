//! Random fields of a hash, and walks over all of them.

use engine::Member;

use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::SYNTAX;
use crate::command::keys::scan::scan_members;
use crate::command::sample::{Sample, sample};
use crate::command::string::answer_string;
use crate::resp::Protocol;

pub(super) fn hscan(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db) = (ctx.key(1), ctx.client.db);
    scan_members(
        ctx,
        true,
        |partition| Ok(partition.hash(db, &key)?),
        |reply, field, options| {
            answer_string(reply, Some(field.name));
            if options.no_values {
                return 1;
            }
            answer_string(reply, Some(field.value));
            2
        },
    )
}

pub(super) fn hrandfield(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let word = ctx.shard.random();
    if args.len() == 2 {
        let field = ctx.keyspace.hash(db, &key)?.and_then(|hash| hash.random(word));
        answer_string(ctx.reply, field.map(|field| field.name));
        return Ok(());
    }
    let with_values = args.len() > 3;
    let is_sound = !with_values || args.len() == 4 && args.is(3, "withvalues");
    let wanted = Sample::parse(args.get(2), with_values && is_sound)?;
    if !is_sound {
        return Err(SYNTAX);
    }
    let Some(hash) = ctx.keyspace.hash(db, &key)? else {
        ctx.reply.array(0);
        return Ok(());
    };
    let count = wanted.count(hash.len());
    let nested = with_values && ctx.reply.protocol() == Protocol::Resp3;
    ctx.reply.array(if with_values && !nested { 2 * count } else { count });
    sample(&hash, wanted, word, |field: Member<'_>| {
        if nested {
            ctx.reply.array(2);
        }
        answer_string(ctx.reply, Some(field.name));
        if with_values {
            answer_string(ctx.reply, Some(field.value));
        }
    });
    Ok(())
}
