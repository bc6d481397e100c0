//! BITCOUNT and BITPOS: the bits of a range.

use std::ops::Range;

use super::bytes_of;
use crate::command::args::Args;
use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{CommandError, SYNTAX};

/// A range as arguments give it: both ends included, negative ones counted from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RangeArgs {
    start: i64,
    /// `None` is the last byte or bit.
    end: Option<i64>,
    in_bits: bool,
}

impl RangeArgs {
    /// The whole string.
    const WHOLE: Self = Self { start: 0, end: None, in_bits: false };

    /// The bits that it covers in a string of `len_bytes`; they lie within the string.
    fn bits(self, len_bytes: usize) -> Range<u64> {
        let len = len_bytes as i64 * if self.in_bits { 8 } else { 1 };
        let from_end = |index: i64| if index < 0 { (len + index).max(0) } else { index };
        let start = from_end(self.start);
        let end = from_end(self.end.unwrap_or(-1)).min(len - 1);
        if start > end {
            return 0..0;
        }
        let unit = if self.in_bits { 1 } else { 8 };
        start as u64 * unit..(end as u64 + 1) * unit
    }
}

/// The word BIT or BYTE at an index.
fn in_bits(args: Args<'_>, index: usize) -> Result<bool, CommandError> {
    match index {
        _ if args.is(index, "bit") => Ok(true),
        _ if args.is(index, "byte") => Ok(false),
        _ => Err(SYNTAX),
    }
}

pub(super) fn bitcount(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let args = ctx.args;
    let range = match args.len() {
        2 => RangeArgs::WHOLE,
        len @ (4 | 5) => RangeArgs {
            start: args.integer(2)?,
            end: Some(args.integer(3)?),
            in_bits: len == 5 && in_bits(args, 4)?,
        },
        _ => return Err(SYNTAX),
    };
    let key = ctx.key(1);
    let mut digits = itoa::Buffer::new();
    let bytes = bytes_of(ctx.keyspace.get(ctx.client.db, &key)?, &mut digits);
    // Two ends that both lie left of the string would else meet at its first bit.
    let crossed = range.end.is_some_and(|end| range.start < 0 && end < range.start);
    let bits = if crossed { 0..0 } else { range.bits(bytes.len()) };
    let count = encodings::bitmap::count_range(bytes, bits);
    ctx.reply.integer(count as i64);
    Ok(())
}

pub(super) fn bitpos(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let args = ctx.args;
    let wanted = match args.integer(2)? {
        0 => false,
        1 => true,
        _ => return Err(CommandError::new("ERR The bit argument must be 1 or 0.")),
    };
    let range = match args.len() {
        3 => RangeArgs::WHOLE,
        len @ 4..=6 => RangeArgs {
            start: args.integer(3)?,
            in_bits: len == 6 && in_bits(args, 5)?,
            end: if len >= 5 { Some(args.integer(4)?) } else { None },
        },
        _ => return Err(SYNTAX),
    };
    let key = ctx.key(1);
    let mut digits = itoa::Buffer::new();
    let value = ctx.keyspace.get(ctx.client.db, &key)?;
    let exists = value.is_some();
    let bytes = bytes_of(value, &mut digits);
    // A missing key counts as endless zeros.
    let answer = match (exists, wanted) {
        (true, _) => position(bytes, range, wanted),
        (false, true) => -1,
        (false, false) => 0,
    };
    ctx.reply.integer(answer);
    Ok(())
}

/// The first wanted bit in the range, or -1. Clear bits follow a string whose end was not given.
fn position(bytes: &[u8], range: RangeArgs, wanted: bool) -> i64 {
    let bits = range.bits(bytes.len());
    if bits.is_empty() {
        return -1;
    }
    match encodings::bitmap::find_in_range(bytes, bits.clone(), wanted) {
        Some(found) => found as i64,
        None if !wanted && range.end.is_none() => bits.end as i64,
        None => -1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_in_bytes_and_bits() {
        let check = |start, end, in_bits, expected: Range<u64>| {
            let range = RangeArgs { start, end, in_bits };
            assert_eq!(range.bits(3), expected, "{range:?}");
        };
        check(0, None, false, 0..24);
        check(1, Some(1), false, 8..16);
        check(-1, Some(-1), false, 16..24);
        check(-100, Some(100), false, 0..24);
        check(3, None, false, 0..0);
        check(2, Some(1), false, 0..0);
        check(-100, Some(-100), false, 0..8);
        check(5, Some(5), true, 5..6);
        check(-3, None, true, 21..24);
        check(i64::MIN, Some(i64::MAX), true, 0..24);
        assert_eq!(RangeArgs::WHOLE.bits(0), 0..0);
    }

    #[test]
    fn clear_bits_follow_a_string_without_given_end() {
        let ones = [0xff; 3];
        let range = |start, end| RangeArgs { start, end, in_bits: false };
        assert_eq!(position(&ones, range(0, None), false), 24);
        assert_eq!(position(&ones, range(1, None), false), 24);
        assert_eq!(position(&ones, range(0, Some(-1)), false), -1);
        assert_eq!(position(&ones, range(3, None), false), -1);
        assert_eq!(position(&[0; 3], range(0, None), true), -1);
        assert_eq!(position(b"", range(0, None), false), -1);
    }
}
