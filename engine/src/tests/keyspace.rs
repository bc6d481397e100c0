//! Single behaviours of keys and strings.

use super::*;
use crate::*;

fn encoding(partition: &mut Partition, name: &[u8]) -> &'static str {
    let key = partition.key(name);
    partition.encoding(0, &key).unwrap()
}

#[test]
fn encodings_are_redis_words() {
    let mut partition = partition();
    let mut check = |value: &[u8], expected| {
        set(&mut partition, b"k", value);
        assert_eq!(encoding(&mut partition, b"k"), expected);
        assert_eq!(get(&mut partition, 0, b"k").unwrap(), value);
    };
    check(b"12345678901234567890123", "embstr");
    check(b"-9223372036854775808", "int");
    check(b"9223372036854775808", "embstr");
    check(b"007", "embstr");
    check(b"-0", "embstr");
    check(b"", "embstr");
    check(&[b'x'; 44], "embstr");
    check(&[b'x'; 45], "raw");
    check(&[b'x'; 100_000], "raw");
    check(&[b'x'; 300_000], "raw");
}

#[test]
fn changed_strings_are_raw() {
    let mut partition = partition();
    let key = partition.key(b"k");
    partition.append(0, &key, b"12", usize::MAX).unwrap();
    assert_eq!(encoding(&mut partition, b"k"), "int");
    partition.append(0, &key, b"3", usize::MAX).unwrap();
    assert_eq!(encoding(&mut partition, b"k"), "raw");
    assert_eq!(partition.incr_by(0, &key, 1), Ok(124));
    assert_eq!(encoding(&mut partition, b"k"), "int");
    partition.set_range(0, &key, 5, b"x").unwrap();
    assert_eq!(get(&mut partition, 0, b"k").unwrap(), b"124\0\0x");
    assert_eq!(encoding(&mut partition, b"k"), "raw");
}

#[test]
fn arithmetic_refuses_what_redis_refuses() {
    let mut partition = partition();
    let key = partition.key(b"k");
    set(&mut partition, b"k", b"9223372036854775807");
    assert_eq!(partition.incr_by(0, &key, 1), Err(OpError::Overflow));
    set(&mut partition, b"k", b"1.5");
    assert_eq!(partition.incr_by(0, &key, 1), Err(OpError::NotInteger));
    let dirty = partition.dirty();
    assert_eq!(partition.append(0, &key, b"xy", 4), Err(OpError::TooLarge));
    assert_eq!(partition.set_range(0, &key, usize::MAX, b"xy"), Err(OpError::TooLarge));
    assert_eq!(partition.dirty(), dirty);
}

#[test]
fn due_keys_are_gone_for_every_look_and_reported() {
    let mut partition = partition();
    partition.listen(true);
    set_until(&mut partition, b"k", b"v", NOW_MS + 10);
    partition.set_now(NOW_MS + 10);
    assert!(get(&mut partition, 0, b"k").is_some());
    partition.set_now(NOW_MS + 11);
    partition.clear_effect_log();
    partition.for_each_key(0, |_, _| panic!("a due key is not shown"));
    assert_eq!(get(&mut partition, 0, b"k"), None);
    let (effect, _) = Effect::decode(partition.effect_log()).unwrap();
    assert_eq!(effect, Effect::Delete { db: 0, key: b"k", cause: DeleteCause::Expired });
    assert_eq!((partition.len(0), partition.expires_len(0)), (0, 0));
    assert_eq!(partition.stats().expired_keys, 1);
}

#[test]
fn the_clock_never_goes_back() {
    let mut partition = partition();
    partition.set_now(NOW_MS - 5);
    assert_eq!(partition.now_ms(), NOW_MS);
}

#[test]
fn reads_are_counted_and_stamped() {
    let mut partition = partition();
    set(&mut partition, b"k", b"v");
    let key = partition.key(b"k");
    partition.set_now(NOW_MS + 100_000);
    assert_eq!(partition.idle_seconds(0, &key), Some(100));
    assert!(partition.exists(0, &key));
    partition.no_touch = true;
    get(&mut partition, 0, b"k");
    assert_eq!(partition.idle_seconds(0, &key), Some(100));
    partition.no_touch = false;
    get(&mut partition, 0, b"k");
    assert_eq!(partition.idle_seconds(0, &key), Some(0));
    get(&mut partition, 0, b"missing");
    let stats = partition.stats();
    assert_eq!((stats.hits, stats.misses), (3, 1));
}

#[test]
fn use_counters_grow_when_counting() {
    let mut partition = partition();
    partition.set_access_mode(AccessMode { lfu: true, ..AccessMode::default() });
    set(&mut partition, b"k", b"v");
    let key = partition.key(b"k");
    for _ in 0..200 {
        get(&mut partition, 0, b"k");
    }
    assert!(partition.frequency(0, &key).unwrap() > 5);
}

#[test]
fn a_scan_visits_every_key_and_ends_with_zero() {
    for mut partition in [partition(), partition_by_slots()] {
        let count = if cfg!(miri) { 50 } else { 5000 };
        for number in 0..count {
            set(&mut partition, format!("key:{number}").as_bytes(), b"v");
        }
        let (mut cursor, mut seen, mut calls) = (0, std::collections::BTreeSet::new(), 0);
        loop {
            let before = seen.len();
            cursor = partition.scan(0, cursor, 10, |key, kind| {
                assert_eq!(kind.name(), "string");
                seen.insert(key.to_vec());
            });
            assert!(cursor < 1 << 63 && seen.len() - before < 60);
            calls += 1;
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(seen.len(), count);
        assert!(calls <= count);
    }
}

#[test]
fn foreign_cursors_do_no_harm() {
    for mut partition in [partition(), partition_by_slots()] {
        for number in 0..100 {
            set(&mut partition, format!("key:{number}").as_bytes(), b"v");
        }
        let mut rng = crate::testing::Rng::new(1);
        for _ in 0..if cfg!(miri) { 20 } else { 200 } {
            let cursor = partition.scan(0, rng.next(), 10, |_, _| {});
            let again = ScanCursor::decode(cursor);
            assert_eq!(again.encode(), cursor);
        }
    }
}

#[test]
fn random_keys_exist_and_due_ones_go() {
    for mut partition in [partition(), partition_by_slots()] {
        let mut out = Vec::new();
        assert!(!partition.random_key(0, 1, &mut out));
        for number in 0..if cfg!(miri) { 5 } else { 50 } {
            set_until(&mut partition, format!("due:{number}").as_bytes(), b"v", NOW_MS + 1);
        }
        set(&mut partition, b"stays", b"v");
        partition.set_now(NOW_MS + 2);
        let mut rng = crate::testing::Rng::new(1);
        for _ in 0..if cfg!(miri) { 3 } else { 50 } {
            assert!(partition.random_key(0, rng.next(), &mut out));
            assert_eq!(out, b"stays");
        }
        partition.validate();
    }
}

#[test]
fn keys_of_a_hash_slot_are_counted_and_listed() {
    let mut partition = partition_by_slots();
    for number in 0..30 {
        set(&mut partition, format!("{{a}}{number}").as_bytes(), b"v");
        set(&mut partition, format!("{{b}}{number}").as_bytes(), b"v");
    }
    let slot = hash_slot(b"{a}");
    assert_eq!(partition.slot_len(0, slot), 30);
    let mut keys = Vec::new();
    partition.for_each_key_in_slot(0, slot, 7, |key| keys.push(key.to_vec()));
    assert!(keys.len() == 7 && keys.iter().all(|key| key.starts_with(b"{a}")));
}

#[test]
fn a_full_arena_refuses_and_loses_nothing() {
    let options = Options { arena_limit_bytes: 24 * 65536, ..Options::default() };
    let mut partition = Partition::new(&options, NOW_MS).unwrap();
    partition.listen(true);
    let value = vec![b'v'; if cfg!(miri) { 1900 } else { 300 }];
    let mut stored = 0;
    loop {
        let name = format!("key:{stored}");
        let key = partition.key(name.as_bytes());
        match partition.set(0, &key, &value, SetOptions::default()) {
            Ok(done) => assert!(done),
            Err(error) => break assert_eq!(error, OpError::OutOfMemory),
        }
        stored += 1;
    }
    assert!(stored > 400, "{stored}");
    partition.validate();
    assert_eq!(partition.len(0), stored);
    for number in 0..stored {
        let name = format!("key:{number}");
        assert_eq!(get(&mut partition, 0, name.as_bytes()).unwrap(), value);
    }
    // Overwriting in place works, and after a flush there is room at once.
    set(&mut partition, b"key:0", &value);
    partition.flush_all();
    set(&mut partition, b"after", &value);
    assert_eq!(partition.len(0), 1);
    partition.validate();
}

#[test]
fn huge_values_grow_in_place_and_are_freed_in_steps() {
    let mut partition = partition();
    let key = partition.key(b"huge");
    let piece = vec![b'x'; if cfg!(miri) { 70_000 } else { 700_000 }];
    for n in 1..=8 {
        assert_eq!(partition.append(0, &key, &piece, usize::MAX), Ok(n * piece.len()));
    }
    let used = partition.memory().large;
    assert!(used >= 8 * piece.len() && used < 9 * piece.len() + 10_000, "{used}");
    assert!(partition.memory_usage(0, &key).unwrap() >= 8 * piece.len());
    assert!(partition.delete(0, &key, DeleteCause::Command));
    assert!(partition.memory().dying > 0 && partition.has_upkeep());
    let mut steps = 0;
    while partition
        .maintain(&mut || {
            steps += 1;
            steps % 2 == 1
        })
        .work_left
    {}
    assert_eq!(partition.memory().dying, 0);
}

#[test]
fn times_far_away_are_exact() {
    let mut partition = partition();
    for at_ms in [NOW_MS + 1, 1 << 42, (1 << 63) - 1] {
        set_until(&mut partition, b"k", b"v", at_ms);
        let key = partition.key(b"k");
        assert_eq!(partition.expire_time(0, &key), Some(Some(at_ms)));
        assert!(partition.persist(0, &key) && !partition.persist(0, &key));
    }
    let key = partition.key(b"missing");
    assert_eq!(partition.expire_time(0, &key), None);
}
