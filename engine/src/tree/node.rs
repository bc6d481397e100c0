//! A node of a [`super::Tree`] in a slab block.
//!
//! ```text
//! leaf    entries u16 | unused u16 | entry u32 ...
//! inner   children u16 | unused u16 | child ...
//! child   node u32 | entries below it u32 | its first entry u32
//! ```
//!
//! Integers are little endian. Entries and nodes are block references. Which of both a node is, its
//! level tells. A block has room for a few more items than it holds, and is replaced by a larger one
//! when that is used up: however full a node is, it wastes little.

use std::ops::Range;

use crate::error::OutOfMemory;
use crate::slab::{BLOCK_BYTES_MAX, BlockRef, Slabs};

const HEADER_BYTES: usize = 4;
const ENTRY_BYTES: usize = 4;
const CHILD_BYTES: usize = 12;

/// What the items of a node are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Leaf,
    Inner,
}

impl Kind {
    /// The kind of the nodes so many levels above the leaves.
    pub(super) fn at(level: usize) -> Kind {
        if level == 0 { Kind::Leaf } else { Kind::Inner }
    }

    pub(super) const fn item_bytes(self) -> usize {
        match self {
            Kind::Leaf => ENTRY_BYTES,
            Kind::Inner => CHILD_BYTES,
        }
    }

    /// Most items of a node. Tests have small ones, so that few entries make a high tree.
    pub(super) const fn items_max(self) -> usize {
        if cfg!(test) {
            return 12;
        }
        (BLOCK_BYTES_MAX - HEADER_BYTES) / self.item_bytes()
    }

    /// Bytes of so many items with their header.
    fn bytes(self, items: usize) -> usize {
        HEADER_BYTES + items * self.item_bytes()
    }

    /// Bytes of a block for a node that has come to hold so many items.
    fn roomy_bytes(self, items: usize) -> usize {
        let bytes = self.bytes(items);
        (bytes + bytes / 16 + self.item_bytes()).min(self.bytes(self.items_max()))
    }
}

/// A child of an inner node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Child {
    pub(super) node: BlockRef,
    pub(super) len: usize,
    pub(super) first: BlockRef,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn reference(bytes: &[u8], at: usize) -> BlockRef {
    BlockRef::from_bits(word(bytes, at)).expect("items name blocks")
}

/// Items of a node.
#[inline]
pub(super) fn count(slabs: &Slabs, node: BlockRef) -> usize {
    let bytes = slabs.block(node);
    usize::from(u16::from_le_bytes([bytes[0], bytes[1]]))
}

fn set_count(slabs: &mut Slabs, node: BlockRef, count: usize) {
    slabs.block_mut(node)[..2].copy_from_slice(&(count as u16).to_le_bytes());
}

#[inline]
pub(super) fn entry(slabs: &Slabs, leaf: BlockRef, index: usize) -> BlockRef {
    reference(slabs.block(leaf), HEADER_BYTES + index * ENTRY_BYTES)
}

pub(super) fn set_entry(slabs: &mut Slabs, leaf: BlockRef, index: usize, entry: BlockRef) {
    let at = HEADER_BYTES + index * ENTRY_BYTES;
    slabs.block_mut(leaf)[at..at + 4].copy_from_slice(&entry.bits().to_le_bytes());
}

#[inline]
pub(super) fn child(slabs: &Slabs, inner: BlockRef, index: usize) -> Child {
    let (bytes, at) = (slabs.block(inner), HEADER_BYTES + index * CHILD_BYTES);
    Child {
        node: reference(bytes, at),
        len: word(bytes, at + 4) as usize,
        first: reference(bytes, at + 8),
    }
}

pub(super) fn set_child(slabs: &mut Slabs, inner: BlockRef, index: usize, child: Child) {
    let at = HEADER_BYTES + index * CHILD_BYTES;
    let bytes = &mut slabs.block_mut(inner)[at..at + CHILD_BYTES];
    bytes[..4].copy_from_slice(&child.node.bits().to_le_bytes());
    bytes[4..8].copy_from_slice(&(child.len as u32).to_le_bytes());
    bytes[8..].copy_from_slice(&child.first.bits().to_le_bytes());
}

/// A node as its parent names it; it has items.
pub(super) fn as_child(slabs: &Slabs, kind: Kind, node: BlockRef) -> Child {
    let count = count(slabs, node);
    match kind {
        Kind::Leaf => Child { node, len: count, first: entry(slabs, node, 0) },
        Kind::Inner => {
            let children = (0..count).map(|index| child(slabs, node, index));
            let first = child(slabs, node, 0).first;
            Child { node, len: children.map(|child| child.len).sum(), first }
        }
    }
}

/// Allocates a node without items that has room for so many.
pub(super) fn alloc(slabs: &mut Slabs, kind: Kind, items: usize) -> Result<BlockRef, OutOfMemory> {
    let node = slabs.alloc(kind.roomy_bytes(items))?;
    set_count(slabs, node, 0);
    Ok(node)
}

/// Whether a node's block has room for one more item.
#[inline]
pub(super) fn has_room(slabs: &Slabs, kind: Kind, node: BlockRef) -> bool {
    kind.bytes(count(slabs, node) + 1) <= slabs.block_bytes(node)
}

/// Whether a node's block is much larger than it needs to be.
pub(super) fn is_loose(slabs: &Slabs, kind: Kind, node: BlockRef) -> bool {
    let needed = kind.roomy_bytes(count(slabs, node));
    slabs.block_bytes(node) > needed + needed / 8 + 16
}

/// Appends a range of the items of one node to another, which has room for them.
pub(super) fn append(
    slabs: &mut Slabs,
    kind: Kind,
    from: BlockRef,
    items: Range<usize>,
    to: BlockRef,
) {
    let held = count(slabs, to);
    slabs.copy(from, kind.bytes(items.start)..kind.bytes(items.end), to, kind.bytes(held));
    set_count(slabs, to, held + items.len());
}

/// Opens a gap for an item, whose bytes are undefined; there is room.
pub(super) fn open(slabs: &mut Slabs, kind: Kind, node: BlockRef, index: usize) {
    let count = count(slabs, node);
    let (at, end) = (kind.bytes(index), kind.bytes(count));
    slabs.block_mut(node).copy_within(at..end, at + kind.item_bytes());
    set_count(slabs, node, count + 1);
}

/// Takes items out.
pub(super) fn close(slabs: &mut Slabs, kind: Kind, node: BlockRef, items: Range<usize>) {
    let count = count(slabs, node);
    let (start, end) = (kind.bytes(items.start), kind.bytes(items.end));
    slabs.block_mut(node).copy_within(end..kind.bytes(count), start);
    set_count(slabs, node, count - items.len());
}
