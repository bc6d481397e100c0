//! Integers and their decimal text, strictly canonical.
//!
//! A value is kept as an integer only where its text can be restored byte by byte, so reading
//! accepts exactly what writing produces: no plus sign, no leading zeros, no spaces, no `-0`.
//! These are the rules of Redis's `string2ll`.

/// Room for the longest text: a sign and 19 digits.
pub const TEXT_LEN_MAX: usize = 20;

/// Reads a canonical decimal integer.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    match text {
        [b'-', digits @ ..] => match magnitude(digits)? {
            0 => None,
            value => 0i64.checked_sub_unsigned(value),
        },
        digits => i64::try_from(magnitude(digits)?).ok(),
    }
}

/// Reads a canonical decimal integer without a sign.
#[inline]
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    magnitude(text)
}

#[inline]
fn magnitude(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > TEXT_LEN_MAX || (digits[0] == b'0' && digits.len() > 1) {
        return None;
    }
    // Up to 19 digits fit without a check.
    let (safe, last) = digits.split_at(digits.len().min(19));
    let mut value = 0u64;
    for byte in safe {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    for byte in last {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// Writes a decimal integer into `room` and returns the text.
#[inline]
pub fn format_i64(value: i64, room: &mut [u8; TEXT_LEN_MAX]) -> &[u8] {
    let mut rest = value.unsigned_abs();
    let mut at = TEXT_LEN_MAX;
    loop {
        at -= 1;
        room[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        room[at] = b'-';
    }
    &room[at..]
}

/// Bytes of the decimal text of `value`.
#[inline]
pub fn text_len(value: i64) -> usize {
    let digits = value.unsigned_abs().checked_ilog10().map_or(1, |log| log as usize + 1);
    digits + usize::from(value < 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let edges = [0, 1, -1, 9, 10, -10, 99, i64::MAX, i64::MIN, i64::MIN + 1, 1 << 53];
        let powers = (0..19).flat_map(|power| {
            let value = 10i64.pow(power);
            [value, value - 1, value + 1, -value]
        });
        for value in edges.into_iter().chain(powers) {
            let mut room = [0; TEXT_LEN_MAX];
            let text = format_i64(value, &mut room);
            assert_eq!(text, value.to_string().as_bytes());
            assert_eq!(text.len(), text_len(value));
            assert_eq!(parse_i64(text), Some(value));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "-",
            "+1",
            "-0",
            "00",
            "01",
            " 1",
            "1 ",
            "1a",
            "a",
            "--1",
            "9223372036854775808",
            "-9223372036854775809",
            "18446744073709551616",
            "99999999999999999999",
            "1.0",
            "0x1",
            "100000000000000000000",
        ] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        assert_eq!(parse_u64(b"-1"), None);
    }
}
