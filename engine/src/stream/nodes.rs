//! The entries of a stream: packed nodes, and an index of them by their first id.
//!
//! ```text
//! node    the bytes that `encodings::stream` draws, in a slab block with room behind them, or outside
//!         the slabs where they do not fit one
//! index   id of the node's first entry | where its bytes are | how many, and the counts
//! ```
//!
//! An entry is added to the last node until that is full as Redis would have it, so that trimming by
//! whole nodes takes the same ones. The last node has room for what comes; it gives that back when the
//! next one is begun. A deleted entry is only marked, and its node goes with the last one that is
//! there.
//!
//! Invariants, checked by [`Nodes::validate`]: every node has an entry that is there; its counts are
//! those of its bytes; nodes do not overlap; `len` is the sum over the nodes, `first_id` the first
//! entry that is there.

use encodings::stream::{self, Counts, Entry, StreamId};
use smallvec::SmallVec;

use super::ordered::Ordered;
use crate::collection::Limits;
use crate::error::OutOfMemory;
use crate::heap::Heap;
use crate::large::Larges;
use crate::slab::{BLOCK_BYTES_MAX, BlockRef, Slabs, block_bytes_for};

/// Most bytes of a node in Redis's form, whatever the limits say.
pub(crate) const NODE_BYTES_MAX: usize = 1 << 30;

#[derive(Clone, Copy, Debug)]
enum Place {
    Block(BlockRef),
    Large(u32),
}

/// What the index knows of a node.
#[derive(Clone, Copy, Debug)]
struct Node {
    place: Place,
    used: u32,
    live: u32,
    deleted: u32,
    redis_elements: u32,
}

impl Node {
    fn bytes<'a>(&self, heap: &'a Heap) -> &'a [u8] {
        match self.place {
            Place::Block(block) => &heap.slabs.block(block)[..self.used as usize],
            Place::Large(index) => heap.larges.bytes(index),
        }
    }

    fn read<'a>(&self, heap: &'a Heap, id: StreamId) -> stream::Node<'a> {
        stream::Node::new(id, self.bytes(heap))
    }

    fn counts(&self) -> Counts {
        Counts {
            live: self.live as usize,
            deleted: self.deleted as usize,
            redis_elements: self.redis_elements as usize,
        }
    }

    /// Whether Redis would begin a new node for an entry whose texts have so many bytes.
    fn is_full(&self, limits: &Limits, bytes: usize) -> bool {
        let bytes_max = match limits.stream_node_max_bytes {
            0 => NODE_BYTES_MAX,
            limit => limit.min(NODE_BYTES_MAX),
        };
        let entries_max = limits.stream_node_max_entries;
        let counts = self.counts();
        counts.redis_bytes().saturating_add(bytes) >= bytes_max
            || entries_max > 0 && counts.live + counts.deleted >= entries_max
    }
}

/// See the top of the file.
#[derive(Default)]
pub(crate) struct Nodes {
    index: Ordered<StreamId, Node>,
    len: usize,
    first_id: StreamId,
}

/// Puts bytes into a block of at least `room` bytes, or outside.
fn place(heap: &mut Heap, parts: [&[u8]; 2], room: usize) -> Result<Place, OutOfMemory> {
    let used = parts[0].len() + parts[1].len();
    if used > BLOCK_BYTES_MAX {
        return Ok(Place::Large(heap.larges.insert(used, &parts)?));
    }
    let block = heap.slabs.alloc(room.clamp(used, BLOCK_BYTES_MAX))?;
    let target = heap.slabs.block_mut(block);
    target[..parts[0].len()].copy_from_slice(parts[0]);
    target[parts[0].len()..used].copy_from_slice(parts[1]);
    Ok(Place::Block(block))
}

fn free(slabs: &mut Slabs, larges: &mut Larges, place: Place) {
    match place {
        Place::Block(block) => slabs.free(block),
        Place::Large(index) => larges.remove(index),
    }
}

impl Nodes {
    /// Entries that are there.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The id of the first entry that is there; the smallest id without any.
    pub(crate) fn first_id(&self) -> StreamId {
        self.first_id
    }

    /// How many nodes.
    pub(crate) fn nodes_len(&self) -> usize {
        self.index.len()
    }

    /// The ids of the nodes.
    pub(crate) fn ids(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.index.iter().map(|(id, _)| id)
    }

    /// The largest id of an entry, deleted ones too.
    pub(crate) fn last_id(&self, heap: &Heap) -> Option<StreamId> {
        let (id, node) = self.index.last()?;
        node.read(heap, id).entries().last().map(|entry| entry.id)
    }

    /// Every node with its counts.
    pub(crate) fn nodes<'a>(
        &'a self,
        heap: &'a Heap,
    ) -> impl Iterator<Item = (StreamId, &'a [u8], Counts)> + 'a {
        self.index.iter().map(|(id, node)| (id, node.bytes(heap), node.counts()))
    }

    /// Bytes outside of slab blocks and of large values.
    pub(crate) fn outside_bytes(&self) -> usize {
        self.index.outside_bytes()
    }

    /// Bytes of its nodes.
    pub(crate) fn node_bytes(&self, heap: &Heap) -> usize {
        let bytes = |node: &Node| match node.place {
            Place::Block(block) => heap.slabs.block_bytes(block),
            Place::Large(index) => heap.larges.capacity(index),
        };
        self.index.iter().map(|(_, node)| bytes(node)).sum()
    }

    /// Adds an entry behind all others.
    pub(crate) fn append<'p>(
        &mut self,
        heap: &mut Heap,
        limits: &Limits,
        id: StreamId,
        pairs: impl ExactSizeIterator<Item = (&'p [u8], &'p [u8])> + Clone,
    ) -> Result<(), OutOfMemory> {
        let bytes = pairs.clone().map(|(field, value)| field.len() + value.len()).sum();
        let last = self.index.last().map(|(id, node)| (id, *node));
        match last.filter(|(_, node)| !node.is_full(limits, bytes)) {
            Some((node_id, node)) => self.extend(heap, node_id, node, id, pairs)?,
            None => {
                self.begin(heap, id, pairs)?;
                if let Some((full, node)) = last {
                    self.give_room_back(heap, full, node);
                }
            }
        }
        self.len += 1;
        if self.len == 1 {
            self.first_id = id;
        }
        Ok(())
    }

    /// Begins a node with an entry.
    fn begin<'p>(
        &mut self,
        heap: &mut Heap,
        id: StreamId,
        pairs: impl ExactSizeIterator<Item = (&'p [u8], &'p [u8])> + Clone,
    ) -> Result<(), OutOfMemory> {
        let mut bytes = Vec::new();
        let fields = pairs.clone().map(|(field, _)| field);
        let mut redis_elements = stream::push_fields(&mut bytes, fields);
        let mut entry = Vec::new();
        let empty = stream::Node::new(id, &bytes);
        redis_elements += stream::push_entry(&mut entry, &empty, id, pairs);
        let place = place(heap, [&bytes, &entry], 0)?;
        let used = (bytes.len() + entry.len()) as u32;
        let redis_elements = redis_elements as u32;
        self.index.insert(id, Node { place, used, live: 1, deleted: 0, redis_elements });
        Ok(())
    }

    /// Adds an entry to the last node.
    fn extend<'p>(
        &mut self,
        heap: &mut Heap,
        node_id: StreamId,
        mut node: Node,
        id: StreamId,
        pairs: impl ExactSizeIterator<Item = (&'p [u8], &'p [u8])> + Clone,
    ) -> Result<(), OutOfMemory> {
        let mut entry = Vec::new();
        let redis = stream::push_entry(&mut entry, &node.read(heap, node_id), id, pairs);
        let (used, needed) = (node.used as usize, node.used as usize + entry.len());
        match node.place {
            Place::Block(block) if needed <= heap.slabs.block_bytes(block) => {
                heap.slabs.block_mut(block)[used..needed].copy_from_slice(&entry);
            }
            Place::Block(block) => {
                let old: SmallVec<[u8; BLOCK_BYTES_MAX]> = SmallVec::from_slice(node.bytes(heap));
                node.place = place(heap, [&old, &entry], needed + needed / 4)?;
                heap.slabs.free(block);
            }
            Place::Large(index) => {
                heap.larges.resize(index, needed)?;
                heap.larges.bytes_mut(index)[used..].copy_from_slice(&entry);
            }
        }
        node.used = needed as u32;
        node.live += 1;
        node.redis_elements += redis as u32;
        *self.node_mut(node_id) = node;
        Ok(())
    }

    fn node_mut(&mut self, id: StreamId) -> &mut Node {
        self.index.get_mut(id).expect("the index told this id")
    }

    /// Gives a node that nothing is added to any more the smallest place that holds it.
    fn give_room_back(&mut self, heap: &mut Heap, id: StreamId, node: Node) {
        let room = match node.place {
            Place::Block(block) => {
                heap.slabs.block_bytes(block) - block_bytes_for(node.used as usize)
            }
            Place::Large(index) => heap.larges.capacity(index) - node.used as usize,
        };
        if room == 0 {
            return;
        }
        let bytes: SmallVec<[u8; BLOCK_BYTES_MAX]> = SmallVec::from_slice(node.bytes(heap));
        // Without memory it stays where it is.
        if let Ok(place) = place(heap, [&bytes, &[]], 0) {
            free(&mut heap.slabs, &mut heap.larges, node.place);
            self.node_mut(id).place = place;
        }
    }

    /// The entry with an id, if it is there.
    pub(crate) fn get<'a>(&'a self, heap: &'a Heap, id: StreamId) -> Option<Entry<'a>> {
        self.range(heap, id, id).next()
    }

    /// The entries from one id to another, both included.
    pub(crate) fn range<'a>(
        &'a self,
        heap: &'a Heap,
        start: StreamId,
        end: StreamId,
    ) -> impl Iterator<Item = Entry<'a>> + Clone + 'a {
        let from = self.index.floor(start).map_or(start, |(id, _)| id);
        let nodes = self.index.iter_from(from).take_while(move |(id, _)| *id <= end);
        nodes
            .flat_map(move |(id, node)| node.read(heap, id).entries())
            .skip_while(move |entry| entry.id < start)
            .take_while(move |entry| entry.id <= end)
            .filter(|entry| !entry.is_deleted)
    }

    /// The same, the last one first.
    pub(crate) fn range_back<'a>(
        &'a self,
        heap: &'a Heap,
        start: StreamId,
        end: StreamId,
    ) -> impl Iterator<Item = Entry<'a>> + Clone + 'a {
        let nodes = self.index.iter_back(end).flat_map(move |(id, node)| {
            let node = node.read(heap, id);
            let mut offsets: SmallVec<[u32; 128]> = SmallVec::new();
            let entries = node.entries().take_while(|entry| entry.id <= end);
            let there = entries.filter(|entry| !entry.is_deleted);
            offsets.extend(there.map(|entry| entry.offset as u32));
            let read = move |offset| node.entries_from(offset as usize).next();
            offsets.into_iter().rev().filter_map(read)
        });
        nodes.take_while(move |entry| entry.id >= start)
    }

    /// Marks an entry as deleted; false if it is not there.
    pub(crate) fn delete(&mut self, heap: &mut Heap, id: StreamId) -> bool {
        let Some((node_id, node)) = self.index.floor(id).map(|(id, node)| (id, *node)) else {
            return false;
        };
        let mut entries = node.read(heap, node_id).entries();
        let found = entries.find(|entry| entry.id >= id);
        let Some(offset) = found.filter(|found| found.id == id && !found.is_deleted) else {
            return false;
        };
        self.mark(heap, node_id, node, &[offset.offset as u32]);
        if id == self.first_id {
            self.find_first(heap);
        }
        true
    }

    /// Drops deleted entries behind an id from the last node, so that ids before theirs may come.
    pub(crate) fn forget_after(&mut self, heap: &mut Heap, id: StreamId) {
        let Some((node_id, mut node)) = self.index.last().map(|(id, node)| (id, *node)) else {
            return;
        };
        let read = node.read(heap, node_id);
        let Some(first) = read.entries().find(|entry| entry.id > id) else { return };
        let gone = read.entries_from(first.offset);
        debug_assert!(gone.clone().all(|entry| entry.is_deleted), "entries are before the last id");
        node.deleted -= gone.count() as u32;
        node.used = first.offset as u32;
        if let Place::Large(index) = node.place
            && heap.larges.resize(index, first.offset).is_err()
        {
            return;
        }
        let counts = stream::Node::validate(node_id, node.bytes(heap));
        let counts = counts.expect("entries that were sound before those that go");
        node.redis_elements = counts.redis_elements as u32;
        *self.node_mut(node_id) = node;
    }

    /// Marks entries of a node as deleted, or frees it with the last one.
    fn mark(&mut self, heap: &mut Heap, id: StreamId, node: Node, offsets: &[u32]) {
        self.len -= offsets.len();
        if offsets.len() == node.live as usize {
            self.index.remove(id);
            return free(&mut heap.slabs, &mut heap.larges, node.place);
        }
        let bytes = match node.place {
            Place::Block(block) => heap.slabs.block_mut(block),
            Place::Large(index) => heap.larges.bytes_mut(index),
        };
        offsets.iter().for_each(|offset| stream::mark_deleted(bytes, *offset as usize));
        let known = self.node_mut(id);
        known.live -= offsets.len() as u32;
        known.deleted += offsets.len() as u32;
    }

    fn find_first(&mut self, heap: &Heap) {
        let first = self.range(heap, StreamId::MIN, StreamId::MAX).next().map(|entry| entry.id);
        self.first_id = first.unwrap_or(StreamId::MIN);
    }

    /// Takes away all entries up to an id, this included; calls `f` with each, if given. How many.
    pub(crate) fn remove_up_to(
        &mut self,
        heap: &mut Heap,
        id: StreamId,
        mut f: Option<&mut dyn FnMut(StreamId)>,
    ) -> usize {
        let before = self.len;
        while let Some((node_id, node)) = self.index.first().map(|(id, node)| (id, *node))
            && node_id <= id
        {
            let next = self.index.iter().nth(1).map(|(id, _)| id);
            let is_whole = next.is_some_and(|next| next.previous() <= Some(id));
            if is_whole && f.is_none() {
                self.len -= node.live as usize;
                self.index.remove(node_id);
                free(&mut heap.slabs, &mut heap.larges, node.place);
                continue;
            }
            let mut offsets: SmallVec<[u32; 128]> = SmallVec::new();
            let entries = node.read(heap, node_id).entries();
            for entry in entries.take_while(|entry| entry.id <= id) {
                if !entry.is_deleted {
                    offsets.push(entry.offset as u32);
                    f.iter_mut().for_each(|f| f(entry.id));
                }
            }
            self.mark(heap, node_id, node, &offsets);
            if !is_whole {
                break;
            }
        }
        if self.len < before {
            self.find_first(heap);
        }
        before - self.len
    }

    /// A stream's nodes as they are packed elsewhere.
    pub(crate) fn load(
        heap: &mut Heap,
        nodes: &[encodings::rdb::StreamNode],
    ) -> Result<Nodes, OutOfMemory> {
        let mut loaded = Nodes::default();
        for encodings::rdb::StreamNode { id, bytes, counts } in nodes {
            let place = match place(heap, [bytes, &[]], 0) {
                Ok(place) => place,
                Err(error) => {
                    while loaded.drain_step(&mut heap.slabs, &mut heap.larges) {}
                    return Err(error);
                }
            };
            loaded.len += counts.live;
            let node = Node {
                place,
                used: bytes.len() as u32,
                live: counts.live as u32,
                deleted: counts.deleted as u32,
                redis_elements: counts.redis_elements as u32,
            };
            loaded.index.insert(*id, node);
        }
        loaded.find_first(heap);
        Ok(loaded)
    }

    /// Frees a bounded piece; false once nothing is left.
    pub(crate) fn drain_step(&mut self, slabs: &mut Slabs, larges: &mut Larges) -> bool {
        self.index.pop_chunk(|(_, node)| free(slabs, larges, node.place))
    }

    /// Moves nodes of one array of the index out of spans that are marked sparse; the array to go on
    /// with.
    pub(crate) fn move_out(
        &mut self,
        slabs: &mut Slabs,
        array: usize,
        moved: &mut u64,
    ) -> Option<usize> {
        for node in self.index.chunk_mut(array) {
            if let Place::Block(block) = node.place
                && slabs.is_marked(block)
                && let Ok(target) = slabs.move_out(block)
            {
                node.place = Place::Block(target);
                *moved += 1;
            }
        }
        (array + 1 < self.index.chunks_len()).then_some(array + 1)
    }

    /// Checks the index against the nodes.
    ///
    /// # Panics
    /// When something does not agree.
    pub(crate) fn validate(&self, heap: &Heap) {
        self.index.validate();
        let mut last = None;
        for (id, node) in self.index.iter() {
            assert_eq!(stream::Node::validate(id, node.bytes(heap)), Ok(node.counts()));
            assert!(node.live > 0 && last.is_none_or(|last| last < id), "node {id}");
            last = node.read(heap, id).entries().last().map(|entry| entry.id);
        }
        let mut entries = self.range(heap, StreamId::MIN, StreamId::MAX).map(|entry| entry.id);
        assert_eq!(entries.next().unwrap_or(StreamId::MIN), self.first_id);
        assert_eq!(entries.count() + 1, self.len.max(1));
    }
}
