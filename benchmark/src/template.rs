//! Requests with holes: rendered once, then filled in place for each batch.
//!
//! A row's command is text with spaces between its words. `__rand__` stands for a key number of
//! [`DIGITS`] decimal digits and `__value__` for a value of the row's length. Numbers have a
//! fixed width, so a batch of requests is rendered once and afterwards only its digits are
//! written: a few nanoseconds a request, so that the client keeps up with any server.

use std::sync::Arc;

use crate::numbers::Random;
use crate::wire;

/// Digits of a key number.
pub const DIGITS: usize = 12;

/// Stands for a key number in a command.
pub const KEY_MARK: &str = "__rand__";

/// Stands for a value in a command.
pub const VALUE_MARK: &str = "__value__";

/// A stand-in for key numbers that does not occur otherwise; as long as they are.
const HOLE: &[u8; DIGITS] = b"\x01\x02holeHOLE\x02\x01";

/// Which numbers fill the holes.
#[derive(Clone, Debug)]
pub enum Keys {
    /// 0, for rows on one key.
    One,
    /// Random ones below the limit.
    Random(u64, Random),
    /// One after another, from the number given on, going round at the limit.
    InTurn(u64, u64),
    /// Random ones of these, of which there must be one.
    Listed(Arc<[u32]>, Random),
    /// Pairs of a hash tag and a member.
    Tagged(Tagged),
}

/// Numbers of keys like `{__rand__}:__rand__`: a hash tag, a member, a hash tag, a member.
#[derive(Clone, Debug)]
pub struct Tagged {
    tags: Arc<[u32]>,
    members: u64,
    keys_per_tag: usize,
    random: Random,
    tag: u64,
    /// Numbers given out of the run of keys that have the same tag.
    at: usize,
}

impl Tagged {
    /// Random tags of the list, each for `keys_per_tag` keys on end with random members below
    /// the limit. The list must have a tag.
    pub fn new(tags: Arc<[u32]>, members: u64, keys_per_tag: usize, random: Random) -> Self {
        Self { tags, members, keys_per_tag, random, tag: 0, at: 0 }
    }

    fn next(&mut self) -> u64 {
        if self.at == 0 {
            self.tag = one_of(&self.tags, &mut self.random);
        }
        let is_tag = self.at.is_multiple_of(2);
        self.at = (self.at + 1) % (2 * self.keys_per_tag);
        if is_tag { self.tag } else { self.random.below(self.members) }
    }
}

fn one_of(numbers: &[u32], random: &mut Random) -> u64 {
    u64::from(numbers[random.below(numbers.len() as u64) as usize])
}

impl Keys {
    fn next(&mut self) -> u64 {
        match self {
            Self::One => 0,
            Self::Random(limit, random) => random.below(*limit),
            Self::InTurn(next, limit) => {
                let number = *next;
                *next = if number + 1 >= *limit { 0 } else { number + 1 };
                number
            }
            Self::Listed(numbers, random) => one_of(numbers, random),
            Self::Tagged(tagged) => tagged.next(),
        }
    }
}

/// The words of a command, values put in, key numbers still open.
pub fn words(command: &str, value_len: usize) -> Vec<String> {
    command.split(' ').map(|word| word.replace(VALUE_MARK, &value(value_len))).collect()
}

/// A value of this length. It is no number and does not compress to nothing.
pub fn value(len: usize) -> String {
    let mut random = Random::new(len as u64);
    (0..len).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
}

/// The same words with a key number in place of each hole.
pub fn with_key(words: &[String], number: u64) -> Vec<String> {
    words.iter().map(|word| word.replace(KEY_MARK, &format!("{number:0DIGITS$}"))).collect()
}

/// Requests that are sent together.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The bytes to send.
    pub bytes: Vec<u8>,
    /// Requests in them.
    pub requests: usize,
    /// Where the digits of key numbers begin.
    holes: Vec<usize>,
}

impl Batch {
    /// Renders a command `requests` times.
    pub fn new(words: &[String], requests: usize) -> Self {
        let hole = String::from_utf8_lossy(HOLE);
        let open: Vec<String> = words.iter().map(|word| word.replace(KEY_MARK, &hole)).collect();
        let mut one = Vec::new();
        wire::render(&open, &mut one);
        let bytes = one.repeat(requests);
        let holes = memchr::memmem::find_iter(&bytes, HOLE).collect();
        let mut batch = Self { bytes, requests, holes };
        batch.fill(&mut Keys::One);
        batch
    }

    /// Bytes of each request.
    pub fn request_len(&self) -> usize {
        self.bytes.len() / self.requests.max(1)
    }

    /// Writes new key numbers.
    pub fn fill(&mut self, keys: &mut Keys) {
        for &hole in &self.holes {
            write_digits(keys.next(), &mut self.bytes[hole..hole + DIGITS]);
        }
    }
}

/// Pairs of digits, so that a number takes half the divisions.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

fn write_digits(mut number: u64, digits: &mut [u8]) {
    for pair in digits.rchunks_exact_mut(2) {
        pair.copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_filled_in_place() {
        let words = words("SET key:__rand__ __value__", 3);
        let mut batch = Batch::new(&words, 2);
        assert_eq!(batch.request_len() * 2, batch.bytes.len());
        batch.fill(&mut Keys::InTurn(98, 1000));
        let text = String::from_utf8(batch.bytes.clone()).expect("text");
        assert!(text.contains("key:000000000098\r\n"), "{text}");
        assert!(text.contains("key:000000000099\r\n"), "{text}");
        let first = &with_key(&words, 98);
        let mut rendered = Vec::new();
        wire::render(first, &mut rendered);
        assert_eq!(&batch.bytes[..batch.request_len()], rendered);
    }

    #[test]
    fn numbers_go_round_at_their_limit() {
        let mut keys = Keys::InTurn(1, 3);
        assert_eq!([keys.next(), keys.next(), keys.next()], [1, 2, 0]);
        let mut random = Keys::Random(5, Random::new(1));
        assert!((0..100).all(|_| random.next() < 5));
        let mut listed = Keys::Listed([3, 9].into(), Random::new(1));
        assert!((0..100).all(|_| [3, 9].contains(&listed.next())));
    }

    #[test]
    fn keys_of_a_request_share_a_tag() {
        let tags: Arc<[u32]> = (100..200).collect();
        let mut keys = Keys::Tagged(Tagged::new(tags, 50, 3, Random::new(1)));
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..20 {
            let request: Vec<u64> = (0..6).map(|_| keys.next()).collect();
            assert!(request[0] >= 100 && request[2] == request[0] && request[4] == request[0]);
            assert!(request[1] < 50 && request[3] < 50 && request[5] < 50);
            seen.insert(request[0]);
        }
        assert!(seen.len() > 5, "{seen:?}");
    }

    #[test]
    fn values_have_their_length() {
        assert_eq!(value(64).len(), 64);
        assert_eq!(value(0), "");
        assert_eq!(words("GET k", 9), ["GET", "k"]);
    }
}
