//! The keyspace against a slow oracle: random operations, compared after each.

use super::{NOW_MS, get, partition, partition_by_slots};
use crate::testing::Rng;
use crate::{Changed, DeleteCause, Effect, OpError, Options, Partition};
use crate::{SetCondition, SetExpire, SetOptions, Transfer};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    value: Vec<u8>,
    expire_at: Option<u64>,
}

/// The slow oracle: databases as sorted maps.
struct Oracle {
    dbs: Vec<BTreeMap<Vec<u8>, Entry>>,
    now_ms: u64,
}

const DBS: usize = 3;

#[derive(Clone, Debug)]
enum Op {
    Set { db: usize, key: Vec<u8>, value: Vec<u8>, options: SetOptions },
    Append { db: usize, key: Vec<u8>, bytes: Vec<u8> },
    SetRange { db: usize, key: Vec<u8>, offset: usize, bytes: Vec<u8> },
    SetBit { db: usize, key: Vec<u8>, offset: usize, on: bool },
    IncrBy { db: usize, key: Vec<u8>, delta: i64 },
    SetFloat { db: usize, key: Vec<u8>, text: Vec<u8> },
    Delete { db: usize, key: Vec<u8> },
    Expire { db: usize, key: Vec<u8>, at_ms: u64 },
    Persist { db: usize, key: Vec<u8> },
    Rename { db: usize, from: Vec<u8>, to: Vec<u8>, replace: bool },
    Copy { db: usize, from: Vec<u8>, to_db: usize, to: Vec<u8>, replace: bool },
    Move { db: usize, key: Vec<u8>, to_db: usize },
    FlushDb { db: usize },
    FlushAll,
    SwapDb { a: usize, b: usize },
    Advance { ms: u64 },
    Maintain { steps: usize },
}

fn pick_key(rng: &mut Rng) -> Vec<u8> {
    let number = rng.below(60);
    let mut key = format!("{{{}}}k{number}", number % 7).into_bytes();
    // Some keys are long, a few do not fit a block.
    match number {
        50..=54 => key.resize(20 * (number as usize - 45), b'_'),
        55..=57 => key.resize(300, b'_'),
        58 => key.resize(1500, b'_'),
        59 => key.clear(),
        _ => {}
    }
    key
}

fn pick_value(rng: &mut Rng) -> Vec<u8> {
    let integer = rng.next() as i64 >> rng.below(64);
    let len = match rng.below(40) {
        0..=11 => return integer.to_string().into_bytes(),
        12..=14 => 0,
        15 => 1900 + rng.below(300) as usize,
        16 if !cfg!(miri) => 5000 + rng.below(10_000) as usize,
        17 if !cfg!(miri) && rng.below(8) == 0 => 250_000 + rng.below(40_000) as usize,
        18..=25 => rng.below(400) as usize,
        _ => rng.below(50) as usize,
    };
    vec![b'a' + rng.below(26) as u8; len]
}

fn pick(rng: &mut Rng, now_ms: u64) -> Op {
    let db = (rng.below(DBS as u64 + 3) as usize).saturating_sub(3);
    let key = pick_key(rng);
    let time =
        |rng: &mut Rng| now_ms + rng.below(300) + if rng.below(3) == 0 { 1 << 42 } else { 0 };
    match rng.below(100) {
        0..=29 => {
            let expire = match rng.below(4) {
                0 => SetExpire::At(time(rng)),
                1 => SetExpire::Keep,
                _ => SetExpire::Clear,
            };
            let condition = match rng.below(6) {
                0 => SetCondition::IfMissing,
                1 => SetCondition::IfExists,
                _ => SetCondition::Always,
            };
            Op::Set { db, key, value: pick_value(rng), options: SetOptions { expire, condition } }
        }
        30..=37 => Op::Append { db, key, bytes: pick_value(rng) },
        38..=43 => {
            Op::SetRange { db, key, offset: rng.below(100) as usize, bytes: pick_value(rng) }
        }
        44..=49 => Op::SetBit { db, key, offset: rng.below(900) as usize, on: rng.below(2) == 0 },
        50..=57 => Op::IncrBy { db, key, delta: rng.next() as i64 >> rng.below(64) },
        58..=59 => Op::SetFloat { db, key, text: b"3.25".to_vec() },
        60..=67 => Op::Delete { db, key },
        68..=74 => Op::Expire { db, key, at_ms: time(rng).saturating_sub(20) },
        75..=77 => Op::Persist { db, key },
        78..=82 => Op::Rename { db, from: key, to: pick_key(rng), replace: rng.below(3) > 0 },
        83..=87 => {
            let (to_db, replace) = (rng.below(DBS as u64) as usize, rng.below(3) > 0);
            Op::Copy { db, from: key, to_db, to: pick_key(rng), replace }
        }
        88..=90 => Op::Move { db, key, to_db: rng.below(DBS as u64) as usize },
        91 if rng.below(6) == 0 => Op::FlushDb { db },
        92 if rng.below(20) == 0 => Op::FlushAll,
        93 => Op::SwapDb { a: db, b: rng.below(DBS as u64) as usize },
        94..=95 => Op::Advance { ms: rng.below(60) },
        _ => Op::Maintain { steps: rng.below(4) as usize },
    }
}

impl Oracle {
    /// The live entry of a key; a due one goes.
    fn live(&mut self, db: usize, key: &[u8]) -> Option<&mut Entry> {
        let now_ms = self.now_ms;
        let due = |entry: &Entry| entry.expire_at.is_some_and(|at_ms| at_ms < now_ms);
        if self.dbs[db].get(key).is_some_and(due) {
            self.dbs[db].remove(key);
        }
        self.dbs[db].get_mut(key)
    }

    fn set(&mut self, db: usize, key: &[u8], value: &[u8], options: SetOptions) -> bool {
        let old = self.live(db, key).cloned();
        let refused = match options.condition {
            SetCondition::Always => false,
            SetCondition::IfMissing => old.is_some(),
            SetCondition::IfExists => old.is_none(),
        };
        if refused {
            return false;
        }
        let expire_at = match options.expire {
            SetExpire::Clear => None,
            SetExpire::Keep => old.and_then(|old| old.expire_at),
            SetExpire::At(at_ms) => Some(at_ms),
        };
        self.dbs[db].insert(key.to_vec(), Entry { value: value.to_vec(), expire_at });
        true
    }

    /// The string for a change, created when missing.
    fn string(&mut self, db: usize, key: &[u8]) -> &mut Vec<u8> {
        self.live(db, key);
        let empty = Entry { value: Vec::new(), expire_at: None };
        &mut self.dbs[db].entry(key.to_vec()).or_insert(empty).value
    }

    fn incr(&mut self, db: usize, key: &[u8], delta: i64) -> Result<i64, OpError> {
        let value = match self.live(db, key) {
            None => 0,
            Some(entry) => {
                let text = std::str::from_utf8(&entry.value).map_err(|_| OpError::NotInteger)?;
                let value: i64 = text.parse().map_err(|_| OpError::NotInteger)?;
                if value.to_string() != text {
                    return Err(OpError::NotInteger);
                }
                value
            }
        };
        let sum = value.checked_add(delta).ok_or(OpError::Overflow)?;
        *self.string(db, key) = sum.to_string().into_bytes();
        Ok(sum)
    }

    fn transfer(
        &mut self,
        (db, from): (usize, &[u8]),
        (to_db, to): (usize, &[u8]),
        replace: bool,
        keep: bool,
    ) -> Transfer {
        let Some(source) = self.live(db, from).cloned() else { return Transfer::SourceMissing };
        if self.live(to_db, to).is_some() && !replace {
            return Transfer::TargetExists;
        }
        if !keep {
            self.dbs[db].remove(from);
        }
        self.dbs[to_db].insert(to.to_vec(), source);
        Transfer::Done
    }
}

/// Runs an operation on both and compares the answers.
fn run(partition: &mut Partition, oracle: &mut Oracle, op: &Op) {
    match op {
        Op::Set { db, key, value, options } => {
            let stored = partition.set(*db, &partition.key(key), value, *options).unwrap();
            assert_eq!(stored, oracle.set(*db, key, value, *options));
        }
        Op::Append { db, key, bytes } => {
            let len = partition.append(*db, &partition.key(key), bytes, usize::MAX).unwrap();
            let string = oracle.string(*db, key);
            string.extend_from_slice(bytes);
            assert_eq!(len, string.len());
        }
        Op::SetRange { db, key, offset, bytes } => {
            let len = partition.set_range(*db, &partition.key(key), *offset, bytes).unwrap();
            if bytes.is_empty() {
                assert_eq!(len, oracle.live(*db, key).map_or(0, |entry| entry.value.len()));
                return;
            }
            let string = oracle.string(*db, key);
            string.resize(string.len().max(offset + bytes.len()), 0);
            string[*offset..offset + bytes.len()].copy_from_slice(bytes);
            assert_eq!(len, string.len());
        }
        Op::SetBit { db, key, offset, on } => {
            let (byte, mask) = (offset / 8, 0x80u8 >> (offset % 8));
            let change = |bytes: &mut [u8]| {
                let old = bytes[byte] & mask != 0;
                bytes[byte] = bytes[byte] & !mask | if *on { mask } else { 0 };
                let changed = Changed::Bit { offset: *offset as u64, on: *on };
                (old, if old == *on { Changed::Nothing } else { changed })
            };
            let old = partition.string_mut(*db, &partition.key(key), byte + 1, change).unwrap();
            let string = oracle.string(*db, key);
            string.resize(string.len().max(byte + 1), 0);
            assert_eq!(change(string).0, old);
        }
        Op::IncrBy { db, key, delta } => {
            let sum = partition.incr_by(*db, &partition.key(key), *delta);
            assert_eq!(sum, oracle.incr(*db, key, *delta));
        }
        Op::SetFloat { db, key, text } => {
            partition.set_float_text(*db, &partition.key(key), text).unwrap();
            *oracle.string(*db, key) = text.clone();
        }
        Op::Delete { db, key } => {
            let deleted = partition.delete(*db, &partition.key(key), DeleteCause::Command);
            assert_eq!(deleted, oracle.live(*db, key).is_some());
            oracle.dbs[*db].remove(key);
        }
        Op::Expire { db, key, at_ms } => {
            let found = partition.expire_at(*db, &partition.key(key), *at_ms).unwrap();
            let now_ms = oracle.now_ms;
            let entry = oracle.live(*db, key);
            assert_eq!(found, entry.is_some());
            let Some(entry) = entry else { return };
            entry.expire_at = Some(*at_ms);
            if *at_ms <= now_ms {
                oracle.dbs[*db].remove(key);
            }
        }
        Op::Persist { db, key } => {
            let done = partition.persist(*db, &partition.key(key));
            let taken = oracle.live(*db, key).and_then(|entry| entry.expire_at.take());
            assert_eq!(done, taken.is_some());
        }
        Op::Rename { db, from, to, replace } => {
            let (a, b) = (partition.key(from), partition.key(to));
            let done = partition.rename(*db, &a, &b, *replace).unwrap();
            assert_eq!(done, oracle.transfer((*db, from), (*db, to), *replace, false));
        }
        Op::Copy { db, from, to_db, to, replace } => {
            let (a, b) = (partition.key(from), partition.key(to));
            let done = partition.copy(*db, &a, *to_db, &b, *replace).unwrap();
            assert_eq!(done, oracle.transfer((*db, from), (*to_db, to), *replace, true));
        }
        Op::Move { db, key, to_db } => {
            let done = partition.move_key(*db, &partition.key(key), *to_db).unwrap();
            assert_eq!(done, oracle.transfer((*db, key), (*to_db, key), false, false));
        }
        Op::FlushDb { db } => {
            partition.flush_db(*db);
            oracle.dbs[*db].clear();
        }
        Op::FlushAll => {
            partition.flush_all();
            oracle.dbs.iter_mut().for_each(BTreeMap::clear);
        }
        Op::SwapDb { a, b } => {
            partition.swap_db(*a, *b);
            oracle.dbs.swap(*a, *b);
        }
        Op::Advance { ms } => {
            oracle.now_ms += ms;
            partition.set_now(oracle.now_ms);
        }
        Op::Maintain { steps } => {
            let mut left = *steps;
            let report = partition.maintain(&mut || {
                left = left.saturating_sub(1);
                left > 0
            });
            let next = oracle.dbs.iter().flat_map(BTreeMap::values).filter_map(|e| e.expire_at);
            let next = next.filter(|&at_ms| at_ms >= oracle.now_ms).min();
            assert!(
                report.next_expire_ms.unwrap_or(u64::MAX) <= next.map_or(u64::MAX, |next| next + 1)
            );
        }
    }
}

fn compare(partition: &mut Partition, oracle: &mut Oracle) {
    for db in 0..DBS {
        let now_ms = oracle.now_ms;
        oracle.dbs[db].retain(|_, entry| entry.expire_at.is_none_or(|at_ms| at_ms >= now_ms));
        let mut keys = Vec::new();
        partition.for_each_key(db, |key, _| keys.push(key.to_vec()));
        keys.sort_unstable();
        assert_eq!(keys, oracle.dbs[db].keys().cloned().collect::<Vec<_>>());
        for (name, entry) in &oracle.dbs[db] {
            assert_eq!(get(partition, db, name).as_deref(), Some(&entry.value[..]));
            let key = partition.key(name);
            assert_eq!(partition.expire_time(db, &key), Some(entry.expire_at));
        }
    }
    partition.validate();
}

fn run_model(mut partition: Partition, seed: u64, rounds: usize) {
    let mut oracle = Oracle { dbs: vec![BTreeMap::new(); DBS], now_ms: NOW_MS };
    let mut replica = Partition::new(&Options { seed: 99, ..Options::default() }, NOW_MS).unwrap();
    partition.listen(true);
    let mut rng = Rng::new(seed);
    let mut trace = Vec::new();
    for round in 0..rounds {
        let op = pick(&mut rng, oracle.now_ms);
        trace.push(op.clone());
        let before = (partition.dirty(), digests(&partition));
        run(&mut partition, &mut oracle, &op);
        if before.1 != digests(&partition) {
            assert!(partition.dirty() > before.0, "{op:?} changed something and reported nothing");
        }
        if round % (rounds / 10) == 0 {
            compare(&mut partition, &mut oracle);
        }
    }
    compare(&mut partition, &mut oracle);
    replay(&mut partition, &mut replica);
    partition.flush_all();
    super::maintain_all(&mut partition);
    let memory = partition.memory();
    assert_eq!((memory.blocks, memory.expire, memory.dying), (0, 0, 0));
    partition.validate();
}

fn digests(partition: &Partition) -> Vec<u64> {
    (0..DBS).map(|db| partition.digest(db)).collect()
}

/// The effects of one partition give the same keys, values and times in another.
fn replay(partition: &mut Partition, replica: &mut Partition) {
    let mut log = partition.effect_log();
    while !log.is_empty() {
        let (effect, rest) = Effect::decode(log).unwrap();
        replica.apply(&effect).unwrap();
        log = rest;
    }
    for db in 0..DBS {
        assert_eq!(partition.len(db), replica.len(db), "database {db}");
        assert_eq!(partition.digest(db), replica.digest(db), "database {db}");
    }
    replica.validate();
}

#[test]
fn the_keyspace_behaves_like_sorted_maps_and_its_effects_replay() {
    let (seeds, rounds) = if cfg!(miri) { (1, 150) } else { (8, 2000) };
    for seed in 0..seeds {
        run_model(partition(), seed, rounds);
    }
}

#[test]
#[cfg_attr(miri, ignore = "each comparison walks 16,384 places; one short run took six minutes")]
fn a_table_per_hash_slot_behaves_the_same() {
    for seed in 0..3 {
        run_model(partition_by_slots(), 1000 + seed, 2000);
    }
}
