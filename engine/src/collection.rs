//! Collections of every type: packed or big, and from one to the other.
//!
//! A small collection is packed: its bytes lie in the block of its key, or outside where they do not
//! fit. Past a threshold, or where its type says so, it becomes big, with an index of its own (see
//! `big.rs`), and stays so. A write copies the packed bytes, changes the copy and stores it.
//!
//! The packed form is also how a whole value travels: to another partition, into an effect, from
//! RESTORE and from commands that compute one. However long it is then, the place where it arrives
//! makes it big.

use std::cmp::Ordering;

use encodings::intset::{self, Intset};
use encodings::listpack::{self, Element, Listpack};
use encodings::rdb;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::big::Big;
use crate::block::{Encoding, Form, ValueType, View};
use crate::dict::{Content, Dict};
use crate::effect::{Change, DeleteCause, Effect, Event, Origin, Strings};
use crate::error::{Corrupt, OpError, OutOfMemory};
use crate::heap::{Heap, Outside};
use crate::key::Key;
use crate::list::COUNT_BYTES;
use crate::packed::{self, Row, Rows, Shape, push_row, score_of};
use crate::partition::Partition;
use crate::set::rows_of_integers;
use crate::slab::BlockRef;
use crate::sorted_set::{self, in_order};
use crate::store::fits_inline;
use crate::stream;
use crate::table::Entry;

/// Up to where collections stay packed; the names are those of Redis's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Elements of a list's node, or with -1 to -5 its bytes: 4, 8, 16, 32 or 64 KiB.
    pub list_max_listpack_size: i64,
    /// Fields of a packed hash.
    pub hash_max_listpack_entries: usize,
    /// Bytes of its longest field or value.
    pub hash_max_listpack_value: usize,
    /// Members of an intset.
    pub set_max_intset_entries: usize,
    /// Members of a packed set.
    pub set_max_listpack_entries: usize,
    /// Bytes of its longest member.
    pub set_max_listpack_value: usize,
    /// Members of a packed sorted set.
    pub zset_max_listpack_entries: usize,
    /// Bytes of its longest member.
    pub zset_max_listpack_value: usize,
    /// Bytes of a stream's node; 0 is no limit.
    pub stream_node_max_bytes: usize,
    /// Entries of a stream's node; 0 is no limit.
    pub stream_node_max_entries: usize,
    /// Bytes of a sparse HyperLogLog.
    pub hll_sparse_max_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            list_max_listpack_size: -2,
            hash_max_listpack_entries: 512,
            hash_max_listpack_value: 64,
            set_max_intset_entries: 512,
            set_max_listpack_entries: 128,
            set_max_listpack_value: 64,
            zset_max_listpack_entries: 128,
            zset_max_listpack_value: 64,
            stream_node_max_bytes: 4096,
            stream_node_max_entries: 100,
            hll_sparse_max_bytes: 3000,
        }
    }
}

impl Limits {
    /// Rows, and bytes of the longest part of one, up to which a collection stays packed.
    pub(crate) fn rows(&self, value_type: ValueType) -> (usize, usize) {
        match value_type {
            ValueType::Hash => (self.hash_max_listpack_entries, self.hash_max_listpack_value),
            ValueType::Set => (self.set_max_listpack_entries, self.set_max_listpack_value),
            _ => (self.zset_max_listpack_entries, self.zset_max_listpack_value),
        }
    }

    /// Whether packed rows stay so.
    fn keep_packed(&self, form: Form, rows: Rows<'_>) -> bool {
        let (count_max, len_max) = self.rows(form.value_type);
        let fits = |element: Element<'_>| element.text_len() <= len_max;
        let is_hash = form.value_type == ValueType::Hash;
        let mut count = 0;
        rows.iter().all(|(_, row)| {
            count += 1;
            count <= count_max && fits(row.member) && (!is_hash || fits(row.value))
        })
    }
}

/// Deep check of packed bytes from outside.
pub(crate) fn validate(form: Form, bytes: &[u8]) -> Result<(), Corrupt> {
    let corrupt = |_| Corrupt;
    match (form.value_type, form.encoding) {
        (ValueType::String, Encoding::Bytes | Encoding::Raw) => Ok(()),
        (ValueType::Set, Encoding::Int) => Intset::validate(bytes).map(drop).map_err(corrupt),
        (
            ValueType::Set | ValueType::Hash | ValueType::SortedSet,
            Encoding::Bytes | Encoding::Timed | Encoding::Large | Encoding::LargeTimed,
        ) => validate_rows(form, bytes),
        (ValueType::Stream, Encoding::Bytes) => stream::validate(bytes),
        (ValueType::List, Encoding::Bytes | Encoding::Raw) => {
            Listpack::<false>::validate(bytes).map(drop).map_err(corrupt)
        }
        _ => Err(Corrupt),
    }
}

fn validate_rows(form: Form, bytes: &[u8]) -> Result<(), Corrupt> {
    let shape = Shape::of(form);
    let elements = bytes.get(shape.start()..).ok_or(Corrupt)?;
    let count = Listpack::<false>::validate(elements).map_err(|_| Corrupt)?;
    if count % shape.stride() != 0 {
        return Err(Corrupt);
    }
    let rows = Rows::new(shape, bytes);
    let scored = form.value_type == ValueType::SortedSet;
    let sound = rows.iter().all(|(_, row)| {
        let timed = row.expire_at.is_none_or(|at_ms| at_ms <= packed::FIELD_TIME_MAX_MS);
        timed && (!scored || packed::is_score(row.value))
    });
    let first = rows.iter().filter_map(|(_, row)| row.expire_at).min();
    let sorted = !(scored && sound) || is_sorted(rows);
    let told = !shape.timed || packed::earliest(bytes) == first;
    if sound && sorted && told { Ok(()) } else { Err(Corrupt) }
}

/// Whether packed rows stand in the order of a sorted set; their scores are sound.
fn is_sorted(rows: Rows<'_>) -> bool {
    rows.iter().map(|(_, row)| row).is_sorted_by(|a, b| {
        let (mut room_a, mut room_b) = ([0; 20], [0; 20]);
        let a = (score_of(a.value), a.member.text(&mut room_a));
        in_order(a, (score_of(b.value), b.member.text(&mut room_b))) == Ordering::Less
    })
}

/// A whole value in its packed form: from another key or partition, from a payload of DUMP, or
/// computed.
#[derive(Clone, Copy)]
pub(crate) struct Placed<'a> {
    pub(crate) form: Form,
    pub(crate) value: &'a [u8],
    pub(crate) expire_at: Option<u64>,
}

/// A value from a payload of DUMP in its packed form.
fn pack_restored(value: &rdb::Value, limits: &Limits) -> (Form, Vec<u8>) {
    let mut bytes = Vec::new();
    let none = Element::Int(0);
    match value {
        rdb::Value::String(string) => (Form::string(Encoding::Bytes), string.clone()),
        rdb::Value::List(elements) => {
            for element in elements {
                listpack::push::<false>(&mut bytes, Element::parse(element));
            }
            (Form::new(ValueType::List, Encoding::Bytes), bytes)
        }
        rdb::Value::Set(members) | rdb::Value::ListpackSet(members) => {
            let integers = members.iter().map(|member| match Element::parse(member) {
                Element::Int(value) => Some(value),
                Element::Bytes(_) => None,
            });
            if matches!(value, rdb::Value::Set(_))
                && members.len() <= limits.set_max_intset_entries
                && let Some(mut integers) = integers.collect::<Option<Vec<_>>>()
            {
                integers.sort_unstable();
                for value in integers {
                    intset::insert(&mut bytes, value);
                }
                return (Form::new(ValueType::Set, Encoding::Int), bytes);
            }
            let form = Form::new(ValueType::Set, Encoding::Bytes);
            for member in members {
                let row = Row { member: Element::parse(member), value: none, expire_at: None };
                push_row(&mut bytes, Shape::of(form), &row);
            }
            (form, bytes)
        }
        rdb::Value::SortedSet(members) => {
            let mut pairs: Vec<_> =
                members.iter().map(|(score, member)| (*score, member.as_slice())).collect();
            pairs.sort_unstable_by(|a, b| in_order(*a, *b));
            let form = Form::new(ValueType::SortedSet, Encoding::Bytes);
            (form, sorted_set::pack(pairs.into_iter()))
        }
        rdb::Value::Hash(fields) => {
            let timed = fields.iter().any(|(.., expire_at)| expire_at.is_some());
            let encoding = if timed { Encoding::Timed } else { Encoding::Bytes };
            let form = Form::new(ValueType::Hash, encoding);
            let shape = Shape::of(form);
            bytes.resize(shape.start(), 0);
            for (field, value, expire_at) in fields {
                let (member, value) = (Element::parse(field), Element::parse(value));
                let expire_at = expire_at.map(|at_ms| at_ms.min(packed::FIELD_TIME_MAX_MS));
                push_row(&mut bytes, shape, &Row { member, value, expire_at });
            }
            if timed {
                packed::refresh_earliest(&mut bytes, shape);
            }
            (form, bytes)
        }
        rdb::Value::Stream(stream) => {
            (Form::new(ValueType::Stream, Encoding::Bytes), stream::pack(stream))
        }
    }
}

impl Heap {
    /// A value's packed form, whatever form it has, but for strings that are integers. What is big
    /// is packed in an encoding of what lies outside, and becomes big again where it is stored.
    pub(crate) fn pack(&self, block: BlockRef) -> (Form, Vec<u8>) {
        let view = self.view(block);
        let form = view.form();
        let Outside::Big(index) = Outside::of(view) else {
            let form = Form { encoding: form.encoding.placed(false), ..form };
            let count_bytes = if form.value_type == ValueType::List { COUNT_BYTES } else { 0 };
            return (form, self.packed_bytes(block)[count_bytes..].to_vec());
        };
        match self.bigs.at(index) {
            Big::Dict(dict) => self.pack_dict(dict),
            Big::List(chain) => (Form { encoding: Encoding::Bytes, ..form }, chain.pack(self)),
            Big::Stream(body) => (Form { encoding: Encoding::Bytes, ..form }, body.pack(self)),
        }
    }

    fn pack_dict(&self, dict: &Dict) -> (Form, Vec<u8>) {
        let timed = dict.timed_len() > 0;
        let encoding = if timed { Encoding::LargeTimed } else { Encoding::Large };
        let form = Form::new(dict.value_type, encoding);
        let shape = Shape::of(form);
        let mut bytes = vec![0; shape.start()];
        dict.for_each(self, |row| {
            row.pack(dict.value_type, |row| push_row(&mut bytes, shape, row))
        });
        if timed {
            packed::refresh_earliest(&mut bytes, shape);
        }
        (form, bytes)
    }

    /// Builds the table of a set or a hash from packed rows.
    pub(crate) fn build_dict(&mut self, form: Form, bytes: &[u8]) -> Result<Dict, OutOfMemory> {
        let mut dict = Dict::new(form.value_type);
        for (_, row) in Rows::new(Shape::of(form), bytes).iter() {
            let (mut member_room, mut value_room) = ([0; 20], [0; 20]);
            let content = Content {
                member: row.member.text(&mut member_room),
                value: if form.value_type == ValueType::Hash {
                    row.value.text(&mut value_room)
                } else {
                    &[]
                },
                score: if form.value_type == ValueType::SortedSet {
                    score_of(row.value)
                } else {
                    0.0
                },
                expire_at: row.expire_at,
            };
            if let Err(error) = dict.insert(self, &content) {
                while dict.drain_step(&mut self.slabs, &mut self.larges) {}
                return Err(error);
            }
        }
        dict.recorded = dict.next_ms();
        Ok(dict)
    }
}

impl Partition {
    /// Stores a value from a payload of DUMP over whatever the key holds, with a time if one is given.
    ///
    /// # Errors
    /// [`OpError::OutOfMemory`], [`OpError::TooLarge`]; nothing changed.
    pub fn restore(
        &mut self,
        db: usize,
        key: &Key<'_>,
        value: &rdb::Value,
        expire_at: Option<u64>,
    ) -> Result<(), OpError> {
        let (form, bytes) = pack_restored(value, &self.limits);
        let placed = Placed { form, value: &bytes, expire_at };
        self.place_value(db, key, placed, Origin::Restore)
    }

    /// Stores packed bytes under a key as they are; the key keeps its time.
    pub(crate) fn store_packed(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        form: Form,
        bytes: &[u8],
    ) -> Result<BlockRef, OpError> {
        let expire_at = old.and_then(|old| self.heap.view(old.block).expire_at());
        self.store_packed_until(db, key, old, Placed { form, value: bytes, expire_at })
    }

    /// Stores packed bytes under a key as they are.
    pub(crate) fn store_packed_until(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        placed: Placed<'_>,
    ) -> Result<BlockRef, OpError> {
        let Placed { form, value: bytes, expire_at } = placed;
        let block = if fits_inline(key, bytes.len()) {
            let form = Form { encoding: form.encoding.placed(false), ..form };
            self.put(db, key, old, form, bytes, expire_at)?
        } else {
            let form = Form { encoding: form.encoding.placed(true), ..form };
            let index = self.insert_large(bytes.len(), &[bytes])?;
            let stored = self.put(db, key, old, form, &index.to_le_bytes(), expire_at);
            stored.inspect_err(|_| self.heap.larges.remove(index))?
        };
        let members = self.heap.members_time(block);
        self.retime_members(db, key, None, members);
        Ok(block)
    }

    /// Stores a collection with an index of its own under a key.
    pub(crate) fn store_big(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        big: Big,
        expire_at: Option<u64>,
    ) -> Result<BlockRef, OpError> {
        let value_type = big.value_type();
        let index = self.heap.bigs.add(big);
        let form = Form::new(value_type, Encoding::Big);
        let stored = self.put(db, key, old, form, &index.to_le_bytes(), expire_at);
        let block = stored.inspect_err(|_| self.heap.bigs.remove(index))?;
        let members = self.heap.members_time(block);
        self.retime_members(db, key, None, members);
        Ok(block)
    }

    /// Stores a collection's rows, packed or big as the limits say.
    pub(crate) fn store_rows(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        placed: Placed<'_>,
    ) -> Result<BlockRef, OpError> {
        let Placed { form, value, expire_at } = placed;
        let rows = Rows::new(Shape::of(form), value);
        if !form.encoding.is_large() && self.limits.keep_packed(form, rows) {
            return self.store_packed_until(db, key, old, placed);
        }
        let dict = self.heap.build_dict(form, value)?;
        self.store_big(db, key, old, Big::Dict(dict), expire_at)
    }

    /// Stores a whole value of any type in its packed form.
    pub(crate) fn store_value(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        placed: Placed<'_>,
    ) -> Result<(), OpError> {
        let Placed { form, value, expire_at } = placed;
        match form.value_type {
            ValueType::String => self.store_string(db, key, old, form, value, expire_at),
            ValueType::Set if form.encoding == Encoding::Int => {
                self.store_packed_until(db, key, old, placed).map(drop)
            }
            ValueType::Set | ValueType::Hash | ValueType::SortedSet => {
                self.store_rows(db, key, old, placed).map(drop)
            }
            ValueType::List => self.store_packed_list(db, key, old, value, expire_at),
            ValueType::Stream => {
                let body = stream::Body::unpack(&mut self.heap, value)?;
                self.store_big(db, key, old, Big::Stream(body), expire_at).map(drop)
            }
        }
    }

    /// Stores a value that another key has: what is packed stays so, whatever the limits are now.
    pub(crate) fn store_copy(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        placed: Placed<'_>,
    ) -> Result<(), OpError> {
        let Form { value_type, encoding } = placed.form;
        let is_packed =
            matches!(value_type, ValueType::Set | ValueType::Hash | ValueType::SortedSet);
        if !is_packed || encoding.is_large() {
            return self.store_value(db, key, old, placed);
        }
        self.store_packed_until(db, key, old, placed).map(drop)
    }

    /// Reports a change of a collection. `count` parts of it changed.
    pub(crate) fn report_change(
        &mut self,
        db: usize,
        key: &Key<'_>,
        event: Event,
        change: Change<'_>,
        count: usize,
    ) {
        let dirty = self.effects.dirty + count as u64;
        self.effects.report(&Effect::Change { db: db as u32, key: key.bytes, event, change });
        self.effects.dirty = dirty;
    }

    /// Reports that `count` parts of a collection went, and takes the key away with the last one,
    /// which does not count as another change.
    pub(crate) fn report_removal(
        &mut self,
        db: usize,
        key: &Key<'_>,
        event: Event,
        change: Change<'_>,
        count: usize,
        emptied: bool,
    ) {
        self.report_change(db, key, event, change, count);
        if emptied {
            let dirty = self.effects.dirty;
            let entry = self.find(db, key).expect("the key is still there");
            self.delete_entry(db, key, entry, DeleteCause::Command);
            self.effects.dirty = dirty;
        }
    }

    /// Room for packed values that are being changed, with the bytes of a value if there is one.
    pub(crate) fn take_scratch(&mut self, entry: Option<Entry>) -> Vec<u8> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        if let Some(entry) = entry {
            scratch.extend_from_slice(self.heap.packed_bytes(entry.block));
        }
        scratch
    }

    /// Gives the room back.
    pub(crate) fn give_scratch(&mut self, scratch: Vec<u8>) {
        /// More room than this is not kept.
        const KEPT_BYTES_MAX: usize = 64 << 10;
        if scratch.capacity() <= KEPT_BYTES_MAX {
            self.scratch = scratch;
        }
    }

    /// Lets members go whose time is over. `None` when there were none; else the key's entry, which
    /// may be gone with its last member.
    #[cold]
    pub(crate) fn expire_due_members(
        &mut self,
        db: usize,
        key: &Key<'_>,
        entry: Entry,
    ) -> Option<Option<Entry>> {
        self.heap.members_time(entry.block).filter(|&at_ms| at_ms < self.now_ms)?;
        let view = self.heap.view(entry.block);
        let event = match view.value_type() {
            ValueType::Hash => Event::Hexpired,
            ValueType::Set => Event::Sexpired,
            _ => Event::Zexpired,
        };
        let mut gone = Vec::new();
        let (left, count) = match Outside::of(view) {
            Outside::Big(index) => self.expire_in_big(db, key, index, &mut gone),
            _ => self.expire_in_packed(db, key, entry, &mut gone),
        };
        if count > 0 {
            let change = Change::Remove { members: Strings::new(&gone) };
            self.report_removal(db, key, event, change, count, left == 0);
            self.stats.expired_members += count as u64;
        }
        Some(self.find(db, key))
    }

    fn expire_in_packed(
        &mut self,
        db: usize,
        key: &Key<'_>,
        entry: Entry,
        gone: &mut Vec<u8>,
    ) -> (usize, usize) {
        let form = self.heap.view(entry.block).form();
        let shape = Shape::of(form);
        let old = self.take_scratch(Some(entry));
        let (mut bytes, mut left, mut count) = (vec![0; shape.start()], 0, 0);
        for (_, row) in Rows::new(shape, &old).iter() {
            if row.expire_at.is_some_and(|at_ms| at_ms < self.now_ms) {
                Strings::push(gone, row.member.text(&mut [0; 20]));
                count += 1;
            } else {
                push_row(&mut bytes, shape, &row);
                left += 1;
            }
        }
        self.give_scratch(old);
        if left == 0 {
            return (left, count);
        }
        packed::refresh_earliest(&mut bytes, shape);
        // What got shorter needs no more memory than is at hand, or stays as it is till the next look.
        match self.store_packed(db, key, Some(entry), form, &bytes) {
            Ok(_) => (left, count),
            Err(_) => (left, 0),
        }
    }

    fn expire_in_big(
        &mut self,
        db: usize,
        key: &Key<'_>,
        index: u32,
        gone: &mut Vec<u8>,
    ) -> (usize, usize) {
        let now_ms = self.now_ms;
        let (before, after, left, count) = self.heap.with_big(index, |big, heap| {
            let before = big.recorded();
            let count = big.expire_members(heap, now_ms, gone);
            (before, big.recorded(), big.len(), count)
        });
        self.retime_members(db, key, before, after);
        (left, count)
    }

    /// Makes a big collection's record of its members' times agree with them.
    pub(crate) fn refresh_record(&mut self, db: usize, key: &Key<'_>, index: u32) {
        let big = self.heap.bigs.at(index);
        let (before, next) = (big.recorded(), big.next_ms());
        // A record that is too early is put right when it comes due.
        let after = match (before, next) {
            (Some(before), Some(next)) => Some(before.min(next)),
            (_, next) => next,
        };
        if before != after {
            self.heap.with_big(index, |big, _| big.set_recorded(after));
            self.retime_members(db, key, before, after);
        }
    }
}

/// A number that two packed values share when they hold the same, whatever the order of a set's or a
/// hash's rows.
pub(crate) fn digest(form: Form, bytes: &[u8]) -> u64 {
    let row_digest = |row: &packed::Row<'_>| {
        let mut hash = Xxh3::new();
        for element in [row.member, row.value] {
            let mut room = [0; 20];
            let text = element.text(&mut room);
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        hash.update(&row.expire_at.unwrap_or(0).to_le_bytes());
        hash.digest()
    };
    match form.value_type {
        ValueType::Set if form.encoding == Encoding::Int => {
            digest(Form::new(ValueType::Set, Encoding::Bytes), &rows_of_integers(bytes))
        }
        ValueType::Set | ValueType::Hash | ValueType::SortedSet => {
            Rows::new(Shape::of(form), bytes)
                .iter()
                .fold(form.value_type as u64, |sum, (_, row)| sum.wrapping_add(row_digest(&row)))
        }
        ValueType::Stream => stream::digest(bytes),
        ValueType::String | ValueType::List => xxh3_64(bytes),
    }
}

/// The word that OBJECT ENCODING answers.
pub(crate) fn encoding_name(heap: &Heap, block: BlockRef) -> &'static str {
    let view: View<'_> = heap.view(block);
    match (view.value_type(), view.encoding()) {
        (ValueType::String, _) => crate::string::encoding_name(view),
        (ValueType::Stream, _) => "stream",
        (ValueType::Set, Encoding::Int | Encoding::LargeInt) => "intset",
        (ValueType::Hash, Encoding::Timed | Encoding::LargeTimed) => "listpackex",
        (ValueType::SortedSet, Encoding::Big) => "skiplist",
        (ValueType::List, Encoding::Raw) => "quicklist",
        (ValueType::List, Encoding::Big)
            if heap.bigs.at(view.outside_index()).chain().is_quicklist =>
        {
            "quicklist"
        }
        (ValueType::List, _) => "listpack",
        (_, Encoding::Big) => "hashtable",
        _ => "listpack",
    }
}
