//! Ids of entries as clients write them.
//!
//! ```text
//! ms-seq    both parts
//! ms        the first or the last number of that time, as the command has it
//! ms-*      the first number that is free, where an entry is added
//! - +       the smallest and the largest id, where a range is asked for
//! (id       without the id itself, where a range is asked for
//! ```

use std::ops::Range;

use encodings::integer::parse_i64;
use engine::StreamId;

use crate::command::args::Args;
use crate::command::error::{CommandError, c_string};

pub(super) const INVALID_ID: CommandError =
    CommandError::new("ERR Invalid stream ID specified as stream command argument");

/// Redis reads an id into a buffer of so many bytes and a NUL.
const ID_TEXT_MAX: usize = 127;

/// A number, also in the forms that C's `strtoull` takes beyond the canonical one.
fn number(text: &[u8]) -> Option<u64> {
    if let Some(number) = parse_i64(text) {
        return u64::try_from(number).ok();
    }
    let is_space = |byte: &&u8| byte.is_ascii_whitespace() || **byte == 0x0b;
    let text = &text[text.iter().take_while(is_space).count()..];
    let (digits, is_negative) = match text.split_first() {
        Some((b'-', digits)) => (digits, true),
        Some((b'+', digits)) => (digits, false),
        _ => (text, false),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().try_fold(0u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })?;
    Some(if is_negative { number.wrapping_neg() } else { number })
}

/// The parts of an id: the second is `None` for `*`, `missing` where it is left out.
fn parts(text: &[u8], missing: u64) -> Option<(u64, Option<u64>)> {
    if text.len() > ID_TEXT_MAX {
        return None;
    }
    let text = c_string(text);
    let Some(dash) = memchr::memchr(b'-', text) else {
        return Some((number(text)?, Some(missing)));
    };
    let seq = match &text[dash + 1..] {
        b"*" => None,
        seq => Some(number(seq)?),
    };
    Some((number(&text[..dash])?, seq))
}

/// An id of a new entry: without the second part where it is `*`.
pub(super) fn new_id(text: &[u8]) -> Result<(u64, Option<u64>), CommandError> {
    parts(text, 0).ok_or(INVALID_ID)
}

/// An id that is written out, with this number where it has none.
pub(super) fn strict(text: &[u8], missing: u64) -> Result<StreamId, CommandError> {
    match parts(text, missing) {
        Some((ms, Some(seq))) => Ok(StreamId::new(ms, seq)),
        _ => Err(INVALID_ID),
    }
}

/// An id, or `-` or `+`.
pub(super) fn any(text: &[u8], missing: u64) -> Result<StreamId, CommandError> {
    match text {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        _ => strict(text, missing),
    }
}

/// The ids at some arguments.
pub(super) fn list(args: Args<'_>, ids: Range<usize>) -> Result<Vec<StreamId>, CommandError> {
    ids.map(|index| strict(args.get(index), 0)).collect()
}

/// The first id of a range.
pub(super) fn start(text: &[u8]) -> Result<StreamId, CommandError> {
    const INVALID: CommandError = CommandError::new("ERR invalid start ID for the interval");
    if text.len() > 1 && text[0] == b'(' {
        return strict(&text[1..], 0)?.next().ok_or(INVALID);
    }
    any(text, 0)
}

/// The last id of a range.
pub(super) fn end(text: &[u8]) -> Result<StreamId, CommandError> {
    const INVALID: CommandError = CommandError::new("ERR invalid end ID for the interval");
    if text.len() > 1 && text[0] == b'(' {
        return strict(&text[1..], u64::MAX)?.previous().ok_or(INVALID);
    }
    any(text, u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_redis_reads_them() {
        let check = |text: &str, expected: Option<(u64, u64)>| {
            let expected = expected.map(|(ms, seq)| StreamId::new(ms, seq)).ok_or(INVALID_ID);
            assert_eq!(strict(text.as_bytes(), 7), expected, "{text}");
        };
        check("5", Some((5, 7)));
        check("5-3", Some((5, 3)));
        check("005-+3", Some((5, 3)));
        check(" 5- 3", Some((5, 3)));
        check("18446744073709551615-18446744073709551615", Some((u64::MAX, u64::MAX)));
        check("18446744073709551616-0", None);
        check("5--03", Some((5, u64::MAX - 2)));
        check("5--3", None);
        for text in ["", "-", "+", "-5", "5-", "5-*", "a", "5-3-1", "5 ", "0x5"] {
            check(text, None);
        }
        check(&"0".repeat(128), None);
    }

    #[test]
    fn ranges_may_leave_their_ends_out() {
        assert_eq!(start(b"(5-3"), Ok(StreamId::new(5, 4)));
        assert_eq!(end(b"(5-0"), Ok(StreamId::new(4, u64::MAX)));
        assert_eq!(end(b"5"), Ok(StreamId::new(5, u64::MAX)));
        assert_eq!((start(b"-"), end(b"+")), (Ok(StreamId::MIN), Ok(StreamId::MAX)));
        assert!(start(b"(").is_err() && start(b"(-").is_err() && end(b"(0-0").is_err());
        assert!(start(b"(18446744073709551615-18446744073709551615").is_err());
    }
}
