//! Reading a set, a hash or a sorted set, whatever form it has.

mod change;

use encodings::integer::parse_i64;
use encodings::intset::Intset;
use encodings::listpack::Element;

use crate::block::{Encoding, ValueType};
use crate::dict::{Content, Dict};
use crate::error::OpError;
use crate::heap::{Heap, Outside};
use crate::key::Key;
use crate::list::List;
use crate::packed::{Row, Rows, Shape, score_of};
use crate::partition::{Look, Partition};
use crate::slab::BlockRef;
use crate::stream::Stream;
use crate::string::StringValue;
use crate::table::{Entry, ScanPosition};

/// A member of a set or sorted set, or a field of a hash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Member<'a> {
    /// The member or field.
    pub name: StringValue<'a>,
    /// A field's value.
    pub value: StringValue<'a>,
    /// A sorted set's score.
    pub score: f64,
    /// When it is due, in milliseconds since 1970.
    pub expire_at: Option<u64>,
}

impl<'a> Member<'a> {
    fn of_row(value_type: ValueType, row: &Row<'a>) -> Member<'a> {
        let scored = value_type == ValueType::SortedSet;
        Member {
            name: row.member.into(),
            value: row.value.into(),
            score: if scored { score_of(row.value) } else { 0.0 },
            expire_at: row.expire_at,
        }
    }

    fn of_integer(value: i64) -> Member<'a> {
        let (name, value) = (StringValue::Int(value), StringValue::Int(0));
        Member { name, value, score: 0.0, expire_at: None }
    }

    /// A member of a sorted set that a command computed.
    pub fn scored(score: f64, name: &'a [u8]) -> Member<'a> {
        let (name, value) = (StringValue::Bytes(name), StringValue::Int(0));
        Member { name, value, score, expire_at: None }
    }

    pub(crate) fn of_cell(row: &Content<'a>) -> Member<'a> {
        Member {
            name: StringValue::Bytes(row.member),
            value: StringValue::Bytes(row.value),
            score: row.score,
            expire_at: row.expire_at,
        }
    }
}

impl<'a> From<Element<'a>> for StringValue<'a> {
    #[inline]
    fn from(element: Element<'a>) -> StringValue<'a> {
        match element {
            Element::Int(value) => StringValue::Int(value),
            Element::Bytes(bytes) => StringValue::Bytes(bytes),
        }
    }
}

/// A value of any type, to be read.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// Bytes or an integer.
    String(StringValue<'a>),
    /// Elements in their order.
    List(List<'a>),
    /// Members, fields, or members with scores.
    Members(Members<'a>),
    /// Entries and groups.
    Stream(Stream<'a>),
}

impl Partition {
    /// The value at a key, whatever its type, without a trace in statistics and access stamp.
    pub fn value(&mut self, db: usize, key: &Key<'_>) -> Option<Value<'_>> {
        let entry = self.lookup(db, key, Look::Silent)?;
        Some(match self.heap.view(entry.block).value_type() {
            ValueType::String => Value::String(self.heap.string_value(entry.block)),
            ValueType::List => Value::List(List::of(&self.heap, entry.block)),
            ValueType::Stream => Value::Stream(Stream::of(
                &self.heap,
                self.heap.bigs.at(self.heap.view(entry.block).outside_index()).stream(),
            )),
            _ => Value::Members(Members::of(&self.heap, entry.block)),
        })
    }
}

impl Partition {
    /// The members at a key that holds a value of a type, without a trace and by a shared reference,
    /// so that those of several keys can be looked at together. A key that is due counts as missing
    /// and stays.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn view_members(
        &self,
        db: usize,
        key: &Key<'_>,
        value_type: ValueType,
    ) -> Result<Option<Members<'_>>, OpError> {
        let found = self.only(self.find_live(db, key), value_type)?;
        Ok(found.map(|entry| Members::of(&self.heap, entry.block)))
    }

    /// As [`Partition::view_members`], for a key that holds a set or a sorted set.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn view_set_or_sorted_set(
        &self,
        db: usize,
        key: &Key<'_>,
    ) -> Result<Option<Members<'_>>, OpError> {
        self.set_or_sorted(self.find_live(db, key))
    }

    /// The members of a set or a sorted set, `None` without the key. Counts as a read.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn set_or_sorted_set(
        &mut self,
        db: usize,
        key: &Key<'_>,
    ) -> Result<Option<Members<'_>>, OpError> {
        let found = self.lookup(db, key, Look::Read);
        self.set_or_sorted(found)
    }

    fn find_live(&self, db: usize, key: &Key<'_>) -> Option<Entry> {
        self.find(db, key).filter(|entry| !self.is_due(self.heap.view(entry.block)))
    }

    fn set_or_sorted(&self, found: Option<Entry>) -> Result<Option<Members<'_>>, OpError> {
        let Some(entry) = found else { return Ok(None) };
        match self.heap.view(entry.block).value_type() {
            ValueType::Set | ValueType::SortedSet => Ok(Some(Members::of(&self.heap, entry.block))),
            _ => Err(OpError::WrongType),
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Body<'a> {
    Packed(Rows<'a>),
    Integers(Intset<'a>),
    Big(&'a Dict),
}

/// The members of a set, a hash or a sorted set.
#[derive(Clone, Copy)]
pub struct Members<'a> {
    pub(crate) heap: &'a Heap,
    value_type: ValueType,
    pub(crate) body: Body<'a>,
}

impl<'a> Members<'a> {
    /// Those in a block's value.
    #[inline]
    pub(crate) fn of(heap: &'a Heap, block: BlockRef) -> Members<'a> {
        let view = heap.view(block);
        let body = match (Outside::of(view), view.encoding()) {
            (Outside::Big(index), _) => Body::Big(heap.bigs.at(index).dict()),
            (_, Encoding::Int | Encoding::LargeInt) => {
                Body::Integers(Intset::new(heap.packed_bytes(block)))
            }
            _ => Body::Packed(Rows::new(Shape::of(view.form()), heap.packed_bytes(block))),
        };
        Members { heap, value_type: view.value_type(), body }
    }

    /// A packed member.
    #[inline]
    pub(crate) fn member_of_row(&self, row: &Row<'a>) -> Member<'a> {
        Member::of_row(self.value_type, row)
    }

    /// Set, hash or sorted set.
    pub fn value_type(&self) -> ValueType {
        self.value_type
    }

    /// How many.
    pub fn len(&self) -> usize {
        match self.body {
            Body::Packed(rows) => rows.len(),
            Body::Integers(set) => set.len(),
            Body::Big(dict) => dict.len(),
        }
    }

    /// True without any; no value stays so.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether they lie packed, one after another, and [`Members::scan`] gives all at once.
    pub fn is_packed(&self) -> bool {
        !matches!(self.body, Body::Big(_))
    }

    /// Whether they are integers in ascending order.
    pub fn is_intset(&self) -> bool {
        matches!(self.body, Body::Integers(_))
    }

    /// One member by its name.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<Member<'a>> {
        match self.body {
            Body::Packed(rows) => {
                let (_, row) = rows.find(name)?;
                Some(self.member_of_row(&row))
            }
            Body::Integers(set) => {
                let value = parse_i64(name).filter(|&value| set.contains(value))?;
                Some(Member::of_integer(value))
            }
            Body::Big(dict) => {
                let entry = dict.find(self.heap, name)?;
                Some(Member::of_cell(&dict.row(self.heap, entry.block)))
            }
        }
    }

    /// Calls `f` with each.
    pub fn for_each(&self, mut f: impl FnMut(Member<'a>)) {
        match self.body {
            Body::Packed(rows) => {
                rows.iter().for_each(|(_, row)| f(self.member_of_row(&row)));
            }
            Body::Integers(set) => set.iter().for_each(|value| f(Member::of_integer(value))),
            Body::Big(dict) => dict.for_each(self.heap, |row| f(Member::of_cell(&row))),
        }
    }

    /// A random member, each with the same chance; `word` is a random number.
    pub fn random(&self, word: u64) -> Option<Member<'a>> {
        match self.body {
            Body::Packed(rows) => {
                let index = ((word >> 32) * rows.len() as u64) >> 32;
                let (_, row) = rows.iter().nth(index as usize)?;
                Some(self.member_of_row(&row))
            }
            Body::Integers(set) => {
                let index = ((word >> 32) * set.len() as u64) >> 32;
                Some(Member::of_integer(set.get(index as usize)))
            }
            Body::Big(dict) => {
                let block = dict.random(self.heap, word)?;
                Some(Member::of_cell(&dict.row(self.heap, block)))
            }
        }
    }

    /// Calls `f` with members from a cursor on until at least `count` were found, and gives the
    /// cursor to go on with; 0 at the end. A member that is there from the first call to the last is
    /// given at least once.
    pub fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(Member<'a>)) -> u64 {
        let Body::Big(dict) = self.body else {
            self.for_each(f);
            return 0;
        };
        let mut position = ScanPosition(cursor as u32);
        let mut found = 0;
        while found < count {
            let next = dict.scan(self.heap, position, |row| {
                f(Member::of_cell(&row));
                found += 1;
            });
            match next {
                Some(next) => position = next,
                None => return 0,
            }
        }
        u64::from(position.0)
    }
}
