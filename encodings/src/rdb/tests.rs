//! Tests of string payloads, against those that Redis 8.2.3 answers.

use super::*;

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Answers of DUMP, which carry version 12.
const PAYLOADS: &[(&str, &str)] = &[
    ("", "00000c0096ed6880f5553c93"),
    ("a", "0001610c007488db5b751ce3fd"),
    ("hello world", "000b68656c6c6f20776f726c640c00c08a7d795ced3e7d"),
    ("007", "00033030370c00b92ed6bbb6432490"),
    ("0", "00c0000c00533693b8027a9d41"),
    ("127", "00c07f0c00c6c3dff1a87e5b5d"),
    ("128", "00c180000c00200c8775eae5d52c"),
    ("-129", "00c17fff0c00dc16b6e8aeaa1ac9"),
    ("32767", "00c1ff7f0c00822c031aedde4b62"),
    ("-2147483648", "00c2000000800c000c39b3fec97f1fce"),
    ("2147483647", "00c2ffffff7f0c00e702d15e1a0433e8"),
    ("2147483648", "000a323134373438333634380c002cc71d63b637e8a7"),
    ("9223372036854775807", "0013393232333337323033363835343737353830370c00f1134a547bc2c16b"),
    ("aaaaaaaaaaaaaaaaaaaa", "001461616161616161616161616161616161616161610c0048c25f9ee13b32b8"),
    (
        "the quick brown fox jumps",
        "001974686520717569636b2062726f776e20666f78206a756d70730c004913706aeb7e6aa0",
    ),
];

const COMPRESSED: &[(&str, usize, &str)] = &[
    ("a", 21, "00c30615016161e00a000c00367a87a8fd6ba121"),
    ("a", 100, "00c3094064016161e057000161610c0023d581c74a476c38"),
    ("0123456789", 7, "00c31240460a3031323334353637383930e030090138390c00969e38e8711724d4"),
    ("abc", 11, "00c30b210361626361e012020162630c00461ff8ccfe8e7579"),
];

#[test]
fn payloads_of_redis_are_read() {
    for (expected, payload) in PAYLOADS {
        assert_eq!(read_string_payload(&bytes_of(payload)), Ok(expected.as_bytes().to_vec()));
    }
    for (piece, count, payload) in COMPRESSED {
        let expected = piece.repeat(*count).into_bytes();
        assert_eq!(read_string_payload(&bytes_of(payload)), Ok(expected));
    }
}

#[test]
fn the_same_bytes_are_written_but_for_the_version() {
    for (value, payload) in PAYLOADS {
        let expected = bytes_of(payload);
        let written = dump_string(value.as_bytes(), true);
        let value_end = expected.len() - 10;
        assert_eq!(written[..value_end], expected[..value_end], "{value}");
        assert_eq!(written[value_end..value_end + 2], DUMP_VERSION.to_le_bytes());
    }
}

#[test]
fn compressed_as_well_as_redis_does() {
    for (piece, count, payload) in COMPRESSED {
        let value = piece.repeat(*count).into_bytes();
        let written = dump_string(&value, true);
        assert!(written.len() <= payload.len() / 2, "{piece}");
        assert_eq!(read_string_payload(&written), Ok(value));
    }
}

#[test]
fn every_form_of_length() {
    for len in [0u64, 63, 64, 16383, 16384, u64::from(u32::MAX), u64::from(u32::MAX) + 1] {
        let mut bytes = Vec::new();
        write_len(&mut bytes, len);
        bytes.push(7);
        let mut rest = bytes.as_slice();
        assert_eq!(read_len(&mut rest), Ok(len));
        assert_eq!(rest, [7]);
        for cut in 0..bytes.len() - 1 {
            assert_eq!(read_len(&mut &bytes[..cut]), Err(Corrupt));
        }
    }
    for len in [62, 63, 64, 16383, 16384, 70_000] {
        let value: Vec<u8> = (0..len as u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        for compress in [false, true] {
            let payload = dump_string(&value, compress);
            assert_eq!(read_string_payload(&payload).as_ref(), Ok(&value));
        }
    }
}

/// A payload with a right checksum.
fn payload(body: &[u8], version: u16) -> Vec<u8> {
    let mut payload = [body, &version.to_le_bytes()].concat();
    let checksum = CRC_64.checksum(&payload);
    payload.extend(checksum.to_le_bytes());
    payload
}

#[test]
fn corrupt_payloads_are_refused() {
    let good = dump_string(b"hello hello hello hello", true);
    for at in 0..good.len() {
        assert_eq!(read_string_payload(&good[..at]), Err(Corrupt));
        for bit in 0..8 {
            let mut flipped = good.clone();
            flipped[at] ^= 1 << bit;
            assert_eq!(read_string_payload(&flipped), Err(Corrupt));
        }
    }
    let refused: [(&[u8], u16); 10] = [
        (b"\x00\x01a", 13),
        (b"\x00\x01a", 81),
        (b"\x01\x01a", 11),
        (b"\x00\x01ab", 11),
        (b"\x00\x02a", 11),
        (b"\x00\x81\xff\xff\xff\xff\xff\xff\xff\xff", 11),
        (b"\x00\xc2\x00\x00\x00", 11),
        (b"\x00\xc4\x00", 11),
        (b"\x00\x82\x00\x00\x00\x00", 11),
        (b"\x00\xc3\x02\x80\xff\xff\xff\xff\x00a", 11),
    ];
    for (body, version) in refused {
        assert_eq!(read_string_payload(&payload(body, version)), Err(Corrupt), "{body:?}");
    }
    for version in [1, 11, 12, 80] {
        assert_eq!(read_string_payload(&payload(b"\x00\x01a", version)), Ok(b"a".to_vec()));
    }
}
