//! HyperLogLogs: an estimate of how many different elements were seen, as Redis packs it in a
//! string.
//!
//! ```text
//! string     "HYLL" | encoding u8 | 3 bytes unused | count u64, low byte first | registers
//! encoding   0 dense, 1 sparse
//! count      the last estimate; the highest bit tells that it is out of date
//! dense      16384 registers of 6 bits, the first in the low bits of the first byte
//! sparse     opcodes for runs of registers, which together are 16384 long:
//!            ZERO   00nnnnnn             n + 1 registers of 0
//!            XZERO  01nnnnnn nnnnnnnn    n + 1 registers of 0, high bits first
//!            VAL    1vvvvvnn             n + 1 registers of v + 1
//! ```
//!
//! An element's hash picks a register by its low 14 bits; the register keeps the largest number of
//! trailing zeros, plus one, that was seen in the other 50.
//!
//! A string may come from anywhere. [`encoding`] looks at its header, as Redis does; opcodes that
//! do not add up are found where they are walked over and answer [`Corrupt`]. What Redis does with
//! such a string up to that point is done here too.

mod estimate;
mod sparse;

use crate::Corrupt;
use estimate::{Histogram, estimate};
use sparse::{Place, opcodes};

const REGISTER_BITS: u32 = 14;
/// How many registers there are.
pub const REGISTERS: usize = 1 << REGISTER_BITS;
const HASH_SEED: u64 = 0xadc8_3b19;

const HEADER_LEN: usize = 16;
const ENCODING_AT: usize = 4;
const COUNT_AT: usize = 8;
const STALE_AT: usize = 15;
const STALE: u8 = 0x80;

/// Bytes of a dense string.
pub const DENSE_LEN: usize = HEADER_LEN + REGISTERS * 6 / 8;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;

/// A sparse string without elements, its count up to date.
pub const EMPTY: [u8; HEADER_LEN + 2] = *b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0\x7f\xff";

/// How registers are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Six bits each.
    Dense,
    /// Runs.
    Sparse,
}

/// The encoding of a string, `None` if its header is none of a HyperLogLog.
#[inline]
pub fn encoding(string: &[u8]) -> Option<Encoding> {
    if string.len() < HEADER_LEN || !string.starts_with(b"HYLL") {
        return None;
    }
    match string[ENCODING_AT] {
        DENSE if string.len() == DENSE_LEN => Some(Encoding::Dense),
        SPARSE => Some(Encoding::Sparse),
        _ => None,
    }
}

fn is_dense(string: &[u8]) -> bool {
    string[ENCODING_AT] == DENSE
}

/// A register and the value that an element gives it at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    index: u16,
    value: u8,
}

impl Register {
    /// Bytes of the form that [`Register::to_bytes`] gives.
    pub const LEN: usize = 3;

    /// The register of an element.
    #[inline]
    pub fn of(element: &[u8]) -> Self {
        let hash = murmur64(element, HASH_SEED);
        // The bit above the highest one ends the zeros.
        let rest = hash >> REGISTER_BITS | 1 << (64 - REGISTER_BITS);
        Self { index: hash as u16 % REGISTERS as u16, value: rest.trailing_zeros() as u8 + 1 }
    }

    /// Index, low byte first, and value.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let [low, high] = self.index.to_le_bytes();
        [low, high, self.value]
    }

    /// Reads what [`Register::to_bytes`] wrote; bits that no register has are dropped.
    pub fn from_bytes([low, high, value]: [u8; Self::LEN]) -> Self {
        Self {
            index: u16::from_le_bytes([low, high]) % REGISTERS as u16,
            value: value & VALUE_MASK as u8,
        }
    }
}

/// MurmurHash64A.
fn murmur64(bytes: &[u8], seed: u64) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        word ^= word >> SHIFT;
        hash = (hash ^ word.wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    }
    if !tail.is_empty() {
        let word = tail.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        hash = (hash ^ word).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}

/// The count that the string keeps, unless it is out of date.
#[inline]
pub fn kept_count(string: &[u8]) -> Option<u64> {
    let is_fresh = string[STALE_AT] & STALE == 0;
    is_fresh.then(|| string[COUNT_AT..].first_chunk().map_or(0, |count| u64::from_le_bytes(*count)))
}

/// Where the string keeps its count.
pub const COUNT_RANGE: std::ops::Range<usize> = COUNT_AT..HEADER_LEN;

/// Tells that the kept count is out of date.
#[inline]
pub fn forget_count(string: &mut [u8]) {
    string[STALE_AT] |= STALE;
}

/// Estimates the number of elements.
///
/// # Errors
/// The runs are not as long as the registers.
pub fn count(string: &[u8]) -> Result<u64, Corrupt> {
    let mut histogram = Histogram::default();
    let body = &string[HEADER_LEN..];
    if is_dense(string) {
        histogram.add_packed(body);
    } else {
        let mut index = 0;
        for (_, run) in opcodes(body) {
            index += run.len;
            if index > REGISTERS {
                return Err(Corrupt);
            }
            histogram.add(run.value, run.len as u32);
        }
        if index != REGISTERS {
            return Err(Corrupt);
        }
    }
    Ok(estimate(&histogram))
}

const VALUE_MASK: u16 = 0x3f;

/// Raises a register of a dense string; true if it was lower. The kept count stays.
#[inline]
pub fn raise_dense(string: &mut [u8], register: Register) -> bool {
    let bit = usize::from(register.index) * 6;
    let (at, shift) = (HEADER_LEN + bit / 8, bit % 8);
    // The last registers have no byte behind theirs.
    let high = string.get(at + 1).copied().unwrap_or(0);
    let pair = u16::from_le_bytes([string[at], high]);
    if (pair >> shift & VALUE_MASK) as u8 >= register.value {
        return false;
    }
    let pair = pair & !(VALUE_MASK << shift) | u16::from(register.value) << shift;
    let [low, high] = pair.to_le_bytes();
    string[at] = low;
    if let Some(byte) = string.get_mut(at + 1) {
        *byte = high;
    }
    true
}

/// Raises a register; true if it was lower. A sparse string whose register would be above 32 or
/// that would be longer than `sparse_len_max` becomes dense.
///
/// # Errors
/// The runs do not add up; the string is as it was.
pub fn raise(
    string: &mut Vec<u8>,
    register: Register,
    sparse_len_max: usize,
) -> Result<bool, Corrupt> {
    let mut place = Place::START;
    raise_from(string, register, sparse_len_max, &mut place)
}

/// As [`raise`], with a place up to which no run ends behind the register.
fn raise_from(
    string: &mut Vec<u8>,
    register: Register,
    sparse_len_max: usize,
    place: &mut Place,
) -> Result<bool, Corrupt> {
    if !is_dense(string) {
        match sparse::raise(string, register, sparse_len_max, place)? {
            sparse::Raised::Sparse(raised) => return Ok(raised),
            sparse::Raised::NeedsDense => to_dense(string)?,
        }
    }
    Ok(raise_dense(string, register))
}

/// Makes a string dense; true if it was not. The kept count stays.
///
/// # Errors
/// The runs do not add up; the string is as it was.
pub fn make_dense(string: &mut Vec<u8>) -> Result<bool, Corrupt> {
    if is_dense(string) {
        return Ok(false);
    }
    to_dense(string)?;
    Ok(true)
}

fn to_dense(string: &mut Vec<u8>) -> Result<(), Corrupt> {
    let mut registers = Registers::default();
    registers.merge(string)?;
    string[ENCODING_AT] = DENSE;
    string.resize(DENSE_LEN, 0);
    pack(registers.values(), &mut string[HEADER_LEN..]);
    Ok(())
}

/// The runs of a sparse string as text: `Z:16380 v:3,1 z:3`.
pub fn runs_text(string: &[u8]) -> String {
    let words = opcodes(&string[HEADER_LEN..]).map(|(first, run)| match first {
        0x80.. => format!("v:{},{}", run.value, run.len),
        0x40.. => format!("Z:{}", run.len),
        _ => format!("z:{}", run.len),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// All registers, a byte each: the union of several HyperLogLogs.
#[derive(Clone, Debug)]
pub struct Registers(Box<[u8; REGISTERS]>);

impl Default for Registers {
    fn default() -> Self {
        Self(Box::new([0; REGISTERS]))
    }
}

impl Registers {
    /// The values, in order.
    pub fn values(&self) -> &[u8; REGISTERS] {
        &self.0
    }

    /// Raises the registers to those of a string.
    ///
    /// # Errors
    /// The runs do not add up.
    pub fn merge(&mut self, string: &[u8]) -> Result<(), Corrupt> {
        let body = &string[HEADER_LEN..];
        if is_dense(string) {
            let (blocks, _) = self.0.as_chunks_mut::<BLOCK_LEN>();
            for (block, packed) in blocks.iter_mut().zip(body.as_chunks().0) {
                let values = unpack(packed);
                block.iter_mut().zip(values).for_each(|(own, value)| *own = value.max(*own));
            }
            return Ok(());
        }
        let mut index = 0;
        for (_, run) in opcodes(body) {
            let values = self.0.get_mut(index..index + run.len).ok_or(Corrupt)?;
            if run.value > 0 {
                values.iter_mut().for_each(|value| *value = run.value.max(*value));
            }
            index += run.len;
        }
        if index == REGISTERS { Ok(()) } else { Err(Corrupt) }
    }

    /// Estimates the number of elements.
    pub fn count(&self) -> u64 {
        let mut histogram = Histogram::default();
        histogram.add_all(&self.0);
        estimate(&histogram)
    }

    /// Raises the registers of a string to these, which are not below its own. Its kept count is
    /// out of date then.
    ///
    /// # Errors
    /// The runs do not add up.
    pub fn write(&self, string: &mut Vec<u8>, sparse_len_max: usize) -> Result<(), Corrupt> {
        if is_dense(string) {
            pack(&self.0, &mut string[HEADER_LEN..]);
        } else {
            let mut place = Place::START;
            for (index, value) in (0..).zip(self.0.iter().copied()) {
                if value > 0 {
                    let register = Register { index, value };
                    raise_from(string, register, sparse_len_max, &mut place)?;
                }
            }
        }
        forget_count(string);
        Ok(())
    }
}

/// Packed registers are spread in blocks, whose words compilers work on side by side.
const BLOCK_LEN: usize = 64;
const PACKED_LEN: usize = BLOCK_LEN * 6 / 8;

/// Spreads packed registers to a byte each. Eight at once are halved three times: 48 bits to twice
/// 24, to four times 12, to eight times 6.
#[inline(always)]
fn unpack(packed: &[u8; PACKED_LEN]) -> [u8; BLOCK_LEN] {
    let mut words = [0; BLOCK_LEN / 8];
    let (packed, _) = packed.as_chunks::<6>();
    for (word, &[a, b, c, d, e, f]) in words.iter_mut().zip(packed) {
        let low = u32::from_le_bytes([a, b, c, d]) & 0x00ff_ffff;
        let high = u32::from_le_bytes([c, d, e, f]) >> 8;
        *word = u64::from(high) << 32 | u64::from(low);
    }
    for word in &mut words {
        *word = *word & 0x0000_0fff_0000_0fff | (*word & 0x00ff_f000_00ff_f000) << 4;
        *word = *word & 0x003f_003f_003f_003f | (*word & 0x0fc0_0fc0_0fc0_0fc0) << 2;
    }
    let mut values = [0; BLOCK_LEN];
    for (values, word) in values.as_chunks_mut().0.iter_mut().zip(words) {
        *values = word.to_le_bytes();
    }
    values
}

/// The reverse of [`unpack`].
fn pack(values: &[u8; REGISTERS], packed: &mut [u8]) {
    let (packed, _) = packed.as_chunks_mut::<6>();
    let (values, _) = values.as_chunks::<8>();
    for (values, packed) in values.iter().zip(packed) {
        let word = pairs(*values);
        let word = word & 0x0000_0fff_0000_0fff | (word & 0x0fff_0000_0fff_0000) >> 4;
        let [a, b, c, _, d, e, f, _] = word.to_le_bytes();
        *packed = [a, b, c, d, e, f];
    }
}

/// Eight values as four pairs of 12 bits, each in 16.
#[inline(always)]
fn pairs(values: [u8; 8]) -> u64 {
    let word = u64::from_le_bytes(values);
    word & 0x003f_003f_003f_003f | (word & 0x3f00_3f00_3f00_3f00) >> 2
}

#[cfg(test)]
mod tests;
