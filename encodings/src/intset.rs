//! Intset: integers in ascending order, all of one width.
//!
//! ```text
//! width u8: 2, 4 or 8 | integer, little endian, two's complement | integer | ...
//!
//! Redis's form   width u32 LE | count u32 LE | integer * (`intset.c`)
//! ```
//!
//! The width is the smallest that holds all integers that were ever in the set; it does not shrink,
//! as in Redis. How many there are follows from the number of bytes.

use std::cmp::Ordering;

use crate::Corrupt;

/// A set of integers in bytes that [`insert`] wrote or [`Intset::validate`] accepts.
#[derive(Clone, Copy, Debug)]
pub struct Intset<'a> {
    width: usize,
    integers: &'a [u8],
}

/// Bytes that an integer needs.
#[inline]
fn width_for(value: i64) -> usize {
    match value {
        -0x8000..=0x7fff => 2,
        -0x8000_0000..=0x7fff_ffff => 4,
        _ => 8,
    }
}

impl<'a> Intset<'a> {
    /// The set in these bytes; none are the empty set.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        match bytes.split_first() {
            None => Self { width: 2, integers: &[] },
            Some((width, integers)) => Self { width: usize::from(*width), integers },
        }
    }

    /// Checks foreign bytes: width, length and order; how many integers there are, at least one.
    ///
    /// # Errors
    /// They are no set of integers.
    pub fn validate(bytes: &[u8]) -> Result<usize, Corrupt> {
        let set = Intset::new(bytes);
        let sound = matches!(set.width, 2 | 4 | 8)
            && !set.integers.is_empty()
            && set.integers.len().is_multiple_of(set.width)
            && set.iter().zip(set.iter().skip(1)).all(|(a, b)| a < b);
        if sound { Ok(set.len()) } else { Err(Corrupt) }
    }

    /// How many.
    #[inline]
    pub fn len(&self) -> usize {
        self.integers.len() / self.width
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.integers.is_empty()
    }

    /// The integer at an index, in ascending order.
    #[inline]
    pub fn get(&self, index: usize) -> i64 {
        let bytes = &self.integers[index * self.width..(index + 1) * self.width];
        match *bytes {
            [a, b] => i64::from(i16::from_le_bytes([a, b])),
            [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
            _ => i64::from_le_bytes(bytes.try_into().expect("a width of eight")),
        }
    }

    /// The index of an integer, or where it would stand.
    ///
    /// # Errors
    /// It is not there; the index says where it would stand.
    pub fn search(&self, value: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle).cmp(&value) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    /// Whether an integer is there.
    #[inline]
    pub fn contains(&self, value: i64) -> bool {
        width_for(value) <= self.width && self.search(value).is_ok()
    }

    /// The integers, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = i64> + Clone + use<'a> {
        let set = *self;
        (0..set.len()).map(move |index| set.get(index))
    }

    /// Redis's form.
    pub fn to_redis(&self) -> Vec<u8> {
        let count = u32::try_from(self.len()).expect("values are shorter than 4 GiB");
        [&(self.width as u32).to_le_bytes()[..], &count.to_le_bytes(), self.integers].concat()
    }
}

/// Adds an integer; false when it is there already.
pub fn insert(bytes: &mut Vec<u8>, value: i64) -> bool {
    if bytes.is_empty() {
        bytes.push(width_for(value) as u8);
    }
    let set = Intset::new(bytes);
    if width_for(value) > set.width {
        *bytes = widened(set, width_for(value));
    }
    let set = Intset::new(bytes);
    let (Err(index), width) = (set.search(value), set.width) else { return false };
    let at = 1 + index * width;
    bytes.splice(at..at, value.to_le_bytes()[..width].iter().copied());
    true
}

fn widened(set: Intset<'_>, width: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + (set.len() + 1) * width);
    bytes.push(width as u8);
    set.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()[..width]));
    bytes
}

/// Takes an integer away; false when it is not there.
pub fn remove(bytes: &mut Vec<u8>, value: i64) -> bool {
    let set = Intset::new(bytes);
    if width_for(value) > set.width {
        return false;
    }
    let (Ok(index), width) = (set.search(value), set.width) else { return false };
    bytes.drain(1 + index * width..1 + (index + 1) * width);
    true
}

/// Our form of a set in Redis's.
///
/// # Errors
/// Width, count, length or order is wrong, or there is no integer.
pub fn from_redis(bytes: &[u8]) -> Result<Vec<u8>, Corrupt> {
    let (width, rest) = bytes.split_first_chunk::<4>().ok_or(Corrupt)?;
    let (count, integers) = rest.split_first_chunk::<4>().ok_or(Corrupt)?;
    let width = u8::try_from(u32::from_le_bytes(*width)).map_err(|_| Corrupt)?;
    let mut set = vec![width];
    set.extend_from_slice(integers);
    let found = Intset::validate(&set)?;
    if found == u32::from_le_bytes(*count) as usize { Ok(set) } else { Err(Corrupt) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_set_agrees_with_an_ordered_one() {
        let (mut bytes, mut oracle, mut word) = (Vec::new(), BTreeSet::new(), 7u64);
        for step in 0..if cfg!(miri) { 200 } else { 5000 } {
            word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            // Wider integers come later.
            let shift = 64 - [6, 15, 16, 31, 32, 63][step * 6 / 5000 % 6];
            let value = word.cast_signed() >> shift;
            if word % 3 == 0 {
                assert_eq!(remove(&mut bytes, value), oracle.remove(&value));
            } else {
                assert_eq!(insert(&mut bytes, value), oracle.insert(value));
            }
            let set = Intset::new(&bytes);
            assert_eq!(set.len(), oracle.len());
            assert_eq!(set.contains(value), oracle.contains(&value));
            if step % 100 == 0 {
                assert!(set.iter().eq(oracle.iter().copied()));
                if !set.is_empty() {
                    assert_eq!(Intset::validate(&bytes), Ok(oracle.len()));
                    assert_eq!(from_redis(&set.to_redis()).as_ref(), Ok(&bytes));
                }
            }
        }
    }

    #[test]
    fn broken_sets_are_refused() {
        for bytes in [&b""[..], b"\x02", b"\x03abc", b"\x02a", b"\x02\x02\x00\x01\x00", b"\x02aaaa"]
        {
            assert_eq!(Intset::validate(bytes), Err(Corrupt), "{bytes:?}");
        }
        let good = Intset::new(b"\x02\x01\x00\x02\x00").to_redis();
        assert_eq!(good, b"\x02\0\0\0\x02\0\0\0\x01\0\x02\0");
        for (at, value) in [(0, 3), (1, 1), (4, 1), (8, 2)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert!(from_redis(&bad).is_err(), "byte {at}");
        }
    }
}
