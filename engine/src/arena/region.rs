//! A mapping of its own for one huge value.
//!
//! It grows by `mremap`, so that an append to a value of hundreds of megabytes copies nothing, and
//! it is freed from its end in steps, so that no tick pays for all of its pages at once.

use super::mapping::{Mapping, PAGE_BYTES};
use crate::error::OutOfMemory;

/// Bytes that one call of [`Region::free_step`] gives back at most.
pub const REGION_STEP_BYTES: usize = 1 << 20;

/// Bytes in whole pages, with a length that may be anything up to the capacity.
pub struct Region {
    mapping: Mapping,
    len: usize,
}

impl Region {
    /// A region of `len` zero bytes.
    ///
    /// # Errors
    /// The kernel gave no address range.
    pub fn new(len: usize) -> Result<Region, OutOfMemory> {
        let mapping = Mapping::open_all(pages(len)).ok_or(OutOfMemory)?;
        Ok(Region { mapping, len })
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.mapping.bytes(0, self.len)
    }

    /// The bytes, to be written.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.mapping.bytes_mut(0, self.len)
    }

    /// Bytes that the region occupies.
    pub fn capacity(&self) -> usize {
        self.mapping.reserved()
    }

    /// Changes the length. New bytes are zero; pages past the end go back to the kernel.
    ///
    /// # Errors
    /// The kernel gave no address range; the region is unchanged.
    pub fn resize(&mut self, len: usize) -> Result<(), OutOfMemory> {
        if pages(len) != self.capacity() && !self.mapping.resize(pages(len)) {
            return Err(OutOfMemory);
        }
        if len > self.len {
            // The rest of the last old page may hold bytes from before a cut.
            let dirty = pages(self.len).min(len);
            self.mapping.bytes_mut(self.len, dirty - self.len).fill(0);
        }
        self.len = len;
        Ok(())
    }

    /// Gives up to [`REGION_STEP_BYTES`] from the end back to the kernel; false once little is
    /// left, and the region can be dropped. Its bytes are lost from the first call on.
    pub fn free_step(&mut self) -> bool {
        let capacity = self.capacity();
        if capacity <= REGION_STEP_BYTES {
            return false;
        }
        self.len = 0;
        self.mapping.resize(capacity - REGION_STEP_BYTES)
    }
}

fn pages(len: usize) -> usize {
    len.max(1).next_multiple_of(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_and_shrinks_without_losing_or_inventing_bytes() {
        let mut region = Region::new(10).unwrap();
        region.bytes_mut().copy_from_slice(b"0123456789");
        region.resize(3 * PAGE_BYTES).unwrap();
        assert_eq!(&region.bytes()[..12], b"0123456789\0\0");
        region.resize(4).unwrap();
        assert_eq!(region.bytes(), b"0123");
        assert_eq!(region.capacity(), PAGE_BYTES);
        region.resize(12).unwrap();
        assert_eq!(region.bytes(), b"0123\0\0\0\0\0\0\0\0");
    }

    #[test]
    fn is_freed_in_steps() {
        let mut region = Region::new(3 * REGION_STEP_BYTES + 5).unwrap();
        let mut steps = 0;
        while region.free_step() {
            steps += 1;
        }
        assert_eq!(steps, 3);
        assert!(region.capacity() <= REGION_STEP_BYTES);
    }
}
