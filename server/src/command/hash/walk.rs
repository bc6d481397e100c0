//! Random fields of a hash, and walks over all of them.

use engine::Member;

use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{CommandError, SYNTAX};
use crate::command::keys::scan::{ScanArgs, parse_cursor};
use crate::command::sample::{Sample, sample};
use crate::command::string::answer_string;
use crate::resp::{Protocol, Reply};

pub(super) fn hscan(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let cursor = parse_cursor(ctx.args.get(2)).ok_or(CommandError::new("ERR invalid cursor"))?;
    let (key, db) = (ctx.key(1), ctx.client.db);
    let hash = ctx.keyspace.hash(db, &key)?;
    if hash.is_none() {
        // As in Redis, the options do not matter then.
        ctx.reply.array(2);
        ctx.reply.bulk(b"0");
        ctx.reply.array(0);
        return Ok(());
    }
    let parsed = ScanArgs::of_members(ctx.args, true)?;
    ctx.reply.array(2);
    // The cursor goes first, and is known last.
    let mut fields = Reply::new(ctx.shard.take_buffer(), ctx.reply.protocol());
    let mut found = 0;
    let next = hash.map_or(0, |hash| {
        hash.scan(cursor, parsed.count, |field| {
            if field.name.with_text(|name| parsed.pattern.matches(name)) {
                answer_string(&mut fields, Some(field.name));
                found += 1;
                if !parsed.no_values {
                    answer_string(&mut fields, Some(field.value));
                    found += 1;
                }
            }
        })
    });
    ctx.reply.bulk_integer(next as i64);
    ctx.reply.array(found);
    let fields = fields.into_bytes();
    ctx.reply.raw(&fields);
    ctx.shard.give_buffer(fields);
    Ok(())
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
    let wanted = Sample::parse(args.get(2), with_values && args.len() == 4)?;
    if args.len() > 4 || with_values && !args.is(3, "withvalues") {
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
