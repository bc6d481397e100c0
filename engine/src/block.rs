//! The layout of a block: one key with its value, or with what leads to it.
//!
//! ```text
//! flags   1        type (bits 0..3) | encoding (3..6) | has expire (6) | epoch (7)
//! stamp   3        access stamp, little endian
//! lens    1        blocks of 16 bytes:   key length (bits 4..8) | value length (bits 0..4)
//!                  larger blocks:        key length, 63 = see below (bits 2..8) | slack (0..2)
//! [long   1..2]    key length when lens says 63: 7 bits a byte, low first; 0 = the key lies outside
//! [slack  1]       blocks above 160 bytes
//! [expire 5]       milliseconds since 2020, little endian; or 0xff x 5 and the time as i64 (13 bytes)
//! key              the bytes; a key outside: its index u32 and its hash u64
//! value            the bytes; a value outside: its index u32; a big collection: its index u32
//! [slack]          unused bytes at the end, so that the value's length needs no field
//! ```
//!
//! The block always has the smallest class that holds it, so the slack is below the distance of two
//! classes: at most 3 bytes up to 160, at most 61 above.
//!
//! See `docs/formats/block.md` for the drawing with examples.

mod view;

pub(crate) use view::{Head, View, has_expire, holds_key, is_of, keeps_outside};

use view::read_long;

use crate::slab::{BLOCK_BYTES_MIN, FINE_BYTES_MAX, block_bytes_for};

/// What a client sees a value as. The number is what the block stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ValueType {
    /// Bytes, an integer, a bitmap.
    String = 0,
    /// Elements in an order of the client's.
    List = 1,
    /// Members, each once.
    Set = 2,
    /// Fields with values.
    Hash = 3,
    /// Members with scores, in their order.
    SortedSet = 4,
    /// Entries in the order of their ids.
    Stream = 5,
}

impl ValueType {
    /// Redis's word for it, as TYPE answers.
    pub fn name(self) -> &'static str {
        match self {
            ValueType::String => "string",
            ValueType::List => "list",
            ValueType::Set => "set",
            ValueType::Hash => "hash",
            ValueType::SortedSet => "zset",
            ValueType::Stream => "stream",
        }
    }

    /// The type with this number.
    pub(crate) fn from_number(number: u8) -> Option<ValueType> {
        use ValueType::{Hash, List, Set, SortedSet, Stream, String};
        [String, List, Set, Hash, SortedSet, Stream].get(usize::from(number)).copied()
    }
}

/// How a value is packed. The number is what the block stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Encoding {
    /// A string's bytes as they were set; a collection's listpack.
    Bytes = 0,
    /// A string's bytes that a command changed in place.
    Raw = 1,
    /// An integer, little endian, in as few of 1, 2, 4 and 8 bytes as hold it; a set's intset.
    Int = 2,
    /// What is like [`Encoding::Bytes`] lies outside the slabs.
    Large = 3,
    /// A set's intset lies outside the slabs.
    LargeInt = 4,
    /// A collection's rows with times; see `packed.rs`.
    Timed = 5,
    /// What is like [`Encoding::Timed`] lies outside the slabs.
    LargeTimed = 6,
    /// A collection with an index of its own; see `big.rs`.
    Big = 7,
}

impl Encoding {
    #[inline]
    fn from_flags(flags: u8) -> Encoding {
        match flags >> ENCODING_SHIFT & 7 {
            0 => Encoding::Bytes,
            1 => Encoding::Raw,
            2 => Encoding::Int,
            3 => Encoding::Large,
            4 => Encoding::LargeInt,
            5 => Encoding::Timed,
            6 => Encoding::LargeTimed,
            _ => Encoding::Big,
        }
    }

    /// The value lies among the large ones.
    #[inline]
    pub(crate) fn is_large(self) -> bool {
        matches!(self, Encoding::Large | Encoding::LargeInt | Encoding::LargeTimed)
    }

    /// The encoding of the same bytes in the block, or outside of it.
    pub(crate) fn placed(self, outside: bool) -> Encoding {
        match (self, outside) {
            (Encoding::Bytes | Encoding::Raw | Encoding::Large, true) => Encoding::Large,
            (Encoding::Int | Encoding::LargeInt, true) => Encoding::LargeInt,
            (Encoding::Timed | Encoding::LargeTimed, true) => Encoding::LargeTimed,
            (Encoding::Large, false) => Encoding::Bytes,
            (Encoding::LargeInt, false) => Encoding::Int,
            (Encoding::LargeTimed, false) => Encoding::Timed,
            (other, _) => other,
        }
    }
}

/// Type and encoding of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) value_type: ValueType,
    pub(crate) encoding: Encoding,
}

impl Form {
    pub(crate) const fn new(value_type: ValueType, encoding: Encoding) -> Form {
        Form { value_type, encoding }
    }

    pub(crate) const fn string(encoding: Encoding) -> Form {
        Form::new(ValueType::String, encoding)
    }

    /// The bits that a block's flags hold.
    #[inline]
    pub(crate) const fn bits(self) -> u8 {
        self.value_type as u8 | (self.encoding as u8) << ENCODING_SHIFT
    }

    /// What such bits stand for; `None` for a type that there is not.
    pub(crate) fn from_bits(bits: u8) -> Option<Form> {
        let value_type = ValueType::from_number(bits & TYPE_MASK)?;
        Some(Form { value_type, encoding: Encoding::from_flags(bits) })
    }
}

const TYPE_MASK: u8 = 7;
const FORM_MASK: u8 = 0x3f;
const ENCODING_SHIFT: u32 = 3;
const HAS_EXPIRE: u8 = 1 << 6;
const STAMP_AT: usize = 1;
const LENS_AT: usize = 4;
const HEADER_BYTES: usize = 5;
/// This length in `lens` says that a field of its own follows.
const LONG_KEY: usize = 63;
/// Longest key that lies in the block.
pub(crate) const INLINE_KEY_MAX: usize = 1024;
/// Index and hash of a key that lies outside.
const OUTSIDE_KEY_BYTES: usize = 12;
/// Expire times are stored from here on: 2020-01-01 in milliseconds since 1970.
const EXPIRE_BASE_MS: u64 = 1_577_836_800_000;
const EXPIRE_FAR: u64 = (1 << 40) - 1;

/// A key as the block holds it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyPart<'a> {
    /// The bytes, at most [`INLINE_KEY_MAX`].
    Inline(&'a [u8]),
    /// A longer key in the table of large values.
    Outside { index: u32, hash: u64 },
}

/// All that goes into a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content<'a> {
    pub(crate) form: Form,
    pub(crate) stamp: u32,
    pub(crate) expire_at: Option<u64>,
    pub(crate) key: KeyPart<'a>,
    pub(crate) value: &'a [u8],
}

/// Bytes of the header in front of the key, without the slack byte.
fn head_bytes(key: KeyPart<'_>, expire_at: Option<u64>) -> usize {
    let long = match key {
        KeyPart::Inline(key) if key.len() < LONG_KEY => 0,
        KeyPart::Inline(key) if key.len() < 128 => 1,
        KeyPart::Inline(_) => 2,
        KeyPart::Outside { .. } => 1,
    };
    HEADER_BYTES + long + expire_at.map_or(0, expire_bytes)
}

fn expire_bytes(at_ms: u64) -> usize {
    if expire_offset(at_ms).is_some() { 5 } else { 13 }
}

fn expire_offset(at_ms: u64) -> Option<u64> {
    at_ms.checked_sub(EXPIRE_BASE_MS).filter(|&offset| offset < EXPIRE_FAR)
}

impl KeyPart<'_> {
    fn bytes(&self) -> usize {
        match self {
            KeyPart::Inline(key) => key.len(),
            KeyPart::Outside { .. } => OUTSIDE_KEY_BYTES,
        }
    }
}

/// Bytes that a block with such a value needs; its class is the smallest that holds them.
#[inline]
pub(crate) fn bytes_for(key: KeyPart<'_>, expire_at: Option<u64>, value_len: usize) -> usize {
    let bytes = head_bytes(key, expire_at) + key.bytes() + value_len;
    bytes + usize::from(bytes > FINE_BYTES_MAX)
}

/// Writes a block. Its length must be the class of [`bytes_for`] the content.
#[inline]
pub(crate) fn write(block: &mut [u8], content: &Content<'_>) {
    let used = bytes_for(content.key, content.expire_at, content.value.len());
    let value_at = write_head(block, content, content.value.len());
    block[value_at..value_at + content.value.len()].copy_from_slice(content.value);
    debug_assert_eq!(block.len(), block_bytes_for(used));
}

/// Writes all but the value, of which only the length counts, and says where the value starts.
pub(crate) fn write_head(block: &mut [u8], content: &Content<'_>, value_len: usize) -> usize {
    let slack = block.len() - bytes_for(content.key, content.expire_at, value_len);
    block[0] = content.form.bits();
    set_stamp(block, content.stamp);
    let mut at = HEADER_BYTES;
    let key_len = content.key.bytes();
    let inline = matches!(content.key, KeyPart::Inline(_));
    if inline && key_len < LONG_KEY {
        block[LENS_AT] = lens(block.len(), key_len, value_len, slack);
    } else {
        block[LENS_AT] = lens(block.len(), LONG_KEY, value_len, slack);
        at += write_long(&mut block[at..], if inline { key_len } else { 0 });
    }
    if block.len() > FINE_BYTES_MAX {
        block[at] = slack as u8;
        at += 1;
    }
    if let Some(at_ms) = content.expire_at {
        block[0] |= HAS_EXPIRE;
        at += write_expire(&mut block[at..], at_ms);
    }
    match content.key {
        KeyPart::Inline(key) => block[at..at + key_len].copy_from_slice(key),
        KeyPart::Outside { index, hash } => {
            block[at..at + 4].copy_from_slice(&index.to_le_bytes());
            block[at + 4..at + 12].copy_from_slice(&hash.to_le_bytes());
        }
    }
    at + key_len
}

fn lens(block_bytes: usize, key_len: usize, value_len: usize, slack: usize) -> u8 {
    if block_bytes == BLOCK_BYTES_MIN {
        (key_len << 4 | value_len) as u8
    } else if block_bytes > FINE_BYTES_MAX {
        (key_len << 2) as u8
    } else {
        debug_assert!(slack < 4);
        (key_len << 2 | slack) as u8
    }
}

fn write_long(bytes: &mut [u8], len: usize) -> usize {
    if len < 128 {
        bytes[0] = len as u8;
        return 1;
    }
    bytes[0] = len as u8 | 0x80;
    bytes[1] = (len >> 7) as u8;
    2
}

fn write_expire(bytes: &mut [u8], at_ms: u64) -> usize {
    match expire_offset(at_ms) {
        Some(offset) => {
            bytes[..5].copy_from_slice(&offset.to_le_bytes()[..5]);
            5
        }
        None => {
            bytes[..5].fill(0xff);
            bytes[5..13].copy_from_slice(&at_ms.to_le_bytes());
            13
        }
    }
}

/// Overwrites the access stamp.
#[inline]
pub(crate) fn set_stamp(block: &mut [u8], stamp: u32) {
    block[STAMP_AT..LENS_AT].copy_from_slice(&stamp.to_le_bytes()[..3]);
}

/// Puts another value into a block whose key and time stay; false, and nothing changed, when its
/// class would change.
#[inline]
pub(crate) fn overwrite_value(block: &mut [u8], form: Form, value: &[u8]) -> bool {
    let view = View::of(block);
    let (value_at, used) = (view.value_at, view.value_at + value.len());
    // Just above 160 bytes the slack byte may be what keeps the block in its class.
    let loses_slack = block.len() > FINE_BYTES_MAX && used <= FINE_BYTES_MAX + 1;
    if loses_slack || used > block.len() || block_bytes_for(used) != block.len() {
        return false;
    }
    let slack = block.len() - used;
    block[0] = block[0] & !FORM_MASK | form.bits();
    if block.len() == BLOCK_BYTES_MIN {
        block[LENS_AT] = block[LENS_AT] & 0xf0 | value.len() as u8;
    } else if block.len() > FINE_BYTES_MAX {
        let long = (block[LENS_AT] >> 2) as usize == LONG_KEY;
        let long_bytes = if long { read_long(&block[HEADER_BYTES..]).1 } else { 0 };
        block[HEADER_BYTES + long_bytes] = slack as u8;
    } else {
        block[LENS_AT] = block[LENS_AT] & !3 | slack as u8;
    }
    block[value_at..used].copy_from_slice(value);
    true
}

/// An integer in the fewest bytes.
#[derive(Clone, Copy)]
pub(crate) struct IntBytes {
    bytes: [u8; 8],
    len: u8,
}

impl IntBytes {
    #[inline]
    pub(crate) fn new(value: i64) -> IntBytes {
        let len = if i64::from(value as i8) == value {
            1
        } else if i64::from(value as i16) == value {
            2
        } else if i64::from(value as i32) == value {
            4
        } else {
            8
        };
        IntBytes { bytes: value.to_le_bytes(), len }
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

#[cfg(test)]
mod tests;
