//! Memory by use, read from counters.

/// Bytes of a partition by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Live slab blocks at class size: keys with their small values, and overflow of the index.
    pub blocks: usize,
    /// Buckets of the index and what names them, without the overflow blocks.
    pub index: usize,
    /// Expire index.
    pub expire: usize,
    /// Values and keys outside the slabs, at capacity.
    pub large: usize,
    /// Effects that nobody has drained yet.
    pub effects: usize,
    /// Large values that are being freed in steps; flushed keys still count under `blocks`.
    pub dying: usize,
    /// The sum of the above.
    pub used: usize,
    /// Bytes that the kernel may hold pages for: spans in use and kept warm, and all outside them.
    pub committed: usize,
}
