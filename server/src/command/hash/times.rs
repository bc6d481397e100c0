//! Times of fields: HEXPIRE and its kin, HTTL and its kin, HPERSIST, HGETEX, HSETEX.

use std::collections::HashSet;

use encodings::integer::parse_i64;
use engine::Event;

use super::{pairs, value_of};
use crate::command::dispatch::{CommandCtx, CommandResult, wrong_arity};
use crate::command::error::CommandError;
use crate::command::string::answer_string;
use crate::command::times::{FIELDS, Scale, handlers, persist_from, set_time};

handlers!(FIELDS);

pub(super) fn hgetex(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    ctx.keyspace.hash(db, &key)?;
    let scale = Scale::of_word(args, 2);
    let persists = args.is(2, "persist");
    let at_ms = scale.map(|scale| scale.at_ms(ctx, args.get(3))).transpose()?;
    let first =
        FIELDS.first_of(args, 2 + 2 * usize::from(scale.is_some()) + usize::from(persists))?;
    let now_ms = ctx.keyspace.now_ms();
    let hash = ctx.keyspace.hash_look(db, &key)?;
    ctx.reply.array(args.len() - first);
    let is_over = at_ms.is_some_and(|at_ms| at_ms <= now_ms);
    let mut seen = HashSet::new();
    for field in args.from(first) {
        // A field whose time is over is gone when it is named the second time.
        let is_gone = is_over && !seen.insert(field);
        answer_string(ctx.reply, value_of(hash, field).filter(|_| !is_gone));
    }
    if hash.is_none() {
        return Ok(());
    }
    match at_ms {
        Some(at_ms) => set_time(ctx, &FIELDS, args.from(first), at_ms),
        None if persists => persist_from(ctx, &FIELDS, first, |_, _| {}),
        None => Ok(()),
    }
}

/// The options of HSETEX.
#[derive(Default)]
struct SetExArgs {
    /// Sets only if all fields are there (true) or none is.
    only_if: Option<bool>,
    keeps_times: bool,
    at_ms: Option<u64>,
    /// Where fields and values start.
    first: usize,
}

impl SetExArgs {
    fn parse(ctx: &CommandCtx<'_>) -> Result<Self, CommandError> {
        const ONE_CONDITION: CommandError =
            CommandError::new("ERR Only one of FXX or FNX arguments can be specified");
        const ONE_TIME: CommandError = CommandError::new(
            "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
        );
        let args = ctx.args;
        let mut parsed = Self::default();
        let mut at = 2;
        while at < args.len() {
            if args.is(at, "fields") && at + 1 < args.len() {
                parsed.first = at + 2;
                let given = args.len() - parsed.first;
                if given < 2 {
                    return Err(wrong_arity(ctx.entry));
                }
                let count = parse_i64(args.get(at + 1));
                let count = count.filter(|count| (1..=i64::from(i32::MAX)).contains(count));
                let count = count.ok_or(CommandError::new("ERR invalid number of fields"))?;
                if count as usize * 2 != given {
                    return Err(wrong_arity(ctx.entry));
                }
                return Ok(parsed);
            }
            let condition = [("fxx", true), ("fnx", false)]
                .into_iter()
                .find_map(|(word, all_there)| args.is(at, word).then_some(all_there));
            if condition.is_some() {
                if parsed.only_if.is_some() {
                    return Err(ONE_CONDITION);
                }
                parsed.only_if = condition;
                at += 1;
            } else if args.is(at, "keepttl") {
                if parsed.keeps_times || parsed.at_ms.is_some() {
                    return Err(ONE_TIME);
                }
                parsed.keeps_times = true;
                at += 1;
            } else if let Some(scale) = Scale::of_word(args, at).filter(|_| at + 1 < args.len()) {
                if parsed.keeps_times || parsed.at_ms.is_some() {
                    return Err(ONE_TIME);
                }
                parsed.at_ms = Some(scale.at_ms(ctx, args.get(at + 1))?);
                at += 2;
            } else {
                return Err(CommandError::naming("ERR unknown argument: ", args.get(at), ""));
            }
        }
        Err(wrong_arity(ctx.entry))
    }
}

pub(super) fn hsetex(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let parsed = SetExArgs::parse(ctx)?;
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let fields = || args.from(parsed.first).step_by(2);
    let hash = ctx.keyspace.hash_look(db, &key)?;
    if let Some(all_there) = parsed.only_if {
        let is_there = |field: &[u8]| value_of(hash, field).is_some();
        if fields().any(|field| is_there(field) != all_there) {
            ctx.reply.integer(0);
            return Ok(());
        }
    }
    let pairs = pairs(ctx, parsed.first);
    ctx.keyspace.hash_set(db, &key, pairs, parsed.keeps_times, Event::Hset)?;
    if let Some(at_ms) = parsed.at_ms {
        set_time(ctx, &FIELDS, fields().collect::<Vec<_>>().into_iter(), at_ms)?;
    }
    ctx.reply.integer(1);
    Ok(())
}
