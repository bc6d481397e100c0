//! The fuzz targets without a fuzzer: each function over its corpus and over seeded noise.

use std::path::Path;

/// Inputs of noise for each target.
const NOISE: u64 = 300;

/// The next number of a xorshift generator.
pub(crate) fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn check(target: &str, alphabet: &[u8], run: impl Fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    if let Ok(entries) = std::fs::read_dir(corpus) {
        for entry in entries {
            run(&std::fs::read(entry.expect("an entry").path()).expect("a file"));
        }
    }
    for seed in 1..=NOISE {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let len = next(&mut state) % 400;
        let noise = (0..len).map(|_| {
            let word = next(&mut state);
            // Half of the bytes come from what the format is made of.
            match alphabet.get((word >> 8) as usize % (2 * alphabet.len()).max(1)) {
                Some(byte) => *byte,
                None => word as u8,
            }
        });
        run(&noise.collect::<Vec<u8>>());
    }
}

#[test]
fn requests() {
    check("resp", b"*$\r\n0123456789\"' PINGx\\", tests::resp::check_requests);
}

#[test]
fn configuration_values() {
    check("config", b"yesnok mb0123456789 \n%-", tests::config::check_values);
}

#[test]
fn dump_payloads() {
    check("dump", b"\x00\x0b\x00\xc0\xc1\xc2\xc3aaaaaa", tests::dump::check_payload);
}

#[test]
fn packed_values() {
    let alphabet = b"\x00\x01\x02\x80\x81a\xc3\xe0\xf1\xf2\xff\x0f\x00\x00\x00";
    check("packed", alphabet, tests::packed::check_packed);
}

#[test]
fn keyspace_operations() {
    check("keyspace", &[], tests::keyspace::check_operations);
}
