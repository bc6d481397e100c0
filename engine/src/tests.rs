//! Tests of the partition as a whole.

mod budgets;
mod hash;
mod keyspace;
mod list;
mod model;
mod set;
mod upkeep;

use crate::{Key, Options, Partition, SetExpire, SetOptions};

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
