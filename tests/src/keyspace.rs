//! The keyspace against a slow, obvious oracle, and against its own effect stream.

use std::collections::BTreeMap;

use engine::{DeleteCause, Effect, Options, Partition, SetCondition, SetExpire, SetOptions};

/// Where the clock of every run begins, in milliseconds.
const START_MS: u64 = 1_700_000_000_000;

/// Databases of a run.
const DATABASES: usize = 2;

/// What the oracle knows of a key: its value's text and its time.
type Known = BTreeMap<(usize, Vec<u8>), (Vec<u8>, Option<u64>)>;

/// Takes bytes as a list of operations; an input that ends yields zeros.
struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn key(&mut self) -> Vec<u8> {
        let choice = self.byte();
        let len = if choice >= 250 { 3000 } else { usize::from(choice % 3) };
        let mut key = vec![b'k'; len];
        key.push(choice % 40);
        key
    }

    fn value(&mut self) -> Vec<u8> {
        match self.byte() {
            choice @ 0..=99 => choice.to_string().into_bytes(),
            choice @ 100..=199 => vec![b'v'; usize::from(choice - 100)],
            200..=219 => i64::MAX.to_string().into_bytes(),
            choice => vec![b'w'; usize::from(choice - 220) * 400],
        }
    }
}

/// Runs the operations that the input spells on a partition and on the oracle, compares after
/// each, and replays the effects into an empty partition at the end.
pub fn check_operations(data: &[u8]) {
    let mut source = Source(data);
    let hash_slots = source.byte() & 1 == 1;
    let options = Options { databases: DATABASES, hash_slots, ..Options::default() };
    let mut partition = Partition::new(&options, START_MS).expect("address space");
    partition.listen(true);
    let (mut known, mut now_ms) = (Known::new(), START_MS);
    while !source.0.is_empty() {
        step(&mut source, &mut partition, &mut known, &mut now_ms);
    }
    for db in 0..DATABASES {
        let wanted = known.keys().filter(|(in_db, _)| *in_db == db).count();
        assert_eq!(partition.len(db), wanted, "keys of database {db}");
    }
    // The replay's clock stands still: what expired is in the stream.
    let mut replayed = Partition::new(&options, START_MS).expect("address space");
    let log = partition.effect_log().to_vec();
    let mut rest = log.as_slice();
    while !rest.is_empty() {
        let (effect, after) = Effect::decode(rest).expect("what was encoded can be decoded");
        replayed.apply(&effect).expect("memory");
        rest = after;
    }
    for db in 0..DATABASES {
        assert_eq!(replayed.digest(db), partition.digest(db), "database {db}");
    }
    partition.validate();
}

fn step(source: &mut Source<'_>, partition: &mut Partition, known: &mut Known, now_ms: &mut u64) {
    let choice = source.byte();
    let db = usize::from(choice >> 7);
    let name = source.key();
    let key = partition.key(&name);
    let place = (db, name.clone());
    match choice % 16 {
        0..=3 => {
            let value = source.value();
            partition.set(db, &key, &value, SetOptions::default()).expect("memory");
            known.insert(place.clone(), (value, None));
        }
        4 => {
            let (value, life_ms) = (source.value(), u64::from(source.byte()) * 10 + 1);
            let options = SetOptions {
                expire: SetExpire::At(*now_ms + life_ms),
                condition: SetCondition::Always,
            };
            partition.set(db, &key, &value, options).expect("memory");
            known.insert(place.clone(), (value, Some(*now_ms + life_ms)));
        }
        5 | 6 => {
            let deleted = partition.delete(db, &key, DeleteCause::Command);
            assert_eq!(deleted, known.remove(&place).is_some());
        }
        7 => {
            let value = source.value();
            let len = partition.append(db, &key, &value, 1 << 20);
            let entry = known.entry(place.clone()).or_default();
            if entry.0.len() + value.len() <= 1 << 20 {
                entry.0.extend_from_slice(&value);
                assert_eq!(len, Ok(entry.0.len()));
            }
        }
        8 => {
            let sum = partition.incr_by(db, &key, i64::from(source.byte()));
            if let Ok(sum) = sum {
                known.entry(place.clone()).or_default().0 = sum.to_string().into_bytes();
            }
        }
        9 => {
            let at_ms = *now_ms + u64::from(source.byte()) * 10 + 1;
            let found = partition.expire_at(db, &key, at_ms).expect("memory");
            assert_eq!(found, known.contains_key(&place));
            if let Some(entry) = known.get_mut(&place) {
                entry.1 = Some(at_ms);
            }
        }
        10 => {
            let had = known.get_mut(&place).and_then(|entry| entry.1.take()).is_some();
            assert_eq!(partition.persist(db, &key), had);
        }
        11 => {
            *now_ms += u64::from(source.byte()) * 5;
            partition.set_now(*now_ms);
            let mut steps = 0;
            partition.maintain(&mut || {
                steps += 1;
                steps < 10_000
            });
            known.retain(|_, (_, at_ms)| at_ms.is_none_or(|at_ms| at_ms >= *now_ms));
        }
        12 => {
            let target = source.key();
            let to = partition.key(&target);
            let found = known.contains_key(&place);
            let renamed = partition.rename(db, &key, &to, true).expect("memory");
            assert_eq!(renamed == engine::Transfer::Done, found);
            if let Some(entry) = known.remove(&place) {
                known.insert((db, target), entry);
            }
        }
        13 if choice >> 4 & 7 == 0 => {
            partition.flush_db(db);
            known.retain(|(in_db, _), _| *in_db != db);
        }
        14 if choice >> 4 & 7 == 0 => {
            partition.swap_db(0, 1);
            let swapped = std::mem::take(known).into_iter();
            *known = swapped.map(|((db, name), entry)| ((1 - db, name), entry)).collect();
        }
        _ => {}
    }
    let key = partition.key(&name);
    let found = partition.peek(db, &key).expect("only strings");
    let found = found.map(|value| value.with_text(<[u8]>::to_vec));
    assert_eq!(found.as_ref(), known.get(&place).map(|(value, _)| value), "{choice}");
}
