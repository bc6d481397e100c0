//! The groups of a stream: who was given which entries, and has not acknowledged them.
//!
//! ```text
//! group      name | last id given | entries read | pending entries by id | consumers
//! pending    when and how often it was delivered | number of the consumer
//! consumer   name | when it was seen and active | ids of its pending entries
//! ```
//!
//! Groups and consumers stand in the order of their names, as Redis lists them. A consumer has a number
//! in its group, which pending entries name.
//!
//! Invariants, checked by [`Groups::validate`]: a pending entry is one of exactly the consumer that it
//! names; `bytes` are the sums of what groups and consumers keep outside.

use encodings::rdb;
use encodings::stream::StreamId;

use super::ordered::Ordered;

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// When it was last delivered, milliseconds since 1970.
    pub delivered_ms: u64,
    /// How often it was delivered.
    pub deliveries: u64,
    pub(super) consumer: u32,
}

/// A member of a group.
pub struct Consumer {
    name: Box<[u8]>,
    /// When it last asked for something, milliseconds since 1970.
    pub seen_ms: u64,
    /// When it last got something.
    pub active_ms: Option<u64>,
    pending: Ordered<StreamId, ()>,
}

impl Consumer {
    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// How many entries it has not acknowledged.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// Which these are, from an id on.
    pub fn pending_from(&self, id: StreamId) -> impl Iterator<Item = StreamId> + '_ {
        self.pending.iter_from(id).map(|(id, ())| id)
    }

    fn outside_bytes(&self) -> usize {
        self.name.len() + self.pending.outside_bytes()
    }
}

/// A group of consumers.
pub struct Group {
    name: Box<[u8]>,
    pub(super) last_id: StreamId,
    pub(super) entries_read: Option<u64>,
    pending: Ordered<StreamId, Pending>,
    /// By their numbers.
    consumers: Vec<Option<Consumer>>,
    /// Numbers in the order of names.
    order: Vec<u32>,
    /// Bytes that consumers keep outside.
    consumer_bytes: usize,
}

impl Group {
    fn new(name: &[u8], last_id: StreamId, entries_read: Option<u64>) -> Group {
        Group {
            name: name.into(),
            last_id,
            entries_read,
            pending: Ordered::default(),
            consumers: Vec::new(),
            order: Vec::new(),
            consumer_bytes: 0,
        }
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The last entry that it was given.
    pub fn last_id(&self) -> StreamId {
        self.last_id
    }

    /// Entries that it was given, if that is known.
    pub fn entries_read(&self) -> Option<u64> {
        self.entries_read
    }

    /// How many entries are pending.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The first and the last pending entry.
    pub fn pending_ends(&self) -> Option<(StreamId, StreamId)> {
        Some((self.pending.first()?.0, self.pending.last()?.0))
    }

    /// What is known of a pending entry.
    pub fn pending(&self, id: StreamId) -> Option<&Pending> {
        self.pending.get(id)
    }

    /// The pending entries from an id on.
    pub fn pending_from(&self, id: StreamId) -> impl Iterator<Item = (StreamId, &Pending)> {
        self.pending.iter_from(id)
    }

    /// How many consumers it has.
    pub fn consumers_len(&self) -> usize {
        self.order.len()
    }

    /// Its consumers in the order of their names.
    pub fn consumers(&self) -> impl Iterator<Item = &Consumer> {
        self.order.iter().map(|number| self.at(*number))
    }

    /// A consumer by its name.
    pub fn consumer(&self, name: &[u8]) -> Option<&Consumer> {
        Some(self.at(self.number(name).ok()?))
    }

    /// The consumer of a pending entry.
    pub fn consumer_of(&self, pending: &Pending) -> &Consumer {
        self.at(pending.consumer)
    }

    fn at(&self, number: u32) -> &Consumer {
        self.consumers[number as usize].as_ref().expect("the number is of a consumer")
    }

    /// The number of a consumer; else where its number belongs in the order.
    pub(super) fn number(&self, name: &[u8]) -> Result<u32, usize> {
        let found = self.order.binary_search_by(|number| self.at(*number).name[..].cmp(name));
        found.map(|at| self.order[at])
    }

    /// Lets `f` change a consumer.
    fn change_consumer<R>(&mut self, number: u32, f: impl FnOnce(&mut Consumer) -> R) -> R {
        let consumer =
            self.consumers[number as usize].as_mut().expect("the number is of a consumer");
        let before = consumer.outside_bytes();
        let answer = f(consumer);
        self.consumer_bytes = self.consumer_bytes + consumer.outside_bytes() - before;
        answer
    }

    /// Adds a consumer that is not there, and gives its number.
    pub(super) fn add_consumer(&mut self, name: &[u8], seen_ms: u64) -> u32 {
        let consumer =
            Consumer { name: name.into(), seen_ms, active_ms: None, pending: Ordered::default() };
        self.consumer_bytes += consumer.outside_bytes();
        let at = self.number(name).expect_err("there is no such consumer yet");
        let free = self.consumers.iter().position(Option::is_none);
        let number = free.unwrap_or(self.consumers.len());
        if number == self.consumers.len() {
            self.consumers.push(None);
        }
        self.consumers[number] = Some(consumer);
        let number = u32::try_from(number).expect("fewer consumers than bytes in their names");
        self.order.insert(at, number);
        number
    }

    /// Takes a consumer away with its pending entries; how many these were, `None` without it.
    pub(super) fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let number = self.number(name).ok()?;
        self.order.retain(|other| *other != number);
        let consumer = self.consumers[number as usize].take().expect("it was found");
        self.consumer_bytes -= consumer.outside_bytes();
        for (id, ()) in consumer.pending.iter() {
            self.pending.remove(id);
        }
        Some(consumer.pending.len())
    }

    /// Notes when a consumer asked for something, and whether it got it.
    pub(super) fn see(&mut self, number: u32, now_ms: u64, is_active: bool) {
        self.change_consumer(number, |consumer| {
            consumer.seen_ms = now_ms;
            if is_active {
                consumer.active_ms = Some(now_ms);
            }
        });
    }

    /// Makes an entry pending for the consumer that it names, whoever had it.
    pub(super) fn set_pending(&mut self, id: StreamId, pending: Pending) {
        let before = match self.pending.get_mut(id) {
            Some(known) => Some(std::mem::replace(known, pending).consumer),
            None => {
                self.pending.insert(id, pending);
                None
            }
        };
        if before == Some(pending.consumer) {
            return;
        }
        if let Some(before) = before {
            self.change_consumer(before, |consumer| consumer.pending.remove(id));
        }
        self.change_consumer(pending.consumer, |consumer| consumer.pending.insert(id, ()));
    }

    /// Takes a pending entry away; false if it is not pending.
    pub(super) fn remove_pending(&mut self, id: StreamId) -> bool {
        let Some(pending) = self.pending.remove(id) else { return false };
        self.change_consumer(pending.consumer, |consumer| consumer.pending.remove(id));
        true
    }

    fn outside_bytes(&self) -> usize {
        self.name.len()
            + self.pending.outside_bytes()
            + self.consumers.capacity() * size_of::<Option<Consumer>>()
            + self.order.capacity() * size_of::<u32>()
            + self.consumer_bytes
    }

    /// Frees a bounded piece; false once nothing is left.
    fn drain_step(&mut self) -> bool {
        if self.pending.pop_chunk(drop) {
            return true;
        }
        let Some(last) = self.consumers.last_mut() else { return false };
        if let Some(consumer) = last {
            let before = consumer.outside_bytes();
            if consumer.pending.pop_chunk(drop) {
                self.consumer_bytes = self.consumer_bytes + consumer.outside_bytes() - before;
                return true;
            }
            self.consumer_bytes -= before;
        }
        self.consumers.pop();
        true
    }

    fn load(group: &rdb::Group) -> Group {
        let mut loaded = Group::new(&group.name, group.last_id, group.entries_read);
        let mut numbers = Vec::with_capacity(group.consumers.len());
        for rdb::Consumer { name, seen_ms, active_ms } in &group.consumers {
            let number = loaded.add_consumer(name, *seen_ms);
            loaded.change_consumer(number, |consumer| consumer.active_ms = *active_ms);
            numbers.push(number);
        }
        for rdb::Pending { id, delivered_ms, deliveries, consumer } in group.pending.iter().copied()
        {
            let consumer = numbers[consumer];
            loaded.set_pending(id, Pending { delivered_ms, deliveries, consumer });
        }
        loaded
    }

    fn save(&self) -> rdb::Group {
        let consumers = self.consumers().map(|consumer| rdb::Consumer {
            name: consumer.name.to_vec(),
            seen_ms: consumer.seen_ms,
            active_ms: consumer.active_ms,
        });
        let mut places = vec![0; self.consumers.len()];
        for (place, number) in self.order.iter().enumerate() {
            places[*number as usize] = place;
        }
        let pending = self.pending.iter().map(|(id, pending)| rdb::Pending {
            id,
            delivered_ms: pending.delivered_ms,
            deliveries: pending.deliveries,
            consumer: places[pending.consumer as usize],
        });
        rdb::Group {
            name: self.name.to_vec(),
            last_id: self.last_id,
            entries_read: self.entries_read,
            pending: pending.collect(),
            consumers: consumers.collect(),
        }
    }

    fn validate(&self) {
        self.pending.validate();
        let mut owned = 0;
        for (number, consumer) in self.consumers.iter().enumerate() {
            let Some(consumer) = consumer else { continue };
            consumer.pending.validate();
            owned += consumer.pending.len();
            for (id, ()) in consumer.pending.iter() {
                let pending = self.pending.get(id).expect("it is pending in the group");
                assert_eq!(pending.consumer as usize, number);
            }
        }
        assert_eq!(owned, self.pending.len());
        assert_eq!(self.consumer_bytes, self.consumers().map(Consumer::outside_bytes).sum());
        assert!(self.consumers().zip(self.consumers().skip(1)).all(|(a, b)| a.name < b.name));
    }
}

/// See the top of the file.
#[derive(Default)]
pub(super) struct Groups {
    /// In the order of names.
    groups: Vec<Group>,
    /// Bytes that they keep outside.
    bytes: usize,
}

impl Groups {
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter()
    }

    fn find(&self, name: &[u8]) -> Result<usize, usize> {
        self.groups.binary_search_by(|group| group.name[..].cmp(name))
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&Group> {
        Some(&self.groups[self.find(name).ok()?])
    }

    /// Adds a group; false if there is one of this name.
    pub(super) fn add(
        &mut self,
        name: &[u8],
        last_id: StreamId,
        entries_read: Option<u64>,
    ) -> bool {
        let place = self.find(name);
        if let Err(at) = place {
            let group = Group::new(name, last_id, entries_read);
            self.bytes += group.outside_bytes();
            self.groups.insert(at, group);
        }
        place.is_err()
    }

    /// Takes a group out.
    pub(super) fn remove(&mut self, name: &[u8]) -> Option<Group> {
        let group = self.groups.remove(self.find(name).ok()?);
        self.bytes -= group.outside_bytes();
        Some(group)
    }

    /// Lets `f` change a group; `None` without it.
    pub(super) fn change<R>(&mut self, name: &[u8], f: impl FnOnce(&mut Group) -> R) -> Option<R> {
        let at = self.find(name).ok()?;
        let group = &mut self.groups[at];
        let before = group.outside_bytes();
        let answer = f(group);
        self.bytes = self.bytes + group.outside_bytes() - before;
        Some(answer)
    }

    /// Whether an entry is pending in some group, or not given to some group yet.
    pub(super) fn refer_to(&self, id: StreamId) -> bool {
        self.groups.iter().any(|group| group.last_id < id || group.pending.get(id).is_some())
    }

    /// Whether some group has pending entries.
    pub(super) fn have_pending(&self) -> bool {
        self.groups.iter().any(|group| !group.pending.is_empty())
    }

    /// Takes an entry from the pending ones of every group; false if it was in none.
    pub(super) fn forget(&mut self, id: StreamId) -> bool {
        let mut was_pending = false;
        for group in &mut self.groups {
            let before = group.outside_bytes();
            was_pending |= group.remove_pending(id);
            self.bytes = self.bytes + group.outside_bytes() - before;
        }
        was_pending
    }

    pub(super) fn outside_bytes(&self) -> usize {
        self.bytes + self.groups.capacity() * size_of::<Group>()
    }

    /// Frees a bounded piece; false once nothing is left.
    pub(super) fn drain_step(&mut self) -> bool {
        let Some(last) = self.groups.last_mut() else { return false };
        let before = last.outside_bytes();
        if last.drain_step() {
            self.bytes = self.bytes + last.outside_bytes() - before;
        } else {
            self.bytes -= before;
            self.groups.pop();
        }
        true
    }

    pub(super) fn load(groups: &[rdb::Group]) -> Groups {
        let mut groups: Vec<Group> = groups.iter().map(Group::load).collect();
        groups.sort_by(|a, b| a.name.cmp(&b.name));
        let bytes = groups.iter().map(Group::outside_bytes).sum();
        Groups { groups, bytes }
    }

    pub(super) fn save(&self) -> Vec<rdb::Group> {
        self.groups.iter().map(Group::save).collect()
    }

    /// Checks every relation inside.
    ///
    /// # Panics
    /// When one does not hold.
    pub(super) fn validate(&self) {
        assert_eq!(self.bytes, self.groups.iter().map(Group::outside_bytes).sum());
        assert!(self.groups.iter().zip(self.groups.iter().skip(1)).all(|(a, b)| a.name < b.name));
        self.groups.iter().for_each(Group::validate);
    }
}
