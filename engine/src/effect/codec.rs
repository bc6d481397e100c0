//! The log form of effects.
//!
//! ```text
//! effect   kind u8 | fields in the order of the variant
//! db, length, offset, time   varint: 7 bits a byte, low first, at most 10 bytes
//! delta    varint of the zigzag form
//! bytes    length varint | bytes
//! option   u8: 0 none, 1 some, then the field
//! flag     u8: 0 or 1
//! ```
//!
//! Foreign bytes answer [`Corrupt`]; nothing is reserved before a length was checked against what
//! is there.

use super::{Change, DeleteCause, Effect, Event, Origin, PlacedForm, Strings};
use crate::block::Form;
use crate::collection;
use crate::error::Corrupt;
use encodings::hyperloglog::{self, Register};

const SET: u8 = 1;
const INCR_BY: u8 = 2;
const INCR_BY_FLOAT: u8 = 3;
const APPEND: u8 = 4;
const SET_RANGE: u8 = 5;
const SET_BIT: u8 = 6;
const BIT_FIELD: u8 = 7;
const EXPIRE: u8 = 8;
const PERSIST: u8 = 9;
const DELETE: u8 = 10;
const RENAME: u8 = 11;
const COPY: u8 = 12;
const MOVE: u8 = 13;
const FLUSH_DB: u8 = 14;
const FLUSH_ALL: u8 = 15;
const SWAP_DB: u8 = 16;
const PLACE: u8 = 17;
const CREATED: u8 = 18;
const MISSED: u8 = 19;
const CHANGE: u8 = 20;
const HYPERLOGLOG_RAISE: u8 = 21;
const HYPERLOGLOG_COUNT: u8 = 22;
const HYPERLOGLOG_REWRITE: u8 = 23;

pub(super) struct Writer<'w>(pub(super) &'w mut Vec<u8>);

impl Writer<'_> {
    pub(super) fn kind(self, kind: u8) -> Self {
        self.0.push(kind);
        self
    }

    pub(super) fn number(self, mut value: u64) -> Self {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    pub(super) fn signed(self, value: i64) -> Self {
        self.number((value << 1 ^ value >> 63).cast_unsigned())
    }

    fn db(self, db: u32) -> Self {
        self.number(u64::from(db))
    }

    pub(super) fn bytes(self, bytes: &[u8]) -> Self {
        let this = self.number(bytes.len() as u64);
        this.0.extend_from_slice(bytes);
        this
    }

    pub(super) fn flag(self, flag: bool) -> Self {
        self.0.push(u8::from(flag));
        self
    }

    pub(super) fn option(self, value: Option<u64>) -> Self {
        let this = self.flag(value.is_some());
        match value {
            Some(value) => this.number(value),
            None => this,
        }
    }
}

pub(super) fn encode(effect: &Effect<'_>, log: &mut Vec<u8>) {
    let writer = Writer(log);
    match *effect {
        Effect::Set { db, key, value, expire_at, existed, keeps_expire } => {
            let writer = writer.kind(SET).db(db).bytes(key).bytes(value).option(expire_at);
            writer.flag(existed).flag(keeps_expire)
        }
        Effect::IncrBy { db, key, delta } => writer.kind(INCR_BY).db(db).bytes(key).signed(delta),
        Effect::IncrByFloat { db, key, text } => {
            writer.kind(INCR_BY_FLOAT).db(db).bytes(key).bytes(text)
        }
        Effect::Append { db, key, bytes } => writer.kind(APPEND).db(db).bytes(key).bytes(bytes),
        Effect::SetRange { db, key, offset, bytes } => {
            writer.kind(SET_RANGE).db(db).bytes(key).number(offset).bytes(bytes)
        }
        Effect::SetBit { db, key, offset, on } => {
            writer.kind(SET_BIT).db(db).bytes(key).number(offset).flag(on)
        }
        Effect::BitField { db, key, offset, bytes } => {
            writer.kind(BIT_FIELD).db(db).bytes(key).number(offset).bytes(bytes)
        }
        Effect::HyperLogLogRaise { db, key, registers, sparse_len_max } => {
            let writer = writer.kind(HYPERLOGLOG_RAISE).db(db).bytes(key);
            writer.bytes(registers).number(sparse_len_max)
        }
        Effect::HyperLogLogCount { db, key, count } => {
            writer.kind(HYPERLOGLOG_COUNT).db(db).bytes(key).number(count)
        }
        Effect::HyperLogLogRewrite { db, key, value, added } => {
            writer.kind(HYPERLOGLOG_REWRITE).db(db).bytes(key).bytes(value).flag(added)
        }
        Effect::Expire { db, key, at_ms } => writer.kind(EXPIRE).db(db).bytes(key).number(at_ms),
        Effect::Persist { db, key } => writer.kind(PERSIST).db(db).bytes(key),
        Effect::Delete { db, key, cause } => {
            writer.kind(DELETE).db(db).bytes(key).number(u64::from(cause as u8))
        }
        Effect::Rename { db, from, to, replaced } => {
            writer.kind(RENAME).db(db).bytes(from).bytes(to).flag(replaced)
        }
        Effect::Copy { db, from, to_db, to, replaced } => {
            writer.kind(COPY).db(db).bytes(from).db(to_db).bytes(to).flag(replaced)
        }
        Effect::Move { db, key, to_db } => writer.kind(MOVE).db(db).bytes(key).db(to_db),
        Effect::FlushDb { db } => writer.kind(FLUSH_DB).db(db),
        Effect::FlushAll => writer.kind(FLUSH_ALL),
        Effect::SwapDb { a, b } => writer.kind(SWAP_DB).db(a).db(b),
        Effect::Place { db, key, form, value, expire_at, replaced, origin } => {
            let writer = writer.kind(PLACE).db(db).bytes(key).kind(form.0.bits()).bytes(value);
            let writer = writer.option(expire_at).flag(replaced);
            match origin {
                Origin::Rename => writer.kind(0),
                Origin::Copy => writer.kind(1),
                Origin::Restore => writer.kind(2),
                Origin::Command(event) => writer.kind(3).kind(event as u8),
            }
        }
        Effect::Change { db, key, event, change } => {
            change.encode(writer.kind(CHANGE).db(db).bytes(key).kind(event as u8))
        }
        Effect::Created { db, key } => writer.kind(CREATED).db(db).bytes(key),
        Effect::Missed { db, key } => writer.kind(MISSED).db(db).bytes(key),
    };
}

#[derive(Clone)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn byte(&mut self) -> Result<u8, Corrupt> {
        let (&byte, rest) = self.0.split_first().ok_or(Corrupt)?;
        self.0 = rest;
        Ok(byte)
    }

    pub(super) fn number(&mut self) -> Result<u64, Corrupt> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Corrupt);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Corrupt)
    }

    fn db(&mut self) -> Result<u32, Corrupt> {
        u32::try_from(self.number()?).map_err(|_| Corrupt)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Corrupt> {
        let len = usize::try_from(self.number()?).map_err(|_| Corrupt)?;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Corrupt)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn flag(&mut self) -> Result<bool, Corrupt> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Corrupt),
        }
    }

    pub(super) fn option(&mut self) -> Result<Option<u64>, Corrupt> {
        self.flag()?.then(|| self.number()).transpose()
    }

    pub(super) fn strings(&mut self) -> Result<Strings<'a>, Corrupt> {
        Strings::read(self.bytes()?)
    }

    pub(super) fn pairs(&mut self) -> Result<Strings<'a>, Corrupt> {
        self.strings().and_then(|pairs| if pairs.len() % 2 == 0 { Ok(pairs) } else { Err(Corrupt) })
    }

    pub(super) fn signed(&mut self) -> Result<i64, Corrupt> {
        let zigzag = self.number()?;
        Ok((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
    }

    fn cause(&mut self) -> Result<DeleteCause, Corrupt> {
        Ok(match self.byte()? {
            0 => DeleteCause::Command,
            1 => DeleteCause::Expired,
            2 => DeleteCause::Evicted,
            3 => DeleteCause::Moved,
            4 => DeleteCause::Renamed,
            _ => return Err(Corrupt),
        })
    }

    fn origin(&mut self) -> Result<Origin, Corrupt> {
        Ok(match self.byte()? {
            0 => Origin::Rename,
            1 => Origin::Copy,
            2 => Origin::Restore,
            3 => Origin::Command(Event::from_number(self.byte()?)?),
            _ => return Err(Corrupt),
        })
    }
}

pub(super) fn decode(log: &[u8]) -> Result<(Effect<'_>, &[u8]), Corrupt> {
    let mut r = Reader(log);
    let effect = match r.byte()? {
        SET => Effect::Set {
            db: r.db()?,
            key: r.bytes()?,
            value: r.bytes()?,
            expire_at: r.option()?,
            existed: r.flag()?,
            keeps_expire: r.flag()?,
        },
        INCR_BY => Effect::IncrBy { db: r.db()?, key: r.bytes()?, delta: r.signed()? },
        INCR_BY_FLOAT => Effect::IncrByFloat { db: r.db()?, key: r.bytes()?, text: r.bytes()? },
        APPEND => Effect::Append { db: r.db()?, key: r.bytes()?, bytes: r.bytes()? },
        SET_RANGE => {
            let (db, key) = (r.db()?, r.bytes()?);
            Effect::SetRange { db, key, offset: r.number()?, bytes: r.bytes()? }
        }
        SET_BIT => {
            let (db, key) = (r.db()?, r.bytes()?);
            Effect::SetBit { db, key, offset: r.number()?, on: r.flag()? }
        }
        BIT_FIELD => {
            let (db, key) = (r.db()?, r.bytes()?);
            Effect::BitField { db, key, offset: r.number()?, bytes: r.bytes()? }
        }
        HYPERLOGLOG_RAISE => {
            let (db, key, registers) = (r.db()?, r.bytes()?, r.bytes()?);
            if registers.len() % Register::LEN != 0 {
                return Err(Corrupt);
            }
            Effect::HyperLogLogRaise { db, key, registers, sparse_len_max: r.number()? }
        }
        HYPERLOGLOG_COUNT => {
            Effect::HyperLogLogCount { db: r.db()?, key: r.bytes()?, count: r.number()? }
        }
        HYPERLOGLOG_REWRITE => {
            let (db, key, value) = (r.db()?, r.bytes()?, r.bytes()?);
            hyperloglog::encoding(value).ok_or(Corrupt)?;
            Effect::HyperLogLogRewrite { db, key, value, added: r.flag()? }
        }
        EXPIRE => Effect::Expire { db: r.db()?, key: r.bytes()?, at_ms: r.number()? },
        PERSIST => Effect::Persist { db: r.db()?, key: r.bytes()? },
        DELETE => Effect::Delete { db: r.db()?, key: r.bytes()?, cause: r.cause()? },
        RENAME => {
            let (db, from) = (r.db()?, r.bytes()?);
            Effect::Rename { db, from, to: r.bytes()?, replaced: r.flag()? }
        }
        COPY => {
            let (db, from) = (r.db()?, r.bytes()?);
            Effect::Copy { db, from, to_db: r.db()?, to: r.bytes()?, replaced: r.flag()? }
        }
        MOVE => Effect::Move { db: r.db()?, key: r.bytes()?, to_db: r.db()? },
        FLUSH_DB => Effect::FlushDb { db: r.db()? },
        FLUSH_ALL => Effect::FlushAll,
        SWAP_DB => Effect::SwapDb { a: r.db()?, b: r.db()? },
        PLACE => {
            let (db, key) = (r.db()?, r.bytes()?);
            let form = Form::from_bits(r.byte()?).ok_or(Corrupt)?;
            let value = r.bytes()?;
            collection::validate(form, value)?;
            let (expire_at, replaced, origin) = (r.option()?, r.flag()?, r.origin()?);
            let form = PlacedForm(form);
            Effect::Place { db, key, form, value, expire_at, replaced, origin }
        }
        CHANGE => {
            let (db, key) = (r.db()?, r.bytes()?);
            let event = Event::from_number(r.byte()?)?;
            let change = Change::decode(&mut r)?;
            if !change.is_of(event.value_type()) {
                return Err(Corrupt);
            }
            Effect::Change { db, key, event, change }
        }
        CREATED => Effect::Created { db: r.db()?, key: r.bytes()? },
        MISSED => Effect::Missed { db: r.db()?, key: r.bytes()? },
        _ => return Err(Corrupt),
    };
    Ok((effect, r.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::{Deliveries, End, Ids, StreamChange};
    use crate::testing::Rng;
    use encodings::stream::StreamId;

    fn samples() -> Vec<Effect<'static>> {
        let (key, bytes) = (&b"key"[..], &b"\x00\xffvalue"[..]);
        let strings = Strings::new(b"\x01a\x00");
        let change = |event, change| Effect::Change { db: 3, key, event, change };
        let stream = |event, stream| change(event, Change::Stream(stream));
        let (id, ids) = (StreamId::new(7, 1 << 60), Ids::new(&[5; 32]));
        vec![
            Effect::Set {
                db: 0,
                key,
                value: bytes,
                expire_at: Some(u64::MAX),
                existed: true,
                keeps_expire: false,
            },
            Effect::Set {
                db: 15,
                key: b"",
                value: b"",
                expire_at: None,
                existed: false,
                keeps_expire: true,
            },
            Effect::IncrBy { db: 1, key, delta: i64::MIN },
            Effect::IncrBy { db: 1, key, delta: i64::MAX },
            Effect::IncrByFloat { db: 1, key, text: b"3.5" },
            Effect::Append { db: 300, key, bytes },
            Effect::SetRange { db: 2, key, offset: 1 << 40, bytes },
            Effect::SetBit { db: 2, key, offset: 7, on: true },
            Effect::BitField { db: 2, key, offset: 7, bytes },
            Effect::HyperLogLogRaise {
                db: 2,
                key,
                registers: &[1, 2, 3, 255, 63, 51],
                sparse_len_max: 3000,
            },
            Effect::HyperLogLogCount { db: 2, key, count: 1 << 62 },
            Effect::HyperLogLogRewrite { db: 2, key, value: &hyperloglog::EMPTY, added: true },
            Effect::Expire { db: 3, key, at_ms: 1_764_550_000_000 },
            Effect::Persist { db: 3, key },
            Effect::Delete { db: 4, key, cause: DeleteCause::Evicted },
            Effect::Rename { db: 4, from: key, to: b"other", replaced: true },
            Effect::Copy { db: 4, from: key, to_db: 5, to: b"other", replaced: false },
            Effect::Move { db: 4, key, to_db: 9 },
            Effect::FlushDb { db: 3 },
            Effect::FlushAll,
            Effect::SwapDb { a: 0, b: u32::MAX },
            Effect::Place {
                db: 1,
                key,
                form: PlacedForm(Form::string(crate::block::Encoding::Raw)),
                value: bytes,
                expire_at: Some(9),
                replaced: false,
                origin: Origin::Copy,
            },
            Effect::Created { db: 1, key },
            Effect::Missed { db: 1, key },
            change(Event::Hset, Change::HashSet { pairs: strings, keeps_times: true }),
            change(Event::Hexpire, Change::Expire { members: strings, at_ms: Some(3) }),
            change(Event::Srem, Change::Remove { members: strings }),
            change(Event::Lpop, Change::ListPop { end: End::Tail, count: 1 << 40 }),
            change(Event::Lrem, Change::ListRemove { count: -3, element: bytes }),
            change(Event::Ltrim, Change::ListKeep { start: 3, count: 9 }),
            stream(Event::Xdel, StreamChange::Delete { ids, forget: true }),
            stream(Event::Xtrim, StreamChange::TrimUpTo { id, forget: false }),
            stream(Event::Xtrim, StreamChange::Trim { ids }),
            stream(
                Event::Xsetid,
                StreamChange::SetId {
                    last_id: id,
                    entries_added: 1 << 50,
                    max_deleted_id: StreamId::MIN,
                },
            ),
            stream(
                Event::XgroupCreate,
                StreamChange::GroupCreate {
                    group: key,
                    last_id: id,
                    entries_read: None,
                    makes_stream: true,
                },
            ),
            stream(
                Event::XgroupSetid,
                StreamChange::GroupSetId { group: key, last_id: id, entries_read: Some(3) },
            ),
            stream(Event::XgroupDestroy, StreamChange::GroupDestroy { group: key }),
            stream(
                Event::XgroupCreateconsumer,
                StreamChange::ConsumerCreate { group: key, consumer: bytes, seen_ms: 1 },
            ),
            stream(
                Event::XgroupDelconsumer,
                StreamChange::ConsumerDelete { group: key, consumer: bytes },
            ),
            stream(
                Event::Xdeliver,
                StreamChange::Deliver {
                    group: key,
                    consumer: bytes,
                    entries: Deliveries::new(&[7; 64]),
                    last_id: id,
                    entries_read: Some(9),
                    seen_ms: 10,
                    is_active: true,
                },
            ),
            stream(Event::Xack, StreamChange::Ack { group: key, ids }),
            stream(Event::Xadd, StreamChange::Add { id, pairs: Strings::new(b"\x01a\x00") }),
        ]
    }

    #[test]
    fn effects_come_back_from_a_log() {
        let mut log = Vec::new();
        samples().iter().for_each(|effect| effect.encode(&mut log));
        let mut rest = &log[..];
        for expected in samples() {
            let (effect, after) = Effect::decode(rest).unwrap();
            assert_eq!(effect, expected);
            rest = after;
        }
        assert!(rest.is_empty());
        assert_eq!(Effect::decode(rest), Err(Corrupt));
    }

    #[test]
    fn cut_logs_are_refused() {
        for effect in samples() {
            let mut log = Vec::new();
            effect.encode(&mut log);
            for len in 0..log.len() {
                assert_eq!(Effect::decode(&log[..len]), Err(Corrupt), "{effect:?} cut at {len}");
            }
        }
    }

    #[test]
    fn foreign_bytes_never_panic() {
        let mut rng = Rng::new(1);
        for _ in 0..if cfg!(miri) { 200 } else { 100_000 } {
            let bytes: Vec<u8> = (0..rng.below(40)).map(|_| rng.next() as u8 >> 1).collect();
            if let Ok((effect, rest)) = Effect::decode(&bytes) {
                let mut again = Vec::new();
                effect.encode(&mut again);
                assert_eq!(Effect::decode(&again).unwrap().0, effect);
                assert!(rest.len() < bytes.len());
            }
        }
    }
}
