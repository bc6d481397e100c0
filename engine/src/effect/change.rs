//! What changed in a collection, and the name of what did it.

use super::codec::{Reader, Writer};
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
    /// Fields are gone.
    HashRemove {
        /// The fields.
        fields: Strings<'a>,
    },
    /// Fields have this time now, or none.
    HashExpire {
        /// The fields.
        fields: Strings<'a>,
        /// Milliseconds since 1970.
        at_ms: Option<u64>,
    },
    /// Members are there now.
    SetAdd {
        /// The members.
        members: Strings<'a>,
    },
    /// Members are gone.
    SetRemove {
        /// The members.
        members: Strings<'a>,
    },
    /// Members have this time now, or none.
    SetExpire {
        /// The members.
        members: Strings<'a>,
        /// Milliseconds since 1970.
        at_ms: Option<u64>,
    },
    /// Members have these scores now: score, member, score, member and so on; a score is the eight
    /// bytes of an f64, little endian.
    SortedSetAdd {
        /// Scores and members in turn.
        pairs: Strings<'a>,
    },
    /// Members are gone.
    SortedSetRemove {
        /// The members.
        members: Strings<'a>,
    },
    /// Members have this time now, or none.
    SortedSetExpire {
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
    /// A stream took part in what `command` and its arguments say; the arguments leave nothing to
    /// chance or to the clock.
    Stream {
        /// Name and arguments without the key, as the engine's stream operations define them.
        parts: Strings<'a>,
    },
}

const HASH_SET: u8 = 1;
const HASH_REMOVE: u8 = 2;
const HASH_EXPIRE: u8 = 3;
const SET_ADD: u8 = 4;
const SET_REMOVE: u8 = 5;
const SET_EXPIRE: u8 = 6;
const SORTED_SET_ADD: u8 = 7;
const SORTED_SET_REMOVE: u8 = 8;
const SORTED_SET_EXPIRE: u8 = 9;
const LIST_PUSH: u8 = 10;
const LIST_POP: u8 = 11;
const LIST_SET: u8 = 12;
const LIST_INSERT: u8 = 13;
const LIST_REMOVE: u8 = 14;
const LIST_KEEP: u8 = 15;
const STREAM: u8 = 16;

impl<'a> Change<'a> {
    pub(super) fn encode<'w>(&self, w: Writer<'w>) -> Writer<'w> {
        let end = |end: End| end == End::Tail;
        match *self {
            Change::HashSet { pairs, keeps_times } => {
                w.kind(HASH_SET).bytes(pairs.0).flag(keeps_times)
            }
            Change::HashRemove { fields } => w.kind(HASH_REMOVE).bytes(fields.0),
            Change::HashExpire { fields, at_ms } => {
                w.kind(HASH_EXPIRE).bytes(fields.0).option(at_ms)
            }
            Change::SetAdd { members } => w.kind(SET_ADD).bytes(members.0),
            Change::SetRemove { members } => w.kind(SET_REMOVE).bytes(members.0),
            Change::SetExpire { members, at_ms } => {
                w.kind(SET_EXPIRE).bytes(members.0).option(at_ms)
            }
            Change::SortedSetAdd { pairs } => w.kind(SORTED_SET_ADD).bytes(pairs.0),
            Change::SortedSetRemove { members } => w.kind(SORTED_SET_REMOVE).bytes(members.0),
            Change::SortedSetExpire { members, at_ms } => {
                w.kind(SORTED_SET_EXPIRE).bytes(members.0).option(at_ms)
            }
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
            Change::Stream { parts } => w.kind(STREAM).bytes(parts.0),
        }
    }

    pub(super) fn decode(r: &mut Reader<'a>) -> Result<Change<'a>, Corrupt> {
        let end = |tail: bool| if tail { End::Tail } else { End::Head };
        Ok(match r.byte()? {
            HASH_SET => Change::HashSet { pairs: r.pairs()?, keeps_times: r.flag()? },
            HASH_REMOVE => Change::HashRemove { fields: r.strings()? },
            HASH_EXPIRE => Change::HashExpire { fields: r.strings()?, at_ms: r.option()? },
            SET_ADD => Change::SetAdd { members: r.strings()? },
            SET_REMOVE => Change::SetRemove { members: r.strings()? },
            SET_EXPIRE => Change::SetExpire { members: r.strings()?, at_ms: r.option()? },
            SORTED_SET_ADD => {
                let pairs = r.pairs()?;
                let scores = pairs.iter().step_by(2);
                if scores.into_iter().any(|score| !is_score(score)) {
                    return Err(Corrupt);
                }
                Change::SortedSetAdd { pairs }
            }
            SORTED_SET_REMOVE => Change::SortedSetRemove { members: r.strings()? },
            SORTED_SET_EXPIRE => {
                Change::SortedSetExpire { members: r.strings()?, at_ms: r.option()? }
            }
            LIST_PUSH => Change::ListPush { end: end(r.flag()?), elements: r.strings()? },
            LIST_POP => Change::ListPop { end: end(r.flag()?), count: r.number()? },
            LIST_SET => Change::ListSet { index: r.number()?, element: r.bytes()? },
            LIST_INSERT => Change::ListInsert { index: r.number()?, element: r.bytes()? },
            LIST_REMOVE => Change::ListRemove { count: r.signed()?, element: r.bytes()? },
            LIST_KEEP => Change::ListKeep { start: r.number()?, count: r.number()? },
            STREAM => Change::Stream { parts: r.strings()? },
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

            /// The letter of its class in `notify-keyspace-events`.
            pub fn class(self) -> u8 {
                match self { $(Event::$name => $letter,)* }
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
}
