//! Doubles and their texts, as scores and RESP3 doubles show them.
//!
//! Redis's texts read back as the same number and are nearly always the shortest that do, but not
//! always (`4e23` is printed as `399999999999999970000000`), so this must be the same algorithm:
//! Grisu2 of Florian Loitsch ("Printing Floating-Point Numbers Quickly and Accurately with
//! Integers", 2010). In outline:
//!
//! 1. The number and the two points halfway to its neighbours are scaled by a power of ten, kept
//!    to 64 bits, so that their binary exponent falls in a range where the digits before the
//!    point fit in 32 bits.
//! 2. Digits of the upper point are made, until what is left of it is less than the distance of
//!    the two points: the number of those digits lies between them.
//! 3. The last digit is counted down while that brings it closer to the number.

use std::sync::LazyLock;

use rustc_apfloat::Float;
use rustc_apfloat::ieee::{Double, X87DoubleExtended};

use crate::integer::{TEXT_LEN_MAX, format_i64};
use crate::literal::{Finite, Literal};

/// Whole numbers up to here are printed with all their digits, beyond those that tell them apart.
const INTEGER_MAX: f64 = (1i64 << 62) as f64;

/// The text of a double.
pub fn format(value: f64) -> String {
    if value != 0.0 && value.trunc() == value && value.abs() <= INTEGER_MAX {
        let mut room = [0; TEXT_LEN_MAX];
        return format_i64(value as i64, &mut room).iter().map(|byte| char::from(*byte)).collect();
    }
    format_short(value)
}

/// The text of a double where whole numbers are not told apart: `1e+9`, but `123456789012`.
pub fn format_short(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_infinite() {
        return format!("{sign}inf");
    }
    if value == 0.0 {
        return format!("{sign}0");
    }
    let mut room = [0; TEXT_LEN_MAX];
    let Digits { number, exponent } = digits(value.abs());
    let mut text = String::with_capacity(32);
    text.push_str(sign);
    layout(&mut text, format_i64(number as i64, &mut room), exponent);
    text
}

/// The text of a double as C's `%.17g` prints it: more digits than tell it apart.
pub fn format_17g(value: f64) -> String {
    const DIGITS: i32 = 17;
    if !value.is_finite() || value == 0.0 {
        return format(value);
    }
    let scientific = format!("{value:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("the format has a number there");
    let strip = |text: &str| text.trim_end_matches('0').trim_end_matches('.').to_owned();
    if (-4..DIGITS).contains(&exponent) {
        let decimals = (DIGITS - 1 - exponent) as usize;
        let text = format!("{value:.decimals$}");
        return if decimals > 0 { strip(&text) } else { text };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", strip(mantissa), exponent.abs())
}

/// Reads a whole text as C's `strtod` does: decimal or hexadecimal, `inf`, `infinity`. Not a
/// number, a number out of range, or one too small to tell from zero are refused, as by Redis.
pub fn parse(text: &[u8]) -> Option<f64> {
    let (magnitude, is_negative) = match Literal::parse(text)? {
        Literal::Infinity { is_negative } => (f64::INFINITY, is_negative),
        Literal::Finite(finite) => (parse_finite(finite, text)?, finite.is_negative),
    };
    Some(if is_negative { -magnitude } else { magnitude })
}

fn parse_finite(finite: Finite<'_>, text: &[u8]) -> Option<f64> {
    let value = if finite.is_hex {
        let parsed = finite.to_text().parse::<Double>().ok()?;
        f64::from_bits(parsed.to_bits() as u64)
    } else {
        std::str::from_utf8(text).ok()?.parse::<f64>().ok()?.abs()
    };
    let is_lost = value == 0.0 && !finite.is_zero();
    (value.is_finite() && !is_lost).then_some(value)
}

/// `number * 10^exponent`, of at most 17 digits.
struct Digits {
    number: u64,
    exponent: i32,
}

/// `fraction * 2^exponent`.
#[derive(Clone, Copy)]
struct Scaled {
    fraction: u64,
    exponent: i32,
}

impl Scaled {
    fn of(value: f64) -> Self {
        let bits = value.to_bits();
        let fraction = bits & (HIDDEN_BIT - 1);
        match (bits >> 52) as i32 & 0x7ff {
            0 => Self { fraction, exponent: 1 - EXPONENT_BIAS },
            biased => Self { fraction: fraction | HIDDEN_BIT, exponent: biased - EXPONENT_BIAS },
        }
    }

    /// The same number with the highest bit set.
    fn normalized(self) -> Self {
        let up = self.fraction.leading_zeros();
        Self { fraction: self.fraction << up, exponent: self.exponent - up as i32 }
    }

    /// The points halfway to the neighbours below and above, with the latter's exponent when
    /// normalized. At a power of two the neighbour below is half as far away.
    fn halfway(self) -> (Self, Self) {
        let upper =
            Self { fraction: self.fraction * 2 + 1, exponent: self.exponent - 1 }.normalized();
        let up = if self.fraction == HIDDEN_BIT { 2 } else { 1 };
        let (fraction, exponent) = ((self.fraction << up) - 1, self.exponent - up);
        let lower = fraction << (exponent - upper.exponent);
        (Self { fraction: lower, exponent: upper.exponent }, upper)
    }

    /// The product, its lower half rounded away.
    fn times(self, other: Self) -> Self {
        let product = u128::from(self.fraction) * u128::from(other.fraction) + (1 << 63);
        Self { fraction: (product >> 64) as u64, exponent: self.exponent + other.exponent + 64 }
    }
}

const HIDDEN_BIT: u64 = 1 << 52;
const EXPONENT_BIAS: i32 = 1023 + 52;

/// Every eighth power of ten, from this one.
const POWER_FIRST: i32 = -348;
const POWER_STEP: i32 = 8;
const POWER_COUNT: i32 = 87;

/// Bounds of the exponent that scaling leads to.
const SCALED_MIN: i32 = -60;
const SCALED_MAX: i32 = -32;

/// The powers, rounded to 64 bits: what an 80-bit number has.
static POWERS: LazyLock<Vec<Scaled>> = LazyLock::new(|| {
    let power = |index| {
        let text = format!("1e{}", POWER_FIRST + index * POWER_STEP);
        let bits = text.parse::<X87DoubleExtended>().map_or(0, Float::to_bits);
        let biased = (bits >> 64) as i32;
        Scaled { fraction: bits as u64, exponent: biased - 16383 - 63 }
    };
    (0..POWER_COUNT).map(power).collect()
});

/// A power of ten that scales a normalized number with this exponent into the bounds, and its
/// decimal exponent. Where two do, which one is taken shows in the digits.
fn scale_for(exponent: i32) -> (Scaled, i32) {
    // An estimate of the decimal exponent, cut towards zero.
    let estimate = (f64::from(-(exponent + POWER_COUNT)) * std::f64::consts::LOG10_2) as i32;
    let mut index = (estimate - POWER_FIRST) / POWER_STEP;
    loop {
        let power = POWERS[index as usize];
        let scaled = exponent + power.exponent + 64;
        if scaled < SCALED_MIN {
            index += 1;
        } else if scaled > SCALED_MAX {
            index -= 1;
        } else {
            return (power, POWER_FIRST + index * POWER_STEP);
        }
    }
}

/// The digits of a positive finite number.
fn digits(value: f64) -> Digits {
    let value = Scaled::of(value);
    let (lower, upper) = value.halfway();
    let (scale, decimal_exponent) = scale_for(upper.exponent);
    let value = value.normalized().times(scale);
    // The products are off by up to one unit; the points move inwards by that.
    let lower = lower.times(scale).fraction + 1;
    let mut upper = upper.times(scale);
    upper.fraction -= 1;
    let mut digits = shortest(upper, upper.fraction - value.fraction, upper.fraction - lower);
    digits.exponent -= decimal_exponent;
    digits
}

/// Digits of `upper` until what is left is at most `width`, then brought closer to the number,
/// which lies `below` under it. Both are in units of the last bit of `upper`.
fn shortest(upper: Scaled, below: u64, width: u64) -> Digits {
    let point = -upper.exponent as u32;
    let one = 1u64 << point;
    let (mut whole, mut part) = (upper.fraction >> point, upper.fraction & (one - 1));
    let mut number = 0;
    // The digits before the point: at most ten.
    for exponent in (0..10).rev() {
        let unit = 10u64.pow(exponent);
        number = number * 10 + whole / unit;
        whole %= unit;
        let rest = (whole << point) + part;
        if rest <= width {
            let number = closer(number, rest, below, width, unit << point);
            return Digits { number, exponent: exponent as i32 };
        }
    }
    // Those behind it, for which everything but the point moves up.
    let (mut below, mut width, mut exponent) = (below, width, 0);
    loop {
        part *= 10;
        width = width.wrapping_mul(10);
        below = below.wrapping_mul(10);
        exponent -= 1;
        number = number * 10 + (part >> point);
        part &= one - 1;
        if part < width {
            return Digits { number: closer(number, part, below, width, one), exponent };
        }
    }
}

/// Counts the last digit down while the digits, which are `rest` under the upper point, stay
/// above the lower one and come closer to the number. A step of that digit is `unit`.
fn closer(mut number: u64, mut rest: u64, below: u64, width: u64, unit: u64) -> u64 {
    while rest < below && width - rest >= unit {
        let next = rest + unit;
        if next >= below && below - rest <= next - below {
            break;
        }
        number -= 1;
        rest = next;
    }
    number
}

/// Writes digits in full or with an exponent, whichever Redis takes.
fn layout(text: &mut String, digits: &[u8], exponent: i32) {
    let push = |text: &mut String, digits: &[u8]| {
        text.extend(digits.iter().map(|digit| char::from(*digit)));
    };
    let zeros = |text: &mut String, count: i32| (0..count).for_each(|_| text.push('0'));
    let len = digits.len() as i32;
    // The exponent of the first digit.
    let leading = exponent + len - 1;
    if exponent >= 0 && leading.abs() < len + 7 {
        push(text, digits);
        zeros(text, exponent);
    } else if exponent < 0 && (exponent > -7 || leading.abs() < 4) {
        let point = len + exponent;
        if point > 0 {
            let (whole, fraction) = digits.split_at(point as usize);
            push(text, whole);
            text.push('.');
            push(text, fraction);
        } else {
            text.push_str("0.");
            zeros(text, -point);
            push(text, digits);
        }
    } else {
        let (first, rest) = digits.split_at(1);
        push(text, first);
        if !rest.is_empty() {
            text.push('.');
            push(text, rest);
        }
        text.push_str(if leading < 0 { "e-" } else { "e+" });
        push(text, format_i64(i64::from(leading.abs()), &mut [0; TEXT_LEN_MAX]));
    }
}

#[cfg(test)]
mod tests;
