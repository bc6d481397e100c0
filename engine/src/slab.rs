//! Blocks of fixed sizes, named by 4 bytes.
//!
//! ```text
//! BlockRef   span number (20 bits) | block number (12 bits), never 0
//! address    base + span * 64 Ki + block number * block size of that span
//! ```
//!
//! A lookup reads the dense array of block sizes and the block itself, nothing else: all that is
//! known about a span stands outside of it. A free block holds the number of the next free one in
//! its first two bytes. Allocation takes the fullest span that has room, so that sparse ones drain;
//! a span that empties goes back to the arena. No block knows its owner, so blocks are moved by
//! their owners: [`Slabs::mark_sparse`] marks spans, the owners walk their references and call
//! [`Slabs::move_out`], and the span goes back once it is empty.
//!
//! Invariants, checked by [`Slabs::validate`]: in each span `capacity == live + free + never used`;
//! over all spans the live blocks add up to `live_blocks` and, at class size, to `live_bytes`.

mod class;

pub use class::{
    BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, CLASS_BYTES, CLASSES, FINE_BYTES_MAX, block_bytes_for,
};

use crate::arena::{Arena, SPAN_BYTES, Span};
use crate::error::OutOfMemory;
use class::{capacity, class_of};
use std::num::NonZeroU32;
use std::ops::Range;

/// Name of a block; see the top of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockRef(NonZeroU32);

const NUMBER_BITS: u32 = 12;
const NUMBER_MASK: u32 = (1 << NUMBER_BITS) - 1;

impl BlockRef {
    fn new(span: u32, number: u16) -> BlockRef {
        let bits = span << NUMBER_BITS | u32::from(number);
        BlockRef(NonZeroU32::new(bits).expect("span 0 is never handed out"))
    }

    /// The reference as stored in an index; never 0.
    #[inline]
    pub fn bits(self) -> u32 {
        self.0.get()
    }

    /// A reference read back from an index; 0 is none.
    #[inline]
    pub fn from_bits(bits: u32) -> Option<BlockRef> {
        NonZeroU32::new(bits).map(BlockRef)
    }

    #[inline]
    fn span(self) -> u32 {
        self.0.get() >> NUMBER_BITS
    }

    #[inline]
    fn number(self) -> u16 {
        (self.0.get() & NUMBER_MASK) as u16
    }
}

/// No span, or no free block.
const NONE: u32 = u32::MAX;
const NO_BLOCK: u16 = u16::MAX;
/// Lists of spans by fullness, per class.
const BINS: u8 = 8;
/// A span without room is in no list.
const BIN_FULL: u8 = BINS;
/// A span whose blocks are to move out is in no list and takes no new ones.
const BIN_MARKED: u8 = BINS + 1;
/// The span is not of the slabs.
const BIN_FOREIGN: u8 = BINS + 2;

/// What is known about a span.
#[derive(Clone, Copy)]
struct SpanMeta {
    next: u32,
    prev: u32,
    free_head: u16,
    /// Blocks from here on were never used.
    fresh: u16,
    live: u16,
    class: u8,
    bin: u8,
}

const FOREIGN: SpanMeta = SpanMeta {
    next: NONE,
    prev: NONE,
    free_head: NO_BLOCK,
    fresh: 0,
    live: 0,
    class: 0,
    bin: BIN_FOREIGN,
};

/// What is known about a class.
#[derive(Clone, Copy)]
struct ClassMeta {
    heads: [u32; BINS as usize],
    /// A bit for each list that has a span.
    occupied: u8,
    capacity: u16,
    /// Turns a live count into a list number by one multiplication.
    bin_factor: u32,
    live: u64,
    /// Spans of the class that are not marked.
    spans: u32,
}

/// Counters of the slabs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlabCounters {
    /// Blocks in use.
    pub live_blocks: u64,
    /// Bytes of blocks in use, at class size.
    pub live_bytes: u64,
    /// Spans that hold blocks.
    pub spans: u64,
    /// Of these, spans whose blocks are to move out.
    pub spans_marked: u64,
}

/// See the top of the file. The arena is theirs; the index takes its spans from it too.
pub struct Slabs {
    pub(crate) arena: Arena,
    /// Block size of each span, 0 for spans that are not of the slabs.
    sizes: Vec<u16>,
    metas: Vec<SpanMeta>,
    classes: Box<[ClassMeta; CLASSES]>,
    counters: SlabCounters,
}

impl Slabs {
    /// Slabs on an arena.
    pub fn new(arena: Arena) -> Slabs {
        // Reserved at once so that they never move; untouched pages cost nothing.
        let spans_max = arena.spans_max();
        let classes = std::array::from_fn(|class| {
            let capacity = capacity(class as u8);
            ClassMeta {
                heads: [NONE; BINS as usize],
                occupied: 0,
                capacity,
                bin_factor: (u32::from(BINS) << 16) / u32::from(capacity),
                live: 0,
                spans: 0,
            }
        });
        Slabs {
            arena,
            sizes: Vec::with_capacity(spans_max),
            metas: Vec::with_capacity(spans_max),
            classes: Box::new(classes),
            counters: SlabCounters::default(),
        }
    }

    /// The counters.
    pub fn counters(&self) -> SlabCounters {
        self.counters
    }

    /// A block of at least `len` bytes (at most [`BLOCK_BYTES_MAX`]), its bytes undefined.
    ///
    /// # Errors
    /// The arena has no span left.
    #[inline]
    pub fn alloc(&mut self, len: usize) -> Result<BlockRef, OutOfMemory> {
        let class = class_of(len);
        let occupied = self.classes[class as usize].occupied;
        let span = if occupied == 0 {
            self.add_span(class)?
        } else {
            let bin = 7 - occupied.leading_zeros();
            self.classes[class as usize].heads[bin as usize]
        };
        Ok(self.alloc_in(span))
    }

    fn alloc_in(&mut self, span: u32) -> BlockRef {
        let meta = &mut self.metas[span as usize];
        let size = self.sizes[span as usize] as usize;
        let number = if meta.free_head == NO_BLOCK {
            meta.fresh += 1;
            meta.fresh - 1
        } else {
            let number = meta.free_head;
            let link = self.arena.bytes(Span(span), number as usize * size, 2);
            meta.free_head = u16::from_le_bytes([link[0], link[1]]);
            number
        };
        meta.live += 1;
        let class = &mut self.classes[meta.class as usize];
        class.live += 1;
        self.counters.live_blocks += 1;
        self.counters.live_bytes += size as u64;
        let bin = bin_of(meta.live, class);
        if bin != meta.bin {
            self.relist(span, bin);
        }
        BlockRef::new(span, number)
    }

    #[cold]
    fn add_span(&mut self, class: u8) -> Result<u32, OutOfMemory> {
        let Span(span) = self.arena.take()?;
        let len = self.metas.len().max(span as usize + 1);
        self.metas.resize(len, FOREIGN);
        self.sizes.resize(len, 0);
        self.metas[span as usize] = SpanMeta { class, ..FOREIGN };
        self.sizes[span as usize] = CLASS_BYTES[class as usize];
        self.classes[class as usize].spans += 1;
        self.counters.spans += 1;
        self.relist(span, 0);
        Ok(span)
    }

    /// Takes a block back.
    #[inline]
    pub fn free(&mut self, block: BlockRef) {
        let span = block.span();
        let size = self.sizes[span as usize] as usize;
        let meta = &mut self.metas[span as usize];
        debug_assert!(meta.live > 0 && block.number() < meta.fresh, "free of a block not in use");
        let len = if cfg!(debug_assertions) { size } else { 2 };
        let bytes = self.arena.bytes_mut(Span(span), block.number() as usize * size, len);
        if cfg!(debug_assertions) {
            bytes.fill(0xdb);
        }
        bytes[..2].copy_from_slice(&meta.free_head.to_le_bytes());
        meta.free_head = block.number();
        meta.live -= 1;
        let class = &mut self.classes[meta.class as usize];
        class.live -= 1;
        self.counters.live_blocks -= 1;
        self.counters.live_bytes -= size as u64;
        if meta.live == 0 {
            self.drop_span(span);
        } else {
            let bin = bin_of(meta.live, class);
            if meta.bin != bin && meta.bin != BIN_MARKED {
                self.relist(span, bin);
            }
        }
    }

    #[cold]
    fn drop_span(&mut self, span: u32) {
        if self.metas[span as usize].bin == BIN_MARKED {
            self.counters.spans_marked -= 1;
        } else {
            self.relist(span, BIN_FOREIGN);
            self.classes[self.metas[span as usize].class as usize].spans -= 1;
        }
        self.metas[span as usize] = FOREIGN;
        self.sizes[span as usize] = 0;
        self.counters.spans -= 1;
        self.arena.give_back(Span(span));
    }

    /// Puts a span into the list `bin`, out of the one it is in.
    fn relist(&mut self, span: u32, bin: u8) {
        let SpanMeta { next, prev, class, bin: old, .. } = self.metas[span as usize];
        let class = &mut self.classes[class as usize];
        if old < BINS {
            if prev == NONE {
                class.heads[old as usize] = next;
                if next == NONE {
                    class.occupied &= !(1 << old);
                }
            } else {
                self.metas[prev as usize].next = next;
            }
            if next != NONE {
                self.metas[next as usize].prev = prev;
            }
        }
        let mut head = NONE;
        if bin < BINS {
            head = std::mem::replace(&mut class.heads[bin as usize], span);
            class.occupied |= 1 << bin;
            if head != NONE {
                self.metas[head as usize].prev = span;
            }
        }
        let meta = &mut self.metas[span as usize];
        (meta.next, meta.prev, meta.bin) = (head, NONE, bin);
    }

    /// The bytes of a block, as long as its class.
    #[inline]
    pub fn block(&self, block: BlockRef) -> &[u8] {
        let size = self.block_bytes(block);
        self.arena.bytes(Span(block.span()), block.number() as usize * size, size)
    }

    /// The bytes of a block, to be written.
    #[inline]
    pub fn block_mut(&mut self, block: BlockRef) -> &mut [u8] {
        let size = self.block_bytes(block);
        self.arena.bytes_mut(Span(block.span()), block.number() as usize * size, size)
    }

    /// Class size of a block in bytes.
    #[inline]
    pub fn block_bytes(&self, block: BlockRef) -> usize {
        self.sizes[block.span() as usize] as usize
    }

    /// Copies the bytes `range` of a block to `at` of another.
    pub fn copy(&mut self, from: BlockRef, range: Range<usize>, to: BlockRef, at: usize) {
        let (from_bytes, to_bytes) = (self.block_bytes(from), self.block_bytes(to));
        assert!(range.end <= from_bytes && at + range.len() <= to_bytes, "copy leaves its block");
        let source = from.number() as usize * from_bytes + range.start;
        let target = to.number() as usize * to_bytes + at;
        self.arena.copy((Span(from.span()), source), (Span(to.span()), target), range.len());
    }

    /// Asks the processor to load the first cache line of a block.
    #[inline]
    pub fn prefetch(&self, block: BlockRef) {
        let size = self.block_bytes(block);
        self.arena.prefetch(Span(block.span()), block.number() as usize * size);
    }

    /// Bytes of spans that hold blocks beyond the live blocks themselves.
    pub fn waste_bytes(&self) -> u64 {
        self.counters.spans * SPAN_BYTES as u64 - self.counters.live_bytes
    }

    /// Marks up to `spans_max` spans whose blocks fit into the room of the fuller spans of their
    /// class. Returns how many it marked.
    pub fn mark_sparse(&mut self, spans_max: usize) -> usize {
        let mut marked = 0;
        for class in 0..CLASSES {
            while marked < spans_max {
                let Some(span) = self.sparsest(class) else { break };
                self.relist(span, BIN_MARKED);
                self.classes[class].spans -= 1;
                self.counters.spans_marked += 1;
                marked += 1;
            }
        }
        marked
    }

    /// The next span of a class worth emptying: its blocks, and those already marked, fit into the
    /// other spans, of which a sixteenth is left free so that it does not come back at once.
    fn sparsest(&self, class: usize) -> Option<u32> {
        let meta = &self.classes[class];
        let bin = meta.occupied.trailing_zeros();
        if bin >= 7 || meta.spans < 2 {
            return None;
        }
        let span = meta.heads[bin as usize];
        let room = u64::from(meta.spans - 1) * u64::from(meta.capacity);
        (meta.live + room / 16 <= room).then_some(span)
    }

    /// True when a block lies in a marked span.
    #[inline]
    pub fn is_marked(&self, block: BlockRef) -> bool {
        self.metas[block.span() as usize].bin == BIN_MARKED
    }

    /// Moves a block out of its marked span. The caller replaces its reference by the new one.
    ///
    /// # Errors
    /// No span is left; the block stays.
    pub fn move_out(&mut self, block: BlockRef) -> Result<BlockRef, OutOfMemory> {
        let size = self.block_bytes(block);
        let target = self.alloc(size)?;
        self.copy(block, 0..size, target, 0);
        self.free(block);
        Ok(target)
    }

    /// Makes what is still marked ordinary again.
    pub fn unmark_all(&mut self) {
        if self.counters.spans_marked == 0 {
            return;
        }
        for span in 0..self.metas.len() {
            let meta = self.metas[span];
            if meta.bin == BIN_MARKED {
                let class = &mut self.classes[meta.class as usize];
                class.spans += 1;
                let bin = bin_of(meta.live, class);
                self.relist(span as u32, bin);
            }
        }
        self.counters.spans_marked = 0;
    }

    /// Checks every count against every other.
    ///
    /// # Panics
    /// When they do not add up.
    pub fn validate(&self) {
        let mut seen = SlabCounters::default();
        for (span, meta) in self.metas.iter().enumerate().filter(|(_, m)| m.bin != BIN_FOREIGN) {
            let size = self.sizes[span] as usize;
            assert_eq!(size, CLASS_BYTES[meta.class as usize] as usize);
            let capacity = self.classes[meta.class as usize].capacity;
            let mut free = 0;
            let mut number = meta.free_head;
            while number != NO_BLOCK {
                free += 1;
                assert!(number < meta.fresh && free <= capacity, "free list of span {span}");
                let link = self.arena.bytes(Span(span as u32), number as usize * size, 2);
                number = u16::from_le_bytes([link[0], link[1]]);
            }
            assert_eq!(capacity, meta.live + free + (capacity - meta.fresh), "span {span}");
            assert!(meta.live > 0, "an empty span was kept");
            seen.live_blocks += u64::from(meta.live);
            seen.live_bytes += u64::from(meta.live) * size as u64;
            seen.spans += 1;
            seen.spans_marked += u64::from(meta.bin == BIN_MARKED);
        }
        assert_eq!(seen, self.counters);
        assert_eq!(self.classes.iter().map(|class| class.live).sum::<u64>(), seen.live_blocks);
        self.validate_lists();
        self.arena.validate();
    }

    fn validate_lists(&self) {
        for class in self.classes.iter() {
            let mut listed = 0;
            for bin in 0..BINS {
                let mut span = class.heads[bin as usize];
                assert_eq!(span != NONE, class.occupied & 1 << bin != 0);
                while span != NONE {
                    let meta = &self.metas[span as usize];
                    assert_eq!(meta.bin, bin_of(meta.live, class));
                    assert_eq!(meta.bin, bin);
                    listed += 1;
                    span = meta.next;
                }
            }
            assert!(listed <= class.spans);
        }
    }
}

/// The list for a span with so many live blocks.
#[inline]
fn bin_of(live: u16, class: &ClassMeta) -> u8 {
    if live == class.capacity {
        BIN_FULL
    } else {
        ((u32::from(live) * class.bin_factor) >> 16) as u8
    }
}

#[cfg(test)]
mod tests;
