//! A counted B+ tree of block references: the order of a big sorted set.
//!
//! The tree knows blocks by their numbers only; how two of them stand to each other, the caller
//! says. An inner node knows how many entries lie below each child, so that a rank is found from an
//! entry and an entry from a rank in logarithmic time, and the first entry of each, so that a search
//! reads one block to choose among two children.
//!
//! A comparison reads a block somewhere in memory, which costs more than anything else here, so a
//! search makes as few as a binary search over all entries would.
//!
//! Nodes lie in slab blocks of any class up to the largest and grow through them (`tree/node.rs`), so
//! that an entry costs 4.2 bytes in whatever order entries come. A full node is split in the middle,
//! but at either end of the tree so that the full one stays full. Nodes that have lost most of their
//! items are merged with a neighbour if there is memory for it: taking entries out never fails.
//!
//! Every step of an insertion leaves a sound tree, so that it can end at any allocation that fails.

mod node;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::ops::Range;

use smallvec::SmallVec;

use crate::error::OutOfMemory;
use crate::slab::{BlockRef, Slabs};
use node::{Child, Kind, child, count, entry};

/// Entries whose blocks are fetched before an iterator comes to them.
const AHEAD: usize = 8;

/// See the top of the file.
#[derive(Default)]
pub(crate) struct Tree {
    root: Option<BlockRef>,
    /// Levels above the leaves.
    height: u32,
    len: u32,
    /// Bytes of the nodes' blocks.
    bytes: usize,
}

/// A node on the way to an entry, and which of its items leads there.
#[derive(Clone, Copy)]
struct Step {
    node: BlockRef,
    index: usize,
}

/// The way from the root to a place among the entries; the last step is in a leaf.
type Path = SmallVec<[Step; 6]>;

impl Tree {
    pub(crate) const fn new() -> Tree {
        Tree { root: None, height: 0, len: 0, bytes: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes of the nodes, which lie in slab blocks.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The way to the place behind all entries for which `is_before` is true.
    fn path_behind(
        &self,
        slabs: &Slabs,
        root: BlockRef,
        mut is_before: impl FnMut(&Slabs, BlockRef) -> bool,
    ) -> Path {
        let mut path = Path::new();
        let mut node = root;
        for _ in 0..self.height {
            // The first child needs no look: what comes before it comes at its start.
            let first = |index| child(slabs, node, index).first;
            let behind = search(slabs, 1..count(slabs, node), first, &mut is_before);
            path.push(Step { node, index: behind - 1 });
            node = child(slabs, node, behind - 1).node;
        }
        let held = count(slabs, node);
        let index = search(slabs, 0..held, |index| entry(slabs, node, index), &mut is_before);
        path.push(Step { node, index });
        path
    }

    /// The way to an entry that is there.
    fn path_to(
        &self,
        slabs: &Slabs,
        wanted: BlockRef,
        mut compare: impl FnMut(&Slabs, BlockRef) -> Ordering,
    ) -> Option<Path> {
        let mut path = self.path_behind(slabs, self.root?, |slabs, other| {
            compare(slabs, other) != Ordering::Greater
        });
        let last = path.last_mut()?;
        last.index = last.index.checked_sub(1)?;
        (entry(slabs, last.node, last.index) == wanted).then_some(path)
    }

    /// The way to the entry with a rank, which is there.
    fn path_at(&self, slabs: &Slabs, root: BlockRef, mut rank: usize) -> Path {
        let mut path = Path::new();
        let mut node = root;
        for _ in 0..self.height {
            let mut index = 0;
            let mut below = child(slabs, node, 0);
            while rank >= below.len {
                rank -= below.len;
                index += 1;
                below = child(slabs, node, index);
            }
            path.push(Step { node, index });
            node = below.node;
        }
        path.push(Step { node, index: rank });
        path
    }

    /// Adds an entry; `compare` says how another one stands to it.
    pub(crate) fn insert(
        &mut self,
        slabs: &mut Slabs,
        new: BlockRef,
        mut compare: impl FnMut(&Slabs, BlockRef) -> Ordering,
    ) -> Result<(), OutOfMemory> {
        let Some(root) = self.root else {
            let leaf = self.alloc(slabs, Kind::Leaf, 1)?;
            node::open(slabs, Kind::Leaf, leaf, 0);
            node::set_entry(slabs, leaf, 0, new);
            (self.root, self.len) = (Some(leaf), 1);
            return Ok(());
        };
        let mut root = root;
        loop {
            let mut path = self
                .path_behind(slabs, root, |slabs, other| compare(slabs, other) == Ordering::Less);
            let Step { node: leaf, index } = *path.last().expect("a path ends in a leaf");
            if count(slabs, leaf) == Kind::Leaf.items_max() {
                root = self.split_one(slabs, &path)?;
                continue;
            }
            self.make_room(slabs, &mut path, 0)?;
            let leaf = path.last().expect("a path ends in a leaf").node;
            node::open(slabs, Kind::Leaf, leaf, index);
            node::set_entry(slabs, leaf, index, new);
            self.len += 1;
            self.refresh(slabs, &path, 1);
            return Ok(());
        }
    }

    /// Takes an entry out; `compare` says how another one stands to it. False when it is not there.
    pub(crate) fn remove(
        &mut self,
        slabs: &mut Slabs,
        old: BlockRef,
        compare: impl FnMut(&Slabs, BlockRef) -> Ordering,
    ) -> bool {
        let Some(path) = self.path_to(slabs, old, compare) else { return false };
        self.remove_at_path(slabs, path);
        true
    }

    /// Takes the entry with a rank out, which is there.
    pub(crate) fn remove_at(&mut self, slabs: &mut Slabs, rank: usize) {
        let root = self.root.expect("an entry with a rank is there");
        let path = self.path_at(slabs, root, rank);
        self.remove_at_path(slabs, path);
    }

    /// Puts another block in the place of one; `compare` says how others stand to either. False when
    /// it is not there.
    pub(crate) fn replace(
        &mut self,
        slabs: &mut Slabs,
        old: BlockRef,
        new: BlockRef,
        compare: impl FnMut(&Slabs, BlockRef) -> Ordering,
    ) -> bool {
        let Some(path) = self.path_to(slabs, old, compare) else { return false };
        let Step { node, index } = *path.last().expect("a path ends in a leaf");
        node::set_entry(slabs, node, index, new);
        self.refresh(slabs, &path, 0);
        true
    }

    /// The number of entries for which `is_before` is true; those come first.
    pub(crate) fn rank_where(
        &self,
        slabs: &Slabs,
        mut is_before: impl FnMut(BlockRef) -> bool,
    ) -> usize {
        let Some(root) = self.root else { return 0 };
        let path = self.path_behind(slabs, root, |_, other| is_before(other));
        let (leaf, inner) = path.split_last().expect("a path ends in a leaf");
        let passed = |step: &Step| -> usize {
            (0..step.index).map(|index| child(slabs, step.node, index).len).sum()
        };
        inner.iter().map(passed).sum::<usize>() + leaf.index
    }

    /// The entry with a rank.
    pub(crate) fn at(&self, slabs: &Slabs, rank: usize) -> Option<BlockRef> {
        let root = self.root.filter(|_| rank < self.len())?;
        let path = self.path_at(slabs, root, rank);
        let Step { node, index } = *path.last().expect("a path ends in a leaf");
        Some(entry(slabs, node, index))
    }

    /// The entries with ranks in a range, which ends where they end.
    pub(crate) fn iter<'a>(
        &'a self,
        slabs: &'a Slabs,
        ranks: Range<usize>,
        backward: bool,
    ) -> Iter<'a> {
        let ranks = ranks.start..ranks.end.min(self.len());
        Iter { tree: self, slabs, ranks, backward, leaf: None }
    }

    fn alloc(
        &mut self,
        slabs: &mut Slabs,
        kind: Kind,
        items: usize,
    ) -> Result<BlockRef, OutOfMemory> {
        let node = node::alloc(slabs, kind, items)?;
        self.bytes += slabs.block_bytes(node);
        Ok(node)
    }

    fn free(&mut self, slabs: &mut Slabs, node: BlockRef) {
        self.bytes -= slabs.block_bytes(node);
        slabs.free(node);
    }

    /// Makes a node's parent, or the tree, name another node instead.
    fn relink(&mut self, slabs: &mut Slabs, parents: &[Step], node: BlockRef) {
        match parents.last() {
            None => self.root = Some(node),
            Some(parent) => {
                let named = child(slabs, parent.node, parent.index);
                node::set_child(slabs, parent.node, parent.index, Child { node, ..named });
            }
        }
    }

    /// Copies a node on a path, by its level, to a block with room for so many items.
    fn resize(
        &mut self,
        slabs: &mut Slabs,
        path: &mut Path,
        level: usize,
        items: usize,
    ) -> Result<(), OutOfMemory> {
        let depth = path.len() - 1 - level;
        let (kind, old) = (Kind::at(level), path[depth].node);
        let new = self.alloc(slabs, kind, items)?;
        let held = count(slabs, old);
        node::append(slabs, kind, old, 0..held, new);
        self.free(slabs, old);
        self.relink(slabs, &path[..depth], new);
        path[depth].node = new;
        Ok(())
    }

    /// Makes room for one more item in a node on a path.
    fn make_room(
        &mut self,
        slabs: &mut Slabs,
        path: &mut Path,
        level: usize,
    ) -> Result<(), OutOfMemory> {
        let node = path[path.len() - 1 - level].node;
        if node::has_room(slabs, Kind::at(level), node) {
            return Ok(());
        }
        let items = count(slabs, node) + 1;
        self.resize(slabs, path, level, items)
    }

    /// Makes what inner nodes on a path say of their children true again, after `added` entries came
    /// to the leaf, or its first one changed.
    fn refresh(&mut self, slabs: &mut Slabs, path: &Path, added: usize) {
        let (leaf, inner) = path.split_last().expect("a path ends in a leaf");
        let mut first = entry(slabs, leaf.node, 0);
        for step in inner.iter().rev() {
            let mut named = child(slabs, step.node, step.index);
            (named.len, named.first) = (named.len + added, first);
            node::set_child(slabs, step.node, step.index, named);
            first = child(slabs, step.node, 0).first;
        }
    }

    /// Splits the full leaf of a path, or if its parent is full too that one, and so on upwards:
    /// one node, whose parent has room. Answers the root.
    fn split_one(&mut self, slabs: &mut Slabs, path: &Path) -> Result<BlockRef, OutOfMemory> {
        let is_full = |level: usize| {
            let step = path[path.len() - 1 - level];
            count(slabs, step.node) == Kind::at(level).items_max()
        };
        let level = (0..path.len()).take_while(|&level| is_full(level)).count() - 1;
        let mut path = path.clone();
        if level + 1 == path.len() {
            // A new root with the old one as its only child.
            let (kind, root) = (Kind::at(level), path[0].node);
            let new = self.alloc(slabs, Kind::Inner, 2)?;
            node::open(slabs, Kind::Inner, new, 0);
            let named = node::as_child(slabs, kind, root);
            node::set_child(slabs, new, 0, named);
            self.root = Some(new);
            self.height += 1;
            path.insert(0, Step { node: new, index: 0 });
        } else {
            self.make_room(slabs, &mut path, level + 1)?;
        }
        let split = self.split(slabs, &mut path, level);
        self.collapse(slabs);
        split?;
        Ok(self.root.expect("there are entries"))
    }

    /// Splits a node on a path whose parent has room.
    fn split(
        &mut self,
        slabs: &mut Slabs,
        path: &mut Path,
        level: usize,
    ) -> Result<(), OutOfMemory> {
        let depth = path.len() - 1 - level;
        let (kind, Step { node, index }) = (Kind::at(level), path[depth]);
        let held = count(slabs, node);
        let is_last = path[..depth].iter().all(|step| step.index + 1 == count(slabs, step.node));
        let is_first = path[..depth].iter().all(|step| step.index == 0);
        let behind = if kind == Kind::Leaf { held } else { held - 1 };
        let at = match () {
            () if is_last && index == behind => held - 1,
            () if is_first && index == 0 => 1,
            () => held / 2,
        };
        let right = self.alloc(slabs, kind, held - at)?;
        node::append(slabs, kind, node, at..held, right);
        node::close(slabs, kind, node, at..held);
        let parent = path[depth - 1];
        node::open(slabs, Kind::Inner, parent.node, parent.index + 1);
        for (place, half) in [(0, node), (1, right)] {
            let named = node::as_child(slabs, kind, half);
            node::set_child(slabs, parent.node, parent.index + place, named);
        }
        // The left half stays in its block if there is no memory for a smaller one.
        self.tighten(slabs, path, level);
        Ok(())
    }

    /// Moves a node on a path to a smaller block, if it is much too large and there is memory.
    fn tighten(&mut self, slabs: &mut Slabs, path: &mut Path, level: usize) {
        let node = path[path.len() - 1 - level].node;
        if node::is_loose(slabs, Kind::at(level), node) {
            let items = count(slabs, node);
            let _ = self.resize(slabs, path, level, items);
        }
    }

    fn remove_at_path(&mut self, slabs: &mut Slabs, mut path: Path) {
        self.len -= 1;
        let mut taken = path.last().expect("a path ends in a leaf").index;
        let mut level = 0;
        // A node without items goes, and so its parent has one less.
        loop {
            let depth = path.len() - 1 - level;
            let (kind, node) = (Kind::at(level), path[depth].node);
            node::close(slabs, kind, node, taken..taken + 1);
            if count(slabs, node) > 0 {
                break;
            }
            self.free(slabs, node);
            if depth == 0 {
                (self.root, self.height) = (None, 0);
                return;
            }
            taken = path[depth - 1].index;
            level += 1;
        }
        // From here up all that is named is there.
        for above in level + 1..path.len() {
            let depth = path.len() - 1 - above;
            let below = path[depth + 1].node;
            let step = path[depth];
            let mut named = child(slabs, step.node, step.index);
            named.len -= 1;
            named.first = match Kind::at(above - 1) {
                Kind::Leaf => entry(slabs, below, 0),
                Kind::Inner => child(slabs, below, 0).first,
            };
            node::set_child(slabs, step.node, step.index, named);
        }
        for level in level..path.len() - 1 {
            self.merge(slabs, &mut path, level);
        }
        for level in level..path.len() {
            self.tighten(slabs, &mut path, level);
        }
        self.collapse(slabs);
    }

    /// Merges a node on a path with a neighbour if both together fill half a node, and there is
    /// memory.
    fn merge(&mut self, slabs: &mut Slabs, path: &mut Path, level: usize) {
        let depth = path.len() - 1 - level;
        let (kind, parent) = (Kind::at(level), path[depth - 1]);
        let siblings = count(slabs, parent.node);
        let held = count(slabs, path[depth].node);
        if siblings < 2 || held > kind.items_max() / 4 {
            return;
        }
        let left_index = if parent.index + 1 < siblings { parent.index } else { parent.index - 1 };
        let left = child(slabs, parent.node, left_index);
        let right = child(slabs, parent.node, left_index + 1);
        let counts = [left, right].map(|child| count(slabs, child.node));
        let total = counts[0] + counts[1];
        if total > kind.items_max() / 2 {
            return;
        }
        let Ok(merged) = self.alloc(slabs, kind, total) else { return };
        for (half, held) in [left, right].into_iter().zip(counts) {
            node::append(slabs, kind, half.node, 0..held, merged);
            self.free(slabs, half.node);
        }
        node::close(slabs, Kind::Inner, parent.node, left_index..left_index + 1);
        let named = Child { node: merged, len: left.len + right.len, first: left.first };
        node::set_child(slabs, parent.node, left_index, named);
        path[depth - 1].index = left_index;
        path[depth].node = merged;
    }

    /// Takes roots away that have one child only.
    fn collapse(&mut self, slabs: &mut Slabs) {
        while let Some(root) = self.root.filter(|_| self.height > 0)
            && count(slabs, root) == 1
        {
            self.root = Some(child(slabs, root, 0).node);
            self.height -= 1;
            self.free(slabs, root);
        }
    }

    /// Frees a leaf, with what only led to it; false once nothing is left. The blocks of the entries
    /// stay. A tree that is being drained must not be used otherwise, but for what finds nothing.
    pub(crate) fn drain_step(&mut self, slabs: &mut Slabs) -> bool {
        let Some(root) = self.root else { return false };
        let mut node = root;
        let mut path = Path::new();
        for _ in 0..self.height {
            let last = count(slabs, node) - 1;
            path.push(Step { node, index: last });
            node = child(slabs, node, last).node;
        }
        self.len -= count(slabs, node) as u32;
        self.free(slabs, node);
        while let Some(Step { node, index }) = path.pop() {
            node::close(slabs, Kind::Inner, node, index..index + 1);
            if index > 0 {
                return true;
            }
            self.free(slabs, node);
        }
        (self.root, self.height) = (None, 0);
        true
    }

    /// Moves nodes out of spans that are marked sparse: those whose first entry has a rank in a
    /// range. How many were moved.
    pub(crate) fn move_out(&mut self, slabs: &mut Slabs, ranks: Range<usize>) -> u64 {
        let Some(root) = self.root else { return 0 };
        let mut moved = 0;
        let root = move_node(slabs, root, self.height as usize, 0, &ranks, &mut moved);
        self.root = Some(root);
        moved
    }

    /// Checks every relation; `compare` says how two entries stand to each other.
    ///
    /// # Panics
    /// When one does not hold.
    pub(crate) fn validate(
        &self,
        slabs: &Slabs,
        mut compare: impl FnMut(&Slabs, BlockRef, BlockRef) -> Ordering,
    ) {
        let mut found = Found::default();
        if let Some(root) = self.root {
            assert!(self.height == 0 || count(slabs, root) > 1, "a root with one child");
            check(slabs, root, self.height as usize, &mut found);
        }
        assert_eq!((found.entries.len(), found.bytes), (self.len(), self.bytes));
        let mut pairs = found.entries.windows(2);
        assert!(pairs.all(|pair| compare(slabs, pair[0], pair[1]) == Ordering::Less));
    }
}

/// What a walk over the whole tree finds.
#[derive(Default)]
struct Found {
    entries: Vec<BlockRef>,
    bytes: usize,
}

fn check(slabs: &Slabs, node: BlockRef, level: usize, found: &mut Found) {
    let (held, kind) = (count(slabs, node), Kind::at(level));
    assert!(held > 0 && held <= kind.items_max(), "a node holds {held} items");
    found.bytes += slabs.block_bytes(node);
    for index in 0..held {
        if kind == Kind::Leaf {
            found.entries.push(entry(slabs, node, index));
            continue;
        }
        let named = child(slabs, node, index);
        let before = found.entries.len();
        check(slabs, named.node, level - 1, found);
        assert_eq!(found.entries.len() - before, named.len);
        assert_eq!(found.entries[before], named.first);
    }
}

/// Moves a node, whose first entry has the rank `base`, and those below it; answers where it lies.
fn move_node(
    slabs: &mut Slabs,
    node: BlockRef,
    level: usize,
    base: usize,
    ranks: &Range<usize>,
    moved: &mut u64,
) -> BlockRef {
    let mut start = base;
    for index in 0..if level > 0 { count(slabs, node) } else { 0 } {
        let below = child(slabs, node, index);
        let end = start + below.len;
        if start < ranks.end && end > ranks.start {
            let place = move_node(slabs, below.node, level - 1, start, ranks, moved);
            node::set_child(slabs, node, index, Child { node: place, ..below });
        }
        start = end;
    }
    if ranks.contains(&base)
        && slabs.is_marked(node)
        && let Ok(place) = slabs.move_out(node)
    {
        *moved += 1;
        return place;
    }
    node
}

/// The first index in a range whose block `is_before` is false for. While a block is on its way from
/// memory those are fetched too that may be looked at next.
#[inline]
fn search(
    slabs: &Slabs,
    Range { mut start, mut end }: Range<usize>,
    block_at: impl Fn(usize) -> BlockRef,
    is_before: &mut impl FnMut(&Slabs, BlockRef) -> bool,
) -> usize {
    let middle = |start: usize, end: usize| start + (end - start) / 2;
    while start < end {
        let at = middle(start, end);
        for next in [middle(start, at), middle(at + 1, end)] {
            if next < end {
                slabs.prefetch(block_at(next));
            }
        }
        if is_before(slabs, block_at(at)) {
            start = at + 1;
        } else {
            end = at;
        }
    }
    start
}

/// Entries one after another. Their blocks are fetched a few entries ahead.
pub(crate) struct Iter<'a> {
    tree: &'a Tree,
    slabs: &'a Slabs,
    /// Those to come.
    ranks: Range<usize>,
    backward: bool,
    /// A leaf, and its entries that are to come.
    leaf: Option<(BlockRef, Range<usize>)>,
}

impl Iter<'_> {
    /// The leaf of the next entry.
    fn enter(&self) -> Option<(BlockRef, Range<usize>)> {
        let rank = if self.backward { self.ranks.end - 1 } else { self.ranks.start };
        let path = self.tree.path_at(self.slabs, self.tree.root?, rank);
        let Step { node, index } = *path.last()?;
        let range = if self.backward {
            index + 1 - self.ranks.len().min(index + 1)..index + 1
        } else {
            index..count(self.slabs, node).min(index + self.ranks.len())
        };
        (0..AHEAD).for_each(|ahead| self.fetch(node, &range, ahead));
        Some((node, range))
    }

    /// Fetches the block of an entry so many ahead, if it is in the leaf.
    #[inline]
    fn fetch(&self, leaf: BlockRef, range: &Range<usize>, ahead: usize) {
        if ahead < range.len() {
            let index = if self.backward { range.end - 1 - ahead } else { range.start + ahead };
            self.slabs.prefetch(entry(self.slabs, leaf, index));
        }
    }
}

impl Iterator for Iter<'_> {
    type Item = BlockRef;

    #[inline]
    fn next(&mut self) -> Option<BlockRef> {
        if self.ranks.is_empty() {
            return None;
        }
        let (node, mut range) = match self.leaf.take().filter(|(_, range)| !range.is_empty()) {
            Some(leaf) => leaf,
            None => self.enter()?,
        };
        self.fetch(node, &range, AHEAD);
        let index = if self.backward {
            self.ranks.end -= 1;
            range.next_back()?
        } else {
            self.ranks.start += 1;
            range.next()?
        };
        self.leaf = Some((node, range));
        Some(entry(self.slabs, node, index))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.ranks.len(), Some(self.ranks.len()))
    }
}

impl ExactSizeIterator for Iter<'_> {}
