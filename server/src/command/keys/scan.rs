//! KEYS, SCAN, RANDOMKEY.

use encodings::glob::Case;
use engine::{Member, Members, Partition, ScanCursor};

use crate::command::args::Args;
use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{CommandError, NOT_AN_INTEGER, SYNTAX};
use crate::conn::Client;
use crate::input::Needs;
use crate::keyspace::Keyspace;
use crate::resp::Reply;

/// Keys that a call of SCAN looks at unless COUNT says otherwise.
const COUNT_DEFAULT: usize = 10;

/// A glob pattern, or all keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::command) struct Pattern<'a>(Option<&'a [u8]>);

impl<'a> Pattern<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self(if text == b"*" { None } else { Some(text) })
    }

    pub(in crate::command) fn matches(self, key: &[u8]) -> bool {
        self.0.is_none_or(|pattern| encodings::glob::matches(pattern, key, Case::Keep))
    }
}

pub(super) fn keys(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let pattern = Pattern::new(ctx.args.get(1));
    let start = ctx.reply.defer();
    let mut found = 0;
    for (_, partition) in ctx.keyspace.all() {
        partition.for_each_key(ctx.client.db, |key, _| {
            if pattern.matches(key) {
                ctx.reply.bulk(key);
                found += 1;
            }
        });
    }
    ctx.reply.finish_array(start, found);
    Ok(())
}

/// The options of SCAN, HSCAN, SSCAN and ZSCAN.
pub(in crate::command) struct ScanArgs<'a> {
    pub(in crate::command) count: usize,
    pub(in crate::command) pattern: Pattern<'a>,
    type_name: Option<&'a [u8]>,
    /// HSCAN answers fields alone.
    pub(in crate::command) no_values: bool,
}

impl<'a> ScanArgs<'a> {
    fn parse(args: Args<'a>) -> Result<Self, CommandError> {
        Self::read(args, 2, true, false)
    }

    /// The options of a walk over the members of a collection, which stand behind its cursor.
    pub(in crate::command) fn of_members(
        args: Args<'a>,
        has_values: bool,
    ) -> Result<Self, CommandError> {
        Self::read(args, 3, false, has_values)
    }

    fn read(
        args: Args<'a>,
        first: usize,
        has_types: bool,
        has_values: bool,
    ) -> Result<Self, CommandError> {
        let mut parsed = Self {
            count: COUNT_DEFAULT,
            pattern: Pattern(None),
            type_name: None,
            no_values: false,
        };
        let mut cursor = args.cursor(first);
        while cursor.remaining() > 0 {
            if let Some(text) = cursor.accept_with_value("count") {
                let count = encodings::integer::parse_i64(text).ok_or(NOT_AN_INTEGER)?;
                parsed.count =
                    usize::try_from(count).ok().filter(|count| *count > 0).ok_or(SYNTAX)?;
            } else if let Some(text) = cursor.accept_with_value("match") {
                parsed.pattern = Pattern::new(text);
            } else if has_types && let Some(text) = cursor.accept_with_value("type") {
                parsed.type_name = Some(text);
            } else if cursor.accept("novalues") {
                parsed.no_values = has_values;
                if has_values {
                    continue;
                }
                return Err(CommandError::new("ERR NOVALUES option can only be used in HSCAN"));
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(parsed)
    }

    fn wants(&self, key: &[u8], type_name: &str) -> bool {
        self.type_name.is_none_or(|wanted| wanted.eq_ignore_ascii_case(type_name.as_bytes()))
            && self.pattern.matches(key)
    }
}

/// A cursor as SCAN takes it: what C's `strtoull` reads, save negative numbers.
pub(in crate::command) fn parse_cursor(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii_start();
    let digits = digits.strip_prefix(b"+").unwrap_or(digits);
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, byte| {
        let digit = (*byte as char).to_digit(10)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

pub(super) fn scan(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let cursor = parse_cursor(ctx.args.get(1)).ok_or(CommandError::new("ERR invalid cursor"))?;
    let parsed = ScanArgs::parse(ctx.args)?;
    // The cursor goes first, and is known last.
    let mut keys = Reply::new(ctx.shard.take_buffer(), ctx.reply.protocol());
    let (mut found, mut due_keys) = (0, Vec::new());
    let db = ctx.client.db;
    let next = ctx.keyspace.scan_with_due(db, cursor, parsed.count, |key, value_type, due| {
        if due {
            due_keys.push(key.to_vec());
        } else if parsed.wants(key, value_type.name()) {
            keys.bulk(key);
            found += 1;
        }
    });
    for key in &due_keys {
        // Looking at a key whose time is over lets it go.
        let key = ctx.keyspace.key(key);
        ctx.keyspace.holds(db, &key);
    }
    let next = if next == 0 { start_of_next_shard(ctx.keyspace) } else { next };
    ctx.reply.array(2);
    ctx.reply.bulk_integer(next as i64);
    ctx.reply.array(found);
    let keys = keys.into_bytes();
    ctx.reply.raw(&keys);
    ctx.shard.give_buffer(keys);
    Ok(())
}

/// Answers HSCAN, SSCAN or ZSCAN: `find` gives the collection, `answer` writes a member and says how
/// many elements that are.
pub(in crate::command) fn scan_members(
    ctx: &mut CommandCtx<'_>,
    has_values: bool,
    find: impl for<'p> FnOnce(&'p mut Partition) -> Result<Option<Members<'p>>, CommandError>,
    answer: impl Fn(&mut Reply, &Member<'_>, &ScanArgs<'_>) -> usize,
) -> CommandResult {
    let cursor = parse_cursor(ctx.args.get(2)).ok_or(CommandError::new("ERR invalid cursor"))?;
    let members = find(ctx.keyspace)?;
    ctx.reply.array(2);
    let Some(members) = members else {
        // As in Redis, the options do not matter then.
        ctx.reply.bulk(b"0");
        ctx.reply.array(0);
        return Ok(());
    };
    let parsed = ScanArgs::of_members(ctx.args, has_values)?;
    // The cursor goes first, and is known last.
    let mut found = Reply::new(ctx.shard.take_buffer(), ctx.reply.protocol());
    let mut count = 0;
    let next = members.scan(cursor, parsed.count, |member| {
        if member.name.with_text(|name| parsed.pattern.matches(name)) {
            count += answer(&mut found, &member, &parsed);
        }
    });
    ctx.reply.bulk_integer(next as i64);
    ctx.reply.array(count);
    let found = found.into_bytes();
    ctx.reply.raw(&found);
    ctx.shard.give_buffer(found);
    Ok(())
}

/// A walk goes through the shards one after another: where it goes on after the selected one.
fn start_of_next_shard(keyspace: &Keyspace) -> u64 {
    let next = keyspace.selected() + 1;
    if keyspace.own_only || next == keyspace.shards() {
        return 0;
    }
    ScanCursor { shard: next as u8, ..ScanCursor::default() }.encode()
}

/// A call of SCAN works on the shard that its cursor names.
pub(super) fn place_scan(args: Args<'_>, _: &Client, shards: usize) -> Needs {
    let cursor = args.len().checked_sub(2).and_then(|_| parse_cursor(args.get(1)));
    let shard = usize::from(ScanCursor::decode(cursor.unwrap_or_default()).shard);
    Needs::One(shard.min(shards - 1))
}

pub(super) fn randomkey(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let random = ctx.shard.random();
    let mut key = ctx.shard.take_buffer();
    if pick(ctx, random, &mut key) {
        ctx.reply.bulk(&key);
    } else {
        ctx.reply.null();
    }
    ctx.shard.give_buffer(key);
    Ok(())
}

/// Puts a random key into `key`: of a shard picked by its number of keys, or of the next one where
/// all that it had were due.
fn pick(ctx: &mut CommandCtx<'_>, random: u64, key: &mut Vec<u8>) -> bool {
    let db = ctx.client.db;
    let lens: Vec<usize> = ctx.keyspace.all().map(|(_, partition)| partition.len(db)).collect();
    let total: usize = lens.iter().sum();
    let mut rank = ((u128::from(random.rotate_left(32)) * total as u128) >> 64) as usize;
    let first = lens.iter().position(|len| {
        let here = rank < *len;
        rank = rank.saturating_sub(*len);
        here
    });
    let first = first.unwrap_or(0);
    let mut shares: Vec<_> = ctx.keyspace.all_mut().collect();
    shares.rotate_left(first);
    shares.into_iter().any(|share| share.partition.random_key(db, random, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors() {
        let check = |text: &str, expected| assert_eq!(parse_cursor(text.as_bytes()), expected);
        check("0", Some(0));
        check("01", Some(1));
        check(" +7", Some(7));
        check("18446744073709551615", Some(u64::MAX));
        check("18446744073709551616", None);
        check("-1", None);
        check("", None);
        check("+", None);
        check("1 ", None);
        check("x", None);
    }
}
