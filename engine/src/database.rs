//! One numbered database: its index, its expire index, its counts.

use crate::error::OutOfMemory;
use crate::expire::{ExpireIndex, Times};
use crate::heap::{Heap, hash_of};
use crate::key::{HASH_SLOTS, Key};
use crate::slab::{BlockRef, Slabs};
use crate::table::{Entry, Table};

/// Bits of the hash in a mark beside the hash slot.
const SLOT_MARK_BITS: u32 = 18;

/// One table, or one for each hash slot.
pub(crate) enum Tables {
    One(Table),
    /// Each created at first use, dropped when it empties; no places before the first key.
    Slots(Vec<Option<Box<Table>>>),
}

impl Tables {
    pub(crate) fn new(hash_slots: bool) -> Tables {
        if hash_slots { Tables::Slots(Vec::new()) } else { Tables::One(Table::new()) }
    }

    #[inline]
    pub(crate) fn get(&self, slot: u16) -> Option<&Table> {
        match self {
            Tables::One(table) => Some(table),
            Tables::Slots(tables) => tables.get(slot as usize)?.as_deref(),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u16) -> &mut Table {
        match self {
            Tables::One(table) => table,
            Tables::Slots(tables) => tables[slot as usize].get_or_insert_default(),
        }
    }

    /// How many tables there may be; they are numbered by hash slot.
    pub(crate) fn count(&self) -> usize {
        match self {
            Tables::One(_) => 1,
            Tables::Slots(tables) => tables.len(),
        }
    }

    /// The tables that exist.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Table> {
        let (one, slots) = match self {
            Tables::One(table) => (Some(table), None),
            Tables::Slots(tables) => (None, Some(tables.iter().filter_map(Option::as_deref))),
        };
        one.into_iter().chain(slots.into_iter().flatten())
    }

    /// The mark that names a key in the expire index.
    #[inline]
    pub(crate) fn mark(&self, key_hash: u64, slot: u16) -> u32 {
        match self {
            Tables::One(_) => key_hash as u32,
            Tables::Slots(_) => {
                let low = key_hash as u32 & ((1 << SLOT_MARK_BITS) - 1);
                u32::from(slot) << SLOT_MARK_BITS | low
            }
        }
    }

    /// Table and low bits of the hash that a mark stands for, and how many bits.
    fn of_mark(&self, mark: u32) -> (Option<&Table>, u32, u32) {
        match self {
            Tables::One(table) => (Some(table), mark, 32),
            Tables::Slots(tables) => {
                let table = tables.get((mark >> SLOT_MARK_BITS) as usize);
                let table = table.and_then(Option::as_deref);
                (table, mark & ((1 << SLOT_MARK_BITS) - 1), SLOT_MARK_BITS)
            }
        }
    }

    /// Calls `f` with the block of every key that has this mark and each time that the key stands in
    /// the expire index with: its own, and the earliest of its members.
    pub(crate) fn each_marked(&self, heap: &Heap, mark: u32, mut f: impl FnMut(BlockRef, u64)) {
        let (Some(table), low, bits) = self.of_mark(mark) else { return };
        table.each_with_low_bits(&heap.slabs, low, bits, |block| {
            let bytes = heap.slabs.block(block);
            let hash = hash_of(bytes, heap.seed) as u32;
            if (hash ^ low) << (32 - bits) == 0 {
                let own = heap.view(block).expire_at();
                own.into_iter().chain(heap.members_time(block)).for_each(|at_ms| f(block, at_ms));
            }
        });
    }
}

/// One numbered database.
pub(crate) struct Database {
    pub(crate) tables: Tables,
    pub(crate) expires: ExpireIndex,
    pub(crate) len: usize,
    /// Keys that have members with times, each with a record in `expires` for them.
    pub(crate) with_timed_members: usize,
    slot_bytes: IndexBytes,
}

impl Database {
    pub(crate) fn new(hash_slots: bool) -> Database {
        Database {
            tables: Tables::new(hash_slots),
            expires: ExpireIndex::default(),
            len: 0,
            with_timed_members: 0,
            slot_bytes: IndexBytes::default(),
        }
    }

    /// Notes the expire time of a key whose block has it already.
    pub(crate) fn add_expire(&mut self, heap: &Heap, key: &Key<'_>, at_ms: u64) {
        let mark = self.tables.mark(key.hash, key.slot);
        self.expires.insert(at_ms, mark, &TimesOf { tables: &self.tables, heap });
    }

    /// Forgets the expire time that a key had.
    pub(crate) fn drop_expire(&mut self, key: &Key<'_>, at_ms: u64) {
        let mark = self.tables.mark(key.hash, key.slot);
        let found = self.expires.remove(at_ms, mark);
        debug_assert!(found, "a key with a time has its record");
    }

    /// Loads what the next due keys will need.
    pub(crate) fn prefetch_due(&self, heap: &Heap, count: usize) {
        let times = TimesOf { tables: &self.tables, heap };
        for stage in 0..2 {
            self.expires.upcoming(count).for_each(|mark| times.prefetch(mark, stage));
        }
    }

    /// The next point that is due before `now_ms`.
    pub(crate) fn due(&mut self, heap: &Heap, now_ms: u64) -> Option<(u64, u32)> {
        self.expires.due(now_ms, &TimesOf { tables: &self.tables, heap })
    }

    /// Enters a block under a key that the database does not have.
    pub(crate) fn link(
        &mut self,
        heap: &mut Heap,
        key: &Key<'_>,
        block: BlockRef,
    ) -> Result<(), OutOfMemory> {
        let seed = heap.seed;
        let hash_of = |block: &[u8]| hash_of(block, seed);
        match &mut self.tables {
            Tables::One(table) => table.insert(&mut heap.slabs, key.hash, block, &hash_of)?,
            Tables::Slots(tables) => {
                if tables.is_empty() {
                    tables.resize_with(HASH_SLOTS, || None);
                }
                let table = tables[key.slot as usize].get_or_insert_default();
                let before = IndexBytes::of(table);
                table.insert(&mut heap.slabs, key.hash, block, &hash_of)?;
                self.slot_bytes.replace(before, IndexBytes::of(table));
            }
        }
        self.len += 1;
        Ok(())
    }

    /// Takes an entry out; the block and the expire record stay.
    pub(crate) fn unlink(&mut self, slabs: &mut Slabs, key: &Key<'_>, entry: Entry) {
        match &mut self.tables {
            Tables::One(table) => table.remove(slabs, entry),
            Tables::Slots(tables) => {
                let place = &mut tables[key.slot as usize];
                let table = place.as_deref_mut().expect("the entry was found in this table");
                let before = IndexBytes::of(table);
                table.remove(slabs, entry);
                self.slot_bytes.replace(before, IndexBytes::of(table));
                if table.is_empty() {
                    *place = None;
                }
            }
        }
        self.len -= 1;
    }

    /// Bytes of the index outside of slab blocks.
    pub(crate) fn index_bytes(&self) -> usize {
        match &self.tables {
            Tables::One(table) => IndexBytes::of(table).0,
            Tables::Slots(tables) => tables.len() * size_of::<usize>() + self.slot_bytes.0,
        }
    }
}

/// Bytes of one or many tables outside of slab blocks, kept up to date by each change: a database
/// with a table per hash slot cannot ask 16,384 of them.
#[derive(Clone, Copy, Default)]
struct IndexBytes(usize);

impl IndexBytes {
    fn of(table: &Table) -> IndexBytes {
        let holder = if table.is_empty() { 0 } else { size_of::<Table>() };
        IndexBytes(holder + table.bytes() - table.overflow_bytes())
    }

    fn replace(&mut self, before: IndexBytes, after: IndexBytes) {
        self.0 = self.0 + after.0 - before.0;
    }
}

/// The times in the blocks, for the expire index.
struct TimesOf<'a> {
    tables: &'a Tables,
    heap: &'a Heap,
}

impl Times for TimesOf<'_> {
    fn prefetch(&self, mark: u32, stage: u8) {
        let slabs: &Slabs = &self.heap.slabs;
        let (Some(table), low, bits) = self.tables.of_mark(mark) else { return };
        if stage == 0 {
            table.prefetch_bucket(slabs, u64::from(low));
        } else if bits == 32 {
            table.prefetch_block(slabs, u64::from(low));
        }
    }

    fn each(&self, mark: u32, f: &mut dyn FnMut(u64)) {
        self.tables.each_marked(self.heap, mark, |_, at_ms| f(at_ms));
    }
}
