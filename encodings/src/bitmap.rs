//! Bits of a byte string, counted, found and combined.
//!
//! Bit 0 is the highest bit of byte 0. Ranges of bits are half-open and are cut at the string's
//! end.
//!
//! Counting adds words of 64 bits with carry-save adders: sixteen words are folded into one by
//! adding their bits in columns, and only that one is counted. It needs no instruction beyond
//! the baseline of the machine, and compilers turn its plain loops into vector code.

use std::ops::Range;

/// How BITOP combines its sources. A source that is shorter than another one is padded with
/// zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Set in all.
    And,
    /// Set in any.
    Or,
    /// Set in an odd number.
    Xor,
    /// Clear in the first; the others are not looked at.
    Not,
    /// Set in the first, in no other.
    Diff,
    /// Set in some other, not in the first.
    Diff1,
    /// Set in the first and in some other.
    AndOr,
    /// Set in exactly one.
    One,
}

/// Set bits of the whole string.
#[inline]
pub fn count(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<BLOCK_LEN>();
    let (words, tail) = rest.as_chunks::<8>();
    let mut total: u64 =
        words.iter().map(|word| u64::from(u64::from_le_bytes(*word).count_ones())).sum();
    if !tail.is_empty() {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        total += u64::from(u64::from_le_bytes(word).count_ones());
    }
    total + count_blocks(blocks)
}

/// Set bits in a range.
pub fn count_range(bytes: &[u8], bits: Range<u64>) -> u64 {
    let Some(span) = Span::of(bytes, bits) else { return 0 };
    let body = &bytes[span.first..=span.last];
    let before = bytes[span.first] & !span.first_mask;
    let after = bytes[span.last] & !span.last_mask;
    count(body) - u64::from(before.count_ones()) - u64::from(after.count_ones())
}

/// Position of the first bit in a range that has the value.
pub fn find_in_range(bytes: &[u8], bits: Range<u64>, value: bool) -> Option<u64> {
    let span = Span::of(bytes, bits)?;
    // Seen through `flip`, the bit looked for is a set one.
    let flip = if value { 0 } else { u8::MAX };
    let at = |index: usize, byte: u8| index as u64 * 8 + u64::from(byte.leading_zeros());
    let mut first = (bytes[span.first] ^ flip) & span.first_mask;
    if span.first == span.last {
        first &= span.last_mask;
    }
    if first != 0 {
        return Some(at(span.first, first));
    }
    if span.first == span.last {
        return None;
    }
    let body = &bytes[span.first + 1..span.last];
    if let Some(index) = position(body, flip) {
        return Some(at(span.first + 1 + index, body[index] ^ flip));
    }
    let last = (bytes[span.last] ^ flip) & span.last_mask;
    (last != 0).then(|| at(span.last, last))
}

/// Index of the first byte that is not `skip`.
fn position(bytes: &[u8], skip: u8) -> Option<usize> {
    let (chunks, _) = bytes.as_chunks::<32>();
    let skipped = chunks.iter().take_while(|chunk| **chunk == [skip; 32]).count() * 32;
    let rest = &bytes[skipped..];
    rest.iter().position(|byte| *byte != skip).map(|index| skipped + index)
}

/// The bytes that a range of bits touches, with the bits of the outer two that belong to it.
struct Span {
    first: usize,
    last: usize,
    first_mask: u8,
    last_mask: u8,
}

impl Span {
    fn of(bytes: &[u8], bits: Range<u64>) -> Option<Self> {
        let end = bits.end.min(bytes.len() as u64 * 8);
        if bits.start >= end {
            return None;
        }
        let last_bit = end - 1;
        Some(Self {
            first: (bits.start / 8) as usize,
            last: (last_bit / 8) as usize,
            first_mask: 0xff >> (bits.start % 8),
            last_mask: 0xff << (7 - last_bit % 8),
        })
    }
}

/// Vectors of two words are what every 64-bit machine has; four keep its adders busy.
const LANES: usize = 4;
/// Bytes that one round of adders folds.
const BLOCK_LEN: usize = 16 * LANES * 8;
type Lanes = [u64; LANES];

/// Adds three columns of bits: the sum of a column and what it carries.
#[inline(always)]
fn carry_save(a: Lanes, b: Lanes, c: Lanes) -> (Lanes, Lanes) {
    let mut sum = [0; LANES];
    let mut carry = [0; LANES];
    for lane in 0..LANES {
        let half = a[lane] ^ b[lane];
        sum[lane] = half ^ c[lane];
        carry[lane] = (a[lane] & b[lane]) | (half & c[lane]);
    }
    (sum, carry)
}

#[inline(always)]
fn ones(lanes: Lanes) -> u64 {
    lanes.iter().map(|lane| u64::from(lane.count_ones())).sum()
}

/// `ones`, `twos`, `fours` and `eights` hold the running sum of each column, a bit of it each;
/// only what carries out of the eights is counted, once a block.
fn count_blocks(blocks: &[[u8; BLOCK_LEN]]) -> u64 {
    let zero = [0; LANES];
    let (mut one, mut two, mut four, mut eight) = (zero, zero, zero, zero);
    let mut sixteens = 0;
    for block in blocks {
        let pair = |at: usize| (lanes(block, at), lanes(block, at + 1));
        let mut add_two = |at| {
            let (a, b) = pair(at);
            let (sum, carry) = carry_save(one, a, b);
            one = sum;
            carry
        };
        let mut add_four = |at| {
            let (a, b) = (add_two(at), add_two(at + 2));
            let (sum, carry) = carry_save(two, a, b);
            two = sum;
            carry
        };
        let mut add_eight = |at| {
            let (a, b) = (add_four(at), add_four(at + 4));
            let (sum, carry) = carry_save(four, a, b);
            four = sum;
            carry
        };
        let (a, b) = (add_eight(0), add_eight(8));
        let (sum, carry) = carry_save(eight, a, b);
        eight = sum;
        sixteens += ones(carry);
    }
    16 * sixteens + 8 * ones(eight) + 4 * ones(four) + 2 * ones(two) + ones(one)
}

#[inline(always)]
fn lanes(block: &[u8; BLOCK_LEN], at: usize) -> Lanes {
    let (words, _) = block.as_chunks::<8>();
    std::array::from_fn(|lane| u64::from_le_bytes(words[at * LANES + lane]))
}

/// BITOP: the sources combined; as long as the longest of them.
pub fn combine(operation: Operation, sources: &[&[u8]]) -> Vec<u8> {
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let mut target = vec![0; len];
    for (index, piece) in target.chunks_mut(PIECE_LEN).enumerate() {
        let start = index * PIECE_LEN;
        let end = start + piece.len();
        let mut sources =
            sources.iter().map(|source| &source[start.min(source.len())..end.min(source.len())]);
        let first = sources.next().unwrap_or_default();
        match operation {
            Operation::One => exactly_one(piece, first, sources),
            Operation::Diff | Operation::Diff1 | Operation::AndOr => {
                first_against_rest(operation, piece, first, sources);
            }
            _ => fold(operation, piece, first, sources),
        }
    }
    target
}

/// Sources are combined in pieces that stay in the first-level cache however many there are.
const PIECE_LEN: usize = 4096;

/// The operations that take one source after another. As in the two below, `piece` is zero
/// before, and the sources are at most as long.
fn fold<'a>(
    operation: Operation,
    piece: &mut [u8],
    first: &[u8],
    others: impl Iterator<Item = &'a [u8]>,
) {
    piece[..first.len()].copy_from_slice(first);
    if operation == Operation::Not {
        return piece.iter_mut().for_each(|byte| *byte = !*byte);
    }
    for other in others {
        match operation {
            Operation::And => {
                zip(piece, other, |a, b| a & b);
                piece[other.len()..].fill(0);
            }
            Operation::Or => zip(piece, other, |a, b| a | b),
            _ => zip(piece, other, |a, b| a ^ b),
        }
    }
}

/// The operations between the first source and what any of the others has.
fn first_against_rest<'a>(
    operation: Operation,
    piece: &mut [u8],
    first: &[u8],
    others: impl Iterator<Item = &'a [u8]>,
) {
    for other in others {
        zip(piece, other, |a, b| a | b);
    }
    match operation {
        Operation::Diff => zip(piece, first, |any, first| first & !any),
        Operation::AndOr => zip(piece, first, |any, first| any & first),
        _ => return zip(piece, first, |any, first| any & !first),
    }
    piece[first.len()..].fill(0);
}

fn exactly_one<'a>(piece: &mut [u8], first: &[u8], others: impl Iterator<Item = &'a [u8]>) {
    piece[..first.len()].copy_from_slice(first);
    // Bits seen more than once.
    let mut many = [0; PIECE_LEN];
    for other in others {
        for ((many, once), byte) in many.iter_mut().zip(&mut *piece).zip(other) {
            *many |= *once & byte;
            *once |= byte;
        }
    }
    zip(piece, &many, |once, many| once & !many);
}

#[inline(always)]
fn zip(target: &mut [u8], source: &[u8], combined: impl Fn(u8, u8) -> u8) {
    for (byte, other) in target.iter_mut().zip(source) {
        *byte = combined(*byte, *other);
    }
}

#[cfg(test)]
mod tests;
