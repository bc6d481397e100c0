//! Streams: entries in the order of their ids, and groups of consumers that are given them.
//!
//! A stream is always big: its entries lie in packed nodes (`nodes.rs`), its groups beside them
//! (`groups.rs`). On its way elsewhere it is packed as an RDB file has it. This file reads; `change.rs`
//! changes, and `trim.rs` tells what trimming takes.
//!
//! Which entries a group has not been given yet follows from ids, unless something was deleted in
//! between; [`Stream::lag`] and [`Stream::entries_up_to`] count them as Redis does, with the same cases
//! in which that cannot be told.

mod change;
mod groups;
mod nodes;
mod ordered;
mod trim;

use encodings::rdb;
use encodings::stream::Entry;
pub use encodings::stream::StreamId;
use xxhash_rust::xxh3::Xxh3;

pub use self::change::{Added, Deletion, Delivery, NewId};
pub use self::groups::{Consumer, Group, Pending};
pub use self::trim::{Keep, References, Trim};

use self::groups::Groups;
use self::nodes::Nodes;
use crate::block::ValueType;
use crate::error::{Corrupt, OpError, OutOfMemory};
use crate::heap::Heap;
use crate::key::Key;
use crate::large::Larges;
use crate::partition::{Look, Partition};
use crate::slab::Slabs;

/// A stream as the heap keeps it.
#[derive(Default)]
pub(crate) struct Body {
    nodes: Nodes,
    groups: Groups,
    last_id: StreamId,
    max_deleted_id: StreamId,
    entries_added: u64,
}

impl Body {
    /// Entries that are there.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Bytes outside of slab blocks and of large values.
    pub(crate) fn outside_bytes(&self) -> usize {
        self.nodes.outside_bytes() + self.groups.outside_bytes()
    }

    /// Bytes of its nodes.
    pub(crate) fn node_bytes(&self, heap: &Heap) -> usize {
        self.nodes.node_bytes(heap)
    }

    /// Frees a bounded piece; false once nothing is left.
    pub(crate) fn drain_step(&mut self, slabs: &mut Slabs, larges: &mut Larges) -> bool {
        self.nodes.drain_step(slabs, larges) || self.groups.drain_step()
    }

    /// Moves some nodes out of spans that are marked sparse; where to go on.
    pub(crate) fn move_out(
        &mut self,
        slabs: &mut Slabs,
        position: usize,
        moved: &mut u64,
    ) -> Option<usize> {
        self.nodes.move_out(slabs, position, moved)
    }

    /// Checks every relation inside.
    ///
    /// # Panics
    /// When one does not hold.
    pub(crate) fn validate(&self, heap: &Heap) {
        self.nodes.validate(heap);
        self.groups.validate();
        assert!(self.nodes.last_id(heap).is_none_or(|last| last <= self.last_id));
    }

    /// A stream from its packed form.
    ///
    /// # Panics
    /// When the bytes have not passed [`validate`].
    pub(crate) fn unpack(heap: &mut Heap, packed: &[u8]) -> Result<Body, OutOfMemory> {
        let stream = read(packed).expect("the bytes were validated or written here");
        Ok(Body {
            nodes: Nodes::load(heap, &stream.nodes)?,
            groups: Groups::load(&stream.groups),
            last_id: stream.last_id,
            max_deleted_id: stream.max_deleted_id,
            entries_added: stream.entries_added,
        })
    }

    /// Its packed form.
    pub(crate) fn pack(&self, heap: &Heap) -> Vec<u8> {
        pack(&Stream { heap, body: self }.to_rdb())
    }
}

fn read(packed: &[u8]) -> Result<rdb::Stream, encodings::Corrupt> {
    let mut rest = packed;
    let stream = rdb::read_stream(rdb::TYPE_STREAM_3, &mut rest);
    let stream = stream.map_err(|_| encodings::Corrupt)?;
    if rest.is_empty() { Ok(stream) } else { Err(encodings::Corrupt) }
}

/// The packed form of a stream from elsewhere.
pub(crate) fn pack(stream: &rdb::Stream) -> Vec<u8> {
    let mut packed = Vec::new();
    rdb::write_stream(&mut packed, stream, false);
    packed
}

/// Deep check of a packed stream from outside.
pub(crate) fn validate(packed: &[u8]) -> Result<(), Corrupt> {
    read(packed).map(drop).map_err(|_| Corrupt)
}

/// A number that two packed streams share when they hold the same, however entries are spread over
/// nodes. When consumers were seen does not count: asking for something changes nothing.
pub(crate) fn digest(packed: &[u8]) -> u64 {
    let Ok(stream) = read(packed) else { return 0 };
    let mut hash = Xxh3::new();
    let mut add_text = |text: &[u8]| {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    for node in &stream.nodes {
        let entries = encodings::stream::Node::new(node.id, &node.bytes).entries();
        for entry in entries.filter(|entry| !entry.is_deleted) {
            add_text(&entry.id.to_bytes());
            let mut room = [0; 20];
            for (field, value) in entry.pairs {
                add_text(field.text(&mut room));
                add_text(value.text(&mut room));
            }
        }
    }
    for group in &stream.groups {
        add_text(&group.name);
        add_text(&group.last_id.to_bytes());
        add_text(&group.entries_read.unwrap_or(u64::MAX).to_le_bytes());
        for rdb::Pending { id, delivered_ms, deliveries, consumer } in &group.pending {
            add_text(&id.to_bytes());
            add_text(&delivered_ms.to_le_bytes());
            add_text(&deliveries.to_le_bytes());
            add_text(&group.consumers[*consumer].name);
        }
        group.consumers.iter().for_each(|consumer| add_text(&consumer.name));
    }
    add_text(&stream.last_id.to_bytes());
    add_text(&stream.max_deleted_id.to_bytes());
    add_text(&stream.entries_added.to_le_bytes());
    hash.digest()
}

/// A stream, to be read.
#[derive(Clone, Copy)]
pub struct Stream<'a> {
    heap: &'a Heap,
    body: &'a Body,
}

impl<'a> Stream<'a> {
    pub(crate) fn of(heap: &'a Heap, body: &'a Body) -> Stream<'a> {
        Stream { heap, body }
    }

    /// Entries that are there.
    pub fn len(&self) -> usize {
        self.body.nodes.len()
    }

    /// True without any; such a stream may stay.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The id of the first entry that is there; the smallest id without any.
    pub fn first_id(&self) -> StreamId {
        self.body.nodes.first_id()
    }

    /// The largest id that it has had.
    pub fn last_id(&self) -> StreamId {
        self.body.last_id
    }

    /// The largest id among entries that were deleted.
    pub fn max_deleted_id(&self) -> StreamId {
        self.body.max_deleted_id
    }

    /// Entries that it has ever had.
    pub fn entries_added(&self) -> u64 {
        self.body.entries_added
    }

    /// How many packed nodes it has.
    pub fn nodes_len(&self) -> usize {
        self.body.nodes.nodes_len()
    }

    /// The ids of its packed nodes.
    pub fn node_ids(&self) -> impl Iterator<Item = StreamId> + 'a {
        self.body.nodes.ids()
    }

    /// The entry with an id.
    pub fn get(&self, id: StreamId) -> Option<Entry<'a>> {
        self.body.nodes.get(self.heap, id)
    }

    /// The entries from one id to another, both included.
    pub fn range(
        &self,
        start: StreamId,
        end: StreamId,
    ) -> impl Iterator<Item = Entry<'a>> + Clone + use<'a> {
        self.body.nodes.range(self.heap, start, end)
    }

    /// The same, the last one first.
    pub fn range_back(
        &self,
        start: StreamId,
        end: StreamId,
    ) -> impl Iterator<Item = Entry<'a>> + Clone + use<'a> {
        self.body.nodes.range_back(self.heap, start, end)
    }

    /// How many groups it has.
    pub fn groups_len(&self) -> usize {
        self.body.groups.len()
    }

    /// Its groups in the order of their names.
    pub fn groups(&self) -> impl Iterator<Item = &'a Group> + use<'a> {
        self.body.groups.iter()
    }

    /// A group by its name.
    pub fn group(&self, name: &[u8]) -> Option<&'a Group> {
        self.body.groups.get(name)
    }

    /// How many entries a group has not been given yet, if that can be told.
    pub fn lag(&self, group: &Group) -> Option<i64> {
        self.body.lag(group)
    }

    /// How many entries there were up to an id, if that can be told.
    pub fn entries_up_to(&self, id: StreamId) -> Option<u64> {
        self.body.entries_up_to(id)
    }

    /// The stream as an RDB file has it.
    pub fn to_rdb(&self) -> rdb::Stream {
        let nodes = self.body.nodes.nodes(self.heap);
        let nodes = nodes
            .map(|(id, bytes, counts)| rdb::StreamNode { id, bytes: bytes.to_vec(), counts })
            .collect();
        rdb::Stream {
            nodes,
            last_id: self.body.last_id,
            max_deleted_id: self.body.max_deleted_id,
            entries_added: self.body.entries_added,
            groups: self.body.groups.save(),
        }
    }
}

impl Body {
    /// Whether an entry may have been deleted after an id.
    fn has_tombstones_after(&self, id: StreamId) -> bool {
        self.len() > 0 && self.max_deleted_id != StreamId::MIN && id <= self.max_deleted_id
    }

    fn lag(&self, group: &Group) -> Option<i64> {
        if self.entries_added == 0 || self.len() == 0 {
            return Some(0);
        }
        let first_id = self.nodes.first_id();
        if group.last_id < first_id && self.max_deleted_id < first_id {
            return Some(self.len() as i64);
        }
        let read = match group.entries_read {
            Some(read) if !self.has_tombstones_after(group.last_id) => Some(read),
            _ => self.entries_up_to(group.last_id),
        };
        read.map(|read| self.entries_added.wrapping_sub(read).cast_signed())
    }

    fn entries_up_to(&self, id: StreamId) -> Option<u64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        let (len, first_id) = (self.len() as u64, self.nodes.first_id());
        if len == 0 && id <= self.last_id || id == self.last_id {
            return Some(self.entries_added);
        }
        if id != StreamId::MIN && id < self.max_deleted_id || id > self.last_id {
            return None;
        }
        if self.max_deleted_id != StreamId::MIN && self.max_deleted_id >= first_id {
            return None;
        }
        let before = self.entries_added.wrapping_sub(len);
        match id.cmp(&first_id) {
            std::cmp::Ordering::Less => Some(before),
            std::cmp::Ordering::Equal => Some(before + 1),
            std::cmp::Ordering::Greater => None,
        }
    }
}

impl Partition {
    /// The stream at a key, `None` without the key. Counts as a read.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn stream(&mut self, db: usize, key: &Key<'_>) -> Result<Option<Stream<'_>>, OpError> {
        self.find_stream(db, key, Look::Read)
    }

    /// As [`Partition::stream`], but without a trace in statistics and access stamp.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn stream_look(&mut self, db: usize, key: &Key<'_>) -> Result<Option<Stream<'_>>, OpError> {
        self.find_stream(db, key, Look::Silent)
    }

    fn find_stream(
        &mut self,
        db: usize,
        key: &Key<'_>,
        look: Look,
    ) -> Result<Option<Stream<'_>>, OpError> {
        let found = self.lookup_as(db, key, look, ValueType::Stream)?;
        Ok(found.map(|entry| {
            let index = self.heap.view(entry.block).outside_index();
            Stream::of(&self.heap, self.heap.bigs.at(index).stream())
        }))
    }
}
