//! Ziplists, which Redis kept small collections in up to version 6: read only.
//!
//! ```text
//! ziplist   bytes u32 | offset of the last entry u32 | entries u16 (65535: unknown) | entry ... | 0xff
//! entry     length of the entry before | lead | content
//! length    u8 below 254, or 254 | u32
//! lead      00LLLLLL                  string of 6 bits' length
//!           01LLLLLL LLLLLLLL         14 bits, high first
//!           10000000 u32 BE           32 bits
//!           0xc0, 0xd0, 0xe0          i16, i32, i64
//!           0xf0, 0xfe                i24, i8
//!           1111VVVV                  the integer VVVV - 1, from 0 to 12
//! ```
//!
//! Integers are little endian but where it says otherwise. Source: `ziplist.c` of Redis 6.2.

use crate::Corrupt;

const HEADER_BYTES: usize = 10;
const END: u8 = 0xff;
const COUNT_UNKNOWN: usize = u16::MAX as usize;
/// The first byte of a long length of the entry before.
const LONG: u8 = 254;

/// The elements of a ziplist as their texts; every length, offset and count is checked.
///
/// # Errors
/// The bytes are no ziplist.
pub fn read(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Corrupt> {
    let (header, rest) = bytes.split_at_checked(HEADER_BYTES).ok_or(Corrupt)?;
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let told = usize::from(u16::from_le_bytes([header[8], header[9]]));
    let (&end, mut entries) = rest.split_last().ok_or(Corrupt)?;
    if word(0) as usize != bytes.len() || end != END {
        return Err(Corrupt);
    }
    let mut elements = Vec::new();
    let (mut last, mut before) = (HEADER_BYTES, 0);
    while !entries.is_empty() {
        last = bytes.len() - 1 - entries.len();
        if read_before(&mut entries)? != before {
            return Err(Corrupt);
        }
        elements.push(read_content(&mut entries)?);
        before = bytes.len() - 1 - entries.len() - last;
    }
    let counted = told == COUNT_UNKNOWN || told == elements.len();
    if counted && word(4) as usize == last { Ok(elements) } else { Err(Corrupt) }
}

fn take<const N: usize>(input: &mut &[u8]) -> Result<[u8; N], Corrupt> {
    let (bytes, rest) = input.split_first_chunk::<N>().ok_or(Corrupt)?;
    *input = rest;
    Ok(*bytes)
}

/// The length of the entry before.
fn read_before(input: &mut &[u8]) -> Result<usize, Corrupt> {
    match take(input)? {
        [END] => Err(Corrupt),
        [LONG] => Ok(u32::from_le_bytes(take(input)?) as usize),
        [len] => Ok(usize::from(len)),
    }
}

fn read_content(input: &mut &[u8]) -> Result<Vec<u8>, Corrupt> {
    let [lead] = take(input)?;
    let len = match lead >> 6 {
        0b00 => usize::from(lead),
        0b01 => {
            let [low] = take(input)?;
            usize::from(u16::from_be_bytes([lead & 0x3f, low]))
        }
        0b10 if lead == 0x80 => u32::from_be_bytes(take(input)?) as usize,
        0b10 => return Err(Corrupt),
        _ => return Ok(read_integer(lead, input)?.to_string().into_bytes()),
    };
    Ok(input.split_off(..len).ok_or(Corrupt)?.to_vec())
}

fn read_integer(lead: u8, input: &mut &[u8]) -> Result<i64, Corrupt> {
    Ok(match lead {
        0xc0 => i64::from(i16::from_le_bytes(take(input)?)),
        0xd0 => i64::from(i32::from_le_bytes(take(input)?)),
        0xe0 => i64::from_le_bytes(take(input)?),
        0xf0 => {
            let [low, middle, high] = take(input)?;
            i64::from(i32::from_le_bytes([0, low, middle, high]) >> 8)
        }
        0xfe => i64::from(i8::from_le_bytes(take(input)?)),
        0xf1..=0xfd => i64::from(lead & 0xf) - 1,
        _ => return Err(Corrupt),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ziplist of entries without their lengths of the entry before.
    fn ziplist(contents: &[&[u8]]) -> Vec<u8> {
        let (mut entries, mut before, mut last) = (Vec::new(), 0usize, 0);
        for content in contents {
            last = entries.len();
            if before < usize::from(LONG) {
                entries.push(before as u8);
            } else {
                entries.push(LONG);
                entries.extend((before as u32).to_le_bytes());
            }
            entries.extend_from_slice(content);
            before = entries.len() - last;
        }
        let mut bytes = ((entries.len() + HEADER_BYTES + 1) as u32).to_le_bytes().to_vec();
        bytes.extend(((last + HEADER_BYTES) as u32).to_le_bytes());
        bytes.extend((contents.len() as u16).to_le_bytes());
        bytes.extend(entries);
        bytes.push(END);
        bytes
    }

    #[test]
    fn every_form_of_entry_is_read() {
        let long = [&[0x41, 0x2c][..], &[b'x'; 300]].concat();
        let longer = [&[0x80, 0, 0, 0, 3][..], b"abc"].concat();
        let contents: &[&[u8]] = &[
            b"\x05hello",
            b"\x00",
            &long,
            &longer,
            &[0xc0, 0x18, 0xfc],
            &[0xd0, 0, 0, 0, 0x80],
            &[0xe0, 1, 0, 0, 0, 0, 0, 0, 0x40],
            &[0xf0, 0, 0, 0x80],
            &[0xfe, 0xff],
            &[0xf1],
            &[0xfd],
        ];
        let texts = read(&ziplist(contents)).unwrap();
        let expected: [&[u8]; 11] = [
            b"hello",
            b"",
            &[b'x'; 300],
            b"abc",
            b"-1000",
            b"-2147483648",
            b"4611686018427387905",
            b"-8388608",
            b"-1",
            b"0",
            b"12",
        ];
        assert_eq!(texts, expected);
        assert_eq!(read(&ziplist(&[])), Ok(Vec::new()));
    }

    #[test]
    fn damage_is_found_or_harmless() {
        let good = ziplist(&[b"\x05hello", &[0xc0, 0x18, 0xfc], b"\x01a"]);
        for at in 0..good.len() {
            assert_eq!(read(&good[..at]), Err(Corrupt));
            for bit in 0..8 {
                let mut flipped = good.clone();
                flipped[at] ^= 1 << bit;
                // What is read has the right number of elements.
                assert!(
                    read(&flipped).is_ok_and(|texts| texts.len() == 3) || read(&flipped).is_err()
                );
            }
        }
        let mut wrong_tail = good.clone();
        wrong_tail[4] -= 1;
        assert_eq!(read(&wrong_tail), Err(Corrupt));
        let mut wrong_count = good;
        wrong_count[8] = 2;
        assert_eq!(read(&wrong_count), Err(Corrupt));
    }
}
