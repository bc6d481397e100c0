//! Raw memory from the kernel: one mapping that can be opened, discarded and resized.
//!
//! Safe code may rely on this: a [`Mapping`] owns its address range from `new` to drop, bytes below
//! `opened` are readable, writable and initialised (the kernel hands out zeros), and a slice that
//! was lent is bound to a borrow of the mapping, so nothing moves or vanishes under it.
//!
//! Miri cannot run `mmap` with `PROT_NONE`, so under `cfg(miri)` the same face stands on the heap.

use std::ptr::NonNull;

/// Bytes of a page; lengths handed to the kernel are multiples of it.
pub(crate) const PAGE_BYTES: usize = 4096;

/// An address range of the process, of which the first `opened` bytes may be used.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    opened: usize,
}

// SAFETY: a mapping is plain memory with one owner; no thread-local state stands behind it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Bytes that may be used.
    pub(crate) fn opened(&self) -> usize {
        self.opened
    }

    /// Bytes of address range.
    pub(crate) fn reserved(&self) -> usize {
        self.len
    }

    /// The bytes `start..start + len`.
    #[inline]
    pub(crate) fn bytes(&self, start: usize, len: usize) -> &[u8] {
        self.check(start, len);
        // SAFETY: `check` found the range inside the opened part of our one allocation.
        let at = unsafe { self.base.add(start) };
        // SAFETY: the range is initialised, owned by `self`, and shared for the borrow of `self`.
        unsafe { std::slice::from_raw_parts(at.as_ptr(), len) }
    }

    /// The bytes `start..start + len`, to be written.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, start: usize, len: usize) -> &mut [u8] {
        self.check(start, len);
        // SAFETY: `check` found the range inside the opened part of our one allocation.
        let at = unsafe { self.base.add(start) };
        // SAFETY: the range is initialised, and `self` is borrowed mutably, so nobody else sees it.
        unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), len) }
    }

    /// Copies `len` bytes inside the mapping; the ranges may overlap.
    pub(crate) fn copy(&mut self, from: usize, to: usize, len: usize) {
        self.check(from, len);
        self.check(to, len);
        // SAFETY: `check` found the source inside the opened part of our one allocation.
        let source = unsafe { self.base.add(from) };
        // SAFETY: `check` found the target inside the opened part of our one allocation.
        let target = unsafe { self.base.add(to) };
        // SAFETY: both ranges are ours, initialised, and not borrowed, since `self` is `&mut`.
        unsafe { std::ptr::copy(source.as_ptr(), target.as_ptr(), len) }
    }

    /// Asks the processor to load the cache line at `start`; an address outside does nothing.
    #[inline]
    pub(crate) fn prefetch(&self, start: usize) {
        if start < self.opened {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            {
                use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                let at = self.base.as_ptr().wrapping_add(start).cast::<i8>().cast_const();
                // SAFETY: a prefetch never faults; SSE is part of every x86-64 processor.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(at) }
            }
        }
    }

    #[inline]
    fn check(&self, start: usize, len: usize) {
        let end = start.checked_add(len);
        assert!(end.is_some_and(|end| end <= self.opened), "range outside the opened mapping");
    }
}

#[cfg(not(miri))]
mod kernel {
    //! The mapping on `mmap`.

    use super::{Mapping, NonNull, PAGE_BYTES};

    const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

    impl Mapping {
        /// Reserves `len` bytes of addresses; none may be used yet.
        pub(crate) fn reserve(len: usize) -> Option<Mapping> {
            Mapping::map(len, libc::PROT_NONE, 0)
        }

        /// Maps `len` bytes, all of them usable.
        pub(crate) fn open_all(len: usize) -> Option<Mapping> {
            Mapping::map(len, libc::PROT_READ | libc::PROT_WRITE, len)
        }

        fn map(len: usize, protection: i32, opened: usize) -> Option<Mapping> {
            debug_assert!(len > 0 && len.is_multiple_of(PAGE_BYTES));
            // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing.
            let base = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, PRIVATE, -1, 0) };
            if base == libc::MAP_FAILED {
                return None;
            }
            Some(Mapping { base: NonNull::new(base.cast::<u8>())?, len, opened })
        }

        /// Makes the bytes below `end` usable; false when the kernel refuses.
        pub(crate) fn open_to(&mut self, end: usize) -> bool {
            assert!(end <= self.len && end.is_multiple_of(PAGE_BYTES));
            if end <= self.opened {
                return true;
            }
            let start = self.base.as_ptr().wrapping_add(self.opened).cast::<libc::c_void>();
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: the range lies in our mapping, and opening it invalidates no borrow.
            let answer = unsafe { libc::mprotect(start, end - self.opened, protection) };
            if answer == 0 {
                self.opened = end;
            }
            answer == 0
        }

        /// Gives the pages of a range back to the kernel; they read as zeros afterwards.
        pub(crate) fn discard(&mut self, start: usize, len: usize) {
            self.advise(start, len, libc::MADV_DONTNEED);
        }

        /// Asks for huge pages in a range; the kernel may ignore it.
        pub(crate) fn advise_huge(&mut self, start: usize, len: usize) {
            self.advise(start, len, libc::MADV_HUGEPAGE);
        }

        fn advise(&mut self, start: usize, len: usize, advice: i32) {
            self.check(start, len);
            debug_assert!(start.is_multiple_of(PAGE_BYTES) && len.is_multiple_of(PAGE_BYTES));
            let at = self.base.as_ptr().wrapping_add(start).cast::<libc::c_void>();
            // SAFETY: the range is ours and not borrowed (`&mut self`); after either advice it
            // still reads as initialised bytes. A refusal changes nothing.
            let _ = unsafe { libc::madvise(at, len, advice) };
        }

        /// Changes the length of a mapping that is open as a whole; it may move. False: unchanged.
        pub(crate) fn resize(&mut self, len: usize) -> bool {
            assert!(self.opened == self.len && len > 0 && len.is_multiple_of(PAGE_BYTES));
            let old = self.base.as_ptr().cast::<libc::c_void>();
            // SAFETY: `old` and `self.len` are exactly our mapping, and nobody borrows it.
            let new = unsafe { libc::mremap(old, self.len, len, libc::MREMAP_MAYMOVE) };
            let Some(base) = NonNull::new(new.cast::<u8>()).filter(|_| new != libc::MAP_FAILED)
            else {
                return false;
            };
            self.base = base;
            self.len = len;
            self.opened = len;
            true
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: the range is exactly our mapping, and no borrow outlives its owner.
            let answer = unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
            debug_assert_eq!(answer, 0, "munmap of our own mapping");
        }
    }
}

#[cfg(miri)]
mod heap {
    //! The same face on the heap, for Miri.

    use super::{Mapping, NonNull, PAGE_BYTES};
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, PAGE_BYTES).expect("lengths are far below isize::MAX")
    }

    impl Mapping {
        pub(crate) fn reserve(len: usize) -> Option<Mapping> {
            // SAFETY: the layout has a length above zero.
            let base = unsafe { alloc_zeroed(layout(len)) };
            Some(Mapping { base: NonNull::new(base)?, len, opened: 0 })
        }

        pub(crate) fn open_all(len: usize) -> Option<Mapping> {
            let mut mapping = Mapping::reserve(len)?;
            mapping.opened = len;
            Some(mapping)
        }

        pub(crate) fn open_to(&mut self, end: usize) -> bool {
            assert!(end <= self.len);
            self.opened = self.opened.max(end);
            true
        }

        pub(crate) fn discard(&mut self, start: usize, len: usize) {
            self.bytes_mut(start, len).fill(0);
        }

        pub(crate) fn advise_huge(&mut self, _start: usize, _len: usize) {}

        pub(crate) fn resize(&mut self, len: usize) -> bool {
            let Some(mut new) = Mapping::open_all(len) else { return false };
            let kept = len.min(self.len);
            new.bytes_mut(0, kept).copy_from_slice(self.bytes(0, kept));
            *self = new;
            true
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: allocated in `reserve` with this same layout, freed once.
            unsafe { dealloc(self.base.as_ptr(), layout(self.len)) }
        }
    }
}
