//! The 80-bit floating-point numbers of x86-64, in which Redis computes INCRBYFLOAT.
//!
//! Clients see the arithmetic in the text: 128 + 0.1 is `128.10000000000000001`. Parsing and
//! addition are `rustc_apfloat`'s; the text is `%.17Lf` without the zeros at its end.

use rustc_apfloat::ieee::X87DoubleExtended;
use rustc_apfloat::{Float, Round, Status};

/// The longest text that is read; Redis's limit.
const TEXT_LEN_MAX: usize = 5 * 1024 - 1;

/// Digits behind the point.
const FRACTION_DIGITS: usize = 17;

/// An extended-precision number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Float80(X87DoubleExtended);

impl Float80 {
    /// An integer, exactly.
    pub fn from_i64(value: i64) -> Self {
        Self(X87DoubleExtended::from_i128(i128::from(value)).value)
    }

    /// Reads a whole text as C's `strtold` does: decimal or hexadecimal, `inf`, `infinity`. Not a
    /// number, a number out of range, or one too small to tell from zero are refused, as by Redis.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.is_empty() || text.len() > TEXT_LEN_MAX {
            return None;
        }
        let text = std::str::from_utf8(text).ok()?;
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let negative = text.starts_with('-');
        if unsigned.eq_ignore_ascii_case("inf") || unsigned.eq_ignore_ascii_case("infinity") {
            let infinity = X87DoubleExtended::INFINITY;
            return Some(Self(if negative { -infinity } else { infinity }));
        }
        let literal = literal(unsigned)?;
        let parsed = X87DoubleExtended::from_str_r(&literal, Round::NearestTiesToEven).ok()?;
        if parsed.status.contains(Status::OVERFLOW)
            || (parsed.status.contains(Status::UNDERFLOW) && parsed.value.is_zero())
        {
            return None;
        }
        Some(Self(if negative { -parsed.value } else { parsed.value }))
    }

    /// Whether it is neither infinite nor not a number.
    pub fn is_finite(self) -> bool {
        self.0.is_finite()
    }

    /// The text: at most 17 digits behind the point, without zeros at the end.
    pub fn to_text(self) -> String {
        if self.0.is_nan() {
            return "nan".to_owned();
        }
        let sign = if self.0.is_negative() { "-" } else { "" };
        if self.0.is_infinite() {
            return format!("{sign}inf");
        }
        let bits = self.0.to_bits();
        let (mantissa, exponent) = (bits as u64, (bits >> 64) as i32 & 0x7fff);
        // The mantissa's last bit is worth two to this power; denormals share the smallest one.
        let power = exponent.max(1) - 16383 - 63;
        let digits = if power >= 0 {
            shifted_digits(mantissa, power as u32)
        } else {
            fraction_digits(mantissa, power.unsigned_abs())
        };
        if digits == "0" { digits } else { format!("{sign}{digits}") }
    }
}

impl std::ops::Add for Float80 {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self((self.0 + other.0).value)
    }
}

/// A number without sign in a form that the parser takes, if it is one at all.
fn literal(text: &str) -> Option<String> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (body, mark, radix) = match hex {
        Some(rest) => (rest, ['p', 'P'], 16),
        None => (text, ['e', 'E'], 10),
    };
    let (mantissa, exponent) = match body.split_once(mark) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (body, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |digits: &str| digits.chars().all(|c| c.is_digit(radix));
    if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let exponent = match exponent {
        None => 0,
        Some(exponent) => {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            // Beyond this every number is out of range anyway.
            let magnitude = digits.parse::<i64>().unwrap_or(i64::MAX).min(100_000);
            if exponent.starts_with('-') { -magnitude } else { magnitude }
        }
    };
    let (prefix, mark) = if radix == 16 { ("0x", 'p') } else { ("", 'e') };
    let point = if fraction.is_empty() { "" } else { "." };
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(format!("{prefix}{whole}{point}{fraction}{mark}{exponent}"))
}

/// Decimal digits of `mantissa * 2^power`.
fn shifted_digits(mantissa: u64, power: u32) -> String {
    const LIMB: u64 = 1_000_000_000;
    let mut limbs = vec![mantissa % LIMB, mantissa / LIMB % LIMB, mantissa / LIMB / LIMB];
    let mut left = power;
    while left > 0 {
        let shift = left.min(29);
        let mut carry = 0;
        for limb in &mut limbs {
            let value = (*limb << shift) + carry;
            *limb = value % LIMB;
            carry = value / LIMB;
        }
        if carry > 0 {
            limbs.push(carry);
        }
        left -= shift;
    }
    let text: String = limbs.iter().rev().map(|limb| format!("{limb:09}")).collect();
    let trimmed = text.trim_start_matches('0');
    if trimmed.is_empty() { "0".to_owned() } else { trimmed.to_owned() }
}

/// Decimal digits of `mantissa / 2^power`, rounded to the nearest (ties to even) 17th digit.
fn fraction_digits(mantissa: u64, power: u32) -> String {
    // The product has at most 121 bits.
    let scaled = u128::from(mantissa) * 10u128.pow(FRACTION_DIGITS as u32);
    let rounded = if power >= 127 {
        0
    } else {
        let (quotient, rest) = (scaled >> power, scaled & ((1 << power) - 1));
        let half = 1u128 << (power - 1);
        quotient + u128::from(rest > half || (rest == half && quotient % 2 == 1))
    };
    let digits = format!("{rounded:0>width$}", width = FRACTION_DIGITS + 1);
    let (whole, fraction) = digits.split_at(digits.len() - FRACTION_DIGITS);
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(left: &str, right: &str, expected: &str) {
        let parse = |text: &str| Float80::parse(text.as_bytes()).expect("a number");
        assert_eq!((parse(left) + parse(right)).to_text(), expected, "{left} + {right}");
    }

    #[test]
    fn sums_of_redis() {
        check("128", "0.1", "128.10000000000000001");
        check("127", "0.1", "127.1");
        check("3", "1.1", "4.1");
        check("1.5", "-1.5", "0");
        check("0", "-0.0", "0");
        check("1e20", "0", "100000000000000000000");
        check("0x10", "0x.8p1", "17");
        check(".5", "5.", "5.5");
        check("17179869184", "1", "17179869185");
        check("-1e-18", "0", "0");
        check("5e-18", "0", "0");
        check("5.1e-18", "0", "0.00000000000000001");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            " 1",
            "1 ",
            "1x",
            "nan",
            "e5",
            "1e",
            ".",
            "-",
            "+-1",
            "0x",
            "1e100000",
            "1e-100000",
            "1\0",
        ] {
            assert_eq!(Float80::parse(text.as_bytes()), None, "{text}");
        }
        assert!(!Float80::parse(b"-Infinity").expect("an infinity").is_finite());
    }
}
