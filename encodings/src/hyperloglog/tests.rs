//! Registers, runs and estimates, and strings that are none of ours.

use super::*;

const SPARSE_LEN_MAX: usize = 3000;

fn of(elements: impl IntoIterator<Item = u64>, sparse_len_max: usize) -> Vec<u8> {
    let mut string = EMPTY.to_vec();
    for element in elements {
        raise(&mut string, Register::of(&element.to_le_bytes()), sparse_len_max).unwrap();
    }
    string
}

fn registers(string: &[u8]) -> Registers {
    let mut registers = Registers::default();
    registers.merge(string).unwrap();
    registers
}

fn raised(string: &[u8], index: u16, value: u8) -> Vec<u8> {
    let mut string = string.to_vec();
    raise(&mut string, Register { index, value }, SPARSE_LEN_MAX).unwrap();
    string
}

#[test]
fn hashes_are_those_of_redis() {
    let check = |element: &str, index, value| {
        assert_eq!(Register::of(element.as_bytes()), Register { index, value }, "{element}");
    };
    check("a", 12711, 2);
    check("", 5938, 2);
    check("abcdefgh", 1383, 1);
}

#[test]
fn registers_survive_as_bytes() {
    let register = Register { index: 16383, value: 51 };
    assert_eq!(Register::from_bytes(register.to_bytes()), register);
    let foreign = Register::from_bytes([0xff; Register::LEN]);
    assert_eq!(foreign, Register { index: 16383, value: 63 });
}

#[test]
fn a_run_of_zeros_is_split_and_equal_values_are_joined() {
    let check = |string: &[u8], expected: &str| assert_eq!(runs_text(string), expected);
    let string = raised(&EMPTY, 1000, 2);
    check(&string, "Z:1000 v:2,1 Z:15383");
    let string = raised(&string, 1002, 2);
    check(&string, "Z:1000 v:2,1 z:1 v:2,1 Z:15381");
    let string = raised(&string, 1001, 2);
    check(&string, "Z:1000 v:2,3 Z:15381");
    let string = raised(&string, 1001, 1);
    check(&string, "Z:1000 v:2,3 Z:15381");
    let string = raised(&string, 1001, 32);
    check(&string, "Z:1000 v:2,1 v:32,1 v:2,1 Z:15381");
    let string = raised(&string, 0, 1);
    check(&string, "v:1,1 Z:999 v:2,1 v:32,1 v:2,1 Z:15381");
    let string = raised(&string, 16383, 1);
    check(&string, "v:1,1 Z:999 v:2,1 v:32,1 v:2,1 Z:15380 v:1,1");
    let dense = raised(&string, 16383, 33);
    assert_eq!(encoding(&dense), Some(Encoding::Dense));
    assert_eq!(registers(&dense).values()[16383], 33);
    assert_eq!(registers(&dense).values()[..16383], registers(&string).values()[..16383]);
}

#[test]
fn counts_are_close_in_either_encoding() {
    let checkpoints: &[u64] = if cfg!(miri) { &[1, 10] } else { &[1, 10, 100, 1000, 10_000] };
    for &elements in checkpoints {
        let sparse = of(0..elements, usize::MAX);
        let dense = of(0..elements, 0);
        assert_eq!(encoding(&sparse), Some(Encoding::Sparse));
        assert_eq!(encoding(&dense), Some(Encoding::Dense));
        assert_eq!(registers(&sparse).values(), registers(&dense).values());
        let counted = count(&sparse).unwrap();
        assert_eq!(count(&dense), Ok(counted));
        assert_eq!(registers(&dense).count(), counted);
        assert!(counted.abs_diff(elements) <= 1 + elements / 20, "{counted} of {elements}");
    }
}

#[test]
fn a_hundred_elements_take_less_than_three_hundred_bytes() {
    assert!(of(0..100, SPARSE_LEN_MAX).len() < 300);
}

#[test]
fn a_kept_count_is_forgotten_with_a_change() {
    let mut string = EMPTY.to_vec();
    assert_eq!(kept_count(&string), Some(0));
    raise(&mut string, Register::of(b"a"), SPARSE_LEN_MAX).unwrap();
    assert_eq!(kept_count(&string), None);
    string[COUNT_RANGE].copy_from_slice(&1u64.to_le_bytes());
    assert_eq!(kept_count(&string), Some(1));
    assert_eq!(raise(&mut string, Register::of(b"a"), SPARSE_LEN_MAX), Ok(false));
    assert_eq!(kept_count(&string), Some(1));
}

#[test]
fn packed_registers_come_back() {
    let mut registers = Registers::default();
    for (value, index) in registers.0.iter_mut().zip(0u32..) {
        *value = (index.wrapping_mul(2_654_435_761) >> 26) as u8;
    }
    let mut string = EMPTY.to_vec();
    make_dense(&mut string).unwrap();
    registers.write(&mut string, 0).unwrap();
    assert_eq!(self::registers(&string).values(), registers.values());
    for index in [0, 1, 2, 3, 16383] {
        assert!(raise_dense(&mut string, Register { index, value: 63 }));
        registers.0[usize::from(index)] = 63;
    }
    assert_eq!(self::registers(&string).values(), registers.values());
}

/// Writing the registers in one walk gives the bytes that raising one after another gives.
#[test]
fn a_union_is_written_as_if_registers_were_raised_in_turn() {
    for seed in 0..if cfg!(miri) { 2 } else { 40 } {
        let start = seed * 1_000_000;
        let target = of(start..start + 50 * (seed % 7), SPARSE_LEN_MAX);
        let mut union = registers(&target);
        union.merge(&of(start + 30..start + 40 * seed, SPARSE_LEN_MAX)).unwrap();
        let mut expected = target.clone();
        for (index, value) in (0..).zip(*union.values()).filter(|(_, value)| *value > 0) {
            raise(&mut expected, Register { index, value }, SPARSE_LEN_MAX).unwrap();
        }
        forget_count(&mut expected);
        let mut string = target;
        union.write(&mut string, SPARSE_LEN_MAX).unwrap();
        assert_eq!(string, expected, "{seed}");
    }
}

#[test]
fn foreign_headers_are_refused() {
    let check = |string: &[u8], expected| assert_eq!(encoding(string), expected);
    check(&EMPTY, Some(Encoding::Sparse));
    check(&EMPTY[..16], Some(Encoding::Sparse));
    check(&EMPTY[..15], None);
    check(b"hyll\x01\0\0\0\0\0\0\0\0\0\0\0\x7f\xff", None);
    check(b"HYLL\x02\0\0\0\0\0\0\0\0\0\0\0\x7f\xff", None);
    check(b"HYLL\x00\0\0\0\0\0\0\0\0\0\0\0\x7f\xff", None);
}

#[test]
fn foreign_runs_never_panic() {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) as usize
    };
    for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
        let mut string = of(0..(random() % 40) as u64, SPARSE_LEN_MAX);
        for _ in 0..random() % 4 {
            let at = HEADER_LEN + random() % (string.len() - HEADER_LEN);
            string[at] = random() as u8;
        }
        string.truncate(HEADER_LEN + random() % (string.len() - HEADER_LEN + 1));
        let counted = count(&string);
        assert_eq!(Registers::default().merge(&string).is_ok(), counted.is_ok());
        assert_eq!(make_dense(&mut string.clone()).is_ok(), counted.is_ok());
        runs_text(&string);
        for _ in 0..20 {
            let element = random().to_le_bytes();
            let _ = raise(&mut string, Register::of(&element), random() % 400);
            assert!(encoding(&string).is_some());
        }
    }
}

#[test]
fn a_register_that_no_element_gives_leaves_a_count() {
    let mut string = EMPTY.to_vec();
    make_dense(&mut string).unwrap();
    string[HEADER_LEN..].fill(0xff);
    assert_eq!(count(&string), Ok(1 << 63));
}
