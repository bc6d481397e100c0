//! Tests of the bitmap functions against the same by single bits.

use super::*;

/// Bytes that look random, the same on each run.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2) + 1;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn bits_of(bytes: &[u8]) -> Vec<bool> {
    (0..bytes.len() as u64 * 8).map(|at| bit(bytes, at)).collect()
}

fn bit(bytes: &[u8], at: u64) -> bool {
    bytes.get((at / 8) as usize).is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1)
}

#[test]
fn counts_of_every_length() {
    for len in (0..80).chain([511, 512, 513, 1023, 1024, 1025, 5000]) {
        let bytes = noise(len, len as u64);
        let expected = bits_of(&bytes).iter().filter(|bit| **bit).count() as u64;
        assert_eq!(count(&bytes), expected, "{len}");
        assert_eq!(count(&vec![0xff; len]), len as u64 * 8);
    }
}

#[test]
fn ranges_of_bits() {
    let mut samples = vec![noise(11, 1), noise(7, 2), vec![0; 9], vec![0xff; 9], vec![]];
    let mut lone = vec![0; 100];
    lone[71] = 0x10;
    samples.push(lone.iter().map(|byte| !byte).collect());
    samples.push(lone);
    for bytes in samples {
        let bits = bits_of(&bytes);
        let len = bits.len() as u64;
        let step = if cfg!(miri) {
            41
        } else if len > 100 {
            13
        } else {
            1
        };
        for start in (0..len + 10).step_by(step) {
            for end in (0..len + 10).step_by(step) {
                let cut = start.min(len) as usize..end.min(len) as usize;
                let slice = bits.get(cut).unwrap_or_default();
                let expected = slice.iter().filter(|bit| **bit).count() as u64;
                assert_eq!(count_range(&bytes, start..end), expected);
                for value in [false, true] {
                    let expected = slice.iter().position(|bit| *bit == value);
                    let expected = expected.map(|index| start + index as u64);
                    assert_eq!(find_in_range(&bytes, start..end, value), expected, "{start} {end}");
                }
            }
        }
    }
}

#[test]
fn combinations() {
    // Whether a bit is set, by the first source's and how many others have it.
    type Expected = fn(bool, usize) -> bool;
    let operations: [(Operation, Expected); 7] = [
        (Operation::And, |first, others| first && others == 3),
        (Operation::Or, |first, others| first || others > 0),
        (Operation::Xor, |first, others| (usize::from(first) + others) % 2 == 1),
        (Operation::Diff, |first, others| first && others == 0),
        (Operation::Diff1, |first, others| !first && others > 0),
        (Operation::AndOr, |first, others| first && others > 0),
        (Operation::One, |first, others| usize::from(first) + others == 1),
    ];
    let lens = [[3, 3, 3, 3], [0, 5, 2, 9], [9, 0, 0, 4], [5000, 9000, 4096, 4097], [70, 1, 8, 64]];
    for lens in lens {
        let sources: Vec<Vec<u8>> =
            lens.iter().enumerate().map(|(seed, len)| noise(*len, seed as u64)).collect();
        let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
        let len = *lens.iter().max().unwrap();
        for (operation, expected) in operations {
            let result = combine(operation, &sources);
            assert_eq!(result.len(), len);
            let step = if cfg!(miri) && len > 100 { 997 } else { 1 };
            for at in (0..len as u64 * 8).step_by(step) {
                let others = sources[1..].iter().filter(|source| bit(source, at)).count();
                let expected = expected(bit(sources[0], at), others);
                assert_eq!(bit(&result, at), expected, "{operation:?} {lens:?} {at}");
            }
        }
    }
}

#[test]
fn combinations_of_one() {
    assert_eq!(combine(Operation::Not, &[b"\x00\xff\x0f"]), b"\xff\x00\xf0");
    for operation in [Operation::And, Operation::Or, Operation::Xor, Operation::One] {
        assert_eq!(combine(operation, &[b"abc"]), b"abc");
    }
    assert_eq!(combine(Operation::Or, &[]), b"");
    assert_eq!(combine(Operation::And, &[b"abc", b""]), [0, 0, 0]);
}
