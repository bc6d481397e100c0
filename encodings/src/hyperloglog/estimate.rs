//! From registers to a count: Ertl's estimator ("New cardinality estimation algorithms for
//! HyperLogLog sketches", arXiv:1702.01284).
//!
//! The order of the floating-point operations is Redis's, so that both give the same number.

use super::{REGISTER_BITS, REGISTERS, pairs};

/// The highest value that an element can give a register, less one.
const ZEROS_MAX: usize = (u64::BITS - REGISTER_BITS) as usize;
/// 0.5 / ln(2).
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// How many registers have each value.
///
/// Registers of a dense string are counted in pairs, as fewer counters are written to then; they
/// have two tables in turn, which spares equal pairs waiting for one another.
pub(super) struct Histogram {
    single: [u32; VALUES],
    pairs: Option<Box<[[[u16; VALUES]; VALUES]; 2]>>,
}

/// Values that six bits can have.
const VALUES: usize = 64;

impl Default for Histogram {
    fn default() -> Self {
        Self { single: [0; VALUES], pairs: None }
    }
}

impl Histogram {
    pub(super) fn add(&mut self, value: u8, registers: u32) {
        self.single[usize::from(value) % VALUES] += registers;
    }

    /// Adds the registers of a dense string.
    pub(super) fn add_packed(&mut self, packed: &[u8]) {
        let tables = self.pairs.get_or_insert_with(no_pairs);
        for &[a, b, c] in packed.as_chunks().0 {
            let four = u32::from_le_bytes([a, b, c, 0]);
            add_pair(&mut tables[0], four & 0xfff);
            add_pair(&mut tables[1], four >> 12);
        }
    }

    /// Adds all registers, a byte each.
    pub(super) fn add_all(&mut self, values: &[u8; REGISTERS]) {
        let tables = self.pairs.get_or_insert_with(no_pairs);
        for values in values.as_chunks().0 {
            let four = pairs(*values);
            if four == 0 {
                self.single[0] += values.len() as u32;
                continue;
            }
            for pair in 0..4 {
                add_pair(&mut tables[pair % 2], (four >> (16 * pair)) as u32 & 0xfff);
            }
        }
    }

    /// The registers of each value. No table has more pairs than fit its counters' type.
    fn totals(&self) -> [u32; VALUES] {
        let mut totals = self.single;
        for rows in self.pairs.iter().flat_map(|tables| tables.iter()) {
            let mut low = [0u16; VALUES];
            for (total, row) in totals.iter_mut().zip(rows) {
                let high: u16 = row.iter().sum();
                if high > 0 {
                    *total += u32::from(high);
                    low.iter_mut().zip(row).for_each(|(low, pairs)| *low += pairs);
                }
            }
            totals.iter_mut().zip(low).for_each(|(total, low)| *total += u32::from(low));
        }
        totals
    }
}

fn no_pairs() -> Box<[[[u16; VALUES]; VALUES]; 2]> {
    Box::new([[[0; VALUES]; VALUES]; 2])
}

#[inline(always)]
fn add_pair(table: &mut [[u16; VALUES]; VALUES], pair: u32) {
    let pair = pair as usize;
    table[pair / VALUES % VALUES][pair % VALUES] += 1;
}

pub(super) fn estimate(histogram: &Histogram) -> u64 {
    let registers = REGISTERS as f64;
    let totals = histogram.totals();
    let of = |value: usize| f64::from(totals[value]);
    let mut sum = registers * tau((registers - of(ZEROS_MAX + 1)) / registers);
    for value in (1..=ZEROS_MAX).rev() {
        sum += of(value);
        sum *= 0.5;
    }
    sum += registers * sigma(of(0) / registers);
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
