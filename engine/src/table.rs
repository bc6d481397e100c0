//! The index from hash to block: linear hashing over cache-line buckets.
//!
//! ```text
//! hash     bits 0..    home bucket        home(h) = h mod 2^(level+1), or mod 2^level
//!          bits 24..32 tag                          when that bucket does not exist yet
//!
//! split    bucket s and s + 2^level share what bucket s held; s walks from 0 to 2^level - 1
//! merge    the last bucket's entries go back to its buddy
//! ```
//!
//! One insert splits at most two buckets and one removal merges at most two, so growing and
//! shrinking never stop the world and memory follows the number of entries. An entry never leaves
//! the chain of its home bucket. What does not fit a bucket hangs on it in an overflow block.
//!
//! **Load.** At most 9.8 entries a bucket, at least 9.4 while shrinking. Measured over 1,000 to
//! 2,000,000 entries that is 7.2 bytes an entry on average; 9.4 costs 7.4, and 10.3 costs 7.0 but
//! sends twice as many lookups to overflow blocks.
//!
//! **Scan.** Positions are the low 32 bits of the hash in reversed order, so that a bucket of depth d
//! holds exactly the positions that share their first d bits, and its split cuts that range in two.
//! A scan walks ranges, not buckets; it never misses an entry that stays, whatever splits or merges
//! between two calls.
//!
//! The table stores no hashes. Where a split needs them, the caller's `hash_of` reads them from the
//! blocks again.

mod bucket;
mod buckets;
mod overflow;
mod walk;

pub use walk::ScanPosition;

use crate::error::OutOfMemory;
use crate::slab::{BlockRef, Slabs};
use bucket::{Bucket, ENTRIES, tag_of};
use buckets::Buckets;
use smallvec::SmallVec;

/// Split above this many entries in ten buckets.
const GROW_ABOVE: usize = 98;
/// Merge below this many entries in ten buckets.
const SHRINK_BELOW: usize = 94;
/// Steps of growth or shrinking an operation makes at most.
const STEPS_MAX: usize = 2;

/// See the top of the file.
#[derive(Default)]
pub struct Table {
    buckets: Buckets,
    len: usize,
    /// Bytes of overflow blocks, at class size.
    overflow_bytes: usize,
}

/// Where an entry was found; good until the table or its blocks change.
///
/// Two words, of which one is never zero, so that an optional entry travels in two registers. Three
/// separate numbers went through memory, where reading them back at another width stalled each
/// lookup for some fifteen cycles.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The block.
    pub block: BlockRef,
    /// Bucket, and in the lowest bits the place: below [`ENTRIES`] one in the bucket, from there on
    /// one in its overflow block.
    at: u64,
}

const PLACE_BITS: u32 = 8;
const _: () = assert!(ENTRIES + overflow::OVERFLOW_MAX <= 1 << PLACE_BITS);

impl Entry {
    #[inline]
    fn new(block: BlockRef, bucket: usize, place: usize) -> Entry {
        Entry { block, at: (bucket as u64) << PLACE_BITS | place as u64 }
    }

    #[inline]
    fn bucket(self) -> usize {
        (self.at >> PLACE_BITS) as usize
    }

    #[inline]
    fn place(self) -> usize {
        self.at as usize & ((1 << PLACE_BITS) - 1)
    }
}

/// Reads the hash of a block from its bytes.
pub trait HashOf: Fn(&[u8]) -> u64 {}
impl<F: Fn(&[u8]) -> u64> HashOf for F {}

impl Table {
    /// An empty table; it holds no memory until the first insert.
    pub fn new() -> Table {
        Table::default()
    }

    /// Entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Buckets.
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Bytes of the index: buckets and overflow blocks.
    pub fn bytes(&self) -> usize {
        self.buckets.bytes() + self.overflow_bytes
    }

    /// Of [`Table::bytes`], what lies in slab blocks and is counted there too.
    pub fn overflow_bytes(&self) -> usize {
        self.overflow_bytes
    }

    /// Spans of the arena that hold buckets.
    pub fn spans(&self) -> usize {
        self.buckets.spans()
    }

    /// The bucket of a hash. The table must not be empty.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        let mask = self.buckets.mask();
        let index = hash as usize & mask;
        if index < self.buckets.len() { index } else { index & (mask >> 1) }
    }

    /// Asks the processor to load the bucket of a hash.
    #[inline]
    pub fn prefetch_bucket(&self, slabs: &Slabs, hash: u64) {
        if self.buckets.len() > 0 {
            self.buckets.prefetch(slabs, self.home(hash));
        }
    }

    /// Asks the processor to load the blocks that may hold the hash.
    #[inline]
    pub fn prefetch_block(&self, slabs: &Slabs, hash: u64) {
        if self.buckets.len() == 0 {
            return;
        }
        let bucket = self.buckets.at(slabs, self.home(hash));
        let mut found = bucket.matches(tag_of(hash));
        while found != 0 {
            if let Some(block) = bucket.block(found.trailing_zeros() as usize) {
                slabs.prefetch(block);
            }
            found &= found - 1;
        }
    }

    /// The entry with this hash for whose block `is_it` answers true.
    #[inline]
    pub fn find(
        &self,
        slabs: &Slabs,
        hash: u64,
        mut is_it: impl FnMut(&[u8]) -> bool,
    ) -> Option<Entry> {
        if self.buckets.len() == 0 {
            return None;
        }
        let index = self.home(hash);
        let tag = tag_of(hash);
        let bucket = self.buckets.at(slabs, index);
        let mut found = bucket.matches(tag);
        while found != 0 {
            let place = found.trailing_zeros();
            let block = bucket.block(place as usize)?;
            if is_it(slabs.block(block)) {
                return Some(Entry::new(block, index, place as usize));
            }
            found &= found - 1;
        }
        let overflow = BlockRef::from_bits(bucket.overflow)?;
        find_in_overflow(slabs, overflow, tag, is_it)
            .map(|(at, block)| Entry::new(block, index, ENTRIES + at))
    }

    /// Adds an entry; the caller knows that it is new.
    ///
    /// # Errors
    /// No memory for a bucket or an overflow block; nothing changed.
    #[inline]
    pub fn insert(
        &mut self,
        slabs: &mut Slabs,
        hash: u64,
        block: BlockRef,
        hash_of: &impl HashOf,
    ) -> Result<(), OutOfMemory> {
        if self.buckets.len() == 0 {
            self.buckets.push(slabs)?;
        }
        let index = self.home(hash);
        let bucket = self.buckets.at_mut(slabs, index);
        match bucket.vacant() {
            Some(place) => bucket.set(place, tag_of(hash), block),
            None => self.insert_overflow(slabs, index, tag_of(hash), block)?,
        }
        self.len += 1;
        if self.len * 10 > self.buckets.len() * GROW_ABOVE {
            self.grow(slabs, hash_of);
        }
        Ok(())
    }

    #[cold]
    fn insert_overflow(
        &mut self,
        slabs: &mut Slabs,
        index: usize,
        tag: u8,
        block: BlockRef,
    ) -> Result<(), OutOfMemory> {
        let old = BlockRef::from_bits(self.buckets.at(slabs, index).overflow);
        let old_bytes = old.map_or(0, |old| slabs.block_bytes(old));
        let new = match old {
            Some(old) => overflow::push(slabs, old, tag, block)?,
            None => overflow::create(slabs, std::iter::once((tag, block)))?,
        };
        self.overflow_bytes += slabs.block_bytes(new) - old_bytes;
        self.buckets.at_mut(slabs, index).overflow = new.bits();
        Ok(())
    }

    /// Makes an entry name another block with the same hash.
    #[inline]
    pub fn replace(&mut self, slabs: &mut Slabs, entry: Entry, block: BlockRef) {
        let bucket = self.buckets.at_mut(slabs, entry.bucket());
        if let Some(slot) = bucket.refs.get_mut(entry.place()) {
            debug_assert_eq!(*slot, entry.block.bits());
            *slot = block.bits();
            return;
        }
        let bits = bucket.overflow;
        let overflow = BlockRef::from_bits(bits).expect("the entry was found in an overflow block");
        let at = entry.place() - ENTRIES;
        let (tag, old) = overflow::entry(slabs, overflow, at);
        debug_assert_eq!(old, entry.block);
        overflow::set(slabs, overflow, at, tag, block);
    }

    /// Takes an entry out; its block stays the caller's.
    pub fn remove(&mut self, slabs: &mut Slabs, entry: Entry) {
        let index = entry.bucket();
        let bucket = self.buckets.at_mut(slabs, index);
        let in_bucket = (entry.place()) < ENTRIES;
        if in_bucket {
            bucket.clear(entry.place());
        }
        if bucket.overflow != 0 {
            let (tag, block) = self.pop_overflow(slabs, index);
            if in_bucket {
                self.buckets.at_mut(slabs, index).set(entry.place(), tag, block);
            } else if block != entry.block {
                let bits = self.buckets.at(slabs, index).overflow;
                let left = BlockRef::from_bits(bits).expect("another entry is left");
                overflow::set(slabs, left, entry.place() - ENTRIES, tag, block);
            }
        }
        self.len -= 1;
        if self.shrink_due() {
            self.shrink(slabs);
        }
    }

    /// True when one bucket less would still not have to be split soon.
    fn shrink_due(&self) -> bool {
        self.len == 0 || self.len * 10 < (self.buckets.len() - 1) * SHRINK_BELOW
    }

    fn pop_overflow(&mut self, slabs: &mut Slabs, index: usize) -> (u8, BlockRef) {
        let bits = self.buckets.at(slabs, index).overflow;
        let old = BlockRef::from_bits(bits).expect("the bucket has an overflow block");
        let old_bytes = slabs.block_bytes(old);
        let (last, left) = overflow::pop(slabs, old);
        self.overflow_bytes -= old_bytes;
        self.overflow_bytes += left.map_or(0, |left| slabs.block_bytes(left));
        self.buckets.at_mut(slabs, index).overflow = left.map_or(0, BlockRef::bits);
        last
    }

    /// Splits buckets until the load is right, at most [`STEPS_MAX`]. Without memory the table stays
    /// as it is and the next insert tries again.
    #[cold]
    fn grow(&mut self, slabs: &mut Slabs, hash_of: &impl HashOf) {
        for _ in 0..STEPS_MAX {
            let due = self.len * 10 > self.buckets.len() * GROW_ABOVE;
            if !due || self.split(slabs, hash_of).is_err() {
                break;
            }
        }
    }

    fn split(&mut self, slabs: &mut Slabs, hash_of: &impl HashOf) -> Result<(), OutOfMemory> {
        let count = self.buckets.len();
        let half = (count + 1).next_power_of_two() / 2;
        let from = count - half;
        let mut entries = Chain::new();
        self.collect(slabs, from, &mut entries);
        for &(_, block) in &entries {
            slabs.prefetch(block);
        }
        let (mut stay, mut go) = (Chain::new(), Chain::new());
        for &(tag, block) in &entries {
            let goes = hash_of(slabs.block(block)) as usize & half != 0;
            if goes { &mut go } else { &mut stay }.push((tag, block));
        }
        self.buckets.push(slabs)?;
        let moved = self.build(slabs, &go);
        let kept = moved.and_then(|_| self.build(slabs, &stay));
        let (Ok(moved), Ok(kept)) = (moved, kept) else {
            if let Ok(bucket) = moved {
                self.free_overflow(slabs, bucket.overflow);
            }
            self.buckets.pop(slabs);
            return Err(OutOfMemory);
        };
        let old = std::mem::replace(self.buckets.at_mut(slabs, from), kept);
        *self.buckets.at_mut(slabs, count) = moved;
        self.free_overflow(slabs, old.overflow);
        Ok(())
    }

    #[cold]
    fn shrink(&mut self, slabs: &mut Slabs) {
        for _ in 0..STEPS_MAX {
            if self.buckets.len() == 0 || !self.shrink_due() || self.merge(slabs).is_err() {
                break;
            }
        }
    }

    /// Merges the last bucket into its buddy.
    fn merge(&mut self, slabs: &mut Slabs) -> Result<(), OutOfMemory> {
        let last = self.buckets.len() - 1;
        if last == 0 {
            self.buckets.pop(slabs);
            return Ok(());
        }
        let buddy = last - self.buckets.len().next_power_of_two() / 2;
        let mut entries = Chain::new();
        self.collect(slabs, buddy, &mut entries);
        self.collect(slabs, last, &mut entries);
        let merged = self.build(slabs, &entries)?;
        let old = std::mem::replace(self.buckets.at_mut(slabs, buddy), merged);
        let gone = self.buckets.at(slabs, last).overflow;
        self.free_overflow(slabs, old.overflow);
        self.free_overflow(slabs, gone);
        self.buckets.pop(slabs);
        Ok(())
    }

    /// A bucket with the given entries; those past the twelfth go into a new overflow block.
    fn build(&mut self, slabs: &mut Slabs, entries: &Chain) -> Result<Bucket, OutOfMemory> {
        let mut bucket = Bucket::EMPTY;
        for (place, &(tag, block)) in entries.iter().take(ENTRIES).enumerate() {
            bucket.set(place, tag, block);
        }
        if entries.len() > ENTRIES {
            let overflow = overflow::create(slabs, entries[ENTRIES..].iter().copied())?;
            self.overflow_bytes += slabs.block_bytes(overflow);
            bucket.overflow = overflow.bits();
        }
        Ok(bucket)
    }

    fn free_overflow(&mut self, slabs: &mut Slabs, bits: u32) {
        if let Some(overflow) = BlockRef::from_bits(bits) {
            self.overflow_bytes -= slabs.block_bytes(overflow);
            slabs.free(overflow);
        }
    }

    /// Adds all entries of a bucket and its overflow block to `entries`.
    fn collect(&self, slabs: &Slabs, index: usize, entries: &mut Chain) {
        let bucket = self.buckets.at(slabs, index);
        for place in 0..ENTRIES {
            if let Some(block) = bucket.block(place) {
                entries.push((bucket.tags[place], block));
            }
        }
        if let Some(overflow) = BlockRef::from_bits(bucket.overflow) {
            for at in 0..overflow::count(slabs, overflow) {
                let (tag, block) = overflow::entry(slabs, overflow, at);
                entries.push((tag, block));
            }
        }
    }
}

#[cold]
fn find_in_overflow(
    slabs: &Slabs,
    overflow: BlockRef,
    tag: u8,
    mut is_it: impl FnMut(&[u8]) -> bool,
) -> Option<(usize, BlockRef)> {
    (0..overflow::count(slabs, overflow)).find_map(|at| {
        let (found, block) = overflow::entry(slabs, overflow, at);
        (found == tag && is_it(slabs.block(block))).then_some((at, block))
    })
}

/// The entries of one or two buckets, gathered to be dealt out again; rarely more than 25.
type Chain = SmallVec<[(u8, BlockRef); 40]>;

#[cfg(test)]
mod tests;
