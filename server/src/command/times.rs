//! Times of members: what HEXPIRE, SEXPIRE, ZEXPIRE and their kin have in common.
//!
//! Redis has these commands for the fields of hashes; those for members of sets and sorted sets are
//! made like them, with the word MEMBERS where they have FIELDS.

use std::collections::HashSet;

use encodings::integer::parse_i64;
use engine::{Event, ValueType};

use super::args::Args;
use super::dispatch::{CommandCtx, CommandResult};
use super::error::{CommandError, NOT_AN_INTEGER};
use crate::resp::Reply;

/// A type whose members can have times.
pub(super) struct Kind {
    value_type: ValueType,
    /// The word in front of the members and their number.
    word: &'static str,
    missing_word: CommandError,
    wrong_count: CommandError,
    not_positive: CommandError,
    /// [`Kind::not_positive`] as the commands that set a time say it.
    too_few: CommandError,
    expire: Event,
    persist: Event,
    remove: Event,
}

/// The fields of hashes.
pub(super) static FIELDS: Kind = Kind {
    value_type: ValueType::Hash,
    word: "fields",
    missing_word: CommandError::new(
        "ERR Mandatory argument FIELDS is missing or not at the right position",
    ),
    wrong_count: CommandError::new(
        "ERR The `numfields` parameter must match the number of arguments",
    ),
    not_positive: CommandError::new("ERR Number of fields must be a positive integer"),
    too_few: CommandError::new("ERR Parameter `numFields` should be greater than 0"),
    expire: Event::Hexpire,
    persist: Event::Hpersist,
    remove: Event::Hdel,
};

/// The members of sets.
pub(super) static SET_MEMBERS: Kind =
    members(ValueType::Set, Event::Sexpire, Event::Spersist, Event::Srem);

/// The members of sorted sets.
pub(super) static SORTED_SET_MEMBERS: Kind =
    members(ValueType::SortedSet, Event::Zexpire, Event::Zpersist, Event::Zrem);

const fn members(value_type: ValueType, expire: Event, persist: Event, remove: Event) -> Kind {
    Kind {
        value_type,
        word: "members",
        missing_word: CommandError::new(
            "ERR Mandatory argument MEMBERS is missing or not at the right position",
        ),
        wrong_count: CommandError::new(
            "ERR The `nummembers` parameter must match the number of arguments",
        ),
        not_positive: CommandError::new("ERR Number of members must be a positive integer"),
        too_few: CommandError::new("ERR Parameter `numMembers` should be greater than 0"),
        expire,
        persist,
        remove,
    }
}

/// The latest time that a member can have, as in Redis: milliseconds since 1970.
const AT_MS_MAX: i64 = (1 << 46) - 1;

/// Answers for a member: it is not there; it has no time; the condition does not hold; done; it is
/// gone because its time is over.
const MISSING: i64 = -2;
const TIMELESS: i64 = -1;
const REFUSED: i64 = 0;
const DONE: i64 = 1;
const GONE: i64 = 2;

impl Kind {
    /// Checks `FIELDS count field ...` from an argument on to the end, and says where the fields
    /// start.
    pub(super) fn first_of(&self, args: Args<'_>, at: usize) -> Result<usize, CommandError> {
        self.first_or(args, at, &self.not_positive)
    }

    fn first_or(
        &self,
        args: Args<'_>,
        at: usize,
        not_positive: &CommandError,
    ) -> Result<usize, CommandError> {
        if at + 1 >= args.len() || !args.is(at, self.word) {
            return Err(self.missing_word.clone());
        }
        let count = parse_i64(args.get(at + 1)).filter(|count| *count > 0);
        let count = count.ok_or_else(|| not_positive.clone())?;
        if usize::try_from(count).ok() != Some(args.len() - at - 2) {
            return Err(self.wrong_count.clone());
        }
        Ok(at + 2)
    }
}

/// What a number says a time in.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    seconds: bool,
    /// It counts from now.
    relative: bool,
}

pub(super) const EX: Scale = Scale { seconds: true, relative: true };
pub(super) const PX: Scale = Scale { seconds: false, relative: true };
pub(super) const EXAT: Scale = Scale { seconds: true, relative: false };
pub(super) const PXAT: Scale = Scale { seconds: false, relative: false };

impl Scale {
    /// The scale that an option names.
    pub(super) fn of_word(args: Args<'_>, at: usize) -> Option<Self> {
        [("ex", EX), ("px", PX), ("exat", EXAT), ("pxat", PXAT)]
            .into_iter()
            .find_map(|(word, scale)| args.is(at, word).then_some(scale))
    }

    fn origin_ms(self, now_ms: u64) -> i64 {
        if self.relative { now_ms as i64 } else { 0 }
    }

    /// The absolute time in milliseconds that a text gives.
    pub(super) fn at_ms(self, ctx: &CommandCtx<'_>, text: &[u8]) -> Result<u64, CommandError> {
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

    /// Whether a member whose time is `current` may get the time `new`. No time counts as the
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

/// Gives members a time, or takes them away if that is over.
pub(super) fn set_time(
    ctx: &mut CommandCtx<'_>,
    kind: &Kind,
    members: impl Iterator<Item = impl AsRef<[u8]>> + Clone,
    at_ms: u64,
) -> CommandResult {
    let (key, db) = (ctx.key(1), ctx.client.db);
    let members: Vec<_> = members.collect();
    let names = members.iter().map(AsRef::as_ref);
    if at_ms <= ctx.keyspace.now_ms() {
        ctx.keyspace.remove_members(db, &key, names, kind.remove)?;
    } else {
        ctx.keyspace.expire_members(db, &key, names, Some(at_ms), kind.expire)?;
    }
    Ok(())
}

/// HEXPIRE and its kin.
pub(super) fn expire(ctx: &mut CommandCtx<'_>, kind: &Kind, scale: Scale) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    ctx.keyspace.members_look(db, &key, kind.value_type)?;
    let at_ms = scale.at_ms(ctx, args.get(2))?;
    let condition = Condition::of_word(args, 3);
    let at = 3 + usize::from(condition != Condition::Always);
    let first = kind.first_or(args, at, &kind.too_few)?;
    let is_over = at_ms <= ctx.keyspace.now_ms();
    ctx.reply.array(args.len() - first);
    // A member may be named twice: then it already has its time, or is gone.
    let (mut changed, mut known) = (Vec::new(), HashSet::new());
    let members = ctx.keyspace.members_look(db, &key, kind.value_type)?;
    for member in args.from(first) {
        let answer =
            match members.and_then(|members| members.get(member)).map(|member| member.expire_at) {
                None => MISSING,
                Some(_) if is_over && known.contains(member) => MISSING,
                Some(before) => {
                    let current = if known.contains(member) { Some(at_ms) } else { before };
                    if condition.holds(current, at_ms) {
                        changed.push(member);
                        known.insert(member);
                        if is_over { GONE } else { DONE }
                    } else {
                        REFUSED
                    }
                }
            };
        ctx.reply.integer(answer);
    }
    if changed.is_empty() { Ok(()) } else { set_time(ctx, kind, changed.into_iter(), at_ms) }
}

/// HTTL and its kin.
pub(super) fn tell(ctx: &mut CommandCtx<'_>, kind: &Kind, scale: Scale) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let now_ms = ctx.keyspace.now_ms();
    let members = ctx.keyspace.members(db, &key, kind.value_type)?;
    let first = kind.first_of(args, 2)?;
    ctx.reply.array(args.len() - first);
    for member in args.from(first) {
        let answer =
            match members.and_then(|members| members.get(member)).map(|member| member.expire_at) {
                None => MISSING,
                Some(None) => TIMELESS,
                Some(Some(at_ms)) => scale.show(now_ms, at_ms),
            };
        ctx.reply.integer(answer);
    }
    Ok(())
}

/// Takes the times of those members away that have one, and calls `tell` with what became of each.
pub(super) fn persist_from(
    ctx: &mut CommandCtx<'_>,
    kind: &Kind,
    first: usize,
    tell: impl Fn(&mut Reply, i64),
) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let (mut changed, mut known) = (Vec::new(), HashSet::new());
    let members = ctx.keyspace.members_look(db, &key, kind.value_type)?;
    for member in args.from(first) {
        let answer =
            match members.and_then(|members| members.get(member)).map(|member| member.expire_at) {
                None => MISSING,
                Some(Some(_)) if known.insert(member) => {
                    changed.push(member);
                    DONE
                }
                Some(_) => TIMELESS,
            };
        tell(ctx.reply, answer);
    }
    if !changed.is_empty() {
        let members = changed.into_iter();
        ctx.keyspace.expire_members(db, &key, members, None, kind.persist)?;
    }
    Ok(())
}

/// HPERSIST and its kin.
pub(super) fn persist(ctx: &mut CommandCtx<'_>, kind: &Kind) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    ctx.keyspace.members_look(db, &key, kind.value_type)?;
    let first = kind.first_of(args, 2)?;
    ctx.reply.array(args.len() - first);
    persist_from(ctx, kind, first, Reply::integer)
}

/// The handlers of a type's commands on times.
macro_rules! handlers {
    ($kind:path) => {
        use $crate::command::times::{EX, EXAT, PX, PXAT, expire, persist, tell};

        handlers! {
            $kind, expire: in_seconds EX, in_ms PX, at_seconds EXAT, at_ms PXAT;
            $kind, tell: left_seconds EX, left_ms PX, due_seconds EXAT, due_ms PXAT;
        }

        pub(super) fn never(ctx: &mut CommandCtx<'_>) -> CommandResult {
            persist(ctx, &$kind)
        }
    };
    ($($kind:path, $run:ident: $($name:ident $scale:ident),*;)*) => {
        $($(
            pub(super) fn $name(ctx: &mut CommandCtx<'_>) -> CommandResult {
                $run(ctx, &$kind, $scale)
            }
        )*)*
    };
}

pub(super) use handlers;

/// The rows of these commands for a type that Redis has none for: a prefix of the names, the
/// family, the kind, and what the documentation calls a value.
macro_rules! family {
    ($prefix:literal, $family:expr, $kind:path, $what:literal) => {
        use $crate::command::dispatch::{CommandCtx, CommandResult};
        use $crate::command::spec::{Command, KeySpec, flag, key_flag};
        use $crate::command::times::handlers;

        handlers!($kind);

        const READ: &[KeySpec] = &[KeySpec::one(1, key_flag::RO | key_flag::ACCESS)];
        const UPDATE: &[KeySpec] = &[KeySpec::one(1, key_flag::RW | key_flag::UPDATE)];
        const FAST_READ: u32 = flag::READONLY | flag::FAST;
        const FAST_WRITE: u32 = flag::WRITE | flag::FAST;
        const SINCE: &str = "8.2.0";
        const COST: &str = "O(N) with the number of members named";
        const VARYING: &[&str] = &["nondeterministic_output"];

        /// The rows of this family that are about times of members.
        #[rustfmt::skip]
        pub const COMMANDS: &[Command] = &[
            $family.row(concat!($prefix, "expire"), -6, FAST_WRITE, in_seconds, UPDATE, SINCE, COST,
                concat!("Gives members of ", $what, " a life of some seconds.")),
            $family.row(concat!($prefix, "pexpire"), -6, FAST_WRITE, in_ms, UPDATE, SINCE, COST,
                concat!("Gives members of ", $what, " a life of some milliseconds.")),
            $family.row(concat!($prefix, "expireat"), -6, FAST_WRITE, at_seconds, UPDATE, SINCE, COST,
                concat!("Gives members of ", $what, " a time in Unix seconds at which they are due.")),
            $family.row(concat!($prefix, "pexpireat"), -6, FAST_WRITE, at_ms, UPDATE, SINCE, COST,
                concat!("Gives members of ", $what, " a time in Unix milliseconds at which they are due.")),
            $family.row(concat!($prefix, "persist"), -5, FAST_WRITE, never, UPDATE, SINCE, COST,
                concat!("Takes the times of members of ", $what, " away.")),
            $family.row(concat!($prefix, "ttl"), -5, FAST_READ, left_seconds, READ, SINCE, COST,
                concat!("Tells the seconds that members of ", $what, " have left.")).tips(VARYING),
            $family.row(concat!($prefix, "pttl"), -5, FAST_READ, left_ms, READ, SINCE, COST,
                concat!("Tells the milliseconds that members of ", $what, " have left.")).tips(VARYING),
            $family.row(concat!($prefix, "expiretime"), -5, FAST_READ, due_seconds, READ, SINCE, COST,
                concat!("Tells the Unix seconds at which members of ", $what, " are due.")),
            $family.row(concat!($prefix, "pexpiretime"), -5, FAST_READ, due_ms, READ, SINCE, COST,
                concat!("Tells the Unix milliseconds at which members of ", $what, " are due.")),
        ];
    };
}

pub(super) use family;

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
