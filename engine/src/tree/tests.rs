//! The tree against a slow oracle, in a full arena, and through compaction.

use super::*;
use crate::arena::{Arena, ArenaOptions};
use crate::testing::Rng;

struct World {
    slabs: Slabs,
    tree: Tree,
    /// Keys in their order with their blocks.
    oracle: Vec<(u64, BlockRef)>,
}

fn key_of(slabs: &Slabs, block: BlockRef) -> u64 {
    u64::from_le_bytes(slabs.block(block)[..8].try_into().unwrap())
}

impl World {
    fn new(reserve_bytes: usize) -> World {
        let arena = Arena::new(ArenaOptions { reserve_bytes, ..ArenaOptions::default() }).unwrap();
        World { slabs: Slabs::new(arena), tree: Tree::new(), oracle: Vec::new() }
    }

    fn block(&mut self, key: u64) -> Result<BlockRef, OutOfMemory> {
        let block = self.slabs.alloc(16)?;
        self.slabs.block_mut(block)[..8].copy_from_slice(&key.to_le_bytes());
        Ok(block)
    }

    fn insert(&mut self, key: u64) -> Result<(), OutOfMemory> {
        let Err(at) = self.oracle.binary_search_by_key(&key, |known| known.0) else {
            return Ok(());
        };
        let block = self.block(key)?;
        let added =
            self.tree.insert(&mut self.slabs, block, |slabs, other| key_of(slabs, other).cmp(&key));
        if added.is_err() {
            self.slabs.free(block);
            return added;
        }
        self.oracle.insert(at, (key, block));
        Ok(())
    }

    fn remove(&mut self, at: usize) {
        let (key, block) = self.oracle.remove(at);
        let compare = |slabs: &Slabs, other| key_of(slabs, other).cmp(&key);
        if key.is_multiple_of(3) {
            self.tree.remove_at(&mut self.slabs, at);
        } else {
            assert!(self.tree.remove(&mut self.slabs, block, compare));
        }
        assert!(!self.tree.remove(&mut self.slabs, block, compare));
        self.slabs.free(block);
    }

    fn check(&self) {
        self.tree.validate(&self.slabs, |slabs, a, b| key_of(slabs, a).cmp(&key_of(slabs, b)));
        let all = 0..self.oracle.len();
        let found: Vec<_> = self.tree.iter(&self.slabs, all.clone(), false).collect();
        assert!(found.iter().eq(self.oracle.iter().map(|(_, block)| block)));
        let mut found: Vec<_> = self.tree.iter(&self.slabs, all, true).collect();
        found.reverse();
        assert!(found.iter().eq(self.oracle.iter().map(|(_, block)| block)));
    }

    fn check_ranks(&self, rng: &mut Rng) {
        let len = self.oracle.len();
        let start = rng.below(len as u64 + 2) as usize;
        let ranks = start..start + rng.below(40) as usize;
        let expected = self.oracle.get(start..ranks.end.min(len)).unwrap_or_default();
        let found = self.tree.iter(&self.slabs, ranks.clone(), false);
        assert!(found.eq(expected.iter().map(|(_, block)| *block)));
        let found = self.tree.iter(&self.slabs, ranks, true);
        assert!(found.eq(expected.iter().rev().map(|(_, block)| *block)));
        assert_eq!(self.tree.at(&self.slabs, start), self.oracle.get(start).map(|known| known.1));
        let key = rng.below(10_000);
        let before = self.oracle.partition_point(|known| known.0 < key);
        assert_eq!(
            self.tree.rank_where(&self.slabs, |block| key_of(&self.slabs, block) < key),
            before
        );
    }

    fn drain(&mut self) {
        while self.tree.drain_step(&mut self.slabs) {}
        assert_eq!((self.tree.len(), self.tree.bytes()), (0, 0));
        self.oracle.drain(..).for_each(|(_, block)| self.slabs.free(block));
        assert_eq!(self.slabs.counters().live_bytes, 0);
    }
}

const STEPS: usize = if cfg!(miri) { 150 } else { 20_000 };

#[test]
fn the_tree_agrees_with_the_oracle() {
    for seed in 0..4 {
        let (mut rng, mut world) = (Rng::new(seed), World::new(64 << 20));
        // The number of entries goes up and down between nothing and a few thousand.
        let mut grows = true;
        for i in 0..STEPS {
            if i % (STEPS / 6) == 0 {
                grows = !grows || world.oracle.is_empty();
            }
            if rng.below(10) < if grows { 8 } else { 2 } {
                world.insert(rng.below(10_000)).unwrap();
            } else if !world.oracle.is_empty() {
                let at = rng.below(world.oracle.len() as u64) as usize;
                world.remove(at);
            }
            if i % 50 == 0 {
                world.check();
            }
            if !world.oracle.is_empty() {
                world.check_ranks(&mut rng);
            }
        }
        world.check();
        world.drain();
    }
}

#[test]
fn entries_in_order_fill_the_nodes() {
    let count = if cfg!(miri) { 100 } else { 5000 };
    for descending in [false, true] {
        let mut world = World::new(64 << 20);
        for i in 0..count {
            world.insert(if descending { count - i } else { i }).unwrap();
        }
        world.check();
        // Twelve entries in a block of 52 bytes, and a twelfth of a child's twelve.
        assert!(world.tree.bytes() as u64 <= count * 7, "{} bytes", world.tree.bytes());
        while !world.oracle.is_empty() {
            world.remove(if descending { world.oracle.len() - 1 } else { 0 });
        }
        assert_eq!(world.tree.bytes(), 0);
    }
}

#[test]
fn in_a_full_arena_entries_come_whole_or_not_at_all() {
    let (mut rng, mut world) = (Rng::new(9), World::new(1 << 20));
    let mut refused = 0;
    for i in 0..if cfg!(miri) { 200 } else { 60_000 } {
        if rng.below(8) > 0 {
            refused += usize::from(world.insert(rng.next()).is_err());
        } else if !world.oracle.is_empty() {
            let at = rng.below(world.oracle.len() as u64) as usize;
            world.remove(at);
        }
        if i % 5000 == 0 {
            world.check();
        }
    }
    world.check();
    assert!(cfg!(miri) || refused > 100, "{refused} were refused");
    while let Some(last) = world.oracle.len().checked_sub(1) {
        world.remove(last);
    }
    world.drain();
}

#[test]
fn entries_are_replaced_in_their_place() {
    let mut world = World::new(64 << 20);
    (0..300).for_each(|key| world.insert(key * 7 % 300).unwrap());
    for at in 0..300 {
        let (key, old) = world.oracle[at];
        let new = world.block(key).unwrap();
        let compare = |slabs: &Slabs, other| key_of(slabs, other).cmp(&key);
        assert!(world.tree.replace(&mut world.slabs, old, new, compare));
        assert!(!world.tree.replace(&mut world.slabs, old, new, compare));
        world.slabs.free(old);
        world.oracle[at].1 = new;
    }
    world.check();
    world.drain();
}

#[test]
fn nodes_move_out_of_sparse_spans() {
    let mut world = World::new(64 << 20);
    let count = if cfg!(miri) { 200 } else { 40_000 };
    (0..count).for_each(|key| world.insert(key * 7919 % count).unwrap());
    let mut rng = Rng::new(3);
    while world.oracle.len() > count as usize / 20 {
        let at = rng.below(world.oracle.len() as u64) as usize;
        world.remove(at);
    }
    let marked = world.slabs.mark_sparse(4096);
    let (len, mut moved) = (world.oracle.len(), 0);
    for start in (0..len).step_by(100) {
        moved += world.tree.move_out(&mut world.slabs, start..(start + 100).min(len));
    }
    assert!(cfg!(miri) || marked > 0 && moved > 0, "{moved} nodes out of {marked} spans");
    world.slabs.unmark_all();
    world.check();
    world.drain();
}
