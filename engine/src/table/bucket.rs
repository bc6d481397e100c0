//! A bucket of the index: one cache line with up to 12 entries and their tags.
//!
//! ```text
//! 0      refs      12 x u32   references of blocks, 0 = empty
//! 48     tags      12 x u8    8 bits of the hash of each, 0 = empty
//! 60     overflow  u32        reference of the overflow block, 0 = none
//! ```
//!
//! Tags and overflow fill the last 16 bytes, so that one vector compare sees all tags.

use crate::slab::BlockRef;
use bytemuck::{Pod, Zeroable};
#[cfg(not(miri))]
use wide::i8x16;

/// Entries in a bucket.
pub(crate) const ENTRIES: usize = 12;
/// Bytes of a bucket.
pub(crate) const BUCKET_BYTES: usize = 64;

/// See the top of the file.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
pub(crate) struct Bucket {
    pub(crate) refs: [u32; ENTRIES],
    pub(crate) tags: [u8; ENTRIES],
    pub(crate) overflow: u32,
}

const _: () = assert!(size_of::<Bucket>() == BUCKET_BYTES);

/// The tag of a hash: bits 24..32, never 0.
#[inline]
pub(crate) fn tag_of(hash: u64) -> u8 {
    let tag = (hash >> 24) as u8;
    tag | u8::from(tag == 0)
}

impl Bucket {
    pub(crate) const EMPTY: Bucket = Bucket { refs: [0; ENTRIES], tags: [0; ENTRIES], overflow: 0 };

    /// A bit for each entry with this tag.
    #[inline]
    pub(crate) fn matches(&self, tag: u8) -> u32 {
        #[cfg(not(miri))]
        {
            let words: &[[i8; 16]; 4] = bytemuck::cast_ref(self);
            let equal = i8x16::new(words[3]).simd_eq(i8x16::splat(tag.cast_signed()));
            equal.to_bitmask() & ((1 << ENTRIES) - 1)
        }
        #[cfg(miri)]
        {
            self.matches_scalar(tag)
        }
    }

    #[cfg(any(test, miri))]
    pub(crate) fn matches_scalar(&self, tag: u8) -> u32 {
        self.tags.iter().enumerate().fold(0, |bits, (i, &t)| bits | u32::from(t == tag) << i)
    }

    /// The first empty place.
    #[inline]
    pub(crate) fn vacant(&self) -> Option<usize> {
        let empty = self.matches(0);
        (empty != 0).then(|| empty.trailing_zeros() as usize)
    }

    /// Puts an entry into a place.
    #[inline]
    pub(crate) fn set(&mut self, place: usize, tag: u8, block: BlockRef) {
        self.tags[place] = tag;
        self.refs[place] = block.bits();
    }

    /// Empties a place.
    #[inline]
    pub(crate) fn clear(&mut self, place: usize) {
        self.tags[place] = 0;
        self.refs[place] = 0;
    }

    /// The block in a place.
    #[inline]
    pub(crate) fn block(&self, place: usize) -> Option<BlockRef> {
        BlockRef::from_bits(self.refs[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vector_compare_agrees_with_the_scalar_one() {
        let mut rng = crate::testing::Rng::new(3);
        for _ in 0..100 {
            let mut bucket = Bucket::EMPTY;
            bucket.overflow = rng.next() as u32;
            for tag in &mut bucket.tags {
                *tag = rng.below(4) as u8;
            }
            for tag in 0..5 {
                assert_eq!(bucket.matches(tag), bucket.matches_scalar(tag));
            }
        }
    }
}
