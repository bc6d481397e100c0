//! The rows of a small set, hash or sorted set, packed one after another.
//!
//! ```text
//! row     member | value | [time]          elements of a listpack without back lengths
//!         value  nothing in a set, the field's value in a hash, the score in a sorted set
//!         time   milliseconds since 1970 as an integer, 0 without; only in the timed form
//!
//! plain   row *
//! timed   earliest time 6 bytes, little endian | row *
//!
//! score   an integer element where it is one, else 4 or 8 bytes: f32 if that is exact, f64
//! ```
//!
//! The block knows type, form and total length, so there is no header. A sorted set's rows stand in
//! the order of scores and members, the others' in the order in which they came.

use std::ops::Range;

use encodings::listpack::{self, Element, Listpack};

use crate::block::{Encoding, Form, ValueType};

/// Bytes of the earliest time in front of timed rows, and of a time in a cell.
pub(crate) const TIME_BYTES: usize = 6;
/// The latest time that such bytes hold.
pub const FIELD_TIME_MAX_MS: u64 = (1 << (8 * TIME_BYTES)) - 2;
/// In those bytes: no row has a time.
const NO_TIME: u64 = FIELD_TIME_MAX_MS + 1;

/// One row: a member of a set, a field of a hash, a member of a sorted set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) member: Element<'a>,
    /// The value of a field, or a score as [`ScoreBytes`] packs it; without meaning in a set.
    pub(crate) value: Element<'a>,
    /// When it is due, in milliseconds since 1970.
    pub(crate) expire_at: Option<u64>,
}

/// The elements of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) has_value: bool,
    pub(crate) timed: bool,
}

impl Shape {
    pub(crate) fn of(form: Form) -> Shape {
        Shape {
            has_value: form.value_type != ValueType::Set,
            timed: matches!(form.encoding, Encoding::Timed | Encoding::LargeTimed),
        }
    }

    pub(crate) fn stride(self) -> usize {
        1 + usize::from(self.has_value) + usize::from(self.timed)
    }

    /// Where the rows start.
    pub(crate) fn start(self) -> usize {
        if self.timed { TIME_BYTES } else { 0 }
    }
}

/// Packed rows. Offsets count from the start of the bytes.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    list: Listpack<'a, false>,
    pub(crate) shape: Shape,
}

impl<'a> Rows<'a> {
    #[inline]
    pub(crate) fn new(shape: Shape, bytes: &'a [u8]) -> Rows<'a> {
        Rows { list: Listpack::new(&bytes[shape.start()..]), shape }
    }

    /// Bytes of all of them.
    pub(crate) fn bytes_len(self) -> usize {
        self.list.bytes().len()
    }

    /// Where the row after the one at an offset starts.
    pub(crate) fn next_of(self, offset: usize) -> usize {
        let start = self.shape.start();
        (0..self.shape.stride()).fold(offset - start, |at, _| self.list.skip(at)) + start
    }

    /// How many; walks over them.
    pub(crate) fn len(self) -> usize {
        self.list.len() / self.shape.stride()
    }

    /// The row at an offset, and where the next one starts.
    #[inline]
    pub(crate) fn read(self, offset: usize) -> (Row<'a>, usize) {
        let (member, mut at) = self.list.read(offset - self.shape.start());
        let mut row = Row { member, value: Element::Int(0), expire_at: None };
        if self.shape.has_value {
            (row.value, at) = self.list.read(at);
        }
        if self.shape.timed {
            let (time, next) = self.list.read(at);
            at = next;
            row.expire_at = match time {
                Element::Int(ms) if ms > 0 => Some(ms.cast_unsigned()),
                _ => None,
            };
        }
        (row, at + self.shape.start())
    }

    /// The row of a member and where it lies.
    #[inline]
    pub(crate) fn find(self, member: &[u8]) -> Option<(Range<usize>, Row<'a>)> {
        let at = self.list.find(member, 0, self.shape.stride())? + self.shape.start();
        let (row, next) = self.read(at);
        Some((at..next, row))
    }

    /// Where the time of the row at an offset lies, if rows have times.
    pub(crate) fn time_of(self, offset: usize) -> Range<usize> {
        let start = self.shape.start();
        let before = self.shape.stride() - 1;
        let at = (0..before).fold(offset - start, |at, _| self.list.skip(at));
        at + start..self.list.skip(at) + start
    }

    /// All rows with where they lie.
    pub(crate) fn iter(self) -> impl Iterator<Item = (Range<usize>, Row<'a>)> + use<'a> {
        let end = self.list.bytes().len() + self.shape.start();
        let mut at = self.shape.start();
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let (row, next) = self.read(at);
                (std::mem::replace(&mut at, next)..next, row)
            })
        })
    }
}

/// Appends a row.
pub(crate) fn push_row(out: &mut Vec<u8>, shape: Shape, row: &Row<'_>) {
    listpack::push::<false>(out, row.member);
    if shape.has_value {
        listpack::push::<false>(out, row.value);
    }
    if shape.timed {
        push_time(out, row.expire_at);
    }
}

/// Appends the time of a row.
pub(crate) fn push_time(out: &mut Vec<u8>, expire_at: Option<u64>) {
    listpack::push::<false>(out, Element::Int(expire_at.unwrap_or(0).cast_signed()));
}

/// Puts what `push` appends in the place of a range.
pub(crate) fn replace(bytes: &mut Vec<u8>, range: Range<usize>, push: impl FnOnce(&mut Vec<u8>)) {
    let len = bytes.len();
    push(bytes);
    let added = bytes.len() - len;
    if range.len() == added {
        bytes.copy_within(len.., range.start);
        bytes.truncate(len);
        return;
    }
    bytes[range.end..].rotate_right(added);
    bytes.drain(range);
}

/// The earliest time of timed rows.
pub(crate) fn earliest(bytes: &[u8]) -> Option<u64> {
    let mut word = [0; 8];
    word[..TIME_BYTES].copy_from_slice(&bytes[..TIME_BYTES]);
    Some(u64::from_le_bytes(word)).filter(|&ms| ms != NO_TIME)
}

/// Writes the earliest time of timed rows, as the rows have it.
pub(crate) fn refresh_earliest(bytes: &mut [u8], shape: Shape) {
    let first = Rows::new(shape, bytes).iter().filter_map(|(_, row)| row.expire_at).min();
    bytes[..TIME_BYTES].copy_from_slice(&first.unwrap_or(NO_TIME).to_le_bytes()[..TIME_BYTES]);
}

/// The same rows with times that are not set yet.
pub(crate) fn make_timed(bytes: &[u8], shape: Shape) -> Vec<u8> {
    let timed = Shape { timed: true, ..shape };
    let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 8 + TIME_BYTES);
    out.extend_from_slice(&NO_TIME.to_le_bytes()[..TIME_BYTES]);
    Rows::new(shape, bytes).iter().for_each(|(_, row)| push_row(&mut out, timed, &row));
    out
}

/// A score as a row holds it.
#[derive(Clone, Copy)]
pub(crate) enum ScoreBytes {
    Int(i64),
    Single([u8; 4]),
    Double([u8; 8]),
}

impl ScoreBytes {
    pub(crate) fn new(score: f64) -> ScoreBytes {
        let whole = score as i64;
        if whole as f64 == score && whole != i64::MAX && !(whole == 0 && score.is_sign_negative()) {
            return ScoreBytes::Int(whole);
        }
        let single = score as f32;
        if f64::from(single).to_bits() == score.to_bits() {
            return ScoreBytes::Single(single.to_le_bytes());
        }
        ScoreBytes::Double(score.to_le_bytes())
    }

    pub(crate) fn element(&self) -> Element<'_> {
        match self {
            ScoreBytes::Int(value) => Element::Int(*value),
            ScoreBytes::Single(bytes) => Element::Bytes(bytes),
            ScoreBytes::Double(bytes) => Element::Bytes(bytes),
        }
    }
}

/// True for an element that holds a score.
pub(crate) fn is_score(element: Element<'_>) -> bool {
    match element {
        Element::Int(_) => true,
        Element::Bytes(bytes) => matches!(bytes.len(), 4 | 8) && !score_of(element).is_nan(),
    }
}

/// The score that an element holds.
#[inline]
pub(crate) fn score_of(element: Element<'_>) -> f64 {
    match element {
        Element::Int(value) => value as f64,
        Element::Bytes(bytes) => match *bytes {
            [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
            _ => f64::from_le_bytes(bytes.try_into().expect("a score has four or eight bytes")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: Shape = Shape { has_value: true, timed: false };

    fn row<'a>(member: &'a [u8], value: &'a [u8], expire_at: Option<u64>) -> Row<'a> {
        Row { member: Element::parse(member), value: Element::parse(value), expire_at }
    }

    #[test]
    fn rows_are_found_replaced_and_dropped() {
        let mut bytes = Vec::new();
        for (member, value) in [("a", "1"), ("12", "xyz"), ("c", "")] {
            push_row(&mut bytes, HASH, &row(member.as_bytes(), value.as_bytes(), None));
        }
        let (range, found) = Rows::new(HASH, &bytes).find(b"12").unwrap();
        assert_eq!(found.value, Element::Bytes(b"xyz"));
        replace(&mut bytes, range, |out| push_row(out, HASH, &row(b"12", b"longer", None)));
        let (range, _) = Rows::new(HASH, &bytes).find(b"a").unwrap();
        replace(&mut bytes, range, |_| {});
        let rows = Rows::new(HASH, &bytes);
        assert_eq!(rows.len(), 2);
        let members: Vec<_> = rows.iter().map(|(_, row)| row.member.to_vec()).collect();
        assert_eq!(members, [b"12".to_vec(), b"c".to_vec()]);
        assert_eq!(rows.find(b"12").unwrap().1.value, Element::Bytes(b"longer"));
        assert!(rows.find(b"a").is_none());
    }

    #[test]
    fn the_earliest_time_is_known() {
        let mut plain = Vec::new();
        push_row(&mut plain, HASH, &row(b"a", b"1", None));
        let mut bytes = make_timed(&plain, HASH);
        let timed = Shape { timed: true, ..HASH };
        assert_eq!(earliest(&bytes), None);
        push_row(&mut bytes, timed, &row(b"b", b"2", Some(77)));
        push_row(&mut bytes, timed, &row(b"c", b"3", Some(FIELD_TIME_MAX_MS)));
        refresh_earliest(&mut bytes, timed);
        assert_eq!(earliest(&bytes), Some(77));
        assert_eq!(
            Rows::new(timed, &bytes).find(b"c").unwrap().1.expire_at,
            Some(FIELD_TIME_MAX_MS)
        );
        assert_eq!(Rows::new(timed, &bytes).len(), 3);
    }

    #[test]
    fn scores_come_back_exactly() {
        let scores =
            [0.0, -0.0, 1.0, -1.5, 0.1, 1e300, f64::INFINITY, f64::NEG_INFINITY, 9.3e18, 2e19];
        for score in scores {
            assert_eq!(score_of(ScoreBytes::new(score).element()).to_bits(), score.to_bits());
        }
        assert!(matches!(ScoreBytes::new(1.5), ScoreBytes::Single(_)));
        assert!(matches!(ScoreBytes::new(-0.0), ScoreBytes::Single(_)));
    }
}
