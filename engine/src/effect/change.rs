//! What changed in a collection, and the name of what did it.

use super::StreamChange;
use super::codec::{Reader, Writer};
use crate::block::ValueType;
use crate::error::Corrupt;

/// Byte strings one after another, as an effect carries them.
///
/// ```text
/// length varint | bytes, again and again
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strings<'a>(pub(super) &'a [u8]);

impl<'a> Strings<'a> {
    /// Strings that [`Strings::push`] wrote one after another.
    pub(crate) fn new(bytes: &'a [u8]) -> Strings<'a> {
        Strings(bytes)
    }

    /// Appends a string.
    pub(crate) fn push(out: &mut Vec<u8>, string: &[u8]) {
        Writer(out).bytes(string);
    }

    /// Reads what may be strings.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Strings<'a>, Corrupt> {
        let mut reader = Reader(bytes);
        while !reader.0.is_empty() {
            reader.bytes()?;
        }
        Ok(Strings(bytes))
    }

    /// How many; walks over them.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The strings.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let mut reader = Reader(self.0);
        std::iter::from_fn(move || reader.bytes().ok())
    }
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The left end, where index 0 is.
    Head,
    /// The right end.
    Tail,
}

/// What changed in a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Fields have these values now: field, value, field, value and so on. Their times go, unless
    /// `keeps_times`.
    HashSet {
        /// Fields and values in turn.
        pairs: Strings<'a>,
        /// Fields that were there keep their times.
        keeps_times: bool,
    },
    /// Members are there now.
    SetAdd {
        /// The members.
        members: Strings<'a>,
    },
    /// Members have these scores now: score, member, score, member and so on; a score is the eight
    /// bytes of an f64, little endian.
    SortedSetAdd {
        /// Scores and members in turn.
        pairs: Strings<'a>,
    },
    /// Members, or fields, are gone; the event tells the type.
    Remove {
        /// The members.
        members: Strings<'a>,
    },
    /// Members, or fields, have this time now, or none; the event tells the type.
    Expire {
        /// The members.
        members: Strings<'a>,
        /// Milliseconds since 1970.
        at_ms: Option<u64>,
    },
    /// Elements were added at an end, one after another.
    ListPush {
        /// Where.
        end: End,
        /// The elements in the order in which they were added.
        elements: Strings<'a>,
    },
    /// Elements were taken from an end.
    ListPop {
        /// Where.
        end: End,
        /// How many.
        count: u64,
    },
    /// The element at an index is another one.
    ListSet {
        /// Counted from the head.
        index: u64,
        /// One element.
        element: &'a [u8],
    },
    /// An element stands at an index, before the one that was there.
    ListInsert {
        /// Counted from the head.
        index: u64,
        /// One element.
        element: &'a [u8],
    },
    /// Elements equal to one are gone.
    ListRemove {
        /// How many at most: from the head on, from the tail on if negative, all if 0.
        count: i64,
        /// One element.
        element: &'a [u8],
    },
    /// Only the elements from `start` on, `count` of them, are left.
    ListKeep {
        /// Counted from the head.
        start: u64,
        /// How many are left, at least one.
        count: u64,
    },
    /// A stream changed.
    Stream(StreamChange<'a>),
}

const HASH_SET: u8 = 1;
const SET_ADD: u8 = 2;
const SORTED_SET_ADD: u8 = 3;
const REMOVE: u8 = 4;
const EXPIRE: u8 = 5;
const LIST_PUSH: u8 = 6;
const LIST_POP: u8 = 7;
const LIST_SET: u8 = 8;
const LIST_INSERT: u8 = 9;
const LIST_REMOVE: u8 = 10;
const LIST_KEEP: u8 = 11;
const STREAM: u8 = 12;

impl<'a> Change<'a> {
    pub(super) fn encode<'w>(&self, w: Writer<'w>) -> Writer<'w> {
        let end = |end: End| end == End::Tail;
        match *self {
            Change::HashSet { pairs, keeps_times } => {
                w.kind(HASH_SET).bytes(pairs.0).flag(keeps_times)
            }
            Change::SetAdd { members } => w.kind(SET_ADD).bytes(members.0),
            Change::SortedSetAdd { pairs } => w.kind(SORTED_SET_ADD).bytes(pairs.0),
            Change::Remove { members } => w.kind(REMOVE).bytes(members.0),
            Change::Expire { members, at_ms } => w.kind(EXPIRE).bytes(members.0).option(at_ms),
            Change::ListPush { end: at, elements } => {
                w.kind(LIST_PUSH).flag(end(at)).bytes(elements.0)
            }
            Change::ListPop { end: at, count } => w.kind(LIST_POP).flag(end(at)).number(count),
            Change::ListSet { index, element } => w.kind(LIST_SET).number(index).bytes(element),
            Change::ListInsert { index, element } => {
                w.kind(LIST_INSERT).number(index).bytes(element)
            }
            Change::ListRemove { count, element } => {
                w.kind(LIST_REMOVE).signed(count).bytes(element)
            }
            Change::ListKeep { start, count } => w.kind(LIST_KEEP).number(start).number(count),
            Change::Stream(change) => change.encode(w.kind(STREAM)),
        }
    }

    /// Whether an event of collections of this type can have brought it.
    pub(super) fn is_of(&self, value_type: ValueType) -> bool {
        match self {
            Change::HashSet { .. } => value_type == ValueType::Hash,
            Change::SetAdd { .. } => value_type == ValueType::Set,
            Change::SortedSetAdd { .. } => value_type == ValueType::SortedSet,
            Change::Remove { .. } | Change::Expire { .. } => {
                matches!(value_type, ValueType::Hash | ValueType::Set | ValueType::SortedSet)
            }
            Change::ListPush { .. }
            | Change::ListPop { .. }
            | Change::ListSet { .. }
            | Change::ListInsert { .. }
            | Change::ListRemove { .. }
            | Change::ListKeep { .. } => value_type == ValueType::List,
            Change::Stream(_) => value_type == ValueType::Stream,
        }
    }

    pub(super) fn decode(r: &mut Reader<'a>) -> Result<Change<'a>, Corrupt> {
        let end = |tail: bool| if tail { End::Tail } else { End::Head };
        Ok(match r.byte()? {
            HASH_SET => Change::HashSet { pairs: r.pairs()?, keeps_times: r.flag()? },
            SET_ADD => Change::SetAdd { members: r.strings()? },
            SORTED_SET_ADD => {
                let pairs = r.pairs()?;
                let scores = pairs.iter().step_by(2);
                if scores.into_iter().any(|score| !is_score(score)) {
                    return Err(Corrupt);
                }
                Change::SortedSetAdd { pairs }
            }
            REMOVE => Change::Remove { members: r.strings()? },
            EXPIRE => Change::Expire { members: r.strings()?, at_ms: r.option()? },
            LIST_PUSH => Change::ListPush { end: end(r.flag()?), elements: r.strings()? },
            LIST_POP => Change::ListPop { end: end(r.flag()?), count: r.number()? },
            LIST_SET => Change::ListSet { index: r.number()?, element: r.bytes()? },
            LIST_INSERT => Change::ListInsert { index: r.number()?, element: r.bytes()? },
            LIST_REMOVE => Change::ListRemove { count: r.signed()?, element: r.bytes()? },
            LIST_KEEP => Change::ListKeep { start: r.number()?, count: r.number()? },
            STREAM => Change::Stream(StreamChange::decode(r)?),
            _ => return Err(Corrupt),
        })
    }
}

fn is_score(bytes: &[u8]) -> bool {
    <[u8; 8]>::try_from(bytes).is_ok_and(|bytes| !f64::from_le_bytes(bytes).is_nan())
}

macro_rules! events {
    ($($name:ident $word:literal $letter:literal,)*) => {
        /// What a change of a collection is told as to those who subscribe to keyspace events.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "the names are those of Redis's events")]
        pub enum Event { $($name,)* }

        impl Event {
            const ALL: &[Event] = &[$(Event::$name,)*];

            /// The event's name.
            pub fn name(self) -> &'static str {
                match self { $(Event::$name => $word,)* }
            }

            /// The letter of its class in `notify-keyspace-events`; `-` for what nobody is told.
            pub fn class(self) -> u8 {
                match self { $(Event::$name => $letter,)* }
            }

            /// The type of the collections that it is told of.
            pub(crate) fn value_type(self) -> ValueType {
                match self.class() {
                    b'h' => ValueType::Hash,
                    b's' => ValueType::Set,
                    b'z' => ValueType::SortedSet,
                    b'l' => ValueType::List,
                    _ => ValueType::Stream,
                }
            }

            pub(super) fn from_number(number: u8) -> Result<Event, Corrupt> {
                Event::ALL.get(usize::from(number)).copied().ok_or(Corrupt)
            }
        }
    };
}

events! {
    Hset "hset" b'h',
    Hincrby "hincrby" b'h',
    Hincrbyfloat "hincrbyfloat" b'h',
    Hdel "hdel" b'h',
    Hexpire "hexpire" b'h',
    Hexpired "hexpired" b'h',
    Hpersist "hpersist" b'h',
    Sadd "sadd" b's',
    Srem "srem" b's',
    Spop "spop" b's',
    Sexpire "sexpire" b's',
    Sexpired "sexpired" b's',
    Spersist "spersist" b's',
    Sinterstore "sinterstore" b's',
    Sunionstore "sunionstore" b's',
    Sdiffstore "sdiffstore" b's',
    Lpush "lpush" b'l',
    Rpush "rpush" b'l',
    Lpop "lpop" b'l',
    Rpop "rpop" b'l',
    Linsert "linsert" b'l',
    Lset "lset" b'l',
    Lrem "lrem" b'l',
    Ltrim "ltrim" b'l',
    Sortstore "sortstore" b'l',
    Zadd "zadd" b'z',
    Zincr "zincr" b'z',
    Zrem "zrem" b'z',
    Zremrangebyscore "zremrangebyscore" b'z',
    Zremrangebyrank "zremrangebyrank" b'z',
    Zremrangebylex "zremrangebylex" b'z',
    Zpopmin "zpopmin" b'z',
    Zpopmax "zpopmax" b'z',
    Zexpire "zexpire" b'z',
    Zexpired "zexpired" b'z',
    Zpersist "zpersist" b'z',
    Zunionstore "zunionstore" b'z',
    Zinterstore "zinterstore" b'z',
    Zdiffstore "zdiffstore" b'z',
    Zrangestore "zrangestore" b'z',
    Geosearchstore "geosearchstore" b'z',
    Georadiusstore "georadiusstore" b'z',
    Xadd "xadd" b't',
    Xtrim "xtrim" b't',
    Xdel "xdel" b't',
    Xsetid "xsetid" b't',
    XgroupCreate "xgroup-create" b't',
    XgroupSetid "xgroup-setid" b't',
    XgroupDestroy "xgroup-destroy" b't',
    XgroupCreateconsumer "xgroup-createconsumer" b't',
    XgroupDelconsumer "xgroup-delconsumer" b't',
    Xack "xack" b'-',
    Xdeliver "xclaim" b'-',
}
