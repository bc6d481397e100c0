//! The words of a round: few keys and few members, so that commands meet; numbers and lengths
//! around every boundary; and some of everything that is wrong.
//!
//! Times are drawn so that an answer never hangs on the moment: either far in the future, or past,
//! or a blink (a few milliseconds) that the plan follows with a pause. A relative time is drawn
//! from so many that none comes twice, so that GT and LT never compare two equal ones.

mod places;
mod texts;

use crate::random::Random;

/// Types of values, and two kinds of string that are worth telling apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Plain strings.
    String,
    /// Strings used as bitmaps.
    Bits,
    /// HyperLogLogs.
    HyperLogLog,
    /// Lists.
    List,
    /// Sets.
    Set,
    /// Hashes.
    Hash,
    /// Sorted sets.
    SortedSet,
    /// Sorted sets of places.
    Geo,
    /// Streams.
    Stream,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::String,
        Self::Bits,
        Self::HyperLogLog,
        Self::List,
        Self::Set,
        Self::Hash,
        Self::SortedSet,
        Self::Geo,
        Self::Stream,
    ];

    fn prefix(self) -> &'static str {
        match self {
            Self::String => "s",
            Self::Bits => "b",
            Self::HyperLogLog => "p",
            Self::List => "l",
            Self::Set => "u",
            Self::Hash => "h",
            Self::SortedSet => "z",
            Self::Geo => "g",
            Self::Stream => "x",
        }
    }
}

/// Where a word comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// A key, mostly of this kind.
    Key(Kind),
    /// A key of the family that the round tries.
    Own,
    /// A key of any kind.
    Any,
    /// One of many keys, for scans.
    Numbered,
    /// A key that only holds short strings.
    Tiny,
    /// A sorted set whose scores are all equal.
    Lex,
    /// A key that SORT reads weights from.
    Weight,
    /// A text.
    Text(texts::Text),
    /// A number.
    Number(texts::Number),
    /// A time.
    Time(texts::Time),
    /// Something on the earth, or a part of a stream.
    Place(places::Place),
}

impl Pool {
    /// The pool that templates call so.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "string" => Self::Key(Kind::String),
            "bits" => Self::Key(Kind::Bits),
            "hll" => Self::Key(Kind::HyperLogLog),
            "list" => Self::Key(Kind::List),
            "set" => Self::Key(Kind::Set),
            "hash" => Self::Key(Kind::Hash),
            "zset" => Self::Key(Kind::SortedSet),
            "geo" => Self::Key(Kind::Geo),
            "stream" => Self::Key(Kind::Stream),
            "own" => Self::Own,
            "any" => Self::Any,
            "numbered" => Self::Numbered,
            "tiny" => Self::Tiny,
            "lex-key" => Self::Lex,
            "weight-key" => Self::Weight,
            other => {
                return texts::Text::named(other)
                    .map(Self::Text)
                    .or_else(|| texts::Number::named(other).map(Self::Number))
                    .or_else(|| texts::Time::named(other).map(Self::Time))
                    .or_else(|| places::Place::named(other).map(Self::Place));
            }
        })
    }

    /// Whether it is a time a few milliseconds ahead.
    pub fn is_blink(self) -> bool {
        self == Self::Time(texts::Time::Blink)
    }

    /// Whether it is a time for which a command may block.
    pub fn is_wait(self) -> bool {
        matches!(self, Self::Time(texts::Time::WaitSeconds | texts::Time::WaitMs))
    }

    /// Whether it is a time of any sort, so that its neighbours must stay where they are.
    pub fn is_time(self) -> bool {
        matches!(self, Self::Time(_))
    }
}

/// How the thresholds of encodings stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// So low that a handful of members crosses them.
    Low,
    /// As Redis sets them.
    Default,
    /// So high that nothing crosses them.
    High,
}

impl Level {
    /// The directives that set the thresholds, and what else a round relies on.
    pub fn directives(self) -> Vec<(&'static str, &'static str)> {
        let column = self as usize;
        let rows: [(&str, [&str; 3]); 12] = [
            ("list-max-listpack-size", ["3", "-2", "-5"]),
            ("hash-max-listpack-entries", ["4", "512", "5000"]),
            ("hash-max-listpack-value", ["8", "64", "5000"]),
            ("set-max-intset-entries", ["4", "512", "5000"]),
            ("set-max-listpack-entries", ["4", "128", "5000"]),
            ("set-max-listpack-value", ["8", "64", "5000"]),
            ("zset-max-listpack-entries", ["4", "128", "5000"]),
            ("zset-max-listpack-value", ["8", "64", "5000"]),
            ("stream-node-max-entries", ["3", "100", "1000"]),
            ("stream-node-max-bytes", ["200", "4096", "0"]),
            ("hll-sparse-max-bytes", ["40", "3000", "16000"]),
            // Fields that are due are counted until a turn of the clock removes them.
            ("hz", ["500", "500", "500"]),
        ];
        rows.into_iter().map(|(name, values)| (name, values[column])).collect()
    }

    /// Length of a member from which a listpack no longer holds it.
    fn value_len(self) -> usize {
        match self {
            Self::Low => 8,
            Self::Default | Self::High => 64,
        }
    }
}

/// What a round draws from.
#[derive(Clone, Debug)]
pub struct Material {
    level: Level,
    /// Kind of the keys called `own`.
    own: Kind,
    /// Distinct members and fields.
    members: usize,
    /// Most repetitions of a repeated part.
    bulk_max: usize,
    /// Whether members are integers, but for rare others.
    integers: bool,
    /// Milliseconds of the newest stream entry so far.
    stream_ms: i64,
    /// Whether blocking commands shall wait without end.
    pub waits: bool,
}

/// Keys of each kind.
const KEYS: usize = 6;

impl Material {
    /// Material whose sizes suit the thresholds.
    pub fn new(level: Level, random: &mut Random) -> Self {
        let (members, bulk_max) = match level {
            Level::Low => (12, 4),
            Level::Default if random.once_in(2) => (700, 200),
            Level::Default => (24, 6),
            Level::High => (*random.pick(&[10, 300]), 100),
        };
        let integers = random.once_in(2);
        let own = Kind::String;
        Self { level, own, members, bulk_max, integers, stream_ms: 1, waits: false }
    }

    /// The same with `own` keys of this kind.
    pub fn of(mut self, own: Kind) -> Self {
        self.own = own;
        self
    }

    /// How often a repeated part comes.
    pub fn repeats(&self, random: &mut Random) -> usize {
        match random.below(16) {
            0 => 1 + random.below(self.bulk_max),
            1..=7 => 1,
            _ => 1 + random.below(self.bulk_max.min(4)),
        }
    }

    /// Appends what is drawn from a pool.
    pub fn draw(&mut self, pool: Pool, random: &mut Random, out: &mut Vec<Vec<u8>>) {
        let word = match pool {
            Pool::Key(kind) => self.key(kind, random),
            Pool::Own => self.key(self.own, random),
            Pool::Any => match random.once_in(8) {
                true => b"r:0".to_vec(),
                false => any_key(random),
            },
            Pool::Numbered => format!("k:{}", random.below(self.members * 2)).into_bytes(),
            Pool::Tiny => format!("t:{}", random.below(3)).into_bytes(),
            Pool::Lex => format!("y:{}", random.below(3)).into_bytes(),
            Pool::Weight => format!("w_{}", random.below(12)).into_bytes(),
            Pool::Text(text) => self.text(text, random),
            Pool::Number(number) => self.number(number, random).into_bytes(),
            Pool::Time(time) => self.time(time, random).into_bytes(),
            Pool::Place(place) => return self.place(place, random, out),
        };
        out.push(word);
    }

    /// Mostly a key of the kind, rarely of another one or none.
    fn key(&self, kind: Kind, random: &mut Random) -> Vec<u8> {
        match random.below(60) {
            0 | 1 => any_key(random),
            2 => b"missing".to_vec(),
            _ => key_of(kind, random),
        }
    }
}

fn any_key(random: &mut Random) -> Vec<u8> {
    key_of(*random.pick(&Kind::ALL), random)
}

fn key_of(kind: Kind, random: &mut Random) -> Vec<u8> {
    let index = random.below(KEYS);
    match (kind, index) {
        // Keys are bytes like any other.
        (Kind::String, 5) => Vec::new(),
        (Kind::Hash, 5) => b"h:\x00\xff\r\n5".to_vec(),
        _ => format!("{}:{index}", kind.prefix()).into_bytes(),
    }
}

/// A key of a kind that is there in every round, for a start with values of all types.
pub fn first_key(kind: Kind) -> Vec<u8> {
    format!("{}:0", kind.prefix()).into_bytes()
}

/// A word that is wrong almost everywhere. Calm ones are no numbers. None is a small positive
/// number, which could be taken for a time or a size.
pub fn hostile(random: &mut Random, calm: bool) -> Vec<u8> {
    const NUMBERS: [&[u8]; 14] = [
        b"-1",
        b"0",
        b"-9223372036854775809",
        b"-9223372036854775808",
        b"9223372036854775807",
        b"9223372036854775808",
        b"18446744073709551616",
        b"1.5",
        b"-0",
        b"00",
        b"+1",
        b" 1",
        b"1e400",
        b"0x10",
    ];
    const OTHERS: [&[u8]; 8] = [b"", b"abc", b"nan", b"-nan", b"inf", b"\x00\xff\xfe", b"(", b"1-"];
    match random.below(12) {
        0 => vec![b'y'; 300],
        1..=5 if !calm => random.pick(&NUMBERS).to_vec(),
        _ => random.pick(&OTHERS).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_set_for_each_level() {
        for level in [Level::Low, Level::Default, Level::High] {
            assert!(level.directives().contains(&("hz", "500")));
        }
        assert!(Level::Low.directives().contains(&("hash-max-listpack-value", "8")));
    }

    #[test]
    fn keys_are_mostly_of_their_kind() {
        let mut random = Random::new(3);
        let mut material = Material::new(Level::Low, &mut random).of(Kind::Set);
        let mut words = Vec::new();
        for _ in 0..1000 {
            material.draw(Pool::Own, &mut random, &mut words);
        }
        let own = words.iter().filter(|word| word.starts_with(b"u:")).count();
        assert!((900..1000).contains(&own), "{own}");
    }

    #[test]
    fn hostile_words_are_neither_small_times_nor_sizes() {
        let mut random = Random::new(4);
        for _ in 0..500 {
            let word = hostile(&mut random, false);
            let number = std::str::from_utf8(&word).ok().and_then(|text| text.parse::<i64>().ok());
            // A word with a sign before it is no number to servers.
            assert!(word == b"+1" || number.is_none_or(|number| number <= 0 || number == i64::MAX));
            let calm = hostile(&mut random, true);
            assert!(calm == b"1-" || !calm.first().is_some_and(u8::is_ascii_digit));
        }
    }
}
