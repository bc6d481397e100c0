//! Listpack: elements packed one after another, integers and byte strings.
//!
//! ```text
//! element  lead byte | data | [back length]
//!
//! 0vvvvvvv                          an integer from 0 to 127
//! 10llllll | bytes                  a string of up to 63 bytes
//! 110vvvvv vvvvvvvv                 an integer of 13 bits, two's complement, high byte first
//! 1110llll llllllll | bytes         a string of up to 4,095 bytes, high byte of the length first
//! 0xf0 | length u32 LE | bytes      a longer string
//! 0xf1 | i16 LE, 0xf2 | i24 LE, 0xf3 | i32 LE, 0xf4 | i64 LE
//!
//! back length   bytes of lead byte and data: 7 bits a byte, the high group first, all but the first
//!               byte with the high bit set, so that it is read from its last byte backwards
//!
//! Redis's form  total bytes u32 LE | elements u16 LE, 65535 = count them | element * | 0xff
//! ```
//!
//! The element is Redis's (`listpack.c`, `listpack.md`), byte for byte. What stands around the
//! elements is not kept here: whoever holds them knows how long they are. Back lengths, by which Redis
//! walks backwards, are not kept either, so there are two forms: `Listpack<true>` with them, as it
//! comes from Redis and goes there, and `Listpack<false>` without. Bytes from outside pass
//! [`Listpack::validate`] or [`from_redis`] before anything else looks at them.

use crate::Corrupt;
use crate::integer::{TEXT_LEN_MAX, format_i64, parse_i64, text_len};

// The first of the lead bytes of each kind that holds a value.
const STRING_6_BITS: u8 = 0x80;
const INT_13_BITS: u8 = 0xc0;
const STRING_12_BITS: u8 = 0xe0;
const STRING_32_BITS: u8 = 0xf0;
const INT_16_BITS: u8 = 0xf1;
const INT_24_BITS: u8 = 0xf2;
const INT_32_BITS: u8 = 0xf3;
const INT_64_BITS: u8 = 0xf4;
const END: u8 = 0xff;

const HEADER_BYTES: usize = 6;
/// Bytes of Redis's header and end byte around the elements, for thresholds that count them.
pub const REDIS_OVERHEAD: usize = HEADER_BYTES + 1;
/// Redis's form has this count where there are more elements than it can say.
const COUNT_UNKNOWN: usize = u16::MAX as usize;
/// Bytes of the longest back length.
const BACK_BYTES_MAX: usize = 5;

/// One element as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'a> {
    /// An integer; its text is the canonical decimal one.
    Int(i64),
    /// Any other bytes.
    Bytes(&'a [u8]),
}

impl<'a> Element<'a> {
    /// The element that bytes are stored as: an integer where they are the canonical text of one.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Element<'a> {
        if bytes.len() <= TEXT_LEN_MAX
            && let Some(value) = parse_i64(bytes)
        {
            return Element::Int(value);
        }
        Element::Bytes(bytes)
    }

    /// The bytes that it stands for.
    #[inline]
    pub fn text<'r>(&'r self, room: &'r mut [u8; TEXT_LEN_MAX]) -> &'r [u8] {
        match self {
            Element::Int(value) => format_i64(*value, room),
            Element::Bytes(bytes) => bytes,
        }
    }

    /// How many bytes that are.
    #[inline]
    pub fn text_len(&self) -> usize {
        match self {
            Element::Int(value) => text_len(*value),
            Element::Bytes(bytes) => bytes.len(),
        }
    }

    /// The bytes that it stands for, for themselves.
    pub fn to_vec(&self) -> Vec<u8> {
        self.text(&mut [0; TEXT_LEN_MAX]).to_vec()
    }

    /// Bytes of lead byte and data.
    fn own_len(&self) -> usize {
        match *self {
            Element::Int(value) => match value {
                0..=127 => 1,
                -0x1000..=0xfff => 2,
                -0x8000..=0x7fff => 3,
                -0x80_0000..=0x7f_ffff => 4,
                -0x8000_0000..=0x7fff_ffff => 5,
                _ => 9,
            },
            Element::Bytes(bytes) => bytes.len() + string_lead_bytes(bytes.len()),
        }
    }

    /// Bytes that it takes in a listpack.
    pub fn stored_len<const BACK: bool>(&self) -> usize {
        let own = self.own_len();
        own + if BACK { back_bytes(own) } else { 0 }
    }
}

#[inline]
fn string_lead_bytes(len: usize) -> usize {
    match len {
        0..=63 => 1,
        64..=4095 => 2,
        _ => 5,
    }
}

/// Bytes of a back length.
#[inline]
fn back_bytes(own: usize) -> usize {
    match own {
        0..=0x7f => 1,
        0x80..=0x3fff => 2,
        0x4000..=0x1f_ffff => 3,
        0x20_0000..=0xfff_ffff => 4,
        _ => BACK_BYTES_MAX,
    }
}

/// Bytes of lead byte and data of the element that starts with these bytes; `None` where they do not
/// tell.
#[inline]
fn own_len_at(bytes: &[u8]) -> Option<usize> {
    let lead = *bytes.first()?;
    if lead < STRING_6_BITS {
        return Some(1);
    }
    if lead < INT_13_BITS {
        return Some(1 + (lead & 0x3f) as usize);
    }
    own_len_of_long(lead, bytes)
}

fn own_len_of_long(lead: u8, bytes: &[u8]) -> Option<usize> {
    Some(match lead {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 2 + (((lead & 0xf) as usize) << 8 | *bytes.get(1)? as usize),
        STRING_32_BITS => {
            let len = bytes.get(1..5)?.try_into().expect("four bytes");
            5usize.checked_add(u32::from_le_bytes(len) as usize)?
        }
        INT_16_BITS => 3,
        INT_24_BITS => 4,
        INT_32_BITS => 5,
        INT_64_BITS => 9,
        _ => return None,
    })
}

/// Appends an element.
#[inline]
pub fn push<const BACK: bool>(out: &mut Vec<u8>, element: Element<'_>) {
    let start = out.len();
    match element {
        Element::Int(value) => push_int(out, value),
        Element::Bytes(bytes) => {
            match bytes.len() {
                len @ 0..=63 => out.push(STRING_6_BITS | len as u8),
                len @ 64..=4095 => out.extend([STRING_12_BITS | (len >> 8) as u8, len as u8]),
                len => {
                    let len = u32::try_from(len).expect("values are shorter than 4 GiB");
                    out.push(STRING_32_BITS);
                    out.extend(len.to_le_bytes());
                }
            }
            out.extend_from_slice(bytes);
        }
    }
    if BACK {
        push_back_len(out, out.len() - start);
    }
}

fn push_int(out: &mut Vec<u8>, value: i64) {
    let bytes = value.to_le_bytes();
    match value {
        0..=127 => out.push(bytes[0]),
        -0x1000..=0xfff => out.extend([INT_13_BITS | bytes[1] & 0x1f, bytes[0]]),
        -0x8000..=0x7fff => out.extend([INT_16_BITS, bytes[0], bytes[1]]),
        -0x80_0000..=0x7f_ffff => out.extend([INT_24_BITS, bytes[0], bytes[1], bytes[2]]),
        -0x8000_0000..=0x7fff_ffff => {
            out.push(INT_32_BITS);
            out.extend_from_slice(&bytes[..4]);
        }
        _ => {
            out.push(INT_64_BITS);
            out.extend_from_slice(&bytes);
        }
    }
}

fn push_back_len(out: &mut Vec<u8>, own: usize) {
    let groups = back_bytes(own);
    for group in (0..groups).rev() {
        let high = if group == groups - 1 { 0 } else { 0x80 };
        out.push((own >> (7 * group)) as u8 & 0x7f | high);
    }
}

/// Elements one after another; with or without back lengths. See the top of the file.
#[derive(Clone, Copy, Debug)]
pub struct Listpack<'a, const BACK: bool> {
    bytes: &'a [u8],
}

const SOUND: &str = "the bytes were validated or written here";

impl<'a, const BACK: bool> Listpack<'a, BACK> {
    /// Elements in bytes that [`push`] wrote or [`Listpack::validate`] accepts.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Checks every element of foreign bytes, and counts them.
    ///
    /// # Errors
    /// The bytes are no elements one after another.
    pub fn validate(bytes: &[u8]) -> Result<usize, Corrupt> {
        let (mut at, mut count) = (0, 0);
        while at < bytes.len() {
            let own = own_len_at(&bytes[at..]).ok_or(Corrupt)?;
            let mut end = at.checked_add(own).ok_or(Corrupt)?;
            if BACK {
                end += back_bytes(own);
            }
            if end > bytes.len() || BACK && read_back_len(&bytes[..end]) != Some(own) {
                return Err(Corrupt);
            }
            (at, count) = (end, count + 1);
        }
        Ok(count)
    }

    /// The elements' bytes.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// How many elements; walks over them.
    pub fn len(&self) -> usize {
        let (mut at, mut count) = (0, 0);
        while at < self.bytes.len() {
            (at, count) = (self.skip(at), count + 1);
        }
        count
    }

    /// True without elements.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Where the element after the one at `offset` starts.
    #[inline]
    pub fn skip(&self, offset: usize) -> usize {
        let own = own_len_at(&self.bytes[offset..]).expect(SOUND);
        offset + own + if BACK { back_bytes(own) } else { 0 }
    }

    /// The element at `offset`, and where the next one starts.
    #[inline]
    pub fn read(&self, offset: usize) -> (Element<'a>, usize) {
        let next = self.skip(offset);
        let bytes = &self.bytes[offset..];
        let lead = bytes[0];
        let element = if lead < STRING_6_BITS {
            Element::Int(i64::from(lead))
        } else if lead < INT_13_BITS {
            Element::Bytes(&bytes[1..1 + (lead & 0x3f) as usize])
        } else {
            read_long(lead, bytes)
        };
        (element, next)
    }

    /// Elements from the first one on, with their offsets.
    #[inline]
    pub fn iter(&self) -> Iter<'a, BACK> {
        self.iter_from(0)
    }

    /// Elements from `offset` on, with their offsets.
    #[inline]
    pub fn iter_from(&self, offset: usize) -> Iter<'a, BACK> {
        Iter { list: *self, at: offset }
    }

    /// Where the element with an index starts, looked for from the first one on; behind the last one
    /// if there are fewer.
    #[inline]
    pub fn nth(&self, index: usize) -> usize {
        let mut at = 0;
        for _ in 0..index {
            if at == self.bytes.len() {
                break;
            }
            at = self.skip(at);
        }
        at
    }

    /// The index of the first element that is equal to the one that `text` would be stored as.
    #[inline]
    pub fn position(&self, text: &[u8]) -> Option<usize> {
        let wanted = Element::parse(text);
        let (mut at, mut index) = (0, 0);
        while at < self.bytes.len() {
            if self.holds(at, wanted) {
                return Some(index);
            }
            (at, index) = (self.skip(at), index + 1);
        }
        None
    }

    /// The first of the elements that stand `stride` apart, from `offset` on, which is equal to the
    /// one that `text` would be stored as.
    #[inline]
    pub fn find(&self, text: &[u8], offset: usize, stride: usize) -> Option<usize> {
        let wanted = Element::parse(text);
        let mut at = offset;
        while at < self.bytes.len() {
            if self.holds(at, wanted) {
                return Some(at);
            }
            for _ in 0..stride {
                at = self.skip(at);
            }
        }
        None
    }

    /// Whether the element at `offset` is equal to one.
    #[inline]
    fn holds(&self, offset: usize, wanted: Element<'_>) -> bool {
        let bytes = &self.bytes[offset..];
        match wanted {
            // Short strings tell by the first and the last byte whether the rest is worth a look.
            Element::Bytes(text) if text.len() < 64 => {
                bytes[0] == STRING_6_BITS | text.len() as u8
                    && text.last().is_none_or(|last| bytes[text.len()] == *last)
                    && bytes[1..=text.len()] == *text
            }
            Element::Int(value @ 0..=127) => i64::from(bytes[0]) == value,
            _ => bytes[0] >= INT_13_BITS && self.read(offset).0 == wanted,
        }
    }
}

fn read_long<'a>(lead: u8, bytes: &'a [u8]) -> Element<'a> {
    let int = |len: usize| {
        let mut word = [0; 8];
        word[8 - len..].copy_from_slice(&bytes[1..=len]);
        Element::Int(i64::from_le_bytes(word) >> (64 - 8 * len))
    };
    match lead {
        0xc0..=0xdf => {
            let value = u16::from_be_bytes([lead & 0x1f, bytes[1]]);
            Element::Int(i64::from((value << 3).cast_signed() >> 3))
        }
        0xe0..=0xef => {
            let len = ((lead & 0xf) as usize) << 8 | bytes[1] as usize;
            Element::Bytes(&bytes[2..2 + len])
        }
        INT_16_BITS => int(2),
        INT_24_BITS => int(3),
        INT_32_BITS => int(4),
        INT_64_BITS => int(8),
        _ => {
            let len = u32::from_le_bytes(bytes[1..5].try_into().expect("four bytes"));
            Element::Bytes(&bytes[5..5 + len as usize])
        }
    }
}

/// The back length that ends with the last of these bytes.
#[inline]
fn read_back_len(bytes: &[u8]) -> Option<usize> {
    let mut len = 0;
    for (group, &byte) in bytes.iter().rev().take(BACK_BYTES_MAX).enumerate() {
        len |= ((byte & 0x7f) as usize) << (7 * group);
        if byte < 0x80 {
            return Some(len);
        }
    }
    None
}

/// See [`Listpack::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a, const BACK: bool> {
    list: Listpack<'a, BACK>,
    at: usize,
}

impl<'a, const BACK: bool> Iterator for Iter<'a, BACK> {
    type Item = (usize, Element<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.list.bytes.len() {
            return None;
        }
        let (element, next) = self.list.read(self.at);
        Some((std::mem::replace(&mut self.at, next), element))
    }
}

/// Elements in Redis's form.
pub fn to_redis<'e>(elements: impl Iterator<Item = Element<'e>>) -> Vec<u8> {
    let mut out = vec![0; HEADER_BYTES];
    let mut count = 0;
    for element in elements {
        push::<true>(&mut out, element);
        count += 1;
    }
    out.push(END);
    let total = u32::try_from(out.len()).expect("values are shorter than 4 GiB");
    out[..4].copy_from_slice(&total.to_le_bytes());
    let count = count.min(COUNT_UNKNOWN) as u16;
    out[4..6].copy_from_slice(&count.to_le_bytes());
    out
}

/// The elements of a listpack in Redis's form, and how many they are.
///
/// # Errors
/// Length, count, an element, a back length or the end byte is wrong.
pub fn from_redis(bytes: &[u8]) -> Result<(Listpack<'_, true>, usize), Corrupt> {
    let (header, rest) = bytes.split_at_checked(HEADER_BYTES).ok_or(Corrupt)?;
    let total = u32::from_le_bytes(header[..4].try_into().expect("four bytes"));
    let told = u16::from_le_bytes(header[4..].try_into().expect("two bytes")) as usize;
    let (&end, elements) = rest.split_last().ok_or(Corrupt)?;
    if total as usize != bytes.len() || end != END {
        return Err(Corrupt);
    }
    let count = Listpack::<true>::validate(elements)?;
    if told != COUNT_UNKNOWN && told != count {
        return Err(Corrupt);
    }
    Ok((Listpack::new(elements), count))
}

#[cfg(test)]
mod tests;
