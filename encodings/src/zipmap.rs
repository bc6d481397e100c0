//! Zipmaps, which Redis kept small hashes in up to version 2.4: read only.
//!
//! ```text
//! zipmap   pairs u8 (254 or more: unknown) | pair ... | 0xff
//! pair     length | field | length | unused u8 | value | so many unused bytes
//! length   u8 below 254, or 254 | u32 LE
//! ```
//!
//! Source: `zipmap.c` of Redis.

use crate::Corrupt;

const END: u8 = 0xff;
/// The first byte of a long length, and the first number of pairs that is not told.
const LONG: u8 = 254;

/// Fields and values in turn; every length and the count are checked.
///
/// # Errors
/// The bytes are no zipmap.
pub fn read(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Corrupt> {
    let (&told, rest) = bytes.split_first().ok_or(Corrupt)?;
    let (&end, mut pairs) = rest.split_last().ok_or(Corrupt)?;
    if end != END {
        return Err(Corrupt);
    }
    let mut texts = Vec::new();
    while !pairs.is_empty() {
        let field_len = read_len(&mut pairs)?;
        texts.push(take(&mut pairs, field_len)?.to_vec());
        let value_len = read_len(&mut pairs)?;
        let unused = usize::from(take(&mut pairs, 1)?[0]);
        texts.push(take(&mut pairs, value_len)?.to_vec());
        take(&mut pairs, unused)?;
    }
    let counted = told >= LONG || usize::from(told) == texts.len() / 2;
    if counted { Ok(texts) } else { Err(Corrupt) }
}

fn take<'a>(input: &mut &'a [u8], len: usize) -> Result<&'a [u8], Corrupt> {
    input.split_off(..len).ok_or(Corrupt)
}

fn read_len(input: &mut &[u8]) -> Result<usize, Corrupt> {
    match take(input, 1)?[0] {
        END => Err(Corrupt),
        LONG => {
            let bytes = take(input, 4)?.try_into().expect("four bytes");
            Ok(u32::from_le_bytes(bytes) as usize)
        }
        len => Ok(usize::from(len)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_with_unused_bytes_between() {
        let bytes = b"\x02\x03foo\x03\x00bar\x05hello\xfe\x05\x00\x00\x00\x02worldxx\xff";
        let texts = read(bytes).unwrap();
        assert_eq!(texts, [&b"foo"[..], b"bar", b"hello", b"world"]);
        assert_eq!(read(b"\x00\xff"), Ok(Vec::new()));
    }

    #[test]
    fn damage_is_refused() {
        let good = b"\x01\x03foo\x03\x00bar\xff";
        (0..good.len()).for_each(|at| assert_eq!(read(&good[..at]), Err(Corrupt)));
        for (at, byte) in [(0, 2), (1, 4), (5, 4), (6, 1), (10, 0)] {
            let mut bad = good.to_vec();
            bad[at] = byte;
            assert_eq!(read(&bad), Err(Corrupt), "{at}");
        }
    }
}
