//! Changing a set, a hash or a sorted set, as far as it is the same for all: taking members out,
//! giving them times, making room for more.

use encodings::listpack::Element;

use super::Members;
use crate::big::Big;
use crate::block::{Encoding, Form, ValueType};
use crate::dict::Dict;
use crate::effect::{Change, DeleteCause, Event, Strings};
use crate::error::OpError;
use crate::heap::Outside;
use crate::key::Key;
use crate::packed::{self, Row, Rows, Shape, push_row};
use crate::partition::{Look, Partition};
use crate::set::{remove_integer, rows_of_integers};
use crate::table::Entry;

/// Members that were taken out of a collection.
pub(crate) struct Removed {
    /// How many.
    pub(crate) count: usize,
    /// Their names, as [`Strings`] hold them, if somebody listens to effects.
    pub(crate) names: Vec<u8>,
    /// None is left.
    pub(crate) emptied: bool,
}

impl Partition {
    /// The members at a key that holds a value of a type.
    #[inline]
    pub(crate) fn members(
        &mut self,
        db: usize,
        key: &Key<'_>,
        value_type: ValueType,
    ) -> Result<Option<Members<'_>>, OpError> {
        let found = self.lookup_as(db, key, Look::Read, value_type)?;
        Ok(found.map(|entry| Members::of(&self.heap, entry.block)))
    }

    /// The packed form of a value that is there and not big, or of a new one.
    pub(crate) fn packed_form(&self, old: Option<Entry>, value_type: ValueType) -> Form {
        let encoding =
            old.map_or(Encoding::Bytes, |old| self.heap.view(old.block).encoding().placed(false));
        Form::new(value_type, encoding)
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

    /// Takes members out; the caller reports, and deletes the key if none is left. `None` without
    /// the key.
    pub(crate) fn remove_members<'p>(
        &mut self,
        db: usize,
        key: &Key<'_>,
        value_type: ValueType,
        names: impl Iterator<Item = &'p [u8]>,
    ) -> Result<Option<Removed>, OpError> {
        let Some(entry) = self.lookup_as(db, key, Look::Write, value_type)? else {
            return Ok(None);
        };
        let mut removed = Removed { count: 0, names: Vec::new(), emptied: false };
        let listening = self.effects.listening;
        let note = |removed: &mut Removed, name: &[u8]| {
            removed.count += 1;
            if listening {
                Strings::push(&mut removed.names, name);
            }
        };
        if let Outside::Big(index) = Outside::of(self.heap.view(entry.block)) {
            self.heap.with_big(index, |big, heap| {
                let dict = big.dict_mut();
                for name in names {
                    if let Some(entry) = dict.find(heap, name) {
                        dict.remove(heap, entry);
                        note(&mut removed, name);
                    }
                }
                removed.emptied = dict.len() == 0;
            });
            self.refresh_record(db, key, index);
            return Ok(Some(removed));
        }
        let form = self.packed_form(Some(entry), value_type);
        let shape = Shape::of(form);
        let mut bytes = self.take_scratch(Some(entry));
        let is_intset = form.encoding == Encoding::Int;
        for name in names {
            if is_intset {
                if remove_integer(&mut bytes, name) {
                    note(&mut removed, name);
                }
            } else if let Some((range, _)) = Rows::new(shape, &bytes).find(name) {
                bytes.drain(range);
                note(&mut removed, name);
            }
        }
        removed.emptied = bytes.len() <= shape.start() + usize::from(is_intset);
        let mut stored = Ok(());
        if removed.count > 0 && !removed.emptied {
            if shape.timed {
                packed::refresh_earliest(&mut bytes, shape);
            }
            stored = self.store_packed(db, key, Some(entry), form, &bytes).map(drop);
        }
        self.give_scratch(bytes);
        stored.map(|()| Some(removed))
    }

    /// Reports members that were taken out, and deletes the key if none is left.
    pub(crate) fn report_removed(
        &mut self,
        db: usize,
        key: &Key<'_>,
        event: Event,
        change: Change<'_>,
        removed: &Removed,
    ) {
        if removed.count == 0 {
            return;
        }
        self.report_change(db, key, event, change, removed.count);
        if removed.emptied {
            let entry = self.find(db, key).expect("the key is still there");
            self.delete_entry(db, key, entry, DeleteCause::Command);
        }
    }

    /// Gives members that are there a time, or takes it away. How many were there.
    pub(crate) fn expire_members_at<'p>(
        &mut self,
        db: usize,
        key: &Key<'_>,
        value_type: ValueType,
        names: impl Iterator<Item = &'p [u8]>,
        at_ms: Option<u64>,
    ) -> Result<usize, OpError> {
        let Some(entry) = self.lookup_as(db, key, Look::Write, value_type)? else { return Ok(0) };
        let mut count = 0;
        if let Outside::Big(index) = Outside::of(self.heap.view(entry.block)) {
            let done = self.heap.with_big(index, |big, heap| {
                let dict = big.dict_mut();
                for name in names {
                    if let Some(entry) = dict.find(heap, name) {
                        dict.retime(heap, entry, name, at_ms)?;
                        count += 1;
                    }
                }
                Ok(())
            });
            self.refresh_record(db, key, index);
            return done.map(|()| count);
        }
        let mut form = self.packed_form(Some(entry), value_type);
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
            if let Some((range, row)) = Rows::new(shape, &bytes).find(name) {
                count += 1;
                let member = row.member.to_vec();
                let value = row.value.to_vec();
                let row = Row {
                    member: Element::parse(&member),
                    value: match row.value {
                        Element::Int(value) => Element::Int(value),
                        Element::Bytes(_) => Element::Bytes(&value),
                    },
                    expire_at: at_ms,
                };
                packed::replace(&mut bytes, range, |out| push_row(out, shape, &row));
            }
        }
        let mut stored = Ok(());
        if count > 0 && shape.timed {
            packed::refresh_earliest(&mut bytes, shape);
            stored = self.store_packed(db, key, Some(entry), form, &bytes).map(drop);
        }
        self.give_scratch(bytes);
        stored.map(|()| count)
    }
}
