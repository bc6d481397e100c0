//! The layout of a cell: one member of a big set, hash or sorted set in a slab block of its own.
//!
//! ```text
//! head    1      slack in blocks of 20 to 160 bytes (bits 0..2) | timed (2) | member outside (3)
//!                | value outside (4) | width of the score: 1, 2, 4 or 8 bytes (5..7)
//! [slack  1]     blocks above 160 bytes
//! [time   6]     milliseconds since 1970, little endian
//! [length 1..2]  hash: length of the member, 7 bits a byte, low first
//! [score  1..8]  sorted set: a signed integer, little endian; at 8 bytes an f64
//! member         the bytes; outside: its index u32 and its hash u64
//! [value]        hash: the bytes; outside: its index u32
//! [slack]        unused bytes, so that the last part needs no length; in blocks of 16 bytes, where
//!                they may be many, bits 0..2 only tell whether there are any and the last one
//!                counts them
//! ```
//!
//! Which of a set, hash or sorted set it belongs to, its collection knows. A cell has the smallest
//! class that holds it, like a key's block. No stamp, no type: 12 bytes of a set's member fit the
//! smallest block of 16.

use crate::block::{KeyPart, ValueType};
use crate::packed::TIME_BYTES;
use crate::slab::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, FINE_BYTES_MAX, block_bytes_for};

const SLACK: u8 = 0b11;
const TIMED: u8 = 1 << 2;
const MEMBER_OUTSIDE: u8 = 1 << 3;
const VALUE_OUTSIDE: u8 = 1 << 4;
const WIDTH_SHIFT: u32 = 5;
/// Index and hash of a member that lies outside.
const OUTSIDE_MEMBER_BYTES: usize = 12;
const OUTSIDE_VALUE_BYTES: usize = 4;
/// Longest member that lies in its cell.
const INLINE_MEMBER_MAX: usize = 1024;
/// What a cell's member and value may take together, so that the rest fits too.
const INLINE_MAX: usize = BLOCK_BYTES_MAX - 24;

/// The value of a hash's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValuePart<'a> {
    Inline(&'a [u8]),
    Outside(u32),
}

/// A cell taken apart, or all that goes into one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell<'a> {
    pub(crate) member: KeyPart<'a>,
    /// Empty in sets and sorted sets.
    pub(crate) value: ValuePart<'a>,
    /// 0 in sets and hashes.
    pub(crate) score: f64,
    pub(crate) expire_at: Option<u64>,
}

/// True when a member goes outside.
pub(crate) fn member_goes_outside(len: usize) -> bool {
    len > INLINE_MEMBER_MAX
}

/// True when a field's value goes outside.
pub(crate) fn value_goes_outside(member_len: usize, len: usize) -> bool {
    let member = if member_goes_outside(member_len) { OUTSIDE_MEMBER_BYTES } else { member_len };
    member + len > INLINE_MAX
}

fn score_width(score: f64) -> u8 {
    let whole = score as i64;
    if whole as f64 != score || whole == 0 && score.is_sign_negative() {
        return 3;
    }
    match whole {
        -0x80..=0x7f => 0,
        -0x8000..=0x7fff => 1,
        -0x8000_0000..=0x7fff_ffff => 2,
        _ => 3,
    }
}

impl<'a> Cell<'a> {
    fn member_bytes(&self) -> usize {
        match self.member {
            KeyPart::Inline(member) => member.len(),
            KeyPart::Outside { .. } => OUTSIDE_MEMBER_BYTES,
        }
    }

    fn value_bytes(&self) -> usize {
        match self.value {
            ValuePart::Inline(value) => value.len(),
            ValuePart::Outside(_) => OUTSIDE_VALUE_BYTES,
        }
    }

    /// Bytes that it needs; its class is the smallest that holds them.
    pub(crate) fn bytes(&self, value_type: ValueType) -> usize {
        let part = match value_type {
            ValueType::Hash => 1 + usize::from(self.member_bytes() >= 0x80) + self.value_bytes(),
            ValueType::SortedSet => 1 << score_width(self.score),
            _ => 0,
        };
        let time = if self.expire_at.is_some() { TIME_BYTES } else { 0 };
        let bytes = 1 + time + part + self.member_bytes();
        bytes + usize::from(bytes > FINE_BYTES_MAX)
    }

    /// Writes it to a block of the class of [`Cell::bytes`].
    pub(crate) fn write(&self, value_type: ValueType, block: &mut [u8]) {
        let used = self.bytes(value_type);
        debug_assert_eq!(block.len(), block_bytes_for(used));
        let slack = block.len() - used;
        let mut writer = Writer { block, at: 1 };
        let mut head = 0;
        if writer.block.len() > FINE_BYTES_MAX {
            writer.put(&[slack as u8]);
        } else if writer.block.len() > BLOCK_BYTES_MIN {
            head |= slack as u8;
        } else if slack > 0 {
            head |= 1;
            writer.block[BLOCK_BYTES_MIN - 1] = slack as u8;
        }
        if let Some(at_ms) = self.expire_at {
            head |= TIMED;
            writer.put(&at_ms.to_le_bytes()[..TIME_BYTES]);
        }
        match value_type {
            ValueType::Hash => {
                let len = self.member_bytes();
                let bytes = [len as u8 | if len < 0x80 { 0 } else { 0x80 }, (len >> 7) as u8];
                writer.put(&bytes[..1 + usize::from(len >= 0x80)]);
            }
            ValueType::SortedSet => {
                let width = score_width(self.score);
                head |= width << WIDTH_SHIFT;
                match width {
                    3 => writer.put(&self.score.to_le_bytes()),
                    _ => writer.put(&(self.score as i64).to_le_bytes()[..1 << width]),
                }
            }
            _ => {}
        }
        match self.member {
            KeyPart::Inline(member) => writer.put(member),
            KeyPart::Outside { index, hash } => {
                head |= MEMBER_OUTSIDE;
                writer.put(&index.to_le_bytes());
                writer.put(&hash.to_le_bytes());
            }
        }
        match self.value {
            ValuePart::Inline(value) => writer.put(value),
            ValuePart::Outside(index) => {
                head |= VALUE_OUTSIDE;
                writer.put(&index.to_le_bytes());
            }
        }
        block[0] = head;
    }

    /// Takes a cell apart.
    #[inline]
    pub(crate) fn of(value_type: ValueType, block: &'a [u8]) -> Cell<'a> {
        let head = block[0];
        let (mut at, mut slack) = (1, (head & SLACK) as usize);
        if block.len() > FINE_BYTES_MAX {
            slack = block[1] as usize;
            at = 2;
        } else if block.len() == BLOCK_BYTES_MIN && slack > 0 {
            slack = block[BLOCK_BYTES_MIN - 1] as usize;
        }
        let end = block.len() - slack;
        let mut cell = Cell {
            member: KeyPart::Inline(&[]),
            value: ValuePart::Inline(&[]),
            score: 0.0,
            expire_at: None,
        };
        if head & TIMED != 0 {
            cell.expire_at = Some(word(&block[at..at + TIME_BYTES]));
            at += TIME_BYTES;
        }
        let mut member_end = end;
        match value_type {
            ValueType::Hash => {
                let low = block[at] as usize;
                let (len, bytes) = if low < 0x80 {
                    (low, 1)
                } else {
                    (low & 0x7f | (block[at + 1] as usize) << 7, 2)
                };
                at += bytes;
                member_end = at + len;
            }
            ValueType::SortedSet => {
                let width = head >> WIDTH_SHIFT & 3;
                cell.score = read_score(&block[at..], width);
                at += 1 << width;
            }
            _ => {}
        }
        let member = &block[at..member_end];
        cell.member = if head & MEMBER_OUTSIDE == 0 {
            KeyPart::Inline(member)
        } else {
            let (index, hash) = member.split_at(4);
            KeyPart::Outside { index: word(index) as u32, hash: word(hash) }
        };
        let value = &block[member_end..end];
        cell.value = if head & VALUE_OUTSIDE == 0 {
            ValuePart::Inline(value)
        } else {
            ValuePart::Outside(word(value) as u32)
        };
        cell
    }
}

#[inline]
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

#[inline]
fn read_score(bytes: &[u8], width: u8) -> f64 {
    match width {
        0 => f64::from(bytes[0].cast_signed()),
        1 => f64::from(i16::from_le_bytes([bytes[0], bytes[1]])),
        2 => f64::from(i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
        _ => f64::from_bits(word(&bytes[..8])),
    }
}

struct Writer<'a> {
    block: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.block[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value_type: ValueType, cell: Cell<'_>) -> usize {
        let mut block = vec![0xee; block_bytes_for(cell.bytes(value_type))];
        cell.write(value_type, &mut block);
        let read = Cell::of(value_type, &block);
        match (read.member, cell.member) {
            (KeyPart::Inline(a), KeyPart::Inline(b)) => assert_eq!(a, b),
            (KeyPart::Outside { index: a, hash: x }, KeyPart::Outside { index: b, hash: y }) => {
                assert_eq!((a, x), (b, y));
            }
            _ => panic!("the member changed its place"),
        }
        assert_eq!(read.value, cell.value);
        assert_eq!(read.score.to_bits(), cell.score.to_bits());
        assert_eq!(read.expire_at, cell.expire_at);
        block.len()
    }

    #[test]
    fn every_part_comes_back_at_every_length() {
        let bytes = [0x5a; 1200];
        for member_len in (0..200).step_by(if cfg!(miri) { 41 } else { 1 }).chain([1024]) {
            let members = [
                KeyPart::Inline(&bytes[..member_len]),
                KeyPart::Outside { index: 7, hash: 1 << 60 },
            ];
            for (member, expire_at) in
                members.into_iter().flat_map(|member| [(member, None), (member, Some(1 << 47))])
            {
                let cell = Cell { member, value: ValuePart::Inline(&[]), score: 0.0, expire_at };
                check(ValueType::Set, cell);
                for score in [0.0, -0.0, -128.0, 128.0, 40000.0, 0.5, 1e18, f64::INFINITY] {
                    check(ValueType::SortedSet, Cell { score, ..cell });
                }
                let values = [ValuePart::Inline(&bytes[..member_len / 2]), ValuePart::Outside(9)];
                for value in values {
                    check(ValueType::Hash, Cell { value, ..cell });
                }
            }
        }
    }

    #[test]
    fn members_take_what_the_budget_allows() {
        let cell = Cell {
            member: KeyPart::Inline(&[b'm'; 12]),
            value: ValuePart::Inline(&[b'v'; 10]),
            score: 1e6,
            expire_at: None,
        };
        let bare = Cell { value: ValuePart::Inline(&[]), ..cell };
        assert_eq!(check(ValueType::Set, Cell { score: 0.0, ..bare }), 16);
        assert_eq!(check(ValueType::SortedSet, bare), 20);
        assert_eq!(check(ValueType::Hash, Cell { score: 0.0, ..cell }), 24);
    }
}
