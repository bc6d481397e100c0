//! What trimming takes, told before anything is taken.
//!
//! Redis takes whole nodes while these hold only what is to go, and single entries of the node after
//! them unless it was told to be about right; then it takes nothing where references matter. What
//! stays is told here as an id: all up to it goes.

use encodings::stream::StreamId;
use smallvec::SmallVec;

use super::Body;
use crate::heap::Heap;

/// What is left of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// So many of the newest entries.
    Newest(u64),
    /// Entries from an id on.
    From(StreamId),
}

/// What becomes of the groups' references to an entry that is to be deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum References {
    /// They stay.
    #[default]
    Keep,
    /// They go with it.
    Delete,
    /// While there are any, the entry stays: pending in a group, or not yet given to one.
    Acked,
}

/// How a stream is trimmed.
#[derive(Clone, Copy, Debug)]
pub struct Trim {
    /// What is left.
    pub keep: Keep,
    /// Only nodes are taken that can be taken whole.
    pub whole_nodes: bool,
    /// Most entries that are taken; 0 is no limit.
    pub limit: u64,
    /// What becomes of references.
    pub references: References,
}

/// What trimming takes.
pub(super) enum Plan {
    Nothing,
    /// All entries up to an id.
    UpTo(StreamId),
    /// Some entries.
    These(Vec<StreamId>),
}

impl Body {
    /// What a trim takes.
    pub(super) fn plan(&self, heap: &Heap, trim: &Trim) -> Plan {
        let (mut len, mut taken) = (self.len() as u64, 0);
        let (mut up_to, mut these) = (None, Vec::new());
        let mut nodes = self.nodes.nodes(heap).peekable();
        while let Some((id, bytes, counts)) = nodes.next() {
            let live = counts.live as u64;
            if matches!(trim.keep, Keep::Newest(most) if len <= most) {
                break;
            }
            if trim.limit > 0 && taken + live > trim.limit {
                break;
            }
            let entries = || encodings::stream::Node::new(id, bytes).entries();
            let next = nodes.peek().map(|(id, ..)| *id);
            let is_whole = match trim.keep {
                Keep::Newest(most) => len - live >= most,
                Keep::From(first) => {
                    next.is_some_and(|next| next <= first)
                        || entries().last().is_some_and(|last| last.id < first)
                }
            };
            if trim.whole_nodes && (!is_whole || trim.references != References::Keep) {
                break;
            }
            if is_whole && trim.references != References::Acked {
                up_to = Some(next.map_or(self.last_id, |next| next.previous().unwrap_or(next)));
                (len, taken) = (len - live, taken + live);
                continue;
            }
            for entry in entries().filter(|entry| !entry.is_deleted) {
                let is_kept = match trim.keep {
                    Keep::Newest(most) => len <= most,
                    Keep::From(first) => entry.id >= first,
                };
                if is_kept {
                    break;
                }
                if trim.references != References::Acked {
                    up_to = Some(entry.id);
                } else if !self.groups.refer_to(entry.id) {
                    these.push(entry.id);
                } else {
                    continue;
                }
                (len, taken) = (len - 1, taken + 1);
            }
            if !is_whole {
                break;
            }
        }
        match up_to {
            Some(id) => Plan::UpTo(id),
            None if these.is_empty() => Plan::Nothing,
            None => Plan::These(these),
        }
    }

    /// Takes all entries up to an id; with `forget` the groups' references to them too. How many.
    pub(super) fn remove_up_to(&mut self, heap: &mut Heap, id: StreamId, forget: bool) -> usize {
        if !forget || !self.groups.have_pending() {
            return self.nodes.remove_up_to(heap, id, None);
        }
        let mut gone: SmallVec<[StreamId; 16]> = SmallVec::new();
        let count = self.nodes.remove_up_to(heap, id, Some(&mut |id| gone.push(id)));
        for id in gone {
            self.groups.forget(id);
        }
        count
    }
}
