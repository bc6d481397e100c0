//! A big list: packed nodes in slab blocks, in a ring of references.
//!
//! ```text
//! node block   bytes used u16, little endian | elements without back lengths | room
//! ```
//!
//! The nodes at both ends have the largest blocks, so that what is pushed there is written in place;
//! a node in the middle has the smallest block that holds it. An element that fits no block is a node
//! of its own outside the slabs. A place in the middle is found by the counts of the nodes from the
//! nearer end: 8 bytes for each 186 elements of 10 bytes.
//!
//! Who takes elements from the tail one by one needs their starts: those of the last node are kept
//! from the first such time on.
//!
//! Invariants, checked by [`Chain::validate`]: no node is empty; `len` and `bytes` are the sums over
//! the nodes; `tail_starts` is empty or true.

use std::collections::VecDeque;
use std::ops::Range;

use encodings::listpack::{self, Element, Listpack};

use crate::effect::End;
use crate::error::OutOfMemory;
use crate::heap::Heap;
use crate::large::Larges;
use crate::slab::{BLOCK_BYTES_MAX, BlockRef, Slabs};

const USED_BYTES: usize = 2;
/// Bytes of elements that a node holds at most, unless it is a single one.
const NODE_MAX: usize = BLOCK_BYTES_MAX - USED_BYTES;

/// A node: where its elements are, and how many.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// The bits of a [`Place`].
    place: u32,
    count: u16,
    is_large: bool,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Block(BlockRef),
    Large(u32),
}

impl Node {
    fn new(place: Place, count: usize) -> Node {
        let (place, is_large) = match place {
            Place::Block(block) => (block.bits(), false),
            Place::Large(index) => (index, true),
        };
        Node { place, count: count as u16, is_large }
    }

    fn place(&self) -> Place {
        match self.is_large {
            true => Place::Large(self.place),
            false => Place::Block(BlockRef::from_bits(self.place).expect("a node has a block")),
        }
    }

    fn count(&self) -> usize {
        usize::from(self.count)
    }

    fn elements<'a>(&self, heap: &'a Heap) -> &'a [u8] {
        match self.place() {
            Place::Block(block) => elements(&heap.slabs, block),
            Place::Large(index) => heap.larges.bytes(index),
        }
    }
}

/// See the top of the file.
#[derive(Default)]
pub(crate) struct Chain {
    nodes: VecDeque<Node>,
    len: usize,
    /// Bytes of all elements.
    bytes: usize,
    /// Where the elements of the last node start; empty while nobody has asked.
    tail_starts: Vec<u16>,
    /// Redis would hold it as a quicklist; see [`super::ListLimit`].
    pub(crate) is_quicklist: bool,
}

/// How many of the first bytes are whole elements that fit a node, up to about `most` bytes; and how
/// many elements.
fn piece(bytes: &[u8], most: usize) -> (usize, usize) {
    let list = Listpack::<false>::new(bytes);
    let (mut at, mut count) = (0, 0);
    while at < bytes.len().min(most) {
        let next = list.skip(at);
        if next > NODE_MAX && count > 0 {
            break;
        }
        (at, count) = (next, count + 1);
    }
    (at, count)
}

fn elements(slabs: &Slabs, block: BlockRef) -> &[u8] {
    let bytes = slabs.block(block);
    let used = u16::from_le_bytes([bytes[0], bytes[1]]) as usize;
    &bytes[USED_BYTES..USED_BYTES + used]
}

fn set_used(block: &mut [u8], used: usize) {
    block[..USED_BYTES].copy_from_slice(&(used as u16).to_le_bytes());
}

impl Chain {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many nodes.
    pub(crate) fn nodes_len(&self) -> usize {
        self.nodes.len()
    }

    /// Bytes of all elements.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes outside of slab blocks and of large values.
    pub(crate) fn outside_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.tail_starts.capacity() * size_of::<u16>()
    }

    /// Bytes of its nodes.
    pub(crate) fn node_bytes(&self, heap: &Heap) -> usize {
        let bytes = |node: &Node| match node.place() {
            Place::Block(block) => heap.slabs.block_bytes(block),
            Place::Large(index) => heap.larges.capacity(index),
        };
        self.nodes.iter().map(bytes).sum()
    }

    fn elements<'a>(&self, heap: &'a Heap, node: usize) -> &'a [u8] {
        self.nodes[node].elements(heap)
    }

    /// A chain of packed elements.
    pub(crate) fn build(heap: &mut Heap, packed: &[u8]) -> Result<Chain, OutOfMemory> {
        let mut chain = Chain::default();
        let nodes = chain.new_nodes(heap, packed, NODE_MAX)?;
        for (node, len) in nodes {
            chain.add(chain.nodes.len(), node, len);
        }
        Ok(chain)
    }

    /// All elements one after another.
    pub(crate) fn pack(&self, heap: &Heap) -> Vec<u8> {
        let mut packed = Vec::with_capacity(self.bytes);
        self.nodes.iter().for_each(|node| packed.extend_from_slice(node.elements(heap)));
        packed
    }

    /// Elements in nodes that are not in the chain yet, of about `most` bytes, with their bytes.
    fn new_nodes(
        &self,
        heap: &mut Heap,
        mut packed: &[u8],
        most: usize,
    ) -> Result<Vec<(Node, usize)>, OutOfMemory> {
        let mut nodes = Vec::with_capacity(packed.len() / most + 1);
        while !packed.is_empty() {
            let (len, count) = piece(packed, most);
            match self.new_node(heap, &packed[..len], count, USED_BYTES + len) {
                Ok(node) => nodes.push((node, len)),
                Err(error) => {
                    let made = nodes.into_iter().map(|(node, _)| node);
                    made.for_each(|node| free(&mut heap.slabs, &mut heap.larges, node));
                    return Err(error);
                }
            }
            packed = &packed[len..];
        }
        Ok(nodes)
    }

    /// A node that is not in the chain yet, in a block of at least `room` bytes.
    fn new_node(
        &self,
        heap: &mut Heap,
        bytes: &[u8],
        count: usize,
        room: usize,
    ) -> Result<Node, OutOfMemory> {
        let place = if bytes.len() > NODE_MAX {
            Place::Large(heap.larges.insert(bytes.len(), &[bytes])?)
        } else {
            let block = heap.slabs.alloc(room)?;
            let target = heap.slabs.block_mut(block);
            set_used(target, bytes.len());
            target[USED_BYTES..USED_BYTES + bytes.len()].copy_from_slice(bytes);
            Place::Block(block)
        };
        Ok(Node::new(place, count))
    }

    fn add(&mut self, at: usize, node: Node, bytes: usize) {
        self.tail_starts.clear();
        self.len += node.count();
        self.bytes += bytes;
        if self.nodes.len() == self.nodes.capacity() {
            // A large list has few nodes to spare.
            self.nodes.reserve_exact(self.nodes.len() / 8 + 4);
        }
        self.nodes.insert(at, node);
    }

    fn remove_nodes(&mut self, heap: &mut Heap, nodes: Range<usize>) {
        self.tail_starts.clear();
        for node in self.nodes.drain(nodes) {
            self.len -= node.count();
            self.bytes -= node.elements(heap).len();
            free(&mut heap.slabs, &mut heap.larges, node);
        }
        if self.nodes.capacity() > 2 * self.nodes.len() + 16 {
            self.nodes.shrink_to(self.nodes.len() + self.nodes.len() / 8 + 4);
        }
    }

    fn remove_node(&mut self, heap: &mut Heap, at: usize) {
        self.remove_nodes(heap, at..at + 1);
    }

    /// Adds an element at an end.
    pub(crate) fn push(
        &mut self,
        heap: &mut Heap,
        end: End,
        element: Element<'_>,
    ) -> Result<(), OutOfMemory> {
        let mut packed = Vec::with_capacity(element.stored_len::<false>());
        listpack::push::<false>(&mut packed, element);
        let at = match end {
            End::Head => 0,
            End::Tail => self.nodes.len().saturating_sub(1),
        };
        if let Some(Place::Block(block)) = self.nodes.get(at).map(Node::place) {
            let used = elements(&heap.slabs, block).len();
            if used + packed.len() <= NODE_MAX {
                let block = self.widen(heap, at, block)?;
                let target = heap.slabs.block_mut(block);
                set_used(target, used + packed.len());
                let target = &mut target[USED_BYTES..];
                let start = if end == End::Head { 0 } else { used };
                target.copy_within(start..used, start + packed.len());
                target[start..start + packed.len()].copy_from_slice(&packed);
                match end {
                    End::Head if self.nodes.len() == 1 => self.tail_starts.clear(),
                    End::Tail if !self.tail_starts.is_empty() => self.tail_starts.push(used as u16),
                    _ => (),
                }
                self.nodes[at].count += 1;
                self.len += 1;
                self.bytes += packed.len();
                return Ok(());
            }
        }
        let node = self.new_node(heap, &packed, 1, BLOCK_BYTES_MAX)?;
        let at = if end == End::Head { 0 } else { self.nodes.len() };
        self.add(at, node, packed.len());
        Ok(())
    }

    /// Gives a node at an end the largest block.
    fn widen(
        &mut self,
        heap: &mut Heap,
        at: usize,
        block: BlockRef,
    ) -> Result<BlockRef, OutOfMemory> {
        if heap.slabs.block_bytes(block) == BLOCK_BYTES_MAX {
            return Ok(block);
        }
        let wide = heap.slabs.alloc(BLOCK_BYTES_MAX)?;
        let used = elements(&heap.slabs, block).len();
        heap.slabs.copy(block, 0..USED_BYTES + used, wide, 0);
        heap.slabs.free(block);
        self.nodes[at] = Node::new(Place::Block(wide), self.nodes[at].count());
        Ok(wide)
    }

    /// Takes the element at an end away.
    pub(crate) fn pop(&mut self, heap: &mut Heap, end: End) {
        let at = if end == End::Head { 0 } else { self.nodes.len() - 1 };
        let node = self.nodes[at];
        let (Place::Block(block), 2..) = (node.place(), node.count) else {
            return self.remove_node(heap, at);
        };
        let bytes = elements(&heap.slabs, block);
        let (used, list) = (bytes.len(), Listpack::<false>::new(bytes));
        let gone = match end {
            End::Head => {
                if self.nodes.len() == 1 {
                    self.tail_starts.clear();
                }
                0..list.skip(0)
            }
            End::Tail => {
                if self.tail_starts.is_empty() {
                    self.tail_starts.extend(list.iter().map(|(start, _)| start as u16));
                }
                usize::from(self.tail_starts.pop().expect("a node is not empty"))..used
            }
        };
        let target = heap.slabs.block_mut(block);
        target[USED_BYTES..].copy_within(gone.end..used, gone.start);
        set_used(target, used - gone.len());
        self.nodes[at].count -= 1;
        self.len -= 1;
        self.bytes -= gone.len();
    }

    /// The node that holds an element, and the element's index in it.
    fn locate(&self, index: usize) -> (usize, usize) {
        if index <= self.len / 2 {
            let mut left = index;
            for (at, node) in self.nodes.iter().enumerate() {
                if left < node.count() {
                    return (at, left);
                }
                left -= node.count();
            }
        } else {
            let mut left = self.len - index;
            for (at, node) in self.nodes.iter().enumerate().rev() {
                if left <= node.count() {
                    return (at, node.count() - left);
                }
                left -= node.count();
            }
        }
        unreachable!("the caller names an element of the list")
    }

    /// The bytes of a node, and where an element of it starts.
    pub(crate) fn find<'a>(&self, heap: &'a Heap, index: usize) -> (usize, &'a [u8], usize) {
        let (at, within) = self.locate(index);
        let bytes = self.elements(heap, at);
        let offset = Listpack::<false>::new(bytes).nth(within);
        (at, bytes, offset)
    }

    /// The bytes of a node by its number; `None` after the last one.
    pub(crate) fn node<'a>(&self, heap: &'a Heap, at: usize) -> Option<&'a [u8]> {
        (at < self.nodes.len()).then(|| self.elements(heap, at))
    }

    /// Puts an element in the place of `gone` elements, none or one, at an index.
    pub(crate) fn splice(
        &mut self,
        heap: &mut Heap,
        index: usize,
        gone: usize,
        element: Element<'_>,
    ) -> Result<(), OutOfMemory> {
        // An element behind the last one belongs to the last node.
        let (at, within) = if index == self.len {
            let last = self.nodes.len() - 1;
            (last, self.nodes[last].count())
        } else {
            self.locate(index)
        };
        let old = self.elements(heap, at);
        let (start, end) = self.range(heap, at, within..within + gone);
        let mut bytes = Vec::with_capacity(old.len() + element.stored_len::<false>());
        bytes.extend_from_slice(&old[..start]);
        listpack::push::<false>(&mut bytes, element);
        bytes.extend_from_slice(&old[end..]);
        self.rewrite(heap, at, &bytes)
    }

    /// Where elements of a node start and end.
    fn range(&self, heap: &Heap, at: usize, elements: Range<usize>) -> (usize, usize) {
        let list = Listpack::<false>::new(self.elements(heap, at));
        let start = list.nth(elements.start);
        (start, elements.fold(start, |at, _| list.skip(at)))
    }

    /// Gives a node other elements: some, or more than a node holds.
    fn rewrite(&mut self, heap: &mut Heap, at: usize, bytes: &[u8]) -> Result<(), OutOfMemory> {
        // Two halves, so that neither is cut again at once.
        let is_halved = bytes.len() > NODE_MAX && bytes.len() < 2 * NODE_MAX;
        let most = if is_halved { bytes.len() / 2 } else { NODE_MAX };
        let fresh = self.new_nodes(heap, bytes, most)?;
        self.remove_node(heap, at);
        let pieces = fresh.len();
        for (offset, (node, len)) in fresh.into_iter().enumerate() {
            self.add(at + offset, node, len);
        }
        if pieces == 1 {
            self.join_around(heap, at);
        }
        Ok(())
    }

    /// Gives a node fewer elements than it has, or none. Needs no memory.
    fn shrink(&mut self, heap: &mut Heap, at: usize, bytes: &[u8], count: usize) {
        let (Place::Block(block), 1..) = (self.nodes[at].place(), count) else {
            debug_assert_eq!(count, 0, "what is too large for a block is a single element");
            return self.remove_node(heap, at);
        };
        self.tail_starts.clear();
        self.bytes -= elements(&heap.slabs, block).len() - bytes.len();
        self.len -= self.nodes[at].count() - count;
        if let Ok(node) = self.new_node(heap, bytes, count, USED_BYTES + bytes.len()) {
            heap.slabs.free(block);
            self.nodes[at] = node;
            return;
        }
        // Without memory for a smaller block they stay in this one.
        let target = heap.slabs.block_mut(block);
        set_used(target, bytes.len());
        target[USED_BYTES..USED_BYTES + bytes.len()].copy_from_slice(bytes);
        self.nodes[at].count = count as u16;
    }

    /// Joins a node with the next one if both fill half a node at most; true once they are one.
    fn join(&mut self, heap: &mut Heap, at: usize) -> bool {
        let (Some(first), Some(second)) = (self.node(heap, at), self.node(heap, at + 1)) else {
            return false;
        };
        if first.len() + second.len() > NODE_MAX / 2 {
            return false;
        }
        let joined = [first, second].concat();
        let count = self.nodes[at].count() + self.nodes[at + 1].count();
        // Without memory both stay as they are.
        let made = self.new_node(heap, &joined, count, USED_BYTES + joined.len());
        made.is_ok_and(|node| {
            self.remove_node(heap, at + 1);
            self.remove_node(heap, at);
            self.add(at, node, joined.len());
            true
        })
    }

    /// Joins a node with the next one, or else with the one before.
    fn join_around(&mut self, heap: &mut Heap, at: usize) {
        if !self.join(heap, at) && at > 0 {
            self.join(heap, at - 1);
        }
    }

    /// Takes elements away, all of them there. Needs no memory.
    pub(crate) fn remove(&mut self, heap: &mut Heap, index: usize, count: usize) {
        if count == 0 {
            return;
        }
        let (mut at, within) = self.locate(index);
        let here = self.nodes[at].count() - within;
        let mut left = count;
        if within > 0 || left < here {
            self.cut(heap, at, within..within + here.min(left));
            left -= here.min(left);
            at += 1;
        }
        let whole = at..self.nodes.len();
        let whole = self.nodes.range(whole).take_while(|node| {
            let goes = left >= node.count();
            left -= if goes { node.count() } else { 0 };
            goes
        });
        let end = at + whole.count();
        self.remove_nodes(heap, at..end);
        if left > 0 {
            self.cut(heap, at, 0..left);
        }
        // The nodes on both sides of what went have become shorter.
        self.join_around(heap, at);
        if at > 0 {
            self.join_around(heap, at - 1);
        }
    }

    /// Takes some elements of a node away, but not all.
    fn cut(&mut self, heap: &mut Heap, at: usize, gone: Range<usize>) {
        let count = self.nodes[at].count() - gone.len();
        let (start, end) = self.range(heap, at, gone);
        let old = self.elements(heap, at);
        let bytes = [&old[..start], &old[end..]].concat();
        self.shrink(heap, at, &bytes, count);
    }

    /// Takes elements away that are equal to one: not the first `spare` of them, and `most` at most.
    /// Needs no memory.
    pub(crate) fn remove_equal(
        &mut self,
        heap: &mut Heap,
        element: Element<'_>,
        mut spare: usize,
        mut most: usize,
    ) {
        let mut at = 0;
        while most > 0
            && let Some(bytes) = self.node(heap, at)
        {
            if let Some((kept, gone)) = without(bytes, element, &mut spare, most) {
                most -= gone;
                let count = self.nodes[at].count() - gone;
                self.shrink(heap, at, &kept, count);
                let is_gone = count == 0;
                // What stands before has been looked at; it may join that, but nothing after it.
                if is_gone || at > 0 && self.join(heap, at - 1) {
                    continue;
                }
            }
            at += 1;
        }
    }

    /// Frees a bounded piece; false once nothing is left.
    pub(crate) fn drain_step(&mut self, slabs: &mut Slabs, larges: &mut Larges) -> bool {
        let Some(node) = self.nodes.pop_back() else { return false };
        free(slabs, larges, node);
        true
    }

    /// Moves up to `count` nodes from one on out of spans that are marked sparse; where to go on.
    pub(crate) fn move_out(
        &mut self,
        slabs: &mut Slabs,
        first: usize,
        count: usize,
        moved: &mut u64,
    ) -> Option<usize> {
        let end = self.nodes.len().min(first + count);
        for node in self.nodes.range_mut(first.min(end)..end) {
            if let Place::Block(block) = node.place()
                && slabs.is_marked(block)
                && let Ok(target) = slabs.move_out(block)
            {
                *node = Node::new(Place::Block(target), node.count());
                *moved += 1;
            }
        }
        (end < self.nodes.len()).then_some(end)
    }

    /// Checks the sums, and every node.
    ///
    /// # Panics
    /// When something does not agree.
    pub(crate) fn validate(&self, heap: &Heap) {
        let (mut len, mut bytes) = (0, 0);
        for at in 0..self.nodes.len() {
            let elements = self.elements(heap, at);
            let count = Listpack::<false>::validate(elements).expect("sound elements");
            assert!(count > 0 && count == self.nodes[at].count(), "node {at}");
            len += count;
            bytes += elements.len();
        }
        assert_eq!((len, bytes), (self.len, self.bytes));
        if let (Some(last), false) = (self.nodes.back(), self.tail_starts.is_empty()) {
            let list = Listpack::<false>::new(last.elements(heap)).iter();
            assert!(list.map(|(start, _)| start as u16).eq(self.tail_starts.iter().copied()));
        }
    }
}

/// What is left of packed elements without those that are equal to one, after the first `spare` of
/// them and `most` at most; and how many went, `None` without any.
pub(super) fn without(
    bytes: &[u8],
    element: Element<'_>,
    spare: &mut usize,
    most: usize,
) -> Option<(Vec<u8>, usize)> {
    let list = Listpack::<false>::new(bytes);
    let (mut kept, mut from, mut gone) = (Vec::new(), 0, 0);
    for (at, _) in list.iter().filter(|(_, other)| *other == element) {
        if *spare > 0 {
            *spare -= 1;
            continue;
        }
        kept.extend_from_slice(&bytes[from..at]);
        from = list.skip(at);
        gone += 1;
        if gone == most {
            break;
        }
    }
    if gone == 0 {
        return None;
    }
    kept.extend_from_slice(&bytes[from..]);
    Some((kept, gone))
}

fn free(slabs: &mut Slabs, larges: &mut Larges, node: Node) {
    match node.place() {
        Place::Block(block) => slabs.free(block),
        Place::Large(index) => larges.remove(index),
    }
}
