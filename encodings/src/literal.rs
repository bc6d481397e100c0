//! The texts that C's `strtod` and `strtold` take for numbers, taken apart.
//!
//! ```text
//! [+-] digits [. digits] [e [+-] digits]         at least one digit before the e
//! [+-] 0x hex digits [. hex digits] [p [+-] digits]
//! [+-] inf | infinity                             letters in either case
//! ```
//!
//! The whole text must be the number: no spaces, nothing behind it. `nan` is not taken, because no
//! command takes it.

/// Exponents are cut to this magnitude, beyond which no text of an allowed length has a value
/// that any of our formats could hold.
const EXPONENT_MAX: i64 = 100_000;

/// A text that is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Literal<'a> {
    /// An infinity.
    Infinity { is_negative: bool },
    /// Anything else.
    Finite(Finite<'a>),
}

/// A number without its value being worked out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finite<'a> {
    pub(crate) is_negative: bool,
    /// Whether the digits are hexadecimal and the exponent one of two, not ten.
    pub(crate) is_hex: bool,
    /// Digits before the point; may be empty.
    whole: &'a [u8],
    /// Digits behind the point; may be empty.
    fraction: &'a [u8],
    /// The exponent as it stands in the text.
    exponent: i64,
}

impl<'a> Literal<'a> {
    /// Takes a text apart; `None` if it isn't a number.
    pub(crate) fn parse(text: &'a [u8]) -> Option<Self> {
        let (is_negative, unsigned) = split_sign(text);
        if unsigned.eq_ignore_ascii_case(b"inf") || unsigned.eq_ignore_ascii_case(b"infinity") {
            return Some(Self::Infinity { is_negative });
        }
        let (is_hex, body) = match unsigned {
            [b'0', b'x' | b'X', rest @ ..] => (true, rest),
            _ => (false, unsigned),
        };
        let is_digit = |byte: &u8| {
            if is_hex { byte.is_ascii_hexdigit() } else { byte.is_ascii_digit() }
        };
        let (whole, rest) = split_digits(body, is_digit);
        let (fraction, rest) = match rest {
            [b'.', rest @ ..] => split_digits(rest, is_digit),
            _ => (b"".as_slice(), rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let exponent = match (rest, is_hex) {
            ([], _) => 0,
            ([b'e' | b'E', exponent @ ..], false) => parse_exponent(exponent)?,
            ([b'p' | b'P', exponent @ ..], true) => parse_exponent(exponent)?,
            _ => return None,
        };
        Some(Self::Finite(Finite { is_negative, is_hex, whole, fraction, exponent }))
    }
}

impl Finite<'_> {
    /// Whether all digits are zero.
    pub(crate) fn is_zero(&self) -> bool {
        self.whole.iter().chain(self.fraction).all(|digit| *digit == b'0')
    }

    /// A decimal number as `mantissa * 10^exponent`, if the mantissa has few enough digits.
    pub(crate) fn decimal(&self) -> Option<(u128, i64)> {
        // So many digits always fit.
        const DIGITS_MAX: usize = u128::MAX.ilog10() as usize;
        if self.is_hex || self.whole.len() + self.fraction.len() > DIGITS_MAX {
            return None;
        }
        let mantissa = match (self.whole.len(), self.fraction.len()) {
            (0..=9, 0..=9) => u128::from(
                fold(self.whole) * 10u64.pow(self.fraction.len() as u32) + fold(self.fraction),
            ),
            _ => {
                let digits = self.whole.iter().chain(self.fraction);
                digits.fold(0, |value, digit| value * 10 + u128::from(digit - b'0'))
            }
        };
        Some((mantissa, self.exponent - self.fraction.len() as i64))
    }

    /// The number without its sign, in the form that parsers of floats agree on.
    pub(crate) fn to_text(self) -> String {
        let (prefix, mark) = if self.is_hex { ("0x", 'p') } else { ("", 'e') };
        let digits = |digits: &[u8]| digits.iter().map(|digit| char::from(*digit)).collect();
        let (whole, fraction): (String, String) = (digits(self.whole), digits(self.fraction));
        format!("{prefix}0{whole}.{fraction}0{mark}{}", self.exponent)
    }
}

fn fold(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'))
}

fn split_sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

fn split_digits(text: &[u8], is_digit: impl Fn(&u8) -> bool) -> (&[u8], &[u8]) {
    let len = text.iter().take_while(|byte| is_digit(byte)).count();
    text.split_at(len)
}

fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = split_sign(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let cut = |value: i64, digit: &u8| (value * 10 + i64::from(digit - b'0')).min(EXPONENT_MAX);
    let magnitude = digits.iter().fold(0, cut);
    Some(if is_negative { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, is_negative: bool, decimal: (u128, i64)) {
        match Literal::parse(text.as_bytes()) {
            Some(Literal::Finite(finite)) => {
                assert_eq!(finite.is_negative, is_negative, "{text}");
                assert_eq!(finite.decimal(), Some(decimal), "{text}");
                assert_eq!(finite.is_zero(), decimal.0 == 0, "{text}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn numbers_are_taken_apart() {
        check("12", false, (12, 0));
        check("+12.50", false, (1250, -2));
        check("-.5e3", true, (5, 2));
        check("5.E-3", false, (5, -3));
        check("-0.0", true, (0, -1));
        check("128.10000000000000001", false, (12_810_000_000_000_000_001, -17));
        check("1e99999999999999999999", false, (1, EXPONENT_MAX));
        check("1e-0000000000000000000000007", false, (1, -7));
        check(&"9".repeat(38), false, (10u128.pow(38) - 1, 0));
    }

    #[test]
    fn other_forms() {
        let infinity = |is_negative| Some(Literal::Infinity { is_negative });
        assert_eq!(Literal::parse(b"-INFinity"), infinity(true));
        assert_eq!(Literal::parse(b"+inf"), infinity(false));
        for text in ["0x1.8p-3", "0XA", "0x.8", "0x1.", &"9".repeat(39)] {
            match Literal::parse(text.as_bytes()) {
                Some(Literal::Finite(finite)) => assert_eq!(finite.decimal(), None),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn other_texts_are_no_numbers() {
        for text in [
            "",
            "+",
            "-",
            "+-1",
            ".",
            "e5",
            ".e5",
            "1e",
            "1e+",
            "1e5.",
            "1p5",
            "0x",
            "0x.",
            "0x.p1",
            "0x1p",
            "0x1e+5",
            "0x1g",
            " 1",
            "1 ",
            "\t1",
            "1\n",
            "1\0",
            "1x",
            "1_000",
            "1,5",
            "nan",
            "nan(1)",
            "infinit",
            "infinityx",
            "\u{661}",
        ] {
            assert_eq!(Literal::parse(text.as_bytes()), None, "{text:?}");
        }
    }
}
