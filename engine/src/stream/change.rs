//! Changes of streams, each with what it reports.

use encodings::stream::StreamId;

use super::groups::{Group, Pending};
use super::nodes::NODE_BYTES_MAX;
use super::trim::Plan;
use super::{Body, References, Trim};
use crate::big::Big;
use crate::block::ValueType;
use crate::collection::Limits;
use crate::effect::{Change, Deliveries, Event, Ids, StreamChange, Strings};
use crate::error::OpError;
use crate::heap::Heap;
use crate::key::Key;
use crate::partition::{Look, Partition};
use crate::table::Entry;

/// The id that a new entry is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewId {
    /// The time of the clock, or the next after the last one.
    Auto,
    /// This time, and the first number that is free.
    At(u64),
    /// This one.
    Exact(StreamId),
}

/// What became of a new entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is there.
    Id(StreamId),
    /// Its id is not greater than the last one.
    NotGreater,
    /// There is no id after the last one.
    Exhausted,
    /// It would not fit a node.
    TooLarge,
}

/// What became of an entry that was to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// There is none.
    Missing,
    /// It is gone.
    Deleted,
    /// A group refers to it, or has not come so far yet; it stays, if there is one.
    Referenced,
}

/// Entries that a consumer is given, or given again.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'d> {
    /// The group, which is there.
    pub group: &'d [u8],
    /// The consumer, which is there.
    pub consumer: &'d [u8],
    /// What becomes pending, with its time and how often it was delivered.
    pub entries: &'d [(StreamId, u64, u64)],
    /// The last entry that the group was given.
    pub last_id: StreamId,
    /// Entries that it was given.
    pub entries_read: Option<u64>,
    /// When the consumer is seen.
    pub seen_ms: u64,
    /// It is active then, too.
    pub is_active: bool,
}

impl NewId {
    fn resolve(self, last_id: StreamId, now_ms: u64) -> Option<StreamId> {
        match self {
            NewId::Exact(id) => Some(id),
            NewId::Auto if now_ms > last_id.ms => Some(StreamId::new(now_ms, 0)),
            NewId::Auto => last_id.next(),
            NewId::At(ms) if ms == last_id.ms => {
                Some(StreamId::new(ms, last_id.seq.checked_add(1)?))
            }
            NewId::At(ms) => Some(StreamId::new(ms, 0)),
        }
        .filter(|id| *id > last_id)
    }
}

impl Body {
    fn append<'p>(
        &mut self,
        heap: &mut Heap,
        limits: &Limits,
        id: StreamId,
        pairs: impl ExactSizeIterator<Item = (&'p [u8], &'p [u8])> + Clone,
    ) -> Result<(), OpError> {
        self.nodes.append(heap, limits, id, pairs)?;
        self.entries_added += 1;
        self.last_id = id;
        Ok(())
    }

    /// Deletes an entry, and tells what became of it and whether references to it went.
    fn delete(
        &mut self,
        heap: &mut Heap,
        id: StreamId,
        references: References,
    ) -> (Deletion, bool) {
        if references == References::Acked && self.groups.refer_to(id) {
            return (Deletion::Referenced, false);
        }
        // References to what was deleted before go, too.
        let forgot = references == References::Delete && self.groups.forget(id);
        if !self.nodes.delete(heap, id) {
            return (Deletion::Missing, forgot);
        }
        self.max_deleted_id = self.max_deleted_id.max(id);
        (Deletion::Deleted, forgot)
    }

    /// Where a group is once it has been given entries that follow one another.
    fn progress(&self, group: &Group, ids: &[StreamId]) -> (StreamId, Option<u64>) {
        let (mut last_id, mut read) = (group.last_id, group.entries_read);
        for id in ids.iter().copied().filter(|id| *id > group.last_id) {
            read = match read {
                Some(read)
                    if last_id >= self.nodes.first_id() && !self.has_tombstones_after(last_id) =>
                {
                    Some(read + 1)
                }
                _ if self.entries_added > 0 => self.entries_up_to(id),
                read => read,
            };
            last_id = id;
        }
        (last_id, read)
    }
}

impl Group {
    fn deliver(&mut self, delivery: &Delivery<'_>) {
        let number = self.number(delivery.consumer).expect("the caller found or made the consumer");
        (self.last_id, self.entries_read) = (delivery.last_id, delivery.entries_read);
        for &(id, delivered_ms, deliveries) in delivery.entries {
            self.set_pending(id, Pending { delivered_ms, deliveries, consumer: number });
        }
        self.see(number, delivery.seen_ms, delivery.is_active);
    }
}

impl Partition {
    fn stream_entry(&mut self, db: usize, key: &Key<'_>) -> Result<Option<Entry>, OpError> {
        self.lookup_as(db, key, Look::Write, ValueType::Stream)
    }

    /// Lets `f` change a stream.
    fn change_stream<R>(
        &mut self,
        entry: Entry,
        f: impl FnOnce(&mut Body, &mut Heap, &Limits) -> R,
    ) -> R {
        let limits = self.limits;
        let index = self.heap.view(entry.block).outside_index();
        self.heap.with_big(index, |big, heap| f(big.stream_mut(), heap, &limits))
    }

    fn report_stream(
        &mut self,
        db: usize,
        key: &Key<'_>,
        event: Event,
        change: StreamChange<'_>,
        count: usize,
    ) {
        self.report_change(db, key, event, Change::Stream(change), count);
    }

    /// Adds an entry, creating the key.
    ///
    /// # Errors
    /// [`OpError::WrongType`], [`OpError::OutOfMemory`]; nothing changed.
    pub fn stream_add<'p>(
        &mut self,
        db: usize,
        key: &Key<'_>,
        id: NewId,
        pairs: impl ExactSizeIterator<Item = (&'p [u8], &'p [u8])> + Clone,
    ) -> Result<Added, OpError> {
        let old = self.stream_entry(db, key)?;
        let last_id = match old {
            Some(entry) => self.change_stream(entry, |body, _, _| body.last_id),
            None => StreamId::MIN,
        };
        if last_id == StreamId::MAX {
            return Ok(Added::Exhausted);
        }
        let Some(id) = id.resolve(last_id, self.now_ms) else { return Ok(Added::NotGreater) };
        let bytes = pairs.clone().map(|(field, value)| field.len() + value.len());
        if bytes.sum::<usize>() > NODE_BYTES_MAX {
            return Ok(Added::TooLarge);
        }
        match old {
            Some(entry) => self.change_stream(entry, |body, heap, limits| {
                body.append(heap, limits, id, pairs.clone())
            })?,
            None => self.make_stream(db, key, |body, heap, limits| {
                body.append(heap, limits, id, pairs.clone())
            })?,
        }
        let mut strings = Vec::new();
        if self.effects.listening {
            for (field, value) in pairs {
                Strings::push(&mut strings, field);
                Strings::push(&mut strings, value);
            }
        }
        let change = StreamChange::Add { id, pairs: Strings::new(&strings) };
        self.report_stream(db, key, Event::Xadd, change, 1);
        Ok(Added::Id(id))
    }

    /// Stores a new stream that `f` fills.
    fn make_stream(
        &mut self,
        db: usize,
        key: &Key<'_>,
        f: impl FnOnce(&mut Body, &mut Heap, &Limits) -> Result<(), OpError>,
    ) -> Result<(), OpError> {
        let (mut body, limits) = (Body::default(), self.limits);
        f(&mut body, &mut self.heap, &limits)?;
        self.store_big(db, key, None, Big::Stream(body), None).map(drop)
    }

    /// Takes the oldest entries away; how many.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn stream_trim(&mut self, db: usize, key: &Key<'_>, trim: &Trim) -> Result<usize, OpError> {
        let Some(entry) = self.stream_entry(db, key)? else { return Ok(0) };
        let plan = self.change_stream(entry, |body, heap, _| body.plan(heap, trim));
        match plan {
            Plan::Nothing => Ok(0),
            Plan::UpTo(id) => {
                let forget = trim.references == References::Delete;
                Ok(self.trim_up_to(db, key, entry, id, forget))
            }
            Plan::These(ids) => {
                self.trim_these(db, key, entry, &ids);
                Ok(ids.len())
            }
        }
    }

    fn trim_up_to(
        &mut self,
        db: usize,
        key: &Key<'_>,
        entry: Entry,
        id: StreamId,
        forget: bool,
    ) -> usize {
        let gone = self.change_stream(entry, |body, heap, _| body.remove_up_to(heap, id, forget));
        if gone > 0 {
            let change = StreamChange::TrimUpTo { id, forget };
            self.report_stream(db, key, Event::Xtrim, change, gone);
        }
        gone
    }

    fn trim_these(&mut self, db: usize, key: &Key<'_>, entry: Entry, ids: &[StreamId]) {
        self.change_stream(entry, |body, heap, _| {
            for id in ids {
                body.nodes.delete(heap, *id);
            }
        });
        let mut bytes = Vec::new();
        Ids::push_all(&mut bytes, ids);
        let change = StreamChange::Trim { ids: Ids::new(&bytes) };
        self.report_stream(db, key, Event::Xtrim, change, ids.len());
    }

    /// Deletes entries, and tells what became of each; `None` without the key.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn stream_delete(
        &mut self,
        db: usize,
        key: &Key<'_>,
        ids: &[StreamId],
        references: References,
    ) -> Result<Option<Vec<Deletion>>, OpError> {
        let Some(entry) = self.stream_entry(db, key)? else { return Ok(None) };
        let (mut done, mut changed) = (Vec::with_capacity(ids.len()), Vec::new());
        self.change_stream(entry, |body, heap, _| {
            for id in ids {
                let (deletion, forgot) = body.delete(heap, *id, references);
                done.push(deletion);
                if forgot || deletion == Deletion::Deleted {
                    changed.push(*id);
                }
            }
        });
        if !changed.is_empty() {
            let mut bytes = Vec::new();
            Ids::push_all(&mut bytes, &changed);
            let forget = references == References::Delete;
            let change = StreamChange::Delete { ids: Ids::new(&bytes), forget };
            let deleted = done.iter().filter(|done| **done == Deletion::Deleted).count();
            // Nobody is told of references that go alone.
            let event = if deleted > 0 { Event::Xdel } else { Event::Xack };
            self.report_stream(db, key, event, change, deleted);
        }
        Ok(Some(done))
    }

    /// Sets what the stream at a key, which is there, knows of the past.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn stream_set_id(
        &mut self,
        db: usize,
        key: &Key<'_>,
        last_id: StreamId,
        entries_added: u64,
        max_deleted_id: StreamId,
    ) -> Result<(), OpError> {
        let Some(entry) = self.stream_entry(db, key)? else { return Ok(()) };
        self.change_stream(entry, |body, heap, _| {
            body.nodes.forget_after(heap, last_id);
            body.last_id = last_id;
            body.entries_added = entries_added;
            body.max_deleted_id = max_deleted_id;
        });
        let change = StreamChange::SetId { last_id, entries_added, max_deleted_id };
        self.report_stream(db, key, Event::Xsetid, change, 1);
        Ok(())
    }

    /// Makes a group, and an empty stream without the key; false if the group is there.
    ///
    /// # Errors
    /// [`OpError::WrongType`], [`OpError::OutOfMemory`]; nothing changed.
    pub fn group_create(
        &mut self,
        db: usize,
        key: &Key<'_>,
        group: &[u8],
        last_id: StreamId,
        entries_read: Option<u64>,
    ) -> Result<bool, OpError> {
        let found = self.stream_entry(db, key)?;
        let makes_stream = found.is_none();
        let is_new = match found {
            Some(entry) => self
                .change_stream(entry, |body, _, _| body.groups.add(group, last_id, entries_read)),
            None => {
                self.make_stream(db, key, |body, _, _| {
                    body.groups.add(group, last_id, entries_read);
                    Ok(())
                })?;
                true
            }
        };
        if is_new {
            let change = StreamChange::GroupCreate { group, last_id, entries_read, makes_stream };
            self.report_stream(db, key, Event::XgroupCreate, change, 1);
        }
        Ok(is_new)
    }

    /// Sets the last entry that a group was given; false without it.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn group_set_id(
        &mut self,
        db: usize,
        key: &Key<'_>,
        group: &[u8],
        last_id: StreamId,
        entries_read: Option<u64>,
    ) -> Result<bool, OpError> {
        let done = self.change_group(db, key, group, |known| {
            (known.last_id, known.entries_read) = (last_id, entries_read);
        })?;
        if done.is_some() {
            let change = StreamChange::GroupSetId { group, last_id, entries_read };
            self.report_stream(db, key, Event::XgroupSetid, change, 1);
        }
        Ok(done.is_some())
    }

    /// Lets `f` change a group; `None` without the key or the group.
    fn change_group<R>(
        &mut self,
        db: usize,
        key: &Key<'_>,
        group: &[u8],
        f: impl FnOnce(&mut Group) -> R,
    ) -> Result<Option<R>, OpError> {
        let Some(entry) = self.stream_entry(db, key)? else { return Ok(None) };
        Ok(self.change_stream(entry, |body, _, _| body.groups.change(group, f)))
    }

    /// Takes a group away; false without it.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn group_destroy(
        &mut self,
        db: usize,
        key: &Key<'_>,
        group: &[u8],
    ) -> Result<bool, OpError> {
        let Some(entry) = self.stream_entry(db, key)? else { return Ok(false) };
        let gone = self.change_stream(entry, |body, _, _| body.groups.remove(group).is_some());
        if gone {
            let change = StreamChange::GroupDestroy { group };
            self.report_stream(db, key, Event::XgroupDestroy, change, 1);
        }
        Ok(gone)
    }

    /// Makes a consumer of a group; false if it is there, or the group is not.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn consumer_create(
        &mut self,
        db: usize,
        key: &Key<'_>,
        group: &[u8],
        consumer: &[u8],
    ) -> Result<bool, OpError> {
        let seen_ms = self.now_ms;
        self.add_consumer(db, key, group, consumer, seen_ms)
    }

    fn add_consumer(
        &mut self,
        db: usize,
        key: &Key<'_>,
        group: &[u8],
        consumer: &[u8],
        seen_ms: u64,
    ) -> Result<bool, OpError> {
        let is_new = self.change_group(db, key, group, |known| {
            let is_new = known.number(consumer).is_err();
            if is_new {
                known.add_consumer(consumer, seen_ms);
            }
            is_new
        })?;
        if is_new == Some(true) {
            let change = StreamChange::ConsumerCreate { group, consumer, seen_ms };
            self.report_stream(db, key, Event::XgroupCreateconsumer, change, 1);
        }
        Ok(is_new == Some(true))
    }

    /// Takes a consumer away with its pending entries; how many these were, `None` without it.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn consumer_delete(
        &mut self,
        db: usize,
        key: &Key<'_>,
        group: &[u8],
        consumer: &[u8],
    ) -> Result<Option<usize>, OpError> {
        let gone = self.change_group(db, key, group, |known| known.remove_consumer(consumer))?;
        if gone.flatten().is_some() {
            let change = StreamChange::ConsumerDelete { group, consumer };
            self.report_stream(db, key, Event::XgroupDelconsumer, change, 1);
        }
        Ok(gone.flatten())
    }

    /// Notes that a consumer that is there asks for something, now; no change that is reported.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn consumer_see(
        &mut self,
        db: usize,
        key: &Key<'_>,
        group: &[u8],
        consumer: &[u8],
        is_active: bool,
    ) -> Result<(), OpError> {
        let now_ms = self.now_ms;
        self.change_group(db, key, group, |known| {
            if let Ok(number) = known.number(consumer) {
                known.see(number, now_ms, is_active);
            }
        })?;
        Ok(())
    }

    /// Gives a consumer new entries, which follow one another; they become pending unless `no_ack`.
    /// Group and consumer are there.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn group_read(
        &mut self,
        db: usize,
        key: &Key<'_>,
        group: &[u8],
        consumer: &[u8],
        ids: &[StreamId],
        no_ack: bool,
    ) -> Result<(), OpError> {
        let Some(entry) = self.stream_entry(db, key)? else { return Ok(()) };
        let now_ms = self.now_ms;
        let progress = self
            .change_stream(entry, |body, _, _| Some(body.progress(body.groups.get(group)?, ids)));
        let Some((last_id, entries_read)) = progress else { return Ok(()) };
        let entries: Vec<_> = ids.iter().map(|id| (*id, now_ms, 1)).collect();
        let entries = if no_ack { &[][..] } else { &entries[..] };
        let (seen_ms, is_active) = (now_ms, !no_ack && !ids.is_empty());
        let delivery =
            Delivery { group, consumer, entries, last_id, entries_read, seen_ms, is_active };
        self.stream_deliver(db, key, &delivery, 1)
    }

    /// Gives a consumer entries, whoever had them. Counts as `count` changes.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn stream_deliver(
        &mut self,
        db: usize,
        key: &Key<'_>,
        delivery: &Delivery<'_>,
        count: usize,
    ) -> Result<(), OpError> {
        let done = self.change_group(db, key, delivery.group, |group| group.deliver(delivery))?;
        if done.is_some() {
            let mut bytes = Vec::new();
            Deliveries::push_all(&mut bytes, delivery.entries);
            let &Delivery { group, consumer, last_id, entries_read, seen_ms, is_active, .. } =
                delivery;
            let entries = Deliveries::new(&bytes);
            let change = StreamChange::Deliver {
                group,
                consumer,
                entries,
                last_id,
                entries_read,
                seen_ms,
                is_active,
            };
            self.report_stream(db, key, Event::Xdeliver, change, count);
        }
        Ok(())
    }

    /// Takes entries from the pending ones of a group; which ones were pending.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn stream_ack(
        &mut self,
        db: usize,
        key: &Key<'_>,
        group: &[u8],
        ids: &[StreamId],
    ) -> Result<Vec<StreamId>, OpError> {
        let gone = self.change_group(db, key, group, |known| {
            ids.iter().copied().filter(|id| known.remove_pending(*id)).collect::<Vec<_>>()
        })?;
        let gone = gone.unwrap_or_default();
        if !gone.is_empty() {
            let mut bytes = Vec::new();
            Ids::push_all(&mut bytes, &gone);
            let change = StreamChange::Ack { group, ids: Ids::new(&bytes) };
            self.report_stream(db, key, Event::Xack, change, gone.len());
        }
        Ok(gone)
    }

    pub(crate) fn apply_stream(
        &mut self,
        db: usize,
        key: &Key<'_>,
        change: &StreamChange<'_>,
    ) -> Result<(), OpError> {
        match *change {
            StreamChange::Add { id, pairs } => {
                let strings: Vec<&[u8]> = pairs.iter().collect();
                let pairs =
                    strings.as_chunks::<2>().0.iter().map(|[field, value]| (*field, *value));
                self.stream_add(db, key, NewId::Exact(id), pairs).map(drop)
            }
            StreamChange::TrimUpTo { id, forget } => {
                if let Some(entry) = self.stream_entry(db, key)? {
                    self.trim_up_to(db, key, entry, id, forget);
                }
                Ok(())
            }
            StreamChange::Trim { ids } => {
                if let Some(entry) = self.stream_entry(db, key)? {
                    self.trim_these(db, key, entry, &ids.iter().collect::<Vec<_>>());
                }
                Ok(())
            }
            StreamChange::Delete { ids, forget } => {
                let ids: Vec<_> = ids.iter().collect();
                let references = if forget { References::Delete } else { References::Keep };
                self.stream_delete(db, key, &ids, references).map(drop)
            }
            StreamChange::SetId { last_id, entries_added, max_deleted_id } => {
                self.stream_set_id(db, key, last_id, entries_added, max_deleted_id)
            }
            _ => self.apply_group(db, key, change),
        }
    }

    fn apply_group(
        &mut self,
        db: usize,
        key: &Key<'_>,
        change: &StreamChange<'_>,
    ) -> Result<(), OpError> {
        match *change {
            StreamChange::GroupCreate { group, last_id, entries_read, .. } => {
                self.group_create(db, key, group, last_id, entries_read).map(drop)
            }
            StreamChange::GroupSetId { group, last_id, entries_read } => {
                self.group_set_id(db, key, group, last_id, entries_read).map(drop)
            }
            StreamChange::GroupDestroy { group } => self.group_destroy(db, key, group).map(drop),
            StreamChange::ConsumerCreate { group, consumer, seen_ms } => {
                self.add_consumer(db, key, group, consumer, seen_ms).map(drop)
            }
            StreamChange::ConsumerDelete { group, consumer } => {
                self.consumer_delete(db, key, group, consumer).map(drop)
            }
            StreamChange::Ack { group, ids } => {
                self.stream_ack(db, key, group, &ids.iter().collect::<Vec<_>>()).map(drop)
            }
            StreamChange::Deliver {
                group,
                consumer,
                entries,
                last_id,
                entries_read,
                seen_ms,
                is_active,
            } => {
                let stream = self.stream_look(db, key)?;
                let known = stream.and_then(|stream| stream.group(group)?.consumer(consumer));
                if known.is_none() {
                    // No effect of this log: who is given something was made before.
                    return Ok(());
                }
                let entries: Vec<_> = entries.iter().collect();
                let delivery = Delivery {
                    group,
                    consumer,
                    entries: &entries,
                    last_id,
                    entries_read,
                    seen_ms,
                    is_active,
                };
                self.stream_deliver(db, key, &delivery, entries.len())
            }
            _ => unreachable!("the caller passes changes of groups"),
        }
    }
}
