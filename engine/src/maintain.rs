//! Upkeep: what a partition does when its owner has time to spare.
//!
//! Expiring due keys, freeing what was flushed, moving blocks out of sparse spans and returning
//! spans to the kernel all go in steps of a few tens of microseconds, between which the owner's
//! budget is asked. Nothing here changes what a client sees, but for keys whose time is over.

use crate::database::Tables;
use crate::effect::DeleteCause;
use crate::expire::ExpireIndex;
use crate::heap::Heap;
use crate::key::Key;
use crate::partition::Partition;
use crate::slab::BlockRef;
use crate::table::{ScanPosition, Table};
use smallvec::SmallVec;

/// Due keys that one step expires.
const EXPIRE_STEP: usize = 32;
/// Buckets that one step frees or walks.
const BUCKET_STEP: usize = 16;
/// Bytes of large values after which a step ends: the allocator's work goes with them.
const LARGE_STEP_BYTES: usize = 1 << 20;
/// Spans that one step returns to the kernel.
const RELEASE_STEP: usize = 4;
/// Compaction starts when this share of the spans' bytes, 1 in so many, holds nothing.
const WASTE_SHARE: u64 = 16;
/// Below this much waste compaction is not worth a walk.
const WASTE_BYTES_MIN: u64 = 512 << 10;
/// Most spans that one walk empties.
const MARK_SPANS: usize = 4096;

/// What [`Partition::maintain`] did and left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaintainReport {
    /// The budget ended before the work did: call again soon.
    pub work_left: bool,
    /// Nothing is due before this time in milliseconds since 1970.
    pub next_expire_ms: Option<u64>,
    /// Keys that went because their time was over.
    pub expired: u64,
    /// How late the key is that is due longest, in milliseconds; 0 when none is.
    pub expire_lag_ms: u64,
}

/// State of the upkeep.
#[derive(Default)]
pub(crate) struct Upkeep {
    tables: Vec<Table>,
    expires: Vec<ExpireIndex>,
    walk: Option<Walk>,
    /// Earliest expire time added since the last report, if earlier than that.
    earliest_ms: Option<u64>,
    /// Waste after the last walk; the next one waits until it has grown.
    waste_settled: u64,
    /// Where the next expire step looks first.
    expire_db: usize,
}

/// A walk over all tables that moves blocks out of marked spans.
#[derive(Clone, Copy, Default)]
struct Walk {
    db: usize,
    table: usize,
    position: ScanPosition,
    flushed: usize,
    big: usize,
}

impl Upkeep {
    /// Notes a new expire time, which may be earlier than what the owner sleeps for.
    #[inline]
    pub(crate) fn expire_added(&mut self, at_ms: u64) {
        if self.earliest_ms.is_none_or(|earliest| at_ms < earliest) {
            self.earliest_ms = Some(at_ms);
        }
    }

    /// Takes over the tables and the expire index of a flushed database.
    pub(crate) fn discard(&mut self, tables: Tables, expires: ExpireIndex) {
        match tables {
            Tables::One(table) => self.tables.push(table),
            Tables::Slots(tables) => {
                self.tables.extend(tables.into_iter().flatten().map(|table| *table));
            }
        }
        self.tables.retain(|table| table.buckets() > 0);
        self.expires.push(expires);
        // A walk that has these tables behind it must not miss them before it.
        if let Some(walk) = &mut self.walk {
            *walk = Walk::default();
        }
    }

    /// Bytes of flushed tables that are not freed yet, without what lies in blocks.
    pub(crate) fn index_bytes(&self) -> usize {
        let expires: usize = self.expires.iter().map(ExpireIndex::bytes).sum();
        let tables = self.tables.iter().map(|table| table.bytes() - table.overflow_bytes());
        expires + tables.sum::<usize>()
    }

    fn flushed_left(&self) -> bool {
        !self.tables.is_empty() || !self.expires.is_empty()
    }
}

impl Partition {
    /// True when [`Partition::maintain`] has something to do now, or should look at times that were
    /// added since its last report.
    pub fn has_upkeep(&self) -> bool {
        self.upkeep.earliest_ms.is_some()
            || self.upkeep.flushed_left()
            || self.upkeep.walk.is_some()
            || self.heap.larges.free_due()
            || self.heap.bigs.free_due()
            || self.heap.slabs.arena.release_due()
            || self.compaction_due()
    }

    /// When the next key is due: nothing is before this time.
    pub fn next_expire_ms(&self) -> Option<u64> {
        if !self.active_expire {
            return None;
        }
        let first = self.databases.iter().filter_map(|database| database.expires.next_ms()).min();
        // A key lives through the millisecond that its time names.
        Some(first?.saturating_add(1))
    }

    /// Works in small steps until nothing is left or `budget` answers false.
    pub fn maintain(&mut self, budget: &mut dyn FnMut() -> bool) -> MaintainReport {
        let expired_before = self.stats.expired_keys;
        let mut work_left = true;
        while work_left && budget() {
            work_left = self.maintain_step();
        }
        self.upkeep.earliest_ms = None;
        let next_expire_ms = self.next_expire_ms();
        let lag = next_expire_ms.map_or(0, |next| self.now_ms.saturating_sub(next));
        MaintainReport {
            work_left,
            next_expire_ms,
            expired: self.stats.expired_keys - expired_before,
            // A time that nothing exact stands behind is no lag.
            expire_lag_ms: if work_left { lag } else { 0 },
        }
    }

    /// One step of the most urgent work; false when there is none.
    fn maintain_step(&mut self) -> bool {
        self.expire_step()
            || self.free_flushed_step()
            || self.free_big_step()
            || self.heap.larges.free_step()
            || self.compact_step()
            || self.release_step()
    }

    /// Expires up to [`EXPIRE_STEP`] due keys, taking turns among the databases.
    fn expire_step(&mut self) -> bool {
        if !self.active_expire {
            return false;
        }
        let databases = self.databases.len();
        for turn in 0..databases {
            let db = (self.upkeep.expire_db + turn) % databases;
            if self.expire_in(db) {
                self.upkeep.expire_db = db + 1;
                return true;
            }
        }
        false
    }

    fn expire_in(&mut self, db: usize) -> bool {
        if self.databases[db].due(&self.heap, self.now_ms).is_none() {
            return false;
        }
        self.databases[db].prefetch_due(&self.heap, EXPIRE_STEP);
        let mut worked = false;
        for _ in 0..EXPIRE_STEP {
            let Some((at_ms, mark)) = self.databases[db].due(&self.heap, self.now_ms) else {
                break;
            };
            worked = true;
            let mut found: Option<BlockRef> = None;
            self.databases[db].tables.each_marked(&self.heap, mark, |block, ms| {
                if ms == at_ms {
                    found = Some(block);
                }
            });
            let lag_ms = self.now_ms - at_ms - 1;
            self.stats.expire_lag_max_ms = self.stats.expire_lag_max_ms.max(lag_ms);
            match found {
                Some(block) => self.expire_block(db, block, at_ms),
                // There should be no such record; it must not stop the others.
                None => drop(self.databases[db].expires.remove(at_ms, mark)),
            }
        }
        worked
    }

    fn expire_block(&mut self, db: usize, block: BlockRef, at_ms: u64) {
        let is_own = self.heap.view(block).expire_at() == Some(at_ms);
        let bytes = self.heap.key_bytes(self.heap.view(block).key()).to_vec();
        let key: Key<'_> = self.key(&bytes);
        let entry = self.find(db, &key).expect("the block was found in this database");
        if is_own {
            self.delete_entry(db, &key, entry, DeleteCause::Expired);
        } else {
            self.expire_due_members(db, &key, entry);
        }
    }

    /// Frees a few buckets of a flushed table, or a slot of a flushed expire index.
    fn free_flushed_step(&mut self) -> bool {
        if let Some(table) = self.upkeep.tables.last_mut() {
            let heap = &mut self.heap;
            let large_before = heap.larges.memory_bytes();
            for _ in 0..BUCKET_STEP {
                let mut blocks: SmallVec<[BlockRef; 40]> = SmallVec::new();
                let left = table.drain_step(&mut heap.slabs, |_, block| blocks.push(block));
                blocks.into_iter().for_each(|block| heap.free(block));
                if !left {
                    self.upkeep.tables.pop();
                    break;
                }
                if large_before - heap.larges.memory_bytes() > LARGE_STEP_BYTES {
                    break;
                }
            }
            return true;
        }
        let Some(expires) = self.upkeep.expires.last_mut() else { return false };
        for _ in 0..BUCKET_STEP {
            if !expires.drain_step() {
                self.upkeep.expires.pop();
                break;
            }
        }
        true
    }

    /// Frees a piece of a collection that is gone.
    fn free_big_step(&mut self) -> bool {
        let Some(mut big) = self.heap.bigs.pop_dying() else { return false };
        let Heap { slabs, larges, .. } = &mut self.heap;
        if (0..BUCKET_STEP).all(|_| big.drain_step(slabs, larges)) {
            self.heap.bigs.push_dying(big);
        }
        true
    }

    /// Frees at once all that waits for it; for an allocation that failed.
    pub(crate) fn free_everything_due(&mut self) {
        while self.free_flushed_step() || self.free_big_step() {}
    }

    fn compaction_due(&self) -> bool {
        let waste = self.heap.slabs.waste_bytes();
        let live = self.heap.slabs.counters().live_bytes;
        let grown = waste > self.upkeep.waste_settled + self.upkeep.waste_settled / 4;
        grown && waste > WASTE_BYTES_MIN && waste * WASTE_SHARE > live
    }

    /// Starts a walk when there is enough waste, or takes it on by a few buckets.
    fn compact_step(&mut self) -> bool {
        if self.upkeep.walk.is_none() {
            let settled = self.heap.slabs.waste_bytes();
            self.upkeep.waste_settled = self.upkeep.waste_settled.min(settled);
            if !self.compaction_due() {
                return false;
            }
            if self.heap.slabs.mark_sparse(MARK_SPANS) == 0 {
                self.upkeep.waste_settled = settled;
                return false;
            }
            self.upkeep.walk = Some(Walk::default());
        }
        if self.heap.slabs.counters().spans_marked == 0 || !self.walk_step() {
            self.upkeep.walk = None;
            self.heap.slabs.unmark_all();
        }
        true
    }

    /// Walks [`BUCKET_STEP`] buckets; false at the end of the walk.
    fn walk_step(&mut self) -> bool {
        let Some(mut walk) = self.upkeep.walk else { return false };
        for _ in 0..BUCKET_STEP {
            if !self.walk_bucket(&mut walk) {
                return false;
            }
        }
        self.upkeep.walk = Some(walk);
        true
    }

    fn walk_bucket(&mut self, walk: &mut Walk) -> bool {
        let Heap { slabs, larges, bigs, .. } = &mut self.heap;
        let mut moved = 0;
        let next = if let Some(database) = self.databases.get_mut(walk.db) {
            // Empty tables of hash slots are passed over in one go.
            while walk.table < database.tables.count()
                && database.tables.get(walk.table as u16).is_none()
            {
                walk.table += 1;
            }
            if walk.table == database.tables.count() {
                *walk = Walk { db: walk.db + 1, ..Walk::default() };
                return true;
            }
            let table = database.tables.get_mut(walk.table as u16);
            table.move_out(slabs, walk.position, |_, _, _| moved += 1)
        } else if let Some(table) = self.upkeep.tables.get_mut(walk.flushed) {
            table.move_out(slabs, walk.position, |_, _, _| moved += 1)
        } else if walk.big < bigs.places() {
            bigs.move_out(slabs, larges, walk.big, walk.position, &mut moved)
        } else {
            return false;
        };
        self.stats.blocks_moved += moved;
        match next {
            Some(position) => walk.position = position,
            None if walk.db < self.databases.len() => {
                (walk.table, walk.position) = (walk.table + 1, ScanPosition(0));
            }
            None if walk.flushed < self.upkeep.tables.len() => {
                (walk.flushed, walk.position) = (walk.flushed + 1, ScanPosition(0));
            }
            None => (walk.big, walk.position) = (walk.big + 1, ScanPosition(0)),
        }
        true
    }

    fn release_step(&mut self) -> bool {
        (0..RELEASE_STEP).any(|_| self.heap.slabs.arena.release_step())
    }
}
