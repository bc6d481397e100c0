//! The exact expire index of one database: which key is due next.
//!
//! ```text
//! slots   ordered by (ms, mark); a slot holds all records from its start to the next slot's start
//! record  4 bytes: the mark of a key, bits of its hash. The time is in the key's block.
//! front   the exact (ms, mark) of what is due next, sorted
//! ```
//!
//! A record is found by its point (ms, mark), so re-timing or deleting a key takes its record out:
//! there are no stale ones. Where exact times are needed (a full slot is cut in two, the next slot
//! becomes the front) they are read from the blocks through the caller's [`Times`]. Two keys with
//! the same mark have two records; it does not matter which is whose, because the times found for
//! the mark are dealt out to as many records as lie in the slot.
//!
//! Times that only grow (each key gets the same time to live) never cut a slot: when the last slot
//! is full and the new time lies after all of its times, a new slot begins.
//!
//! Invariant: the caller changes the block first and inserts the record then, and removes the record
//! with the time that it was inserted with.

use std::collections::BTreeMap;

/// Records in a slot before it is cut.
const SLOT_FULL: usize = 256;
/// The last slot may run over while its times do not move on.
const SLOT_OVERRUN: usize = 512;
/// A slot that shrinks to this looks for a neighbour to join.
const SLOT_SMALL: usize = 64;
/// Points in the front before its later half goes back into slots.
const FRONT_FULL: usize = 1024;
/// What a slot costs beside its records: its tree entry, and the tree's own spare room.
const SLOT_BYTES: usize = 64;
/// Keys whose blocks are prefetched together.
const BATCH: usize = 16;

/// Time in milliseconds and mark of a key.
pub(crate) type Point = (u64, u32);
const START: Point = (0, 0);
const END: Point = (u64::MAX, u32::MAX);

/// How the index learns the times that stand in the blocks.
pub(crate) trait Times {
    /// Loads what [`Times::each`] will read; stage 0 for all marks of a batch, then stage 1.
    fn prefetch(&self, mark: u32, stage: u8);
    /// Calls `f` with the expire time of every key with this mark that has one.
    fn each(&self, mark: u32, f: &mut dyn FnMut(u64));
}

/// See the top of the file.
#[derive(Default)]
pub(crate) struct ExpireIndex {
    slots: BTreeMap<Point, Vec<u32>>,
    /// No record of the last slot is later.
    tail_max_ms: u64,
    /// Descending, so that the next one is popped from the end.
    front: Vec<Point>,
    /// Points below this belong to the front.
    front_end: Point,
    len: usize,
    capacity: usize,
}

impl ExpireIndex {
    /// Records.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of the index.
    pub(crate) fn bytes(&self) -> usize {
        self.capacity * size_of::<u32>()
            + self.slots.len() * SLOT_BYTES
            + self.front.capacity() * size_of::<Point>()
    }

    /// A time before which nothing is due; exact as far as the front reaches.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        match self.front.last() {
            Some(&(ms, _)) => Some(ms),
            None => self.slots.first_key_value().map(|(&(ms, _), _)| ms),
        }
    }

    /// Adds a record.
    pub(crate) fn insert(&mut self, ms: u64, mark: u32, times: &dyn Times) {
        let point = (ms, mark);
        self.len += 1;
        if point < self.front_end {
            let at = self.front.partition_point(|&other| other > point);
            self.front.insert(at, point);
            if self.front.len() > FRONT_FULL {
                self.spill_front();
            }
            return;
        }
        let start = self.slot_for(point);
        let is_last = self.slots.last_key_value().is_some_and(|(&last, _)| last == start);
        let slot = self.slots.get_mut(&start).expect("slot_for names a slot");
        let full = slot.len() >= SLOT_FULL;
        if full && is_last && ms > self.tail_max_ms {
            self.tail_max_ms = ms;
            self.add_slot(point, vec![mark]);
            return;
        }
        self.capacity -= slot.capacity();
        push(slot, mark);
        self.capacity += slot.capacity();
        let limit = if is_last && ms == self.tail_max_ms { SLOT_OVERRUN } else { SLOT_FULL };
        let cut = slot.len() > limit;
        if is_last {
            self.tail_max_ms = self.tail_max_ms.max(ms);
        }
        if cut {
            self.cut(start, times);
        }
    }

    /// The start of the slot for a point, which may be new or have moved its start down to it.
    fn slot_for(&mut self, point: Point) -> Point {
        if let Some((&start, _)) = self.slots.range(..=point).next_back() {
            return start;
        }
        match self.slots.first_key_value() {
            Some((&first, slot)) if slot.len() < SLOT_FULL => {
                let slot = self.slots.remove(&first).expect("it was there");
                self.slots.insert(point, slot);
            }
            Some(_) => self.add_slot(point, Vec::new()),
            None => {
                self.tail_max_ms = 0;
                self.add_slot(point, Vec::new());
            }
        }
        point
    }

    fn add_slot(&mut self, start: Point, slot: Vec<u32>) {
        self.capacity += slot.capacity();
        self.slots.insert(start, slot);
    }

    /// Takes a record out; false when there is none at that point.
    pub(crate) fn remove(&mut self, ms: u64, mark: u32) -> bool {
        let point = (ms, mark);
        if point < self.front_end {
            let at = self.front.partition_point(|&other| other > point);
            if self.front.get(at) != Some(&point) {
                return false;
            }
            self.front.remove(at);
            self.len -= 1;
            self.close_front();
            return true;
        }
        let Some((&start, slot)) = self.slots.range_mut(..=point).next_back() else { return false };
        let Some(at) = slot.iter().position(|&other| other == mark) else { return false };
        slot.swap_remove(at);
        self.len -= 1;
        self.capacity -= slot.capacity();
        if slot.capacity() > capacity_for(slot.len() + slot.len() / 4) {
            slot.shrink_to(capacity_for(slot.len()));
        }
        self.capacity += slot.capacity();
        let len = slot.len();
        if len == 0 {
            self.drop_slot(start);
        } else if len <= SLOT_SMALL && len.is_power_of_two() {
            self.join(start);
        }
        true
    }

    fn drop_slot(&mut self, start: Point) {
        let is_last = self.slots.last_key_value().is_some_and(|(&last, _)| last == start);
        if let Some(slot) = self.slots.remove(&start) {
            self.capacity -= slot.capacity();
        }
        if is_last {
            // What is left lies before the slot that went.
            self.tail_max_ms = start.0;
        }
    }

    /// Joins a small slot with the next one when both fit easily.
    fn join(&mut self, start: Point) {
        let after = (std::ops::Bound::Excluded(start), std::ops::Bound::Unbounded);
        let Some((&next, other)) = self.slots.range(after).next() else { return };
        if self.slots[&start].len() + other.len() > SLOT_FULL * 5 / 8 {
            return;
        }
        let other = self.slots.remove(&next).expect("it was there");
        self.capacity -= other.capacity();
        let slot = self.slots.get_mut(&start).expect("it was there");
        self.capacity -= slot.capacity();
        slot.reserve_exact(capacity_for(slot.len() + other.len()) - slot.len());
        slot.extend_from_slice(&other);
        self.capacity += slot.capacity();
    }

    /// Cuts a slot in two halves of its exact order.
    fn cut(&mut self, start: Point, times: &dyn Times) {
        let (points, _) = self.take_slot(start, times);
        let middle = points.len() / 2;
        // A start must lie strictly after the point before it.
        let cut = (middle..points.len()).find(|&i| i > 0 && points[i - 1] < points[i]);
        let (low, high) = points.split_at(cut.unwrap_or(points.len()));
        self.put_slot(start, low);
        if let Some(&first) = high.first() {
            self.put_slot(first, high);
        }
    }

    fn put_slot(&mut self, start: Point, points: &[Point]) {
        let mut slot = Vec::with_capacity(capacity_for(points.len()));
        slot.extend(points.iter().map(|&(_, mark)| mark));
        self.add_slot(start, slot);
    }

    /// Takes a slot out and gives the exact points of its records, ascending, and its end.
    ///
    /// A record for which no key is found (there should be none) falls away here.
    fn take_slot(&mut self, start: Point, times: &dyn Times) -> (Vec<Point>, Point) {
        let mut marks = self.slots.remove(&start).expect("the caller names a slot");
        self.capacity -= marks.capacity();
        let end = self.slots.range(start..).next().map_or(END, |(&next, _)| next);
        marks.sort_unstable();
        let same_ms = if end == END { self.tail_max_ms } else { end.0 };
        if same_ms == start.0 {
            // All records have one time, and the marks order them.
            return (marks.iter().map(|&mark| (start.0, mark)).collect(), end);
        }
        let mut points = Vec::with_capacity(marks.len());
        for batch in marks.chunk_by(|a, b| a == b).collect::<Vec<_>>().chunks(BATCH) {
            for stage in 0..2 {
                batch.iter().for_each(|same| times.prefetch(same[0], stage));
            }
            for same in batch {
                let (mark, from) = (same[0], points.len());
                times.each(mark, &mut |ms| {
                    if (start..end).contains(&(ms, mark)) && points.len() - from < same.len() {
                        points.push((ms, mark));
                    }
                });
            }
        }
        self.len -= marks.len() - points.len();
        points.sort_unstable();
        (points, end)
    }

    /// The next record, if it is due before `now_ms`.
    pub(crate) fn due(&mut self, now_ms: u64, times: &dyn Times) -> Option<Point> {
        loop {
            if let Some(&point) = self.front.last() {
                return (point.0 < now_ms).then_some(point);
            }
            let (&start, _) = self.slots.first_key_value()?;
            if start.0 >= now_ms {
                return None;
            }
            let (points, end) = self.take_slot(start, times);
            self.front_end = if points.is_empty() { START } else { end };
            self.front = points;
            self.front.reverse();
            if self.front.len() > FRONT_FULL {
                self.spill_front();
            }
        }
    }

    /// Marks of the records that [`ExpireIndex::due`] will give next, as far as they are known.
    pub(crate) fn upcoming(&self, count: usize) -> impl Iterator<Item = u32> {
        self.front.iter().rev().take(count).map(|&(_, mark)| mark)
    }

    /// An empty front owns no range, so that the first slot can be loaded or its start moved.
    fn close_front(&mut self) {
        if self.front.is_empty() {
            self.front = Vec::new();
            self.front_end = START;
        }
    }

    /// Puts the later half of the front back into slots.
    fn spill_front(&mut self) {
        let keep = self.front.len() / 2;
        let mut at = self.front.len() - keep;
        // Equal points stay together.
        while at > 0 && self.front[at - 1] == self.front[at] {
            at -= 1;
        }
        if at == 0 {
            return;
        }
        let mut later: Vec<Point> = self.front.drain(..at).collect();
        later.reverse();
        if self.slots.is_empty() {
            self.tail_max_ms = later[later.len() - 1].0;
        }
        self.front_end = later[0];
        let mut rest = &later[..];
        while !rest.is_empty() {
            let mut len = rest.len().min(SLOT_FULL / 2);
            while len < rest.len() && rest[len - 1] == rest[len] {
                len += 1;
            }
            self.put_slot(rest[0], &rest[..len]);
            rest = &rest[len..];
        }
    }

    /// Frees one slot of an index that is no longer used; false once nothing is left.
    pub(crate) fn drain_step(&mut self) -> bool {
        self.front = Vec::new();
        self.slots.pop_first().is_some()
    }

    /// Checks order and counts, and that exactly the given points are recorded.
    ///
    /// # Panics
    /// When they are not.
    #[cfg(test)]
    pub(crate) fn validate(&self, mut expected: Vec<Point>) {
        assert!(self.front.is_sorted_by(|a, b| a >= b));
        assert!(self.front.iter().all(|&point| point < self.front_end));
        assert_eq!(self.len, expected.len());
        expected.sort_unstable();
        let mut front = self.front.clone();
        front.reverse();
        let (in_front, mut rest) = expected.split_at(front.len());
        assert_eq!(front, in_front);
        let starts: Vec<Point> = self.slots.keys().copied().collect();
        assert!(starts.first().is_none_or(|&first| first >= self.front_end));
        for (i, (start, slot)) in self.slots.iter().enumerate() {
            let end = starts.get(i + 1).copied().unwrap_or(END);
            let (here, after) = rest.split_at(slot.len());
            assert!(here.iter().all(|point| (*start..end).contains(point)), "slot {i}");
            let mut marks: Vec<u32> = here.iter().map(|&(_, mark)| mark).collect();
            let mut found = slot.clone();
            marks.sort_unstable();
            found.sort_unstable();
            assert_eq!(marks, found);
            rest = after;
        }
        assert!(rest.is_empty());
        assert_eq!(self.capacity, self.slots.values().map(Vec::capacity).sum::<usize>());
    }
}

/// Pushes with the capacities that the allocator has classes for.
fn push(slot: &mut Vec<u32>, mark: u32) {
    if slot.len() == slot.capacity() {
        slot.reserve_exact(capacity_for(slot.len() + 1) - slot.len());
    }
    slot.push(mark);
}

/// The smallest class of the general allocator for so many records: four steps for each doubling,
/// in units of 16 bytes.
fn capacity_for(len: usize) -> usize {
    let bytes = (len * size_of::<u32>()).max(32);
    let step = (bytes.next_power_of_two() / 8).max(16);
    bytes.next_multiple_of(step) / size_of::<u32>()
}

#[cfg(test)]
mod tests;
