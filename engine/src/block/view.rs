//! Reading blocks: the whole taken apart, or just what a lookup needs.

use super::{
    ENCODING_SHIFT, EXPIRE_BASE_MS, EXPIRE_FAR, Encoding, Form, HAS_EXPIRE, HEADER_BYTES, KeyPart,
    LENS_AT, LONG_KEY, OUTSIDE_KEY_BYTES, TYPE_MASK, ValueType,
};
use crate::slab::{BLOCK_BYTES_MIN, FINE_BYTES_MAX};

/// The first four bytes of a block, which say all that most lookups ask beyond the key.
#[derive(Clone, Copy)]
pub(crate) struct Head(u32);

impl Head {
    #[inline]
    pub(crate) fn of(block: &[u8]) -> Head {
        Head(u32::from_le_bytes([block[0], block[1], block[2], block[3]]))
    }

    #[inline]
    pub(crate) fn has_expire(self) -> bool {
        self.0 as u8 & HAS_EXPIRE != 0
    }

    #[inline]
    pub(crate) fn stamp(self) -> u32 {
        self.0 >> 8
    }

    /// The value may have parts with times of their own.
    #[inline]
    pub(crate) fn may_have_times(self) -> bool {
        self.0 as u8 & TYPE_MASK != 0 && self.0 as u8 >> ENCODING_SHIFT & 7 >= Encoding::Timed as u8
    }
}

/// True when the block has an expire time, without taking it apart.
#[inline]
pub(crate) fn has_expire(block: &[u8]) -> bool {
    block[0] & HAS_EXPIRE != 0
}

/// True when the value has this type, without taking the block apart.
#[inline]
pub(crate) fn is_of(block: &[u8], value_type: ValueType) -> bool {
    block[0] & TYPE_MASK == value_type as u8
}

/// True when the value may lie outside, without taking the block apart.
#[inline]
pub(crate) fn keeps_outside(block: &[u8]) -> bool {
    block[0] >> ENCODING_SHIFT & 7 >= Encoding::Large as u8
}

/// Whether the block holds this key; `None` when its key lies outside and must be looked at there.
///
/// This runs for each lookup, so it works out no more than where the key is.
#[inline]
pub(crate) fn holds_key(block: &[u8], key: &[u8]) -> Option<bool> {
    if key.len() >= LONG_KEY {
        return holds_long_key(block, key);
    }
    let lens = block[LENS_AT];
    let key_len = if block.len() == BLOCK_BYTES_MIN { lens >> 4 } else { lens >> 2 };
    if key_len as usize != key.len() {
        return Some(false);
    }
    let mut at = HEADER_BYTES + usize::from(block.len() > FINE_BYTES_MAX);
    if has_expire(block) {
        at += if block[at..at + 5] == [0xff; 5] { 13 } else { 5 };
    }
    Some(same(&block[at..at + key.len()], key))
}

#[cold]
fn holds_long_key(block: &[u8], key: &[u8]) -> Option<bool> {
    match View::of(block).key() {
        KeyPart::Inline(bytes) => Some(bytes == key),
        KeyPart::Outside { .. } => None,
    }
}

/// Equality of two slices of one length, without a call for the usual 8 to 16 bytes.
#[inline]
fn same(a: &[u8], b: &[u8]) -> bool {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let len = a.len().min(b.len());
    if a.len() != b.len() || !(8..=16).contains(&len) {
        return a == b;
    }
    word(&a[..8]) == word(&b[..8]) && word(&a[len - 8..]) == word(&b[len - 8..])
}

/// A block, taken apart.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    block: &'a [u8],
    /// 0 without an expire time.
    expire_at: usize,
    key_at: usize,
    /// Where the value starts.
    pub(crate) value_at: usize,
    value_end: usize,
    outside_key: bool,
}

impl<'a> View<'a> {
    /// Takes a block apart.
    #[inline]
    pub(crate) fn of(block: &'a [u8]) -> View<'a> {
        assert!(block.len() >= BLOCK_BYTES_MIN, "no block is smaller");
        let lens = block[LENS_AT] as usize;
        let smallest = block.len() == BLOCK_BYTES_MIN;
        let long = lens >> 2 == LONG_KEY && !smallest;
        if block.len() > FINE_BYTES_MAX || has_expire(block) || long {
            return View::of_any(block);
        }
        // Most blocks: short key, no time, no slack byte.
        let value_at = HEADER_BYTES + if smallest { lens >> 4 } else { lens >> 2 };
        let value_end = if smallest { value_at + (lens & 15) } else { block.len() - (lens & 3) };
        View { block, expire_at: 0, key_at: HEADER_BYTES, value_at, value_end, outside_key: false }
    }

    fn of_any(block: &'a [u8]) -> View<'a> {
        let lens = block[LENS_AT] as usize;
        let mut at = HEADER_BYTES;
        let (mut key_len, mut slack, mut outside_key) = (lens >> 2, lens & 3, false);
        if block.len() == BLOCK_BYTES_MIN {
            key_len = lens >> 4;
            let expire = if has_expire(block) { 5 } else { 0 };
            slack = BLOCK_BYTES_MIN - HEADER_BYTES - expire - key_len - (lens & 15);
        } else if key_len == LONG_KEY {
            let (len, bytes) = read_long(&block[at..]);
            at += bytes;
            outside_key = len == 0;
            key_len = if outside_key { OUTSIDE_KEY_BYTES } else { len };
        }
        if block.len() > FINE_BYTES_MAX {
            slack = block[at] as usize;
            at += 1;
        }
        let mut expire_at = 0;
        if has_expire(block) {
            expire_at = at;
            at += if block[at..at + 5] == [0xff; 5] { 13 } else { 5 };
        }
        let value_end = block.len() - slack;
        View { block, expire_at, key_at: at, value_at: at + key_len, value_end, outside_key }
    }

    /// How the value is packed.
    #[inline]
    pub(crate) fn encoding(&self) -> Encoding {
        Encoding::from_flags(self.block[0])
    }

    /// The type.
    #[inline]
    pub(crate) fn value_type(&self) -> ValueType {
        ValueType::from_number(self.block[0] & TYPE_MASK).expect("no block has another type")
    }

    /// Type and encoding.
    #[inline]
    pub(crate) fn form(&self) -> Form {
        Form::new(self.value_type(), self.encoding())
    }

    /// When the key is due, in milliseconds since 1970.
    #[inline]
    pub(crate) fn expire_at(&self) -> Option<u64> {
        if self.expire_at == 0 {
            return None;
        }
        let word = |at: usize, len: usize| {
            let mut bytes = [0; 8];
            bytes[..len].copy_from_slice(&self.block[at..at + len]);
            u64::from_le_bytes(bytes)
        };
        let offset = word(self.expire_at, 5);
        let far = offset == EXPIRE_FAR;
        Some(if far { word(self.expire_at + 5, 8) } else { EXPIRE_BASE_MS + offset })
    }

    /// The access stamp.
    #[inline]
    pub(crate) fn stamp(&self) -> u32 {
        Head::of(self.block).stamp()
    }

    /// The key.
    #[inline]
    pub(crate) fn key(&self) -> KeyPart<'a> {
        let bytes = &self.block[self.key_at..self.value_at];
        if !self.outside_key {
            return KeyPart::Inline(bytes);
        }
        let (index, hash) = bytes.split_at(4);
        KeyPart::Outside {
            index: u32::from_le_bytes(index.try_into().expect("four bytes")),
            hash: u64::from_le_bytes(hash.try_into().expect("eight bytes")),
        }
    }

    /// The value's bytes in the block.
    #[inline]
    pub(crate) fn value(&self) -> &'a [u8] {
        &self.block[self.value_at..self.value_end]
    }

    /// The integer of an [`Encoding::Int`] value.
    #[inline]
    pub(crate) fn int(&self) -> i64 {
        int_from_bytes(self.value())
    }

    /// The index of a value that lies outside.
    #[inline]
    pub(crate) fn outside_index(&self) -> u32 {
        u32::from_le_bytes(self.value().try_into().expect("a stub has four bytes"))
    }
}

pub(super) fn read_long(bytes: &[u8]) -> (usize, usize) {
    let low = bytes[0] as usize;
    if low < 128 { (low, 1) } else { (low & 127 | (bytes[1] as usize) << 7, 2) }
}

#[inline]
pub(super) fn int_from_bytes(bytes: &[u8]) -> i64 {
    let short = || -> Option<i64> {
        Some(match *bytes {
            [a] => i64::from(a.cast_signed()),
            [a, b] => i64::from(i16::from_le_bytes([a, b])),
            [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
            _ => i64::from_le_bytes(bytes.try_into().ok()?),
        })
    };
    short().expect("an integer has 1, 2, 4 or 8 bytes")
}
