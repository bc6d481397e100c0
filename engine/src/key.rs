//! A key on its way through the engine: its bytes, their hash, and its hash slot.

use xxhash_rust::xxh3::xxh3_64_with_seed;

pub use encodings::crc16::hash_slot;

/// Hash slots of a cluster.
pub const HASH_SLOTS: usize = encodings::crc16::HASH_SLOTS as usize;

/// Makes keys of bytes, for all partitions that were set up with one seed.
#[derive(Clone, Copy, Debug)]
pub struct KeyHasher {
    pub(crate) seed: u64,
    /// Hash slots are told apart.
    pub(crate) route: bool,
}

impl KeyHasher {
    /// Names a key: its keyed hash and, where slots are told apart, its slot.
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        let slot = if self.route { hash_slot(bytes) } else { 0 };
        Key { bytes, hash: xxh3_64_with_seed(bytes, self.seed), slot }
    }
}

/// A key that [`crate::Partition::key`] or a [`KeyHasher`] made; operations take it instead of bytes, so that the hash
/// is computed once for prefetch, lookup and insert.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The key.
    pub bytes: &'a [u8],
    /// Its keyed hash.
    pub hash: u64,
    /// Its hash slot where the partition tells slots apart ([`crate::Options`]), else 0.
    pub slot: u16,
}
