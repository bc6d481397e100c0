//! Expiry in order and in time, compaction, and the length of steps.

use super::*;
use crate::testing::Rng;
use crate::{DeleteCause, Effect, MaintainReport};

#[test]
fn due_keys_go_in_order_among_many_others() {
    for mut partition in [partition(), partition_by_slots()] {
        let others = if cfg!(miri) { 100 } else { 50_000 };
        let mut rng = Rng::new(3);
        for number in 0..others {
            let at_ms = NOW_MS + 3_600_000 + rng.below(1_000_000);
            set_until(&mut partition, format!("other:{number}").as_bytes(), b"v", at_ms);
        }
        for number in 0..20 {
            let name = format!("due:{number}");
            set_until(&mut partition, name.as_bytes(), b"v", NOW_MS + 1000 + 19 - number);
        }
        partition.listen(true);
        partition.set_now(NOW_MS + 2000);
        let report = partition.maintain(&mut || true);
        assert!(!report.work_left && report.expired == 20);
        assert!(report.next_expire_ms.unwrap() >= NOW_MS + 3_000_000);
        let (mut log, mut names) = (partition.effect_log(), Vec::new());
        while let Ok((Effect::Delete { key, cause, .. }, rest)) = Effect::decode(log) {
            assert_eq!(cause, DeleteCause::Expired);
            names.push(String::from_utf8(key.to_vec()).unwrap());
            log = rest;
        }
        let expected: Vec<String> = (0..20).rev().map(|number| format!("due:{number}")).collect();
        assert_eq!(names, expected);
        partition.validate();
    }
}

#[test]
fn a_budget_bounds_the_work_and_the_rest_is_reported() {
    let mut partition = partition();
    let count = if cfg!(miri) { 100 } else { 1000 };
    for number in 0..count {
        set_until(&mut partition, format!("due:{number}").as_bytes(), b"v", NOW_MS + 1);
    }
    partition.set_now(NOW_MS + 502);
    let mut asked = 0;
    let report = partition.maintain(&mut || {
        asked += 1;
        asked < 3
    });
    assert!(report.work_left && report.expired > 0 && report.expired < count);
    assert_eq!(report.expire_lag_ms, 500);
    maintain_all(&mut partition);
    assert_eq!(partition.len(0), 0);
    assert_eq!(partition.maintain(&mut || true), MaintainReport::default());
    assert_eq!(partition.stats().expire_lag_max_ms, 500);
}

#[test]
fn an_earlier_time_is_told_to_the_owner() {
    let mut partition = partition();
    set_until(&mut partition, b"late", b"v", NOW_MS + 5000);
    let report = partition.maintain(&mut || true);
    assert_eq!(report.next_expire_ms, Some(NOW_MS + 5001));
    assert!(!partition.has_upkeep());
    set_until(&mut partition, b"soon", b"v", NOW_MS + 50);
    assert!(partition.has_upkeep());
    assert_eq!(partition.maintain(&mut || true).next_expire_ms, Some(NOW_MS + 51));
}

#[test]
fn setting_and_deleting_timed_keys_leaves_no_pile() {
    let mut partition = partition();
    let mut rng = Rng::new(8);
    // All ten million take a minute: with OSMIA_SLOW=1.
    let slow = std::env::var_os("OSMIA_SLOW").is_some();
    let rounds = if slow { 10_000_000 } else { 300_000 };
    for round in 0..if cfg!(miri) { 300 } else { rounds } {
        let name = format!("key:{}", rng.below(500));
        set_until(
            &mut partition,
            name.as_bytes(),
            b"v",
            NOW_MS + 1000 + rng.below(1 << 30) + round,
        );
        if rng.below(2) == 0 {
            let key = partition.key(name.as_bytes());
            partition.delete(0, &key, DeleteCause::Command);
        }
    }
    assert_eq!(partition.expires_len(0), partition.len(0));
    assert!(partition.memory().expire < 500 * 24, "{}", partition.memory().expire);
    partition.validate();
}

#[test]
fn sparse_spans_are_emptied_after_deletions() {
    for mut partition in [partition(), partition_by_slots()] {
        let count = if cfg!(miri) { 0 } else { 200_000u64 };
        let mut rng = Rng::new(5);
        let value = [b'v'; 64];
        for number in 0..count {
            set(&mut partition, format!("key:{number:06}").as_bytes(), &value);
        }
        let full = partition.memory();
        let mut left = Vec::new();
        for number in 0..count {
            let name = format!("key:{number:06}");
            if rng.below(10) == 0 {
                left.push(name);
            } else {
                let key = partition.key(name.as_bytes());
                assert!(partition.delete(0, &key, DeleteCause::Command));
            }
        }
        maintain_all(&mut partition);
        partition.validate();
        let sparse = partition.memory();
        // Sixteen spare spans are kept, and each class of overflow blocks has one that is not full.
        let spare = 26 * 65536;
        let before = full.committed as f64 / count as f64;
        let after = sparse.committed.saturating_sub(spare) as f64 / left.len() as f64;
        println!("committed bytes a key: {before:.1} before, {after:.1} after");
        assert!(cfg!(miri) || after < 1.3 * before, "{before:.1} {after:.1}");
        for name in left {
            assert_eq!(get(&mut partition, 0, name.as_bytes()).unwrap(), value);
        }
    }
}

#[test]
fn churn_of_mixed_sizes_stays_near_the_payload() {
    let mut partition = partition();
    let keys = if cfg!(miri) { 50 } else { 60_000 };
    let (mut rng, value) = (Rng::new(6), [b'v'; 200]);
    let mut sizes = vec![0usize; keys as usize];
    for round in 0..10 * keys {
        let number = rng.below(keys);
        let name = format!("key:{number:06}");
        if rng.below(10) < 3 {
            let key = partition.key(name.as_bytes());
            partition.delete(0, &key, DeleteCause::Command);
            sizes[number as usize] = 0;
        } else {
            let len = 1 + rng.below(200) as usize;
            set(&mut partition, name.as_bytes(), &value[..len]);
            sizes[number as usize] = len + name.len();
        }
        if round % 1000 == 0 {
            let mut steps = 0;
            partition.maintain(&mut || {
                steps += 1;
                steps < 20
            });
        }
    }
    maintain_all(&mut partition);
    partition.validate();
    let payload: usize = sizes.iter().sum();
    let memory = partition.memory();
    let (used, committed) =
        (memory.used as f64 / payload as f64, memory.committed as f64 / payload as f64);
    println!("{used:.3} used, {committed:.3} committed for one byte of payload");
    assert!(cfg!(miri) || used < 1.25, "{used:.3}");
    // Some 50 size classes each have a span that is not full; that weighs at this size.
    assert!(cfg!(miri) || committed < 1.9, "{committed:.3}");
}
