//! Values and keys that do not fit a slab block.
//!
//! Up to 256 KiB they come from the general allocator, above that each has a mapping of its own,
//! which grows without copying and is freed in steps. A block names its value by an index here.

use crate::arena::Region;
use crate::error::OutOfMemory;

/// Up to this length a value comes from the general allocator.
const HEAP_BYTES_MAX: usize = 256 * 1024;

/// A value outside the slabs.
enum Large {
    Free { next: u32 },
    Heap(Vec<u8>),
    Region(Region),
}

const NO_ENTRY: u32 = u32::MAX;

/// See the top of the file.
pub(crate) struct Larges {
    entries: Vec<Large>,
    free: u32,
    /// Bytes held by live values, at capacity.
    bytes: usize,
    /// Regions that are freed in steps.
    dying: Vec<Region>,
}

impl Default for Larges {
    fn default() -> Larges {
        Larges { entries: Vec::new(), free: NO_ENTRY, bytes: 0, dying: Vec::new() }
    }
}

impl Large {
    fn new(len: usize, parts: &[&[u8]]) -> Result<Large, OutOfMemory> {
        if len <= HEAP_BYTES_MAX {
            let mut bytes = Vec::with_capacity(len);
            parts.iter().for_each(|part| bytes.extend_from_slice(part));
            bytes.resize(len, 0);
            return Ok(Large::Heap(bytes));
        }
        let mut region = Region::new(len)?;
        let mut rest = region.bytes_mut();
        for part in parts {
            let (head, tail) = rest.split_at_mut(part.len());
            head.copy_from_slice(part);
            rest = tail;
        }
        Ok(Large::Region(region))
    }

    fn capacity(&self) -> usize {
        match self {
            Large::Free { .. } => 0,
            Large::Heap(bytes) => bytes.capacity(),
            Large::Region(region) => region.capacity(),
        }
    }
}

impl Larges {
    /// Stores the given bytes one after another, zeros after them up to `len`, and names them.
    pub(crate) fn insert(&mut self, len: usize, parts: &[&[u8]]) -> Result<u32, OutOfMemory> {
        Ok(self.add(Large::new(len, parts)?))
    }

    fn add(&mut self, large: Large) -> u32 {
        self.bytes += large.capacity();
        if self.free == NO_ENTRY {
            self.entries.push(large);
            return u32::try_from(self.entries.len() - 1).expect("fewer than stub blocks");
        }
        let index = self.free;
        match std::mem::replace(&mut self.entries[index as usize], large) {
            Large::Free { next } => self.free = next,
            _ => unreachable!("the free list holds free entries"),
        }
        index
    }

    /// The bytes of a value.
    pub(crate) fn bytes(&self, index: u32) -> &[u8] {
        match &self.entries[index as usize] {
            Large::Heap(bytes) => bytes,
            Large::Region(region) => region.bytes(),
            Large::Free { .. } => unreachable!("a stub names a live value"),
        }
    }

    /// The bytes of a value, to be written.
    pub(crate) fn bytes_mut(&mut self, index: u32) -> &mut [u8] {
        match &mut self.entries[index as usize] {
            Large::Heap(bytes) => bytes,
            Large::Region(region) => region.bytes_mut(),
            Large::Free { .. } => unreachable!("a stub names a live value"),
        }
    }

    /// Changes the length; new bytes are zero. A growing value gets an eighth more room than it
    /// asked for, so that appends copy little.
    pub(crate) fn resize(&mut self, index: u32, len: usize) -> Result<(), OutOfMemory> {
        let large = &mut self.entries[index as usize];
        let before = large.capacity();
        match large {
            Large::Heap(bytes) if len <= HEAP_BYTES_MAX => {
                if len > bytes.capacity() {
                    bytes.reserve_exact(len + len / 8 - bytes.len());
                }
                bytes.resize(len, 0);
            }
            Large::Heap(bytes) => *large = Large::new(len, &[bytes])?,
            Large::Region(region) => region.resize(len)?,
            Large::Free { .. } => unreachable!("a stub names a live value"),
        }
        self.bytes = self.bytes + large.capacity() - before;
        Ok(())
    }

    /// Drops a value; a region is queued to be freed in steps.
    pub(crate) fn remove(&mut self, index: u32) {
        let free = Large::Free { next: self.free };
        let large = std::mem::replace(&mut self.entries[index as usize], free);
        self.free = index;
        self.bytes -= large.capacity();
        if let Large::Region(region) = large {
            self.dying.push(region);
        }
    }

    /// Bytes that a value occupies.
    pub(crate) fn capacity(&self, index: u32) -> usize {
        self.entries[index as usize].capacity()
    }

    /// Frees a piece of a queued region; false when none is left.
    pub(crate) fn free_step(&mut self) -> bool {
        let Some(region) = self.dying.last_mut() else { return false };
        if !region.free_step() {
            self.dying.pop();
        }
        true
    }

    /// True while [`Larges::free_step`] has something to do.
    pub(crate) fn free_due(&self) -> bool {
        !self.dying.is_empty()
    }

    /// Bytes of live values at capacity, and of what names them.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes + self.entries.capacity() * size_of::<Large>()
    }

    /// Bytes of regions not yet freed.
    pub(crate) fn dying_bytes(&self) -> usize {
        self.dying.iter().map(Region::capacity).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_grow_across_the_boundary_and_shrink() {
        let mut larges = Larges::default();
        let index = larges.insert(6, &[b"abc", b"def"]).unwrap();
        larges.resize(index, HEAP_BYTES_MAX + 1).unwrap();
        assert_eq!(&larges.bytes(index)[..8], b"abcdef\0\0");
        larges.resize(index, 2).unwrap();
        assert_eq!(larges.bytes(index), b"ab");
        larges.remove(index);
        assert!(larges.free_due() && larges.free_step() && !larges.free_due());
        assert_eq!(larges.insert(1, &[b"x"]).unwrap(), index);
    }

    #[test]
    fn accounting_follows_capacity() {
        let mut larges = Larges::default();
        let a = larges.insert(5000, &[&[1; 5000]]).unwrap();
        let b = larges.insert(HEAP_BYTES_MAX + 1, &[]).unwrap();
        assert_eq!(larges.bytes, 5000 + larges.capacity(b));
        larges.resize(a, 6000).unwrap();
        assert_eq!(larges.bytes, larges.capacity(a) + larges.capacity(b));
        larges.remove(a);
        larges.remove(b);
        assert_eq!(larges.bytes, 0);
        assert!(larges.dying_bytes() > HEAP_BYTES_MAX);
    }
}
