//! Tests of the partition as a whole.

mod budgets;
mod hash;
mod hyperloglog;
mod keyspace;
mod list;
mod model;
mod set;
mod sorted_set;
mod upkeep;

use crate::{Effect, Key, Options, Partition, SetExpire, SetOptions};

pub(crate) const NOW_MS: u64 = 1_764_550_000_000;

pub(crate) fn partition() -> Partition {
    Partition::new(&Options::default(), NOW_MS).unwrap()
}

pub(crate) fn partition_by_slots() -> Partition {
    Partition::new(&Options { hash_slots: true, ..Options::default() }, NOW_MS).unwrap()
}

pub(crate) fn set(partition: &mut Partition, name: &[u8], value: &[u8]) {
    let key: Key<'_> = partition.key(name);
    partition.set(0, &key, value, SetOptions::default()).unwrap();
}

pub(crate) fn set_until(partition: &mut Partition, name: &[u8], value: &[u8], at_ms: u64) {
    let key: Key<'_> = partition.key(name);
    let options = SetOptions { expire: SetExpire::At(at_ms), ..SetOptions::default() };
    partition.set(0, &key, value, options).unwrap();
}

pub(crate) fn get(partition: &mut Partition, db: usize, name: &[u8]) -> Option<Vec<u8>> {
    let key: Key<'_> = partition.key(name);
    partition.get(db, &key).unwrap().map(|value| value.with_text(<[u8]>::to_vec))
}

pub(crate) fn maintain_all(partition: &mut Partition) {
    while partition.maintain(&mut || true).work_left {}
}

/// Checks that the effects so far make the same keys in another partition, and that a flush frees
/// everything.
pub(crate) fn check_replay_and_flush(mut partition: Partition) {
    let mut other = Partition::new(&Options::default(), NOW_MS).unwrap();
    other.limits = partition.limits;
    let mut rest = partition.effect_log();
    while !rest.is_empty() {
        let (effect, after) = Effect::decode(rest).unwrap();
        other.apply(&effect).unwrap();
        rest = after;
    }
    other.set_now(partition.now_ms());
    for partition in [&mut partition, &mut other] {
        maintain_all(partition);
    }
    other.validate();
    assert_eq!(other.digest(0), partition.digest(0));
    partition.flush_all();
    maintain_all(&mut partition);
    partition.validate();
    assert_eq!(partition.memory().blocks, 0, "everything was freed");
}
