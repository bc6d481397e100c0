//! LZF, the compression of strings in RDB files and DUMP payloads.
//!
//! ```text
//! 000LLLLL                       L + 1 literal bytes follow (1 to 32)
//! LLLooooo oooooooo              L + 2 bytes (3 to 8) again, from o + 1 bytes before
//! 111ooooo LLLLLLLL oooooooo     L + 9 bytes (9 to 264) again, from o + 1 bytes before
//! ```
//!
//! The source of a repeat may overlap what it writes. The format has neither header nor end: both
//! lengths are kept outside. Compressing looks a position's next three bytes up in a small table
//! of the places where such bytes were seen last, and takes what it finds.

use crate::Corrupt;

/// The most literal bytes in one run.
const LITERALS_MAX: usize = 1 << 5;
/// The farthest that a repeat reaches back, in bytes.
const DISTANCE_MAX: usize = 1 << 13;
/// The shortest and the longest repeat.
const REPEAT_MIN: usize = 3;
const REPEAT_MAX: usize = 264;
/// Repeats up to here take two bytes, longer ones three.
const REPEAT_SHORT_MAX: usize = 8;
/// After so many bytes without a repeat, every second position is looked up, after twice as many
/// every third, and so on: bytes that don't compress are soon through.
const PATIENCE: usize = 64;
/// The most that one compressed byte can stand for: three of them make the longest repeat.
const EXPANSION_MAX: usize = REPEAT_MAX / 3;

/// Compresses `input` if the result has at most `len_max` bytes.
pub fn compress(input: &[u8], len_max: usize) -> Option<Vec<u8>> {
    let mut output = Vec::with_capacity(len_max);
    let mut seen = Seen::new(input.len());
    let mut literals = 0..0;
    let mut at = 0;
    while at < input.len() {
        let repeat = seen.swap(input, at).and_then(|from| Repeat::at(input, from, at));
        let Some(repeat) = repeat else {
            at += 1 + (at - literals.start) / PATIENCE;
            continue;
        };
        literals.end = at;
        push_literals(&mut output, &input[literals]);
        repeat.push(&mut output);
        if output.len() > len_max {
            return None;
        }
        let end = at + repeat.len;
        // Noting all places of a repeat takes three times as long and finds no more.
        for inside in end.saturating_sub(2)..end {
            seen.swap(input, inside);
        }
        literals = end..end;
        at = end;
    }
    literals.end = input.len();
    if output.len() + literals.len() > len_max {
        return None;
    }
    push_literals(&mut output, &input[literals]);
    (output.len() <= len_max).then_some(output)
}

fn push_literals(output: &mut Vec<u8>, literals: &[u8]) {
    for run in literals.chunks(LITERALS_MAX) {
        output.push((run.len() - 1) as u8);
        output.extend_from_slice(run);
    }
}

/// Bytes that were there before.
struct Repeat {
    len: usize,
    distance: usize,
}

impl Repeat {
    /// How far the bytes at `from` and at `to`, behind it, agree; `None` if that is too short or
    /// too far away.
    fn at(input: &[u8], from: usize, to: usize) -> Option<Self> {
        let distance = to - from;
        if distance > DISTANCE_MAX {
            return None;
        }
        let ahead = &input[to..input.len().min(to + REPEAT_MAX)];
        let len = ahead.iter().zip(&input[from..]).take_while(|(a, b)| a == b).count();
        (len >= REPEAT_MIN).then_some(Self { len, distance })
    }

    fn push(&self, output: &mut Vec<u8>) {
        let [high, low] = ((self.distance - 1) as u16).to_be_bytes();
        if self.len <= REPEAT_SHORT_MAX {
            output.extend([((self.len - 2) as u8) << 5 | high, low]);
        } else {
            output.extend([0b111 << 5 | high, (self.len - 9) as u8, low]);
        }
    }
}

/// Where three bytes were seen last, by their hash. A place is kept as its position plus one;
/// zero is none.
struct Seen {
    places: Vec<u32>,
    shift: u32,
}

impl Seen {
    /// A table in proportion to the input, so that clearing it costs little for a short one.
    fn new(input_len: usize) -> Self {
        let bits = (input_len.max(1).ilog2() + 1).clamp(6, 15);
        Self { places: vec![0; 1 << bits], shift: 32 - bits }
    }

    /// Notes the place `at` and returns the one seen before it with the same hash.
    fn swap(&mut self, input: &[u8], at: usize) -> Option<usize> {
        let [a, b, c] = *input.get(at..)?.first_chunk::<REPEAT_MIN>()?;
        let word = u32::from_le_bytes([a, b, c, 0]);
        // A multiplication by an odd constant near the golden ratio of 2^32.
        let hash = word.wrapping_mul(0x9e37_79b1) >> self.shift;
        let place = u32::try_from(at + 1).ok()?;
        let before = std::mem::replace(&mut self.places[hash as usize], place);
        (before as usize).checked_sub(1)
    }
}

/// Expands to exactly `len` bytes. Memory is reserved only for lengths that `input` can stand
/// for.
pub fn decompress(mut input: &[u8], len: usize) -> Result<Vec<u8>, Corrupt> {
    if len > input.len().saturating_mul(EXPANSION_MAX) {
        return Err(Corrupt);
    }
    let mut output = Vec::with_capacity(len);
    while let Some((&control, rest)) = input.split_first() {
        input = rest;
        if usize::from(control) < LITERALS_MAX {
            let run = take(&mut input, usize::from(control) + 1)?;
            output.extend_from_slice(run);
        } else {
            let mut count = usize::from(control >> 5) + 2;
            if control >> 5 == 0b111 {
                count += usize::from(take(&mut input, 1)?[0]);
            }
            let low = take(&mut input, 1)?[0];
            let distance = (usize::from(control & 0x1f) << 8 | usize::from(low)) + 1;
            let from = output.len().checked_sub(distance).ok_or(Corrupt)?;
            repeat(&mut output, from, count);
        }
        if output.len() > len {
            return Err(Corrupt);
        }
    }
    if output.len() == len { Ok(output) } else { Err(Corrupt) }
}

/// Appends `count` bytes from `from`; where they run into what is being appended, that is read
/// too.
fn repeat(output: &mut Vec<u8>, from: usize, count: usize) {
    let end = output.len() + count;
    while output.len() < end {
        let available = output.len() - from;
        let piece = available.min(end - output.len());
        output.extend_from_within(from..from + piece);
    }
}

fn take<'a>(input: &mut &'a [u8], len: usize) -> Result<&'a [u8], Corrupt> {
    input.split_off(..len).ok_or(Corrupt)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &[u8], compressed_len_max: usize) {
        let compressed = compress(input, input.len() * 2 + 8).unwrap();
        assert!(compressed.len() <= compressed_len_max, "{}", compressed.len());
        assert_eq!(decompress(&compressed, input.len()).unwrap(), input);
        let is_enough = compress(input, compressed.len()).is_some();
        assert!(is_enough, "{}", compressed.len());
        if !compressed.is_empty() {
            assert_eq!(compress(input, compressed.len() - 1), None);
        }
    }

    /// Bytes below `range` that look random, the same on each run.
    fn noise(len: usize, range: u8) -> Vec<u8> {
        let mut state = 7u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8 % range
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn what_is_compressed_expands_again() {
        check(b"", 0);
        check(b"a", 2);
        check(b"aaaa", 4);
        check(&[b'a'; 100], 6);
        check(&[b'a'; 10_000], 130);
        check(&b"0123456789".repeat(50), 20);
        check(&noise(5000, 255), 5160);
        for range in 2..6 {
            check(&noise(20_000, range), 15_000);
        }
        // A repeat from as far away as the format can say, and from one byte farther.
        for gap in [DISTANCE_MAX - 8, DISTANCE_MAX - 7] {
            let far = [b"the same".as_slice(), &noise(gap, 200), b"the same"].concat();
            check(&far, far.len() + far.len() / 32 + 1);
        }
    }

    #[test]
    fn every_length_of_repeats() {
        for len in (0..600).step_by(if cfg!(miri) { 97 } else { 1 }) {
            let input = [vec![b'x'; len], b"tail".to_vec(), vec![b'x'; len]].concat();
            check(&input, 30);
        }
    }

    #[test]
    fn bytes_of_the_format() {
        assert_eq!(decompress(b"\x02abc", 3).unwrap(), b"abc");
        assert_eq!(decompress(b"\x00a\xe0\x5b\x00", 101).unwrap(), [b'a'; 101]);
        assert_eq!(decompress(b"\x01ab\x20\x01", 5).unwrap(), b"ababa");
    }

    #[test]
    fn corrupt_bytes_are_refused() {
        let corrupt: [(&[u8], usize); 9] = [
            (b"\x02ab", 3),
            (b"\x02abc", 2),
            (b"\x02abc", 4),
            (b"\x20\x00", 3),
            (b"\x00a\x20", 4),
            (b"\x00a\x20\x01", 4),
            (b"\x00a\xe0", 100),
            (b"\x00a\xe0\x10", 100),
            (b"\x00a", usize::MAX),
        ];
        for (input, len) in corrupt {
            assert_eq!(decompress(input, len), Err(Corrupt), "{input:?}");
        }
    }

    #[test]
    fn any_bytes_are_borne() {
        for seed in 0..if cfg!(miri) { 20 } else { 2000u32 } {
            let mut input = noise(1 + seed as usize % 40, 255);
            for (index, byte) in input.iter_mut().enumerate() {
                *byte = byte.wrapping_mul(seed as u8 | 1).wrapping_add(index as u8);
            }
            for len in [0, 1, 10, 100, 1000] {
                let _ = decompress(&input, len);
            }
        }
    }
}
