//! Sets: members, each once. Packed as an intset while all are integers, else as rows.

use encodings::integer::parse_i64;
use encodings::intset::{self, Intset};
use encodings::listpack::Element;

use crate::big::Big;
use crate::block::{Encoding, Form, ValueType};
use crate::collection::Placed;
use crate::dict::{Content, Dict};
use crate::effect::{Change, DeleteCause, Event, Origin, Strings};
use crate::error::OpError;
use crate::heap::Outside;
use crate::key::Key;
use crate::members::Members;
use crate::packed::{Row, Rows, Shape, push_row};
use crate::partition::{Look, Partition};
use crate::table::Entry;

const ROWS: Form = Form::new(ValueType::Set, Encoding::Bytes);
const INTEGERS: Form = Form::new(ValueType::Set, Encoding::Int);

/// A set in the making: what commands that compute one fill, and what small ones are changed as.
pub(crate) enum Draft {
    Integers(Vec<u8>),
    Rows(Form, Vec<u8>),
    Big(Dict),
}

impl Partition {
    /// The members at a key, `None` without the key. Counts as a read.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    #[inline]
    pub fn set_members(
        &mut self,
        db: usize,
        key: &Key<'_>,
    ) -> Result<Option<Members<'_>>, OpError> {
        self.members(db, key, ValueType::Set)
    }

    /// Adds members, creating the key, and answers how many are new.
    ///
    /// # Errors
    /// [`OpError::WrongType`]; [`OpError::OutOfMemory`], and then some members may have been added.
    pub fn set_add<'p>(
        &mut self,
        db: usize,
        key: &Key<'_>,
        members: impl Iterator<Item = &'p [u8]> + Clone,
        event: Event,
    ) -> Result<usize, OpError> {
        let old = self.lookup_as(db, key, Look::Write, ValueType::Set)?;
        let mut added = Vec::new();
        let outside = old.map(|old| Outside::of(self.heap.view(old.block)));
        let (count, result) = if let Some(Outside::Big(index)) = outside {
            self.add_to_big(index, members, &mut added)
        } else {
            self.add_to_packed(db, key, old, members, &mut added)
        };
        if count > 0 {
            let change = Change::SetAdd { members: Strings::new(&added) };
            self.report_change(db, key, event, change, count);
        }
        result.map(|()| count)
    }

    fn add_to_big<'p>(
        &mut self,
        index: u32,
        members: impl Iterator<Item = &'p [u8]>,
        added: &mut Vec<u8>,
    ) -> (usize, Result<(), OpError>) {
        let listening = self.effects.listening;
        let mut count = 0;
        let result = self.heap.with_big(index, |big, heap| {
            let dict = big.dict_mut();
            for member in members {
                if dict.find(heap, member).is_none() {
                    dict.insert(heap, &plain(member))?;
                    count += 1;
                    if listening {
                        Strings::push(added, member);
                    }
                }
            }
            Ok(())
        });
        (count, result)
    }

    fn add_to_packed<'p>(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        members: impl Iterator<Item = &'p [u8]> + Clone,
        added: &mut Vec<u8>,
    ) -> (usize, Result<(), OpError>) {
        let hint = members.clone().count();
        let made = self.draft(old, members.clone().next().unwrap_or_default(), hint);
        let mut draft = match made {
            Ok(draft) => draft,
            Err(error) => return (0, Err(error)),
        };
        let mut count = 0;
        for member in members {
            match self.add_to_draft(&mut draft, member) {
                Ok(false) => {}
                Ok(true) => {
                    count += 1;
                    if self.effects.listening {
                        Strings::push(added, member);
                    }
                }
                Err(error) => {
                    self.drop_draft(draft);
                    return (0, Err(error));
                }
            }
        }
        if count == 0 && old.is_some() {
            self.drop_draft(draft);
            return (0, Ok(()));
        }
        let expire_at = old.and_then(|old| self.heap.view(old.block).expire_at());
        match self.store_draft(db, key, old, draft, expire_at) {
            Ok(()) => (count, Ok(())),
            Err(error) => (0, Err(error)),
        }
    }

    /// A small set that is to be changed, or an empty one for about `hint` members.
    fn draft(&mut self, old: Option<Entry>, first: &[u8], hint: usize) -> Result<Draft, OpError> {
        let limits = self.limits;
        let Some(entry) = old else {
            let is_integer = matches!(Element::parse(first), Element::Int(_));
            return Ok(if is_integer && hint <= limits.set_max_intset_entries {
                Draft::Integers(self.take_scratch(None))
            } else if hint <= limits.set_max_listpack_entries {
                Draft::Rows(ROWS, self.take_scratch(None))
            } else {
                Draft::Big(Dict::new(ValueType::Set))
            });
        };
        let form = self.packed_form(entry);
        let (bytes, count_max) = if form.encoding == Encoding::Int {
            (self.take_scratch(Some(entry)), limits.set_max_intset_entries)
        } else {
            (self.take_scratch(Some(entry)), limits.set_max_listpack_entries)
        };
        let draft = match form.encoding {
            Encoding::Int => Draft::Integers(bytes),
            _ => Draft::Rows(form, bytes),
        };
        if hint > count_max { self.make_draft_big(draft) } else { Ok(draft) }
    }

    fn drop_draft(&mut self, draft: Draft) {
        match draft {
            Draft::Integers(bytes) | Draft::Rows(_, bytes) => self.give_scratch(bytes),
            Draft::Big(mut dict) => {
                while dict.drain_step(&mut self.heap.slabs, &mut self.heap.larges) {}
            }
        }
    }

    fn make_draft_big(&mut self, draft: Draft) -> Result<Draft, OpError> {
        let (rows, form) = match &draft {
            Draft::Integers(bytes) => (rows_of_integers(bytes), ROWS),
            Draft::Rows(form, bytes) => (bytes.clone(), *form),
            Draft::Big(_) => return Ok(draft),
        };
        let dict = self.heap.build_dict(form, &rows);
        self.drop_draft(draft);
        Ok(Draft::Big(dict?))
    }

    /// Adds a member, in another form if need be; false when it is there already.
    pub(crate) fn add_to_draft(
        &mut self,
        draft: &mut Draft,
        member: &[u8],
    ) -> Result<bool, OpError> {
        let limits = self.limits;
        let fits = member.len() <= limits.set_max_listpack_value;
        let element = Element::parse(member);
        let outgrown = match (&mut *draft, element) {
            (Draft::Integers(bytes), Element::Int(value)) => {
                if !intset::insert(bytes, value) {
                    return Ok(false);
                }
                if Intset::new(bytes).len() <= limits.set_max_intset_entries {
                    return Ok(true);
                }
                // It is in already.
                let grown = std::mem::replace(draft, Draft::Integers(Vec::new()));
                *draft = self.make_draft_big(grown)?;
                return Ok(true);
            }
            (Draft::Integers(bytes), Element::Bytes(_)) => {
                let set = Intset::new(bytes);
                let widest = [0, set.len().saturating_sub(1)].map(|index| {
                    if set.is_empty() { 0 } else { Element::Int(set.get(index)).text_len() }
                });
                let fits = fits
                    && set.len() < limits.set_max_listpack_entries
                    && widest.iter().all(|&len| len <= limits.set_max_listpack_value);
                if fits {
                    *draft = Draft::Rows(ROWS, rows_of_integers(bytes));
                }
                !fits
            }
            (Draft::Rows(form, bytes), _) => {
                let rows = Rows::new(Shape::of(*form), bytes);
                if rows.find(member).is_some() {
                    return Ok(false);
                }
                !fits || rows.len() >= limits.set_max_listpack_entries
            }
            (Draft::Big(_), _) => false,
        };
        if outgrown {
            let grown = std::mem::replace(draft, Draft::Integers(Vec::new()));
            *draft = self.make_draft_big(grown)?;
        }
        match draft {
            Draft::Rows(form, bytes) => {
                let row = Row { member: element, value: Element::Int(0), expire_at: None };
                push_row(bytes, Shape::of(*form), &row);
            }
            Draft::Big(dict) => {
                if dict.find(&self.heap, member).is_some() {
                    return Ok(false);
                }
                dict.insert(&mut self.heap, &plain(member))?;
            }
            Draft::Integers(_) => unreachable!("strings have turned it into rows"),
        }
        Ok(true)
    }

    fn store_draft(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        draft: Draft,
        expire_at: Option<u64>,
    ) -> Result<(), OpError> {
        let (form, bytes) = match draft {
            Draft::Integers(bytes) => (INTEGERS, bytes),
            Draft::Rows(form, bytes) => (form, bytes),
            Draft::Big(mut dict) => {
                dict.recorded = dict.next_ms();
                return self.store_big(db, key, old, Big::Dict(dict), expire_at).map(drop);
            }
        };
        let placed = Placed { form, value: &bytes, expire_at };
        let stored = self.store_packed_until(db, key, old, placed).map(drop);
        self.give_scratch(bytes);
        stored
    }

    /// Makes a draft an intset if it can be one.
    fn with_integers(&mut self, draft: Draft) -> Draft {
        let mut integers = Vec::new();
        let mut add = |name: &[u8]| match Element::parse(name) {
            Element::Int(value) => intset::insert(&mut integers, value),
            Element::Bytes(_) => false,
        };
        let all_integers = match &draft {
            Draft::Integers(_) => false,
            Draft::Rows(form, bytes) => Rows::new(Shape::of(*form), bytes)
                .iter()
                .all(|(_, row)| add(row.member.text(&mut [0; 20]))),
            Draft::Big(dict) if dict.len() > self.limits.set_max_intset_entries => false,
            Draft::Big(dict) => {
                let mut all = true;
                dict.for_each(&self.heap, |row| all = all && add(row.member));
                all
            }
        };
        let count_max = self.limits.set_max_intset_entries;
        if !all_integers || Intset::new(&integers).len() > count_max {
            return draft;
        }
        self.drop_draft(draft);
        Draft::Integers(integers)
    }

    /// Stores members that a command computed over whatever the key holds, without a time; without
    /// any the key goes. How many there are. With `by_rows` an intset is tried only when all are known.
    ///
    /// # Errors
    /// [`OpError::OutOfMemory`]; nothing changed.
    pub fn set_store<'p>(
        &mut self,
        db: usize,
        key: &Key<'_>,
        members: impl Iterator<Item = &'p [u8]>,
        by_rows: bool,
        event: Event,
    ) -> Result<usize, OpError> {
        let empty =
            if by_rows { Draft::Rows(ROWS, Vec::new()) } else { Draft::Integers(Vec::new()) };
        let (mut draft, mut count) = (empty, 0);
        for member in members {
            match self.add_to_draft(&mut draft, member) {
                Ok(is_new) => count += usize::from(is_new),
                Err(error) => {
                    self.drop_draft(draft);
                    return Err(error);
                }
            }
        }
        if count == 0 {
            self.delete(db, key, DeleteCause::Command);
            return Ok(0);
        }
        if by_rows {
            draft = self.with_integers(draft);
        }
        let old = self.lookup(db, key, Look::Silent);
        let replaced = old.is_some();
        self.store_draft(db, key, old, draft, None)?;
        if self.effects.listening {
            let entry = self.find(db, key).expect("it was stored");
            let (form, value) = self.heap.pack(entry.block);
            let placed = Placed { form, value: &value, expire_at: None };
            self.report_place(db, key, placed, replaced, Origin::Command(event));
        } else {
            self.effects.dirty += 1;
        }
        Ok(count)
    }
}

fn plain(member: &[u8]) -> Content<'_> {
    Content { member, value: &[], score: 0.0, expire_at: None }
}

/// An intset as rows.
pub(crate) fn rows_of_integers(bytes: &[u8]) -> Vec<u8> {
    let mut rows = Vec::with_capacity(bytes.len() * 2);
    for value in Intset::new(bytes).iter() {
        let row = Row { member: Element::Int(value), value: Element::Int(0), expire_at: None };
        push_row(&mut rows, Shape::of(ROWS), &row);
    }
    rows
}

/// Takes an integer out of an intset; false when it is not there.
pub(crate) fn remove_integer(bytes: &mut Vec<u8>, member: &[u8]) -> bool {
    parse_i64(member).is_some_and(|value| intset::remove(bytes, value))
}
