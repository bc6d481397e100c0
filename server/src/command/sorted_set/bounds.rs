//! Ranges of a sorted set: by rank, by score, by name.

use std::ops::Range;

use engine::{Member, Members};

use crate::command::error::{CommandError, c_string};

/// A range as a client gives it.
#[derive(Clone, Copy)]
pub(super) enum Bounds<'a> {
    /// Both included; negative ones count from the end.
    Ranks(i64, i64),
    Scores(Bound<f64>, Bound<f64>),
    Names(Limit<'a>, Limit<'a>),
}

/// An end of a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound<T> {
    value: T,
    /// The value itself is not in the range.
    excluded: bool,
}

impl<T: PartialOrd + Copy> Bound<T> {
    fn is_below(self, value: T) -> bool {
        self.value < value || !self.excluded && self.value == value
    }

    fn is_above(self, value: T) -> bool {
        self.value > value || !self.excluded && self.value == value
    }
}

/// An end of a range of names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Limit<'a> {
    /// `-`: before all names.
    Lowest,
    /// `+`: behind all names.
    Highest,
    Name(Bound<&'a [u8]>),
}

impl<'a> Bounds<'a> {
    /// Reads the ends of a range of scores.
    pub(super) fn scores(min: &[u8], max: &[u8]) -> Result<Self, CommandError> {
        const NOT_A_FLOAT: CommandError = CommandError::new("ERR min or max is not a float");
        let bound = |text: &[u8]| {
            let (text, excluded) = match text {
                [b'(', text @ ..] => (text, true),
                text => (text, false),
            };
            let text = std::str::from_utf8(c_string(text)).unwrap_or("nan");
            // Other than a score, an end may be nothing, which is 0, or too large, which is infinite.
            let value = if text.is_empty() { Some(0.0) } else { text.parse::<f64>().ok() };
            value
                .filter(|value| !value.is_nan())
                .map(|value| Bound { value, excluded })
                .ok_or(NOT_A_FLOAT)
        };
        Ok(Bounds::Scores(bound(min)?, bound(max)?))
    }

    /// Reads the ends of a range of names.
    pub(super) fn names(min: &'a [u8], max: &'a [u8]) -> Result<Self, CommandError> {
        let limit = |text: &'a [u8]| match text {
            [b'+', rest @ ..] if c_string(rest).is_empty() => Ok(Limit::Highest),
            [b'-', rest @ ..] if c_string(rest).is_empty() => Ok(Limit::Lowest),
            [b'(', value @ ..] => Ok(Limit::Name(Bound { value, excluded: true })),
            [b'[', value @ ..] => Ok(Limit::Name(Bound { value, excluded: false })),
            _ => Err(CommandError::new("ERR min or max not valid string range item")),
        };
        Ok(Bounds::Names(limit(min)?, limit(max)?))
    }

    /// The ranks that are in the range. With `backward` ranks that a client gives count from the
    /// highest score.
    pub(super) fn ranks(self, set: &Members<'_>, backward: bool) -> Range<usize> {
        let (start, end) = match self {
            Bounds::Ranks(start, end) => {
                let len = set.len();
                let ranks = from_ends(start, end, len);
                return if backward { len - ranks.end..len - ranks.start } else { ranks };
            }
            Bounds::Scores(min, max) => (
                set.rank_where(|member| !min.is_below(member.score)),
                set.rank_where(|member| max.is_above(member.score)),
            ),
            Bounds::Names(min, max) => (
                set.rank_where(|member| !is_from(min, member)),
                set.rank_where(|member| is_up_to(max, member)),
            ),
        };
        start..end.max(start)
    }
}

/// The ranks from `start` to `end`, both included, of so many.
fn from_ends(start: i64, end: i64, len: usize) -> Range<usize> {
    let from_end = |rank: i64| if rank < 0 { rank.saturating_add(len as i64) } else { rank };
    let start = from_end(start).max(0) as usize;
    let end = from_end(end).saturating_add(1).clamp(0, len as i64) as usize;
    if start < end { start..end } else { 0..0 }
}

fn is_from(min: Limit<'_>, member: &Member<'_>) -> bool {
    match min {
        Limit::Lowest => true,
        Limit::Highest => false,
        Limit::Name(bound) => member
            .name
            .with_text(|name| bound.value < name || !bound.excluded && bound.value == name),
    }
}

fn is_up_to(max: Limit<'_>, member: &Member<'_>) -> bool {
    match max {
        Limit::Lowest => false,
        Limit::Highest => true,
        Limit::Name(bound) => member
            .name
            .with_text(|name| bound.value > name || !bound.excluded && bound.value == name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_count_from_both_ends() {
        let check = |start, end, expected: Range<usize>| {
            let found = from_ends(start, end, 5);
            assert_eq!(found, expected, "{start} to {end}");
        };
        check(0, -1, 0..5);
        check(-2, 9, 3..5);
        check(-99, 1, 0..2);
        check(3, 2, 0..0);
        check(5, 9, 0..0);
        check(0, -6, 0..0);
        check(i64::MIN, i64::MAX, 0..5);
    }

    #[test]
    fn ends_are_read_as_redis_reads_them() {
        assert!(Bounds::scores(b"(1.5", b"+inf").is_ok());
        assert!(Bounds::scores(b"", b"(").is_ok());
        assert!(Bounds::scores(b"x", b"1").is_err() && Bounds::scores(b"1", b"nan").is_err());
        assert!(
            Bounds::scores(b"1e400", b"-1e400").is_ok() && Bounds::scores(b"0x1", b"2").is_err()
        );
        assert!(Bounds::names(b"-", b"[a").is_ok() && Bounds::names(b"(", b"+").is_ok());
        assert!(Bounds::names(b"a", b"+").is_err() && Bounds::names(b"-x", b"+").is_err());
    }
}
