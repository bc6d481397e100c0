//! Times of fields: HEXPIRE and its kin, HTTL and its kin, HPERSIST, HGETEX, HSETEX.

use std::collections::HashSet;

use encodings::integer::parse_i64;
use engine::Event;

use super::{pairs, value_of};
use crate::command::args::Args;
use crate::command::dispatch::{CommandCtx, CommandResult, wrong_arity};
use crate::command::error::{CommandError, NOT_AN_INTEGER};
use crate::command::string::answer_string;
use crate::resp::Reply;

/// The latest time that a field can have, as in Redis: milliseconds since 1970.
const AT_MS_MAX: i64 = (1 << 46) - 1;

const NO_FIELDS: CommandError =
    CommandError::new("ERR Mandatory argument FIELDS is missing or not at the right position");
const WRONG_COUNT: CommandError =
    CommandError::new("ERR The `numfields` parameter must match the number of arguments");
const NOT_POSITIVE: CommandError =
    CommandError::new("ERR Number of fields must be a positive integer");

/// Answers for a field: it is not there; it has no time; the condition does not hold; done; it is
/// gone because its time is over.
const MISSING: i64 = -2;
const TIMELESS: i64 = -1;
const REFUSED: i64 = 0;
const DONE: i64 = 1;
const GONE: i64 = 2;

/// Checks `FIELDS count field ...` from an argument on to the end, and says where the fields start.
fn fields_or(args: Args<'_>, at: usize, not_positive: CommandError) -> Result<usize, CommandError> {
    if at + 1 >= args.len() || !args.is(at, "fields") {
        return Err(NO_FIELDS);
    }
    let count = parse_i64(args.get(at + 1)).filter(|count| *count > 0).ok_or(not_positive)?;
    if usize::try_from(count).ok() != Some(args.len() - at - 2) {
        return Err(WRONG_COUNT);
    }
    Ok(at + 2)
}

/// [`fields_or`] with the text that most commands have for a bad count.
pub(super) fn fields_from(args: Args<'_>, at: usize) -> Result<usize, CommandError> {
    fields_or(args, at, NOT_POSITIVE)
}

/// What a number says a time in.
#[derive(Clone, Copy)]
struct Scale {
    seconds: bool,
    /// It counts from now.
    relative: bool,
}

const EX: Scale = Scale { seconds: true, relative: true };
const PX: Scale = Scale { seconds: false, relative: true };
const EXAT: Scale = Scale { seconds: true, relative: false };
const PXAT: Scale = Scale { seconds: false, relative: false };

impl Scale {
    fn of_word(args: Args<'_>, at: usize) -> Option<Self> {
        [("ex", EX), ("px", PX), ("exat", EXAT), ("pxat", PXAT)]
            .into_iter()
            .find_map(|(word, scale)| args.is(at, word).then_some(scale))
    }

    fn origin_ms(self, now_ms: u64) -> i64 {
        if self.relative { now_ms as i64 } else { 0 }
    }

    /// The absolute time in milliseconds that a text gives.
    fn at_ms(self, ctx: &CommandCtx<'_>, text: &[u8]) -> Result<u64, CommandError> {
        let value = parse_i64(text).ok_or(NOT_AN_INTEGER)?;
        if value < 0 {
            return Err(CommandError::new("ERR invalid expire time, must be >= 0"));
        }
        let ms = if self.seconds { value.checked_mul(1000) } else { Some(value) };
        ms.and_then(|ms| ms.checked_add(self.origin_ms(ctx.keyspace.now_ms())))
            .filter(|ms| *ms <= AT_MS_MAX)
            .map(|ms| ms as u64)
            .ok_or_else(|| {
                let name = &ctx.entry.name;
                CommandError::text(format!("ERR invalid expire time in '{name}' command"))
            })
    }

    /// A time as a client asks for it.
    fn show(self, now_ms: u64, at_ms: u64) -> i64 {
        let ms = at_ms as i64 - self.origin_ms(now_ms);
        if self.seconds { (ms + 999) / 1000 } else { ms }
    }
}

/// When a time is set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    Nx,
    Xx,
    Gt,
    Lt,
}

impl Condition {
    fn of_word(args: Args<'_>, at: usize) -> Self {
        [("nx", Self::Nx), ("xx", Self::Xx), ("gt", Self::Gt), ("lt", Self::Lt)]
            .into_iter()
            .find_map(|(word, condition)| args.is(at, word).then_some(condition))
            .unwrap_or(Self::Always)
    }

    /// Whether a field whose time is `current` may get the time `new`. No time counts as the
    /// farthest.
    fn holds(self, current: Option<u64>, new: u64) -> bool {
        match self {
            Self::Always => true,
            Self::Nx => current.is_none(),
            Self::Xx => current.is_some(),
            Self::Gt => current.is_some_and(|current| new > current),
            Self::Lt => current.is_none_or(|current| new < current),
        }
    }
}

/// Gives a field a time, or takes the field away if that is over.
fn set_time(
    ctx: &mut CommandCtx<'_>,
    fields: impl Iterator<Item = impl AsRef<[u8]>> + Clone,
    at_ms: u64,
) -> CommandResult {
    let (key, db) = (ctx.key(1), ctx.client.db);
    let fields: Vec<_> = fields.collect();
    let names = fields.iter().map(AsRef::as_ref);
    if at_ms <= ctx.keyspace.now_ms() {
        ctx.keyspace.remove_members(db, &key, names, Event::Hdel)?;
    } else {
        ctx.keyspace.expire_members(db, &key, names, Some(at_ms), Event::Hexpire)?;
    }
    Ok(())
}

fn expire(ctx: &mut CommandCtx<'_>, scale: Scale) -> CommandResult {
    const TOO_FEW: CommandError =
        CommandError::new("ERR Parameter `numFields` should be greater than 0");
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    ctx.keyspace.hash_look(db, &key)?;
    let at_ms = scale.at_ms(ctx, args.get(2))?;
    let condition = Condition::of_word(args, 3);
    let first = fields_or(args, 3 + usize::from(condition != Condition::Always), TOO_FEW)?;
    let is_over = at_ms <= ctx.keyspace.now_ms();
    ctx.reply.array(args.len() - first);
    // A field may be named twice: then it already has its time, or is gone.
    let (mut changed, mut known) = (Vec::new(), HashSet::new());
    let hash = ctx.keyspace.hash_look(db, &key)?;
    for field in args.from(first) {
        let answer = match hash.and_then(|hash| hash.get(field)).map(|field| field.expire_at) {
            None => MISSING,
            Some(_) if is_over && known.contains(field) => MISSING,
            Some(before) => {
                let current = if known.contains(field) { Some(at_ms) } else { before };
                if condition.holds(current, at_ms) {
                    changed.push(field);
                    known.insert(field);
                    if is_over { GONE } else { DONE }
                } else {
                    REFUSED
                }
            }
        };
        ctx.reply.integer(answer);
    }
    if changed.is_empty() { Ok(()) } else { set_time(ctx, changed.into_iter(), at_ms) }
}

pub(super) fn hexpire(ctx: &mut CommandCtx<'_>) -> CommandResult {
    expire(ctx, EX)
}

pub(super) fn hpexpire(ctx: &mut CommandCtx<'_>) -> CommandResult {
    expire(ctx, PX)
}

pub(super) fn hexpireat(ctx: &mut CommandCtx<'_>) -> CommandResult {
    expire(ctx, EXAT)
}

pub(super) fn hpexpireat(ctx: &mut CommandCtx<'_>) -> CommandResult {
    expire(ctx, PXAT)
}

fn tell_times(ctx: &mut CommandCtx<'_>, scale: Scale) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let now_ms = ctx.keyspace.now_ms();
    let hash = ctx.keyspace.hash(db, &key)?;
    let first = fields_from(args, 2)?;
    ctx.reply.array(args.len() - first);
    for field in args.from(first) {
        let answer = match hash.and_then(|hash| hash.get(field)).map(|field| field.expire_at) {
            None => MISSING,
            Some(None) => TIMELESS,
            Some(Some(at_ms)) => scale.show(now_ms, at_ms),
        };
        ctx.reply.integer(answer);
    }
    Ok(())
}

pub(super) fn httl(ctx: &mut CommandCtx<'_>) -> CommandResult {
    tell_times(ctx, EX)
}

pub(super) fn hpttl(ctx: &mut CommandCtx<'_>) -> CommandResult {
    tell_times(ctx, PX)
}

pub(super) fn hexpiretime(ctx: &mut CommandCtx<'_>) -> CommandResult {
    tell_times(ctx, EXAT)
}

pub(super) fn hpexpiretime(ctx: &mut CommandCtx<'_>) -> CommandResult {
    tell_times(ctx, PXAT)
}

/// Takes the times of those fields away that have one, and calls `tell` with what became of each.
fn persist(
    ctx: &mut CommandCtx<'_>,
    first: usize,
    tell: impl Fn(&mut Reply, i64),
) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let (mut changed, mut known) = (Vec::new(), HashSet::new());
    let hash = ctx.keyspace.hash_look(db, &key)?;
    for field in args.from(first) {
        let answer = match hash.and_then(|hash| hash.get(field)).map(|field| field.expire_at) {
            None => MISSING,
            Some(Some(_)) if known.insert(field) => {
                changed.push(field);
                DONE
            }
            Some(_) => TIMELESS,
        };
        tell(ctx.reply, answer);
    }
    if !changed.is_empty() {
        let fields = changed.into_iter();
        ctx.keyspace.expire_members(db, &key, fields, None, Event::Hpersist)?;
    }
    Ok(())
}

pub(super) fn hpersist(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    ctx.keyspace.hash_look(db, &key)?;
    let first = fields_from(args, 2)?;
    ctx.reply.array(args.len() - first);
    persist(ctx, first, Reply::integer)
}

pub(super) fn hgetex(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    ctx.keyspace.hash(db, &key)?;
    let scale = Scale::of_word(args, 2);
    let persists = args.is(2, "persist");
    let at_ms = scale.map(|scale| scale.at_ms(ctx, args.get(3))).transpose()?;
    let first = fields_from(args, 2 + 2 * usize::from(scale.is_some()) + usize::from(persists))?;
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
        Some(at_ms) => set_time(ctx, args.from(first), at_ms),
        None if persists => persist(ctx, first, |_, _| {}),
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
                let count = parse_i64(args.get(at + 1)).filter(|count| *count > 0);
                let count = count.ok_or(CommandError::new("ERR invalid number of fields"))?;
                let given = args.len() - parsed.first;
                if usize::try_from(count).ok().and_then(|count| count.checked_mul(2)) != Some(given)
                {
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
        set_time(ctx, fields().collect::<Vec<_>>().into_iter(), at_ms)?;
    }
    ctx.reply.integer(1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions() {
        let check = |condition: Condition, current, new, expected| {
            assert_eq!(condition.holds(current, new), expected);
        };
        check(Condition::Nx, None, 1, true);
        check(Condition::Nx, Some(5), 9, false);
        check(Condition::Xx, None, 1, false);
        check(Condition::Gt, None, 1, false);
        check(Condition::Gt, Some(5), 5, false);
        check(Condition::Lt, None, 1, true);
        check(Condition::Lt, Some(5), 4, true);
    }
}
