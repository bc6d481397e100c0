//! Hashes: fields with values, and with times of their own.

use crate::big::Big;
use crate::block::{Encoding, Form, ValueType};
use crate::dict::{Content, Dict};
use crate::effect::{Change, Event, Strings};
use crate::error::OpError;
use crate::heap::{Heap, Outside};
use crate::key::Key;
use crate::members::Members;
use crate::packed::{self, Row, Rows, Shape, push_row};
use crate::partition::{Look, Partition};
use crate::table::Entry;
use encodings::listpack::Element;

/// A field with its value.
pub type Pair<'a> = (&'a [u8], &'a [u8]);

impl Partition {
    /// The fields at a key, `None` without the key. Counts as a read.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    #[inline]
    pub fn hash(&mut self, db: usize, key: &Key<'_>) -> Result<Option<Members<'_>>, OpError> {
        self.members(db, key, ValueType::Hash)
    }

    /// As [`Partition::hash`], but without a trace in statistics and access stamp.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn hash_look(&mut self, db: usize, key: &Key<'_>) -> Result<Option<Members<'_>>, OpError> {
        self.members_look(db, key, ValueType::Hash)
    }

    /// Gives fields values, creating the key, and answers how many fields are new. The times of
    /// fields that were there go, unless `keeps_times`.
    ///
    /// # Errors
    /// [`OpError::WrongType`]; [`OpError::OutOfMemory`], and then some fields may have their values.
    pub fn hash_set<'p>(
        &mut self,
        db: usize,
        key: &Key<'_>,
        pairs: impl Iterator<Item = Pair<'p>> + Clone,
        keeps_times: bool,
        event: Event,
    ) -> Result<usize, OpError> {
        let old = self.lookup_as(db, key, Look::Write, ValueType::Hash)?;
        let (count_max, len_max) = self.limits.rows(ValueType::Hash);
        let fits = pairs.clone().count() <= count_max
            && pairs.clone().all(|(field, value)| field.len() <= len_max && value.len() <= len_max);
        let (set, result) = match old.map(|old| Outside::of(self.heap.view(old.block))) {
            Some(Outside::Big(index)) => {
                self.hash_set_big(db, key, index, pairs.clone(), keeps_times)
            }
            _ if fits => self.hash_set_packed(db, key, old, pairs.clone(), keeps_times),
            _ => self.hash_set_outgrown(db, key, old, pairs.clone(), keeps_times),
        };
        if set > 0 {
            let mut strings = Vec::new();
            if self.effects.listening {
                pairs.take(set).for_each(|(field, value)| {
                    Strings::push(&mut strings, field);
                    Strings::push(&mut strings, value);
                });
            }
            let change = Change::HashSet { pairs: Strings::new(&strings), keeps_times };
            self.report_change(db, key, event, change, set);
        }
        result
    }

    /// How many pairs were set, and the answer.
    fn hash_set_packed<'p>(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        pairs: impl Iterator<Item = Pair<'p>>,
        keeps_times: bool,
    ) -> (usize, Result<usize, OpError>) {
        let form = match old {
            Some(old) => self.packed_form(old),
            None => Form::new(ValueType::Hash, Encoding::Bytes),
        };
        let shape = Shape::of(form);
        let mut bytes = self.take_scratch(old);
        let (mut set, mut added) = (0, 0);
        for (field, value) in pairs {
            added += usize::from(upsert(&mut bytes, shape, field, value, keeps_times));
            set += 1;
        }
        if shape.timed {
            packed::refresh_earliest(&mut bytes, shape);
        }
        let stored = if added > 0 {
            // What was there may be over the limits, which a change of them does not touch.
            let count = Rows::new(shape, &bytes).len();
            self.store_hash(db, key, old, form, &bytes, count)
        } else {
            self.store_packed(db, key, old, form, &bytes).map(drop)
        };
        self.give_scratch(bytes);
        match stored {
            Ok(()) => (set, Ok(added)),
            Err(error) => (0, Err(error)),
        }
    }

    fn store_hash(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        form: Form,
        bytes: &[u8],
        count: usize,
    ) -> Result<(), OpError> {
        if count <= self.limits.hash_max_listpack_entries {
            return self.store_packed(db, key, old, form, bytes).map(drop);
        }
        let expire_at = old.and_then(|old| self.heap.view(old.block).expire_at());
        let dict = self.heap.build_dict(form, bytes)?;
        self.store_big(db, key, old, Big::Dict(dict), expire_at).map(drop)
    }

    /// Sets pairs that a packed hash, or none, has no room for.
    fn hash_set_outgrown<'p>(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        pairs: impl Iterator<Item = Pair<'p>>,
        keeps_times: bool,
    ) -> (usize, Result<usize, OpError>) {
        let made = self.make_big(db, key, old, ValueType::Hash);
        let index = match made {
            Ok(index) => index,
            Err(error) => return (0, Err(error)),
        };
        let answer = self.hash_set_big(db, key, index, pairs, keeps_times);
        if answer.0 == 0 && old.is_none() {
            let entry = self.find(db, key).expect("it was stored");
            self.unlink(db, key, entry);
            self.heap.free(entry.block);
        }
        answer
    }

    fn hash_set_big<'p>(
        &mut self,
        db: usize,
        key: &Key<'_>,
        index: u32,
        pairs: impl Iterator<Item = Pair<'p>>,
        keeps_times: bool,
    ) -> (usize, Result<usize, OpError>) {
        let (mut set, mut added) = (0, 0);
        let result = self.heap.with_big(index, |big, heap| {
            let dict = big.dict_mut();
            for (field, value) in pairs {
                added += usize::from(set_field(dict, heap, field, value, keeps_times)?);
                set += 1;
            }
            Ok(added)
        });
        self.refresh_record(db, key, index);
        (set, result)
    }
}

/// Gives a packed field a value; true when it is new.
fn upsert(bytes: &mut Vec<u8>, shape: Shape, field: &[u8], value: &[u8], keeps_time: bool) -> bool {
    let found = Rows::new(shape, bytes).find(field);
    let is_new = found.is_none();
    let (range, kept) = match found {
        Some((range, row)) => (range, row.expire_at.filter(|_| keeps_time)),
        None => (bytes.len()..bytes.len(), None),
    };
    let row = Row { member: Element::parse(field), value: Element::parse(value), expire_at: kept };
    packed::replace(bytes, range, |out| push_row(out, shape, &row));
    is_new
}

/// Gives a field of a big hash a value; true when it is new.
fn set_field(
    dict: &mut Dict,
    heap: &mut Heap,
    field: &[u8],
    value: &[u8],
    keeps_time: bool,
) -> Result<bool, OpError> {
    let mut content = Content { member: field, value, score: 0.0, expire_at: None };
    let Some(entry) = dict.find(heap, field) else {
        dict.insert(heap, &content)?;
        return Ok(true);
    };
    if keeps_time {
        content.expire_at = dict.cell(&heap.slabs, entry.block).expire_at;
    }
    dict.replace(heap, entry, &content)?;
    Ok(false)
}
