//! A seeded generator: the same seed, the same numbers, on every machine.

/// xorshift64* (Vigna 2016).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator; near seeds give unlike sequences.
    pub fn new(seed: u64) -> Self {
        let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((mixed ^ (mixed >> 31)) | 1)
    }

    /// The next word of 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        debug_assert!(limit > 0);
        ((u128::from(self.word()) * limit as u128) >> 64) as usize
    }

    /// A number from `first` up to and with `last`.
    pub fn between(&mut self, first: i64, last: i64) -> i64 {
        first + self.below((last - first) as usize + 1) as i64
    }

    /// True once in `of` times.
    pub fn once_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_from_the_seed_and_stay_in_bounds() {
        let (mut one, mut same, mut other) = (Random::new(1), Random::new(1), Random::new(2));
        assert_eq!(one.word(), same.word());
        assert_ne!(one.word(), other.word());
        for _ in 0..1000 {
            assert!(one.below(7) < 7);
            assert!((-3..=3).contains(&one.between(-3, 3)));
        }
    }
}
