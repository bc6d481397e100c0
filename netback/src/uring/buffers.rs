//! The receive buffers: a ring of them, shared with the kernel, for all connections.
//!
//! The kernel takes a buffer when bytes have arrived, so an idle connection holds none. A filled
//! buffer comes with a completion as a [`Lent`], of which there is one at a time for each buffer:
//! it is what gives safe code the right to read the bytes, and giving it back ends that right.
//!
//! ```text
//! entries   COUNT x 16 bytes   address, length, id of each buffer on offer; the last two bytes
//!                              of the first entry are the ring's tail
//! data      COUNT x STRIDE bytes, of which each buffer has the first LEN
//! ```

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

use super::ring::Ring;

/// The only group of buffers.
pub(super) const BUFFER_GROUP: u16 = 0;

/// Buffers in the ring, a power of two. They are back before the next wait, so the number bounds
/// how many receives one system call completes; the rest are told so and start again.
const COUNT: u16 = 64;

/// Bytes of a buffer: what one receive takes at most.
const LEN: usize = 16 * 1024;

/// From one buffer to the next. Were it a power of two, the beginnings of all buffers, which is
/// what small requests fill, would compete for one set of the cache.
const STRIDE: usize = LEN + 64;

const PAGE: usize = 4096;

const ENTRIES_BYTES: usize = COUNT as usize * size_of::<BufRingEntry>();
const DATA_BYTES: usize = COUNT as usize * STRIDE;

const _: () = assert!(COUNT.is_power_of_two() && size_of::<BufRingEntry>() == 16);

/// A buffer that the kernel has filled.
#[derive(Debug)]
pub(super) struct Lent {
    id: u16,
    len: usize,
}

impl Lent {
    /// To be made from a completion only, once.
    pub(super) fn new(id: u16, len: usize) -> Self {
        assert!(id < COUNT && len <= LEN, "the kernel fills the buffers it was given");
        Self { id, len }
    }
}

/// The buffers and their ring.
pub(super) struct Buffers {
    entries: NonNull<u8>,
    data: NonNull<u8>,
    tail: u16,
    is_leaked: bool,
}

// The memory is the value's own; no thread is tied to it.
// SAFETY: the pointers are to allocations that only this value frees.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Allocates the buffers and registers them.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn open(ring: &Ring) -> io::Result<Self> {
        let entries = allocate(entries_layout());
        let mut buffers =
            Self { entries, data: allocate(data_layout()), tail: 0, is_leaked: false };
        let address = entries.as_ptr() as u64;
        let submitter = ring.uring().submitter();
        // SAFETY: the entries are page-aligned and live as long as the ring; see `Uring`'s drop.
        unsafe { submitter.register_buf_ring_with_flags(address, COUNT, BUFFER_GROUP, 0) }?;
        for id in 0..COUNT {
            buffers.give_back(Lent::new(id, 0));
        }
        Ok(buffers)
    }

    /// The bytes of a filled buffer.
    pub(super) fn bytes(&self, lent: &Lent) -> &[u8] {
        // SAFETY: the id is below COUNT, so the offset is within the allocation.
        let start = unsafe { self.data.as_ptr().add(usize::from(lent.id) * STRIDE) };
        // SAFETY: `len` bytes from `start` are within the buffer, initialised from the beginning,
        // and the kernel does not write to them before the buffer is given back, which takes the
        // `Lent` that is borrowed here together with the buffers.
        unsafe { std::slice::from_raw_parts(start, lent.len) }
    }

    /// Offers a buffer to the kernel.
    pub(super) fn give_back(&mut self, lent: Lent) {
        let place = usize::from(self.tail & (COUNT - 1));
        let entries = self.entries.as_ptr().cast::<BufRingEntry>();
        // SAFETY: the place is below COUNT.
        let entry = unsafe { entries.add(place) };
        // SAFETY: the entry lies beyond the tail, so the kernel does not look at it, except for
        // the tail within the first one, which the setters leave alone and the kernel only reads.
        let entry = unsafe { &mut *entry };
        entry.set_addr(self.data.as_ptr() as u64 + u64::from(lent.id) * STRIDE as u64);
        entry.set_len(LEN as u32);
        entry.set_bid(lent.id);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: this is the address of the first entry of the ring.
        let tail = unsafe { BufRingEntry::tail(entries) };
        // SAFETY: the field is aligned, within the allocation, and shared with the kernel only.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }

    /// Never frees the memory: the kernel may still write to it.
    pub(super) fn leak(&mut self) {
        self.is_leaked = true;
    }

    /// Bytes of all buffers.
    pub(super) fn memory_bytes(&self) -> usize {
        ENTRIES_BYTES + DATA_BYTES
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if self.is_leaked {
            return;
        }
        // SAFETY: allocated with the same layout, and the ring is gone.
        unsafe { dealloc(self.entries.as_ptr(), entries_layout()) };
        // SAFETY: as above.
        unsafe { dealloc(self.data.as_ptr(), data_layout()) };
    }
}

fn entries_layout() -> Layout {
    Layout::from_size_align(ENTRIES_BYTES, PAGE).expect("a small size and a page")
}

fn data_layout() -> Layout {
    Layout::from_size_align(DATA_BYTES, PAGE).expect("a small size and a page")
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: the layout's size is not zero.
    let start = unsafe { alloc_zeroed(layout) };
    NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout))
}
