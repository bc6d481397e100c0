//! A key on its way through the engine: its bytes, their hash, and its hash slot.

pub use encodings::crc16::hash_slot;

/// Hash slots of a cluster.
pub const HASH_SLOTS: usize = encodings::crc16::HASH_SLOTS as usize;

/// A key that [`crate::Partition::key`] made; operations take it instead of bytes, so that the hash
/// is computed once for prefetch, lookup and insert.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The key.
    pub bytes: &'a [u8],
    /// Its keyed hash.
    pub hash: u64,
    /// Its hash slot where the partition keeps a table per hash slot, else 0.
    pub slot: u16,
}
