//! A big list: packed nodes in slab blocks, in a ring of references.
//!
//! ```text
//! node block   bytes used u16, little endian | elements with back lengths | room
//! ```
//!
//! The nodes at both ends have the largest blocks, so that what is pushed there is written in place;
//! a node in the middle has the smallest block that holds it. An element that fits no block is a node
//! of its own outside the slabs. A place in the middle is found by the counts of the nodes from the
//! nearer end: 8 bytes for each 170 elements of 10 bytes.
//!
//! Invariants, checked by [`Chain::validate`]: no node is empty; `len` and `bytes` are the sums over
//! the nodes.

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
    place: Place,
    count: u32,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Block(BlockRef),
    Large(u32),
}

impl Node {
    fn elements<'a>(&self, heap: &'a Heap) -> &'a [u8] {
        match self.place {
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
    /// Redis would hold it as a quicklist; see [`super::ListLimit`].
    pub(crate) is_quicklist: bool,
}

/// Appends the first elements of `bytes` that fit a node, and gives how many bytes and elements.
fn piece(bytes: &[u8]) -> (usize, usize) {
    let list = Listpack::<true>::new(bytes);
    let (mut at, mut count) = (0, 0);
    while at < bytes.len() {
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

    /// Bytes of all elements, with their back lengths.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes outside of slab blocks and of large values.
    pub(crate) fn outside_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
    }

    /// Bytes of its nodes.
    pub(crate) fn node_bytes(&self, heap: &Heap) -> usize {
        let bytes = |node: &Node| match node.place {
            Place::Block(block) => heap.slabs.block_bytes(block),
            Place::Large(index) => heap.larges.capacity(index),
        };
        self.nodes.iter().map(bytes).sum()
    }

    fn elements<'a>(&self, heap: &'a Heap, node: usize) -> &'a [u8] {
        self.nodes[node].elements(heap)
    }

    /// A chain of elements that are packed without back lengths.
    pub(crate) fn build(heap: &mut Heap, packed: &[u8]) -> Result<Chain, OutOfMemory> {
        let mut chain = Chain::default();
        let (mut node, mut count) = (Vec::with_capacity(NODE_MAX), 0);
        let mut iter = Listpack::<false>::new(packed).iter().map(|(_, element)| element).peekable();
        while let Some(element) = iter.next() {
            listpack::push::<true>(&mut node, element);
            count += 1;
            let next = iter.peek().map_or(NODE_MAX, Element::stored_len::<true>);
            if node.len() + next <= NODE_MAX {
                continue;
            }
            match chain.new_node(heap, &node, count, USED_BYTES + node.len()) {
                Ok(made) => chain.add(chain.nodes.len(), made, node.len()),
                Err(error) => {
                    chain.clear(heap);
                    return Err(error);
                }
            }
            node.clear();
            count = 0;
        }
        Ok(chain)
    }

    /// All elements one after another, without back lengths.
    pub(crate) fn pack(&self, heap: &Heap) -> Vec<u8> {
        let mut packed = Vec::with_capacity(self.bytes - self.len);
        for node in 0..self.nodes.len() {
            let elements = Listpack::<true>::new(self.elements(heap, node)).iter();
            elements.for_each(|(_, element)| listpack::push::<false>(&mut packed, element));
        }
        packed
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
        Ok(Node { place, count: count as u32 })
    }

    fn add(&mut self, at: usize, node: Node, bytes: usize) {
        self.len += node.count as usize;
        self.bytes += bytes;
        self.nodes.insert(at, node);
    }

    fn remove_nodes(&mut self, heap: &mut Heap, nodes: Range<usize>) {
        for node in self.nodes.drain(nodes) {
            self.len -= node.count as usize;
            self.bytes -= node.elements(heap).len();
            free(&mut heap.slabs, &mut heap.larges, node);
        }
    }

    fn remove_node(&mut self, heap: &mut Heap, at: usize) {
        self.remove_nodes(heap, at..at + 1);
    }

    fn clear(&mut self, heap: &mut Heap) {
        while self.drain_step(&mut heap.slabs, &mut heap.larges) {}
    }

    /// Adds an element at an end.
    pub(crate) fn push(
        &mut self,
        heap: &mut Heap,
        end: End,
        element: Element<'_>,
    ) -> Result<(), OutOfMemory> {
        let mut packed = Vec::with_capacity(element.stored_len::<true>());
        listpack::push::<true>(&mut packed, element);
        let at = match end {
            End::Head => 0,
            End::Tail => self.nodes.len().saturating_sub(1),
        };
        if let Some(Node { place: Place::Block(block), .. }) = self.nodes.get(at).copied() {
            let used = elements(&heap.slabs, block).len();
            if used + packed.len() <= NODE_MAX {
                let block = self.widen(heap, at, block)?;
                let target = heap.slabs.block_mut(block);
                set_used(target, used + packed.len());
                let target = &mut target[USED_BYTES..];
                let start = if end == End::Head { 0 } else { used };
                target.copy_within(start..used, start + packed.len());
                target[start..start + packed.len()].copy_from_slice(&packed);
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
        self.nodes[at].place = Place::Block(wide);
        Ok(wide)
    }

    /// Takes the element at an end away.
    pub(crate) fn pop(&mut self, heap: &mut Heap, end: End) {
        let at = if end == End::Head { 0 } else { self.nodes.len() - 1 };
        let Node { place, count } = self.nodes[at];
        let (Place::Block(block), true) = (place, count > 1) else {
            return self.remove_node(heap, at);
        };
        let bytes = elements(&heap.slabs, block);
        let (used, list) = (bytes.len(), Listpack::<true>::new(bytes));
        let gone = match end {
            End::Head => 0..list.skip(0),
            End::Tail => list.before(used).expect("a node is not empty")..used,
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
                if left < node.count as usize {
                    return (at, left);
                }
                left -= node.count as usize;
            }
        } else {
            let mut left = self.len - index;
            for (at, node) in self.nodes.iter().enumerate().rev() {
                if left <= node.count as usize {
                    return (at, node.count as usize - left);
                }
                left -= node.count as usize;
            }
        }
        unreachable!("the caller names an element of the list")
    }

    /// The bytes of a node, and where an element of it starts.
    pub(crate) fn find<'a>(&self, heap: &'a Heap, index: usize) -> (usize, &'a [u8], usize) {
        let (at, within) = self.locate(index);
        let bytes = self.elements(heap, at);
        let offset = Listpack::<true>::new(bytes).seek(within, self.nodes[at].count as usize);
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
            (last, self.nodes[last].count as usize)
        } else {
            self.locate(index)
        };
        let old = self.elements(heap, at);
        let (start, end) = self.range(heap, at, within..within + gone);
        let mut bytes = Vec::with_capacity(old.len() + element.stored_len::<true>());
        bytes.extend_from_slice(&old[..start]);
        listpack::push::<true>(&mut bytes, element);
        bytes.extend_from_slice(&old[end..]);
        self.rewrite(heap, at, &bytes)
    }

    /// Where elements of a node start and end.
    fn range(&self, heap: &Heap, at: usize, elements: Range<usize>) -> (usize, usize) {
        let list = Listpack::<true>::new(self.elements(heap, at));
        let count = self.nodes[at].count as usize;
        (list.seek(elements.start, count), list.seek(elements.end, count))
    }

    /// Gives a node other elements: some, or more than a node holds.
    fn rewrite(&mut self, heap: &mut Heap, at: usize, bytes: &[u8]) -> Result<(), OutOfMemory> {
        let mut fresh = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let whole = rest.len() > NODE_MAX;
            let (mut len, mut count) = piece(rest);
            if whole && count > 1 && fresh.is_empty() && rest.len() < 2 * NODE_MAX {
                // Two halves, so that neither is cut again at once.
                (len, count) = half(rest);
            }
            match self.new_node(heap, &rest[..len], count, USED_BYTES + len) {
                Ok(node) => fresh.push((node, len)),
                Err(error) => {
                    for (node, _) in fresh {
                        free(&mut heap.slabs, &mut heap.larges, node);
                    }
                    return Err(error);
                }
            }
            rest = &rest[len..];
        }
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
        let Node { place: Place::Block(block), count: before } = self.nodes[at] else {
            debug_assert_eq!(count, 0, "what is too large for a block is a single element");
            return self.remove_node(heap, at);
        };
        if count == 0 {
            return self.remove_node(heap, at);
        }
        self.bytes -= elements(&heap.slabs, block).len() - bytes.len();
        self.len -= before as usize - count;
        if let Ok(node) = self.new_node(heap, bytes, count, USED_BYTES + bytes.len()) {
            heap.slabs.free(block);
            self.nodes[at] = node;
            return;
        }
        // Without memory for a smaller block they stay in this one.
        let target = heap.slabs.block_mut(block);
        set_used(target, bytes.len());
        target[USED_BYTES..USED_BYTES + bytes.len()].copy_from_slice(bytes);
        self.nodes[at].count = count as u32;
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
        let count = (self.nodes[at].count + self.nodes[at + 1].count) as usize;
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
        let here = self.nodes[at].count as usize - within;
        let mut left = count;
        if within > 0 || left < here {
            self.cut(heap, at, within..within + here.min(left));
            left -= here.min(left);
            at += 1;
        }
        let whole = at..self.nodes.len();
        let whole = self.nodes.range(whole).take_while(|node| {
            let goes = left >= node.count as usize;
            left -= if goes { node.count as usize } else { 0 };
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
        let count = self.nodes[at].count as usize - gone.len();
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
            if let Some((kept, gone)) = without::<true>(bytes, element, &mut spare, most) {
                most -= gone;
                let count = self.nodes[at].count as usize - gone;
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
            if let Place::Block(block) = node.place
                && slabs.is_marked(block)
                && let Ok(target) = slabs.move_out(block)
            {
                node.place = Place::Block(target);
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
            let count = Listpack::<true>::validate(elements).expect("sound elements");
            assert!(count > 0 && count == self.nodes[at].count as usize, "node {at}");
            len += count;
            bytes += elements.len();
        }
        assert_eq!((len, bytes), (self.len, self.bytes));
    }
}

/// As [`piece`], but about half of the bytes.
fn half(bytes: &[u8]) -> (usize, usize) {
    let list = Listpack::<true>::new(bytes);
    let (mut at, mut count) = (0, 0);
    while at < bytes.len() / 2 {
        let next = list.skip(at);
        if next > NODE_MAX && count > 0 {
            break;
        }
        (at, count) = (next, count + 1);
    }
    (at, count)
}

/// What is left of packed elements without those that are equal to one, after the first `spare` of
/// them and `most` at most; and how many went, `None` without any.
pub(super) fn without<const BACK: bool>(
    bytes: &[u8],
    element: Element<'_>,
    spare: &mut usize,
    most: usize,
) -> Option<(Vec<u8>, usize)> {
    let list = Listpack::<BACK>::new(bytes);
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
    match node.place {
        Place::Block(block) => slabs.free(block),
        Place::Large(index) => larges.remove(index),
    }
}
