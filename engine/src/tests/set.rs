//! Sets against a slow oracle, in every form.

use super::{check_replay_and_flush, partition, partition_by_slots};
use crate::testing::Rng;
use crate::{DeleteCause, Event, Limits, Partition, StringValue};
use std::collections::{BTreeMap, BTreeSet};

type Names = BTreeSet<Vec<u8>>;

fn pick_name(rng: &mut Rng) -> Vec<u8> {
    let number = rng.below(30) as i64;
    match rng.below(6) {
        0 => format!("m{number}").into_bytes(),
        1 => (number << 40).to_string().into_bytes(),
        2 => (-number << 14).to_string().into_bytes(),
        3 if rng.below(9) == 0 => vec![b'a' + number as u8 % 26; 70 + 40 * number as usize],
        _ => number.to_string().into_bytes(),
    }
}

fn contents(partition: &mut Partition, name: &[u8]) -> Option<Names> {
    let key = partition.key(name);
    let set = partition.set_members(0, &key).unwrap()?;
    let mut names = Names::new();
    let text = |name: StringValue<'_>| name.with_text(<[u8]>::to_vec);
    set.for_each(|member| {
        assert!(set.get(&text(member.name)).is_some());
        assert!(names.insert(text(member.name)), "a member is there twice");
    });
    assert_eq!(set.len(), names.len());
    assert!(names.contains(&text(set.random(7).unwrap().name)));
    Some(names)
}

fn step(rng: &mut Rng, partition: &mut Partition, oracle: &mut BTreeMap<Vec<u8>, Names>) {
    let name = format!("k{}", rng.below(4)).into_bytes();
    let key = partition.key(&name);
    let count = if rng.below(8) == 0 { 25 } else { 1 + rng.below(3) };
    let picked: Vec<_> = (0..count).map(|_| pick_name(rng)).collect();
    let names = picked.iter().map(Vec::as_slice);
    match rng.below(12) {
        0..=5 => {
            let added = partition.set_add(0, &key, names, Event::Sadd).unwrap();
            let known = oracle.entry(name).or_default();
            assert_eq!(added, picked.into_iter().filter(|name| known.insert(name.clone())).count());
        }
        6..=8 => {
            let removed = partition.remove_members(0, &key, names, Event::Srem).unwrap();
            let known = oracle.entry(name.clone()).or_default();
            assert_eq!(removed, picked.iter().filter(|name| known.remove(*name)).count());
            if known.is_empty() {
                oracle.remove(&name);
            }
        }
        9 => {
            let by_rows = rng.below(2) == 0;
            let count = partition.set_store(0, &key, names, by_rows, Event::Sunionstore).unwrap();
            let known: Names = picked.into_iter().collect();
            assert_eq!(count, known.len());
            oracle.insert(name, known);
        }
        10 => {
            let to_name = format!("k{}", rng.below(4)).into_bytes();
            let to = partition.key(&to_name);
            partition.copy(0, &key, 0, &to, true).unwrap();
            if let Some(known) = oracle.get(&name).cloned() {
                oracle.insert(to_name, known);
            }
        }
        _ => {
            partition.delete(0, &key, DeleteCause::Command);
            oracle.remove(&name);
            partition.maintain(&mut || true);
        }
    }
}

fn check(mut partition: Partition, limits: Limits, seed: u64) {
    partition.limits = limits;
    partition.listen(true);
    let (mut rng, mut oracle) = (Rng::new(seed), BTreeMap::new());
    for i in 0..if cfg!(miri) { 60 } else { 3000 } {
        step(&mut rng, &mut partition, &mut oracle);
        let name = format!("k{}", rng.below(4)).into_bytes();
        let found = contents(&mut partition, &name);
        assert_eq!(found.as_ref(), oracle.get(&name), "step {i} of seed {seed}");
        if i % 50 == 0 {
            partition.validate();
        }
    }
    check_replay_and_flush(partition);
}

#[test]
fn sets_agree_with_the_oracle_in_every_form() {
    let small = Limits {
        set_max_intset_entries: 6,
        set_max_listpack_entries: 10,
        set_max_listpack_value: 90,
        ..Limits::default()
    };
    let none =
        Limits { set_max_intset_entries: 0, set_max_listpack_entries: 0, ..Limits::default() };
    for seed in 0..if cfg!(miri) { 1 } else { 5 } {
        check(partition(), Limits::default(), seed);
        check(partition(), small, seed + 100);
        check(partition_by_slots(), small, seed + 200);
        check(partition(), none, seed + 300);
    }
}
