//! HyperLogLogs as values of keys.

use super::*;
use crate::OpError;
use crate::testing::Rng;
use encodings::hyperloglog::{EMPTY, Encoding, Register, Registers};

fn elements(rng: &mut Rng, count: u64) -> Vec<Register> {
    (0..count).map(|_| Register::of(&rng.below(100_000).to_le_bytes())).collect()
}

#[test]
fn changes_replay_whatever_the_limit_of_the_other_side() {
    let mut partition = partition();
    partition.listen(true);
    let mut rng = Rng::new(5);
    for round in 0..if cfg!(miri) { 20 } else { 2000 } {
        if round % 100 == 0 {
            partition.limits.hll_sparse_max_bytes = [18, 60, 500, 2100, 3000][round / 100 % 5];
        }
        let name = [b'a' + rng.below(6) as u8];
        let key = partition.key(&name);
        match rng.below(20) {
            0..12 => {
                let count = [0, 1, 1, 2, 30, 200][rng.below(6) as usize];
                let registers = elements(&mut rng, count);
                let _ = partition.hyperloglog_add(0, &key, registers.into_iter());
            }
            12..15 => {
                let _ = partition.hyperloglog_count(0, &key);
            }
            15..17 => {
                let Ok(old) = partition.hyperloglog(0, &key) else { continue };
                let mut union = Registers::default();
                if old.is_some_and(|(string, _)| union.merge(string).is_err()) {
                    continue;
                }
                partition.hyperloglog_merge(0, &key, &union, rng.below(4) == 0).unwrap();
            }
            17 => {
                let _ = partition.hyperloglog_make_dense(0, &key);
            }
            18 => set(&mut partition, &name, &[&EMPTY[..16], b"\x7f\x00\x3f\x81"].concat()),
            _ => {
                partition.delete(0, &key, crate::DeleteCause::Command);
            }
        }
    }
    partition.validate();
    check_replay_and_flush(partition);
}

#[test]
fn a_change_keeps_the_time_and_is_raw() {
    let mut partition = partition();
    let key = partition.key(b"k");
    set_until(&mut partition, b"k", &EMPTY, NOW_MS + 5000);
    assert_eq!(partition.hyperloglog_count(0, &key), Ok(Some(0)));
    assert_eq!(partition.encoding(0, &key), Some("raw"));
    for elements in [1, 100, 1000, 10_000u64] {
        let registers = (0..elements).map(|element| Register::of(&element.to_le_bytes()));
        assert_eq!(partition.hyperloglog_add(0, &key, registers), Ok(true));
        let count = partition.hyperloglog_count(0, &key).unwrap().unwrap();
        assert!(count.abs_diff(elements) <= elements / 20, "{count} of {elements}");
        assert_eq!(partition.peek_expire_time(0, &key), Some(Some(NOW_MS + 5000)));
    }
    let (string, encoding) = partition.hyperloglog(0, &key).unwrap().unwrap();
    assert_eq!((string.len(), encoding), (16 + 12288, Encoding::Dense));
    let memory = partition.memory();
    assert!(memory.large < 12_500, "a dense string has no room to grow on: {memory:?}");
}

#[test]
fn other_strings_are_refused() {
    let mut partition = partition();
    let key = partition.key(b"k");
    for value in [&b"12"[..], b"", b"HYLL", &EMPTY[..15]] {
        set(&mut partition, b"k", value);
        let dirty = partition.dirty();
        let refused = OpError::NotHyperLogLog;
        assert_eq!(partition.hyperloglog_add(0, &key, std::iter::empty()), Err(refused));
        assert_eq!(partition.hyperloglog_count(0, &key), Err(refused));
        assert_eq!(partition.hyperloglog_make_dense(0, &key), Err(refused));
        assert_eq!(partition.dirty(), dirty);
        assert_eq!(get(&mut partition, 0, b"k").unwrap(), value);
    }
}
