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
//! value            the bytes; a value outside: its index u32
//! [slack]          unused bytes at the end, so that the value's length needs no field
//! ```
//!
//! The block always has the smallest class that holds it, so the slack is below the distance of two
//! classes: at most 3 bytes up to 160, at most 61 above.
//!
//! See `docs/formats/block.md` for the drawing with examples.

use crate::slab::{BLOCK_BYTES_MIN, FINE_BYTES_MAX, block_bytes_for};

/// What a client sees a value as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// Bytes, an integer, a bitmap.
    String,
}

impl ValueType {
    /// Redis's word for it, as TYPE answers.
    pub fn name(self) -> &'static str {
        match self {
            ValueType::String => "string",
        }
    }
}

/// How a value is packed. The number is what the block stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Encoding {
    /// Bytes as they were set.
    Bytes = 0,
    /// Bytes that a command changed in place.
    Raw = 1,
    /// An integer, little endian, in as few of 1, 2, 4 and 8 bytes as hold it.
    Int = 2,
    /// The value lies outside the slabs.
    Large = 3,
}

impl Encoding {
    fn from_flags(flags: u8) -> Encoding {
        match flags >> ENCODING_SHIFT & 7 {
            0 => Encoding::Bytes,
            1 => Encoding::Raw,
            2 => Encoding::Int,
            3 => Encoding::Large,
            _ => unreachable!("no block is written with another encoding"),
        }
    }
}

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
    pub(crate) encoding: Encoding,
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
    block[0] = (content.encoding as u8) << ENCODING_SHIFT;
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

/// The access stamp, without taking the block apart.
#[inline]
pub(crate) fn stamp_of(block: &[u8]) -> u32 {
    u32::from_le_bytes([block[1], block[2], block[3], 0])
}

/// True when the block has an expire time, without taking it apart.
#[inline]
pub(crate) fn has_expire(block: &[u8]) -> bool {
    block[0] & HAS_EXPIRE != 0
}

/// True when the value lies outside, without taking the block apart.
#[inline]
pub(crate) fn is_large(block: &[u8]) -> bool {
    block[0] >> ENCODING_SHIFT & 7 == Encoding::Large as u8
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

/// Puts another value into a block whose key and time stay; false, and nothing changed, when its
/// class would change.
#[inline]
pub(crate) fn overwrite_value(block: &mut [u8], encoding: Encoding, value: &[u8]) -> bool {
    let view = View::of(block);
    let (value_at, used) = (view.value_at, view.value_at + value.len());
    // Just above 160 bytes the slack byte may be what keeps the block in its class.
    let loses_slack = block.len() > FINE_BYTES_MAX && used <= FINE_BYTES_MAX + 1;
    if loses_slack || used > block.len() || block_bytes_for(used) != block.len() {
        return false;
    }
    let slack = block.len() - used;
    block[0] = block[0] & !(7 << ENCODING_SHIFT) | (encoding as u8) << ENCODING_SHIFT;
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
        let lens = block[LENS_AT] as usize;
        let flags = block[0];
        let mut at = HEADER_BYTES;
        let (mut key_len, mut slack, mut outside_key) = (lens >> 2, lens & 3, false);
        if block.len() == BLOCK_BYTES_MIN {
            key_len = lens >> 4;
            let expire = if flags & HAS_EXPIRE != 0 { 5 } else { 0 };
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
        if flags & HAS_EXPIRE != 0 {
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
    pub(crate) fn value_type(&self) -> ValueType {
        ValueType::String
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
        stamp_of(self.block)
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

    /// The index of an [`Encoding::Large`] value.
    pub(crate) fn large_index(&self) -> u32 {
        u32::from_le_bytes(self.value().try_into().expect("a stub has four bytes"))
    }
}

fn read_long(bytes: &[u8]) -> (usize, usize) {
    let low = bytes[0] as usize;
    if low < 128 { (low, 1) } else { (low & 127 | (bytes[1] as usize) << 7, 2) }
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

#[inline]
fn int_from_bytes(bytes: &[u8]) -> i64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content: Content<'_>) -> usize {
        let used = bytes_for(content.key, content.expire_at, content.value.len());
        let mut block = vec![0xee; block_bytes_for(used)];
        write(&mut block, &content);
        let view = View::of(&block);
        assert_eq!(view.encoding(), content.encoding);
        assert_eq!(view.stamp(), content.stamp);
        assert_eq!(view.expire_at(), content.expire_at);
        assert_eq!(view.value(), content.value);
        if let KeyPart::Inline(key) = content.key {
            assert_eq!(holds_key(&block, key), Some(true));
            let mut other = key.to_vec();
            other.push(b'x');
            assert_eq!(holds_key(&block, &other), Some(false));
            if let Some(last) = key.len().checked_sub(1) {
                other.truncate(key.len());
                other[last] ^= 1;
                assert_eq!(holds_key(&block, &other), Some(false));
            }
        }
        match (view.key(), content.key) {
            (KeyPart::Inline(a), KeyPart::Inline(b)) => assert_eq!(a, b),
            (KeyPart::Outside { index: a, hash: x }, KeyPart::Outside { index: b, hash: y }) => {
                assert_eq!((a, x), (b, y));
            }
            _ => panic!("the key changed its place"),
        }
        block.len()
    }

    #[test]
    fn every_part_comes_back_at_every_length() {
        let bytes = [0x5a; 2048];
        let times =
            [None, Some(EXPIRE_BASE_MS), Some(1_764_550_000_000), Some(5), Some(u64::MAX >> 1)];
        for key_len in (0..150).chain([1023, INLINE_KEY_MAX]) {
            for value_len in (0..170).step_by(if cfg!(miri) { 23 } else { 1 }).chain([400, 800]) {
                for expire_at in times {
                    check(Content {
                        encoding: Encoding::Bytes,
                        stamp: 0xabcdef,
                        expire_at,
                        key: KeyPart::Inline(&bytes[..key_len]),
                        value: &bytes[..value_len],
                    });
                }
            }
        }
    }

    #[test]
    fn a_value_is_overwritten_where_the_class_stays() {
        let bytes = [0x5a; 600];
        for key_len in [0, 3, 10, 62, 63, 127, 128, 300] {
            for old_len in 0..170 {
                let (key, value) = (KeyPart::Inline(&bytes[..key_len]), &bytes[..old_len]);
                let encoding = Encoding::Bytes;
                let old = Content { encoding, stamp: 7, expire_at: Some(5), key, value };
                let class = |len| block_bytes_for(bytes_for(key, Some(5), len));
                let mut block = vec![0; class(old_len)];
                write(&mut block, &old);
                for len in (0..old_len + 12).step_by(if cfg!(miri) { 31 } else { 1 }) {
                    let value = vec![b'v'; len];
                    let done = overwrite_value(&mut block, Encoding::Raw, &value);
                    assert_eq!(done, class(len) == block.len());
                    if done {
                        let content = Content { encoding: Encoding::Raw, value: &value, ..old };
                        let mut fresh = block.clone();
                        write(&mut fresh, &content);
                        assert_eq!(block, fresh);
                    }
                }
            }
        }
    }

    #[test]
    fn keys_outside_come_back() {
        let key = KeyPart::Outside { index: 77, hash: 0x0123_4567_89ab_cdef };
        let encoding = Encoding::Large;
        check(Content { encoding, stamp: 1, expire_at: None, key, value: &[1, 2, 3, 4] });
    }

    #[test]
    fn blocks_are_as_small_as_the_budgets_need() {
        let key = KeyPart::Inline(&[b'k'; 10]);
        let size = |expire_at, value: &[u8]| {
            check(Content { encoding: Encoding::Bytes, stamp: 0, expire_at, key, value })
        };
        let time = Some(1_764_550_000_000);
        assert_eq!(size(None, &[0; 1]), 16);
        assert_eq!(size(None, &[0; 2]), 20);
        assert_eq!(size(None, &[0; 16]), 32);
        assert_eq!(size(time, &[0; 16]), 36);
        assert_eq!(size(None, &[0; 128]), 144);
        assert!(size(None, &[0; 1024]) <= 1072);
    }

    #[test]
    fn integers_take_the_fewest_bytes() {
        for value in [0, 1, -1, 127, 128, -128, -129, 32767, 32768, 1 << 31, i64::MAX, i64::MIN] {
            assert_eq!(int_from_bytes(IntBytes::new(value).as_slice()), value);
        }
        let len = |value| IntBytes::new(value).as_slice().len();
        assert_eq!([len(127), len(128), len(32768), len(1 << 31)], [1, 2, 4, 8]);
    }
}
