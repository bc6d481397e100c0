//! Changing a set, a hash or a sorted set, as far as it is the same for all: taking members out,
//! giving them times, making room for more.

use super::Members;
use crate::big::Big;
use crate::block::{Encoding, Form, ValueType};
use crate::dict::Dict;
use crate::effect::{Change, Event, Strings};
use crate::error::OpError;
use crate::heap::Outside;
use crate::key::Key;
use crate::packed::{self, Rows, Shape, push_time};
use crate::partition::{Look, Partition};
use crate::set::{remove_integer, rows_of_integers};
use crate::table::Entry;

/// Members that were changed.
struct Done {
    /// How many.
    count: usize,
    /// Their names, as [`Strings`] hold them, if somebody listens to effects.
    names: Option<Vec<u8>>,
}

impl Done {
    fn add(&mut self, name: &[u8]) {
        self.count += 1;
        if let Some(names) = &mut self.names {
            Strings::push(names, name);
        }
    }

    fn names(&self) -> Strings<'_> {
        Strings::new(self.names.as_deref().unwrap_or_default())
    }
}

impl Partition {
    /// The members at a key that holds a set, a hash or a sorted set, as `value_type` says, `None`
    /// without the key. Counts as a read.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    #[inline]
    pub fn members(
        &mut self,
        db: usize,
        key: &Key<'_>,
        value_type: ValueType,
    ) -> Result<Option<Members<'_>>, OpError> {
        let found = self.lookup_as(db, key, Look::Read, value_type)?;
        Ok(found.map(|entry| Members::of(&self.heap, entry.block)))
    }

    /// As [`Partition::members`], but without a trace in statistics and access stamp.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn members_look(
        &mut self,
        db: usize,
        key: &Key<'_>,
        value_type: ValueType,
    ) -> Result<Option<Members<'_>>, OpError> {
        let found = self.lookup_as(db, key, Look::Silent, value_type)?;
        Ok(found.map(|entry| Members::of(&self.heap, entry.block)))
    }

    /// The packed form of a value that is not big.
    pub(crate) fn packed_form(&self, entry: Entry) -> Form {
        let form = self.heap.view(entry.block).form();
        Form { encoding: form.encoding.placed(false), ..form }
    }

    /// Makes a packed set, hash or sorted set big, or a new empty one that the caller fills at once.
    pub(crate) fn make_big(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        value_type: ValueType,
    ) -> Result<u32, OpError> {
        let (expire_at, dict) = match old {
            None => (None, Dict::new(value_type)),
            Some(entry) => {
                let (form, bytes) = self.heap.pack(entry.block);
                (self.heap.view(entry.block).expire_at(), self.heap.build_dict(form, &bytes)?)
            }
        };
        let block = self.store_big(db, key, old, Big::Dict(dict), expire_at)?;
        Ok(self.heap.view(block).outside_index())
    }

    fn nothing_done(&self) -> Done {
        Done { count: 0, names: self.effects.listening.then(Vec::new) }
    }

    /// Takes members, or fields, away, and the key with the last one. How many were there. The event
    /// tells the type.
    ///
    /// # Errors
    /// [`OpError::WrongType`], [`OpError::OutOfMemory`]; nothing changed.
    pub fn remove_members<'p>(
        &mut self,
        db: usize,
        key: &Key<'_>,
        names: impl Iterator<Item = &'p [u8]>,
        event: Event,
    ) -> Result<usize, OpError> {
        let Some(entry) = self.lookup_as(db, key, Look::Write, event.value_type())? else {
            return Ok(0);
        };
        let mut done = self.nothing_done();
        let emptied = if let Outside::Big(index) = Outside::of(self.heap.view(entry.block)) {
            let emptied = self.heap.with_big(index, |big, heap| {
                let dict = big.dict_mut();
                for name in names {
                    if let Some(entry) = dict.find(heap, name) {
                        dict.remove(heap, entry);
                        done.add(name);
                    }
                }
                dict.len() == 0
            });
            self.refresh_record(db, key, index);
            emptied
        } else {
            self.remove_packed(db, key, entry, names, &mut done)?
        };
        if done.count > 0 {
            let change = Change::Remove { members: done.names() };
            self.report_removal(db, key, event, change, done.count, emptied);
        }
        Ok(done.count)
    }

    /// True when none is left; the value is then as it was.
    fn remove_packed<'p>(
        &mut self,
        db: usize,
        key: &Key<'_>,
        entry: Entry,
        names: impl Iterator<Item = &'p [u8]>,
        done: &mut Done,
    ) -> Result<bool, OpError> {
        let form = self.packed_form(entry);
        let shape = Shape::of(form);
        let mut bytes = self.take_scratch(Some(entry));
        let is_intset = form.encoding == Encoding::Int;
        for name in names {
            if is_intset {
                if remove_integer(&mut bytes, name) {
                    done.add(name);
                }
            } else if let Some((range, _)) = Rows::new(shape, &bytes).find(name) {
                bytes.drain(range);
                done.add(name);
            }
        }
        let emptied = bytes.len() <= shape.start() + usize::from(is_intset);
        let mut stored = Ok(());
        if done.count > 0 && !emptied {
            if shape.timed {
                packed::refresh_earliest(&mut bytes, shape);
            }
            stored = self.store_packed(db, key, Some(entry), form, &bytes).map(drop);
        }
        self.give_scratch(bytes);
        stored.map(|()| emptied)
    }

    /// Gives members, or fields, that are there a time in milliseconds since 1970, or takes it away.
    /// How many were there. The event tells the type.
    ///
    /// # Errors
    /// [`OpError::WrongType`]; [`OpError::OutOfMemory`], and then some may have their time.
    pub fn expire_members<'p>(
        &mut self,
        db: usize,
        key: &Key<'_>,
        names: impl Iterator<Item = &'p [u8]>,
        at_ms: Option<u64>,
        event: Event,
    ) -> Result<usize, OpError> {
        let Some(entry) = self.lookup_as(db, key, Look::Write, event.value_type())? else {
            return Ok(0);
        };
        let mut done = self.nothing_done();
        let result = if let Outside::Big(index) = Outside::of(self.heap.view(entry.block)) {
            let result = self.heap.with_big(index, |big, heap| {
                let dict = big.dict_mut();
                for name in names {
                    if let Some(entry) = dict.find(heap, name) {
                        dict.retime(heap, entry, name, at_ms)?;
                        done.add(name);
                    }
                }
                Ok(())
            });
            self.refresh_record(db, key, index);
            result
        } else {
            self.expire_packed(db, key, entry, names, at_ms, &mut done)?;
            Ok(())
        };
        if done.count > 0 {
            let change = Change::Expire { members: done.names(), at_ms };
            self.report_change(db, key, event, change, done.count);
        }
        result.map(|()| done.count)
    }

    fn expire_packed<'p>(
        &mut self,
        db: usize,
        key: &Key<'_>,
        entry: Entry,
        names: impl Iterator<Item = &'p [u8]>,
        at_ms: Option<u64>,
        done: &mut Done,
    ) -> Result<(), OpError> {
        let mut form = self.packed_form(entry);
        let mut bytes = self.take_scratch(Some(entry));
        if form.encoding == Encoding::Int {
            bytes = rows_of_integers(&bytes);
            form.encoding = Encoding::Bytes;
        }
        if form.encoding != Encoding::Timed && at_ms.is_some() {
            bytes = packed::make_timed(&bytes, Shape::of(form));
            form.encoding = Encoding::Timed;
        }
        let shape = Shape::of(form);
        for name in names {
            let rows = Rows::new(shape, &bytes);
            if let Some((row, _)) = rows.find(name) {
                if shape.timed {
                    let time = rows.time_of(row.start);
                    packed::replace(&mut bytes, time, |out| push_time(out, at_ms));
                }
                done.add(name);
            }
        }
        let mut stored = Ok(());
        if done.count > 0 && shape.timed {
            packed::refresh_earliest(&mut bytes, shape);
            stored = self.store_packed(db, key, Some(entry), form, &bytes).map(drop);
        }
        self.give_scratch(bytes);
        stored
    }
}
