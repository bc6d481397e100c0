//! Tests of 80-bit numbers, against answers of Redis 8.2.3.

use super::*;

fn parse(text: &str) -> Float80 {
    Float80::parse(text.as_bytes()).expect("a number")
}

fn check(left: &str, right: &str, expected: &str) {
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
    check("-1.1e-17", "0", "-0.00000000000000001");
    check("18446744073709551615", "1", "18446744073709551616");
    check("18446744073709551616", "1", "18446744073709551616");
    check("0x1p63", "0", "9223372036854775808");
    check("9223372036854775807", "0.5", "9223372036854775807.5");
    check("-9223372036854775807", "-0.25", "-9223372036854775807");
}

#[test]
fn both_readers_agree() {
    let mut state = 1u64;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
        let digits: String = (0..1 + next(37)).map(|_| char::from(b'0' + next(10) as u8)).collect();
        let point = next(digits.len() as u64 + 1) as usize;
        let (whole, fraction) = digits.split_at(point);
        let text = format!("-{whole}.{fraction}e{}", next(30) as i64 - 15);
        let Some(Literal::Finite(finite)) = Literal::parse(text.as_bytes()) else {
            panic!("{text}");
        };
        if let Some(short) = read_short(&finite) {
            let any = read_any(finite).expect("a number in range");
            assert_eq!(short.to_bits(), any.to_bits(), "{text}");
        }
    }
}

#[test]
fn ties_go_to_the_even_number() {
    // Up here numbers are four apart.
    check("36893488147419103233", "0", "36893488147419103232");
    check("36893488147419103234", "0", "36893488147419103232");
    check("36893488147419103234.0000000000000001", "0", "36893488147419103236");
    check("36893488147419103238", "0", "36893488147419103240");
    check("36893488147419103237.9999999999999999", "0", "36893488147419103236");
    check("73786976294838206463", "0", "73786976294838206464");
}

#[test]
fn the_ends_of_the_range() {
    for text in ["1.1897314953572317650e4932", "3.7e-4951", "0x1p-16445", "0x1p16383", "0e99999999"]
    {
        assert!(Float80::parse(text.as_bytes()).is_some(), "{text}");
    }
    for text in
        ["1.1897314953572317652e4932", "1.8e-4951", "0x1p-16447", "0x1p16384", "1e-99999999"]
    {
        assert!(Float80::parse(text.as_bytes()).is_none(), "{text}");
    }
    let largest = parse("1.1897314953572317650e4932");
    assert!(!(largest + largest).is_finite());
    assert_eq!(largest.to_text().len(), 4933);
}

#[test]
fn what_is_no_number() {
    assert_eq!(Float80::parse(b"nan"), None);
    assert_eq!(Float80::parse(b""), None);
    assert!(Float80::parse(&[b'1'; READ_LEN_MAX]).is_none(), "out of range");
    assert!(Float80::parse(&[b'0'; READ_LEN_MAX]).is_some());
    assert!(Float80::parse(&[b'0'; READ_LEN_MAX + 1]).is_none());
    assert!(!parse("-Infinity").is_finite());
    assert_eq!(parse("-Infinity").to_text(), "-inf");
    assert_eq!((parse("inf") + parse("-inf")).to_text(), "nan");
}

#[test]
fn integers_are_exact() {
    for value in [0, 1, -1, i64::MAX, i64::MIN, 1 << 53, -(1 << 62) - 1] {
        assert_eq!(Float80::from_i64(value).to_text(), value.to_string());
    }
}
