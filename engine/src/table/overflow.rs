//! Entries that a bucket has no room for, packed into a small block.
//!
//! ```text
//! 0   count  u8
//! 1   entry  5 bytes, count times: tag u8, reference u32 (little endian)
//! ```
//!
//! A bucket that is about to be split holds a few entries too many for a while. A second bucket for
//! them would cost 64 bytes; this costs 5 an entry and the rest of a size class, and falls away when
//! the bucket is split.

use crate::error::OutOfMemory;
use crate::slab::{BlockRef, Slabs, block_bytes_for};

/// Most entries in an overflow block.
pub(crate) const OVERFLOW_MAX: usize = 200;
const ENTRY_BYTES: usize = 5;

/// Bytes for so many entries.
pub(crate) fn bytes_for(count: usize) -> usize {
    1 + count * ENTRY_BYTES
}

/// Entries in the block.
pub(crate) fn count(slabs: &Slabs, overflow: BlockRef) -> usize {
    slabs.block(overflow)[0] as usize
}

/// The entry at `index`.
pub(crate) fn entry(slabs: &Slabs, overflow: BlockRef, index: usize) -> (u8, BlockRef) {
    let at = bytes_for(index);
    let bytes = &slabs.block(overflow)[at..at + ENTRY_BYTES];
    let bits = u32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
    (bytes[0], BlockRef::from_bits(bits).expect("an overflow entry has a block"))
}

/// Overwrites the entry at `index`.
pub(crate) fn set(slabs: &mut Slabs, overflow: BlockRef, index: usize, tag: u8, block: BlockRef) {
    let at = bytes_for(index);
    let bytes = &mut slabs.block_mut(overflow)[at..at + ENTRY_BYTES];
    bytes[0] = tag;
    bytes[1..].copy_from_slice(&block.bits().to_le_bytes());
}

/// An overflow block with the given entries, at least one.
pub(crate) fn create(
    slabs: &mut Slabs,
    entries: impl ExactSizeIterator<Item = (u8, BlockRef)>,
) -> Result<BlockRef, OutOfMemory> {
    let count = entries.len();
    if count > OVERFLOW_MAX {
        return Err(OutOfMemory);
    }
    let overflow = slabs.alloc(bytes_for(count))?;
    slabs.block_mut(overflow)[0] = count as u8;
    for (index, (tag, block)) in entries.enumerate() {
        set(slabs, overflow, index, tag, block);
    }
    Ok(overflow)
}

/// Appends an entry and returns the block, which may be another one.
pub(crate) fn push(
    slabs: &mut Slabs,
    overflow: BlockRef,
    tag: u8,
    block: BlockRef,
) -> Result<BlockRef, OutOfMemory> {
    let count = count(slabs, overflow);
    if count == OVERFLOW_MAX {
        return Err(OutOfMemory);
    }
    let fits = bytes_for(count + 1) <= slabs.block_bytes(overflow);
    let target = if fits { overflow } else { resize(slabs, overflow, count, count + 1)? };
    slabs.block_mut(target)[0] = count as u8 + 1;
    set(slabs, target, count, tag, block);
    Ok(target)
}

/// Takes the last entry out; the block that is left, if any.
pub(crate) fn pop(slabs: &mut Slabs, overflow: BlockRef) -> ((u8, BlockRef), Option<BlockRef>) {
    let left = count(slabs, overflow) - 1;
    let last = entry(slabs, overflow, left);
    if left == 0 {
        slabs.free(overflow);
        return (last, None);
    }
    slabs.block_mut(overflow)[0] = left as u8;
    let fits_less = block_bytes_for(bytes_for(left)) < slabs.block_bytes(overflow);
    // Without memory for a smaller block the larger one simply stays.
    let kept = if fits_less { resize(slabs, overflow, left, left).ok() } else { None };
    (last, kept.or(Some(overflow)))
}

fn resize(
    slabs: &mut Slabs,
    overflow: BlockRef,
    kept: usize,
    count: usize,
) -> Result<BlockRef, OutOfMemory> {
    let target = slabs.alloc(bytes_for(count))?;
    slabs.copy(overflow, 0..bytes_for(kept), target, 0);
    slabs.free(overflow);
    Ok(target)
}
