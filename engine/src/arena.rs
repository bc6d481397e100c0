//! One reserved address range per shard, handed out in spans of 64 KiB.
//!
//! The range is reserved without memory behind it and opened in chunks as it grows, so that a span
//! number is enough to name an address and nothing is ever copied to grow. Spans that come back are
//! handed out again first, warm ones (their pages still resident) before cold ones. Warm spans above
//! a small number go back to the kernel one at a time, when the owner has time for it.
//!
//! Safe code may rely on this: bytes are reached only through a borrow of the arena, inside one
//! span, and only in spans below the opened mark. The arena does not know what a span is used for;
//! its users keep apart by the numbers they were given.
//!
//! Invariant: `touched == taken + warm + cold`, and span 0 is never handed out, so that a reference
//! made of span and block number is never zero.

#![allow(unsafe_code, reason = "raw memory from the kernel; see mapping.rs")]

pub(crate) mod mapping;
mod region;

pub use region::{REGION_STEP_BYTES, Region};

use crate::error::OutOfMemory;
use mapping::Mapping;

/// Bytes of a span.
pub const SPAN_BYTES: usize = 64 * 1024;
/// Spans that a reference can name: 20 bits.
pub const SPANS_MAX: usize = 1 << 20;
/// The range is halved down to this when the kernel refuses more, then the arena gives up.
pub const RESERVE_BYTES_MIN: usize = 64 << 20;
/// Spans that are opened at a time (4 MiB).
const OPEN_SPANS: usize = 64;
/// Warm spans that are kept for reuse (1 MiB).
const WARM_SPANS: usize = 16;

/// How an arena is set up.
#[derive(Clone, Copy, Debug)]
pub struct ArenaOptions {
    /// Address range in bytes, at most 64 GiB; also the limit of what the arena hands out.
    pub reserve_bytes: usize,
    /// Ask the kernel for huge pages.
    pub huge_pages: bool,
}

impl Default for ArenaOptions {
    fn default() -> ArenaOptions {
        let reserve_bytes = if cfg!(miri) { 64 * SPAN_BYTES } else { SPANS_MAX * SPAN_BYTES };
        ArenaOptions { reserve_bytes, huge_pages: false }
    }
}

/// Number of a span in its arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub(crate) u32);

/// See the top of the file.
pub struct Arena {
    mapping: Mapping,
    spans_max: u32,
    /// Spans below this were handed out at least once.
    touched: u32,
    taken: u32,
    warm: Vec<u32>,
    cold: Vec<u32>,
    huge_pages: bool,
}

impl Arena {
    /// Reserves the range; where the kernel refuses, half of it, down to [`RESERVE_BYTES_MIN`].
    ///
    /// # Errors
    /// Not even the minimum could be had.
    pub fn new(options: ArenaOptions) -> Result<Arena, OutOfMemory> {
        let wanted = options.reserve_bytes.next_multiple_of(SPAN_BYTES);
        let mut len = wanted.clamp(2 * SPAN_BYTES, SPANS_MAX * SPAN_BYTES);
        let mapping = loop {
            if let Some(mapping) = Mapping::reserve(len) {
                break mapping;
            }
            if len / 2 < RESERVE_BYTES_MIN {
                return Err(OutOfMemory);
            }
            len = (len / 2).next_multiple_of(SPAN_BYTES);
        };
        Ok(Arena {
            mapping,
            spans_max: u32::try_from(len / SPAN_BYTES).expect("at most SPANS_MAX"),
            touched: 1,
            taken: 0,
            warm: Vec::new(),
            cold: Vec::new(),
            huge_pages: options.huge_pages,
        })
    }

    /// Hands out a span; its bytes are what its last user left, or zeros.
    ///
    /// # Errors
    /// The range is used up, or the kernel refused to open more.
    pub fn take(&mut self) -> Result<Span, OutOfMemory> {
        let number = match self.warm.pop().or_else(|| self.cold.pop()) {
            Some(number) => number,
            None => self.touch_next()?,
        };
        self.taken += 1;
        Ok(Span(number))
    }

    fn touch_next(&mut self) -> Result<u32, OutOfMemory> {
        if self.touched >= self.spans_max {
            return Err(OutOfMemory);
        }
        let needed = (self.touched as usize + 1) * SPAN_BYTES;
        let opened = self.mapping.opened();
        if needed > opened {
            let end = (opened + OPEN_SPANS * SPAN_BYTES).min(self.mapping.reserved());
            if !self.mapping.open_to(end) {
                return Err(OutOfMemory);
            }
            if self.huge_pages {
                self.mapping.advise_huge(opened, end - opened);
            }
        }
        self.touched += 1;
        Ok(self.touched - 1)
    }

    /// Takes a span back.
    pub fn give_back(&mut self, span: Span) {
        debug_assert!(span.0 > 0 && span.0 < self.touched);
        debug_assert!(!self.warm.contains(&span.0), "span given back twice");
        self.taken -= 1;
        self.warm.push(span.0);
    }

    /// True while [`Arena::release_step`] has something to do.
    pub fn release_due(&self) -> bool {
        self.warm.len() > WARM_SPANS
    }

    /// Returns one spare warm span to the kernel; false when there is none.
    pub fn release_step(&mut self) -> bool {
        if !self.release_due() {
            return false;
        }
        // The one that lay unused longest.
        let number = self.warm.swap_remove(0);
        self.mapping.discard(number as usize * SPAN_BYTES, SPAN_BYTES);
        self.cold.push(number);
        true
    }

    /// Spans that are handed out.
    pub fn taken(&self) -> usize {
        self.taken as usize
    }

    /// Bytes of spans that are handed out or kept warm: what the kernel may hold pages for.
    pub fn committed_bytes(&self) -> usize {
        (self.taken as usize + self.warm.len()) * SPAN_BYTES
    }

    /// Most spans that can ever be handed out.
    pub fn spans_max(&self) -> usize {
        self.spans_max as usize
    }

    /// `len` bytes at `offset` of a span.
    #[inline]
    pub fn bytes(&self, span: Span, offset: usize, len: usize) -> &[u8] {
        assert!(offset + len <= SPAN_BYTES, "range leaves its span");
        self.mapping.bytes(span.0 as usize * SPAN_BYTES + offset, len)
    }

    /// `len` bytes at `offset` of a span, to be written.
    #[inline]
    pub fn bytes_mut(&mut self, span: Span, offset: usize, len: usize) -> &mut [u8] {
        assert!(offset + len <= SPAN_BYTES, "range leaves its span");
        self.mapping.bytes_mut(span.0 as usize * SPAN_BYTES + offset, len)
    }

    /// Copies `len` bytes from one place (span, offset) to another.
    pub fn copy(&mut self, from: (Span, usize), to: (Span, usize), len: usize) {
        assert!(from.1 + len <= SPAN_BYTES && to.1 + len <= SPAN_BYTES, "range leaves its span");
        let start = |(span, offset): (Span, usize)| span.0 as usize * SPAN_BYTES + offset;
        self.mapping.copy(start(from), start(to), len);
    }

    /// Asks the processor to load the cache line at `offset` of a span.
    #[inline]
    pub fn prefetch(&self, span: Span, offset: usize) {
        self.mapping.prefetch(span.0 as usize * SPAN_BYTES + offset);
    }

    /// Checks the relation of the counters.
    ///
    /// # Panics
    /// When they do not add up.
    pub fn validate(&self) {
        let free = self.warm.len() + self.cold.len();
        assert_eq!(self.touched as usize, 1 + self.taken as usize + free);
        assert!(self.touched <= self.spans_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(spans: usize) -> Arena {
        Arena::new(ArenaOptions { reserve_bytes: spans * SPAN_BYTES, huge_pages: false }).unwrap()
    }

    #[test]
    fn hands_out_up_to_its_limit_and_reuses() {
        let mut arena = small(5);
        let spans: Vec<Span> = (0..4).map(|_| arena.take().unwrap()).collect();
        assert_eq!(arena.take(), Err(OutOfMemory));
        assert!(spans.iter().all(|span| span.0 > 0));
        arena.give_back(spans[2]);
        assert_eq!(arena.take(), Ok(spans[2]));
        arena.validate();
    }

    #[test]
    fn spare_spans_go_back_to_the_kernel_as_zeros() {
        let mut arena = small(64);
        let spans: Vec<Span> = (0..WARM_SPANS + 2).map(|_| arena.take().unwrap()).collect();
        for &span in &spans {
            arena.bytes_mut(span, 0, SPAN_BYTES).fill(7);
            arena.give_back(span);
        }
        assert!(arena.release_step());
        assert!(arena.release_step());
        assert!(!arena.release_step());
        assert_eq!(arena.committed_bytes(), WARM_SPANS * SPAN_BYTES);
        assert!(arena.bytes(spans[0], 0, SPAN_BYTES).iter().all(|&byte| byte == 0));
        arena.validate();
    }

    #[test]
    #[should_panic(expected = "range leaves its span")]
    fn a_range_may_not_leave_its_span() {
        let mut arena = small(5);
        let span = arena.take().unwrap();
        arena.bytes(span, SPAN_BYTES - 1, 2);
    }
}
