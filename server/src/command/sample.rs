//! Samples of a collection's members, as HRANDFIELD, SRANDMEMBER and ZRANDMEMBER answer them.

use encodings::integer::parse_i64;
use engine::{Member, Members};

use super::error::{CommandError, NOT_AN_INTEGER};

/// Most members that a sample with repetitions may have; Redis takes any number, and dies of it.
const REPEATED_MAX: i64 = 1 << 27;

/// How many members, and whether one may come several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sample {
    /// So many different ones, or all.
    Different(usize),
    /// Exactly so many.
    Repeated(usize),
}

impl Sample {
    /// Reads the count of a command, whose members are answered `in_pairs` with something.
    pub(super) fn parse(text: &[u8], in_pairs: bool) -> Result<Self, CommandError> {
        let count = parse_i64(text).ok_or(NOT_AN_INTEGER)?;
        let out_of_range = CommandError::new("ERR value is out of range");
        if count >= 0 {
            if in_pairs && count > i64::MAX / 2 {
                return Err(out_of_range);
            }
            return Ok(Self::Different(count as usize));
        }
        if count == i64::MIN || count < -REPEATED_MAX {
            return Err(out_of_range);
        }
        Ok(Self::Repeated(-count as usize))
    }

    /// How many members of so many it has.
    pub(super) fn count(self, len: usize) -> usize {
        match self {
            Self::Different(count) => count.min(len),
            Self::Repeated(count) => count,
        }
    }
}

/// Calls `f` with a sample; `word` is a random number.
pub(super) fn sample<'a>(
    members: &Members<'a>,
    sample: Sample,
    word: u64,
    mut f: impl FnMut(Member<'a>),
) {
    let mut dice = Dice(word | 1);
    let len = members.len();
    match sample {
        Sample::Repeated(count) => {
            for _ in 0..count {
                if let Some(member) = members.random(dice.next()) {
                    f(member);
                }
            }
        }
        Sample::Different(count) if count >= len => members.for_each(f),
        Sample::Different(count) if !members.is_packed() && count < len / 3 => {
            few_of_many(members, count, &mut dice, f);
        }
        Sample::Different(count) => {
            // Each member is taken with the chance that exactly as many come together.
            let (mut wanted, mut left) = (count, len);
            members.for_each(|member| {
                if dice.below(left) < wanted {
                    wanted -= 1;
                    f(member);
                }
                left -= 1;
            });
        }
    }
}

/// Draws until enough different ones have come.
fn few_of_many<'a>(
    members: &Members<'a>,
    count: usize,
    dice: &mut Dice,
    mut f: impl FnMut(Member<'a>),
) {
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < count {
        let Some(member) = members.random(dice.next()) else { return };
        if seen.insert(member.name.with_text(<[u8]>::to_vec)) {
            f(member);
        }
    }
}

/// Random numbers from a first one (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        assert_eq!(Sample::parse(b"3", false), Ok(Sample::Different(3)));
        assert_eq!(Sample::parse(b"-3", true), Ok(Sample::Repeated(3)));
        assert!(Sample::parse(b"-9223372036854775808", false).is_err());
        assert!(Sample::parse(b"9223372036854775807", true).is_err());
        assert_eq!(Sample::Different(9).count(4), 4);
        assert_eq!(Sample::Repeated(9).count(4), 9);
    }
}
