//! Reading values of every type that is known here, from payloads that may be anything.
//!
//! Counts, duplicates, emptiness and what is left over are checked as Redis checks them.

use std::collections::HashSet;

use super::{
    Dialect, Stream, TYPE_HASH, TYPE_HASH_LISTPACK, TYPE_HASH_LISTPACK_TIMES,
    TYPE_HASH_LISTPACK_TIMES_EARLY, TYPE_HASH_TIMES, TYPE_HASH_TIMES_EARLY, TYPE_HASH_ZIPLIST,
    TYPE_HASH_ZIPMAP, TYPE_LIST, TYPE_LIST_QUICKLIST, TYPE_LIST_QUICKLIST_ZIPLISTS,
    TYPE_LIST_ZIPLIST, TYPE_SET, TYPE_SET_INTSET, TYPE_SET_LISTPACK, TYPE_SORTED_SET,
    TYPE_SORTED_SET_LISTPACK, TYPE_SORTED_SET_TEXT, TYPE_SORTED_SET_ZIPLIST, TYPE_STREAM,
    TYPE_STREAM_2, TYPE_STREAM_3, TYPE_STRING, read_len, read_stream, read_string, take,
};
use crate::intset::{self, Intset};
use crate::{Corrupt, double, listpack, ziplist, zipmap};

/// A field, its value, and when it is due, in milliseconds since 1970.
pub type Field = (Vec<u8>, Vec<u8>, Option<u64>);

/// The latest time of a field.
const TIME_MAX_MS: u64 = (1 << 48) - 2;

/// Why bytes are no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// They do not follow their format.
    Corrupt,
    /// A member or field is there twice.
    DuplicateElement,
    /// A consumer of a group is there twice.
    DuplicateConsumer,
}

impl From<Corrupt> for Refused {
    fn from(_: Corrupt) -> Self {
        Self::Corrupt
    }
}

/// A value that was read.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string.
    String(Vec<u8>),
    /// The elements of a list, at least one.
    List(Vec<Vec<u8>>),
    /// The members of a set, at least one, each once.
    Set(Vec<Vec<u8>>),
    /// Those of a set that was packed as a listpack, which may be integers, all of them.
    ListpackSet(Vec<Vec<u8>>),
    /// The fields of a hash, at least one, each once.
    Hash(Vec<Field>),
    /// The members of a sorted set with their scores, none of which is NaN, in any order; at least one,
    /// each once.
    SortedSet(Vec<(f64, Vec<u8>)>),
    /// A stream.
    Stream(Stream),
}

/// Reads type and value; nothing may be left over.
///
/// # Errors
/// The bytes are no value of a known type.
pub fn read_value(body: &[u8], dialect: Dialect) -> Result<Value, Refused> {
    let (&value_type, mut input) = body.split_first().ok_or(Corrupt)?;
    let input = &mut input;
    let value = match value_type {
        TYPE_STRING => Value::String(read_string(input)?),
        TYPE_LIST => Value::List(read_strings(input)?),
        TYPE_LIST_ZIPLIST => Value::List(ziplist::read(&read_string(input)?)?),
        TYPE_LIST_QUICKLIST_ZIPLISTS => Value::List(read_ziplists(input)?),
        TYPE_LIST_QUICKLIST => Value::List(read_quicklist(input)?),
        TYPE_SET => Value::Set(read_strings(input)?),
        TYPE_SET_INTSET => {
            let bytes = intset::from_redis(&read_string(input)?)?;
            let text = |value: i64| value.to_string().into_bytes();
            Value::Set(Intset::new(&bytes).iter().map(text).collect())
        }
        TYPE_SET_LISTPACK => Value::ListpackSet(read_listpack(input)?),
        TYPE_HASH => Value::Hash(read_pairs(input)?),
        TYPE_HASH_ZIPMAP => Value::Hash(fields_of(&zipmap::read(&read_string(input)?)?)?),
        TYPE_HASH_ZIPLIST => Value::Hash(fields_of(&ziplist::read(&read_string(input)?)?)?),
        TYPE_HASH_LISTPACK => Value::Hash(fields_of(&read_listpack(input)?)?),
        TYPE_HASH_TIMES => Value::Hash(read_timed_pairs(input)?),
        TYPE_HASH_TIMES_EARLY => Value::Hash(read_early_pairs(input, dialect)?),
        TYPE_SORTED_SET | TYPE_SORTED_SET_TEXT => {
            Value::SortedSet(read_scored(input, value_type == TYPE_SORTED_SET)?)
        }
        TYPE_SORTED_SET_ZIPLIST => Value::SortedSet(scored(&ziplist::read(&read_string(input)?)?)?),
        TYPE_SORTED_SET_LISTPACK => Value::SortedSet(scored(&read_listpack(input)?)?),
        TYPE_HASH_LISTPACK_TIMES | TYPE_HASH_LISTPACK_TIMES_EARLY if dialect == Dialect::Redis => {
            if value_type == TYPE_HASH_LISTPACK_TIMES {
                take(input, 8)?;
            }
            let fields = timed_fields(&read_listpack(input)?)?;
            if !fields.is_sorted_by_key(|(.., time)| time.unwrap_or(u64::MAX)) {
                return Err(Refused::Corrupt);
            }
            Value::Hash(fields)
        }
        TYPE_STREAM | TYPE_STREAM_2 | TYPE_STREAM_3 => {
            Value::Stream(read_stream(value_type, input)?)
        }
        _ => return Err(Refused::Corrupt),
    };
    let (is_sound, is_unique) = match &value {
        Value::String(_) | Value::Stream(_) => (true, true),
        Value::List(elements) => (!elements.is_empty(), true),
        Value::Set(members) | Value::ListpackSet(members) => {
            (!members.is_empty(), are_unique(members.iter()))
        }
        Value::Hash(fields) => {
            let in_range = |time: Option<u64>| time.is_none_or(|time| time <= TIME_MAX_MS);
            let is_sound = !fields.is_empty() && fields.iter().all(|(.., time)| in_range(*time));
            (is_sound, are_unique(fields.iter().map(|(field, ..)| field)))
        }
        Value::SortedSet(members) => {
            (!members.is_empty(), are_unique(members.iter().map(|(_, member)| member)))
        }
    };
    match (is_sound && input.is_empty(), is_unique) {
        (true, true) => Ok(value),
        (true, false) => Err(Refused::DuplicateElement),
        (false, _) => Err(Refused::Corrupt),
    }
}

pub(super) fn are_unique<'a>(mut names: impl Iterator<Item = &'a Vec<u8>>) -> bool {
    let mut seen = HashSet::new();
    names.all(|name| seen.insert(name))
}

/// A number of strings, then these. Each takes a byte at least, so the input bounds what is reserved.
fn read_strings(input: &mut &[u8]) -> Result<Vec<Vec<u8>>, Corrupt> {
    let count = read_len(input)?;
    if count > input.len() as u64 {
        return Err(Corrupt);
    }
    (0..count).map(|_| read_string(input)).collect()
}

fn read_pairs(input: &mut &[u8]) -> Result<Vec<Field>, Corrupt> {
    let count = read_len(input)?;
    if count > input.len() as u64 {
        return Err(Corrupt);
    }
    (0..count).map(|_| Ok((read_string(input)?, read_string(input)?, None))).collect()
}

fn read_timed_pairs(input: &mut &[u8]) -> Result<Vec<Field>, Corrupt> {
    let earliest = take(input, 8)?.try_into().expect("eight bytes");
    let earliest = u64::from_le_bytes(earliest);
    let count = read_len(input)?;
    if count > input.len() as u64 {
        return Err(Corrupt);
    }
    (0..count)
        .map(|_| {
            let time = match read_len(input)? {
                0 => None,
                distance => Some(earliest.checked_add(distance - 1).ok_or(Corrupt)?),
            };
            Ok((read_string(input)?, read_string(input)?, time))
        })
        .collect()
}

fn read_early_pairs(input: &mut &[u8], dialect: Dialect) -> Result<Vec<Field>, Corrupt> {
    let count = read_len(input)?;
    if count > input.len() as u64 {
        return Err(Corrupt);
    }
    let read_time = |input: &mut &[u8]| {
        let bytes = take(input, 8)?.try_into().expect("eight bytes");
        Ok(i64::from_le_bytes(bytes))
    };
    (0..count)
        .map(|_| match dialect {
            Dialect::Redis => {
                let time = read_time(input)?;
                Ok((read_string(input)?, read_string(input)?, due(time, 0)?))
            }
            Dialect::Valkey => {
                let (field, value) = (read_string(input)?, read_string(input)?);
                Ok((field, value, due(read_time(input)?, -1)?))
            }
        })
        .collect()
}

/// A time in milliseconds since 1970, `none` if there is none.
fn due(time: i64, none: i64) -> Result<Option<u64>, Corrupt> {
    if time == none {
        return Ok(None);
    }
    u64::try_from(time).map(Some).map_err(|_| Corrupt)
}

/// Members and scores, as f64 or as texts.
fn read_scored(input: &mut &[u8], binary: bool) -> Result<Vec<(f64, Vec<u8>)>, Corrupt> {
    let count = read_len(input)?;
    if count > input.len() as u64 {
        return Err(Corrupt);
    }
    (0..count)
        .map(|_| {
            let member = read_string(input)?;
            let score = if binary { read_f64(input)? } else { read_score_text(input)? };
            if score.is_nan() { Err(Corrupt) } else { Ok((score, member)) }
        })
        .collect()
}

fn read_f64(input: &mut &[u8]) -> Result<f64, Corrupt> {
    let bytes = take(input, 8)?.try_into().expect("eight bytes");
    Ok(f64::from_le_bytes(bytes))
}

fn read_score_text(input: &mut &[u8]) -> Result<f64, Corrupt> {
    match take(input, 1)?[0] {
        253 => Ok(f64::NAN),
        254 => Ok(f64::INFINITY),
        255 => Ok(f64::NEG_INFINITY),
        len => double::parse(take(input, u64::from(len))?).ok_or(Corrupt),
    }
}

/// Members and scores in turn.
fn scored(elements: &[Vec<u8>]) -> Result<Vec<(f64, Vec<u8>)>, Corrupt> {
    group(elements, |[member, score]| Ok((double::parse(&score).ok_or(Corrupt)?, member)))
}

/// Fields and values in turn.
fn fields_of(elements: &[Vec<u8>]) -> Result<Vec<Field>, Corrupt> {
    group(elements, |[field, value]| Ok((field, value, None)))
}

/// The elements of a listpack in a string.
fn read_listpack(input: &mut &[u8]) -> Result<Vec<Vec<u8>>, Corrupt> {
    let bytes = read_string(input)?;
    let (list, _) = listpack::from_redis(&bytes)?;
    Ok(list.iter().map(|(_, element)| element.to_vec()).collect())
}

fn read_quicklist(input: &mut &[u8]) -> Result<Vec<Vec<u8>>, Corrupt> {
    const PLAIN: u64 = 1;
    const PACKED: u64 = 2;
    let nodes = read_len(input)?;
    if nodes > input.len() as u64 {
        return Err(Corrupt);
    }
    let mut elements = Vec::new();
    for _ in 0..nodes {
        match read_len(input)? {
            PLAIN => {
                let element = read_string(input)?;
                // Whoever writes an empty one writes it packed.
                if element.is_empty() {
                    return Err(Corrupt);
                }
                elements.push(element);
            }
            PACKED => elements.append(&mut read_listpack(input)?),
            _ => return Err(Corrupt),
        }
    }
    Ok(elements)
}

fn read_ziplists(input: &mut &[u8]) -> Result<Vec<Vec<u8>>, Corrupt> {
    let nodes = read_len(input)?;
    if nodes > input.len() as u64 {
        return Err(Corrupt);
    }
    let mut elements = Vec::new();
    for _ in 0..nodes {
        elements.append(&mut ziplist::read(&read_string(input)?)?);
    }
    Ok(elements)
}

/// Fields, values and times in turn.
fn timed_fields(elements: &[Vec<u8>]) -> Result<Vec<Field>, Corrupt> {
    group(elements, |[field, value, time]| {
        let time = crate::integer::parse_u64(&time).ok_or(Corrupt)?;
        Ok((field, value, Some(time).filter(|time| *time > 0)))
    })
}

/// Elements by so many.
fn group<const N: usize, T>(
    elements: &[Vec<u8>],
    make: impl Fn([Vec<u8>; N]) -> Result<T, Corrupt>,
) -> Result<Vec<T>, Corrupt> {
    let (groups, rest) = elements.as_chunks::<N>();
    if !rest.is_empty() {
        return Err(Corrupt);
    }
    groups.iter().map(|group| make(group.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listpack::{Element, to_redis};
    use crate::rdb::{write_len, write_string};

    fn read(body: &[u8]) -> Result<Value, Refused> {
        read_value(body, Dialect::Redis)
    }

    fn strings(value_type: u8, count: u64, strings: &[&[u8]]) -> Vec<u8> {
        let mut body = vec![value_type];
        write_len(&mut body, count);
        strings.iter().for_each(|string| write_string(&mut body, string, false));
        body
    }

    fn packed(value_type: u8, elements: &[&[u8]]) -> Vec<u8> {
        let mut body = vec![value_type];
        let list = to_redis(elements.iter().map(|element| Element::parse(element)));
        write_string(&mut body, &list, true);
        body
    }

    #[test]
    fn values_are_read_in_every_form() {
        let texts: [&[u8]; 4] = [b"a", b"1", b"-77", b""];
        let vec = || texts.iter().map(|text| text.to_vec()).collect::<Vec<_>>();
        assert_eq!(read(&strings(TYPE_LIST, 4, &texts)), Ok(Value::List(vec())));
        assert_eq!(read(&strings(TYPE_SET, 4, &texts)), Ok(Value::Set(vec())));
        assert_eq!(read(&packed(TYPE_SET_LISTPACK, &texts)), Ok(Value::ListpackSet(vec())));
        let fields = vec![(vec()[0].clone(), vec()[1].clone(), None), {
            (vec()[2].clone(), vec()[3].clone(), None)
        }];
        assert_eq!(read(&strings(TYPE_HASH, 2, &texts)), Ok(Value::Hash(fields.clone())));
        assert_eq!(read(&packed(TYPE_HASH_LISTPACK, &texts)), Ok(Value::Hash(fields)));
    }

    #[test]
    fn what_redis_refuses_is_refused() {
        let check = |body: &[u8]| assert!(read(body).is_err(), "{body:?}");
        check(b"");
        check(&[99, 0]);
        check(&strings(TYPE_LIST, 0, &[]));
        let twice = strings(TYPE_SET, 2, &[b"a", b"a"]);
        assert_eq!(read(&twice), Err(Refused::DuplicateElement));
        check(&strings(TYPE_SET, 3, &[b"a", b"b"]));
        check(&strings(TYPE_SET, 1, &[b"a", b"b"]));
        check(&strings(TYPE_HASH, 2, &[b"a", b"1", b"a", b"2"]));
        check(&strings(TYPE_SET, u64::MAX, &[b"a"]));
        check(&packed(TYPE_HASH_LISTPACK, &[b"a"]));
        check(&packed(TYPE_HASH_LISTPACK_TIMES, &[b"a", b"b", b"c"]));
    }

    fn scored_strings(value_type: u8, members: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut body = vec![value_type];
        write_len(&mut body, members.len() as u64);
        for (member, score) in members {
            write_string(&mut body, member, false);
            body.extend_from_slice(score);
        }
        body
    }

    #[test]
    fn sorted_sets_are_read_in_every_form() {
        let expected = || Ok(Value::SortedSet(vec![(1.5, b"a".to_vec()), (-2.0, b"7".to_vec())]));
        let elements: [&[u8]; 4] = [b"a", b"1.5", b"7", b"-2"];
        assert_eq!(read(&packed(TYPE_SORTED_SET_LISTPACK, &elements)), expected());
        let texts: [(&[u8], &[u8]); 2] = [(b"a", b"\x031.5"), (b"7", b"\x02-2")];
        assert_eq!(read(&scored_strings(TYPE_SORTED_SET_TEXT, &texts)), expected());
        let numbers = [1.5f64.to_le_bytes(), (-2f64).to_le_bytes()];
        let binary: [(&[u8], &[u8]); 2] = [(b"a", &numbers[0]), (b"7", &numbers[1])];
        assert_eq!(read(&scored_strings(TYPE_SORTED_SET, &binary)), expected());
        let infinite: [(&[u8], &[u8]); 2] = [(b"a", &[254]), (b"b", &[255])];
        let scores = vec![(f64::INFINITY, b"a".to_vec()), (f64::NEG_INFINITY, b"b".to_vec())];
        assert_eq!(
            read(&scored_strings(TYPE_SORTED_SET_TEXT, &infinite)),
            Ok(Value::SortedSet(scores))
        );
        let check = |body: &[u8]| assert_eq!(read(body), Err(Refused::Corrupt));
        check(&scored_strings(TYPE_SORTED_SET_TEXT, &[(b"a", &[253])]));
        check(&scored_strings(TYPE_SORTED_SET, &[(b"a", &f64::NAN.to_le_bytes())]));
        check(&scored_strings(TYPE_SORTED_SET, &[]));
        check(&packed(TYPE_SORTED_SET_LISTPACK, &[b"a", b"x"]));
        let twice = packed(TYPE_SORTED_SET_LISTPACK, &[b"a", b"1", b"a", b"2"]);
        assert_eq!(read(&twice), Err(Refused::DuplicateElement));
    }

    #[test]
    fn forms_of_old_versions_are_read() {
        let ziplist = b"\x0f\0\0\0\x0c\0\0\0\x02\0\0\xf3\x02\xf2\xff";
        let body = |value_type, bytes: &[u8]| {
            let mut body = vec![value_type];
            write_string(&mut body, bytes, false);
            body
        };
        let list = Value::List(vec![b"2".to_vec(), b"1".to_vec()]);
        assert_eq!(read(&body(TYPE_LIST_ZIPLIST, ziplist)), Ok(list.clone()));
        assert_eq!(read(&strings(TYPE_LIST_QUICKLIST_ZIPLISTS, 1, &[ziplist])), Ok(list));
        let hash = Value::Hash(vec![(b"2".to_vec(), b"1".to_vec(), None)]);
        assert_eq!(read(&body(TYPE_HASH_ZIPLIST, ziplist)), Ok(hash.clone()));
        assert_eq!(read(&body(TYPE_HASH_ZIPMAP, b"\x01\x012\x01\x001\xff")), Ok(hash));
        let scored = Value::SortedSet(vec![(1.0, b"2".to_vec())]);
        assert_eq!(read(&body(TYPE_SORTED_SET_ZIPLIST, ziplist)), Ok(scored));
    }

    #[test]
    fn each_dialect_has_its_fields_with_times() {
        let mut redis = vec![TYPE_HASH_TIMES_EARLY, 2];
        redis.extend(b"\x05\0\0\0\0\0\0\0\x01a\x011\0\0\0\0\0\0\0\0\x01b\x012");
        let mut valkey = vec![TYPE_HASH_TIMES_EARLY, 2];
        valkey.extend(b"\x01a\x011\x05\0\0\0\0\0\0\0\x01b\x012\xff\xff\xff\xff\xff\xff\xff\xff");
        let fields =
            vec![(b"a".to_vec(), b"1".to_vec(), Some(5)), (b"b".to_vec(), b"2".to_vec(), None)];
        assert_eq!(read(&redis), Ok(Value::Hash(fields.clone())));
        assert_eq!(read_value(&valkey, Dialect::Valkey), Ok(Value::Hash(fields)));
        assert_eq!(read(&valkey), Err(Refused::Corrupt));
    }
}
