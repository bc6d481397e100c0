//! Streams as RDB files hold them: nodes, what they were, and groups of consumers.
//!
//! ```text
//! value     nodes | node * | entries | last id | [first id | largest deleted id | entries added]
//!           | groups | group *                                  in brackets: not in the first version
//! node      string of 16 bytes, its id | string, its listpack
//! group     name | last id | [entries read, u64::MAX = unknown] | pending | pending entry *
//!           | consumers | consumer *
//! pending   id, 16 bytes | time of delivery, i64 LE | deliveries
//! consumer  name | seen, i64 LE | [active, i64 LE, -1 = never; third version] | pending | id *
//! id        two lengths, but where 16 bytes are said
//! ```
//!
//! The third version is written; all are read. Ids must ascend, and each pending entry must have one
//! consumer. Nodes without an entry that is there, which Redis can leave behind, are passed over.

use super::value::are_unique;
use super::{Refused, TYPE_STREAM, TYPE_STREAM_2, TYPE_STREAM_3, read_len, read_string, take};
use super::{write_len, write_string};
use crate::Corrupt;
use crate::stream::{Counts, ID_BYTES, Node, StreamId, from_redis, to_redis};

/// A stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// Its nodes in the order of their ids; each has an entry that is there.
    pub nodes: Vec<StreamNode>,
    /// The largest id that it has had.
    pub last_id: StreamId,
    /// The largest id among entries that were deleted.
    pub max_deleted_id: StreamId,
    /// Entries that it has ever had.
    pub entries_added: u64,
    /// Its groups; names differ.
    pub groups: Vec<Group>,
}

/// A node in the form of [`crate::stream`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamNode {
    /// Its id.
    pub id: StreamId,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What they do not tell at a glance.
    pub counts: Counts,
}

/// A group of consumers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: Vec<u8>,
    /// The last entry that it was given.
    pub last_id: StreamId,
    /// Entries that it was given, if that is known.
    pub entries_read: Option<u64>,
    /// What was delivered and not acknowledged, in the order of ids.
    pub pending: Vec<Pending>,
    /// Its consumers; names differ.
    pub consumers: Vec<Consumer>,
}

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The entry.
    pub id: StreamId,
    /// When it was last delivered, milliseconds since 1970.
    pub delivered_ms: u64,
    /// How often it was delivered.
    pub deliveries: u64,
    /// To whom: an index of the group's consumers.
    pub consumer: usize,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Its name.
    pub name: Vec<u8>,
    /// When it last asked for something, milliseconds since 1970.
    pub seen_ms: u64,
    /// When it last got something.
    pub active_ms: Option<u64>,
}

impl Stream {
    /// Entries that are there.
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|node| node.counts.live).sum()
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The first entry that is there.
    pub fn first_id(&self) -> Option<StreamId> {
        let node = self.nodes.first()?;
        let mut entries = Node::new(node.id, &node.bytes).entries();
        Some(entries.find(|entry| !entry.is_deleted)?.id)
    }
}

/// Appends a stream, in the form that [`TYPE_STREAM_3`] names.
pub fn write_stream(out: &mut Vec<u8>, stream: &Stream, compress: bool) {
    write_len(out, stream.nodes.len() as u64);
    for node in &stream.nodes {
        write_string(out, &node.id.to_bytes(), false);
        write_string(out, &to_redis(&Node::new(node.id, &node.bytes), &node.counts), compress);
    }
    write_len(out, stream.len() as u64);
    let first_id = stream.first_id().unwrap_or(StreamId::MIN);
    for id in [stream.last_id, first_id, stream.max_deleted_id] {
        write_id(out, id);
    }
    write_len(out, stream.entries_added);
    write_len(out, stream.groups.len() as u64);
    for group in &stream.groups {
        write_group(out, group);
    }
}

fn write_id(out: &mut Vec<u8>, id: StreamId) {
    write_len(out, id.ms);
    write_len(out, id.seq);
}

fn write_group(out: &mut Vec<u8>, group: &Group) {
    write_string(out, &group.name, false);
    write_id(out, group.last_id);
    write_len(out, group.entries_read.unwrap_or(u64::MAX));
    write_len(out, group.pending.len() as u64);
    let mut owned = vec![Vec::new(); group.consumers.len()];
    for pending in &group.pending {
        out.extend(pending.id.to_bytes());
        out.extend(pending.delivered_ms.to_le_bytes());
        write_len(out, pending.deliveries);
        owned[pending.consumer].push(pending.id);
    }
    write_len(out, group.consumers.len() as u64);
    for (consumer, ids) in group.consumers.iter().zip(owned) {
        write_string(out, &consumer.name, false);
        out.extend(consumer.seen_ms.to_le_bytes());
        out.extend(consumer.active_ms.unwrap_or(u64::MAX).to_le_bytes());
        write_len(out, ids.len() as u64);
        ids.iter().for_each(|id| out.extend(id.to_bytes()));
    }
}

/// Takes a stream of one of the three types off the front of `input`.
///
/// # Errors
/// The bytes are no such stream.
pub fn read_stream(value_type: u8, input: &mut &[u8]) -> Result<Stream, Refused> {
    debug_assert!([TYPE_STREAM, TYPE_STREAM_2, TYPE_STREAM_3].contains(&value_type));
    let mut stream = Stream { nodes: read_nodes(input)?, ..Stream::default() };
    let len = read_len(input)?;
    stream.last_id = read_id(input)?;
    if value_type == TYPE_STREAM {
        stream.entries_added = len;
    } else {
        read_id(input)?;
        stream.max_deleted_id = read_id(input)?;
        stream.entries_added = read_len(input)?;
    }
    let last = stream
        .nodes
        .last()
        .and_then(|node| Some(Node::new(node.id, &node.bytes).entries().last()?.id));
    if len != stream.len() as u64 || last.is_some_and(|last| last > stream.last_id) {
        return Err(Refused::Corrupt);
    }
    for _ in 0..read_len(input)? {
        let group = read_group(value_type, input, &stream)?;
        stream.groups.push(group);
    }
    let is_sound = are_unique(stream.groups.iter().map(|group| &group.name));
    if is_sound { Ok(stream) } else { Err(Refused::Corrupt) }
}

fn read_nodes(input: &mut &[u8]) -> Result<Vec<StreamNode>, Corrupt> {
    let mut nodes: Vec<StreamNode> = Vec::new();
    let mut last = None;
    for _ in 0..read_len(input)? {
        let id = <[u8; ID_BYTES]>::try_from(read_string(input)?).map_err(|_| Corrupt)?;
        let id = StreamId::from_bytes(id);
        let (bytes, counts) = from_redis(id, &read_string(input)?)?;
        if last.is_some_and(|last| id <= last) {
            return Err(Corrupt);
        }
        last = Node::new(id, &bytes).entries().last().map(|entry| entry.id);
        last = last.or(Some(id));
        if counts.live > 0 {
            nodes.push(StreamNode { id, bytes, counts });
        }
    }
    Ok(nodes)
}

fn read_id(input: &mut &[u8]) -> Result<StreamId, Corrupt> {
    Ok(StreamId { ms: read_len(input)?, seq: read_len(input)? })
}

fn read_raw_id(input: &mut &[u8]) -> Result<StreamId, Corrupt> {
    let bytes = take(input, ID_BYTES as u64)?.try_into().expect("as many as asked for");
    Ok(StreamId::from_bytes(bytes))
}

/// A time; none where it is negative.
fn read_ms(input: &mut &[u8]) -> Result<Option<u64>, Corrupt> {
    let ms = i64::from_le_bytes(take(input, 8)?.try_into().expect("eight bytes"));
    Ok(u64::try_from(ms).ok())
}

fn read_group(value_type: u8, input: &mut &[u8], stream: &Stream) -> Result<Group, Refused> {
    let mut group =
        Group { name: read_string(input)?, last_id: read_id(input)?, ..Group::default() };
    group.entries_read = if value_type == TYPE_STREAM {
        stream.entries_up_to(group.last_id)
    } else {
        Some(read_len(input)?).filter(|read| i64::try_from(*read).is_ok())
    };
    for _ in 0..read_len(input)? {
        let id = read_raw_id(input)?;
        if group.pending.last().is_some_and(|last| id <= last.id) {
            return Err(Refused::Corrupt);
        }
        let delivered_ms = read_ms(input)?.unwrap_or(0);
        let deliveries = read_len(input)?;
        group.pending.push(Pending { id, delivered_ms, deliveries, consumer: usize::MAX });
    }
    for _ in 0..read_len(input)? {
        read_consumer(value_type, input, &mut group)?;
    }
    let is_owned = |pending: &Pending| pending.consumer != usize::MAX;
    if !are_unique(group.consumers.iter().map(|consumer| &consumer.name)) {
        return Err(Refused::DuplicateConsumer);
    }
    if group.pending.iter().all(is_owned) { Ok(group) } else { Err(Refused::Corrupt) }
}

fn read_consumer(value_type: u8, input: &mut &[u8], group: &mut Group) -> Result<(), Corrupt> {
    let (name, seen_ms) = (read_string(input)?, read_ms(input)?);
    let active_ms = if value_type == TYPE_STREAM_3 { read_ms(input)? } else { seen_ms };
    for _ in 0..read_len(input)? {
        let id = read_raw_id(input)?;
        let at = group.pending.binary_search_by_key(&id, |pending| pending.id);
        let pending = &mut group.pending[at.map_err(|_| Corrupt)?];
        if pending.consumer != usize::MAX {
            return Err(Corrupt);
        }
        pending.consumer = group.consumers.len();
    }
    group.consumers.push(Consumer { name, seen_ms: seen_ms.unwrap_or(0), active_ms });
    Ok(())
}

impl Stream {
    /// How many entries the stream had up to an id, if that can be told; for the first version, where
    /// nothing was ever deleted as far as is known.
    fn entries_up_to(&self, id: StreamId) -> Option<u64> {
        let Some(first_id) = self.first_id() else {
            return (self.entries_added == 0 || id <= self.last_id).then_some(self.entries_added);
        };
        if id == self.last_id {
            Some(self.entries_added)
        } else if id < first_id {
            Some(0)
        } else if id == first_id {
            Some(1)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{push_entry, push_fields};

    fn sample() -> Stream {
        let id = StreamId::new(7, 1);
        let pairs: [(&[u8], &[u8]); 1] = [(b"field", b"value")];
        let mut bytes = Vec::new();
        let mut counts = Counts { live: 1, ..Counts::default() };
        counts.redis_elements = push_fields(&mut bytes, pairs.iter().map(|(field, _)| *field));
        let mut entry = Vec::new();
        counts.redis_elements +=
            push_entry(&mut entry, &Node::new(id, &bytes), id, pairs.into_iter());
        bytes.extend(entry);
        let pending = |ms, consumer| Pending {
            id: StreamId::new(ms, 0),
            delivered_ms: 1_764_550_000_000 + ms,
            deliveries: ms,
            consumer,
        };
        let consumer = |name: &[u8], active_ms| Consumer {
            name: name.to_vec(),
            seen_ms: 1_764_550_000_000,
            active_ms,
        };
        let group = Group {
            name: b"group".to_vec(),
            last_id: id,
            entries_read: Some(1),
            pending: vec![pending(3, 1), pending(4, 0), pending(9, 1)],
            consumers: vec![consumer(b"alice", Some(5)), consumer(b"bob", None)],
        };
        let other = Group { name: b"other".to_vec(), entries_read: None, ..Group::default() };
        Stream {
            nodes: vec![StreamNode { id, bytes, counts }],
            last_id: StreamId::new(9, 9),
            max_deleted_id: StreamId::new(8, 0),
            entries_added: 77,
            groups: vec![group, other],
        }
    }

    #[test]
    fn streams_come_back() {
        for (stream, compress) in [(sample(), true), (sample(), false), (Stream::default(), true)] {
            let mut bytes = Vec::new();
            write_stream(&mut bytes, &stream, compress);
            let mut input = &bytes[..];
            assert_eq!(read_stream(TYPE_STREAM_3, &mut input), Ok(stream));
            assert!(input.is_empty());
        }
    }

    #[test]
    fn cut_and_changed_streams_never_panic() {
        let mut bytes = Vec::new();
        write_stream(&mut bytes, &sample(), false);
        for end in 0..bytes.len() {
            assert!(read_stream(TYPE_STREAM_3, &mut &bytes[..end]).is_err());
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0x80, 0x81, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                for value_type in [TYPE_STREAM, TYPE_STREAM_2, TYPE_STREAM_3] {
                    let _ = read_stream(value_type, &mut &changed[..]);
                }
            }
        }
    }

    #[test]
    fn relations_that_do_not_hold_are_refused() {
        let check = |change: fn(&mut Stream)| {
            let mut stream = sample();
            change(&mut stream);
            let mut bytes = Vec::new();
            write_stream(&mut bytes, &stream, false);
            assert!(read_stream(TYPE_STREAM_3, &mut &bytes[..]).is_err());
        };
        check(|stream| stream.last_id = StreamId::new(7, 0));
        check(|stream| stream.groups[1].name = stream.groups[0].name.clone());
        check(|stream| stream.groups[0].pending[0].id = StreamId::new(5, 0));
        check(|stream| stream.groups[0].consumers[0].name = b"bob".to_vec());
        check(|stream| stream.nodes.push(stream.nodes[0].clone()));
    }
}
