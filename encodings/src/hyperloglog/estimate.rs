//! From registers to a count: Ertl's estimator ("New cardinality estimation algorithms for
//! HyperLogLog sketches", arXiv:1702.01284).
//!
//! The order of the floating-point operations is Redis's, so that both give the same number.

use super::{REGISTER_BITS, REGISTERS};

/// The highest value that an element can give a register, less one.
const ZEROS_MAX: usize = (u64::BITS - REGISTER_BITS) as usize;
/// 0.5 / ln(2).
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// How many registers have each value.
pub(super) struct Histogram([[u32; 64]; LANES]);

/// Registers side by side often have the same value: counters of their own spare them waiting for
/// one another.
const LANES: usize = 4;

impl Default for Histogram {
    fn default() -> Self {
        Self([[0; 64]; LANES])
    }
}

impl Histogram {
    pub(super) fn add(&mut self, value: u8, registers: u32) {
        self.0[0][usize::from(value % 64)] += registers;
    }

    pub(super) fn add_all(&mut self, values: &[u8; REGISTERS]) {
        let (values, _) = values.as_chunks::<LANES>();
        for values in values {
            for (lane, value) in self.0.iter_mut().zip(values) {
                lane[usize::from(value % 64)] += 1;
            }
        }
    }

    fn at(&self, value: usize) -> f64 {
        self.0.iter().map(|lane| lane[value]).sum::<u32>().into()
    }
}

pub(super) fn estimate(histogram: &Histogram) -> u64 {
    let registers = REGISTERS as f64;
    let mut sum = registers * tau((registers - histogram.at(ZEROS_MAX + 1)) / registers);
    for value in (1..=ZEROS_MAX).rev() {
        sum += histogram.at(value);
        sum *= 0.5;
    }
    sum += registers * sigma(histogram.at(0) / registers);
    let estimate = (ALPHA * registers * registers / sum).round();
    // Foreign registers may leave nothing to divide by; Redis's count is this then.
    if estimate < i64::MAX as f64 { estimate as u64 } else { 1 << 63 }
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut factor, mut sum) = (1.0, x);
    loop {
        let before = sum;
        x *= x;
        sum += x * factor;
        factor += factor;
        if sum == before {
            return sum;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut factor, mut sum) = (1.0, 1.0 - x);
    loop {
        let before = sum;
        x = x.sqrt();
        factor *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * factor;
        if sum == before {
            return sum / 3.0;
        }
    }
}
