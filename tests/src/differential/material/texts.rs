//! Texts, numbers and times of a round.

use super::{Level, Material};
use crate::random::Random;

/// Texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// A value of a string: numbers, texts of many lengths, bytes.
    Value,
    /// A short word.
    Short,
    /// A member, field or element: one of few.
    Member,
    /// The same in ten digits or less: what SORT takes for a number.
    Sortable,
    /// A glob-style pattern.
    Pattern,
    /// A bound of a lexicographical range.
    LexBound,
    /// Bytes that are no DUMP payload.
    Garbage,
}

/// Numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// An integer of any size.
    Integer,
    /// A floating point number.
    Float,
    /// A position from either end.
    Index,
    /// How many, 0 and too many included.
    Count,
    /// How many, at least one.
    Positive,
    /// An offset in bytes.
    Offset,
    /// An offset in bits.
    Bit,
    /// A type of a bit field.
    BitType,
    /// An offset of a bit field.
    BitFieldOffset,
    /// A score.
    Score,
    /// A bound of a range of scores.
    ScoreBound,
    /// A weight of ZUNION.
    Weight,
}

/// Times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// Seconds from now, far away.
    Seconds,
    /// Milliseconds from now, far away.
    Ms,
    /// A Unix time in seconds, far away or past.
    AtSeconds,
    /// A Unix time in milliseconds, far away or past.
    AtMs,
    /// A few milliseconds from now.
    Blink,
    /// A timeout in seconds.
    WaitSeconds,
    /// A timeout in milliseconds.
    WaitMs,
    /// A least idle time in milliseconds that all or none have.
    IdleMs,
}

impl Text {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "value" => Self::Value,
            "short" => Self::Short,
            "member" => Self::Member,
            "sortable" => Self::Sortable,
            "pattern" => Self::Pattern,
            "lex-bound" => Self::LexBound,
            "garbage" => Self::Garbage,
            _ => return None,
        })
    }
}

impl Number {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "integer" => Self::Integer,
            "float" => Self::Float,
            "index" => Self::Index,
            "count" => Self::Count,
            "positive" => Self::Positive,
            "offset" => Self::Offset,
            "bit" => Self::Bit,
            "bit-type" => Self::BitType,
            "bit-field-offset" => Self::BitFieldOffset,
            "score" => Self::Score,
            "score-bound" => Self::ScoreBound,
            "weight" => Self::Weight,
            _ => return None,
        })
    }
}

impl Time {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "seconds" => Self::Seconds,
            "ms" => Self::Ms,
            "at-seconds" => Self::AtSeconds,
            "at-ms" => Self::AtMs,
            "blink" => Self::Blink,
            "wait" => Self::WaitSeconds,
            "wait-ms" => Self::WaitMs,
            "idle-ms" => Self::IdleMs,
            _ => return None,
        })
    }
}

/// Where integers change their size, and where 64 bits end.
const EDGES: [i64; 18] = [
    127,
    128,
    -128,
    -129,
    4095,
    4096,
    -4096,
    32_767,
    32_768,
    -32_769,
    8_388_607,
    -8_388_609,
    2_147_483_647,
    2_147_483_648,
    -2_147_483_649,
    i64::MAX,
    i64::MAX - 1,
    i64::MIN,
];

impl Material {
    pub(super) fn text(&self, text: Text, random: &mut Random) -> Vec<u8> {
        match text {
            Text::Value => self.value(random),
            Text::Short => {
                random.pick(&["", "a", "ab", "abc", "b", "hello", "10", "-3"]).as_bytes().to_vec()
            }
            Text::Member => self.member(random),
            Text::Sortable => random.below(12).to_string().into_bytes(),
            Text::Pattern => pattern(random).as_bytes().to_vec(),
            Text::LexBound => self.lex_bound(random),
            Text::Garbage => match random.below(3) {
                0 => Vec::new(),
                1 => b"\x00\xc0\x01\x0b\x00abcdefgh".to_vec(),
                _ => (0..random.below(40)).map(|_| random.word() as u8).collect(),
            },
        }
    }

    fn value(&self, random: &mut Random) -> Vec<u8> {
        match random.below(10) {
            0..=2 => random.between(-20, 120).to_string().into_bytes(),
            3 => random.pick(&EDGES).to_string().into_bytes(),
            4 => float(random).into_bytes(),
            5 => random.pick(&["", "00", "+5", " 7", "7 ", "-0", "1e3", "nan"]).as_bytes().to_vec(),
            6 => (0..random.below(20)).map(|_| random.word() as u8).collect(),
            7 => vec![b'a' + random.below(4) as u8; *random.pick(&[43, 44, 45, 63, 64, 65, 200])],
            8 if random.once_in(6) => {
                vec![b'L'; *random.pick(&[2047, 2048, 2049, 4000, 4096, 9000])]
            }
            _ => self.member(random),
        }
    }

    /// One of the round's members. Which one a number stands for never changes, so that the same
    /// ones come again and again.
    fn member(&self, random: &mut Random) -> Vec<u8> {
        let index = random.below(self.members);
        if self.integers && !random.once_in(40) {
            return integer_member(index).to_string().into_bytes();
        }
        let len = self.level.value_len();
        match index % 9 {
            0 => format!("m{index}").into_bytes(),
            1 => index.to_string().into_bytes(),
            2 => format!("-{index}").into_bytes(),
            3 => format!("{index}.5").into_bytes(),
            4 => padded(index, len - 1),
            5 => padded(index, len),
            6 => padded(index, len + 1),
            7 => [b"\x00\xff\r\n", index.to_string().as_bytes()].concat(),
            _ if index < 10 => Vec::new(),
            _ if self.level == Level::High && index < 40 => padded(index, 3000),
            _ => integer_member(index).to_string().into_bytes(),
        }
    }

    fn lex_bound(&self, random: &mut Random) -> Vec<u8> {
        match random.below(10) {
            0 => b"-".to_vec(),
            1 => b"+".to_vec(),
            2 => self.member(random),
            3..=5 => [b"(".to_vec(), self.member(random)].concat(),
            _ => [b"[".to_vec(), self.member(random)].concat(),
        }
    }

    pub(super) fn number(&self, number: Number, random: &mut Random) -> String {
        match number {
            Number::Integer => match random.below(5) {
                0 => random.pick(&EDGES).to_string(),
                _ => random.between(-20, 20).to_string(),
            },
            Number::Float => float(random),
            Number::Index => match random.below(8) {
                0 => random.between(-1000, 1000).to_string(),
                1..=4 => random.between(-2, 3).to_string(),
                _ => random.between(-8, 8).to_string(),
            },
            Number::Count => match random.below(10) {
                0 => "0".to_owned(),
                1 => random.between(-5, -1).to_string(),
                2 => (self.members / 2).to_string(),
                3 => self.members.to_string(),
                _ => random.between(1, 5).to_string(),
            },
            Number::Positive => random.between(1, 6).to_string(),
            Number::Offset => match random.below(10) {
                0 => random.between(-5, -1).to_string(),
                1 => random.between(500, 5000).to_string(),
                _ => random.between(0, 70).to_string(),
            },
            Number::Bit => match random.below(10) {
                0 => random.between(4000, 40_000).to_string(),
                _ => random.between(0, 200).to_string(),
            },
            Number::BitType => random
                .pick(&[
                    "u1", "u4", "u8", "i5", "i8", "u16", "i32", "u63", "i64", "i63", "u64", "i65",
                    "x8", "u0",
                ])
                .to_string(),
            Number::BitFieldOffset => match random.below(4) {
                0 => format!("#{}", random.below(12)),
                _ => random.below(100).to_string(),
            },
            Number::Score => score(random),
            Number::ScoreBound => match random.below(6) {
                0 => random.pick(&["-inf", "+inf", "(inf", "(-inf"]).to_string(),
                1 | 2 => format!("({}", score(random)),
                _ => score(random),
            },
            Number::Weight => random.pick(&["1", "2", "0", "-1", "0.5", "inf", "1e3"]).to_string(),
        }
    }

    pub(super) fn time(&self, time: Time, random: &mut Random) -> String {
        let past_or = |random: &mut Random, ahead: i64| match random.below(12) {
            0 => 1,
            1 => 0,
            2 => -1,
            _ => ahead,
        };
        match time {
            Time::Seconds => random.between(100_000, 900_000_000).to_string(),
            Time::Ms => random.between(100_000_000, 900_000_000_000).to_string(),
            Time::AtSeconds => {
                let ahead = *random.pick(&[4_000_000_000, 5_000_000_000, 6_000_000_000]);
                past_or(random, ahead).to_string()
            }
            Time::AtMs => {
                let ahead =
                    *random.pick(&[4_000_000_000_000, 5_000_000_000_500, 6_000_000_000_999]);
                past_or(random, ahead).to_string()
            }
            Time::Blink => random.between(1, 3).to_string(),
            Time::WaitSeconds if self.waits => "0".to_owned(),
            Time::WaitSeconds => random.pick(&["0.001", "0.002", "1e-3", "-1", "x"]).to_string(),
            Time::WaitMs if self.waits => "0".to_owned(),
            Time::WaitMs => random.pick(&["1", "2", "-1", "x"]).to_string(),
            Time::IdleMs => random.pick(&["0", "0", "1000000000000"]).to_string(),
        }
    }
}

/// Integers of all sizes: where the next size begins, both sides come.
fn integer_member(index: usize) -> i64 {
    match index % 4 {
        3 => EDGES[index / 4 % EDGES.len()],
        2 => -(index as i64),
        _ => index as i64,
    }
}

fn padded(index: usize, len: usize) -> Vec<u8> {
    let mut text = index.to_string().into_bytes();
    text.resize(len, b'p');
    text
}

fn float(random: &mut Random) -> String {
    let given =
        ["3.0e3", "1e-7", "123456789.123456789", "0.1", "-0.0", "1e17", "5e-324", "1.7e308"];
    match random.below(4) {
        0 => random.pick(&given).to_string(),
        1 => format!("{}.{}", random.between(-9, 9), random.below(1000)),
        2 => random.between(-20, 20).to_string(),
        _ => format!("{}", random.between(-1000, 1000) as f64 / 8.0),
    }
}

fn score(random: &mut Random) -> String {
    let given = [
        "inf",
        "-inf",
        "1e308",
        "-1e308",
        "9007199254740993",
        "0.1",
        "1.0000000000000002",
        "1e-10",
        "-0",
    ];
    match random.below(8) {
        0 => random.pick(&given).to_string(),
        1 => float(random),
        2 => format!("{}.5", random.between(-5, 5)),
        _ => random.between(-6, 6).to_string(),
    }
}

const PATTERNS: [&str; 20] = [
    "*", "?", "m*", "*1*", "[ab]*", "[^m]*", "[0-5]*", "??", "\\*", "*[", "s:*", "?:0", "h*", "",
    "-*", "*p", "[z-a]:?", "[\\]]*", "**1**", "k:*",
];

fn pattern(random: &mut Random) -> &'static str {
    PATTERNS[random.below(PATTERNS.len())]
}
