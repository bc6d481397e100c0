//! Keys, whatever they hold: deleting, timing, renaming, walking.

use crate::block::{Content, Encoding, Form, KeyPart, ValueType, View};
use crate::block::{bytes_for, set_stamp, write_head};
use crate::collection::{Placed, encoding_name};
use crate::database::{Database, Tables};
use crate::effect::{DeleteCause, Effect, Origin, PlacedForm};
use crate::error::OpError;
use crate::heap::Outside;
use crate::key::Key;
use crate::partition::{Look, Partition};
use crate::slab::BlockRef;
use crate::store::fits_inline;
use crate::string::StringValue;
use crate::table::Entry;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// What became of a rename, copy or move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Done.
    Done,
    /// The source does not exist.
    SourceMissing,
    /// The target exists and was not to be replaced.
    TargetExists,
}

impl Partition {
    /// Keys of a database, those that are due but not yet gone among them.
    pub fn len(&self, db: usize) -> usize {
        self.databases[db].len
    }

    /// True when a database has no keys.
    pub fn is_empty(&self, db: usize) -> bool {
        self.len(db) == 0
    }

    /// Keys of a database that have a time.
    pub fn expires_len(&self, db: usize) -> usize {
        self.databases[db].expires.len() - self.databases[db].with_timed_members
    }

    /// Keys of a database that have members or fields with times.
    pub fn with_timed_members_len(&self, db: usize) -> usize {
        self.databases[db].with_timed_members
    }

    /// Deletes a key; false without it.
    pub fn delete(&mut self, db: usize, key: &Key<'_>, cause: DeleteCause) -> bool {
        let found = self.lookup(db, key, Look::Silent);
        if let Some(entry) = found {
            self.delete_entry(db, key, entry, cause);
        }
        found.is_some()
    }

    /// True when a key exists. Counts as a read but does not stamp the key.
    pub fn exists(&mut self, db: usize, key: &Key<'_>) -> bool {
        self.lookup(db, key, Look::Peek).is_some()
    }

    /// As [`Partition::exists`], but without a trace in the statistics.
    pub fn holds(&mut self, db: usize, key: &Key<'_>) -> bool {
        self.lookup(db, key, Look::Silent).is_some()
    }

    /// Stamps a key as used; false without it.
    pub fn touch_key(&mut self, db: usize, key: &Key<'_>) -> bool {
        self.lookup(db, key, Look::Read).is_some()
    }

    /// The type of a key's value. Counts as a read; `touch` stamps the key as used.
    pub fn read_type(&mut self, db: usize, key: &Key<'_>, touch: bool) -> Option<ValueType> {
        let entry = self.lookup(db, key, if touch { Look::Read } else { Look::Peek })?;
        Some(self.heap.view(entry.block).value_type())
    }

    /// The type of a key's value.
    pub fn type_of(&mut self, db: usize, key: &Key<'_>) -> Option<ValueType> {
        let entry = self.lookup(db, key, Look::Peek)?;
        Some(self.heap.view(entry.block).value_type())
    }

    /// The encoding of a key's value, in Redis's words.
    pub fn encoding(&mut self, db: usize, key: &Key<'_>) -> Option<&'static str> {
        let entry = self.lookup(db, key, Look::Silent)?;
        Some(encoding_name(&self.heap, entry.block))
    }

    /// Seconds since a key was used; meaningless in LFU mode.
    pub fn idle_seconds(&mut self, db: usize, key: &Key<'_>) -> Option<u64> {
        let entry = self.lookup(db, key, Look::Silent)?;
        Some(self.access.idle_seconds(self.heap.view(entry.block).stamp()))
    }

    /// The logarithmic use counter of a key; meaningless in LRU mode.
    pub fn frequency(&mut self, db: usize, key: &Key<'_>) -> Option<u32> {
        let entry = self.lookup(db, key, Look::Silent)?;
        Some(self.access.frequency(self.heap.view(entry.block).stamp()))
    }

    /// Makes a key look as if it had been used so many seconds ago, or so often. What the mode does not
    /// count is ignored.
    pub fn set_use(
        &mut self,
        db: usize,
        key: &Key<'_>,
        idle_s: Option<u64>,
        frequency: Option<u8>,
    ) {
        let Some(entry) = self.lookup(db, key, Look::Silent) else { return };
        if let Some(stamp) = self.access.stamp_of(idle_s, frequency) {
            set_stamp(self.heap.slabs.block_mut(entry.block), stamp);
        }
    }

    /// Bytes that a key takes: its block, its share of the index, its expire record, what lies
    /// outside.
    pub fn memory_usage(&mut self, db: usize, key: &Key<'_>) -> Option<usize> {
        let entry = self.lookup(db, key, Look::Silent)?;
        let table = self.databases[db].tables.get(key.slot)?;
        let index = table.bytes().div_ceil(table.len());
        let bytes = self.heap.slabs.block(entry.block);
        let view = View::of(bytes);
        let mut outside = match Outside::of(view) {
            Outside::Nothing => 0,
            Outside::Large(index) => self.heap.larges.capacity(index),
            Outside::Big(index) => self.heap.bigs.memory_bytes_of(&self.heap, index),
        };
        if let KeyPart::Outside { index, .. } = view.key() {
            outside += self.heap.larges.capacity(index);
        }
        let record = if view.expire_at().is_some() { 5 } else { 0 };
        Some(bytes.len() + index + record + outside)
    }

    /// The time of a key in milliseconds since 1970: `None` without the key, `Some(None)` without a
    /// time.
    pub fn expire_time(&mut self, db: usize, key: &Key<'_>) -> Option<Option<u64>> {
        let entry = self.lookup(db, key, Look::Peek)?;
        Some(self.heap.view(entry.block).expire_at())
    }

    /// As [`Partition::expire_time`], but without a trace in the statistics.
    pub fn peek_expire_time(&mut self, db: usize, key: &Key<'_>) -> Option<Option<u64>> {
        let entry = self.lookup(db, key, Look::Silent)?;
        Some(self.heap.view(entry.block).expire_at())
    }

    /// Gives a key a time in milliseconds since 1970; a time not after now deletes it. False without
    /// the key.
    ///
    /// # Errors
    /// [`OpError::OutOfMemory`]; nothing changed.
    pub fn expire_at(&mut self, db: usize, key: &Key<'_>, at_ms: u64) -> Result<bool, OpError> {
        let Some(entry) = self.lookup(db, key, Look::Silent) else { return Ok(false) };
        if at_ms <= self.now_ms {
            self.delete_entry(db, key, entry, DeleteCause::Command);
            return Ok(true);
        }
        self.rewrite_expire(db, key, entry, Some(at_ms))?;
        self.effects.report(&Effect::Expire { db: db as u32, key: key.bytes, at_ms });
        Ok(true)
    }

    /// Takes a key's time away; false without the key or a time.
    pub fn persist(&mut self, db: usize, key: &Key<'_>) -> bool {
        let Some(entry) = self.lookup(db, key, Look::Silent) else { return false };
        if self.heap.view(entry.block).expire_at().is_none() {
            return false;
        }
        if self.rewrite_expire(db, key, entry, None).is_err() {
            return false;
        }
        self.effects.report(&Effect::Persist { db: db as u32, key: key.bytes });
        true
    }

    /// Writes a block anew with another time.
    fn rewrite_expire(
        &mut self,
        db: usize,
        key: &Key<'_>,
        entry: Entry,
        expire_at: Option<u64>,
    ) -> Result<(), OpError> {
        let old = self.heap.view(entry.block).expire_at();
        if old == expire_at {
            return Ok(());
        }
        let block = self.copy_block(entry.block, None, expire_at)?;
        self.replace_block(db, key, entry, block);
        self.retime(db, key, old, expire_at);
        Ok(())
    }

    /// A new block with the value of another, under its key or `key`, with a time. What lies outside
    /// is not copied: both blocks name it.
    fn copy_block(
        &mut self,
        from: BlockRef,
        key: Option<crate::block::KeyPart<'_>>,
        expire_at: Option<u64>,
    ) -> Result<BlockRef, OpError> {
        let view = self.heap.view(from);
        let (value_at, value_len) = (view.value_at, view.value().len());
        let len = bytes_for(key.unwrap_or(view.key()), expire_at, value_len);
        let to = self.alloc(len)?;
        // The old block's key is read while the new block is written, so it goes by way of a copy.
        let mut room = [0; crate::slab::BLOCK_BYTES_MAX];
        let old = self.heap.slabs.block(from);
        room[..old.len()].copy_from_slice(old);
        let view = View::of(&room[..old.len()]);
        let content = Content {
            form: view.form(),
            stamp: view.stamp(),
            expire_at,
            key: key.unwrap_or(view.key()),
            value: &[],
        };
        let at = write_head(self.heap.slabs.block_mut(to), &content, value_len);
        self.heap.slabs.copy(from, value_at..value_at + value_len, to, at);
        Ok(to)
    }

    /// Gives a key another name, with its value and time.
    ///
    /// # Errors
    /// [`OpError::OutOfMemory`]; nothing changed.
    pub fn rename(
        &mut self,
        db: usize,
        from: &Key<'_>,
        to: &Key<'_>,
        replace: bool,
    ) -> Result<Transfer, OpError> {
        let Some(source) = self.lookup(db, from, Look::Write) else {
            return Ok(Transfer::SourceMissing);
        };
        let target = self.lookup(db, to, Look::Silent);
        if target.is_some() && !replace {
            return Ok(Transfer::TargetExists);
        }
        if from.bytes == to.bytes {
            return Ok(Transfer::Done);
        }
        let expire_at = self.heap.view(source.block).expire_at();
        let members = self.heap.members_time(source.block);
        self.put_copy(source, db, to, target, expire_at)?;
        // Placing the target may have moved the source's entry.
        let source = self.find(db, from).expect("the source is still there");
        self.retime(db, from, expire_at, None);
        self.retime_members(db, from, members, None);
        self.unlink(db, from, source);
        self.free_but_value(source.block);
        self.effects.report(&Effect::Rename {
            db: db as u32,
            from: from.bytes,
            to: to.bytes,
            replaced: target.is_some(),
        });
        Ok(Transfer::Done)
    }

    /// Enters a block under a key, over what was there; frees the block on failure.
    fn place(
        &mut self,
        db: usize,
        key: &Key<'_>,
        target: Option<Entry>,
        block: BlockRef,
    ) -> Result<(), OpError> {
        let Some(target) = target else {
            return Ok(self.link(db, key, block).inspect_err(|_| self.heap.slabs.free(block))?);
        };
        let old_expire = self.heap.view(target.block).expire_at();
        let old_members = self.heap.members_time(target.block);
        self.databases[db].tables.get_mut(key.slot).replace(&mut self.heap.slabs, target, block);
        self.retime(db, key, old_expire, None);
        self.retime_members(db, key, old_members, None);
        self.heap.free(target.block);
        Ok(())
    }

    /// Frees a block and a key outside of it, but not its value, which another block names now.
    fn free_but_value(&mut self, block: BlockRef) {
        if let crate::block::KeyPart::Outside { index, .. } = self.heap.view(block).key() {
            self.heap.larges.remove(index);
        }
        self.heap.slabs.free(block);
    }

    /// Copies a key with its value and time.
    ///
    /// # Errors
    /// [`OpError::OutOfMemory`]; nothing changed.
    pub fn copy(
        &mut self,
        db: usize,
        from: &Key<'_>,
        to_db: usize,
        to: &Key<'_>,
        replace: bool,
    ) -> Result<Transfer, OpError> {
        let Some(source) = self.lookup(db, from, Look::Read) else {
            return Ok(Transfer::SourceMissing);
        };
        let target = self.lookup(to_db, to, Look::Silent);
        if target.is_some() && !replace {
            return Ok(Transfer::TargetExists);
        }
        if db == to_db && from.bytes == to.bytes {
            return Ok(Transfer::Done);
        }
        let view = self.heap.view(source.block);
        let expire_at = view.expire_at();
        if Outside::of(view) == Outside::Nothing {
            self.put_copy(source, to_db, to, target, expire_at)?;
        } else {
            let (form, value) = self.heap.pack(source.block);
            self.store_copy(to_db, to, target, Placed { form, value: &value, expire_at })?;
        }
        self.effects.report(&Effect::Copy {
            db: db as u32,
            from: from.bytes,
            to_db: to_db as u32,
            to: to.bytes,
            replaced: target.is_some(),
        });
        Ok(Transfer::Done)
    }

    /// Gives a key's value and time to a key of another partition; `origin` tells whether it stays
    /// here as well.
    ///
    /// # Errors
    /// [`OpError::OutOfMemory`]; nothing changed.
    pub fn transfer(
        &mut self,
        db: usize,
        from: &Key<'_>,
        target: (&mut Partition, usize, &Key<'_>),
        replace: bool,
        origin: Origin,
    ) -> Result<Transfer, OpError> {
        let (target, to_db, to) = target;
        let look = if origin == Origin::Rename { Look::Write } else { Look::Read };
        let Some(source) = self.lookup(db, from, look) else {
            return Ok(Transfer::SourceMissing);
        };
        if !replace && target.holds(to_db, to) {
            return Ok(Transfer::TargetExists);
        }
        let view = self.heap.view(source.block);
        let expire_at = view.expire_at();
        if view.form() == Form::string(Encoding::Int) {
            let form = Form::string(Encoding::Bytes);
            self.heap.string_value(source.block).with_text(|value| {
                target.place_value(to_db, to, Placed { form, value, expire_at }, origin)
            })?;
        } else {
            let (form, value) = self.heap.pack(source.block);
            target.place_value(to_db, to, Placed { form, value: &value, expire_at }, origin)?;
        }
        if origin == Origin::Rename {
            self.delete_entry(db, from, source, DeleteCause::Renamed);
        }
        Ok(Transfer::Done)
    }

    /// Stores a whole value that was packed elsewhere.
    pub(crate) fn place_value(
        &mut self,
        db: usize,
        key: &Key<'_>,
        placed: Placed<'_>,
        origin: Origin,
    ) -> Result<(), OpError> {
        let old = self.lookup(db, key, Look::Silent);
        match origin {
            Origin::Rename | Origin::Copy => self.store_copy(db, key, old, placed)?,
            _ => self.store_value(db, key, old, placed)?,
        }
        self.report_place(db, key, placed, old.is_some(), origin);
        Ok(())
    }

    /// Reports that a key holds a whole new value.
    pub(crate) fn report_place(
        &mut self,
        db: usize,
        key: &Key<'_>,
        placed: Placed<'_>,
        replaced: bool,
        origin: Origin,
    ) {
        let Placed { form, value, expire_at } = placed;
        let (db, key, form) = (db as u32, key.bytes, PlacedForm(form));
        self.effects.report(&Effect::Place { db, key, form, value, expire_at, replaced, origin });
    }

    /// Puts the value of a block under another key. A value outside is not copied: both blocks name
    /// it then.
    fn put_copy(
        &mut self,
        source: Entry,
        to_db: usize,
        to: &Key<'_>,
        target: Option<Entry>,
        expire_at: Option<u64>,
    ) -> Result<(), OpError> {
        if !fits_inline(to, self.heap.view(source.block).value().len()) {
            // It fitted beside a shorter key.
            let (form, value) = self.heap.pack(source.block);
            return self.store_copy(to_db, to, target, Placed { form, value: &value, expire_at });
        }
        let key_part = self.key_part(to)?;
        let placed = self
            .copy_block(source.block, Some(key_part), expire_at)
            .and_then(|block| self.place(to_db, to, target, block));
        if placed.is_err() {
            self.drop_key_part(key_part);
        } else {
            self.retime(to_db, to, None, expire_at);
            let placed = self.find(to_db, to).expect("it was placed");
            self.retime_members(to_db, to, None, self.heap.members_time(placed.block));
        }
        placed
    }

    /// Moves a key to another database, where it must not exist.
    ///
    /// # Errors
    /// [`OpError::OutOfMemory`]; nothing changed.
    pub fn move_key(
        &mut self,
        db: usize,
        key: &Key<'_>,
        to_db: usize,
    ) -> Result<Transfer, OpError> {
        let Some(entry) = self.lookup(db, key, Look::Write) else {
            return Ok(Transfer::SourceMissing);
        };
        if self.lookup(to_db, key, Look::Silent).is_some() {
            return Ok(Transfer::TargetExists);
        }
        let expire_at = self.heap.view(entry.block).expire_at();
        let members = self.heap.members_time(entry.block);
        self.link(to_db, key, entry.block)?;
        self.retime(db, key, expire_at, None);
        self.retime_members(db, key, members, None);
        self.unlink(db, key, entry);
        self.retime(to_db, key, None, expire_at);
        self.retime_members(to_db, key, None, members);
        let (db, to_db) = (db as u32, to_db as u32);
        self.effects.report(&Effect::Move { db, key: key.bytes, to_db });
        Ok(Transfer::Done)
    }

    /// Empties a database. What it held is freed in steps by [`Partition::maintain`]. Keys that it
    /// had are the answer.
    pub fn flush_db(&mut self, db: usize) -> usize {
        let len = self.empty(db);
        self.effects.report(&Effect::FlushDb { db: db as u32 });
        len
    }

    /// Empties all databases; see [`Partition::flush_db`].
    pub fn flush_all(&mut self) -> usize {
        let len = (0..self.databases.len()).map(|db| self.empty(db)).sum();
        self.effects.report(&Effect::FlushAll);
        len
    }

    fn empty(&mut self, db: usize) -> usize {
        let len = self.databases[db].len;
        if len > 0 {
            let old = std::mem::replace(&mut self.databases[db], Database::new(self.hash_slots));
            self.upkeep.discard(old.tables, old.expires);
        }
        len
    }

    /// Makes two databases change places.
    pub fn swap_db(&mut self, a: usize, b: usize) {
        if a != b {
            self.databases.swap(a, b);
            self.effects.report(&Effect::SwapDb { a: a as u32, b: b as u32 });
        }
    }

    /// Keys of a hash slot; all keys where tables are not per hash slot.
    pub fn slot_len(&self, db: usize, slot: u16) -> usize {
        self.databases[db].tables.get(slot).map_or(0, crate::table::Table::len)
    }

    /// Average time to live of a database's keys in milliseconds, from a small sample.
    pub fn average_ttl_ms(&self, db: usize, word: u64) -> u64 {
        /// Blocks that are looked at.
        const SAMPLE: u64 = 16;
        let database = &self.databases[db];
        let Tables::One(table) = &database.tables else { return 0 };
        if database.expires.len() == 0 {
            return 0;
        }
        let (mut sum, mut count) = (0, 0);
        for i in 0..SAMPLE {
            let block = table.random(&self.heap.slabs, word.wrapping_add(i << 17));
            if let Some(at_ms) = block.and_then(|block| self.heap.view(block).expire_at()) {
                sum += at_ms.saturating_sub(self.now_ms);
                count += 1;
            }
        }
        sum / u64::max(count, 1)
    }

    /// A number that two databases share when they hold the same keys, values and times.
    pub fn digest(&self, db: usize) -> u64 {
        let mut sum = 0u64;
        for table in self.databases[db].tables.iter() {
            table
                .for_each(&self.heap.slabs, |block| sum = sum.wrapping_add(self.digest_key(block)));
        }
        sum
    }

    fn digest_key(&self, block: BlockRef) -> u64 {
        let view = self.heap.view(block);
        let mut hash = Xxh3::new();
        let key = self.heap.key_bytes(view.key());
        hash.update(&(key.len() as u64).to_le_bytes());
        hash.update(key);
        hash.update(&view.expire_at().unwrap_or(u64::MAX).to_le_bytes());
        hash.update(&self.digest_block(block).to_le_bytes());
        hash.digest()
    }

    /// A number that two keys share when they hold the same value; `None` without the key.
    pub fn digest_value(&mut self, db: usize, key: &Key<'_>) -> Option<u64> {
        let entry = self.lookup(db, key, Look::Silent)?;
        Some(self.digest_block(entry.block))
    }

    fn digest_block(&self, block: BlockRef) -> u64 {
        let value_type = self.heap.view(block).value_type();
        if value_type == ValueType::String {
            let value: StringValue<'_> = self.heap.string_value(block);
            return value.with_text(xxh3_64);
        }
        let (form, bytes) = self.heap.pack(block);
        crate::collection::digest(form, &bytes)
    }
}
