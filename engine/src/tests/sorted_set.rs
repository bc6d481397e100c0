//! Sorted sets against a slow oracle, in every form.

use super::{check_replay_and_flush, maintain_all, partition, partition_by_slots};
use crate::testing::Rng;
use crate::{DeleteCause, Event, Limits, Options, Partition, StringValue, in_order};
use std::collections::BTreeMap;

/// Members with scores and times.
type Known = BTreeMap<Vec<u8>, (f64, Option<u64>)>;

fn pick_name(rng: &mut Rng) -> Vec<u8> {
    let number = rng.below(40) as i64;
    match rng.below(6) {
        0 => format!("m{number}").into_bytes(),
        1 => (number << 40).to_string().into_bytes(),
        2 if rng.below(9) == 0 => vec![b'a' + number as u8 % 26; 70 + 40 * number as usize],
        _ => number.to_string().into_bytes(),
    }
}

fn pick_score(rng: &mut Rng) -> f64 {
    match rng.below(8) {
        0 => rng.below(1000) as f64 / 8.0 - 60.0,
        1 => [f64::INFINITY, f64::NEG_INFINITY, 1e300, 0.1][rng.below(4) as usize],
        2 => rng.below(1 << 40) as f64,
        _ => rng.below(6) as f64 - 2.0,
    }
}

fn text(name: StringValue<'_>) -> Vec<u8> {
    name.with_text(<[u8]>::to_vec)
}

fn in_their_order(known: &Known) -> Vec<(f64, Vec<u8>)> {
    let mut all: Vec<_> = known.iter().map(|(name, (score, _))| (*score, name.clone())).collect();
    all.sort_by(|a, b| in_order((a.0, &a.1), (b.0, &b.1)));
    all
}

/// Checks every way to read what a key holds.
fn compare(rng: &mut Rng, partition: &mut Partition, name: &[u8], known: Option<&Known>) {
    let key = partition.key(name);
    let found = partition.sorted_set(0, &key).unwrap();
    let (Some(set), Some(known)) = (found, known) else {
        assert!(found.is_none() && known.is_none_or(Known::is_empty));
        return;
    };
    let expected = in_their_order(known);
    let len = expected.len();
    assert_eq!(set.len(), len);
    let start = rng.below(len as u64 + 1) as usize;
    let end = start + rng.below((len - start) as u64 + 1) as usize;
    let mut ranked = Vec::new();
    set.each_ranked(start..end, false, |member| ranked.push((member.score, text(member.name))));
    assert_eq!(ranked, expected[start..end]);
    let mut backward = Vec::new();
    set.each_ranked(start..end, true, |member| backward.push((member.score, text(member.name))));
    backward.reverse();
    assert_eq!(backward, ranked);
    let score = pick_score(rng);
    let below = expected.iter().take_while(|member| member.0 < score).count();
    assert_eq!(set.rank_where(|member| member.score < score), below);
    let (rank, name) = (rng.below(len as u64) as usize, pick_name(rng));
    assert_eq!(set.rank(&expected[rank].1), Some((rank, expected[rank].0)));
    assert_eq!(set.rank(&name).is_some(), known.contains_key(&name));
    let member = set.get(&expected[rank].1).unwrap();
    assert_eq!(member.expire_at, known[&expected[rank].1].1);
    assert!(known.contains_key(&text(set.random(rng.next()).unwrap().name)));
}

fn step(rng: &mut Rng, partition: &mut Partition, oracle: &mut BTreeMap<Vec<u8>, Known>) {
    let name = format!("k{}", rng.below(4)).into_bytes();
    let key = partition.key(&name);
    let count = if rng.below(8) == 0 { 25 } else { 1 + rng.below(3) };
    let picked: Vec<_> = (0..count).map(|_| (pick_score(rng), pick_name(rng))).collect();
    let pairs = picked.iter().map(|(score, name)| (*score, name.as_slice()));
    let names = picked.iter().map(|(_, name)| name.as_slice());
    match rng.below(14) {
        0..=5 => {
            let mut seen = Vec::new();
            let decide = |old: Option<f64>, score| {
                seen.push(old);
                Ok(if score == 1.0 { None } else { Some(score) })
            };
            partition.sorted_set_add(0, &key, pairs, decide, Event::Zadd).unwrap();
            let known = oracle.entry(name).or_default();
            for ((score, member), seen) in picked.into_iter().zip(seen) {
                assert_eq!(known.get(&member).map(|known| known.0), seen);
                if score != 1.0 {
                    known.entry(member).or_default().0 = score;
                }
            }
        }
        6..=7 => {
            let removed = partition.remove_members(0, &key, names, Event::Zrem).unwrap();
            let known = oracle.entry(name).or_default();
            assert_eq!(removed, picked.iter().filter(|(_, m)| known.remove(m).is_some()).count());
        }
        8..=9 => {
            let known = oracle.entry(name.clone()).or_default();
            let ranks = rng.below(5) as usize..rng.below(30) as usize;
            let ordered = in_their_order(known);
            let gone = ordered.get(ranks.start..ranks.end.min(ordered.len())).unwrap_or_default();
            let removed =
                partition.sorted_set_remove_ranks(0, &key, ranks, Event::Zpopmin).unwrap();
            assert_eq!(removed, gone.len());
            gone.iter().for_each(|(_, member)| assert!(known.remove(member).is_some()));
        }
        10 => {
            let known: Known = picked.into_iter().map(|(s, m)| (m, (s, None))).collect();
            let pairs = known.iter().map(|(name, (score, _))| (*score, name.as_slice()));
            partition.sorted_set_store(0, &key, pairs.collect(), Event::Zunionstore).unwrap();
            oracle.insert(name, known);
        }
        11 => {
            let to_name = format!("k{}", rng.below(4)).into_bytes();
            let to = partition.key(&to_name);
            partition.copy(0, &key, 0, &to, true).unwrap();
            if let Some(known) = oracle.get(&name).filter(|known| !known.is_empty()).cloned() {
                oracle.insert(to_name, known);
            }
        }
        12 => {
            let at_ms = (rng.below(3) > 0).then(|| partition.now_ms() + 1 + rng.below(50));
            let event = if at_ms.is_some() { Event::Zexpire } else { Event::Zpersist };
            partition.expire_members(0, &key, names, at_ms, event).unwrap();
            if let Some(known) = oracle.get_mut(&name) {
                for (_, member) in picked {
                    if let Some(member) = known.get_mut(&member) {
                        member.1 = at_ms;
                    }
                }
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
    let (mut rng, mut oracle) = (Rng::new(seed), BTreeMap::<Vec<u8>, Known>::new());
    for i in 0..if cfg!(miri) { 60 } else { 3000 } {
        step(&mut rng, &mut partition, &mut oracle);
        if rng.below(20) == 0 {
            let now_ms = partition.now_ms() + 10;
            partition.set_now(now_ms);
            for known in oracle.values_mut() {
                known.retain(|_, (_, at_ms)| at_ms.is_none_or(|at_ms| at_ms >= now_ms));
            }
            maintain_all(&mut partition);
        }
        let name = format!("k{}", rng.below(4)).into_bytes();
        compare(&mut rng, &mut partition, &name, oracle.get(&name));
        if i % 50 == 0 {
            partition.validate();
        }
    }
    check_replay_and_flush(partition);
}

#[test]
fn sorted_sets_agree_with_the_oracle_in_every_form() {
    let small =
        Limits { zset_max_listpack_entries: 10, zset_max_listpack_value: 90, ..Limits::default() };
    let none = Limits { zset_max_listpack_entries: 0, ..Limits::default() };
    for seed in 0..if cfg!(miri) { 1 } else { 5 } {
        check(partition(), Limits::default(), seed);
        check(partition(), small, seed + 100);
        check(partition_by_slots(), small, seed + 200);
        check(partition(), none, seed + 300);
    }
}

#[test]
fn in_a_full_arena_a_sorted_set_keeps_what_it_had() {
    let options = Options { arena_limit_bytes: 1 << 20, ..Options::default() };
    let mut partition = Partition::new(&options, super::NOW_MS).unwrap();
    let key = partition.key(b"k");
    let set = |_, score| Ok(Some(score));
    let mut added = 0;
    loop {
        let name = added.to_string();
        let pair = (f64::from(added), name.as_bytes());
        let once = std::iter::once(pair);
        if partition.sorted_set_add(0, &key, once, set, Event::Zadd).is_err() {
            break;
        }
        added += 1;
    }
    partition.validate();
    // A new score needs a new cell for a moment; with or without room the set stays whole.
    for turn in 0..added {
        let name = turn.to_string();
        let pair = (f64::from(added - turn), name.as_bytes());
        let _ = partition.sorted_set_add(0, &key, std::iter::once(pair), set, Event::Zadd);
    }
    partition.validate();
    assert_eq!(partition.sorted_set(0, &key).unwrap().unwrap().len(), added as usize);
    let ranks = 1..added as usize;
    partition.sorted_set_remove_ranks(0, &key, ranks, Event::Zremrangebyrank).unwrap();
    partition.validate();
    assert_eq!(partition.sorted_set(0, &key).unwrap().unwrap().len(), 1);
}
