//! Expire times: EXPIRE and its kin, TTL and its kin, PERSIST.

use crate::command::args::Args;
use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::CommandError;

/// The unit of a time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Seconds,
    Milliseconds,
}

/// What a time counts from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Now,
    UnixEpoch,
}

/// NX, XX, GT and LT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Conditions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Conditions {
    fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let mut parsed = Self::default();
        let mut cursor = args.cursor(3);
        while cursor.remaining() > 0 {
            if cursor.accept("nx") {
                parsed.nx = true;
            } else if cursor.accept("xx") {
                parsed.xx = true;
            } else if cursor.accept("gt") {
                parsed.gt = true;
            } else if cursor.accept("lt") {
                parsed.lt = true;
            } else {
                let option = args.get(cursor.position());
                return Err(CommandError::naming("ERR Unsupported option ", option, ""));
            }
        }
        parsed.check()
    }

    fn check(self) -> Result<Self, CommandError> {
        if self.nx && (self.xx || self.gt || self.lt) {
            return Err(CommandError::new(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if self.gt && self.lt {
            return Err(CommandError::new(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok(self)
    }

    /// Whether a key whose time is `current` may get the time `new`. No time counts as the
    /// farthest.
    fn allow(self, current: Option<i64>, new: i64) -> bool {
        let refused = (self.nx && current.is_some())
            || (self.xx && current.is_none())
            || (self.gt && current.is_none_or(|current| new <= current))
            || (self.lt && current.is_some_and(|current| new >= current));
        !refused
    }
}

/// The absolute time in milliseconds that argument 2 gives; it may lie before the epoch.
fn at_ms(ctx: &CommandCtx<'_>, unit: Unit, origin: Origin) -> Result<i64, CommandError> {
    let value = ctx.args.integer(2)?;
    let origin_ms = if origin == Origin::Now { ctx.keyspace.now_ms() as i64 } else { 0 };
    let ms = if unit == Unit::Seconds { value.checked_mul(1000) } else { Some(value) };
    ms.and_then(|ms| ms.checked_add(origin_ms)).ok_or_else(|| {
        CommandError::text(format!("ERR invalid expire time in '{}' command", ctx.entry.name))
    })
}

fn set_time(ctx: &mut CommandCtx<'_>, unit: Unit, origin: Origin) -> CommandResult {
    let conditions = Conditions::parse(ctx.args)?;
    let at_ms = at_ms(ctx, unit, origin)?;
    let (key, db) = (ctx.key(1), ctx.client.db);
    let current = ctx.keyspace.peek_expire_time(db, &key);
    let allowed = current
        .is_some_and(|current| conditions.allow(current.map(|current| current as i64), at_ms));
    if !allowed {
        ctx.reply.integer(0);
        return Ok(());
    }
    // A time that is over deletes the key, however long it is over.
    ctx.keyspace.expire_at(db, &key, at_ms.max(0) as u64)?;
    ctx.reply.integer(1);
    Ok(())
}

pub(super) fn expire(ctx: &mut CommandCtx<'_>) -> CommandResult {
    set_time(ctx, Unit::Seconds, Origin::Now)
}

pub(super) fn pexpire(ctx: &mut CommandCtx<'_>) -> CommandResult {
    set_time(ctx, Unit::Milliseconds, Origin::Now)
}

pub(super) fn expireat(ctx: &mut CommandCtx<'_>) -> CommandResult {
    set_time(ctx, Unit::Seconds, Origin::UnixEpoch)
}

pub(super) fn pexpireat(ctx: &mut CommandCtx<'_>) -> CommandResult {
    set_time(ctx, Unit::Milliseconds, Origin::UnixEpoch)
}

/// Answers the key's time; -1 without one, -2 without the key. Seconds are rounded.
fn answer_time(ctx: &mut CommandCtx<'_>, unit: Unit, origin: Origin) -> CommandResult {
    let (key, db) = (ctx.key(1), ctx.client.db);
    let answer = match ctx.keyspace.expire_time(db, &key) {
        None => -2,
        Some(None) => -1,
        Some(Some(at_ms)) => {
            let origin_ms = if origin == Origin::Now { ctx.keyspace.now_ms() } else { 0 };
            let ms = at_ms.saturating_sub(origin_ms);
            let value = if unit == Unit::Seconds { (ms + 500) / 1000 } else { ms };
            value as i64
        }
    };
    ctx.reply.integer(answer);
    Ok(())
}

pub(super) fn ttl(ctx: &mut CommandCtx<'_>) -> CommandResult {
    answer_time(ctx, Unit::Seconds, Origin::Now)
}

pub(super) fn pttl(ctx: &mut CommandCtx<'_>) -> CommandResult {
    answer_time(ctx, Unit::Milliseconds, Origin::Now)
}

pub(super) fn expiretime(ctx: &mut CommandCtx<'_>) -> CommandResult {
    answer_time(ctx, Unit::Seconds, Origin::UnixEpoch)
}

pub(super) fn pexpiretime(ctx: &mut CommandCtx<'_>) -> CommandResult {
    answer_time(ctx, Unit::Milliseconds, Origin::UnixEpoch)
}

pub(super) fn persist(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let changed = ctx.keyspace.persist(ctx.client.db, &key);
    ctx.reply.integer(i64::from(changed));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &str, current: Option<i64>, new: i64, expected: bool) {
        let has = |word| words.contains(word);
        let conditions = Conditions { nx: has("nx"), xx: has("xx"), gt: has("gt"), lt: has("lt") };
        assert_eq!(conditions.allow(current, new), expected, "{words} {current:?} {new}");
    }

    #[test]
    fn conditions() {
        check("", None, 1, true);
        check("nx", None, 1, true);
        check("nx", Some(5), 9, false);
        check("xx", None, 1, false);
        check("xx", Some(5), 1, true);
        check("gt", None, 1, false);
        check("gt", Some(5), 5, false);
        check("gt", Some(5), 6, true);
        check("lt", None, 1, true);
        check("lt", Some(5), 5, false);
        check("lt", Some(5), -4, true);
        check("xx lt", None, 1, false);
        check("xx gt", Some(5), 6, true);
    }

    #[test]
    fn conditions_that_exclude_one_another() {
        let both = Conditions { nx: true, lt: true, ..Conditions::default() };
        assert!(both.check().is_err_and(|error| error.0.starts_with(b"ERR NX and XX")));
        let both = Conditions { xx: true, gt: true, lt: true, ..Conditions::default() };
        assert!(both.check().is_err_and(|error| error.0.starts_with(b"ERR GT and LT")));
    }
}
