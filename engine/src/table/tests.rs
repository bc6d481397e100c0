//! The index against a slow oracle, its bytes per entry, and the guarantee of its scan.

use super::*;
use crate::arena::{Arena, ArenaOptions};
use crate::testing::Rng;
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_64;

struct World {
    slabs: Slabs,
    table: Table,
}

fn hash_of(block: &[u8]) -> u64 {
    xxh3_64(&block[..8])
}

impl World {
    fn new() -> World {
        let arena = Arena::new(ArenaOptions::default()).unwrap();
        World { slabs: Slabs::new(arena), table: Table::new() }
    }

    fn find(&self, key: u64) -> Option<Entry> {
        let key = key.to_le_bytes();
        self.table.find(&self.slabs, hash_of(&key), |block| block[..8] == key)
    }

    fn insert(&mut self, key: u64) {
        // Larger blocks fill a span sooner.
        let block = self.slabs.alloc(if cfg!(miri) { 512 } else { 16 }).unwrap();
        self.slabs.block_mut(block)[..8].copy_from_slice(&key.to_le_bytes());
        let hash = hash_of(&key.to_le_bytes());
        self.table.insert(&mut self.slabs, hash, block, &hash_of).unwrap();
    }

    fn remove(&mut self, key: u64) -> bool {
        let Some(entry) = self.find(key) else { return false };
        self.table.remove(&mut self.slabs, entry);
        self.slabs.free(entry.block);
        true
    }

    fn scan(&self, position: ScanPosition) -> (Vec<u64>, Option<ScanPosition>) {
        let mut keys = Vec::new();
        let next = self.table.scan(&self.slabs, position, |block| {
            let bytes = self.slabs.block(block)[..8].try_into().unwrap();
            keys.push(u64::from_le_bytes(bytes));
        });
        (keys, next)
    }

    fn keys(&self) -> Vec<u64> {
        let (mut all, mut at) = (Vec::new(), Some(ScanPosition(0)));
        while let Some(position) = at {
            let (keys, next) = self.scan(position);
            all.extend(keys);
            at = next;
        }
        all.sort_unstable();
        all
    }
}

#[test]
fn behaves_like_a_set() {
    let (mut world, mut rng) = (World::new(), Rng::new(11));
    let mut oracle = BTreeSet::new();
    let (range, rounds) = if cfg!(miri) { (150, 360) } else { (30_000, 300_000) };
    for round in 0..rounds {
        let key = rng.below(range);
        // Long phases of mostly growing and mostly shrinking.
        let grow = if round / (rounds / 6) % 2 == 0 { 8 } else { 2 };
        if rng.below(10) < grow {
            if world.find(key).is_none() {
                world.insert(key);
            }
            oracle.insert(key);
        } else {
            assert_eq!(world.remove(key), oracle.remove(&key));
        }
        assert_eq!(world.table.len(), oracle.len());
        if round % (rounds / 20) == 0 {
            world.table.validate(&world.slabs, &hash_of);
            assert_eq!(world.keys(), oracle.iter().copied().collect::<Vec<_>>());
        }
    }
    for key in oracle {
        assert!(world.remove(key));
    }
    assert!(world.table.bytes() < 1024, "an empty table costs nearly nothing");
    world.slabs.validate();
}

#[test]
fn entries_are_replaced_where_they_are() {
    let mut world = World::new();
    let count = if cfg!(miri) { 60 } else { 5000 };
    for key in 0..count {
        world.insert(key);
    }
    for key in 0..count {
        let entry = world.find(key).unwrap();
        let block = world.slabs.alloc(40).unwrap();
        world.slabs.copy(entry.block, 0..8, block, 0);
        world.table.replace(&mut world.slabs, entry, block);
        world.slabs.free(entry.block);
        assert_eq!(world.find(key).unwrap().block, block);
    }
    world.table.validate(&world.slabs, &hash_of);
}

#[test]
fn a_scan_misses_no_entry_that_stays_through_growth_and_shrinking() {
    let rounds = if cfg!(miri) { 3 } else { 150 };
    for seed in 0..rounds {
        let (mut world, mut rng) = (World::new(), Rng::new(seed));
        let stay = if cfg!(miri) { 20 } else { 1 + rng.below(3000) };
        for key in 0..stay {
            world.insert(key);
        }
        let mut others: Vec<u64> = Vec::new();
        let mut seen = BTreeSet::new();
        let mut at = Some(ScanPosition(0));
        let mut calls = 0;
        while let Some(position) = at {
            let (keys, next) = world.scan(position);
            assert!(next.is_none_or(|next| next > position), "a scan goes forward");
            seen.extend(keys);
            at = next;
            calls += 1;
            // Between two calls the table grows or shrinks by many buckets.
            let burst = if cfg!(miri) { 15 } else { rng.below(stay + 20) };
            if rng.below(2) == 0 && calls < 200 {
                for _ in 0..burst {
                    others.push(1_000_000 + rng.next() % (1 << 40));
                    let key = others[others.len() - 1];
                    if world.find(key).is_none() {
                        world.insert(key);
                    }
                }
            } else {
                for key in others.drain(others.len().saturating_sub(burst as usize)..) {
                    world.remove(key);
                }
            }
        }
        for key in 0..stay {
            assert!(seen.contains(&key), "seed {seed}: key {key} was missed");
        }
    }
}

#[test]
fn bytes_per_entry_stay_below_eight_at_every_fill_level() {
    let mut world = World::new();
    let (mut worst, mut sum, mut samples) = (0.0f64, 0.0, 0);
    let limit = if cfg!(miri) { 300 } else { 2_000_000 };
    let mut sample = 1000;
    for key in 0..limit {
        world.insert(key);
        if world.table.len() == sample && !cfg!(miri) {
            let bytes = world.table.bytes() as f64 / sample as f64;
            (worst, sum, samples) = (worst.max(bytes), sum + bytes, samples + 1);
            sample += sample / 40;
        }
    }
    let average = sum / f64::from(i32::max(samples, 1));
    println!("worst {worst:.3}, average {average:.3} bytes per entry");
    assert!(worst <= 8.0 && average <= 7.5, "worst {worst:.3}, average {average:.3}");
}

#[test]
fn bytes_per_entry_stay_small_while_shrinking() {
    let mut world = World::new();
    let count = if cfg!(miri) { 300 } else { 200_000 };
    for key in 0..count {
        world.insert(key);
    }
    let mut worst = 0.0f64;
    for key in 0..count - count.min(1000) {
        world.remove(key);
        worst = worst.max(world.table.bytes() as f64 / world.table.len() as f64);
    }
    println!("worst {worst:.3} bytes per entry");
    assert!(cfg!(miri) || worst <= 8.3, "worst {worst:.3}");
}

#[test]
fn blocks_move_out_of_sparse_spans() {
    let mut world = World::new();
    let count = if cfg!(miri) { 700 } else { 100_000 };
    for key in 0..count {
        world.insert(key);
    }
    for key in (0..count).filter(|key| key % 10 != 0) {
        world.remove(key);
    }
    let before = world.slabs.counters().spans;
    world.slabs.mark_sparse(usize::MAX);
    let (mut at, mut moved) = (Some(ScanPosition(0)), 0);
    while let Some(position) = at {
        at = world.table.move_out(&mut world.slabs, position, |_, _, _| moved += 1);
    }
    assert!(moved > 0 && world.slabs.counters().spans_marked == 0);
    assert!(world.slabs.counters().spans <= before / 4 + 2);
    world.table.validate(&world.slabs, &hash_of);
    world.slabs.validate();
    assert_eq!(world.keys(), (0..count).step_by(10).collect::<Vec<_>>());
}

#[test]
fn random_entries_are_spread() {
    let (mut world, mut rng) = (World::new(), Rng::new(5));
    for key in 0..100 {
        world.insert(key);
    }
    let mut counts = BTreeMap::new();
    for _ in 0..if cfg!(miri) { 300 } else { 100_000 } {
        let block = world.table.random(&world.slabs, rng.next()).unwrap();
        *counts.entry(block.bits()).or_insert(0u32) += 1;
    }
    assert!(cfg!(miri) || counts.len() == 100);
    assert!(cfg!(miri) || counts.values().all(|&n| (800..1200).contains(&n)), "{counts:?}");
}

#[test]
fn low_bits_of_the_hash_find_the_block() {
    let mut world = World::new();
    let count = if cfg!(miri) { 300 } else { 50_000 };
    for key in 0..count {
        world.insert(key);
    }
    for key in (0..count).step_by(7) {
        let hash = hash_of(&key.to_le_bytes());
        let block = world.find(key).unwrap().block;
        for bits in [32, 18, 9, 5] {
            let low = (hash & ((1 << bits) - 1)) as u32;
            let mut times = 0;
            world.table.each_with_low_bits(&world.slabs, low, bits, |found| {
                times += u32::from(found == block);
            });
            assert_eq!(times, 1, "{bits} bits");
        }
    }
}

#[test]
fn draining_frees_everything_in_steps() {
    let mut world = World::new();
    let count = if cfg!(miri) { 300 } else { 50_000 };
    for key in 0..count {
        world.insert(key);
    }
    let mut freed = 0;
    while world.table.drain_step(&mut world.slabs, |slabs, block| {
        slabs.free(block);
        freed += 1;
    }) {}
    assert_eq!((freed, world.table.len()), (count, 0));
    assert_eq!(world.slabs.arena.taken(), 0);
}

#[test]
fn without_memory_an_insert_changes_nothing() {
    let reserve_bytes = 12 * crate::arena::SPAN_BYTES;
    let arena = Arena::new(ArenaOptions { reserve_bytes, huge_pages: false }).unwrap();
    let mut world = World { slabs: Slabs::new(arena), table: Table::new() };
    let mut keys = 0u64;
    let len = if cfg!(miri) { 2048 } else { 16 };
    while let Ok(block) = world.slabs.alloc(len) {
        world.slabs.block_mut(block)[..8].copy_from_slice(&keys.to_le_bytes());
        let hash = hash_of(&keys.to_le_bytes());
        if world.table.insert(&mut world.slabs, hash, block, &hash_of).is_err() {
            world.slabs.free(block);
            break;
        }
        keys += 1;
    }
    assert!(keys > 200, "{keys}");
    assert_eq!(world.keys(), (0..keys).collect::<Vec<_>>());
    world.table.validate(&world.slabs, &hash_of);
    for key in 0..keys {
        assert!(world.remove(key));
    }
    world.slabs.validate();
}

#[test]
fn a_random_entry_is_found_among_many_that_have_gone() {
    let mut rng = Rng::new(11);
    for round in 0..if cfg!(miri) { 4 } else { 200 } {
        let mut world = World::new();
        let count = 40 + round;
        (0..count).for_each(|key| world.insert(key));
        // The last one to go leaves its bucket with holes.
        (1..count).for_each(|key| assert!(world.remove(key)));
        for _ in 0..8 {
            let block = world.table.random(&world.slabs, rng.next()).unwrap();
            assert_eq!(world.slabs.block(block)[..8], [0; 8]);
        }
    }
}
