//! Lists: packed in the block of their key while they fit, then a chain of packed nodes.
//!
//! ```text
//! in the block   elements u16, little endian | element *       without back lengths
//! ```
//!
//! The elements have no back lengths: few as they are in a block, a walk from the first one on finds
//! the last one as fast. On its way elsewhere a list is packed without the count.
//!
//! Redis calls a list `listpack` up to `list-max-listpack-size` and `quicklist` beyond, and back only
//! below half of it. Here the form follows the block's size; the word is kept beside it, so that
//! OBJECT ENCODING answers as Redis does.

mod chain;

use std::ops::Range;

pub(crate) use chain::Chain;
use encodings::listpack::{self, Element, Listpack, REDIS_OVERHEAD};
use smallvec::SmallVec;

use self::chain::without;
use crate::big::Big;
use crate::block::{Encoding, Form, ValueType};
use crate::collection::{Limits, Placed};
use crate::effect::{Change, DeleteCause, End, Event, Origin, Strings};
use crate::error::{OpError, OutOfMemory};
use crate::heap::{Heap, Outside};
use crate::key::Key;
use crate::partition::{Look, Partition};
use crate::slab::{BLOCK_BYTES_MAX, BlockRef};
use crate::store::fits_inline;
use crate::string::StringValue;
use crate::table::Entry;

/// `list-max-listpack-size` taken apart.
#[derive(Clone, Copy)]
struct ListLimit {
    bytes: usize,
    count: usize,
}

impl ListLimit {
    fn of(limits: &Limits) -> ListLimit {
        /// Bytes of a node whose elements are counted.
        const COUNTED_BYTES: usize = 8192;
        let size = limits.list_max_listpack_size;
        match usize::try_from(size) {
            Ok(count) => ListLimit { bytes: COUNTED_BYTES, count: count.max(1) },
            Err(_) => ListLimit {
                bytes: 4096 << (size.unsigned_abs().clamp(1, 5) - 1),
                count: usize::MAX,
            },
        }
    }

    /// What a list must fall to before it is called by the other word again.
    fn halved(self) -> ListLimit {
        match self.count {
            usize::MAX => ListLimit { bytes: self.bytes / 2, ..self },
            count => ListLimit { bytes: usize::MAX, count: count / 2 },
        }
    }

    fn holds(self, bytes: usize, count: usize) -> bool {
        bytes.saturating_add(REDIS_OVERHEAD) <= self.bytes && count <= self.count
    }
}

/// Bytes of the count in front of the elements in a block.
pub(crate) const COUNT_BYTES: usize = 2;

/// How many elements a block's value has.
#[inline]
fn count_of(value: &[u8]) -> usize {
    u16::from_le_bytes([value[0], value[1]]) as usize
}

/// Elements of a list that a command makes.
#[derive(Debug, Default)]
pub struct ListDraft(Vec<u8>);

impl ListDraft {
    /// Adds an element at the tail.
    pub fn push(&mut self, element: &[u8]) {
        listpack::push::<false>(&mut self.0, Element::parse(element));
    }
}

/// A list, to be read.
#[derive(Clone, Copy)]
pub struct List<'a> {
    heap: &'a Heap,
    body: Body<'a>,
}

#[derive(Clone, Copy)]
enum Body<'a> {
    Packed(Listpack<'a, false>, usize),
    Chain(&'a Chain),
}

impl<'a> List<'a> {
    pub(crate) fn of(heap: &'a Heap, block: BlockRef) -> List<'a> {
        let body = match Outside::of(heap.view(block)) {
            Outside::Big(index) => Body::Chain(heap.bigs.at(index).chain()),
            _ => {
                let value = heap.packed_bytes(block);
                Body::Packed(Listpack::new(&value[COUNT_BYTES..]), count_of(value))
            }
        };
        List { heap, body }
    }

    /// How many elements.
    pub fn len(&self) -> usize {
        match self.body {
            Body::Packed(_, count) => count,
            Body::Chain(chain) => chain.len(),
        }
    }

    /// Nodes that it is kept in.
    pub fn nodes(&self) -> usize {
        match self.body {
            Body::Packed(..) => 1,
            Body::Chain(chain) => chain.nodes_len(),
        }
    }

    /// Bytes of its packed elements.
    pub fn bytes(&self) -> usize {
        match self.body {
            Body::Packed(packed, _) => packed.bytes().len(),
            Body::Chain(chain) => chain.bytes(),
        }
    }

    /// True without any; no value stays so.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements from an index on, which may be that behind the last one.
    pub fn iter_from(&self, index: usize) -> ListIter<'a> {
        let list = *self;
        let (node, bytes, offset) = match self.body {
            Body::Packed(packed, _) => (0, packed.bytes(), packed.nth(index)),
            Body::Chain(chain) if index < chain.len() => chain.find(self.heap, index),
            Body::Chain(_) => (usize::MAX - 1, &[][..], 0),
        };
        ListIter { list, node, bytes, offset }
    }

    /// The elements from an index on towards the head.
    pub fn iter_back_from(&self, index: usize) -> ListIterBack<'a> {
        let ListIter { list, node, bytes, offset } = self.iter_from(index);
        let starts = Listpack::<false>::new(bytes).iter().map(|(start, _)| start as u16);
        let starts = starts.take_while(|start| usize::from(*start) <= offset).collect();
        ListIterBack { list, node, bytes, starts }
    }

    /// The index of the first element that is equal to one.
    pub fn position(&self, element: &[u8]) -> Option<usize> {
        let mut before = 0;
        (0..).map_while(|at| self.node(at)).find_map(|bytes| {
            let list = Listpack::<false>::new(bytes);
            let found = list.position(element).map(|index| before + index);
            before += if found.is_none() { list.len() } else { 0 };
            found
        })
    }

    /// The element at an index.
    pub fn get(&self, index: usize) -> Option<StringValue<'a>> {
        self.iter_from(index).next()
    }

    fn node(&self, at: usize) -> Option<&'a [u8]> {
        match self.body {
            Body::Packed(list, _) => (at == 0).then(|| list.bytes()),
            Body::Chain(chain) => chain.node(self.heap, at),
        }
    }
}

/// See [`List::iter_from`].
#[derive(Clone)]
pub struct ListIter<'a> {
    list: List<'a>,
    node: usize,
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Iterator for ListIter<'a> {
    type Item = StringValue<'a>;

    #[inline]
    fn next(&mut self) -> Option<StringValue<'a>> {
        if self.offset == self.bytes.len() {
            self.node += 1;
            (self.bytes, self.offset) = (self.list.node(self.node)?, 0);
        }
        let (element, next) = Listpack::<false>::new(self.bytes).read(self.offset);
        self.offset = next;
        Some(element.into())
    }
}

/// See [`List::iter_back_from`].
#[derive(Clone)]
pub struct ListIterBack<'a> {
    list: List<'a>,
    node: usize,
    bytes: &'a [u8],
    /// Where the elements of the node start that are still to come.
    starts: SmallVec<[u16; 64]>,
}

impl<'a> Iterator for ListIterBack<'a> {
    type Item = StringValue<'a>;

    #[inline]
    fn next(&mut self) -> Option<StringValue<'a>> {
        if self.starts.is_empty() {
            self.node = self.node.checked_sub(1)?;
            self.bytes = self.list.node(self.node)?;
            let elements = Listpack::<false>::new(self.bytes).iter();
            self.starts.extend(elements.map(|(start, _)| start as u16));
        }
        let start = self.starts.pop()?;
        Some(Listpack::<false>::new(self.bytes).read(usize::from(start)).0.into())
    }
}

/// Bytes from which on a packed draft becomes a chain at once, so that pushing many elements at the
/// head does not move what is there again and again. What ends in a block never gets there: it is
/// twice a block, as an element that moves may be there twice for a moment.
const PACKED_DRAFT_MAX: usize = 2 * BLOCK_BYTES_MAX;

/// A list that is being changed.
enum Draft {
    /// The count in front of the bytes is right once they are stored.
    Packed {
        bytes: Vec<u8>,
        count: usize,
        is_quicklist: bool,
    },
    Chain(Box<Big>, u32),
    /// A chain that no key has yet.
    New(Chain),
}

impl Draft {
    fn len(&self) -> usize {
        match self {
            Draft::Packed { count, .. } => *count,
            Draft::Chain(big, _) => big.chain().len(),
            Draft::New(chain) => chain.len(),
        }
    }

    /// Whether Redis's bytes and number of elements are within a limit after so many are gone and so
    /// many more are there.
    fn is_within(
        &self,
        heap: &Heap,
        limit: ListLimit,
        (gone_bytes, gone): (usize, usize),
        (more_bytes, more): (usize, usize),
    ) -> bool {
        let packed = match self {
            Draft::Packed { bytes, .. } => bytes.len() - COUNT_BYTES,
            Draft::Chain(big, _) => big.chain().bytes(),
            Draft::New(chain) => chain.bytes(),
        };
        let holds = |bytes: usize| {
            limit.holds((bytes + more_bytes).saturating_sub(gone_bytes), self.len() - gone + more)
        };
        // Redis's back lengths take a byte at least, and one more at most for each 128 of an element.
        let least = packed + self.len();
        if !holds(least) || holds(least + packed / 128) {
            return holds(least);
        }
        holds(match self {
            Draft::Packed { bytes, .. } => redis_bytes(&bytes[COUNT_BYTES..]),
            Draft::Chain(big, _) => redis_bytes(&big.chain().pack(heap)),
            Draft::New(chain) => redis_bytes(&chain.pack(heap)),
        })
    }

    fn is_quicklist(&mut self) -> &mut bool {
        match self {
            Draft::Packed { is_quicklist, .. } => is_quicklist,
            Draft::Chain(big, _) => &mut big.chain_mut().is_quicklist,
            Draft::New(chain) => &mut chain.is_quicklist,
        }
    }

    /// Tells Redis's word for it apart before so much is added.
    fn will_grow(&mut self, heap: &Heap, limit: ListLimit, bytes: usize, count: usize) {
        self.will_change(heap, limit, (0, 0), (bytes, count));
    }

    /// As [`Draft::will_grow`], after so many bytes and elements have gone.
    fn will_change(
        &mut self,
        heap: &Heap,
        limit: ListLimit,
        gone: (usize, usize),
        more: (usize, usize),
    ) {
        if !*self.is_quicklist() && !self.is_within(heap, limit, gone, more) {
            *self.is_quicklist() = true;
        }
    }

    /// Tells Redis's word for it apart after something has gone, or changed.
    fn has_shrunk(&mut self, heap: &Heap, limit: ListLimit) {
        if *self.is_quicklist() && self.is_within(heap, limit, (0, 0), (0, 0)) {
            *self.is_quicklist() = false;
        }
    }

    /// Adds elements at an end, one after another: all of them, or none.
    fn push<'p>(
        &mut self,
        heap: &mut Heap,
        end: End,
        elements: impl Iterator<Item = &'p [u8]>,
    ) -> Result<(), OutOfMemory> {
        for (pushed, element) in elements.map(Element::parse).enumerate() {
            if let Draft::Packed { bytes, is_quicklist, .. } = self
                && bytes.len() > PACKED_DRAFT_MAX
            {
                let mut chain = Chain::build(heap, &bytes[COUNT_BYTES..])?;
                chain.is_quicklist = *is_quicklist;
                *self = Draft::New(chain);
            }
            match self {
                Draft::Packed { bytes, count, .. } => {
                    *count += 1;
                    let before = bytes.len();
                    let at = if end == End::Head { COUNT_BYTES } else { before };
                    listpack::push::<false>(bytes, element);
                    let added = bytes.len() - before;
                    bytes[at..].rotate_right(added);
                }
                Draft::New(chain) => chain.push(heap, end, element)?,
                Draft::Chain(big, _) => {
                    let chain = big.chain_mut();
                    if let Err(error) = chain.push(heap, end, element) {
                        (0..pushed).for_each(|_| chain.pop(heap, end));
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// Puts an element in the place of `gone` elements, none or one, at an index.
    fn splice(
        &mut self,
        heap: &mut Heap,
        index: usize,
        gone: usize,
        element: &[u8],
    ) -> Result<(), OutOfMemory> {
        let element = Element::parse(element);
        match self {
            Draft::Packed { bytes, count, .. } => {
                let range = packed_range(bytes, index, gone);
                crate::packed::replace(bytes, range, |out| listpack::push::<false>(out, element));
                *count = *count - gone + 1;
                Ok(())
            }
            Draft::Chain(big, _) => big.chain_mut().splice(heap, index, gone, element),
            Draft::New(chain) => chain.splice(heap, index, gone, element),
        }
    }

    /// Takes elements away that are there. Needs no memory.
    fn remove(&mut self, heap: &mut Heap, index: usize, gone: usize) {
        match self {
            Draft::Packed { bytes, count, .. } => {
                bytes.drain(packed_range(bytes, index, gone));
                *count -= gone;
            }
            Draft::Chain(big, _) => big.chain_mut().remove(heap, index, gone),
            Draft::New(chain) => chain.remove(heap, index, gone),
        }
    }

    /// Takes elements away that are equal to one: not the first `spare` of them, and the `gone` next
    /// ones, which are there. Needs no memory.
    fn remove_equal(&mut self, heap: &mut Heap, element: &[u8], mut spare: usize, gone: usize) {
        let element = Element::parse(element);
        match self {
            Draft::Packed { bytes, count, .. } => {
                let elements = &bytes[COUNT_BYTES..];
                if let Some((kept, _)) = without(elements, element, &mut spare, gone) {
                    bytes.truncate(COUNT_BYTES);
                    bytes.extend(kept);
                }
                *count -= gone;
            }
            Draft::Chain(big, _) => big.chain_mut().remove_equal(heap, element, spare, gone),
            Draft::New(chain) => chain.remove_equal(heap, element, spare, gone),
        }
    }
}

/// Where `count` elements from an index on lie, in bytes with room for the count in front.
fn packed_range(bytes: &[u8], index: usize, count: usize) -> Range<usize> {
    let list = Listpack::<false>::new(&bytes[COUNT_BYTES..]);
    let start = list.nth(index);
    let end = (0..count).fold(start, |at, _| list.skip(at));
    start + COUNT_BYTES..end + COUNT_BYTES
}

/// Bytes that packed elements take with back lengths.
fn redis_bytes(packed: &[u8]) -> usize {
    let elements = Listpack::<false>::new(packed).iter();
    elements.map(|(_, element)| element.stored_len::<true>()).sum()
}

impl Partition {
    /// The list at a key, `None` without the key. Counts as a read.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn list(&mut self, db: usize, key: &Key<'_>) -> Result<Option<List<'_>>, OpError> {
        let found = self.lookup_as(db, key, Look::Read, ValueType::List)?;
        Ok(found.map(|entry| List::of(&self.heap, entry.block)))
    }

    /// As [`Partition::list`], but without a trace in statistics and access stamp.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn list_look(&mut self, db: usize, key: &Key<'_>) -> Result<Option<List<'_>>, OpError> {
        let found = self.lookup_as(db, key, Look::Silent, ValueType::List)?;
        Ok(found.map(|entry| List::of(&self.heap, entry.block)))
    }

    /// Lets `change` work on the list at a key, or on a new one, and stores what comes of it; one
    /// that is empty then goes, after the effect that `change` reports.
    fn change_list<R>(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        change: impl FnOnce(&mut Draft, &mut Heap, ListLimit) -> Result<R, OutOfMemory>,
    ) -> Result<(R, bool), OpError> {
        let limit = ListLimit::of(&self.limits);
        let mut draft = match old.map(|old| Outside::of(self.heap.view(old.block))) {
            Some(Outside::Big(index)) => Draft::Chain(self.heap.bigs.take(index), index),
            _ => Draft::Packed {
                count: old.map_or(0, |old| count_of(self.heap.packed_bytes(old.block))),
                bytes: {
                    let mut bytes = self.take_scratch(old);
                    bytes.resize(bytes.len().max(COUNT_BYTES), 0);
                    bytes
                },
                is_quicklist: old
                    .is_some_and(|old| self.heap.view(old.block).encoding() == Encoding::Raw),
            },
        };
        let changed = change(&mut draft, &mut self.heap, limit);
        let emptied = changed.is_ok() && draft.len() == 0;
        let expire_at = old.and_then(|old| self.heap.view(old.block).expire_at());
        let stored = match draft {
            Draft::Chain(big, index) => {
                self.heap.bigs.give(index, big);
                Ok(())
            }
            Draft::New(mut chain) => {
                if changed.is_err() {
                    while chain.drain_step(&mut self.heap.slabs, &mut self.heap.larges) {}
                    Ok(())
                } else {
                    self.store_big(db, key, old, Big::List(chain), expire_at).map(drop)
                }
            }
            Draft::Packed { mut bytes, count, is_quicklist } => {
                let stored = if changed.is_err() || emptied {
                    Ok(())
                } else {
                    self.store_list(db, key, old, &mut bytes, count, is_quicklist, expire_at)
                };
                self.give_scratch(bytes);
                stored
            }
        };
        stored?;
        Ok((changed?, emptied))
    }

    /// Stores elements with room for their count in front.
    #[allow(clippy::too_many_arguments, reason = "what is stored has so many sides")]
    fn store_list(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        bytes: &mut [u8],
        count: usize,
        is_quicklist: bool,
        expire_at: Option<u64>,
    ) -> Result<(), OpError> {
        if fits_inline(key, bytes.len()) {
            bytes[..COUNT_BYTES].copy_from_slice(&(count as u16).to_le_bytes());
            let encoding = if is_quicklist { Encoding::Raw } else { Encoding::Bytes };
            let form = Form::new(ValueType::List, encoding);
            return self.put(db, key, old, form, bytes, expire_at).map(drop);
        }
        let mut chain = Chain::build(&mut self.heap, &bytes[COUNT_BYTES..])?;
        chain.is_quicklist = is_quicklist;
        self.store_big(db, key, old, Big::List(chain), expire_at).map(drop)
    }

    /// Stores a list in its packed form.
    pub(crate) fn store_packed_list(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        bytes: &[u8],
        expire_at: Option<u64>,
    ) -> Result<(), OpError> {
        let limit = ListLimit::of(&self.limits);
        let count = Listpack::<false>::new(bytes).len();
        let is_quicklist = !limit.holds(redis_bytes(bytes), count);
        let mut bytes = [&[0; COUNT_BYTES][..], bytes].concat();
        self.store_list(db, key, old, &mut bytes, count, is_quicklist, expire_at)
    }

    /// Adds elements at an end, one after another, creating the key, and answers how many there are
    /// then.
    ///
    /// # Errors
    /// [`OpError::WrongType`], [`OpError::OutOfMemory`]; nothing changed.
    pub fn list_push<'p>(
        &mut self,
        db: usize,
        key: &Key<'_>,
        end: End,
        elements: impl Iterator<Item = &'p [u8]> + Clone,
        event: Event,
    ) -> Result<usize, OpError> {
        let old = self.lookup_as(db, key, Look::Write, ValueType::List)?;
        let (mut count, mut bytes) = (0, 0);
        elements.clone().for_each(|element| {
            count += 1;
            bytes += element.len();
        });
        let (len, _) = self.change_list(db, key, old, |draft, heap, limit| {
            draft.will_grow(heap, limit, bytes, count);
            draft.push(heap, end, elements.clone())?;
            Ok(draft.len())
        })?;
        let mut strings = Vec::new();
        if self.effects.listening {
            elements.for_each(|element| Strings::push(&mut strings, element));
        }
        let change = Change::ListPush { end, elements: Strings::new(&strings) };
        self.report_change(db, key, event, change, count);
        Ok(len)
    }

    /// Stores elements that a command found over whatever the key holds, without a time; without any
    /// the key goes.
    ///
    /// # Errors
    /// [`OpError::OutOfMemory`]; nothing changed.
    pub fn list_store(
        &mut self,
        db: usize,
        key: &Key<'_>,
        elements: &ListDraft,
        event: Event,
    ) -> Result<(), OpError> {
        if elements.0.is_empty() {
            self.delete(db, key, DeleteCause::Command);
            return Ok(());
        }
        let form = Form::new(ValueType::List, Encoding::Bytes);
        let placed = Placed { form, value: &elements.0, expire_at: None };
        self.place_value(db, key, placed, Origin::Command(event))
    }

    /// Takes up to `count` elements from an end, and the key with the last one; the caller has read
    /// them. How many went.
    ///
    /// # Errors
    /// [`OpError::WrongType`], [`OpError::OutOfMemory`]; nothing changed.
    pub fn list_pop(
        &mut self,
        db: usize,
        key: &Key<'_>,
        end: End,
        count: usize,
        event: Event,
    ) -> Result<usize, OpError> {
        let Some(entry) = self.lookup_as(db, key, Look::Write, ValueType::List)? else {
            return Ok(0);
        };
        let (gone, emptied) = self.change_list(db, key, Some(entry), |draft, heap, limit| {
            let len = draft.len();
            let gone = count.min(len);
            if let (Draft::Chain(big, _), 1) = (&mut *draft, gone) {
                big.chain_mut().pop(heap, end);
            } else {
                draft.remove(heap, if end == End::Head { 0 } else { len - gone }, gone);
            }
            draft.has_shrunk(heap, limit.halved());
            Ok(gone)
        })?;
        if gone > 0 {
            let change = Change::ListPop { end, count: gone as u64 };
            self.report_removal(db, key, event, change, gone, emptied);
        }
        Ok(gone)
    }

    /// Moves the element at one end of the list at a key, which is there, to the other or the same.
    ///
    /// # Errors
    /// [`OpError::WrongType`], [`OpError::OutOfMemory`]; nothing changed.
    pub fn list_rotate(
        &mut self,
        db: usize,
        key: &Key<'_>,
        from: (End, Event),
        to: (End, Event),
        element: &[u8],
    ) -> Result<(), OpError> {
        let old = self.lookup_as(db, key, Look::Write, ValueType::List)?;
        self.change_list(db, key, old, |draft, heap, limit| {
            let gone = Element::parse(element).stored_len::<true>();
            draft.will_change(heap, limit, (gone, 1), (element.len(), 1));
            draft.push(heap, to.0, std::iter::once(element))?;
            let last = draft.len() - 1;
            draft.remove(heap, if from.0 == End::Head { 0 } else { last }, 1);
            draft.has_shrunk(heap, limit.halved());
            Ok(())
        })?;
        let mut strings = Vec::new();
        Strings::push(&mut strings, element);
        let elements = Strings::new(&strings);
        self.report_change(db, key, to.1, Change::ListPush { end: to.0, elements }, 1);
        self.report_change(db, key, from.1, Change::ListPop { end: from.0, count: 1 }, 1);
        Ok(())
    }

    /// Gives the element at an index, which is there, another value.
    ///
    /// # Errors
    /// [`OpError::WrongType`], [`OpError::OutOfMemory`]; nothing changed.
    pub fn list_set(
        &mut self,
        db: usize,
        key: &Key<'_>,
        index: usize,
        element: &[u8],
    ) -> Result<(), OpError> {
        let old = self.lookup_as(db, key, Look::Write, ValueType::List)?;
        self.change_list(db, key, old, |draft, heap, limit| {
            draft.will_grow(heap, limit, element.len(), 1);
            draft.splice(heap, index, 1, element)?;
            draft.has_shrunk(heap, limit.halved());
            Ok(())
        })?;
        let change = Change::ListSet { index: index as u64, element };
        self.report_change(db, key, Event::Lset, change, 1);
        Ok(())
    }

    /// Puts an element before the one at an index, or behind the last one, and answers how many there
    /// are then.
    ///
    /// # Errors
    /// [`OpError::WrongType`], [`OpError::OutOfMemory`]; nothing changed.
    pub fn list_insert(
        &mut self,
        db: usize,
        key: &Key<'_>,
        index: usize,
        element: &[u8],
    ) -> Result<usize, OpError> {
        let old = self.lookup_as(db, key, Look::Write, ValueType::List)?;
        let (len, _) = self.change_list(db, key, old, |draft, heap, limit| {
            draft.will_grow(heap, limit, element.len(), 1);
            draft.splice(heap, index, 0, element)?;
            Ok(draft.len())
        })?;
        let change = Change::ListInsert { index: index as u64, element };
        self.report_change(db, key, Event::Linsert, change, 1);
        Ok(len)
    }

    /// Takes elements away that are equal to one: up to `count` from the head on, from the tail on if
    /// negative, all if 0. How many went.
    ///
    /// # Errors
    /// [`OpError::WrongType`], [`OpError::OutOfMemory`]; nothing changed.
    pub fn list_remove(
        &mut self,
        db: usize,
        key: &Key<'_>,
        count: i64,
        element: &[u8],
    ) -> Result<usize, OpError> {
        let Some(entry) = self.lookup_as(db, key, Look::Write, ValueType::List)? else {
            return Ok(0);
        };
        let list = List::of(&self.heap, entry.block);
        let wanted = StringValue::from(Element::parse(element));
        let most = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
        let hits = list.iter_from(0).filter(|other| *other == wanted).count();
        let gone = hits.min(most);
        if gone == 0 {
            return Ok(0);
        }
        let spare = if count < 0 { hits - gone } else { 0 };
        let (_, emptied) = self.change_list(db, key, Some(entry), |draft, heap, limit| {
            draft.remove_equal(heap, element, spare, gone);
            draft.has_shrunk(heap, limit.halved());
            Ok(())
        })?;
        let change = Change::ListRemove { count, element };
        self.report_removal(db, key, Event::Lrem, change, gone, emptied);
        Ok(gone)
    }

    /// Leaves only `count` elements from `start` on; without any the key goes.
    ///
    /// # Errors
    /// [`OpError::WrongType`], [`OpError::OutOfMemory`]; nothing changed.
    pub fn list_keep(
        &mut self,
        db: usize,
        key: &Key<'_>,
        start: usize,
        count: usize,
    ) -> Result<(), OpError> {
        let Some(entry) = self.lookup_as(db, key, Look::Write, ValueType::List)? else {
            return Ok(());
        };
        let (gone, emptied) = self.change_list(db, key, Some(entry), |draft, heap, limit| {
            let len = draft.len();
            let end = start.saturating_add(count).min(len);
            let start = start.min(end);
            draft.remove(heap, end, len - end);
            draft.remove(heap, 0, start);
            draft.has_shrunk(heap, limit.halved());
            Ok(len - (end - start))
        })?;
        let change = Change::ListKeep { start: start as u64, count: count as u64 };
        self.report_removal(db, key, Event::Ltrim, change, gone, emptied);
        Ok(())
    }

    pub(crate) fn apply_list(
        &mut self,
        db: usize,
        key: &Key<'_>,
        event: Event,
        change: &Change<'_>,
    ) -> Result<(), OpError> {
        let size = |number: u64| usize::try_from(number).map_err(|_| OpError::TooLarge);
        let len = self.list(db, key)?.map_or(0, |list| list.len());
        match *change {
            Change::ListPush { end, elements } => {
                self.list_push(db, key, end, elements.iter(), event).map(drop)
            }
            Change::ListPop { end, count } => {
                self.list_pop(db, key, end, size(count)?, event).map(drop)
            }
            Change::ListSet { index, element } if size(index)? < len => {
                self.list_set(db, key, size(index)?, element)
            }
            Change::ListInsert { index, element } if len > 0 && size(index)? <= len => {
                self.list_insert(db, key, size(index)?, element).map(drop)
            }
            Change::ListRemove { count, element } => {
                self.list_remove(db, key, count, element).map(drop)
            }
            Change::ListKeep { start, count } => {
                self.list_keep(db, key, size(start)?, size(count)?)
            }
            // An index that the list does not have is no effect of this log.
            _ => Ok(()),
        }
    }
}
