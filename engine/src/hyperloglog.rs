//! HyperLogLogs: strings of a form of their own.

use crate::block::{Encoding as Packing, Form, ValueType};
use crate::effect::Effect;
use crate::error::OpError;
use crate::key::Key;
use crate::partition::{Look, Partition};
use crate::slab::BlockRef;
use crate::store::{NewValue, fits_inline};
use crate::string::StringValue;
use crate::table::Entry;
use encodings::hyperloglog::{self, Encoding, Register, Registers};
use smallvec::SmallVec;

/// Registers that were raised, as an effect tells them.
type RaisedBytes = SmallVec<[u8; 96]>;

impl From<encodings::Corrupt> for OpError {
    fn from(_: encodings::Corrupt) -> OpError {
        OpError::CorruptHyperLogLog
    }
}

/// The bytes of a HyperLogLog, with its encoding.
#[inline]
fn checked(value: StringValue<'_>) -> Result<(&[u8], Encoding), OpError> {
    match value {
        StringValue::Bytes(bytes) => {
            let encoding = hyperloglog::encoding(bytes).ok_or(OpError::NotHyperLogLog)?;
            Ok((bytes, encoding))
        }
        StringValue::Int(_) => Err(OpError::NotHyperLogLog),
    }
}

impl Partition {
    /// The HyperLogLog at a key, with its encoding; `None` without the key. Counts as a read.
    ///
    /// # Errors
    /// [`OpError::WrongType`], [`OpError::NotHyperLogLog`].
    pub fn hyperloglog(
        &mut self,
        db: usize,
        key: &Key<'_>,
    ) -> Result<Option<(&[u8], Encoding)>, OpError> {
        self.get(db, key)?.map(checked).transpose()
    }

    /// As [`Partition::hyperloglog`], but without a trace in statistics and access stamp.
    ///
    /// # Errors
    /// [`OpError::WrongType`], [`OpError::NotHyperLogLog`].
    pub fn peek_hyperloglog(
        &mut self,
        db: usize,
        key: &Key<'_>,
    ) -> Result<Option<(&[u8], Encoding)>, OpError> {
        self.peek(db, key)?.map(checked).transpose()
    }

    /// Adds elements, given as their registers, to the HyperLogLog at a key, which is created if
    /// needed. True if that changed anything.
    ///
    /// # Errors
    /// [`OpError::WrongType`], [`OpError::NotHyperLogLog`], [`OpError::OutOfMemory`]; nothing
    /// changed. [`OpError::CorruptHyperLogLog`]; the elements up to that one were added.
    #[inline]
    pub fn hyperloglog_add(
        &mut self,
        db: usize,
        key: &Key<'_>,
        registers: impl Iterator<Item = Register>,
    ) -> Result<bool, OpError> {
        let sparse_len_max = self.limits.hll_sparse_max_bytes;
        self.hyperloglog_raise(db, key, registers, sparse_len_max)
    }

    #[inline]
    fn hyperloglog_raise(
        &mut self,
        db: usize,
        key: &Key<'_>,
        registers: impl Iterator<Item = Register>,
        sparse_len_max: usize,
    ) -> Result<bool, OpError> {
        let old = self.lookup_as(db, key, Look::Write, ValueType::String)?;
        let mut raised = RaisedBytes::new();
        match old.map(|entry| self.raw_hyperloglog(db, key, entry)).transpose()? {
            Some((block, Encoding::Dense)) => {
                let string = self.value_mut(block);
                for register in registers {
                    if hyperloglog::raise_dense(string, register) {
                        raised.extend_from_slice(&register.to_bytes());
                    }
                }
                if raised.is_empty() {
                    return Ok(false);
                }
                hyperloglog::forget_count(string);
            }
            _ => {
                let mut string = self.take_hyperloglog(old);
                let result = raise_all(&mut string, registers, sparse_len_max, &mut raised);
                let is_changed = old.is_none() || !raised.is_empty();
                if is_changed {
                    hyperloglog::forget_count(&mut string);
                    self.write_hyperloglog(db, key, old, &string)?;
                }
                if result.is_err() && is_changed {
                    self.report_rewrite(db, key, &string, false);
                }
                self.give_scratch(string);
                result?;
                if !is_changed {
                    return Ok(false);
                }
            }
        }
        // Each register counts as a change, and so does a new key.
        let changes = usize::from(old.is_none()) + raised.len() / Register::LEN;
        self.effects.dirty += changes as u64 - 1;
        self.effects.report(&Effect::HyperLogLogRaise {
            db: db as u32,
            key: key.bytes,
            registers: &raised,
            sparse_len_max: sparse_len_max as u64,
        });
        Ok(true)
    }

    /// The estimate of the HyperLogLog at a key, which then keeps it; `None` without the key.
    /// Counts as a read.
    ///
    /// # Errors
    /// [`OpError::WrongType`], [`OpError::NotHyperLogLog`], [`OpError::CorruptHyperLogLog`],
    /// [`OpError::OutOfMemory`]; nothing changed.
    pub fn hyperloglog_count(&mut self, db: usize, key: &Key<'_>) -> Result<Option<u64>, OpError> {
        let Some(entry) = self.lookup_as(db, key, Look::Read, ValueType::String)? else {
            return Ok(None);
        };
        let (block, _) = self.raw_hyperloglog(db, key, entry)?;
        let string = self.value_mut(block);
        if let Some(count) = hyperloglog::kept_count(string) {
            return Ok(Some(count));
        }
        let count = hyperloglog::count(string)?;
        string[hyperloglog::COUNT_RANGE].copy_from_slice(&count.to_le_bytes());
        self.report_count(db, key, count);
        Ok(Some(count))
    }

    fn report_count(&mut self, db: usize, key: &Key<'_>, count: u64) {
        self.effects.report(&Effect::HyperLogLogCount { db: db as u32, key: key.bytes, count });
    }

    /// Raises the registers of the HyperLogLog at a key, which is created if needed, to these,
    /// which are not below its own. It becomes dense if `is_dense`.
    ///
    /// # Errors
    /// [`OpError::WrongType`], [`OpError::NotHyperLogLog`], [`OpError::CorruptHyperLogLog`],
    /// [`OpError::OutOfMemory`]; nothing changed.
    pub fn hyperloglog_merge(
        &mut self,
        db: usize,
        key: &Key<'_>,
        registers: &Registers,
        is_dense: bool,
    ) -> Result<(), OpError> {
        let sparse_len_max = self.limits.hll_sparse_max_bytes;
        self.rewrite_hyperloglog(db, key, true, |string| {
            if is_dense {
                hyperloglog::make_dense(string)?;
            }
            registers.write(string, sparse_len_max)?;
            Ok(true)
        })?;
        Ok(())
    }

    /// Makes the HyperLogLog at a key, which exists, dense; true if it was not.
    ///
    /// # Errors
    /// [`OpError::WrongType`], [`OpError::NotHyperLogLog`], [`OpError::CorruptHyperLogLog`],
    /// [`OpError::OutOfMemory`]; nothing changed.
    pub fn hyperloglog_make_dense(&mut self, db: usize, key: &Key<'_>) -> Result<bool, OpError> {
        self.rewrite_hyperloglog(db, key, false, |string| Ok(hyperloglog::make_dense(string)?))
    }

    /// Lets `change` write to a HyperLogLog that is put in place of the one at a key; false from it
    /// leaves all as it was.
    fn rewrite_hyperloglog(
        &mut self,
        db: usize,
        key: &Key<'_>,
        added: bool,
        change: impl FnOnce(&mut Vec<u8>) -> Result<bool, OpError>,
    ) -> Result<bool, OpError> {
        let old = self.lookup_as(db, key, Look::Write, ValueType::String)?;
        if let Some(entry) = old {
            self.raw_hyperloglog(db, key, entry)?;
        }
        let mut string = self.take_hyperloglog(old);
        let changed = change(&mut string)?;
        if changed {
            self.write_hyperloglog(db, key, old, &string)?;
            self.report_rewrite(db, key, &string, added);
        }
        self.give_scratch(string);
        Ok(changed)
    }

    fn report_rewrite(&mut self, db: usize, key: &Key<'_>, value: &[u8], added: bool) {
        let (db, key) = (db as u32, key.bytes);
        self.effects.report(&Effect::HyperLogLogRewrite { db, key, value, added });
    }

    /// Checks the string of an entry and makes it one that may be written to.
    #[inline]
    fn raw_hyperloglog(
        &mut self,
        db: usize,
        key: &Key<'_>,
        entry: Entry,
    ) -> Result<(BlockRef, Encoding), OpError> {
        let (bytes, encoding) = checked(self.heap.string_value(entry.block))?;
        let len = bytes.len();
        Ok((self.reshape(db, key, Some(entry), len)?, encoding))
    }

    /// A copy of a HyperLogLog, or of an empty one.
    fn take_hyperloglog(&mut self, old: Option<Entry>) -> Vec<u8> {
        let mut string = self.take_scratch(None);
        match old.map(|entry| self.heap.string_value(entry.block)) {
            Some(StringValue::Bytes(bytes)) => string.extend_from_slice(bytes),
            _ => string.extend_from_slice(&hyperloglog::EMPTY),
        }
        string
    }

    /// Puts a HyperLogLog under a key, whose time stays. One that grew out of its block has some
    /// room to grow on; a dense one does not grow and has none.
    fn write_hyperloglog(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        string: &[u8],
    ) -> Result<(), OpError> {
        let expire_at = old.and_then(|old| self.expire_of(old));
        let before = old.map(|entry| self.heap.string_value(entry.block));
        let stays = match before {
            Some(StringValue::Bytes(bytes)) => {
                !fits_inline(key, bytes.len())
                    && hyperloglog::encoding(bytes) == hyperloglog::encoding(string)
            }
            _ => false,
        };
        if fits_inline(key, string.len()) {
            self.put(db, key, old, Form::string(Packing::Raw), string, expire_at)?;
        } else if stays {
            let block = self.reshape(db, key, old, string.len())?;
            self.value_mut(block).copy_from_slice(string);
        } else {
            self.store(db, key, old, NewValue::Bytes(string), expire_at)?;
        }
        Ok(())
    }

    /// Does what an effect on a HyperLogLog says.
    pub(crate) fn apply_hyperloglog(
        &mut self,
        db: usize,
        effect: &Effect<'_>,
    ) -> Result<(), OpError> {
        match *effect {
            Effect::HyperLogLogRaise { key, registers, sparse_len_max, .. } => {
                let (registers, _) = registers.as_chunks::<{ Register::LEN }>();
                let registers = registers.iter().copied().map(Register::from_bytes);
                let sparse_len_max = usize::try_from(sparse_len_max).unwrap_or(usize::MAX);
                self.hyperloglog_raise(db, &self.key(key), registers, sparse_len_max)?;
            }
            Effect::HyperLogLogCount { key, count, .. } => {
                let key = self.key(key);
                let old = self.lookup_as(db, &key, Look::Write, ValueType::String)?;
                let entry = old.ok_or(OpError::NotHyperLogLog)?;
                let (block, _) = self.raw_hyperloglog(db, &key, entry)?;
                self.value_mut(block)[hyperloglog::COUNT_RANGE]
                    .copy_from_slice(&count.to_le_bytes());
                self.report_count(db, &key, count);
            }
            Effect::HyperLogLogRewrite { key, value, added, .. } => {
                let key = self.key(key);
                let old = self.lookup_as(db, &key, Look::Write, ValueType::String)?;
                self.write_hyperloglog(db, &key, old, value)?;
                self.report_rewrite(db, &key, value, added);
            }
            _ => unreachable!("the caller passes effects of HyperLogLogs"),
        }
        Ok(())
    }
}

fn raise_all(
    string: &mut Vec<u8>,
    registers: impl Iterator<Item = Register>,
    sparse_len_max: usize,
    raised: &mut RaisedBytes,
) -> Result<(), OpError> {
    for register in registers {
        if hyperloglog::raise(string, register, sparse_len_max)? {
            raised.extend_from_slice(&register.to_bytes());
        }
    }
    Ok(())
}
