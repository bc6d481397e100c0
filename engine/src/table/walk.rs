//! Walks over a table that may grow and shrink between two steps.

use super::bucket::{ENTRIES, tag_of};
use super::{Chain, Entry, Table, overflow};
use crate::slab::{BlockRef, Slabs};

/// Places of a bucket among which a random one is picked.
const RANDOM_PLACES: u64 = 32;
/// A third of the places hold an entry, so that 200 tries nearly never fail.
const RANDOM_TRIES_MAX: usize = 200;

/// A place in the order of a scan: the low 32 bits of a hash, reversed. 0 is the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScanPosition(pub u32);

impl ScanPosition {
    /// The position of entries with this hash.
    pub fn of(hash: u64) -> ScanPosition {
        ScanPosition((hash as u32).reverse_bits())
    }
}

impl Table {
    /// Calls `f` with every entry of the bucket that holds `position` and returns where the next
    /// bucket starts; `None` after the last one.
    pub fn scan(
        &self,
        slabs: &Slabs,
        position: ScanPosition,
        mut f: impl FnMut(BlockRef),
    ) -> Option<ScanPosition> {
        if self.buckets.len() == 0 {
            return None;
        }
        let (index, next) = self.range_at(position);
        self.each(slabs, index, |_, block| f(block));
        next
    }

    /// The bucket that holds a position, and where its range ends.
    fn range_at(&self, position: ScanPosition) -> (usize, Option<ScanPosition>) {
        let index = self.home(u64::from(position.0.reverse_bits()));
        let count = self.buckets.len();
        let full = count.next_power_of_two();
        // A bucket is as deep as the table unless its own split is still to come.
        let split = index >= full / 2 || index + full / 2 < count;
        let depth = full.trailing_zeros() - u32::from(!split && full > 1);
        let width = 1u64 << (32 - depth.min(32));
        let start = u64::from(position.0) & !(width - 1);
        (index, u32::try_from(start + width).ok().map(ScanPosition))
    }

    /// Calls `f` with tag and block of every entry of a bucket.
    fn each(&self, slabs: &Slabs, index: usize, mut f: impl FnMut(u8, BlockRef)) {
        let bucket = self.buckets.at(slabs, index);
        for place in 0..ENTRIES {
            if let Some(block) = bucket.block(place) {
                f(bucket.tags[place], block);
            }
        }
        if let Some(overflow) = BlockRef::from_bits(bucket.overflow) {
            for at in 0..overflow::count(slabs, overflow) {
                let (tag, block) = overflow::entry(slabs, overflow, at);
                f(tag, block);
            }
        }
    }

    /// Calls `f` with the blocks whose hash may have these low bits: with all 32 given, those of
    /// one bucket with the tag; with fewer, all of the buckets that share them.
    pub fn each_with_low_bits(
        &self,
        slabs: &Slabs,
        low: u32,
        bits: u32,
        mut f: impl FnMut(BlockRef),
    ) {
        let count = self.buckets.len();
        if count == 0 {
            return;
        }
        let tag = (bits == 32).then(|| tag_of(u64::from(low)));
        let step = 1usize.checked_shl(bits).filter(|&step| step < count.next_power_of_two());
        let mut index = low as usize;
        loop {
            self.each(slabs, self.home(index as u64), |found, block| {
                if tag.is_none_or(|tag| tag == found) {
                    f(block);
                }
            });
            // Buckets that share the low bits lie `step` apart.
            index += step.unwrap_or(count.next_power_of_two());
            if step.is_none() || index >= count {
                return;
            }
        }
    }

    /// A random entry, each with the same chance (but for those past the 32nd of a bucket).
    ///
    /// A random place of a random bucket is tried until it holds an entry, so that an entry's chance
    /// does not depend on how full its bucket is.
    pub fn random(&self, slabs: &Slabs, word: u64) -> Option<BlockRef> {
        if self.len == 0 {
            return None;
        }
        let mut word = word;
        for _ in 0..RANDOM_TRIES_MAX {
            word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let index = ((word >> 32) * self.buckets.len() as u64) >> 32;
            let place = (word >> 24 & (RANDOM_PLACES - 1)) as usize;
            if let Some(block) = self.block_at(slabs, index as usize, place) {
                return Some(block);
            }
        }
        // Few are left of many, and the table has not shrunk yet.
        let count = self.buckets.len();
        let start = (word % count as u64) as usize;
        let mut found = None;
        for index in (start..count).chain(0..start) {
            self.each(slabs, index, |_, block| found = Some(block));
            if found.is_some() {
                break;
            }
        }
        found
    }

    fn block_at(&self, slabs: &Slabs, index: usize, place: usize) -> Option<BlockRef> {
        let bucket = self.buckets.at(slabs, index);
        if place < ENTRIES {
            return bucket.block(place);
        }
        let overflow = BlockRef::from_bits(bucket.overflow)?;
        let at = place - ENTRIES;
        (at < overflow::count(slabs, overflow)).then(|| overflow::entry(slabs, overflow, at).1)
    }

    /// Moves the blocks of the bucket at `position`, and its overflow block, out of spans that are
    /// marked sparse. Returns where the next bucket starts; `None` after the last one. A block that
    /// finds no room stays. `moved` gets the old and the new place of each entry's block.
    pub fn move_out(
        &mut self,
        slabs: &mut Slabs,
        position: ScanPosition,
        mut moved: impl FnMut(&mut Slabs, BlockRef, BlockRef),
    ) -> Option<ScanPosition> {
        if self.buckets.len() == 0 {
            return None;
        }
        let (index, next) = self.range_at(position);
        for place in 0..ENTRIES {
            let block = self.buckets.at(slabs, index).block(place);
            self.move_entry(slabs, index, place, block, &mut moved);
        }
        let Some(overflow) = BlockRef::from_bits(self.buckets.at(slabs, index).overflow) else {
            return next;
        };
        for at in 0..overflow::count(slabs, overflow) {
            let (_, block) = overflow::entry(slabs, overflow, at);
            self.move_entry(slabs, index, ENTRIES + at, Some(block), &mut moved);
        }
        if slabs.is_marked(overflow)
            && let Ok(target) = slabs.move_out(overflow)
        {
            self.buckets.at_mut(slabs, index).overflow = target.bits();
        }
        next
    }

    fn move_entry(
        &mut self,
        slabs: &mut Slabs,
        bucket: usize,
        place: usize,
        block: Option<BlockRef>,
        moved: &mut impl FnMut(&mut Slabs, BlockRef, BlockRef),
    ) {
        let Some(block) = block.filter(|&block| slabs.is_marked(block)) else { return };
        let Ok(target) = slabs.move_out(block) else { return };
        let entry = Entry::new(block, bucket, place);
        self.replace(slabs, entry, target);
        moved(slabs, block, target);
    }

    /// Drops the last bucket and calls `f` with each of its blocks; false once nothing is left.
    /// A table that is being drained must not be used otherwise.
    pub fn drain_step(
        &mut self,
        slabs: &mut Slabs,
        mut f: impl FnMut(&mut Slabs, BlockRef),
    ) -> bool {
        let Some(last) = self.buckets.len().checked_sub(1) else { return false };
        let mut entries = Chain::new();
        self.collect(slabs, last, &mut entries);
        let bits = self.buckets.at(slabs, last).overflow;
        self.free_overflow(slabs, bits);
        self.buckets.pop(slabs);
        self.len -= entries.len();
        for &(_, block) in &entries {
            slabs.prefetch(block);
        }
        for &(_, block) in &entries {
            f(slabs, block);
        }
        true
    }

    /// Calls `f` with every block, bucket by bucket.
    pub fn for_each(&self, slabs: &Slabs, mut f: impl FnMut(BlockRef)) {
        (0..self.buckets.len()).for_each(|index| self.each(slabs, index, |_, block| f(block)));
    }

    /// Checks that every entry lies in its home bucket under its tag, and that the counts add up.
    ///
    /// # Panics
    /// When they do not.
    pub fn validate(&self, slabs: &Slabs, hash_of: &impl super::HashOf) {
        let (mut len, mut overflow_bytes) = (0, 0);
        for index in 0..self.buckets.len() {
            self.each(slabs, index, |tag, block| {
                let hash = hash_of(slabs.block(block));
                assert_eq!(self.home(hash), index, "an entry left its home bucket");
                assert_eq!(tag_of(hash), tag);
                len += 1;
            });
            let bucket = self.buckets.at(slabs, index);
            if let Some(overflow) = BlockRef::from_bits(bucket.overflow) {
                assert!(bucket.vacant().is_none(), "overflow beside an empty place");
                overflow_bytes += slabs.block_bytes(overflow);
            }
        }
        assert_eq!(len, self.len);
        assert_eq!(overflow_bytes, self.overflow_bytes);
    }
}
