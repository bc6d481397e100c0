//! The expire index against a sorted list.

use super::*;
use crate::testing::Rng;
use std::collections::BTreeSet;

/// Keys by number; the mark is a few bits of it, so that marks collide.
#[derive(Default)]
struct Blocks {
    times: BTreeMap<u32, BTreeMap<u64, u64>>,
    mark_bits: u32,
}

impl Blocks {
    fn mark(&self, key: u64) -> u32 {
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        hash as u32 & (1u32 << self.mark_bits).wrapping_sub(1)
    }
}

impl Times for Blocks {
    fn prefetch(&self, _: u32, _: u8) {}
    fn each(&self, mark: u32, f: &mut dyn FnMut(u64)) {
        self.times.get(&mark).into_iter().flat_map(BTreeMap::values).for_each(|&ms| f(ms));
    }
}

struct World {
    blocks: Blocks,
    index: ExpireIndex,
    oracle: BTreeSet<(u64, u64)>,
    now_ms: u64,
}

impl World {
    fn new(mark_bits: u32) -> World {
        let blocks = Blocks { mark_bits, ..Blocks::default() };
        World { blocks, index: ExpireIndex::default(), oracle: BTreeSet::new(), now_ms: 1000 }
    }

    fn clear(&mut self, key: u64) {
        let mark = self.blocks.mark(key);
        let Some(ms) = self.blocks.times.get_mut(&mark).and_then(|keys| keys.remove(&key)) else {
            return;
        };
        assert!(self.index.remove(ms, mark), "the record of a key is found");
        self.oracle.remove(&(ms, key));
    }

    fn set(&mut self, key: u64, ms: u64) {
        self.clear(key);
        let mark = self.blocks.mark(key);
        self.blocks.times.entry(mark).or_default().insert(key, ms);
        self.index.insert(ms, mark, &self.blocks);
        self.oracle.insert((ms, key));
    }

    /// Expires what is due, in order.
    fn advance(&mut self, ms: u64, limit: usize) {
        self.now_ms += ms;
        for _ in 0..limit {
            let Some((due_ms, mark)) = self.index.due(self.now_ms, &self.blocks) else {
                let next = self.oracle.first().map(|&(ms, _)| ms);
                assert!(next.is_none_or(|next| next >= self.now_ms), "a due key was missed");
                return;
            };
            assert_eq!(Some(due_ms), self.oracle.first().map(|&(ms, _)| ms), "out of order");
            let keys = &self.blocks.times[&mark];
            let key = *keys.iter().find(|&(_, &ms)| ms == due_ms).expect("a key with that time").0;
            self.clear(key);
        }
    }

    fn validate(&self) {
        let points = self.oracle.iter().map(|&(ms, key)| (ms, self.blocks.mark(key))).collect();
        self.index.validate(points);
        if let Some(&(ms, _)) = self.oracle.first() {
            assert!(self.index.next_ms().is_some_and(|next| next <= ms));
        }
    }
}

fn run(seed: u64, mark_bits: u32, spread_ms: u64) {
    let (mut world, mut rng) = (World::new(mark_bits), Rng::new(seed));
    let rounds = if cfg!(miri) { 60 } else { 20_000 };
    let keys = if cfg!(miri) { 60 } else { 1 + rng.below(4000) };
    for round in 0..rounds {
        let key = rng.below(keys);
        match rng.below(20) {
            0..=12 => {
                let ms = world.now_ms + rng.below(spread_ms);
                world.set(key, ms);
            }
            13..=16 => world.clear(key),
            17 => {
                let limit = rng.below(300) as usize;
                let ms = rng.below(spread_ms / 8 + 2);
                world.advance(ms, limit);
            }
            _ => world.set(key, world.now_ms + spread_ms),
        }
        if round % (rounds / 20) == 0 {
            world.validate();
        }
    }
    world.advance(2 * spread_ms + 2, usize::MAX);
    world.validate();
    assert_eq!((world.index.len(), world.index.bytes()), (0, 0));
}

#[test]
fn due_keys_come_exactly_and_in_order() {
    for seed in 0..if cfg!(miri) { 1 } else { 12 } {
        run(seed, 31, 5000);
        run(seed, 31, 3);
        run(seed, 31, 10_000_000);
    }
}

#[test]
fn colliding_marks_do_no_harm() {
    for seed in 0..if cfg!(miri) { 1 } else { 12 } {
        run(seed, 6, 5000);
        run(seed, 6, 2);
        run(seed, 0, 3000);
    }
}

#[test]
fn equal_times_to_live_fill_slots_without_a_cut() {
    struct Refuses;
    impl Times for Refuses {
        fn prefetch(&self, _: u32, _: u8) {}
        fn each(&self, _: u32, _: &mut dyn FnMut(u64)) {
            panic!("no time need be looked up");
        }
    }
    let mut index = ExpireIndex::default();
    let count = if cfg!(miri) { 600 } else { 1_000_000 };
    for key in 0..count {
        index.insert(1_000_000 + key / 100, key as u32, &Refuses);
    }
    let bytes = index.bytes() as f64 / count as f64;
    assert!(cfg!(miri) || bytes < 5.0, "{bytes:.2} bytes a record");
}

#[test]
fn random_times_cost_about_five_bytes() {
    let (mut world, mut rng) = (World::new(31), Rng::new(9));
    let count = if cfg!(miri) { 100 } else { 200_000 };
    for key in 0..count {
        world.set(key, 1_000_000 + rng.below(100_000_000));
    }
    let bytes = world.index.bytes() as f64 / count as f64;
    println!("{bytes:.2} bytes a record");
    assert!(cfg!(miri) || bytes < 5.6, "{bytes:.2} bytes a record");
}

#[test]
fn setting_and_deleting_leaves_no_pile() {
    let (mut world, mut rng) = (World::new(31), Rng::new(4));
    for round in 0..if cfg!(miri) { 300 } else { 300_000u64 } {
        let key = rng.below(100);
        world.set(key, 1_000_000 + rng.below(1000) + round);
        if rng.below(2) == 0 {
            world.clear(key);
        }
    }
    assert!(world.index.len() <= 100);
    assert!(world.index.bytes() < 100 * 24, "{} bytes", world.index.bytes());
    world.validate();
}
