//! Hashes against a slow oracle, in every form, with times of their fields.

use super::{NOW_MS, check_replay_and_flush, partition, partition_by_slots};
use crate::testing::Rng;
use crate::{DeleteCause, Event, Limits, OpError, Options, Partition, SetOptions, StringValue};
use std::collections::BTreeMap;

type Fields = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

#[derive(Default)]
struct Oracle {
    keys: BTreeMap<Vec<u8>, (Fields, Option<u64>)>,
    now_ms: u64,
}

impl Oracle {
    fn expire(&mut self) {
        let now_ms = self.now_ms;
        let due = |at_ms: &Option<u64>| at_ms.is_some_and(|at_ms| at_ms < now_ms);
        self.keys.retain(|_, (fields, expire_at)| {
            fields.retain(|_, (_, at_ms)| !due(at_ms));
            !fields.is_empty() && !due(expire_at)
        });
    }
}

fn pick_key(rng: &mut Rng) -> Vec<u8> {
    let mut key = format!("k{}", rng.below(5)).into_bytes();
    if rng.below(9) == 0 {
        key.resize(1500, b'_');
    }
    key
}

fn pick_bytes(rng: &mut Rng, few: u64) -> Vec<u8> {
    let number = rng.below(few);
    let mut bytes = number.to_string().into_bytes();
    match number % 13 {
        0 => bytes.resize(80, b'x'),
        1 => bytes.resize(200, b'y'),
        2 => bytes.extend(b"text"),
        3 => bytes.resize(2100, b'z'),
        4 => bytes.clear(),
        5 => bytes.resize(1030, b'w'),
        _ => {}
    }
    bytes
}

fn text(value: StringValue<'_>) -> Vec<u8> {
    value.with_text(<[u8]>::to_vec)
}

fn contents(partition: &mut Partition, key: &[u8]) -> Option<Fields> {
    let key = partition.key(key);
    let hash = partition.hash(0, &key).unwrap()?;
    let mut fields = Fields::new();
    hash.for_each(|field| {
        let known = hash.get(&text(field.name)).unwrap();
        assert_eq!((known.value, known.expire_at), (field.value, field.expire_at));
        let old = fields.insert(text(field.name), (text(field.value), field.expire_at));
        assert!(old.is_none(), "a field is there twice");
    });
    assert_eq!(hash.len(), fields.len());
    Some(fields)
}

fn step(rng: &mut Rng, partition: &mut Partition, oracle: &mut Oracle) {
    oracle.expire();
    let name = pick_key(rng);
    let key = partition.key(&name);
    match rng.below(20) {
        0..=7 => {
            let count = if rng.below(10) == 0 { 40 } else { 1 + rng.below(3) };
            let pairs: Vec<_> =
                (0..count).map(|_| (pick_bytes(rng, 60), pick_bytes(rng, 1000))).collect();
            let keeps_times = rng.below(2) == 0;
            let borrowed = pairs.iter().map(|(field, value)| (&field[..], &value[..]));
            let added = partition.hash_set(0, &key, borrowed, keeps_times, Event::Hset).unwrap();
            let (fields, _) = oracle.keys.entry(name).or_default();
            let before = fields.len();
            for (field, value) in pairs {
                let kept = fields.get(&field).and_then(|(_, at_ms)| at_ms.filter(|_| keeps_times));
                fields.insert(field, (value, kept));
            }
            assert_eq!(added, fields.len() - before);
        }
        8..=10 => {
            let picked: Vec<_> = (0..1 + rng.below(20)).map(|_| pick_bytes(rng, 60)).collect();
            let names = picked.iter().map(|field| &field[..]);
            let removed = partition.remove_members(0, &key, names, Event::Hdel).unwrap();
            let mut expected = 0;
            if let Some((fields, _)) = oracle.keys.get_mut(&name) {
                expected = picked.iter().filter(|field| fields.remove(*field).is_some()).count();
            }
            assert_eq!(removed, expected);
        }
        11..=13 => {
            let picked: Vec<_> = (0..1 + rng.below(4)).map(|_| pick_bytes(rng, 60)).collect();
            let at_ms = (rng.below(4) > 0).then(|| oracle.now_ms + rng.below(200));
            let names = picked.iter().map(|field| &field[..]);
            let count = partition.expire_members(0, &key, names, at_ms, Event::Hexpire).unwrap();
            let mut expected = 0;
            if let Some((fields, _)) = oracle.keys.get_mut(&name) {
                for field in &picked {
                    if let Some((_, time)) = fields.get_mut(field) {
                        *time = at_ms;
                        expected += 1;
                    }
                }
            }
            assert_eq!(count, expected);
        }
        14 => {
            let to_name = pick_key(rng);
            let to = partition.key(&to_name);
            partition.rename(0, &key, &to, true).unwrap();
            if let Some(value) = oracle.keys.remove(&name) {
                oracle.keys.insert(to_name, value);
            }
        }
        15 => {
            let to_name = pick_key(rng);
            let to = partition.key(&to_name);
            partition.copy(0, &key, 0, &to, true).unwrap();
            if let Some(value) = oracle.keys.get(&name).cloned() {
                oracle.keys.insert(to_name, value);
            }
        }
        16 => {
            if rng.below(3) == 0 {
                partition.set(0, &key, b"string", SetOptions::default()).unwrap();
                assert_eq!(partition.hash(0, &key).err(), Some(OpError::WrongType));
            }
            partition.delete(0, &key, DeleteCause::Command);
            oracle.keys.remove(&name);
        }
        17 => {
            let at_ms = oracle.now_ms + 1 + rng.below(500);
            let done = partition.expire_at(0, &key, at_ms).unwrap();
            let known = oracle.keys.get_mut(&name);
            assert_eq!(done, known.is_some());
            if let Some((_, expire_at)) = known {
                *expire_at = Some(at_ms);
            }
        }
        18 => {
            oracle.now_ms += rng.below(80);
            partition.set_now(oracle.now_ms);
        }
        _ => {
            let mut steps = rng.below(6);
            partition.maintain(&mut || {
                steps = steps.saturating_sub(1);
                steps > 0
            });
        }
    }
    oracle.expire();
}

fn check(mut partition: Partition, limits: Limits, seed: u64) {
    partition.limits = limits;
    partition.listen(true);
    let mut rng = Rng::new(seed);
    let mut oracle = Oracle { now_ms: NOW_MS, ..Oracle::default() };
    for i in 0..if cfg!(miri) { 60 } else { 4000 } {
        step(&mut rng, &mut partition, &mut oracle);
        let name = pick_key(&mut rng);
        let expected = oracle.keys.get(&name).map(|(fields, _)| fields.clone());
        assert_eq!(contents(&mut partition, &name), expected, "step {i} of seed {seed}");
        if i % 50 == 0 {
            partition.validate();
        }
    }
    for name in oracle.keys.keys() {
        assert!(contents(&mut partition, name).is_some());
    }
    check_replay_and_flush(partition);
}

#[test]
fn hashes_agree_with_the_oracle_in_every_form() {
    let small =
        Limits { hash_max_listpack_entries: 10, hash_max_listpack_value: 90, ..Limits::default() };
    let none = Limits { hash_max_listpack_entries: 0, ..Limits::default() };
    let large = Limits { hash_max_listpack_value: 1 << 20, ..Limits::default() };
    for seed in 0..if cfg!(miri) { 1 } else { 6 } {
        check(partition(), Limits::default(), seed);
        check(partition(), small, seed + 100);
        check(partition_by_slots(), small, seed + 200);
        check(partition(), none, seed + 300);
        check(partition(), large, seed + 400);
    }
}

#[test]
fn fields_go_when_they_are_due_without_a_look() {
    for entries in [0, 100] {
        let mut partition = partition();
        partition.limits.hash_max_listpack_entries = entries;
        let key = partition.key(b"h");
        let pairs = [(&b"a"[..], &b"1"[..]), (b"b", b"2"), (b"c", b"3")];
        partition.hash_set(0, &key, pairs.into_iter(), false, Event::Hset).unwrap();
        for (field, at_ms) in [(b"a", 10), (b"b", 20), (b"c", 30)] {
            let names = [&field[..]].into_iter();
            partition.expire_members(0, &key, names, Some(NOW_MS + at_ms), Event::Hexpire).unwrap();
        }
        assert_eq!(partition.next_expire_ms(), Some(NOW_MS + 11));
        partition.set_now(NOW_MS + 21);
        partition.maintain(&mut || true);
        assert_eq!(partition.stats().expired_members, 2);
        assert_eq!(partition.len(0), 1);
        partition.set_now(NOW_MS + 31);
        partition.maintain(&mut || true);
        assert_eq!(partition.len(0), 0);
        partition.validate();
    }
}

#[test]
fn a_field_with_a_time_moves_with_its_key() {
    let mut partition = partition();
    let (key, to) = (partition.key(b"h"), partition.key(b"other"));
    partition.hash_set(0, &key, [(&b"a"[..], &b"1"[..])].into_iter(), false, Event::Hset).unwrap();
    let names = || [&b"a"[..]].into_iter();
    partition.expire_members(0, &key, names(), Some(NOW_MS + 9), Event::Hexpire).unwrap();
    partition.move_key(0, &key, 1).unwrap();
    partition.rename(1, &key, &to, false).unwrap();
    partition.validate();
    partition.set_now(NOW_MS + 10);
    partition.maintain(&mut || true);
    assert_eq!(partition.len(1), 0);
}

/// A change that ends half way reports the half that it did, so that a log tells the same.
#[test]
fn in_a_full_arena_the_effects_tell_what_was_done() {
    let options = Options { arena_limit_bytes: 12 * 65536, ..Options::default() };
    let mut partition = Partition::new(&options, NOW_MS).unwrap();
    partition.listen(true);
    let mut rng = Rng::new(11);
    let mut refused = [0; 3];
    for _ in 0..if cfg!(miri) { 60 } else { 4000 } {
        let texts: Vec<_> = (0..rng.below(60))
            .map(|_| format!("field {}", rng.below(2000) * rng.below(2000)).into_bytes())
            .collect();
        let names = texts.iter().map(Vec::as_slice);
        let (hash, set) = (partition.key(b"hash"), partition.key(b"set"));
        let kind = rng.below(4) as usize;
        let done = match kind {
            0 => {
                let pairs = names.map(|name| (name, &name[..rng.below(7) as usize]));
                let pairs: Vec<_> = pairs.collect();
                partition.hash_set(0, &hash, pairs.into_iter(), false, Event::Hset)
            }
            1 => partition.set_add(0, &set, names, Event::Sadd),
            2 => {
                let at_ms = Some(NOW_MS + 1000 + rng.below(1000));
                partition.expire_members(0, &hash, names, at_ms, Event::Hexpire)
            }
            _ if rng.below(6) == 0 => partition.remove_members(0, &hash, names, Event::Hdel),
            _ => partition.remove_members(0, &set, names.take(6), Event::Srem),
        };
        if let Err(error) = done {
            assert_eq!(error, OpError::OutOfMemory);
            refused[kind] += 1;
        }
    }
    assert!(cfg!(miri) || refused.iter().all(|&times| times > 10), "{refused:?}");
    partition.validate();
    check_replay_and_flush(partition);
}
