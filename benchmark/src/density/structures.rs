//! The structures whose memory `density` weighs, as data.
//!
//! A structure is made by one command per item: the words of `head`, then those of `each`,
//! `repeat` times. An item is a key of its own, or, where `head` names the one key `big`, a part
//! of a single large collection. Placeholders:
//!
//! | text | stands for |
//! | --- | --- |
//! | `{key}` | the item's key |
//! | `{i}` | the item's number |
//! | `{j}` | which repetition this is |
//! | `{value}` | a value of the length that was asked for |
//! | `{text:N}` | N letters, other ones for each item and repetition |
//! | `{text:A:B}` | the same, of a length from A to below B |
//! | `{number:A:B}` | a number from A to below B, by item and repetition |

use crate::numbers::Random;

/// A structure and what was measured and aimed at for it.
#[derive(Clone, Copy, Debug)]
pub struct Structure {
    /// Its name in tables.
    pub name: &'static str,
    /// Items at scale 1.
    pub count: usize,
    /// Words before the repeated ones.
    pub head: &'static str,
    /// Words that are repeated.
    pub each: &'static str,
    /// How often.
    pub repeat: usize,
    /// Bytes per item that Osmia may take, by `used_memory`, at scale 1, with keys of 10 bytes
    /// and values of [`VALUE_LEN`].
    pub budget: f64,
    /// Bytes per item that Redis 8.2.3 took when the budgets were set.
    pub redis: f64,
    /// The same of Valkey 9.1.2.
    pub valkey: f64,
}

/// Length of `{value}` that the budgets are for.
pub const VALUE_LEN: usize = 16;

/// The shape of keys that the budgets are for: 10 bytes.
pub const KEY_SHAPE: &str = "key:{i:6}";

macro_rules! structures {
    ($($name:literal, $count:literal, $head:literal, $repeat:literal x $each:literal,
       budget $budget:literal, redis $redis:literal, valkey $valkey:literal;)*) => {
        /// All of them, in the order of the design's table.
        pub const STRUCTURES: &[Structure] = &[$(Structure {
            name: $name, count: $count, head: $head, each: $each, repeat: $repeat,
            budget: $budget as f64, redis: $redis as f64, valkey: $valkey as f64,
        },)*];
    };
}

structures! {
    "string of 16 B", 100_000, "SET {key} {value}", 0 x "", budget 42, redis 71.7, valkey 61.9;
    "string of 16 B with TTL", 100_000, "SET {key} {value} EX 100000", 0 x "",
        budget 53, redis 94.9, valkey 91.3;
    "string of 128 B", 100_000, "SET {key} {text:128}", 0 x "",
        budget 154, redis 207.7, valkey 205.9;
    "string of 1 KiB", 20_000, "SET {key} {text:1024}", 0 x "",
        budget 1090, redis 1331, valkey 1329;
    "counter", 100_000, "INCR {key}", 0 x "", budget 27, redis 47.7, valkey 45.8;
    "bitmap of 128 B", 20_000, "SETBIT {key} 1023 1", 0 x "", budget 158, redis 211, valkey 209;
    "u16 bitfield counter", 100_000, "BITFIELD {key} INCRBY u16 0 1", 0 x "",
        budget 28, redis 55.7, valkey 53.9;
    "HyperLogLog of 100", 5_000, "PFADD {key}", 100 x "{text:8}",
        budget 330, redis 514, valkey 515;
    "one-element list of 16 B", 100_000, "RPUSH {key} {value}", 0 x "",
        budget 46, redis 79.7, valkey 77.9;
    "list of 20 x 11 B", 20_000, "RPUSH {key}", 20 x "{text:5:18}",
        budget 285, redis 355, valkey 353;
    "hash of 3 fields", 50_000, "HSET {key} f0 {text:8}", 2 x "g{j} {text:7}",
        budget 68, redis 96, valkey 94;
    "hash of 10 fields", 20_000, "HSET {key}", 10 x "field{j} {text:13}",
        budget 262, redis 305, valkey 304;
    "set of 4 members", 50_000, "SADD {key}", 4 x "{text:6}", budget 60, redis 88, valkey 94;
    "set of 50 integers", 10_000, "SADD {key}", 50 x "{number:130:32000}",
        budget 132, redis 165, valkey 164;
    "sorted set of 3 members", 50_000, "ZADD {key}", 3 x "{number:0:6500} {text:6}",
        budget 64, redis 94, valkey 94;
    "one geo set, per point", 100_000, "GEOADD big {number:-179:179} {number:-85:85} item:{i}",
        0 x "", budget 40, redis 96.8, valkey 67.4;
    "one large set, per member", 100_000, "SADD big member:{i}", 0 x "",
        budget 24, redis 37.2, valkey 29.9;
    "one large hash, per field", 100_000, "HSET big field:{i} value:{i}", 0 x "",
        budget 36, redis 72.1, valkey 45.9;
    "one large sorted set, per member", 100_000, "ZADD big {number:0:1000000} member:{i}", 0 x "",
        budget 42, redis 96.7, valkey 67.3;
    "one large list, per element", 100_000, "RPUSH big item:{i}", 0 x "",
        budget 12.2, redis 12.4, valkey 12.6;
    "one stream, per entry", 100_000, "XADD big * field {number:0:5000}", 0 x "",
        budget 12, redis 13.8, valkey 14.0;
}

/// What an item's command is filled with.
#[derive(Clone, Debug)]
pub struct Filling {
    /// Text with `{i:W}`, the item's number in at least W digits.
    pub key_shape: String,
    /// Length of `{value}`.
    pub value_len: usize,
}

impl Filling {
    /// The key of an item.
    pub fn key(&self, item: usize) -> String {
        let Some((front, rest)) = self.key_shape.split_once("{i:") else {
            return format!("{}{item}", self.key_shape);
        };
        let (width, back) = rest.split_once('}').unwrap_or((rest, ""));
        let width = width.parse().unwrap_or(1);
        format!("{front}{item:0width$}{back}")
    }
}

impl Structure {
    /// The words of the command that makes an item.
    pub fn words(&self, filling: &Filling, item: usize) -> Vec<String> {
        let mut random = Random::new(item as u64 + 1);
        let mut words = Vec::new();
        let mut add = |text: &str, repetition: usize| {
            for word in text.split(' ').filter(|word| !word.is_empty()) {
                words.push(fill(word, filling, item, repetition, &mut random));
            }
        };
        add(self.head, 0);
        for repetition in 0..self.repeat {
            add(self.each, repetition);
        }
        words
    }
}

fn fill(
    word: &str,
    filling: &Filling,
    item: usize,
    repetition: usize,
    random: &mut Random,
) -> String {
    let mut filled = String::new();
    let mut rest = word;
    while let Some((front, tail)) = rest.split_once('{') {
        let (hole, back) = tail.split_once('}').unwrap_or((tail, ""));
        filled.push_str(front);
        let fields: Vec<&str> = hole.split(':').collect();
        match fields[..] {
            ["key"] => filled.push_str(&filling.key(item)),
            ["i"] => filled.push_str(&item.to_string()),
            ["j"] => filled.push_str(&repetition.to_string()),
            ["value"] => push_letters(filling.value_len, random, &mut filled),
            ["text", len] => push_letters(parse(len) as usize, random, &mut filled),
            ["text", from, to] => {
                let len = between(from, to, random) as usize;
                push_letters(len, random, &mut filled);
            }
            ["number", from, to] => filled.push_str(&between(from, to, random).to_string()),
            _ => unreachable!("a hole that the table's head does not name: {hole}"),
        }
        rest = back;
    }
    filled.push_str(rest);
    filled
}

fn parse(number: &str) -> i64 {
    number.parse().expect("a number in the table of structures")
}

fn between(from: &str, to: &str, random: &mut Random) -> i64 {
    let (from, to) = (parse(from), parse(to));
    from + random.below((to - from) as u64) as i64
}

fn push_letters(len: usize, random: &mut Random, text: &mut String) {
    text.extend((0..len).map(|_| char::from(b'a' + random.below(26) as u8)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_structure_can_be_filled() {
        let filling = Filling { key_shape: KEY_SHAPE.to_owned(), value_len: VALUE_LEN };
        assert_eq!(STRUCTURES.len(), 21);
        for structure in STRUCTURES {
            let words = structure.words(&filling, 7);
            assert!(words.len() >= 2, "{words:?}");
            assert!(words.iter().all(|word| !word.contains('{')), "{words:?}");
            assert!(words[1] == "key:000007" || words[1] == "big", "{words:?}");
            assert!(structure.budget < structure.redis && structure.budget < structure.valkey);
        }
        assert_eq!(STRUCTURES[0].words(&filling, 1)[2].len(), VALUE_LEN);
    }

    #[test]
    fn keys_have_the_shape_asked_for() {
        let check = |shape: &str, expected: &str| {
            let filling = Filling { key_shape: shape.to_owned(), value_len: 1 };
            assert_eq!(filling.key(42), expected);
        };
        check("key:{i:6}", "key:000042");
        check("{i:1}", "42");
        check("user:{i:4}:name", "user:0042:name");
        check("plain", "plain42");
    }
}
