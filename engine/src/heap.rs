//! Where keys and values live: slab blocks and, for what does not fit one, large values.

use crate::block::{Encoding, KeyPart, View, holds_key};
use crate::large::Larges;
use crate::slab::{BlockRef, Slabs};
use crate::string::StringValue;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Blocks and large values of a partition.
pub(crate) struct Heap {
    pub(crate) slabs: Slabs,
    pub(crate) larges: Larges,
    /// Seed of the key hash.
    pub(crate) seed: u64,
}

impl Heap {
    /// The block of a key, taken apart.
    #[inline]
    pub(crate) fn view(&self, block: BlockRef) -> View<'_> {
        View::of(self.slabs.block(block))
    }

    /// The bytes of a key that was found in a block.
    pub(crate) fn key_bytes<'a>(&'a self, key: KeyPart<'a>) -> &'a [u8] {
        match key {
            KeyPart::Inline(key) => key,
            KeyPart::Outside { index, .. } => self.larges.bytes(index),
        }
    }

    /// True when the block holds this key.
    #[inline]
    pub(crate) fn holds(&self, block: &[u8], key: &[u8]) -> bool {
        holds_key(block, key).unwrap_or_else(|| self.key_bytes(View::of(block).key()) == key)
    }

    /// The value of a string's block.
    #[inline]
    pub(crate) fn string(&self, view: View<'_>) -> StringRef {
        match view.encoding() {
            Encoding::Int => StringRef::Int(view.int()),
            Encoding::Large => StringRef::Large(view.large_index()),
            Encoding::Bytes | Encoding::Raw => StringRef::Inline,
        }
    }

    /// The string in a block.
    #[inline]
    pub(crate) fn string_value(&self, block: BlockRef) -> StringValue<'_> {
        let view = self.view(block);
        match self.string(view) {
            StringRef::Int(value) => StringValue::Int(value),
            StringRef::Large(index) => StringValue::Bytes(self.larges.bytes(index)),
            StringRef::Inline => StringValue::Bytes(view.value()),
        }
    }

    /// Frees a block and what it keeps outside.
    pub(crate) fn free(&mut self, block: BlockRef) {
        let view = self.view(block);
        let value = (view.encoding() == Encoding::Large).then(|| view.large_index());
        let key = match view.key() {
            KeyPart::Inline(_) => None,
            KeyPart::Outside { index, .. } => Some(index),
        };
        for index in value.into_iter().chain(key) {
            self.larges.remove(index);
        }
        self.slabs.free(block);
    }
}

/// Where a string's bytes are.
#[derive(Clone, Copy)]
pub(crate) enum StringRef {
    Inline,
    Int(i64),
    Large(u32),
}

/// Reads the hash of a block's key; what tables take as `hash_of`.
#[inline]
pub(crate) fn hash_of(block: &[u8], seed: u64) -> u64 {
    match View::of(block).key() {
        KeyPart::Inline(key) => xxh3_64_with_seed(key, seed),
        KeyPart::Outside { hash, .. } => hash,
    }
}

/// Calls `f` with the index of everything that a block keeps outside.
pub(crate) fn outside_of(block: &[u8], mut f: impl FnMut(u32)) {
    let view = View::of(block);
    if view.encoding() == Encoding::Large {
        f(view.large_index());
    }
    if let KeyPart::Outside { index, .. } = view.key() {
        f(index);
    }
}
