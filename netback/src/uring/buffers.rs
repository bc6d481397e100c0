//! The provided buffer ring: receive buffers that the kernel picks from.
//!
//! ```text
//! memory   [ ring of COUNT entries, page-aligned | COUNT buffers of LEN bytes ]
//! entry    address, length, buffer id; the tail counter lies in the first entry's spare field
//! ```
//!
//! A buffer is the kernel's from the moment its entry is behind the tail until a completion names
//! it, and ours from then until [`Buffers::give_back`].

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

/// Buffers; a power of two.
const COUNT: u16 = 128;

/// Bytes of one buffer.
const LEN: usize = 16 * 1024;

/// The group that receives name.
pub(super) const GROUP: u16 = 0;

/// The ring and its buffers, in one mapping.
pub(super) struct Buffers {
    memory: NonNull<u8>,
    tail: u16,
}

const RING_BYTES: usize = COUNT as usize * size_of::<BufRingEntry>();
const BYTES: usize = RING_BYTES + COUNT as usize * LEN;

impl Buffers {
    /// Maps the memory, registers the ring and hands all buffers to the kernel.
    pub(super) fn register(submitter: &Submitter<'_>) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new private mapping at an address of the kernel's choice.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, protection, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast::<u8>()).expect("a mapping is not at zero");
        let mut buffers = Self { memory, tail: 0 };
        let address = memory.as_ptr() as u64;
        // SAFETY: the ring's memory is page-aligned, holds COUNT entries, and lives until the
        // ring is closed, which the owner sees to.
        unsafe { submitter.register_buf_ring_with_flags(address, COUNT, GROUP, 0) }?;
        for id in 0..COUNT {
            buffers.push(id);
        }
        buffers.publish();
        Ok(buffers)
    }

    /// The bytes that a completion delivered.
    pub(super) fn bytes(&self, id: u16, len: usize) -> &[u8] {
        assert!(id < COUNT && len <= LEN, "the kernel names buffers of the ring");
        // SAFETY: the offset lies in the mapping.
        let start = unsafe { self.memory.as_ptr().add(RING_BYTES + usize::from(id) * LEN) };
        // SAFETY: the kernel has filled these bytes and leaves the buffer alone until it is given
        // back, which takes `&mut self`.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// Hands a buffer to the kernel again.
    pub(super) fn give_back(&mut self, id: u16) {
        self.push(id);
        self.publish();
    }

    /// Bytes of the mapping.
    pub(super) fn memory_bytes(&self) -> usize {
        BYTES
    }

    fn push(&mut self, id: u16) {
        let index = usize::from(self.tail & (COUNT - 1));
        let ring = self.memory.as_ptr().cast::<BufRingEntry>();
        // SAFETY: the index is below COUNT, so the entry lies in the ring.
        let entry = unsafe { ring.add(index) };
        // SAFETY: the offset lies in the mapping.
        let address = unsafe { self.memory.as_ptr().add(RING_BYTES + usize::from(id) * LEN) };
        // SAFETY: the kernel reads entries in front of the tail only; this one is behind it. Its
        // spare field, which holds the tail, is not touched by the setters.
        let entry = unsafe { &mut *entry };
        entry.set_addr(address as u64);
        entry.set_len(LEN as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Shows the kernel the entries pushed so far.
    fn publish(&self) {
        let ring = self.memory.as_ptr().cast::<BufRingEntry>();
        // SAFETY: the pointer is that of the first entry of an initialized ring.
        let tail = unsafe { BufRingEntry::tail(ring) };
        // SAFETY: the field is an aligned u16 that we write and the kernel reads, as its interface
        // has it; both do so atomically.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and the owner has closed the ring that used it.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), BYTES) };
    }
}
