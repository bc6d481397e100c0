//! Slabs against a slow oracle.

use super::*;
use crate::arena::ArenaOptions;
use crate::testing::Rng;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

type Oracle = HashMap<BlockRef, (u8, usize), BuildHasherDefault<DefaultHasher>>;

fn slabs(spans: usize) -> Slabs {
    let reserve_bytes = spans * SPAN_BYTES;
    Slabs::new(Arena::new(ArenaOptions { reserve_bytes, huge_pages: false }).unwrap())
}

fn check_contents(slabs: &Slabs, oracle: &Oracle) {
    let bytes: usize = oracle.values().map(|&(_, len)| block_bytes_for(len)).sum();
    assert_eq!(slabs.counters().live_blocks, oracle.len() as u64);
    assert_eq!(slabs.counters().live_bytes, bytes as u64);
    for (&block, &(fill, len)) in oracle {
        assert!(slabs.block(block)[..len].iter().all(|&byte| byte == fill));
    }
    slabs.validate();
}

#[test]
fn blocks_keep_their_bytes_through_allocation_free_and_moves() {
    let rounds = if cfg!(miri) { 3 } else { 60 };
    let mut rng = Rng::new(7);
    let mut slabs = slabs(if cfg!(miri) { 64 } else { 4096 });
    let mut oracle = Oracle::default();
    for round in 0..rounds {
        for _ in 0..if cfg!(miri) { 30 } else { 400 } {
            let len = if rng.below(4) == 0 { rng.below(2049) } else { rng.below(100) } as usize;
            let block = slabs.alloc(len).unwrap();
            let fill = rng.next() as u8;
            slabs.block_mut(block)[..len].fill(fill);
            assert!(oracle.insert(block, (fill, len)).is_none(), "handed out twice");
        }
        let mut blocks: Vec<BlockRef> = oracle.keys().copied().collect();
        blocks.sort_by_key(|block| block.bits());
        for block in blocks {
            if rng.below(10) < if round % 8 == 7 { 9 } else { 5 } {
                slabs.free(block);
                oracle.remove(&block);
            }
        }
        if round % 4 == 3 {
            compact(&mut slabs, &mut oracle);
        }
        check_contents(&slabs, &oracle);
    }
    for block in oracle.into_keys() {
        slabs.free(block);
    }
    assert_eq!(slabs.counters(), SlabCounters::default());
    assert_eq!(slabs.arena.taken(), 0);
}

fn compact(slabs: &mut Slabs, oracle: &mut Oracle) {
    let before = slabs.counters().spans;
    let marked = slabs.mark_sparse(usize::MAX);
    slabs.validate();
    let blocks: Vec<BlockRef> = oracle.keys().copied().collect();
    for block in blocks.into_iter().filter(|&block| slabs.is_marked(block)).collect::<Vec<_>>() {
        let moved = slabs.move_out(block).unwrap();
        let content = oracle.remove(&block).unwrap();
        oracle.insert(moved, content);
    }
    assert_eq!(slabs.counters().spans_marked, 0);
    assert!(slabs.counters().spans <= before - marked as u64, "{marked} of {before}");
    slabs.unmark_all();
}

#[test]
fn a_full_arena_refuses_and_recovers() {
    let mut slabs = slabs(4);
    let mut blocks = Vec::new();
    while let Ok(block) = slabs.alloc(2048) {
        blocks.push(block);
    }
    assert_eq!(blocks.len(), 3 * 32);
    assert_eq!(slabs.alloc(16), Err(OutOfMemory));
    slabs.free(blocks.pop().unwrap());
    assert!(slabs.alloc(2000).is_ok());
    slabs.validate();
}

#[test]
fn marked_spans_become_ordinary_again() {
    let mut slabs = slabs(16);
    let blocks: Vec<BlockRef> = (0..5 * 64).map(|_| slabs.alloc(1024).unwrap()).collect();
    for (i, &block) in blocks.iter().enumerate() {
        if i % 8 != 0 {
            slabs.free(block);
        }
    }
    assert!(slabs.mark_sparse(2) == 2);
    slabs.unmark_all();
    slabs.validate();
    assert!(!blocks.iter().step_by(8).any(|&block| slabs.is_marked(block)));
}
