//! The statistics that the tables show, and the random numbers that loads use.

/// The median of the values; the mean of the two middle ones if their count is even. `None` for
/// no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The geometric mean of positive values; `None` if there is none or one is not positive.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|value| *value <= 0.0) {
        return None;
    }
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    Some((sum / values.len() as f64).exp())
}

/// The value below which `percent` of the sorted values lie (nearest rank); 0 for none.
pub fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).or(sorted.last()).copied().unwrap_or(0.0)
}

/// A xorshift generator: fast, and the same sequence for the same seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator; a seed of 0 is replaced, since xorshift would stay there.
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed ^ 0x9E37_79B9_7F4A_7C15);
        if random.0 == 0 {
            random.0 = 1;
        }
        for _ in 0..8 {
            random.word();
        }
        random
    }

    /// The next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `limit`, which is at most 2^32 for an even spread; 0 if `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        let high = u128::from(self.word()) * u128::from(limit);
        (high >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middles_and_means() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
        let mean = geometric_mean(&[0.5, 2.0]).expect("a mean");
        assert!((mean - 1.0).abs() < 1e-12);
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, 99.0), 99.0);
        assert_eq!(percentile(&hundred, 99.9), 100.0);
    }

    #[test]
    fn random_numbers_stay_below_their_limit_and_reach_it() {
        let mut random = Random::new(7);
        let mut seen = [0; 10];
        for _ in 0..1000 {
            seen[random.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }
}
