//! Lists against a slow oracle, packed and as chains.

use super::{NOW_MS, check_replay_and_flush, partition, partition_by_slots};
use crate::testing::Rng;
use crate::{DeleteCause, End, Event, Limits, OpError, Options, Partition, StringValue};
use std::collections::{BTreeMap, VecDeque};

type Elements = VecDeque<Vec<u8>>;

fn pick(rng: &mut Rng) -> Vec<u8> {
    match rng.below(40) {
        0 => vec![b'x'; 1500 + rng.below(1500) as usize],
        1 => vec![b'y'; rng.below(400) as usize],
        2..=9 => (rng.next() as i64 >> rng.below(64)).to_string().into_bytes(),
        _ => format!("e{}", rng.below(12)).into_bytes(),
    }
}

fn text(value: StringValue<'_>) -> Vec<u8> {
    value.with_text(<[u8]>::to_vec)
}

fn contents(partition: &mut Partition, rng: &mut Rng, name: &[u8]) -> Option<Elements> {
    let key = partition.key(name);
    let list = partition.list(0, &key).unwrap()?;
    let elements: Elements = list.iter_from(0).map(text).collect();
    let len = elements.len();
    assert_eq!(list.len(), len);
    let mut back: Elements = list.iter_back_from(len - 1).map(text).collect();
    back.make_contiguous().reverse();
    assert_eq!(back, elements);
    let index = rng.below(len as u64 + 2) as usize;
    assert_eq!(list.get(index).map(text).as_ref(), elements.get(index));
    let rest: Elements = list.iter_from(index).map(text).collect();
    assert_eq!(rest, elements.iter().skip(index).cloned().collect::<Elements>());
    Some(elements)
}

fn step(rng: &mut Rng, partition: &mut Partition, oracle: &mut BTreeMap<Vec<u8>, Elements>) {
    let name = format!("k{}", rng.below(3)).into_bytes();
    let key = partition.key(&name);
    let len = oracle.get(&name).map_or(0, VecDeque::len);
    let end = if rng.below(2) == 0 { End::Head } else { End::Tail };
    match rng.below(16) {
        0..=5 => {
            let count = if rng.below(6) == 0 { 150 } else { 1 + rng.below(3) };
            let picked: Vec<_> = (0..count).map(|_| pick(rng)).collect();
            let elements = picked.iter().map(Vec::as_slice);
            let found = partition.list_push(0, &key, end, elements, Event::Lpush).unwrap();
            let known = oracle.entry(name).or_default();
            for element in picked {
                if end == End::Head { known.push_front(element) } else { known.push_back(element) }
            }
            assert_eq!(found, known.len());
        }
        6..=8 => {
            let count = if rng.below(5) == 0 { rng.below(60) as usize } else { 1 };
            let gone = partition.list_pop(0, &key, end, count, Event::Lpop).unwrap();
            assert_eq!(gone, count.min(len));
            if let Some(known) = oracle.get_mut(&name) {
                for _ in 0..gone {
                    if end == End::Head {
                        known.pop_front()
                    } else {
                        known.pop_back()
                    };
                }
            }
        }
        9 if len > 0 => {
            let (index, element) = (rng.below(len as u64) as usize, pick(rng));
            partition.list_set(0, &key, index, &element).unwrap();
            oracle.get_mut(&name).unwrap()[index] = element;
        }
        10..=11 if len > 0 => {
            let (index, element) = (rng.below(len as u64 + 1) as usize, pick(rng));
            let found = partition.list_insert(0, &key, index, &element).unwrap();
            assert_eq!(found, len + 1);
            oracle.get_mut(&name).unwrap().insert(index, element);
        }
        12 if len > 0 => {
            let (count, element) = (rng.below(7) as i64 - 3, pick(rng));
            let gone = partition.list_remove(0, &key, count, &element).unwrap();
            let known = oracle.get_mut(&name).unwrap();
            let most = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
            let hits = (0..len).filter(|index| known[*index] == element);
            let mut hits: Vec<_> =
                if count < 0 { hits.rev().take(most).collect() } else { hits.take(most).collect() };
            hits.sort_unstable();
            assert_eq!(gone, hits.len());
            hits.into_iter().rev().for_each(|index| drop(known.remove(index)));
        }
        13 if len > 20 && rng.below(4) == 0 => {
            let start = rng.below(len as u64) as usize;
            let count = rng.below(len as u64) as usize;
            partition.list_keep(0, &key, start, count).unwrap();
            let known = oracle.get_mut(&name).unwrap();
            *known = known.iter().skip(start).take(count).cloned().collect();
        }
        14 => {
            let to_name = format!("k{}", rng.below(3)).into_bytes();
            let to = partition.key(&to_name);
            partition.copy(0, &key, 0, &to, true).unwrap();
            if let Some(known) = oracle.get(&name).cloned() {
                oracle.insert(to_name, known);
            }
        }
        15 if rng.below(8) == 0 => {
            partition.delete(0, &key, DeleteCause::Command);
            oracle.remove(&name);
        }
        _ => {
            partition.maintain(&mut || true);
        }
    }
    oracle.retain(|_, known| !known.is_empty());
}

fn check(mut partition: Partition, limits: Limits, seed: u64) {
    partition.limits = limits;
    partition.listen(true);
    let (mut rng, mut oracle) = (Rng::new(seed), BTreeMap::new());
    for i in 0..if cfg!(miri) { 40 } else { 2000 } {
        step(&mut rng, &mut partition, &mut oracle);
        let name = format!("k{}", rng.below(3)).into_bytes();
        let found = contents(&mut partition, &mut rng, &name);
        assert_eq!(found.as_ref(), oracle.get(&name), "step {i} of seed {seed}");
        if i % 50 == 0 {
            partition.validate();
        }
    }
    check_replay_and_flush(partition);
}

#[test]
fn lists_agree_with_the_oracle_in_both_forms() {
    for seed in 0..if cfg!(miri) { 1 } else { 8 } {
        check(partition(), Limits::default(), seed);
        let counted = Limits { list_max_listpack_size: 3, ..Limits::default() };
        check(partition_by_slots(), counted, seed + 100);
    }
}

#[test]
fn many_elements_pushed_at_the_head_at_once_are_a_chain_before_they_are_stored() {
    for (end, at) in [(End::Head, 0), (End::Tail, 299)] {
        let mut partition = partition();
        partition.listen(true);
        let key = partition.key(b"list");
        let texts: Vec<_> = (0..300).map(|i| format!("element {i:05}").into_bytes()).collect();
        let elements = texts.iter().map(Vec::as_slice);
        assert_eq!(partition.list_push(0, &key, end, elements, Event::Lpush), Ok(300));
        let list = partition.list(0, &key).unwrap().unwrap();
        let mut found: Vec<_> = list.iter_from(0).map(text).collect();
        assert_eq!(found[at], b"element 00299");
        if end == End::Head {
            found.reverse();
        }
        assert_eq!(found, texts);
        partition.validate();
        check_replay_and_flush(partition);
    }
}

/// One walk over the nodes takes them, and joins what has become short.
#[test]
fn removing_equal_elements_from_many_nodes_leaves_the_others_in_order() {
    let kept = |i: usize| i.is_multiple_of(3) || i / 400 == 2;
    let texts: Vec<_> = (0..if cfg!(miri) { 400 } else { 4000 })
        .map(|i| if kept(i) { format!("kept {i:05}").into_bytes() } else { b"gone gone".to_vec() })
        .collect();
    let equal = texts.iter().filter(|text| *text == b"gone gone").count();
    for (count, gone) in [(0, equal), (equal as i64 / 2, equal / 2), (-100, 100), (1, 1)] {
        let mut partition = partition();
        partition.listen(true);
        let key = partition.key(b"list");
        let elements = texts.iter().map(Vec::as_slice);
        partition.list_push(0, &key, End::Tail, elements, Event::Rpush).unwrap();
        assert_eq!(partition.list_remove(0, &key, count, b"gone gone"), Ok(gone));
        let spare = if count < 0 { equal - gone } else { 0 };
        let mut seen = 0;
        let expected = texts.iter().filter(|text| {
            let is_equal = *text == b"gone gone";
            seen += usize::from(is_equal);
            !is_equal || seen <= spare || seen > spare + gone
        });
        let list = partition.list(0, &key).unwrap().unwrap();
        assert!(list.iter_from(0).map(text).eq(expected.cloned()));
        partition.validate();
        check_replay_and_flush(partition);
    }
}

#[test]
fn a_full_arena_changes_a_list_wholly_or_not_at_all() {
    let options = Options { arena_limit_bytes: 8 * 65536, ..Options::default() };
    let mut partition = Partition::new(&options, NOW_MS).unwrap();
    partition.listen(true);
    let mut rng = Rng::new(7);
    let mut refused = 0;
    let read = |partition: &mut Partition, name: &[u8]| {
        let key = partition.key(name);
        let list = partition.list(0, &key).unwrap();
        list.map(|list| list.iter_from(0).map(text).collect::<Elements>())
    };
    for _ in 0..if cfg!(miri) { 60 } else { 3000 } {
        let name = format!("k{}", rng.below(3)).into_bytes();
        let key = partition.key(&name);
        let before = read(&mut partition, &name);
        let len = before.as_ref().map_or(0, VecDeque::len);
        let end = if rng.below(2) == 0 { End::Head } else { End::Tail };
        let element = pick(&mut rng);
        let done = match rng.below(8) {
            0..=3 => {
                let picked: Vec<_> = (0..rng.below(300)).map(|_| pick(&mut rng)).collect();
                let elements = picked.iter().map(Vec::as_slice);
                partition.list_push(0, &key, end, elements, Event::Lpush).map(drop)
            }
            4 if len > 0 => {
                let element = before.as_ref().unwrap()[len - 1].clone();
                let (from, to) = ((End::Tail, Event::Rpop), (End::Head, Event::Lpush));
                partition.list_rotate(0, &key, from, to, &element)
            }
            5 if len > 0 => {
                let index = rng.below(len as u64) as usize;
                partition.list_insert(0, &key, index, &element).map(drop)
            }
            6 if len > 0 => {
                let index = rng.below(len as u64) as usize;
                partition.list_set(0, &key, index, &element)
            }
            // What takes away needs no memory once the list is a chain.
            _ if len > 400 => {
                match rng.below(3) {
                    0 => partition.list_pop(0, &key, end, 100, Event::Lpop).map(drop).unwrap(),
                    1 => partition.list_remove(0, &key, -20, &element).map(drop).unwrap(),
                    _ => partition.list_keep(0, &key, 30, len - 60).unwrap(),
                }
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(error) = done {
            assert_eq!(error, OpError::OutOfMemory);
            assert_eq!(read(&mut partition, &name), before);
            refused += 1;
        }
    }
    assert!(cfg!(miri) || refused > 100, "{refused}");
    partition.validate();
    check_replay_and_flush(partition);
}

#[test]
fn the_key_that_goes_with_its_last_element_is_not_one_change_more() {
    let mut partition = partition();
    let key = partition.key(b"list");
    partition.list_push(0, &key, End::Tail, [&b"a"[..], b"b"].into_iter(), Event::Rpush).unwrap();
    let before = partition.dirty();
    partition.list_keep(0, &key, 0, 2).unwrap();
    assert_eq!(partition.dirty() - before, 0);
    partition.list_pop(0, &key, End::Head, 2, Event::Lpop).unwrap();
    assert_eq!(partition.dirty() - before, 2);
    assert!(partition.is_empty(0));
}
