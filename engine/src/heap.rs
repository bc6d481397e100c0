//! Where keys and values live: slab blocks and, for what does not fit one, large values and big
//! collections.

use crate::big::{Big, Bigs};
use crate::block::{Encoding, KeyPart, View, holds_key};
use crate::large::Larges;
use crate::packed;
use crate::slab::{BlockRef, Slabs};
use crate::string::StringValue;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Blocks and large values of a partition.
pub(crate) struct Heap {
    pub(crate) slabs: Slabs,
    pub(crate) larges: Larges,
    pub(crate) bigs: Bigs,
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
            Encoding::Large => StringRef::Large(view.outside_index()),
            _ => StringRef::Inline,
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

    /// The bytes of a value that is not big: those in the block, or those outside.
    #[inline]
    pub(crate) fn packed_bytes(&self, block: BlockRef) -> &[u8] {
        let view = self.view(block);
        if view.encoding().is_large() {
            return self.larges.bytes(view.outside_index());
        }
        view.value()
    }

    /// Takes the collection at an index out, lets `f` change it, and puts it back.
    pub(crate) fn with_big<R>(
        &mut self,
        index: u32,
        f: impl FnOnce(&mut Big, &mut Heap) -> R,
    ) -> R {
        let mut big = self.bigs.take(index);
        let answer = f(&mut big, self);
        self.bigs.give(index, big);
        answer
    }

    /// Where a key stands in its database's expire index because of its members' times.
    #[inline]
    pub(crate) fn members_time(&self, block: BlockRef) -> Option<u64> {
        let view = self.view(block);
        match view.encoding() {
            Encoding::Timed | Encoding::LargeTimed => packed::earliest(self.packed_bytes(block)),
            Encoding::Big => self.bigs.at(view.outside_index()).recorded(),
            _ => None,
        }
    }

    /// Frees what a block keeps outside.
    pub(crate) fn free_outside(&mut self, outside: Outside) {
        match outside {
            Outside::Nothing => {}
            Outside::Large(index) => self.larges.remove(index),
            Outside::Big(index) => self.bigs.remove(index),
        }
    }

    /// Frees a block and what it keeps outside.
    pub(crate) fn free(&mut self, block: BlockRef) {
        let view = self.view(block);
        let value = Outside::of(view);
        if let KeyPart::Outside { index, .. } = view.key() {
            self.larges.remove(index);
        }
        self.free_outside(value);
        self.slabs.free(block);
    }
}

/// What lies outside of a block because of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outside {
    Nothing,
    Large(u32),
    Big(u32),
}

impl Outside {
    #[inline]
    pub(crate) fn of(view: View<'_>) -> Outside {
        match view.encoding() {
            Encoding::Big => Outside::Big(view.outside_index()),
            encoding if encoding.is_large() => Outside::Large(view.outside_index()),
            _ => Outside::Nothing,
        }
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
