//! The text of doubles, as scores and RESP3 doubles show it.
//!
//! The shortest digits that read back as the same number, in Redis's layout: whole numbers and
//! short fractions in full, an exponent with its sign otherwise (`1e+20`, `1e-7`).

use crate::integer::{TEXT_LEN_MAX, format_i64};

/// Whole numbers up to here are printed with all their digits, beyond those that tell them apart.
const INTEGER_MAX: f64 = (1i64 << 62) as f64;

/// The text of a double.
pub fn format(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value == 0.0 {
        return format!("{sign}0");
    }
    if value.trunc() == value && value.abs() <= INTEGER_MAX {
        let mut room = [0; TEXT_LEN_MAX];
        let text = format_i64(value as i64, &mut room);
        return text.iter().map(|byte| char::from(*byte)).collect();
    }
    let (digits, exponent) = shortest(value.abs());
    format!("{sign}{}", layout(&digits, exponent))
}

/// The shortest digits and the power of ten of their last one.
fn shortest(value: f64) -> (String, i32) {
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut exponent = exponent.parse::<i32>().unwrap_or(0) - fraction.len() as i32;
    let mut digits = format!("{whole}{fraction}").trim_start_matches('0').to_owned();
    while digits.len() > 1 && digits.ends_with('0') {
        digits.pop();
        exponent += 1;
    }
    (digits, exponent)
}

fn layout(digits: &str, exponent: i32) -> String {
    let len = digits.len() as i32;
    let magnitude = exponent + len - 1;
    if exponent >= 0 && magnitude < len + 7 {
        return format!("{digits}{}", "0".repeat(exponent as usize));
    }
    if exponent < 0 && (exponent > -7 || magnitude.abs() < 4) {
        let point = len + exponent;
        return if point <= 0 {
            format!("0.{}{digits}", "0".repeat(-point as usize))
        } else {
            let (whole, fraction) = digits.split_at(point as usize);
            format!("{whole}.{fraction}")
        };
    }
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    format!("{first}{point}{rest}e{magnitude:+}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_redis() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (3.125, "3.125"),
            (0.1, "0.1"),
            (1e20, "1e+20"),
            (12_345_678_901_234_567_000.0, "12345678901234567000"),
            (0.00001, "0.00001"),
            (0.000_000_1, "1e-7"),
            (1e15, "1000000000000000"),
            (2.68e17, "268000000000000000"),
            (2.5086448924018723e17, "250864489240187232"),
            (-4611686018427387904.0, "-4611686018427387904"),
            (4611686018427388928.0, "4611686018427389000"),
            (123_456_789_012.0, "123456789012"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(format(value), expected);
        }
    }
}
