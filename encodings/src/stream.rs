//! A stream's node: entries one after another, with what they share written once.
//!
//! ```text
//! node     field count | field * | entry *         elements of a listpack without back lengths
//! entry    flags | ms | seq | value *              with SAME_FIELDS: a value for each of the node's fields
//!          flags | ms | seq | pair count | (field | value) *
//! flags    1 DELETED, 2 SAME_FIELDS
//! ms, seq  distances from the node's id, which is that of its first entry; they wrap around
//! ```
//!
//! This is what Redis has in the listpacks of a stream, but for what a walk from the first entry on
//! does not need: back lengths, the counts of entries in front, the end of the node's fields, and the
//! number of elements behind each entry. A deleted entry stays where it is with its flag set. Whoever
//! holds a node knows its id and its [`Counts`].
//!
//! Invariants, which [`Node::validate`] checks: at least one field; ids ascend; no entry is before the
//! node's id.

use std::fmt;

use crate::Corrupt;
use crate::listpack::{self, Element, Listpack, REDIS_OVERHEAD};

/// The id of an entry: a time in milliseconds, and a number among those of the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Milliseconds since 1970, unless the client chose other ones.
    pub ms: u64,
    /// Sequence number.
    pub seq: u64,
}

/// Bytes of an id as it is stored.
pub const ID_BYTES: usize = 16;

impl StreamId {
    /// The smallest id, which no entry has.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    /// The largest id.
    pub const MAX: StreamId = StreamId { ms: u64::MAX, seq: u64::MAX };

    /// An id of its parts.
    pub const fn new(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    /// The id after this one; none after the largest.
    pub fn next(self) -> Option<StreamId> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => Some(StreamId { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// The id before this one; none before the smallest.
    pub fn previous(self) -> Option<StreamId> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => Some(StreamId { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }

    /// The bytes that sort as ids do: both parts with the high byte first.
    pub fn to_bytes(self) -> [u8; ID_BYTES] {
        (u128::from(self.ms) << 64 | u128::from(self.seq)).to_be_bytes()
    }

    /// What [`StreamId::to_bytes`] wrote.
    pub fn from_bytes(bytes: [u8; ID_BYTES]) -> StreamId {
        let word = u128::from_be_bytes(bytes);
        StreamId { ms: (word >> 64) as u64, seq: word as u64 }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;
/// Elements in front of an entry's fields or values: flags and distances.
const HEAD_ELEMENTS: usize = 3;

/// What a node's bytes do not tell at a glance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries that are not deleted.
    pub live: usize,
    /// Entries that are.
    pub deleted: usize,
    /// Bytes of the node's elements in Redis's form, but for the two counts.
    pub redis_elements: usize,
}

impl Counts {
    /// Bytes of the node in Redis's form.
    pub fn redis_bytes(&self) -> usize {
        let counts =
            stored(Element::Int(self.live as i64)) + stored(Element::Int(self.deleted as i64));
        REDIS_OVERHEAD + counts + self.redis_elements
    }
}

/// Bytes of an element in Redis's form.
fn stored(element: Element<'_>) -> usize {
    element.stored_len::<true>()
}

/// Appends the fields that a node's entries share, and tells their bytes in Redis's form.
pub fn push_fields<'p>(
    out: &mut Vec<u8>,
    fields: impl ExactSizeIterator<Item = &'p [u8]>,
) -> usize {
    let count = Element::Int(fields.len() as i64);
    listpack::push::<false>(out, count);
    let mut redis = stored(count) + stored(Element::Int(0));
    for field in fields.map(Element::parse) {
        listpack::push::<false>(out, field);
        redis += stored(field);
    }
    redis
}

/// Appends an entry of `node`, whose id is `id`, and tells its bytes in Redis's form.
pub fn push_entry<'p>(
    out: &mut Vec<u8>,
    node: &Node<'_>,
    id: StreamId,
    pairs: impl ExactSizeIterator<Item = (&'p [u8], &'p [u8])> + Clone,
) -> usize {
    let is_same = node.has_fields(pairs.clone().map(|(field, _)| field));
    let count = pairs.len() as i64;
    let mut redis = 0;
    let mut push = |element: Element<'_>| {
        listpack::push::<false>(out, element);
        redis += stored(element);
    };
    push(Element::Int(if is_same { SAME_FIELDS } else { 0 }));
    push(Element::Int(id.ms.wrapping_sub(node.id.ms).cast_signed()));
    push(Element::Int(id.seq.wrapping_sub(node.id.seq).cast_signed()));
    if !is_same {
        push(Element::Int(count));
    }
    for (field, value) in pairs {
        if !is_same {
            push(Element::parse(field));
        }
        push(Element::parse(value));
    }
    redis + stored(Element::Int(redis_count(is_same, count)))
}

/// The number behind an entry in Redis's form: its elements before it.
fn redis_count(is_same: bool, pairs: i64) -> i64 {
    HEAD_ELEMENTS as i64 + if is_same { pairs } else { 2 * pairs + 1 }
}

/// A node, to be read.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    id: StreamId,
    list: Listpack<'a, false>,
    fields: usize,
    fields_at: usize,
    entries_at: usize,
}

const SOUND: &str = "the bytes were validated or written here";

fn int(element: Element<'_>) -> Option<i64> {
    match element {
        Element::Int(value) => Some(value),
        Element::Bytes(_) => None,
    }
}

impl<'a> Node<'a> {
    /// A node whose bytes were written here or pass [`Node::validate`].
    pub fn new(id: StreamId, bytes: &'a [u8]) -> Node<'a> {
        let list = Listpack::new(bytes);
        let (count, fields_at) = list.read(0);
        let fields = int(count).expect(SOUND) as usize;
        let entries_at = (0..fields).fold(fields_at, |at, _| list.skip(at));
        Node { id, list, fields, fields_at, entries_at }
    }

    /// Checks every part of foreign bytes, and counts.
    ///
    /// # Errors
    /// The bytes are no node with this id.
    pub fn validate(id: StreamId, bytes: &[u8]) -> Result<Counts, Corrupt> {
        let elements = Listpack::<false>::validate(bytes)?;
        let mut rest = Listpack::<false>::new(bytes).iter().map(|(_, element)| element);
        let mut take = || rest.next().ok_or(Corrupt);
        let fields = take_count(&mut take, elements)?;
        let mut counts = Counts {
            redis_elements: stored(Element::Int(fields as i64)) + stored(Element::Int(0)),
            ..Counts::default()
        };
        for _ in 0..fields {
            counts.redis_elements += stored(take()?);
        }
        let mut last = None;
        while let Ok(flags) = take() {
            let entry = read_head(flags, &mut take, id)?;
            if entry.id < id || last.is_some_and(|last| entry.id <= last) {
                return Err(Corrupt);
            }
            last = Some(entry.id);
            counts.redis_elements += entry.redis;
            let pairs = if entry.is_same {
                fields
            } else {
                let pairs = take_count(&mut take, elements)?;
                counts.redis_elements += stored(Element::Int(pairs as i64));
                pairs
            };
            for _ in 0..if entry.is_same { pairs } else { 2 * pairs } {
                counts.redis_elements += stored(take()?);
            }
            counts.redis_elements += stored(Element::Int(redis_count(entry.is_same, pairs as i64)));
            counts.deleted += usize::from(entry.is_deleted);
            counts.live += usize::from(!entry.is_deleted);
        }
        Ok(counts)
    }

    /// Its id.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Its entries, the deleted ones too, from the first one on.
    pub fn entries(&self) -> Entries<'a> {
        self.entries_from(self.entries_at)
    }

    /// Its entries from the one at an offset on.
    pub fn entries_from(&self, offset: usize) -> Entries<'a> {
        Entries { node: *self, at: offset }
    }

    fn has_fields<'p>(&self, mut fields: impl ExactSizeIterator<Item = &'p [u8]>) -> bool {
        let mut at = self.fields_at;
        fields.len() == self.fields
            && fields.all(|field| {
                let (element, next) = self.list.read(at);
                at = next;
                element == Element::parse(field)
            })
    }

    fn entry(&self, at: usize) -> Entry<'a> {
        let mut offset = at;
        let mut take = || {
            let (element, next) = self.list.read(offset);
            offset = next;
            int(element).expect(SOUND)
        };
        let flags = take();
        let ms = self.id.ms.wrapping_add(take().cast_unsigned());
        let seq = self.id.seq.wrapping_add(take().cast_unsigned());
        let is_same = flags & SAME_FIELDS != 0;
        let len = if is_same { self.fields } else { take() as usize };
        let pairs = Pairs {
            list: self.list,
            fields_at: is_same.then_some(self.fields_at),
            at: offset,
            left: len,
        };
        let is_deleted = flags & DELETED != 0;
        Entry { id: StreamId { ms, seq }, offset: at, is_deleted, pairs }
    }
}

/// Takes the number of fields or pairs: at least one, and not more than there are elements.
fn take_count<'e>(
    take: &mut impl FnMut() -> Result<Element<'e>, Corrupt>,
    elements: usize,
) -> Result<usize, Corrupt> {
    let count = usize::try_from(int(take()?).ok_or(Corrupt)?).map_err(|_| Corrupt)?;
    if count == 0 || count > elements { Err(Corrupt) } else { Ok(count) }
}

/// What stands in front of an entry's fields or values.
struct Head {
    id: StreamId,
    is_deleted: bool,
    is_same: bool,
    /// Its bytes in Redis's form.
    redis: usize,
}

fn read_head<'e>(
    flags: Element<'e>,
    take: &mut impl FnMut() -> Result<Element<'e>, Corrupt>,
    node: StreamId,
) -> Result<Head, Corrupt> {
    let (ms, seq) = (take()?, take()?);
    let redis = stored(flags) + stored(ms) + stored(seq);
    let flags = int(flags).filter(|flags| flags & !(DELETED | SAME_FIELDS) == 0).ok_or(Corrupt)?;
    let far = |from: u64, distance: Element<'_>| {
        Ok(from.wrapping_add(int(distance).ok_or(Corrupt)?.cast_unsigned()))
    };
    let id = StreamId { ms: far(node.ms, ms)?, seq: far(node.seq, seq)? };
    let (is_deleted, is_same) = (flags & DELETED != 0, flags & SAME_FIELDS != 0);
    Ok(Head { id, is_deleted, is_same, redis })
}

/// Sets the flag of the entry at an offset of a node's bytes.
pub fn mark_deleted(bytes: &mut [u8], offset: usize) {
    // Flags are an integer below 128: one byte.
    bytes[offset] |= DELETED as u8;
}

/// One entry of a node.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Its id.
    pub id: StreamId,
    /// Where it starts in the node's bytes.
    pub offset: usize,
    /// It is not there any more.
    pub is_deleted: bool,
    /// Its fields and values.
    pub pairs: Pairs<'a>,
}

/// The fields and values of an entry.
#[derive(Clone, Debug)]
pub struct Pairs<'a> {
    list: Listpack<'a, false>,
    /// Where the next field is, if it is one of the node's.
    fields_at: Option<usize>,
    at: usize,
    left: usize,
}

impl Pairs<'_> {
    /// Where what follows the pairs starts.
    fn end(&self) -> usize {
        let elements = if self.fields_at.is_some() { self.left } else { 2 * self.left };
        (0..elements).fold(self.at, |at, _| self.list.skip(at))
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (Element<'a>, Element<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let field = match &mut self.fields_at {
            Some(at) => {
                let (field, next) = self.list.read(*at);
                *at = next;
                field
            }
            None => {
                let (field, next) = self.list.read(self.at);
                self.at = next;
                field
            }
        };
        let (value, next) = self.list.read(self.at);
        self.at = next;
        Some((field, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Pairs<'_> {}

/// See [`Node::entries`].
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    node: Node<'a>,
    at: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        if self.at == self.node.list.bytes().len() {
            return None;
        }
        let entry = self.node.entry(self.at);
        self.at = entry.pairs.end();
        Some(entry)
    }
}

/// A node in Redis's form.
pub fn to_redis(node: &Node<'_>, counts: &Counts) -> Vec<u8> {
    let mut elements = vec![Element::Int(counts.live as i64), Element::Int(counts.deleted as i64)];
    let list = node.list;
    let mut iter = list.iter();
    elements.extend(iter.by_ref().take(1 + node.fields).map(|(_, element)| element));
    elements.push(Element::Int(0));
    for entry in node.entries() {
        let end = entry.pairs.end();
        let of_entry = list.iter_from(entry.offset).take_while(|(at, _)| *at < end);
        elements.extend(of_entry.map(|(_, element)| element));
        let is_same = entry.pairs.fields_at.is_some();
        elements.push(Element::Int(redis_count(is_same, entry.pairs.left as i64)));
    }
    listpack::to_redis(elements.into_iter())
}

/// A node from Redis's form: its bytes here, and what they do not tell.
///
/// # Errors
/// The bytes are no node with this id, or its counts are wrong.
pub fn from_redis(id: StreamId, redis: &[u8]) -> Result<(Vec<u8>, Counts), Corrupt> {
    let (list, elements) = listpack::from_redis(redis)?;
    let mut iter = list.iter().map(|(_, element)| element).peekable();
    let mut bytes = Vec::with_capacity(redis.len());
    let next_int =
        |iter: &mut dyn Iterator<Item = Element<'_>>| iter.next().and_then(int).ok_or(Corrupt);
    let (live, deleted) = (next_int(&mut iter)?, next_int(&mut iter)?);
    let fields = take_count(&mut || iter.next().ok_or(Corrupt), elements)?;
    listpack::push::<false>(&mut bytes, Element::Int(fields as i64));
    copy(&mut bytes, &mut iter, fields)?;
    if next_int(&mut iter)? != 0 {
        return Err(Corrupt);
    }
    while let Some(&flags) = iter.peek() {
        let is_same = int(flags).ok_or(Corrupt)? & SAME_FIELDS != 0;
        copy(&mut bytes, &mut iter, HEAD_ELEMENTS)?;
        let pairs = if is_same {
            copy(&mut bytes, &mut iter, fields)?;
            fields
        } else {
            let pairs = take_count(&mut || iter.next().ok_or(Corrupt), elements)?;
            listpack::push::<false>(&mut bytes, Element::Int(pairs as i64));
            copy(&mut bytes, &mut iter, 2 * pairs)?;
            pairs
        };
        if next_int(&mut iter)? != redis_count(is_same, pairs as i64) {
            return Err(Corrupt);
        }
    }
    let counts = Node::validate(id, &bytes)?;
    if counts.live as i64 != live || counts.deleted as i64 != deleted {
        return Err(Corrupt);
    }
    Ok((bytes, counts))
}

/// Copies elements, each in its shortest form.
fn copy<'e>(
    bytes: &mut Vec<u8>,
    elements: &mut impl Iterator<Item = Element<'e>>,
    count: usize,
) -> Result<(), Corrupt> {
    for _ in 0..count {
        let element = elements.next().ok_or(Corrupt)?;
        let mut room = [0; crate::integer::TEXT_LEN_MAX];
        listpack::push::<false>(bytes, Element::parse(element.text(&mut room)));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
