//! The members of a big set, hash or sorted set: a table of cells, as keys have one of blocks. Those of
//! a sorted set stand in a tree too, in the order of scores and members.
//!
//! Members with times have a record each in an expire index of the collection. The key itself has
//! one record in the database's index, at [`Dict::recorded`]: never later than the earliest of these
//! times, and put right when it comes due.

use std::cmp::Ordering;
use std::ops::Range;

use encodings::listpack::Element;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::block::{KeyPart, ValueType};
use crate::cell::{Cell, ValuePart, member_goes_outside, value_goes_outside};
use crate::effect::Strings;
use crate::error::OutOfMemory;
use crate::expire::{ExpireIndex, Times};
use crate::heap::Heap;
use crate::large::Larges;
use crate::packed::{Row, ScoreBytes};
use crate::slab::{BlockRef, Slabs, block_bytes_for};
use crate::sorted_set::{Scored, in_order};
use crate::table::{Entry, ScanPosition, Table};
use crate::tree::Tree;

/// A walk over a table takes the nodes of its tree along in so many parts, a power of two.
const TREE_WALK_BITS: u32 = 10;

/// See the top of the file.
pub(crate) struct Dict {
    pub(crate) value_type: ValueType,
    table: Table,
    /// The cells of a sorted set in their order; empty in sets and hashes.
    order: Tree,
    times: Option<Box<ExpireIndex>>,
    /// Where the key stands in its database's expire index because of its members.
    pub(crate) recorded: Option<u64>,
}

/// A member with what belongs to it, as clients give and get it.
#[derive(Clone, Copy)]
pub(crate) struct Content<'a> {
    pub(crate) member: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) score: f64,
    pub(crate) expire_at: Option<u64>,
}

impl Dict {
    pub(crate) fn new(value_type: ValueType) -> Dict {
        Dict { value_type, table: Table::new(), order: Tree::new(), times: None, recorded: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Members that have a time.
    pub(crate) fn timed_len(&self) -> usize {
        self.times.as_ref().map_or(0, |times| times.len())
    }

    /// A time before which no member is due.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.times.as_ref().and_then(|times| times.next_ms())
    }

    /// Bytes outside of slab blocks.
    pub(crate) fn outside_bytes(&self) -> usize {
        let times = self.times.as_ref().map_or(0, |times| times.bytes() + size_of::<ExpireIndex>());
        self.table.bytes() - self.table.overflow_bytes() + times
    }

    /// Bytes in slab blocks, and of what these keep outside; walks over all members.
    pub(crate) fn block_bytes(&self, heap: &Heap) -> usize {
        let mut bytes = self.table.overflow_bytes() + self.order.bytes();
        self.table.for_each(&heap.slabs, |block| {
            bytes += heap.slabs.block_bytes(block);
            let cell = self.cell(&heap.slabs, block);
            if let KeyPart::Outside { index, .. } = cell.member {
                bytes += heap.larges.capacity(index);
            }
            if let ValuePart::Outside(index) = cell.value {
                bytes += heap.larges.capacity(index);
            }
        });
        bytes
    }

    /// The cell in a block.
    #[inline]
    pub(crate) fn cell<'a>(&self, slabs: &'a Slabs, block: BlockRef) -> Cell<'a> {
        Cell::of(self.value_type, slabs.block(block))
    }

    /// The entry of a member.
    #[inline]
    pub(crate) fn find(&self, heap: &Heap, member: &[u8]) -> Option<Entry> {
        let hash = xxh3_64_with_seed(member, heap.seed);
        self.table.find(&heap.slabs, hash, |block| {
            heap.key_bytes(Cell::of(self.value_type, block).member) == member
        })
    }

    /// The bytes of a member in its cell.
    pub(crate) fn member_bytes<'a>(&self, heap: &'a Heap, block: BlockRef) -> &'a [u8] {
        heap.key_bytes(self.cell(&heap.slabs, block).member)
    }

    /// The bytes of a field's value in its cell.
    #[inline]
    pub(crate) fn value_bytes<'a>(&self, heap: &'a Heap, block: BlockRef) -> &'a [u8] {
        match self.cell(&heap.slabs, block).value {
            ValuePart::Inline(value) => value,
            ValuePart::Outside(index) => heap.larges.bytes(index),
        }
    }

    /// Adds a member that is not there yet.
    pub(crate) fn insert(
        &mut self,
        heap: &mut Heap,
        content: &Content<'_>,
    ) -> Result<BlockRef, OutOfMemory> {
        let hash = xxh3_64_with_seed(content.member, heap.seed);
        let mut cell = Cell {
            member: KeyPart::Inline(content.member),
            value: ValuePart::Inline(&[]),
            score: content.score,
            expire_at: content.expire_at,
        };
        if member_goes_outside(content.member.len()) {
            let index = heap.larges.insert(content.member.len(), &[content.member])?;
            cell.member = KeyPart::Outside { index, hash };
        }
        let placed = self.place_value(heap, &mut cell, content).and_then(|()| {
            let block = self.write(heap, &cell)?;
            let value_type = self.value_type;
            let seed = heap.seed;
            let hash_of = move |block: &[u8]| hash_of(value_type, block, seed);
            let linked = self.table.insert(&mut heap.slabs, hash, block, &hash_of);
            linked.inspect_err(|_| heap.slabs.free(block))?;
            if let Err(error) = self.put_in_order(heap, block, content) {
                let entry = self.find(heap, content.member).expect("it was linked just now");
                self.table.remove(&mut heap.slabs, entry);
                heap.slabs.free(block);
                return Err(error);
            }
            Ok(block)
        });
        match placed {
            Ok(block) => {
                self.add_time(heap, hash, content.expire_at);
                Ok(block)
            }
            Err(error) => {
                drop_outside(&mut heap.larges, &cell);
                Err(error)
            }
        }
    }

    fn place_value<'a>(
        &self,
        heap: &mut Heap,
        cell: &mut Cell<'a>,
        content: &Content<'a>,
    ) -> Result<(), OutOfMemory> {
        cell.value = if value_goes_outside(content.member.len(), content.value.len()) {
            ValuePart::Outside(heap.larges.insert(content.value.len(), &[content.value])?)
        } else {
            ValuePart::Inline(content.value)
        };
        Ok(())
    }

    fn write(&self, heap: &mut Heap, cell: &Cell<'_>) -> Result<BlockRef, OutOfMemory> {
        let block = heap.slabs.alloc(cell.bytes(self.value_type))?;
        cell.write(self.value_type, heap.slabs.block_mut(block));
        Ok(block)
    }

    /// Gives a member other contents; its block may be another one afterwards.
    pub(crate) fn replace(
        &mut self,
        heap: &mut Heap,
        entry: Entry,
        content: &Content<'_>,
    ) -> Result<BlockRef, OutOfMemory> {
        let old = self.cell(&heap.slabs, entry.block);
        let (old_time, old_score) = (old.expire_at, old.score);
        let old_value = match old.value {
            ValuePart::Outside(index) => Some(index),
            ValuePart::Inline(_) => None,
        };
        let member = match old.member {
            KeyPart::Inline(_) => KeyPart::Inline(content.member),
            KeyPart::Outside { index, hash } => KeyPart::Outside { index, hash },
        };
        let mut cell = Cell {
            member,
            value: ValuePart::Inline(&[]),
            score: content.score,
            expire_at: content.expire_at,
        };
        self.place_value(heap, &mut cell, content)?;
        // A cell with another score is written before the old one goes, as the tree compares both.
        let moves = self.value_type == ValueType::SortedSet && old_score != content.score;
        let same = !moves
            && block_bytes_for(cell.bytes(self.value_type)) == heap.slabs.block_bytes(entry.block);
        let block = if same {
            cell.write(self.value_type, heap.slabs.block_mut(entry.block));
            entry.block
        } else {
            let written = self.write(heap, &cell);
            let block = written.inspect_err(|_| {
                if let ValuePart::Outside(index) = cell.value {
                    heap.larges.remove(index);
                }
            })?;
            if let Err(error) = self.reorder(heap, entry.block, old_score, block, content) {
                heap.slabs.free(block);
                return Err(error);
            }
            self.table.replace(&mut heap.slabs, entry, block);
            heap.slabs.free(entry.block);
            block
        };
        if let Some(index) = old_value {
            heap.larges.remove(index);
        }
        if old_time != content.expire_at {
            let hash = xxh3_64_with_seed(content.member, heap.seed);
            self.drop_time(hash, old_time);
            self.add_time(heap, hash, content.expire_at);
        }
        Ok(block)
    }

    /// Gives a member another time, or none.
    pub(crate) fn retime(
        &mut self,
        heap: &mut Heap,
        entry: Entry,
        name: &[u8],
        expire_at: Option<u64>,
    ) -> Result<(), OutOfMemory> {
        let score = self.cell(&heap.slabs, entry.block).score;
        let value = self.value_bytes(heap, entry.block).to_vec();
        self.replace(heap, entry, &Content { member: name, value: &value, score, expire_at })?;
        Ok(())
    }

    /// Takes a member out.
    pub(crate) fn remove(&mut self, heap: &mut Heap, entry: Entry) {
        if self.value_type == ValueType::SortedSet {
            let Heap { slabs, larges, .. } = &mut *heap;
            let removed = self.order.remove(slabs, entry.block, |slabs, other| {
                compare(slabs, larges, other, entry.block)
            });
            debug_assert!(removed, "a member has its place in the order");
        }
        self.remove_from_table(heap, entry);
    }

    /// Takes the member with a rank out.
    pub(crate) fn remove_at(&mut self, heap: &mut Heap, rank: usize) {
        let block = self.order.at(&heap.slabs, rank).expect("there are more members");
        let entry = self.find(heap, self.member_bytes(heap, block));
        self.order.remove_at(&mut heap.slabs, rank);
        self.remove_from_table(heap, entry.expect("what has a rank is in the table"));
    }

    fn remove_from_table(&mut self, heap: &mut Heap, entry: Entry) {
        let hash = hash_of(self.value_type, heap.slabs.block(entry.block), heap.seed);
        let time = self.cell(&heap.slabs, entry.block).expire_at;
        self.drop_time(hash, time);
        self.table.remove(&mut heap.slabs, entry);
        free_cell(self.value_type, &mut heap.slabs, &mut heap.larges, entry.block);
    }

    /// Puts a new cell of a sorted set in its place.
    fn put_in_order(
        &mut self,
        heap: &mut Heap,
        block: BlockRef,
        content: &Content<'_>,
    ) -> Result<(), OutOfMemory> {
        if self.value_type != ValueType::SortedSet {
            return Ok(());
        }
        let scored = (content.score, content.member);
        let Heap { slabs, larges, .. } = heap;
        self.order
            .insert(slabs, block, |slabs, other| in_order(scored_of(slabs, larges, other), scored))
    }

    /// Puts a cell that was written anew in the place of the old one, or in its own if its score is
    /// another one.
    fn reorder(
        &mut self,
        heap: &mut Heap,
        old: BlockRef,
        old_score: f64,
        new: BlockRef,
        content: &Content<'_>,
    ) -> Result<(), OutOfMemory> {
        if self.value_type != ValueType::SortedSet {
            return Ok(());
        }
        let scored = (old_score, content.member);
        if old_score == content.score {
            self.order.replace(&mut heap.slabs, old, new, |slabs, other| {
                in_order(scored_of(slabs, &heap.larges, other), scored)
            });
            return Ok(());
        }
        self.put_in_order(heap, new, content)?;
        self.order.remove(&mut heap.slabs, old, |slabs, other| {
            in_order(scored_of(slabs, &heap.larges, other), scored)
        });
        Ok(())
    }

    /// The members before the first one for which `is_before` is false.
    pub(crate) fn rank_where<'a>(
        &self,
        heap: &'a Heap,
        mut is_before: impl FnMut(Content<'a>) -> bool,
    ) -> usize {
        self.order.rank_where(&heap.slabs, |block| is_before(self.row(heap, block)))
    }

    /// Calls `f` with the members in a range of ranks, from the highest rank down if `backward`.
    pub(crate) fn each_ranked<'a>(
        &self,
        heap: &'a Heap,
        ranks: Range<usize>,
        backward: bool,
        mut f: impl FnMut(Content<'a>),
    ) {
        let ranked = self.order.iter(&heap.slabs, ranks, backward);
        ranked.for_each(|block| f(self.row(heap, block)));
    }

    /// Calls `f` with the members from a rank on, until it answers false.
    pub(crate) fn each_from<'a>(
        &self,
        heap: &'a Heap,
        rank: usize,
        mut f: impl FnMut(Content<'a>) -> bool,
    ) {
        let mut ranked = self.order.iter(&heap.slabs, rank..usize::MAX, false);
        ranked.all(|block| f(self.row(heap, block)));
    }

    fn add_time(&mut self, heap: &Heap, hash: u64, expire_at: Option<u64>) {
        let Some(at_ms) = expire_at else { return };
        let Dict { value_type, table, times, .. } = self;
        let read = TimesOf { value_type: *value_type, table, heap };
        times.get_or_insert_default().insert(at_ms, hash as u32, &read);
    }

    fn drop_time(&mut self, hash: u64, expire_at: Option<u64>) {
        let (Some(at_ms), Some(times)) = (expire_at, &mut self.times) else { return };
        let found = times.remove(at_ms, hash as u32);
        debug_assert!(found, "a member with a time has its record");
        if times.len() == 0 {
            self.times = None;
        }
    }

    /// The entry of a member whose time is before `now_ms`.
    pub(crate) fn due(&mut self, heap: &Heap, now_ms: u64) -> Option<Entry> {
        let Dict { value_type, table, times, .. } = self;
        let read = TimesOf { value_type: *value_type, table, heap };
        let (at_ms, mark) = times.as_mut()?.due(now_ms, &read)?;
        let mut found = None;
        read.each_block(mark, &mut |block, ms| {
            if ms == at_ms {
                found = Some(block);
            }
        });
        let block = found.expect("a record's member is there");
        self.find(heap, self.member_bytes(heap, block))
    }

    /// Takes all members out whose time is before `now_ms`, and appends them to `gone`. How many.
    pub(crate) fn expire_members(
        &mut self,
        heap: &mut Heap,
        now_ms: u64,
        gone: &mut Vec<u8>,
    ) -> usize {
        let mut count = 0;
        while let Some(entry) = self.due(heap, now_ms) {
            Strings::push(gone, self.member_bytes(heap, entry.block));
            self.remove(heap, entry);
            count += 1;
        }
        self.recorded = self.next_ms();
        count
    }

    /// A member as a row.
    #[inline]
    pub(crate) fn row<'a>(&self, heap: &'a Heap, block: BlockRef) -> Content<'a> {
        let cell = self.cell(&heap.slabs, block);
        Content {
            member: heap.key_bytes(cell.member),
            value: match cell.value {
                ValuePart::Inline(value) => value,
                ValuePart::Outside(index) => heap.larges.bytes(index),
            },
            score: cell.score,
            expire_at: cell.expire_at,
        }
    }

    /// Calls `f` with every member, those of a sorted set in their order.
    pub(crate) fn for_each<'a>(&self, heap: &'a Heap, mut f: impl FnMut(Content<'a>)) {
        if self.value_type == ValueType::SortedSet {
            return self.each_ranked(heap, 0..self.len(), false, f);
        }
        self.table.for_each(&heap.slabs, |block| f(self.row(heap, block)));
    }

    /// Calls `f` with the members of the bucket at a position, and says where the next one starts.
    pub(crate) fn scan<'a>(
        &self,
        heap: &'a Heap,
        position: ScanPosition,
        mut f: impl FnMut(Content<'a>),
    ) -> Option<ScanPosition> {
        self.table.scan(&heap.slabs, position, |block| f(self.row(heap, block)))
    }

    /// A random member; `word` is a random number.
    pub(crate) fn random(&self, heap: &Heap, word: u64) -> Option<BlockRef> {
        self.table.random(&heap.slabs, word)
    }

    /// Moves the cells of the bucket at a position out of spans that are marked sparse, and the same
    /// share of the tree's nodes. `moved` counts the blocks.
    pub(crate) fn move_out(
        &mut self,
        slabs: &mut Slabs,
        larges: &Larges,
        position: ScanPosition,
        moved: &mut u64,
    ) -> Option<ScanPosition> {
        let Dict { value_type, table, order, .. } = self;
        let sorted = *value_type == ValueType::SortedSet;
        let next = table.move_out(slabs, position, |slabs, old, new| {
            *moved += 1;
            if sorted {
                order.replace(slabs, old, new, |slabs, other| {
                    if other == old { Ordering::Equal } else { compare(slabs, larges, other, new) }
                });
            }
        });
        // The tree is walked by ranks, and in fewer steps than the table.
        let part = |position: u64| (position >> (32 - TREE_WALK_BITS)) as usize;
        let parts = part(u64::from(position.0))..part(next.map_or(1 << 32, |next| next.0.into()));
        if sorted && !parts.is_empty() {
            let rank = |part: usize| (order.len() * part) >> TREE_WALK_BITS;
            *moved += order.move_out(slabs, rank(parts.start)..rank(parts.end));
        }
        next
    }

    /// Frees the cells of one bucket, or a slot of the times; false once nothing is left.
    pub(crate) fn drain_step(&mut self, slabs: &mut Slabs, larges: &mut Larges) -> bool {
        let value_type = self.value_type;
        if self.order.drain_step(slabs) {
            return true;
        }
        if self.table.drain_step(slabs, |slabs, block| free_cell(value_type, slabs, larges, block))
        {
            return true;
        }
        let left = self.times.as_mut().is_some_and(|times| times.drain_step());
        if !left {
            self.times = None;
        }
        left
    }

    /// Checks the table and the times against the cells.
    ///
    /// # Panics
    /// When they do not agree.
    pub(crate) fn validate(&self, heap: &Heap) {
        self.table
            .validate(&heap.slabs, &|block: &[u8]| hash_of(self.value_type, block, heap.seed));
        if self.value_type == ValueType::SortedSet {
            assert_eq!(self.order.len(), self.table.len(), "each member has its place");
            self.order.validate(&heap.slabs, |slabs, a, b| compare(slabs, &heap.larges, a, b));
        }
        let (mut timed, mut first) = (0, u64::MAX);
        self.table.for_each(&heap.slabs, |block| {
            let cell = self.cell(&heap.slabs, block);
            let class = block_bytes_for(cell.bytes(self.value_type));
            assert_eq!(class, heap.slabs.block_bytes(block), "the smallest class");
            timed += usize::from(cell.expire_at.is_some());
            first = first.min(cell.expire_at.unwrap_or(u64::MAX));
        });
        assert_eq!(timed, self.timed_len());
        if timed > 0 {
            assert!(self.recorded.is_some_and(|recorded| recorded <= first), "the key's record");
        }
    }
}

impl Content<'_> {
    /// Calls `f` with the row in the elements that pack it best.
    pub(crate) fn pack<R>(&self, value_type: ValueType, f: impl FnOnce(&Row<'_>) -> R) -> R {
        let score = ScoreBytes::new(self.score);
        let value = match value_type {
            ValueType::SortedSet => score.element(),
            _ => Element::parse(self.value),
        };
        f(&Row { member: Element::parse(self.member), value, expire_at: self.expire_at })
    }
}

/// The hash of a cell's member.
pub(crate) fn hash_of(value_type: ValueType, block: &[u8], seed: u64) -> u64 {
    match Cell::of(value_type, block).member {
        KeyPart::Inline(member) => xxh3_64_with_seed(member, seed),
        KeyPart::Outside { hash, .. } => hash,
    }
}

/// Score and member of a sorted set's cell.
fn scored_of<'a>(slabs: &'a Slabs, larges: &'a Larges, block: BlockRef) -> Scored<'a> {
    let cell = Cell::of(ValueType::SortedSet, slabs.block(block));
    let member = match cell.member {
        KeyPart::Inline(member) => member,
        KeyPart::Outside { index, .. } => larges.bytes(index),
    };
    (cell.score, member)
}

/// How two cells of a sorted set stand to each other.
fn compare(slabs: &Slabs, larges: &Larges, a: BlockRef, b: BlockRef) -> Ordering {
    in_order(scored_of(slabs, larges, a), scored_of(slabs, larges, b))
}

fn drop_outside(larges: &mut Larges, cell: &Cell<'_>) {
    if let KeyPart::Outside { index, .. } = cell.member {
        larges.remove(index);
    }
    if let ValuePart::Outside(index) = cell.value {
        larges.remove(index);
    }
}

fn free_cell(value_type: ValueType, slabs: &mut Slabs, larges: &mut Larges, block: BlockRef) {
    drop_outside(larges, &Cell::of(value_type, slabs.block(block)));
    slabs.free(block);
}

/// The times in the cells, for the expire index.
struct TimesOf<'a> {
    value_type: ValueType,
    table: &'a Table,
    heap: &'a Heap,
}

impl TimesOf<'_> {
    fn each_block(&self, mark: u32, f: &mut dyn FnMut(BlockRef, u64)) {
        self.table.each_with_low_bits(&self.heap.slabs, mark, 32, |block| {
            let bytes = self.heap.slabs.block(block);
            if hash_of(self.value_type, bytes, self.heap.seed) as u32 == mark
                && let Some(at_ms) = Cell::of(self.value_type, bytes).expire_at
            {
                f(block, at_ms);
            }
        });
    }
}

impl Times for TimesOf<'_> {
    fn prefetch(&self, mark: u32, stage: u8) {
        if stage == 0 {
            self.table.prefetch_bucket(&self.heap.slabs, u64::from(mark));
        } else {
            self.table.prefetch_block(&self.heap.slabs, u64::from(mark));
        }
    }

    fn each(&self, mark: u32, f: &mut dyn FnMut(u64)) {
        self.each_block(mark, &mut |_, at_ms| f(at_ms));
    }
}
