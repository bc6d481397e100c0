//! String commands.

use encodings::float80::Float80;
use engine::{Key, Partition, SetCondition, SetExpire, SetOptions, StringValue};

use super::args::{Args, Cursor};
use super::dispatch::{CommandCtx, CommandResult, wrong_arity};
use super::error::{CommandError, NOT_A_FLOAT, NOT_AN_INTEGER, STRING_TOO_LONG, SYNTAX};
use super::spec::{Command, Group, KeySpec, acl, flag, key_flag as key};
use crate::resp::Reply;

const READ: &[KeySpec] = &[KeySpec::one(1, key::RO | key::ACCESS)];
const READ_ALL: &[KeySpec] = &[KeySpec::all(1, 1, key::RO | key::ACCESS)];
const MEASURE: &[KeySpec] = &[KeySpec::one(1, key::RO)];
const CHANGE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::ACCESS | key::UPDATE)];
const TAKE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::ACCESS | key::DELETE)];
const EXTEND: &[KeySpec] = &[KeySpec::one(1, key::RW | key::INSERT)];
const PATCH: &[KeySpec] = &[KeySpec::one(1, key::RW | key::UPDATE)];
const OVERWRITE: &[KeySpec] = &[KeySpec::one(1, key::OW | key::UPDATE)];
const CREATE: &[KeySpec] = &[KeySpec::one(1, key::OW | key::INSERT)];
const OVERWRITE_PAIRS: &[KeySpec] = &[KeySpec::all(1, 2, key::OW | key::UPDATE)];
const CREATE_PAIRS: &[KeySpec] = &[KeySpec::all(1, 2, key::OW | key::INSERT)];
const SET_KEYS: &[KeySpec] =
    &[KeySpec::one(1, key::RW | key::ACCESS | key::UPDATE | key::VARIABLE_FLAGS)
        .notes("RW and ACCESS due to the optional `GET` argument")];
const GETEX_KEYS: &[KeySpec] = &[KeySpec::one(1, key::RW | key::ACCESS | key::UPDATE)
    .notes("RW and UPDATE because it changes the TTL")];

const RANGE_COST: &str = "O(N) with the length of the returned string";

const FAST_READ: u32 = flag::READONLY | flag::FAST;
const WRITE: u32 = flag::WRITE | flag::DENYOOM;
const FAST_WRITE: u32 = WRITE | flag::FAST;

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    run: super::spec::Handler,
    keys: &'static [KeySpec],
) -> Command {
    Command::new(name, arity, flags, run).keys(keys).acl(acl::STRING)
}

/// The rows of this family.
pub const COMMANDS: &[Command] = &[
    row("get", 2, FAST_READ, get, READ).docs(
        Group::String,
        "1.0.0",
        "O(1)",
        "Reads the string at a key.",
    ),
    row("set", -3, WRITE, set, SET_KEYS).docs(
        Group::String,
        "1.0.0",
        "O(1)",
        "Stores a string at a key, whatever was there, with conditions and an expire time if asked.",
    ),
    row("getset", 3, FAST_WRITE, getset, CHANGE).docs(
        Group::String,
        "1.0.0",
        "O(1)",
        "Stores a string at a key and answers the one that it replaces.",
    ),
    row("getdel", 2, flag::WRITE | flag::FAST, getdel, TAKE).docs(
        Group::String,
        "6.2.0",
        "O(1)",
        "Reads the string at a key and deletes the key.",
    ),
    row("getex", -2, flag::WRITE | flag::FAST, getex, GETEX_KEYS).docs(
        Group::String,
        "6.2.0",
        "O(1)",
        "Reads the string at a key and changes or removes the key's expire time.",
    ),
    row("mget", -2, FAST_READ, mget, READ_ALL)
        .docs(Group::String, "1.0.0", "O(N) with the number of keys", "Reads the strings at several keys.")
        .tips(&["request_policy:multi_shard"]),
    row("mset", -3, WRITE, mset, OVERWRITE_PAIRS)
        .docs(
            Group::String,
            "1.0.1",
            "O(N) with the number of keys",
            "Stores a string at each of several keys, all at one instant.",
        )
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"]),
    row("msetnx", -3, WRITE, msetnx, CREATE_PAIRS).docs(
        Group::String,
        "1.0.1",
        "O(N) with the number of keys",
        "Stores a string at each of several keys if none of them exists.",
    ),
    row("setnx", 3, FAST_WRITE, setnx, CREATE).docs(
        Group::String,
        "1.0.0",
        "O(1)",
        "Stores a string at a key that does not exist.",
    ),
    row("setex", 4, WRITE, setex, OVERWRITE).docs(
        Group::String,
        "2.0.0",
        "O(1)",
        "Stores a string at a key with a life of some seconds.",
    ),
    row("psetex", 4, WRITE, psetex, OVERWRITE).docs(
        Group::String,
        "2.6.0",
        "O(1)",
        "Stores a string at a key with a life of some milliseconds.",
    ),
    row("append", 3, FAST_WRITE, append, EXTEND).docs(
        Group::String,
        "2.0.0",
        "O(1) amortized for short additions",
        "Adds bytes to the end of the string at a key, which it creates if needed.",
    ),
    row("strlen", 2, FAST_READ, strlen, MEASURE).docs(
        Group::String,
        "2.2.0",
        "O(1)",
        "Measures the string at a key.",
    ),
    row("getrange", 4, flag::READONLY, getrange, READ).docs(
        Group::String,
        "2.4.0",
        RANGE_COST,
        "Reads a part of the string at a key.",
    ),
    row("substr", 4, flag::READONLY, getrange, READ).docs(
        Group::String,
        "1.0.0",
        RANGE_COST,
        "Reads a part of the string at a key; the old name of GETRANGE.",
    ),
    row("setrange", 4, WRITE, setrange, PATCH).docs(
        Group::String,
        "2.2.0",
        "O(1) for short strings, O(M) with the length of the value otherwise",
        "Overwrites a part of the string at a key, which it creates or lengthens if needed.",
    ),
    row("incr", 2, FAST_WRITE, incr, CHANGE).docs(
        Group::String,
        "1.0.0",
        "O(1)",
        "Adds one to the integer at a key; a missing key counts as 0.",
    ),
    row("decr", 2, FAST_WRITE, decr, CHANGE).docs(
        Group::String,
        "1.0.0",
        "O(1)",
        "Takes one from the integer at a key; a missing key counts as 0.",
    ),
    row("incrby", 3, FAST_WRITE, incrby, CHANGE).docs(
        Group::String,
        "1.0.0",
        "O(1)",
        "Adds a number to the integer at a key; a missing key counts as 0.",
    ),
    row("decrby", 3, FAST_WRITE, decrby, CHANGE).docs(
        Group::String,
        "1.0.0",
        "O(1)",
        "Takes a number from the integer at a key; a missing key counts as 0.",
    ),
    row("incrbyfloat", 3, FAST_WRITE, incrbyfloat, CHANGE).docs(
        Group::String,
        "2.6.0",
        "O(1)",
        "Adds a floating-point number to the number at a key; a missing key counts as 0.",
    ),
];

/// Answers a string, or null for a missing key.
#[inline]
pub(super) fn answer_string(reply: &mut Reply, value: Option<StringValue<'_>>) {
    match value {
        Some(StringValue::Bytes(bytes)) => reply.bulk(bytes),
        Some(StringValue::Int(value)) => reply.bulk_integer(value),
        None => reply.null(),
    }
}

/// The bytes of a string value; an integer's digits go to `digits`.
pub(super) fn bytes_of<'a>(
    value: Option<StringValue<'a>>,
    digits: &'a mut itoa::Buffer,
) -> &'a [u8] {
    match value {
        None => b"",
        Some(StringValue::Bytes(bytes)) => bytes,
        Some(StringValue::Int(value)) => digits.format(value).as_bytes(),
    }
}

fn get(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let key = ctx.key(1);
    answer_string(ctx.reply, ctx.keyspace.get(ctx.client.db, &key)?);
    Ok(())
}

/// A relative or absolute time as an option gives it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TimeOption {
    Ex,
    Px,
    ExAt,
    PxAt,
}

impl TimeOption {
    /// The option at the cursor, with its value.
    fn take<'a>(cursor: &mut Cursor<'a>) -> Option<(Self, &'a [u8])> {
        [("ex", Self::Ex), ("px", Self::Px), ("exat", Self::ExAt), ("pxat", Self::PxAt)]
            .into_iter()
            .find_map(|(word, option)| Some((option, cursor.accept_with_value(word)?)))
    }

    /// Takes the option at the cursor; a second one must be the same, and counts.
    fn take_again<'a>(
        cursor: &mut Cursor<'a>,
        taken: &mut Option<(Self, &'a [u8])>,
    ) -> CommandResult {
        let next = Self::take(cursor).ok_or(SYNTAX)?;
        if taken.is_some_and(|(option, _)| option != next.0) {
            return Err(SYNTAX);
        }
        *taken = Some(next);
        Ok(())
    }

    /// The absolute time in milliseconds.
    fn at_ms(self, text: &[u8], ctx: &CommandCtx<'_>) -> Result<u64, CommandError> {
        let value = encodings::integer::parse_i64(text).ok_or(NOT_AN_INTEGER)?;
        let seconds = matches!(self, Self::Ex | Self::ExAt);
        let relative = matches!(self, Self::Ex | Self::Px);
        Some(value)
            .filter(|value| *value > 0)
            .and_then(|value| if seconds { value.checked_mul(1000) } else { Some(value) })
            .and_then(|ms| {
                let now_ms = if relative { ctx.keyspace.now_ms() as i64 } else { 0 };
                ms.checked_add(now_ms)
            })
            .map(|ms| ms as u64)
            .ok_or_else(|| {
                CommandError::text(format!(
                    "ERR invalid expire time in '{}' command",
                    ctx.entry.name
                ))
            })
    }
}

/// The options of SET.
#[derive(Default)]
struct SetArgs<'a> {
    condition: Option<SetCondition>,
    get: bool,
    keep_ttl: bool,
    time: Option<(TimeOption, &'a [u8])>,
}

impl<'a> SetArgs<'a> {
    fn parse(args: Args<'a>) -> Result<Self, CommandError> {
        let mut parsed = Self::default();
        let mut cursor = args.cursor(3);
        while cursor.remaining() > 0 {
            if parsed.condition.is_none() && cursor.accept("nx") {
                parsed.condition = Some(SetCondition::IfMissing);
            } else if parsed.condition.is_none() && cursor.accept("xx") {
                parsed.condition = Some(SetCondition::IfExists);
            } else if parsed.condition == Some(SetCondition::IfMissing) && cursor.accept("nx")
                || parsed.condition == Some(SetCondition::IfExists) && cursor.accept("xx")
            {
                // Redis bears an option that is given twice.
            } else if cursor.accept("get") {
                parsed.get = true;
            } else if parsed.time.is_none() && cursor.accept("keepttl") {
                parsed.keep_ttl = true;
            } else if parsed.keep_ttl {
                return Err(SYNTAX);
            } else {
                TimeOption::take_again(&mut cursor, &mut parsed.time)?;
            }
        }
        Ok(parsed)
    }
}

fn set(ctx: &mut CommandCtx<'_>) -> CommandResult {
    if ctx.args.len() == 3 {
        return store(ctx, ctx.args.get(2), SetExpire::Clear);
    }
    let parsed = SetArgs::parse(ctx.args)?;
    let expire = match parsed.time {
        Some((option, text)) => SetExpire::At(option.at_ms(text, ctx)?),
        None if parsed.keep_ttl => SetExpire::Keep,
        None => SetExpire::Clear,
    };
    let key = ctx.key(1);
    if parsed.get {
        answer_string(ctx.reply, ctx.keyspace.get(ctx.client.db, &key)?);
    }
    let options =
        SetOptions { expire, condition: parsed.condition.unwrap_or(SetCondition::Always) };
    let stored = ctx.keyspace.set(ctx.client.db, &key, ctx.args.get(2), options)?;
    match (parsed.get, stored) {
        (true, _) => {}
        (false, true) => ctx.reply.ok(),
        (false, false) => ctx.reply.null(),
    }
    Ok(())
}

/// Stores a value without condition and answers OK.
#[inline]
fn store(ctx: &mut CommandCtx<'_>, value: &[u8], expire: SetExpire) -> CommandResult {
    let key = ctx.key(1);
    let options = SetOptions { expire, condition: SetCondition::Always };
    ctx.keyspace.set(ctx.client.db, &key, value, options)?;
    ctx.reply.ok();
    Ok(())
}

fn setex(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let at_ms = TimeOption::Ex.at_ms(ctx.args.get(2), ctx)?;
    store(ctx, ctx.args.get(3), SetExpire::At(at_ms))
}

fn psetex(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let at_ms = TimeOption::Px.at_ms(ctx.args.get(2), ctx)?;
    store(ctx, ctx.args.get(3), SetExpire::At(at_ms))
}

fn setnx(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let options = SetOptions { expire: SetExpire::Clear, condition: SetCondition::IfMissing };
    let stored = ctx.keyspace.set(ctx.client.db, &key, ctx.args.get(2), options)?;
    ctx.reply.integer(i64::from(stored));
    Ok(())
}

fn getset(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let key = ctx.key(1);
    answer_string(ctx.reply, ctx.keyspace.get(ctx.client.db, &key)?);
    let options = SetOptions { expire: SetExpire::Clear, condition: SetCondition::Always };
    ctx.keyspace.set(ctx.client.db, &key, ctx.args.get(2), options)?;
    Ok(())
}

fn getdel(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let value = ctx.keyspace.get(ctx.client.db, &key)?;
    let found = value.is_some();
    answer_string(ctx.reply, value);
    if found {
        ctx.keyspace.delete(ctx.client.db, &key, engine::DeleteCause::Command);
    }
    Ok(())
}

fn getex(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let mut cursor = ctx.args.cursor(2);
    let (mut persist, mut time) = (false, None);
    while cursor.remaining() > 0 {
        if time.is_none() && cursor.accept("persist") {
            persist = true;
        } else if persist {
            return Err(SYNTAX);
        } else {
            TimeOption::take_again(&mut cursor, &mut time)?;
        }
    }
    let (key, db) = (ctx.key(1), ctx.client.db);
    let value = ctx.keyspace.get(db, &key)?;
    let found = value.is_some();
    answer_string(ctx.reply, value);
    if !found {
        return Ok(());
    }
    if let Some((option, text)) = time {
        let at_ms = option.at_ms(text, ctx)?;
        ctx.keyspace.expire_at(db, &key, at_ms)?;
    } else if persist {
        ctx.keyspace.persist(db, &key);
    }
    Ok(())
}

fn mget(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.reply.array(ctx.args.len() - 1);
    for index in 1..ctx.args.len() {
        let key = ctx.key(index);
        // A key of another type reads as missing here.
        let value = ctx.keyspace.of(&key).get(ctx.client.db, &key).unwrap_or_default();
        answer_string(ctx.reply, value);
    }
    Ok(())
}

/// Stores the pairs of MSET and MSETNX.
fn store_pairs(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let options = SetOptions { expire: SetExpire::Clear, condition: SetCondition::Always };
    for index in (1..ctx.args.len()).step_by(2) {
        let key = ctx.key(index);
        ctx.keyspace.of(&key).set(ctx.client.db, &key, ctx.args.get(index + 1), options)?;
    }
    Ok(())
}

fn mset(ctx: &mut CommandCtx<'_>) -> CommandResult {
    if ctx.args.len().is_multiple_of(2) {
        return Err(wrong_arity(ctx.entry));
    }
    store_pairs(ctx)?;
    ctx.reply.ok();
    Ok(())
}

fn msetnx(ctx: &mut CommandCtx<'_>) -> CommandResult {
    if ctx.args.len().is_multiple_of(2) {
        return Err(wrong_arity(ctx.entry));
    }
    let (args, db) = (ctx.args, ctx.client.db);
    for index in (1..args.len()).step_by(2) {
        let key = ctx.key(index);
        if ctx.keyspace.of(&key).holds(db, &key) {
            ctx.reply.integer(0);
            return Ok(());
        }
    }
    store_pairs(ctx)?;
    ctx.reply.integer(1);
    Ok(())
}

/// Refuses a string of more than `proto-max-bulk-len` bytes.
fn check_len(ctx: &CommandCtx<'_>, current: usize, added: usize) -> CommandResult {
    let len = current.checked_add(added).and_then(|len| i64::try_from(len).ok());
    match len {
        Some(len) if len <= ctx.shard.hot.bulk_max => Ok(()),
        _ => Err(STRING_TOO_LONG),
    }
}

/// Length of the string at a key, without a trace in the key's statistics.
fn current_len(
    partition: &mut Partition,
    db: usize,
    key: &Key<'_>,
) -> Result<Option<usize>, CommandError> {
    Ok(partition.peek(db, key)?.map(|value| value.len()))
}

fn append(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, value, db) = (ctx.key(1), ctx.args.get(2), ctx.client.db);
    if value.len() as i64 > ctx.shard.hot.bulk_max / 2 {
        let current = current_len(ctx.keyspace, db, &key)?.unwrap_or(0);
        check_len(ctx, current, value.len())?;
    }
    let len = ctx.keyspace.append(db, &key, value, ctx.shard.hot.bulk_max as usize)?;
    ctx.reply.count(len);
    Ok(())
}

fn strlen(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let value = ctx.keyspace.get(ctx.client.db, &key)?;
    ctx.reply.count(value.map_or(0, |value| value.len()));
    Ok(())
}

fn getrange(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (start, end) = (ctx.args.integer(2)?, ctx.args.integer(3)?);
    let key = ctx.key(1);
    let Some(value) = ctx.keyspace.get(ctx.client.db, &key)? else {
        ctx.reply.bulk(b"");
        return Ok(());
    };
    let mut digits = itoa::Buffer::new();
    let bytes = match value {
        StringValue::Bytes(bytes) => bytes,
        StringValue::Int(value) => digits.format(value).as_bytes(),
    };
    ctx.reply.bulk(slice(bytes, start, end));
    Ok(())
}

/// The bytes from `start` to `end`, both included, negative ones counted from the end. As in
/// Redis 8.2, a range that lies left of the string answers its first byte.
fn slice(bytes: &[u8], start: i64, end: i64) -> &[u8] {
    if start < 0 && end < 0 && start > end {
        return b"";
    }
    let len = bytes.len() as i64;
    let clamp = |index: i64| if index < 0 { (len + index).max(0) } else { index };
    let (start, end) = (clamp(start), clamp(end).min(len - 1));
    if start > end { b"" } else { &bytes[start as usize..=end as usize] }
}

fn setrange(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (offset, value) = (ctx.args.integer(2)?, ctx.args.get(3));
    let offset =
        usize::try_from(offset).map_err(|_| CommandError::new("ERR offset is out of range"))?;
    let (key, db) = (ctx.key(1), ctx.client.db);
    if value.is_empty() {
        let len = current_len(ctx.keyspace, db, &key)?.unwrap_or(0);
        ctx.reply.count(len);
        return Ok(());
    }
    // The type is looked at first: its error goes before that of the length.
    current_len(ctx.keyspace, db, &key)?;
    check_len(ctx, offset, value.len())?;
    let len = ctx.keyspace.set_range(db, &key, offset, value)?;
    ctx.reply.count(len);
    Ok(())
}

fn add(ctx: &mut CommandCtx<'_>, delta: i64) -> CommandResult {
    let key = ctx.key(1);
    let value = ctx.keyspace.incr_by(ctx.client.db, &key, delta)?;
    ctx.reply.integer(value);
    Ok(())
}

fn incr(ctx: &mut CommandCtx<'_>) -> CommandResult {
    add(ctx, 1)
}

fn decr(ctx: &mut CommandCtx<'_>) -> CommandResult {
    add(ctx, -1)
}

fn incrby(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let delta = ctx.args.integer(2)?;
    add(ctx, delta)
}

fn decrby(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let delta = ctx.args.integer(2)?;
    let delta = delta.checked_neg().ok_or(CommandError::new("ERR decrement would overflow"))?;
    add(ctx, delta)
}

fn incrbyfloat(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db) = (ctx.key(1), ctx.client.db);
    let current = match ctx.keyspace.peek(db, &key)? {
        None => Float80::from_i64(0),
        Some(StringValue::Int(value)) => Float80::from_i64(value),
        Some(StringValue::Bytes(bytes)) => Float80::parse(bytes).ok_or(NOT_A_FLOAT)?,
    };
    let sum = current + Float80::parse(ctx.args.get(2)).ok_or(NOT_A_FLOAT)?;
    if !sum.is_finite() {
        return Err(CommandError::new("ERR increment would produce NaN or Infinity"));
    }
    let text = sum.to_text();
    ctx.keyspace.set_float_text(db, &key, text.as_bytes())?;
    ctx.reply.bulk(text.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_a_string() {
        let check = |start, end, expected: &str| {
            assert_eq!(slice(b"abcde", start, end), expected.as_bytes(), "{start} {end}");
        };
        check(0, 0, "a");
        check(1, 3, "bcd");
        check(-3, -1, "cde");
        check(-1, -3, "");
        check(3, 1, "");
        check(0, 100, "abcde");
        check(5, 100, "");
        check(-100, -100, "a");
        assert_eq!(slice(b"", 0, -1), b"");
        assert_eq!(slice(b"", -1, -1), b"");
    }
}
