//! Reading values of every type that is known here, from payloads that may be anything.
//!
//! Counts, duplicates, emptiness and what is left over are checked as Redis checks them. The old
//! forms with ziplists and zipmaps, sorted sets are not read yet.

use std::collections::HashSet;

use super::{
    Stream, TYPE_HASH, TYPE_HASH_LISTPACK, TYPE_HASH_LISTPACK_TIMES, TYPE_HASH_TIMES, TYPE_LIST,
    TYPE_LIST_QUICKLIST, TYPE_SET, TYPE_SET_INTSET, TYPE_SET_LISTPACK, TYPE_STREAM, TYPE_STREAM_2,
    TYPE_STREAM_3, TYPE_STRING, read_len, read_stream, read_string, take,
};
use crate::Corrupt;
use crate::intset::{self, Intset};
use crate::listpack;

/// A field, its value, and when it is due, in milliseconds since 1970.
pub type Field = (Vec<u8>, Vec<u8>, Option<u64>);

/// A value that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A string.
    String(Vec<u8>),
    /// The elements of a list, at least one.
    List(Vec<Vec<u8>>),
    /// The members of a set, at least one, each once.
    Set(Vec<Vec<u8>>),
    /// The fields of a hash, at least one, each once.
    Hash(Vec<Field>),
    /// A stream.
    Stream(Stream),
}

/// Reads type and value; nothing may be left over.
///
/// # Errors
/// The bytes are no value of a known type.
pub fn read_value(body: &[u8]) -> Result<Value, Corrupt> {
    let (&value_type, mut input) = body.split_first().ok_or(Corrupt)?;
    let input = &mut input;
    let value = match value_type {
        TYPE_STRING => Value::String(read_string(input)?),
        TYPE_LIST => Value::List(read_strings(input)?),
        TYPE_LIST_QUICKLIST => Value::List(read_quicklist(input)?),
        TYPE_SET => Value::Set(read_strings(input)?),
        TYPE_SET_INTSET => {
            let bytes = intset::from_redis(&read_string(input)?)?;
            let text = |value: i64| value.to_string().into_bytes();
            Value::Set(Intset::new(&bytes).iter().map(text).collect())
        }
        TYPE_SET_LISTPACK => Value::Set(read_listpack(input)?),
        TYPE_HASH => Value::Hash(read_pairs(input)?),
        TYPE_HASH_LISTPACK => {
            let elements = read_listpack(input)?;
            Value::Hash(group(&elements, |[field, value]| Ok((field, value, None)))?)
        }
        TYPE_HASH_TIMES => Value::Hash(read_timed_pairs(input)?),
        TYPE_HASH_LISTPACK_TIMES => {
            take(input, 8)?;
            let elements = read_listpack(input)?;
            Value::Hash(group(&elements, |[field, value, time]| {
                let time = crate::integer::parse_u64(&time).ok_or(Corrupt)?;
                Ok((field, value, Some(time).filter(|time| *time > 0)))
            })?)
        }
        TYPE_STREAM | TYPE_STREAM_2 | TYPE_STREAM_3 => {
            Value::Stream(read_stream(value_type, input)?)
        }
        _ => return Err(Corrupt),
    };
    let sound = match &value {
        Value::String(_) | Value::Stream(_) => true,
        Value::List(elements) => !elements.is_empty(),
        Value::Set(members) => !members.is_empty() && are_unique(members.iter()),
        Value::Hash(fields) => {
            !fields.is_empty() && are_unique(fields.iter().map(|(field, ..)| field))
        }
    };
    if sound && input.is_empty() { Ok(value) } else { Err(Corrupt) }
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
            PLAIN => elements.push(read_string(input)?),
            PACKED => elements.append(&mut read_listpack(input)?),
            _ => return Err(Corrupt),
        }
    }
    Ok(elements)
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
        assert_eq!(read_value(&strings(TYPE_LIST, 4, &texts)), Ok(Value::List(vec())));
        assert_eq!(read_value(&strings(TYPE_SET, 4, &texts)), Ok(Value::Set(vec())));
        assert_eq!(read_value(&packed(TYPE_SET_LISTPACK, &texts)), Ok(Value::Set(vec())));
        let fields = vec![(vec()[0].clone(), vec()[1].clone(), None), {
            (vec()[2].clone(), vec()[3].clone(), None)
        }];
        assert_eq!(read_value(&strings(TYPE_HASH, 2, &texts)), Ok(Value::Hash(fields.clone())));
        assert_eq!(read_value(&packed(TYPE_HASH_LISTPACK, &texts)), Ok(Value::Hash(fields)));
    }

    #[test]
    fn what_redis_refuses_is_refused() {
        let check = |body: &[u8]| assert_eq!(read_value(body), Err(Corrupt), "{body:?}");
        check(b"");
        check(&[99, 0]);
        check(&strings(TYPE_LIST, 0, &[]));
        check(&strings(TYPE_SET, 2, &[b"a", b"a"]));
        check(&strings(TYPE_SET, 3, &[b"a", b"b"]));
        check(&strings(TYPE_SET, 1, &[b"a", b"b"]));
        check(&strings(TYPE_HASH, 2, &[b"a", b"1", b"a", b"2"]));
        check(&strings(TYPE_SET, u64::MAX, &[b"a"]));
        check(&packed(TYPE_HASH_LISTPACK, &[b"a"]));
        check(&packed(TYPE_HASH_LISTPACK_TIMES, &[b"a", b"b", b"c"]));
    }
}
