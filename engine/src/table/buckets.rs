//! Where the buckets lie: memory that grows without copying or doubling.
//!
//! The first 8 buckets grow as one small piece (a table of a hash slot often has one bucket), up to
//! 1,024 they come in chunks of 512 bytes, above that in spans of the arena, 1,024 buckets each.

use super::bucket::{BUCKET_BYTES, Bucket};
use crate::arena::{SPAN_BYTES, Span};
use crate::error::OutOfMemory;
use crate::slab::Slabs;

const CHUNK: usize = 8;
const PER_SPAN: usize = SPAN_BYTES / BUCKET_BYTES;
/// Buckets that live in chunks, as many as in a span.
const CHUNKED: usize = PER_SPAN;
const PAGE_BUCKETS: usize = 4096 / BUCKET_BYTES;

/// See the top of the file.
#[derive(Default)]
pub(crate) struct Buckets {
    len: u32,
    /// One less than the power of two at or above `len`; kept since each lookup wants it.
    mask: u32,
    first: Vec<Bucket>,
    #[allow(clippy::vec_box, reason = "a chunk must not move when the vector grows")]
    chunks: Vec<Box<[Bucket; CHUNK]>>,
    spans: Vec<Span>,
}

impl Buckets {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// One less than the power of two at or above the number of buckets.
    #[inline]
    pub(crate) fn mask(&self) -> usize {
        self.mask as usize
    }

    fn set_len(&mut self, len: usize) {
        self.len = len as u32;
        self.mask = (len.next_power_of_two() - 1) as u32;
    }

    #[inline(always)]
    pub(crate) fn at<'a>(&'a self, slabs: &'a Slabs, index: usize) -> &'a Bucket {
        if index >= CHUNKED {
            let span = self.spans[index / PER_SPAN - 1];
            let offset = index % PER_SPAN * BUCKET_BYTES;
            bytemuck::from_bytes(slabs.arena.bytes(span, offset, BUCKET_BYTES))
        } else if index >= CHUNK {
            &self.chunks[index / CHUNK - 1][index % CHUNK]
        } else {
            &self.first[index]
        }
    }

    #[inline]
    pub(crate) fn at_mut<'a>(&'a mut self, slabs: &'a mut Slabs, index: usize) -> &'a mut Bucket {
        if index >= CHUNKED {
            let span = self.spans[index / PER_SPAN - 1];
            let offset = index % PER_SPAN * BUCKET_BYTES;
            bytemuck::from_bytes_mut(slabs.arena.bytes_mut(span, offset, BUCKET_BYTES))
        } else if index >= CHUNK {
            &mut self.chunks[index / CHUNK - 1][index % CHUNK]
        } else {
            &mut self.first[index]
        }
    }

    #[inline]
    pub(crate) fn prefetch(&self, slabs: &Slabs, index: usize) {
        if index >= CHUNKED {
            let span = self.spans[index / PER_SPAN - 1];
            slabs.arena.prefetch(span, index % PER_SPAN * BUCKET_BYTES);
        }
    }

    /// Appends an empty bucket.
    pub(crate) fn push(&mut self, slabs: &mut Slabs) -> Result<(), OutOfMemory> {
        let index = self.len();
        if index < CHUNK {
            if index == self.first.capacity() {
                // 1, 2, 4, 6 and so on: no class of the allocator is left half empty.
                self.first.reserve_exact(if index < 2 { 1 } else { 2 });
            }
            self.first.push(Bucket::EMPTY);
        } else if index < CHUNKED {
            if index.is_multiple_of(CHUNK) {
                if self.chunks.len() == self.chunks.capacity() {
                    self.chunks.reserve_exact(4);
                }
                self.chunks.push(Box::new([Bucket::EMPTY; CHUNK]));
            }
        } else if index.is_multiple_of(PER_SPAN) {
            self.spans.push(slabs.arena.take()?);
        }
        self.set_len(index + 1);
        if index >= CHUNKED {
            // Bytes of a span are what its last user left.
            *self.at_mut(slabs, index) = Bucket::EMPTY;
        }
        Ok(())
    }

    /// Drops the last bucket, whatever it holds.
    pub(crate) fn pop(&mut self, slabs: &mut Slabs) {
        let index = self.len() - 1;
        self.set_len(index);
        if index < CHUNK {
            self.first.pop();
            if self.first.capacity() > self.first.len() + 2 {
                self.first.shrink_to(self.first.len());
            }
        } else if index < CHUNKED {
            if index.is_multiple_of(CHUNK) {
                self.chunks.pop();
                if self.chunks.capacity() > self.chunks.len() + 8 {
                    self.chunks.shrink_to(self.chunks.len() + 4);
                }
            }
        } else if index.is_multiple_of(PER_SPAN) {
            let span = self.spans.pop().expect("a span for each 1,024 buckets");
            slabs.arena.give_back(span);
        }
    }

    /// Bytes of the buckets, in whole pages where they lie in spans, and of what names them.
    pub(crate) fn bytes(&self) -> usize {
        let in_spans = self.len().saturating_sub(CHUNKED).next_multiple_of(PAGE_BUCKETS);
        let buckets = self.first.capacity() + self.chunks.len() * CHUNK + in_spans;
        buckets * BUCKET_BYTES
            + self.chunks.capacity() * size_of::<usize>()
            + self.spans.capacity() * size_of::<Span>()
    }

    /// Spans taken from the arena.
    pub(crate) fn spans(&self) -> usize {
        self.spans.len()
    }
}
