//! Tests of doubles and their texts, against answers of Redis 8.2.3.

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

#[test]
fn texts_that_are_not_the_shortest_or_the_closest() {
    for (value, expected) in [
        (4e23, "399999999999999970000000"),
        (6.4e24, "6.399999999999999e+24"),
        (6.85e21, "6849999999999999000000"),
        (3.547701077038948e-11, "3.5477010770389483e-11"),
        (-1.7369512223915863e15, "-1736951222391586.3"),
        (1.6581120525758413e14, "165811205257584.13"),
    ] {
        assert_eq!(format(value), expected);
    }
}

#[test]
fn every_text_reads_back() {
    let mut bits = 1u64;
    for _ in 0..if cfg!(miri) { 50 } else { 50_000 } {
        bits = bits.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let value = f64::from_bits(bits);
        if value.is_finite() {
            assert_eq!(parse(format(value).as_bytes()), Some(value), "{value:e}");
        }
    }
    for power in (-1074..1024).step_by(if cfg!(miri) { 99 } else { 1 }) {
        let value = 2f64.powi(power);
        assert_eq!(parse(format(value).as_bytes()), Some(value), "{value:e}");
    }
}

#[test]
fn texts_are_read() {
    for (text, expected) in [
        ("0x10", 16.0),
        ("0x1.8p1", 3.0),
        ("-0X1P-3", -0.125),
        ("3e-324", 5e-324),
        ("1.", 1.0),
        ("+.5e1", 5.0),
        ("0e400", 0.0),
        ("0x1.00000000000008p0", 1.0),
        ("0x1.000000000000080000001p0", 1.0000000000000002),
        ("123456789012345678901234567890", 1.2345678901234568e29),
        ("inf", f64::INFINITY),
        ("-Infinity", f64::NEG_INFINITY),
    ] {
        assert_eq!(parse(text.as_bytes()), Some(expected), "{text}");
    }
    assert!(parse(b"-0").is_some_and(|zero| zero.is_sign_negative()));
}

#[test]
fn other_texts_are_refused() {
    for text in [
        "",
        " 1",
        "1 ",
        "1e",
        "nan",
        "-nan",
        "infinit",
        "1e400",
        "-1e400",
        "1e-400",
        "2e-324",
        "1.7976931348623159e308",
        "0x",
        "0x1p-1080",
        "0x1p2000",
        "1e99999999999999999999",
    ] {
        assert_eq!(parse(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn seventeen_digits_as_c_prints_them() {
    for (value, expected) in [
        (0.1, "0.10000000000000001"),
        (-0.1, "-0.10000000000000001"),
        (1e300, "1.0000000000000001e+300"),
        (9223372036854775808.0, "9.2233720368547758e+18"),
        (3.0000001, "3.0000000999999998"),
        (1e-7, "9.9999999999999995e-08"),
        (1e-4, "0.0001"),
        (1e16, "10000000000000000"),
        (1e17, "1e+17"),
        (-3.0, "-3"),
        (0.5, "0.5"),
        (f64::NEG_INFINITY, "-inf"),
        (-0.0, "-0"),
    ] {
        assert_eq!(format_17g(value), expected);
    }
}

#[test]
fn whole_numbers_in_the_short_form() {
    for (value, expected) in [
        (1e9, "1e+9"),
        (3e9, "3e+9"),
        (1e7, "10000000"),
        (123456789012.0, "123456789012"),
        (-3.0, "-3"),
        (0.1, "0.1"),
        (0.0, "0"),
        (f64::INFINITY, "inf"),
    ] {
        assert_eq!(format_short(value), expected);
    }
}
