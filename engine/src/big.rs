//! Collections that have outgrown one block: each with an index of its own.
//!
//! A key's block names its collection by an index here. A collection is taken out while it changes,
//! so that it and the heap around it can both be written to, and freed in steps when it goes.

use crate::block::ValueType;
use crate::dict::Dict;
use crate::heap::Heap;
use crate::large::Larges;
use crate::list::Chain;
use crate::slab::Slabs;
use crate::stream::Body;
use crate::table::ScanPosition;

/// Nodes of a list that one step of compaction looks at.
const NODE_STEP: usize = 8;

const WRONG_TYPE: &str = "the key's block told another type";

/// Where a walk over nodes goes on.
fn position_of(node: usize) -> ScanPosition {
    ScanPosition(u32::try_from(node).expect("fewer nodes than references"))
}

/// A collection with an index of its own.
pub(crate) enum Big {
    /// A set, a hash or a sorted set.
    Dict(Dict),
    /// A list.
    List(Chain),
    /// A stream.
    Stream(Body),
}

impl Big {
    /// Elements, members, fields or entries.
    pub(crate) fn len(&self) -> usize {
        match self {
            Big::Dict(dict) => dict.len(),
            Big::List(chain) => chain.len(),
            Big::Stream(body) => body.len(),
        }
    }

    /// The members of a set, a hash or a sorted set.
    pub(crate) fn dict(&self) -> &Dict {
        match self {
            Big::Dict(dict) => dict,
            Big::List(_) | Big::Stream(_) => unreachable!("{WRONG_TYPE}"),
        }
    }

    /// The members of a set, a hash or a sorted set, to be changed.
    pub(crate) fn dict_mut(&mut self) -> &mut Dict {
        match self {
            Big::Dict(dict) => dict,
            Big::List(_) | Big::Stream(_) => unreachable!("{WRONG_TYPE}"),
        }
    }

    /// The chain of a list.
    pub(crate) fn chain(&self) -> &Chain {
        match self {
            Big::List(chain) => chain,
            Big::Dict(_) | Big::Stream(_) => unreachable!("{WRONG_TYPE}"),
        }
    }

    /// The chain of a list, to be changed.
    pub(crate) fn chain_mut(&mut self) -> &mut Chain {
        match self {
            Big::List(chain) => chain,
            Big::Dict(_) | Big::Stream(_) => unreachable!("{WRONG_TYPE}"),
        }
    }

    /// The body of a stream.
    pub(crate) fn stream(&self) -> &Body {
        match self {
            Big::Stream(body) => body,
            Big::Dict(_) | Big::List(_) => unreachable!("{WRONG_TYPE}"),
        }
    }

    /// The body of a stream, to be changed.
    pub(crate) fn stream_mut(&mut self) -> &mut Body {
        match self {
            Big::Stream(body) => body,
            Big::Dict(_) | Big::List(_) => unreachable!("{WRONG_TYPE}"),
        }
    }

    /// What a client sees it as.
    pub(crate) fn value_type(&self) -> ValueType {
        match self {
            Big::Dict(dict) => dict.value_type,
            Big::List(_) => ValueType::List,
            Big::Stream(_) => ValueType::Stream,
        }
    }

    /// Where the key stands in its database's expire index because of its members.
    pub(crate) fn recorded(&self) -> Option<u64> {
        match self {
            Big::Dict(dict) => dict.recorded,
            Big::List(_) | Big::Stream(_) => None,
        }
    }

    /// Notes where the key stands in its database's expire index.
    pub(crate) fn set_recorded(&mut self, recorded: Option<u64>) {
        match self {
            Big::Dict(dict) => dict.recorded = recorded,
            Big::List(_) | Big::Stream(_) => {
                debug_assert!(recorded.is_none(), "elements and entries have no times");
            }
        }
    }

    /// A time before which no member is due.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        match self {
            Big::Dict(dict) => dict.next_ms(),
            Big::List(_) | Big::Stream(_) => None,
        }
    }

    /// Takes a bounded number of members out whose time is before `now_ms`, and appends them to
    /// `gone`. How many.
    pub(crate) fn expire_members(
        &mut self,
        heap: &mut Heap,
        now_ms: u64,
        gone: &mut Vec<u8>,
    ) -> usize {
        match self {
            Big::Dict(dict) => dict.expire_members(heap, now_ms, gone),
            Big::List(_) | Big::Stream(_) => 0,
        }
    }

    /// Bytes outside of slab blocks.
    fn outside_bytes(&self) -> usize {
        size_of::<Big>()
            + match self {
                Big::Dict(dict) => dict.outside_bytes(),
                Big::List(chain) => chain.outside_bytes(),
                Big::Stream(body) => body.outside_bytes(),
            }
    }

    /// Bytes in slab blocks, and of what these keep outside; walks over it.
    fn block_bytes(&self, heap: &Heap) -> usize {
        match self {
            Big::Dict(dict) => dict.block_bytes(heap),
            Big::List(chain) => chain.node_bytes(heap),
            Big::Stream(body) => body.node_bytes(heap),
        }
    }

    /// Frees a bounded piece; false once nothing is left.
    pub(crate) fn drain_step(&mut self, slabs: &mut Slabs, larges: &mut Larges) -> bool {
        match self {
            Big::Dict(dict) => dict.drain_step(slabs, larges),
            Big::List(chain) => chain.drain_step(slabs, larges),
            Big::Stream(body) => body.drain_step(slabs, larges),
        }
    }

    /// Moves blocks out of spans that are marked sparse, a bounded piece from a position on.
    fn move_out(
        &mut self,
        slabs: &mut Slabs,
        larges: &Larges,
        position: ScanPosition,
        moved: &mut u64,
    ) -> Option<ScanPosition> {
        match self {
            Big::Dict(dict) => dict.move_out(slabs, larges, position, moved),
            Big::List(chain) => {
                chain.move_out(slabs, position.0 as usize, NODE_STEP, moved).map(position_of)
            }
            Big::Stream(body) => body.move_out(slabs, position.0 as usize, moved).map(position_of),
        }
    }

    /// Checks every relation inside.
    ///
    /// # Panics
    /// When one does not hold.
    pub(crate) fn validate(&self, heap: &Heap) {
        match self {
            Big::Dict(dict) => dict.validate(heap),
            Big::List(chain) => chain.validate(heap),
            Big::Stream(body) => body.validate(heap),
        }
    }
}

/// See the top of the file.
#[derive(Default)]
pub(crate) struct Bigs {
    entries: Vec<Option<Box<Big>>>,
    free: Vec<u32>,
    /// Bytes outside of slab blocks of those that live.
    bytes: usize,
    /// Those that are freed in steps.
    #[allow(clippy::vec_box, reason = "they come boxed from the entries")]
    dying: Vec<Box<Big>>,
}

const LIVE: &str = "a stub names a live collection";

impl Bigs {
    /// Adds a collection and names it.
    pub(crate) fn add(&mut self, big: Big) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            u32::try_from(self.entries.len() - 1).expect("fewer than stub blocks")
        });
        self.give(index, Box::new(big));
        index
    }

    /// A collection.
    #[inline]
    pub(crate) fn at(&self, index: u32) -> &Big {
        self.entries[index as usize].as_ref().expect(LIVE)
    }

    /// Takes a collection out for a change; it must be given back.
    pub(crate) fn take(&mut self, index: u32) -> Box<Big> {
        let big = self.entries[index as usize].take().expect(LIVE);
        self.bytes -= big.outside_bytes();
        big
    }

    /// Gives back what was taken out.
    pub(crate) fn give(&mut self, index: u32, big: Box<Big>) {
        self.bytes += big.outside_bytes();
        self.entries[index as usize] = Some(big);
    }

    /// Queues a collection to be freed in steps.
    pub(crate) fn remove(&mut self, index: u32) {
        let big = self.take(index);
        self.free.push(index);
        self.dying.push(big);
    }

    /// The collection that is freed next.
    pub(crate) fn pop_dying(&mut self) -> Option<Box<Big>> {
        self.dying.pop()
    }

    /// Puts back what is not freed whole yet.
    pub(crate) fn push_dying(&mut self, big: Box<Big>) {
        self.dying.push(big);
    }

    /// True while something is to be freed.
    pub(crate) fn free_due(&self) -> bool {
        !self.dying.is_empty()
    }

    /// Bytes of one collection, in blocks and outside; walks over it.
    pub(crate) fn memory_bytes_of(&self, heap: &Heap, index: u32) -> usize {
        let big = self.at(index);
        big.outside_bytes() + big.block_bytes(heap)
    }

    /// Bytes outside of slab blocks, and of what names collections.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes
            + self.entries.capacity() * size_of::<Option<Box<Big>>>()
            + self.free.capacity() * size_of::<u32>()
    }

    /// Bytes outside of slab blocks of what is not freed yet.
    pub(crate) fn dying_bytes(&self) -> usize {
        self.dying.iter().map(|big| big.outside_bytes()).sum()
    }

    /// Places for collections; some may be free.
    pub(crate) fn places(&self) -> usize {
        self.entries.len() + self.dying.len()
    }

    /// Moves blocks of one place out of spans that are marked sparse; see [`Big::move_out`].
    pub(crate) fn move_out(
        &mut self,
        slabs: &mut Slabs,
        larges: &Larges,
        place: usize,
        position: ScanPosition,
        moved: &mut u64,
    ) -> Option<ScanPosition> {
        let live = self.entries.len();
        let big = match self.entries.get_mut(place) {
            Some(entry) => entry.as_mut()?,
            None => self.dying.get_mut(place - live)?,
        };
        big.move_out(slabs, larges, position, moved)
    }
}
