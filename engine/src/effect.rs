//! What a mutation changed: one enum for log, replication and notifications.
//!
//! Every mutation of the keyspace reports one effect (MSET-like commands report one a key); what
//! changes nothing reports none. An effect says what came out, not what was asked: times are
//! absolute and random choices are made. Replaying effects in order into an empty partition gives the
//! same keys, values and times.

mod change;
mod codec;
mod stream;

pub use change::{Change, End, Event, Strings};
pub use stream::{Deliveries, Ids, StreamChange};

use crate::block::{Form, ValueType};
use crate::error::Corrupt;

/// Why a key went away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DeleteCause {
    /// A command said so.
    Command = 0,
    /// Its time was over.
    Expired = 1,
    /// Memory was needed.
    Evicted = 2,
    /// Its hash slot went elsewhere.
    Moved = 3,
    /// It has another name, in another partition.
    Renamed = 4,
}

/// How a whole value came under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// RENAME from another partition.
    Rename,
    /// COPY from another partition.
    Copy,
    /// RESTORE.
    Restore,
    /// A command computed it; its event.
    Command(Event),
}

/// How the bytes of a whole value are packed in an effect: as a small value of its type is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedForm(pub(crate) Form);

impl PlacedForm {
    /// The type of the value.
    pub fn value_type(self) -> ValueType {
        self.0.value_type
    }
}

/// One change of the keyspace. Keys and values are borrowed; times are milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are what their names and the variant say")]
pub enum Effect<'a> {
    /// The key holds this string now, with this time; `existed` tells a new key from an overwritten
    /// one, `keeps_expire` that the time is what the key had before.
    Set {
        db: u32,
        key: &'a [u8],
        value: &'a [u8],
        expire_at: Option<u64>,
        existed: bool,
        keeps_expire: bool,
    },
    /// An integer was added to; a missing key counted as 0.
    IncrBy { db: u32, key: &'a [u8], delta: i64 },
    /// A float was added to; `text` is the result, the time stays.
    IncrByFloat { db: u32, key: &'a [u8], text: &'a [u8] },
    /// Bytes were appended.
    Append { db: u32, key: &'a [u8], bytes: &'a [u8] },
    /// Bytes were overwritten from `offset` on, zeros before them where the string was shorter.
    SetRange { db: u32, key: &'a [u8], offset: u64, bytes: &'a [u8] },
    /// One bit was set or the string grew up to it; the offset counts bits, high bit first.
    SetBit { db: u32, key: &'a [u8], offset: u64, on: bool },
    /// Bit fields changed these bytes.
    BitField { db: u32, key: &'a [u8], offset: u64, bytes: &'a [u8] },
    /// Registers of a HyperLogLog were raised, which is then no longer than `sparse_len_max` if it is
    /// sparse: three bytes a register, as `encodings` writes them.
    HyperLogLogRaise { db: u32, key: &'a [u8], registers: &'a [u8], sparse_len_max: u64 },
    /// A HyperLogLog keeps this count.
    HyperLogLogCount { db: u32, key: &'a [u8], count: u64 },
    /// A HyperLogLog has these bytes now and its time still; `added` tells that elements came in.
    HyperLogLogRewrite { db: u32, key: &'a [u8], value: &'a [u8], added: bool },
    /// The key has this time now.
    Expire { db: u32, key: &'a [u8], at_ms: u64 },
    /// The key has no time any more.
    Persist { db: u32, key: &'a [u8] },
    /// The key is gone.
    Delete { db: u32, key: &'a [u8], cause: DeleteCause },
    /// The key has another name; `replaced` tells that the target existed.
    Rename { db: u32, from: &'a [u8], to: &'a [u8], replaced: bool },
    /// A second key has the same value and time.
    Copy { db: u32, from: &'a [u8], to_db: u32, to: &'a [u8], replaced: bool },
    /// The key holds this whole value now, with this time.
    Place {
        db: u32,
        key: &'a [u8],
        form: PlacedForm,
        value: &'a [u8],
        expire_at: Option<u64>,
        replaced: bool,
        origin: Origin,
    },
    /// A collection changed, or was made; one that is empty then is deleted by an effect of its own.
    Change { db: u32, key: &'a [u8], event: Event, change: Change<'a> },
    /// The key is in another database.
    Move { db: u32, key: &'a [u8], to_db: u32 },
    /// A database is empty.
    FlushDb { db: u32 },
    /// All databases are empty.
    FlushAll,
    /// Two databases changed places.
    SwapDb { a: u32, b: u32 },
    /// A note beside the effects: the key did not exist before the effect that follows.
    Created { db: u32, key: &'a [u8] },
    /// A note beside the effects: a read found no such key.
    Missed { db: u32, key: &'a [u8] },
}

impl<'a> Effect<'a> {
    /// The keys that it changes, with their databases; none of a database as a whole, nor of a note.
    pub fn keys(&self) -> impl Iterator<Item = (usize, &'a [u8])> + use<'a> {
        let (first, second) = match *self {
            Effect::Set { db, key, .. }
            | Effect::IncrBy { db, key, .. }
            | Effect::IncrByFloat { db, key, .. }
            | Effect::Append { db, key, .. }
            | Effect::SetRange { db, key, .. }
            | Effect::SetBit { db, key, .. }
            | Effect::BitField { db, key, .. }
            | Effect::HyperLogLogRaise { db, key, .. }
            | Effect::HyperLogLogCount { db, key, .. }
            | Effect::HyperLogLogRewrite { db, key, .. }
            | Effect::Expire { db, key, .. }
            | Effect::Persist { db, key }
            | Effect::Place { db, key, .. }
            | Effect::Change { db, key, .. }
            | Effect::Delete { db, key, .. } => (Some((db, key)), None),
            Effect::Rename { db, from, to, .. } => (Some((db, from)), Some((db, to))),
            Effect::Copy { to_db, to, .. } => (Some((to_db, to)), None),
            Effect::Move { db, key, to_db } => (Some((db, key)), Some((to_db, key))),
            Effect::FlushDb { .. }
            | Effect::FlushAll
            | Effect::SwapDb { .. }
            | Effect::Created { .. }
            | Effect::Missed { .. } => (None, None),
        };
        first.into_iter().chain(second).map(|(db, key)| (db as usize, key))
    }

    /// Whether it is one to those who watch or track its keys. As in Redis, what the groups of a
    /// stream do is none, nor is XSETID, nor a HyperLogLog that only takes its other form.
    pub fn is_watched(&self) -> bool {
        match self {
            Effect::Change { change: Change::Stream(change), .. } => change.is_of_contents(),
            Effect::HyperLogLogRewrite { added, .. } => *added,
            _ => true,
        }
    }

    /// Appends the log form; see `codec.rs`.
    pub fn encode(&self, log: &mut Vec<u8>) {
        codec::encode(self, log);
    }

    /// Reads one effect and gives the bytes after it.
    ///
    /// # Errors
    /// The bytes do not start with an effect.
    pub fn decode(log: &'a [u8]) -> Result<(Effect<'a>, &'a [u8]), Corrupt> {
        codec::decode(log)
    }
}

/// Where mutations report.
#[derive(Default)]
pub(crate) struct Effects {
    /// Effects so far.
    pub(crate) dirty: u64,
    /// Somebody drains the log.
    pub(crate) listening: bool,
    /// Somebody wants notes as well.
    pub(crate) noting: bool,
    /// Encoded effects, not yet drained.
    pub(crate) log: Vec<u8>,
}

impl Effects {
    /// The one place where every mutation ends.
    #[inline]
    pub(crate) fn report(&mut self, effect: &Effect<'_>) {
        self.dirty += 1;
        if self.listening {
            effect.encode(&mut self.log);
        }
    }

    /// Writes down what is no change of its own.
    #[cold]
    pub(crate) fn note(&mut self, effect: &Effect<'_>) {
        if self.listening {
            effect.encode(&mut self.log);
        }
    }
}
