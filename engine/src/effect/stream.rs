//! What changed in a stream.
//!
//! ```text
//! id         16 bytes, high byte first
//! ids        length varint | id, again and again
//! delivery   id | time u64, little endian | deliveries u64, little endian
//! ```

use encodings::stream::{ID_BYTES, StreamId};

use super::Strings;
use super::codec::{Reader, Writer};
use crate::error::Corrupt;

/// Ids of entries, as an effect carries them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ids<'a>(&'a [u8]);

impl<'a> Ids<'a> {
    /// Ids that [`Ids::push_all`] wrote.
    pub(crate) fn new(bytes: &'a [u8]) -> Ids<'a> {
        Ids(bytes)
    }

    pub(crate) fn push_all(out: &mut Vec<u8>, ids: &[StreamId]) {
        ids.iter().for_each(|id| out.extend(id.to_bytes()));
    }

    /// The ids.
    pub fn iter(&self) -> impl Iterator<Item = StreamId> + use<'a> {
        let (ids, _) = self.0.as_chunks::<ID_BYTES>();
        ids.iter().map(|id| StreamId::from_bytes(*id))
    }
}

/// Bytes of an id with a time and a number.
const DELIVERY_BYTES: usize = ID_BYTES + 16;

/// Entries that became pending, as an effect carries them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deliveries<'a>(&'a [u8]);

impl<'a> Deliveries<'a> {
    /// What [`Deliveries::push_all`] wrote.
    pub(crate) fn new(bytes: &'a [u8]) -> Deliveries<'a> {
        Deliveries(bytes)
    }

    pub(crate) fn push_all(out: &mut Vec<u8>, entries: &[(StreamId, u64, u64)]) {
        for (id, delivered_ms, deliveries) in entries {
            out.extend(id.to_bytes());
            out.extend(delivered_ms.to_le_bytes());
            out.extend(deliveries.to_le_bytes());
        }
    }

    /// Each with its time in milliseconds since 1970, and how often it was delivered.
    pub fn iter(&self) -> impl Iterator<Item = (StreamId, u64, u64)> + use<'a> {
        let (entries, _) = self.0.as_chunks::<DELIVERY_BYTES>();
        entries.iter().map(|entry| {
            let (words, _) = entry.as_chunks::<8>();
            let id = StreamId::new(u64::from_be_bytes(words[0]), u64::from_be_bytes(words[1]));
            (id, u64::from_le_bytes(words[2]), u64::from_le_bytes(words[3]))
        })
    }
}

/// What changed in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are what their names and the variant say")]
pub enum StreamChange<'a> {
    /// An entry was added: fields and values in turn.
    Add { id: StreamId, pairs: Strings<'a> },
    /// Entries were deleted; `forget` tells that groups do not refer to them any more, nor to those
    /// among them that had been deleted before.
    Delete { ids: Ids<'a>, forget: bool },
    /// All entries up to an id, this included, are gone.
    TrimUpTo { id: StreamId, forget: bool },
    /// Entries are gone that nothing refers to.
    Trim { ids: Ids<'a> },
    /// What the stream knows of the past was set.
    SetId { last_id: StreamId, entries_added: u64, max_deleted_id: StreamId },
    /// A group was made; `makes_stream` tells that its stream was as well.
    GroupCreate {
        group: &'a [u8],
        last_id: StreamId,
        entries_read: Option<u64>,
        makes_stream: bool,
    },
    /// The last entry that a group was given was set.
    GroupSetId { group: &'a [u8], last_id: StreamId, entries_read: Option<u64> },
    /// A group is gone.
    GroupDestroy { group: &'a [u8] },
    /// A consumer was made.
    ConsumerCreate { group: &'a [u8], consumer: &'a [u8], seen_ms: u64 },
    /// A consumer is gone with its pending entries.
    ConsumerDelete { group: &'a [u8], consumer: &'a [u8] },
    /// A consumer was given entries, whoever had them, and the group has come so far.
    Deliver {
        group: &'a [u8],
        consumer: &'a [u8],
        entries: Deliveries<'a>,
        last_id: StreamId,
        entries_read: Option<u64>,
        seen_ms: u64,
        is_active: bool,
    },
    /// Entries of a group are not pending any more.
    Ack { group: &'a [u8], ids: Ids<'a> },
}

const ADD: u8 = 1;
const DELETE: u8 = 2;
const TRIM_UP_TO: u8 = 3;
const TRIM: u8 = 4;
const SET_ID: u8 = 5;
const GROUP_CREATE: u8 = 6;
const GROUP_SET_ID: u8 = 7;
const GROUP_DESTROY: u8 = 8;
const CONSUMER_CREATE: u8 = 9;
const CONSUMER_DELETE: u8 = 10;
const DELIVER: u8 = 11;
const ACK: u8 = 12;

impl Writer<'_> {
    fn id(self, id: StreamId) -> Self {
        self.0.extend(id.to_bytes());
        self
    }
}

impl<'a> Reader<'a> {
    fn id(&mut self) -> Result<StreamId, Corrupt> {
        let (id, rest) = self.0.split_first_chunk::<ID_BYTES>().ok_or(Corrupt)?;
        self.0 = rest;
        Ok(StreamId::from_bytes(*id))
    }

    /// Bytes of which each record has so many.
    fn records(&mut self, record: usize) -> Result<&'a [u8], Corrupt> {
        let bytes = self.bytes()?;
        if bytes.len().is_multiple_of(record) { Ok(bytes) } else { Err(Corrupt) }
    }

    fn ids(&mut self) -> Result<Ids<'a>, Corrupt> {
        Ok(Ids(self.records(ID_BYTES)?))
    }
}

impl<'a> StreamChange<'a> {
    /// Whether the stream is new, or entries came or went.
    pub(super) fn is_of_contents(&self) -> bool {
        match self {
            StreamChange::Add { .. }
            | StreamChange::Delete { .. }
            | StreamChange::TrimUpTo { .. }
            | StreamChange::Trim { .. } => true,
            StreamChange::GroupCreate { makes_stream, .. } => *makes_stream,
            _ => false,
        }
    }

    pub(super) fn encode<'w>(&self, w: Writer<'w>) -> Writer<'w> {
        match *self {
            StreamChange::Add { id, pairs } => w.kind(ADD).id(id).bytes(pairs.0),
            StreamChange::Delete { ids, forget } => w.kind(DELETE).bytes(ids.0).flag(forget),
            StreamChange::TrimUpTo { id, forget } => w.kind(TRIM_UP_TO).id(id).flag(forget),
            StreamChange::Trim { ids } => w.kind(TRIM).bytes(ids.0),
            StreamChange::SetId { last_id, entries_added, max_deleted_id } => {
                w.kind(SET_ID).id(last_id).number(entries_added).id(max_deleted_id)
            }
            StreamChange::GroupCreate { group, last_id, entries_read, makes_stream } => {
                let w = w.kind(GROUP_CREATE).bytes(group).id(last_id);
                w.option(entries_read).flag(makes_stream)
            }
            StreamChange::GroupSetId { group, last_id, entries_read } => {
                w.kind(GROUP_SET_ID).bytes(group).id(last_id).option(entries_read)
            }
            StreamChange::GroupDestroy { group } => w.kind(GROUP_DESTROY).bytes(group),
            StreamChange::ConsumerCreate { group, consumer, seen_ms } => {
                w.kind(CONSUMER_CREATE).bytes(group).bytes(consumer).number(seen_ms)
            }
            StreamChange::ConsumerDelete { group, consumer } => {
                w.kind(CONSUMER_DELETE).bytes(group).bytes(consumer)
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
                let w = w.kind(DELIVER).bytes(group).bytes(consumer).bytes(entries.0);
                w.id(last_id).option(entries_read).number(seen_ms).flag(is_active)
            }
            StreamChange::Ack { group, ids } => w.kind(ACK).bytes(group).bytes(ids.0),
        }
    }

    pub(super) fn decode(r: &mut Reader<'a>) -> Result<StreamChange<'a>, Corrupt> {
        Ok(match r.byte()? {
            ADD => {
                let (id, pairs) = (r.id()?, r.pairs()?);
                if pairs.is_empty() {
                    return Err(Corrupt);
                }
                StreamChange::Add { id, pairs }
            }
            DELETE => StreamChange::Delete { ids: r.ids()?, forget: r.flag()? },
            TRIM_UP_TO => StreamChange::TrimUpTo { id: r.id()?, forget: r.flag()? },
            TRIM => StreamChange::Trim { ids: r.ids()? },
            SET_ID => {
                let (last_id, entries_added) = (r.id()?, r.number()?);
                StreamChange::SetId { last_id, entries_added, max_deleted_id: r.id()? }
            }
            GROUP_CREATE => {
                let (group, last_id) = (r.bytes()?, r.id()?);
                let entries_read = r.option()?;
                StreamChange::GroupCreate { group, last_id, entries_read, makes_stream: r.flag()? }
            }
            GROUP_SET_ID => {
                let (group, last_id) = (r.bytes()?, r.id()?);
                StreamChange::GroupSetId { group, last_id, entries_read: r.option()? }
            }
            GROUP_DESTROY => StreamChange::GroupDestroy { group: r.bytes()? },
            CONSUMER_CREATE => {
                let (group, consumer) = (r.bytes()?, r.bytes()?);
                StreamChange::ConsumerCreate { group, consumer, seen_ms: r.number()? }
            }
            CONSUMER_DELETE => {
                StreamChange::ConsumerDelete { group: r.bytes()?, consumer: r.bytes()? }
            }
            DELIVER => StreamChange::Deliver {
                group: r.bytes()?,
                consumer: r.bytes()?,
                entries: Deliveries(r.records(DELIVERY_BYTES)?),
                last_id: r.id()?,
                entries_read: r.option()?,
                seen_ms: r.number()?,
                is_active: r.flag()?,
            },
            ACK => StreamChange::Ack { group: r.bytes()?, ids: r.ids()? },
            _ => return Err(Corrupt),
        })
    }
}
