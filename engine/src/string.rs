//! Strings: bytes, integers, bitmaps.

use crate::block::{Content, Encoding, INLINE_KEY_MAX, IntBytes, KeyPart, View};
use crate::block::{bytes_for, has_expire, is_large, overwrite_value, write};
use crate::effect::Effect;
use crate::error::{OpError, OutOfMemory, VALUE_LEN_MAX};
use crate::heap::StringRef;
use crate::key::Key;
use crate::partition::{Look, Partition};
use crate::slab::{BLOCK_BYTES_MAX, BlockRef, block_bytes_for};
use crate::table::Entry;
use encodings::integer::{TEXT_LEN_MAX, format_i64, parse_i64, text_len};
use smallvec::SmallVec;
use std::ops::Range;

/// A string as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringValue<'a> {
    /// Bytes.
    Bytes(&'a [u8]),
    /// An integer; a client sees its decimal text.
    Int(i64),
}

impl StringValue<'_> {
    /// Length of the text in bytes.
    pub fn len(&self) -> usize {
        match self {
            StringValue::Bytes(bytes) => bytes.len(),
            StringValue::Int(value) => text_len(*value),
        }
    }

    /// True for the empty string.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `f` with the text.
    pub fn with_text<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            StringValue::Bytes(bytes) => f(bytes),
            StringValue::Int(value) => f(format_i64(*value, &mut [0; TEXT_LEN_MAX])),
        }
    }
}

/// What SET does with the key's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetExpire {
    /// The key has no time afterwards.
    #[default]
    Clear,
    /// The key keeps its time.
    Keep,
    /// The key is due at this time in milliseconds since 1970. A time already over is stored too; the
    /// key then goes at the next look, as in Redis.
    At(u64),
}

/// When SET sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetCondition {
    /// Always.
    #[default]
    Always,
    /// Only a key that does not exist (NX).
    IfMissing,
    /// Only a key that exists (XX).
    IfExists,
}

/// Options of [`Partition::set`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetOptions {
    /// The time.
    pub expire: SetExpire,
    /// The condition.
    pub condition: SetCondition,
}

/// What a change through [`Partition::string_mut`] wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Nothing.
    Nothing,
    /// One bit, at an offset in bits.
    Bit {
        /// Bits from the start, high bit of a byte first.
        offset: u64,
        /// Its new value.
        on: bool,
    },
    /// Bytes in this range.
    Range(Range<usize>),
}

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
    fn parse(bytes: &'a [u8]) -> NewValue<'a> {
        if bytes.len() <= TEXT_LEN_MAX
            && let Some(value) = parse_i64(bytes)
        {
            return NewValue::Int(value);
        }
        NewValue::Bytes(bytes)
    }
}

impl Partition {
    /// The string at a key, `None` without the key. Counts as a read.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    #[inline]
    pub fn get(&mut self, db: usize, key: &Key<'_>) -> Result<Option<StringValue<'_>>, OpError> {
        let found = self.lookup(db, key, Look::Read);
        Ok(found.map(|entry| self.heap.string_value(entry.block)))
    }

    /// As [`Partition::get`], but without a trace in statistics and access stamp.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn peek(&mut self, db: usize, key: &Key<'_>) -> Result<Option<StringValue<'_>>, OpError> {
        let found = self.lookup(db, key, Look::Silent);
        Ok(found.map(|entry| self.heap.string_value(entry.block)))
    }

    /// As [`Partition::peek`], by a shared reference, so that several strings can be looked at
    /// together. A key that is due counts as missing and stays.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn view(&self, db: usize, key: &Key<'_>) -> Result<Option<StringValue<'_>>, OpError> {
        let found = self.find(db, key).filter(|entry| !self.is_due(self.heap.view(entry.block)));
        Ok(found.map(|entry| self.heap.string_value(entry.block)))
    }

    /// Stores bytes that were computed, over whatever the key holds, without a time. They stay
    /// bytes, even where they spell an integer.
    ///
    /// # Errors
    /// [`OpError::OutOfMemory`], [`OpError::TooLarge`]; nothing changed.
    pub fn set_raw(&mut self, db: usize, key: &Key<'_>, value: &[u8]) -> Result<(), OpError> {
        let old = self.lookup(db, key, Look::Write);
        if fits_inline(key, value.len()) {
            self.put(db, key, old, Encoding::Raw, value, None)?;
        } else {
            self.store(db, key, old, NewValue::Bytes(value), None)?;
        }
        self.effects.report(&Effect::Set {
            db: db as u32,
            key: key.bytes,
            value,
            expire_at: None,
            existed: old.is_some(),
            keeps_expire: false,
        });
        Ok(())
    }

    /// Stores a string over whatever the key holds; false when the condition does not hold.
    ///
    /// # Errors
    /// [`OpError::OutOfMemory`], [`OpError::TooLarge`]; nothing changed.
    #[inline]
    pub fn set(
        &mut self,
        db: usize,
        key: &Key<'_>,
        value: &[u8],
        options: SetOptions,
    ) -> Result<bool, OpError> {
        let old = self.lookup(db, key, Look::Write);
        let refused = match options.condition {
            SetCondition::Always => false,
            SetCondition::IfMissing => old.is_some(),
            SetCondition::IfExists => old.is_none(),
        };
        if refused {
            return Ok(false);
        }
        let expire_at = match options.expire {
            SetExpire::Clear => None,
            SetExpire::At(at_ms) => Some(at_ms),
            SetExpire::Keep => old.and_then(|old| self.expire_of(old)),
        };
        self.store(db, key, old, NewValue::parse(value), expire_at)?;
        self.effects.report(&Effect::Set {
            db: db as u32,
            key: key.bytes,
            value,
            expire_at,
            existed: old.is_some(),
            keeps_expire: options.expire == SetExpire::Keep,
        });
        Ok(true)
    }

    /// Stores an integer, as [`Partition::set`] stores its text.
    ///
    /// # Errors
    /// [`OpError::OutOfMemory`]; nothing changed.
    pub fn set_int(
        &mut self,
        db: usize,
        key: &Key<'_>,
        value: i64,
        options: SetOptions,
    ) -> Result<bool, OpError> {
        self.set(db, key, format_i64(value, &mut [0; TEXT_LEN_MAX]), options)
    }

    /// Adds to an integer, which is 0 without the key, and answers the sum. The time stays.
    ///
    /// # Errors
    /// [`OpError::NotInteger`], [`OpError::Overflow`], [`OpError::WrongType`],
    /// [`OpError::OutOfMemory`]; nothing changed.
    pub fn incr_by(&mut self, db: usize, key: &Key<'_>, delta: i64) -> Result<i64, OpError> {
        let old = self.lookup(db, key, Look::Write);
        let value = match old.map(|old| self.heap.string_value(old.block)) {
            None => 0,
            Some(StringValue::Int(value)) => value,
            Some(StringValue::Bytes(bytes)) => parse_i64(bytes).ok_or(OpError::NotInteger)?,
        };
        let sum = value.checked_add(delta).ok_or(OpError::Overflow)?;
        let expire_at = old.and_then(|old| self.expire_of(old));
        self.store(db, key, old, NewValue::Int(sum), expire_at)?;
        self.effects.report(&Effect::IncrBy { db: db as u32, key: key.bytes, delta });
        Ok(sum)
    }

    /// Stores the text of a float that was added to; the time stays.
    ///
    /// # Errors
    /// [`OpError::OutOfMemory`]; nothing changed.
    pub fn set_float_text(&mut self, db: usize, key: &Key<'_>, text: &[u8]) -> Result<(), OpError> {
        let old = self.lookup(db, key, Look::Write);
        let expire_at = old.and_then(|old| self.expire_of(old));
        self.store(db, key, old, NewValue::Bytes(text), expire_at)?;
        self.effects.report(&Effect::IncrByFloat { db: db as u32, key: key.bytes, text });
        Ok(())
    }

    /// Appends bytes, creating the key, and answers the new length.
    ///
    /// # Errors
    /// [`OpError::TooLarge`] when the string would be longer than `len_max`,
    /// [`OpError::WrongType`], [`OpError::OutOfMemory`]; nothing changed.
    pub fn append(
        &mut self,
        db: usize,
        key: &Key<'_>,
        bytes: &[u8],
        len_max: usize,
    ) -> Result<usize, OpError> {
        let old = self.lookup(db, key, Look::Write);
        let Some(entry) = old else {
            if bytes.len() > len_max {
                return Err(OpError::TooLarge);
            }
            self.store(db, key, None, NewValue::parse(bytes), None)?;
            self.effects.report(&Effect::Append { db: db as u32, key: key.bytes, bytes });
            return Ok(bytes.len());
        };
        let len = self.heap.string_value(entry.block).len();
        if bytes.is_empty() {
            return Ok(len);
        }
        let total = len.checked_add(bytes.len()).filter(|&total| total <= len_max);
        let total = total.ok_or(OpError::TooLarge)?;
        let block = self.reshape(db, key, old, total)?;
        self.value_mut(block)[len..].copy_from_slice(bytes);
        self.effects.report(&Effect::Append { db: db as u32, key: key.bytes, bytes });
        Ok(total)
    }

    /// Overwrites bytes from `offset` on, zeros before them where the string is shorter, creating
    /// the key, and answers the new length. Without bytes nothing changes.
    ///
    /// # Errors
    /// [`OpError::TooLarge`], [`OpError::WrongType`], [`OpError::OutOfMemory`]; nothing changed.
    pub fn set_range(
        &mut self,
        db: usize,
        key: &Key<'_>,
        offset: usize,
        bytes: &[u8],
    ) -> Result<usize, OpError> {
        let old = self.lookup(db, key, Look::Write);
        let len = old.map_or(0, |old| self.heap.string_value(old.block).len());
        if bytes.is_empty() {
            return Ok(len);
        }
        let end = offset.checked_add(bytes.len()).ok_or(OpError::TooLarge)?;
        let block = self.reshape(db, key, old, len.max(end))?;
        self.value_mut(block)[offset..end].copy_from_slice(bytes);
        let (db, key, offset) = (db as u32, key.bytes, offset as u64);
        self.effects.report(&Effect::SetRange { db, key, offset, bytes });
        Ok(len.max(end))
    }

    /// Lets `change` write to the string in place, which is first grown with zeros to `min_len`
    /// bytes, or created. `change` says what it wrote.
    ///
    /// # Errors
    /// [`OpError::TooLarge`], [`OpError::WrongType`], [`OpError::OutOfMemory`]; nothing changed and
    /// `change` did not run.
    pub fn string_mut<R>(
        &mut self,
        db: usize,
        key: &Key<'_>,
        min_len: usize,
        change: impl FnOnce(&mut [u8]) -> (R, Changed),
    ) -> Result<R, OpError> {
        let old = self.lookup(db, key, Look::Write);
        let len = old.map_or(0, |old| self.heap.string_value(old.block).len());
        let block = self.reshape(db, key, old, len.max(min_len))?;
        let (answer, changed) = change(self.value_mut(block));
        let grown = old.is_none() || min_len > len;
        self.report_change(db, key, block, changed, grown);
        Ok(answer)
    }

    fn report_change(
        &mut self,
        db: usize,
        key: &Key<'_>,
        block: BlockRef,
        changed: Changed,
        grown: bool,
    ) {
        let StringValue::Bytes(bytes) = self.heap.string_value(block) else {
            unreachable!("reshape leaves bytes")
        };
        let (db, key) = (db as u32, key.bytes);
        let range = match changed {
            Changed::Bit { offset, on } => {
                self.effects.report(&Effect::SetBit { db, key, offset, on });
                return;
            }
            Changed::Nothing if !grown => return,
            // The last byte carries the growth.
            Changed::Nothing => bytes.len().saturating_sub(1)..bytes.len(),
            Changed::Range(range) if grown => range.start..bytes.len(),
            Changed::Range(range) => range,
        };
        let (offset, bytes) = (range.start as u64, &bytes[range]);
        self.effects.report(&Effect::BitField { db, key, offset, bytes });
    }

    #[inline]
    fn expire_of(&self, entry: Entry) -> Option<u64> {
        let block = self.heap.slabs.block(entry.block);
        if has_expire(block) { View::of(block).expire_at() } else { None }
    }

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
        let stored = self.put(db, key, old, encoding, bytes, expire_at);
        if let (Err(_), NewValue::Bytes(_), Encoding::Large) = (&stored, value, encoding) {
            self.heap.larges.remove(u32::from_le_bytes(bytes.try_into().expect("an index")));
        }
        stored
    }

    /// Puts a value that fits its block under a key; drops the large value that was there before.
    #[inline]
    fn put(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        encoding: Encoding,
        value: &[u8],
        expire_at: Option<u64>,
    ) -> Result<BlockRef, OpError> {
        let Some(entry) = old else { return self.put_new(db, key, encoding, value, expire_at) };
        let block = self.heap.slabs.block_mut(entry.block);
        let untimed = expire_at.is_none() && !has_expire(block);
        if untimed && !is_large(block) && overwrite_value(block, encoding, value) {
            return Ok(entry.block);
        }
        self.put_over(db, key, entry, encoding, value, expire_at)
    }

    /// [`Partition::put`] where more than the value changes.
    fn put_over(
        &mut self,
        db: usize,
        key: &Key<'_>,
        entry: Entry,
        encoding: Encoding,
        value: &[u8],
        expire_at: Option<u64>,
    ) -> Result<BlockRef, OpError> {
        let view = self.heap.view(entry.block);
        let (stamp, old_expire) = (view.stamp(), view.expire_at());
        let old_large = match self.heap.string(view) {
            StringRef::Large(index) => Some(index),
            _ => None,
        };
        let key_part = match view.key() {
            KeyPart::Inline(_) => KeyPart::Inline(key.bytes),
            KeyPart::Outside { index, hash } => KeyPart::Outside { index, hash },
        };
        let content = Content { encoding, stamp, expire_at, key: key_part, value };
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
        if let Some(index) = old_large {
            self.heap.larges.remove(index);
        }
        self.retime(db, key, old_expire, expire_at);
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
        encoding: Encoding,
        value: &[u8],
        expire_at: Option<u64>,
    ) -> Result<BlockRef, OpError> {
        let key_part = self.key_part(key)?;
        let stamp = self.access.fresh();
        let content = Content { encoding, stamp, expire_at, key: key_part, value };
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
    fn value_mut(&mut self, block: BlockRef) -> &mut [u8] {
        let view = self.heap.view(block);
        if let StringRef::Large(index) = self.heap.string(view) {
            return self.heap.larges.bytes_mut(index);
        }
        let range = view.value_at..view.value_at + view.value().len();
        &mut self.heap.slabs.block_mut(block)[range]
    }

    /// Makes a string raw bytes of a length not below its own, new ones zero, creating the key.
    fn reshape(
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
            return self.put_new(db, key, Encoding::Raw, &[0; INLINE_BYTES_MAX][..len], None);
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
        self.put(db, key, Some(entry), Encoding::Raw, &value, expire_at)
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

/// The word that OBJECT ENCODING answers for a string.
pub(crate) fn encoding_name(view: View<'_>) -> &'static str {
    /// Redis keeps strings up to this length together with their object header.
    const EMBSTR_MAX: usize = 44;
    match view.encoding() {
        Encoding::Int => "int",
        Encoding::Bytes if view.value().len() <= EMBSTR_MAX => "embstr",
        Encoding::Bytes | Encoding::Raw | Encoding::Large => "raw",
    }
}
