//! Strings: bytes, integers, bitmaps.

use crate::block::{Encoding, Form, ValueType, View, has_expire};
use crate::effect::Effect;
use crate::error::OpError;
use crate::key::Key;
use crate::partition::{Look, Partition};
use crate::slab::BlockRef;
use crate::store::{NewValue, fits_inline};
use crate::table::Entry;
use encodings::integer::{TEXT_LEN_MAX, format_i64, parse_i64, text_len};
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

impl Partition {
    /// The string at a key, `None` without the key. Counts as a read.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    #[inline]
    pub fn get(&mut self, db: usize, key: &Key<'_>) -> Result<Option<StringValue<'_>>, OpError> {
        let found = self.lookup_as(db, key, Look::Read, ValueType::String)?;
        Ok(found.map(|entry| self.heap.string_value(entry.block)))
    }

    /// As [`Partition::get`], but without a trace in statistics and access stamp.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn peek(&mut self, db: usize, key: &Key<'_>) -> Result<Option<StringValue<'_>>, OpError> {
        let found = self.lookup_as(db, key, Look::Silent, ValueType::String)?;
        Ok(found.map(|entry| self.heap.string_value(entry.block)))
    }

    /// As [`Partition::peek`], by a shared reference, so that several strings can be looked at
    /// together. A key that is due counts as missing and stays.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn view(&self, db: usize, key: &Key<'_>) -> Result<Option<StringValue<'_>>, OpError> {
        let found = self.find(db, key).filter(|entry| !self.is_due(self.heap.view(entry.block)));
        let found = self.only(found, ValueType::String)?;
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
            self.put(db, key, old, Form::string(Encoding::Raw), value, None)?;
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
        let old = self.lookup_as(db, key, Look::Write, ValueType::String)?;
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
        let old = self.lookup_as(db, key, Look::Write, ValueType::String)?;
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
        let old = self.lookup_as(db, key, Look::Write, ValueType::String)?;
        let Some(entry) = old else {
            if bytes.len() > len_max {
                return Err(OpError::TooLarge);
            }
            self.store(db, key, None, NewValue::parse(bytes), None)?;
            self.effects.report(&Effect::Append { db: db as u32, key: key.bytes, bytes });
            return Ok(bytes.len());
        };
        let len = self.heap.string_value(entry.block).len();
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
        let old = self.lookup_as(db, key, Look::Write, ValueType::String)?;
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
        let old = self.lookup_as(db, key, Look::Write, ValueType::String)?;
        let len = old.map_or(0, |old| self.heap.string_value(old.block).len());
        let block = self.reshape(db, key, old, len.max(min_len))?;
        let (answer, changed) = change(self.value_mut(block));
        let grown = old.is_none() || min_len > len;
        self.report_string_change(db, key, block, changed, grown);
        Ok(answer)
    }

    fn report_string_change(
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
    pub(crate) fn expire_of(&self, entry: Entry) -> Option<u64> {
        let block = self.heap.slabs.block(entry.block);
        if has_expire(block) { View::of(block).expire_at() } else { None }
    }
}

/// The word that OBJECT ENCODING answers for a string.
pub(crate) fn encoding_name(view: View<'_>) -> &'static str {
    /// Redis keeps strings up to this length together with their object header.
    const EMBSTR_MAX: usize = 44;
    match view.encoding() {
        Encoding::Int => "int",
        Encoding::Bytes if view.value().len() <= EMBSTR_MAX => "embstr",
        _ => "raw",
    }
}
