//! Putting values into blocks: in place where the block's class stays, else into another block, or
//! outside the slabs what does not fit one. Nothing here reports effects.

use crate::block::{Content, Encoding, Form, INLINE_KEY_MAX, IntBytes, KeyPart};
use crate::block::{bytes_for, has_expire, keeps_outside, overwrite_value, write};
use crate::error::{OpError, OutOfMemory, VALUE_LEN_MAX};
use crate::heap::{Outside, StringRef};
use crate::key::Key;
use crate::partition::Partition;
use crate::slab::{BLOCK_BYTES_MAX, BlockRef, block_bytes_for};
use crate::table::Entry;
use encodings::integer::{TEXT_LEN_MAX, parse_i64};
use smallvec::SmallVec;

/// A block with such a value leaves room for an expire time that may come.
const INLINE_BYTES_MAX: usize = BLOCK_BYTES_MAX - 16;

/// A value on its way into a block.
#[derive(Clone, Copy)]
pub(crate) enum NewValue<'a> {
    Int(i64),
    /// Bytes as they are.
    Bytes(&'a [u8]),
    /// A value that lies outside already.
    Large(u32),
}

impl<'a> NewValue<'a> {
    /// Bytes of a client: an integer where they are one.
    #[inline]
    pub(crate) fn parse(bytes: &'a [u8]) -> NewValue<'a> {
        if bytes.len() <= TEXT_LEN_MAX
            && let Some(value) = parse_i64(bytes)
        {
            return NewValue::Int(value);
        }
        NewValue::Bytes(bytes)
    }
}

impl Partition {
    /// Puts a value under a key, in place where the block's class stays. Does not report.
    #[inline]
    pub(crate) fn store(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        value: NewValue<'_>,
        expire_at: Option<u64>,
    ) -> Result<BlockRef, OpError> {
        let int;
        let index;
        let (encoding, bytes): (Encoding, &[u8]) = match value {
            NewValue::Int(value) => {
                int = IntBytes::new(value);
                (Encoding::Int, int.as_slice())
            }
            NewValue::Bytes(bytes) if fits_inline(key, bytes.len()) => (Encoding::Bytes, bytes),
            NewValue::Bytes(bytes) => {
                index = self.insert_large(bytes.len(), &[bytes])?.to_le_bytes();
                (Encoding::Large, &index)
            }
            NewValue::Large(large) => {
                index = large.to_le_bytes();
                (Encoding::Large, &index)
            }
        };
        let stored = self.put(db, key, old, Form::string(encoding), bytes, expire_at);
        if let (Err(_), NewValue::Bytes(_), Encoding::Large) = (&stored, value, encoding) {
            self.heap.larges.remove(u32::from_le_bytes(bytes.try_into().expect("an index")));
        }
        stored
    }

    /// Stores a string that was packed elsewhere; raw bytes stay bytes.
    pub(crate) fn store_string(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        form: Form,
        value: &[u8],
        expire_at: Option<u64>,
    ) -> Result<(), OpError> {
        if form.encoding == Encoding::Raw && fits_inline(key, value.len()) {
            return self.put(db, key, old, form, value, expire_at).map(drop);
        }
        let value = match form.encoding {
            Encoding::Raw => NewValue::Bytes(value),
            _ => NewValue::parse(value),
        };
        self.store(db, key, old, value, expire_at).map(drop)
    }

    /// Puts a value that fits its block under a key; frees what the value before it kept outside.
    #[inline]
    pub(crate) fn put(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        form: Form,
        value: &[u8],
        expire_at: Option<u64>,
    ) -> Result<BlockRef, OpError> {
        let Some(entry) = old else { return self.put_new(db, key, form, value, expire_at) };
        let block = self.heap.slabs.block_mut(entry.block);
        let untimed = expire_at.is_none() && !has_expire(block);
        if untimed && !keeps_outside(block) && overwrite_value(block, form, value) {
            return Ok(entry.block);
        }
        self.put_over(db, key, entry, form, value, expire_at)
    }

    /// [`Partition::put`] where more than the value changes.
    fn put_over(
        &mut self,
        db: usize,
        key: &Key<'_>,
        entry: Entry,
        form: Form,
        value: &[u8],
        expire_at: Option<u64>,
    ) -> Result<BlockRef, OpError> {
        let view = self.heap.view(entry.block);
        let (stamp, old_expire) = (view.stamp(), view.expire_at());
        let old_outside = Outside::of(view);
        let old_members = self.heap.members_time(entry.block);
        let key_part = match view.key() {
            KeyPart::Inline(_) => KeyPart::Inline(key.bytes),
            KeyPart::Outside { index, hash } => KeyPart::Outside { index, hash },
        };
        let content = Content { form, stamp, expire_at, key: key_part, value };
        let len = bytes_for(key_part, expire_at, value.len());
        let block = if block_bytes_for(len) == self.heap.slabs.block_bytes(entry.block) {
            write(self.heap.slabs.block_mut(entry.block), &content);
            entry.block
        } else {
            let block = self.alloc(len)?;
            write(self.heap.slabs.block_mut(block), &content);
            self.replace_block(db, key, entry, block);
            block
        };
        self.heap.free_outside(old_outside);
        self.retime(db, key, old_expire, expire_at);
        self.retime_members(db, key, old_members, None);
        Ok(block)
    }

    /// Makes a key's entry name another block and frees the old one, but nothing outside of it.
    pub(crate) fn replace_block(&mut self, db: usize, key: &Key<'_>, old: Entry, new: BlockRef) {
        let table = self.databases[db].tables.get_mut(key.slot);
        table.replace(&mut self.heap.slabs, old, new);
        self.heap.slabs.free(old.block);
    }

    fn put_new(
        &mut self,
        db: usize,
        key: &Key<'_>,
        form: Form,
        value: &[u8],
        expire_at: Option<u64>,
    ) -> Result<BlockRef, OpError> {
        let key_part = self.key_part(key)?;
        let stamp = self.access.fresh();
        let content = Content { form, stamp, expire_at, key: key_part, value };
        let len = bytes_for(key_part, expire_at, value.len());
        let placed = self.alloc(len).and_then(|block| {
            write(self.heap.slabs.block_mut(block), &content);
            self.link(db, key, block).inspect_err(|_| self.heap.slabs.free(block))?;
            Ok(block)
        });
        match placed {
            Ok(block) => {
                self.retime(db, key, None, expire_at);
                Ok(block)
            }
            Err(error) => {
                self.drop_key_part(key_part);
                Err(error.into())
            }
        }
    }

    /// The key as a new block holds it; a long one is stored outside.
    pub(crate) fn key_part<'k>(&mut self, key: &Key<'k>) -> Result<KeyPart<'k>, OutOfMemory> {
        if key.bytes.len() <= INLINE_KEY_MAX {
            return Ok(KeyPart::Inline(key.bytes));
        }
        let index = self.insert_large(key.bytes.len(), &[key.bytes])?;
        Ok(KeyPart::Outside { index, hash: key.hash })
    }

    /// Undoes [`Partition::key_part`].
    pub(crate) fn drop_key_part(&mut self, key: KeyPart<'_>) {
        if let KeyPart::Outside { index, .. } = key {
            self.heap.larges.remove(index);
        }
    }

    pub(crate) fn insert_large(&mut self, len: usize, parts: &[&[u8]]) -> Result<u32, OutOfMemory> {
        if len > VALUE_LEN_MAX {
            return Err(OutOfMemory);
        }
        self.heap.larges.insert(len, parts)
    }

    /// The bytes of a string that [`Partition::reshape`] made writable.
    pub(crate) fn value_mut(&mut self, block: BlockRef) -> &mut [u8] {
        let view = self.heap.view(block);
        if let StringRef::Large(index) = self.heap.string(view) {
            return self.heap.larges.bytes_mut(index);
        }
        let range = view.value_at..view.value_at + view.value().len();
        &mut self.heap.slabs.block_mut(block)[range]
    }

    /// Makes a string raw bytes of this length, new ones zero, creating the key.
    pub(crate) fn reshape(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        len: usize,
    ) -> Result<BlockRef, OpError> {
        if len > VALUE_LEN_MAX {
            return Err(OpError::TooLarge);
        }
        let Some(entry) = old else { return self.create_zeros(db, key, len) };
        let view = self.heap.view(entry.block);
        let large = match self.heap.string(view) {
            StringRef::Large(index) => Some(index),
            _ => None,
        };
        if let Some(index) = large {
            self.heap.larges.resize(index, len)?;
            return Ok(entry.block);
        }
        if fits_inline(key, len) {
            return self.reshape_inline(db, key, entry, len);
        }
        let (expire_at, text) = (view.expire_at(), self.inline_text(entry.block));
        let index = self.insert_large(len, &[&text])?;
        let stored = self.store(db, key, old, NewValue::Large(index), expire_at);
        stored.inspect_err(|_| self.heap.larges.remove(index))
    }

    fn create_zeros(&mut self, db: usize, key: &Key<'_>, len: usize) -> Result<BlockRef, OpError> {
        if fits_inline(key, len) {
            return self.put_new(
                db,
                key,
                Form::string(Encoding::Raw),
                &[0; INLINE_BYTES_MAX][..len],
                None,
            );
        }
        let index = self.insert_large(len, &[])?;
        let stored = self.store(db, key, None, NewValue::Large(index), None);
        stored.inspect_err(|_| self.heap.larges.remove(index))
    }

    fn reshape_inline(
        &mut self,
        db: usize,
        key: &Key<'_>,
        entry: Entry,
        len: usize,
    ) -> Result<BlockRef, OpError> {
        let view = self.heap.view(entry.block);
        if view.encoding() == Encoding::Raw && view.value().len() == len {
            return Ok(entry.block);
        }
        let expire_at = view.expire_at();
        let mut value = self.inline_text(entry.block);
        value.resize(len, 0);
        self.put(db, key, Some(entry), Form::string(Encoding::Raw), &value, expire_at)
    }

    /// The text of a string that lies in its block, to be read while blocks change.
    pub(crate) fn inline_text(&self, block: BlockRef) -> SmallVec<[u8; INLINE_BYTES_MAX]> {
        self.heap.string_value(block).with_text(SmallVec::from_slice)
    }
}

/// True when a value of so many bytes lies in the block of its key.
#[inline]
pub(crate) fn fits_inline(key: &Key<'_>, len: usize) -> bool {
    // Beyond this length the sum need not be looked at, nor can it overflow.
    len <= INLINE_BYTES_MAX && {
        let key = if key.bytes.len() <= INLINE_KEY_MAX {
            KeyPart::Inline(key.bytes)
        } else {
            KeyPart::Outside { index: 0, hash: 0 }
        };
        bytes_for(key, None, len) <= INLINE_BYTES_MAX
    }
}
