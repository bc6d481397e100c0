//! Sorted sets: members, each once, in the order of their scores and then of their bytes.
//!
//! Packed rows stand in that order; a big one has a tree beside its table (see `dict.rs`).

mod read;

use std::cmp::Ordering;
use std::ops::Range;

use encodings::listpack::Element;

use crate::block::{Encoding, Form, ValueType};
use crate::collection::Placed;
use crate::dict::{Content, Dict};
use crate::effect::{Change, DeleteCause, Event, Origin, Strings};
use crate::error::OpError;
use crate::heap::{Heap, Outside};
use crate::key::Key;
use crate::members::Members;
use crate::packed::{self, Row, Rows, ScoreBytes, Shape, push_row, score_of};
use crate::partition::{Look, Partition};
use crate::table::Entry;

const ROWS: Form = Form::new(ValueType::SortedSet, Encoding::Bytes);

/// A score and the member that has it.
pub type Scored<'a> = (f64, &'a [u8]);

/// The order of a sorted set. -0 equals 0.
///
/// # Panics
/// When a score is NaN; no sorted set has one.
#[inline]
pub fn in_order(a: Scored<'_>, b: Scored<'_>) -> Ordering {
    let scores = a.0.partial_cmp(&b.0).expect("no score is NaN");
    scores.then_with(|| a.1.cmp(b.1))
}

/// Scores that were given.
struct Given {
    count: usize,
    /// Score, member, score, member, as [`Strings`] hold them, if somebody listens to effects.
    pairs: Option<Vec<u8>>,
}

impl Given {
    fn add(&mut self, score: f64, member: &[u8]) {
        self.count += 1;
        if let Some(pairs) = &mut self.pairs {
            Strings::push(pairs, &score.to_le_bytes());
            Strings::push(pairs, member);
        }
    }
}

/// What became of a member of a packed sorted set.
enum Step {
    Left,
    Scored(f64),
    /// It is new and does not fit the limits.
    Outgrown(f64),
}

impl Partition {
    /// The members at a key, `None` without the key. Counts as a read.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    #[inline]
    pub fn sorted_set(&mut self, db: usize, key: &Key<'_>) -> Result<Option<Members<'_>>, OpError> {
        self.members(db, key, ValueType::SortedSet)
    }

    /// As [`Partition::sorted_set`], but without a trace in statistics and access stamp.
    ///
    /// # Errors
    /// [`OpError::WrongType`].
    pub fn sorted_set_look(
        &mut self,
        db: usize,
        key: &Key<'_>,
    ) -> Result<Option<Members<'_>>, OpError> {
        self.members_look(db, key, ValueType::SortedSet)
    }

    /// Gives members scores, creating the key. For each one `decide` gets the score that it has, if
    /// it is there, and the one that is given, and answers the one that it is to have, or `None` to
    /// leave all as it is. Members keep their times.
    ///
    /// # Errors
    /// [`OpError::WrongType`]; what `decide` answers, and [`OpError::OutOfMemory`], and then members
    /// before that one may have their scores.
    pub fn sorted_set_add<'p>(
        &mut self,
        db: usize,
        key: &Key<'_>,
        pairs: impl Iterator<Item = Scored<'p>> + Clone,
        mut decide: impl FnMut(Option<f64>, f64) -> Result<Option<f64>, OpError>,
        event: Event,
    ) -> Result<(), OpError> {
        let old = self.lookup_as(db, key, Look::Write, ValueType::SortedSet)?;
        let (count_max, len_max) = self.limits.rows(ValueType::SortedSet);
        let outside = old.map(|old| Outside::of(self.heap.view(old.block)));
        let first_fits = || pairs.clone().next().is_none_or(|(_, member)| member.len() <= len_max);
        let mut given = Given { count: 0, pairs: self.effects.listening.then(Vec::new) };
        let result = if let Some(Outside::Big(index)) = outside {
            self.add_to_big_sorted(index, pairs, &mut decide, &mut given)
        } else if pairs.clone().count() > count_max || old.is_none() && !first_fits() {
            self.add_outgrown_sorted(db, key, old, pairs, &mut decide, &mut given)
        } else {
            self.add_to_packed_sorted(db, key, old, pairs, &mut decide, &mut given)
        };
        if given.count > 0 {
            let pairs = Strings::new(given.pairs.as_deref().unwrap_or_default());
            self.report_change(db, key, event, Change::SortedSetAdd { pairs }, given.count);
        }
        result
    }

    fn add_to_big_sorted<'p>(
        &mut self,
        index: u32,
        pairs: impl Iterator<Item = Scored<'p>>,
        decide: &mut impl FnMut(Option<f64>, f64) -> Result<Option<f64>, OpError>,
        given: &mut Given,
    ) -> Result<(), OpError> {
        self.heap.with_big(index, |big, heap| {
            let dict = big.dict_mut();
            for (score, member) in pairs {
                if let Some(score) = rescore(dict, heap, member, |old| decide(old, score))? {
                    given.add(score, member);
                }
            }
            Ok(())
        })
    }

    /// Adds what a packed sorted set, or none, has no room for.
    fn add_outgrown_sorted<'p>(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        pairs: impl Iterator<Item = Scored<'p>>,
        decide: &mut impl FnMut(Option<f64>, f64) -> Result<Option<f64>, OpError>,
        given: &mut Given,
    ) -> Result<(), OpError> {
        let index = self.make_big(db, key, old, ValueType::SortedSet)?;
        let result = self.add_to_big_sorted(index, pairs, decide, given);
        if self.heap.bigs.at(index).len() == 0 {
            let entry = self.find(db, key).expect("it was stored");
            self.unlink(db, key, entry);
            self.heap.free(entry.block);
        }
        result
    }

    fn add_to_packed_sorted<'p>(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<Entry>,
        mut pairs: impl Iterator<Item = Scored<'p>> + Clone,
        decide: &mut impl FnMut(Option<f64>, f64) -> Result<Option<f64>, OpError>,
        given: &mut Given,
    ) -> Result<(), OpError> {
        let limits = self.limits.rows(ValueType::SortedSet);
        let form = old.map_or(ROWS, |old| self.packed_form(old));
        let mut bytes = self.take_scratch(old);
        let mut result = Ok(());
        let mut outgrown = None;
        for (score, member) in pairs.by_ref() {
            let decide = |old| decide(old, score);
            match add_packed(&mut bytes, Shape::of(form), member, limits, decide) {
                Ok(Step::Left) => {}
                Ok(Step::Scored(score)) => given.add(score, member),
                Ok(Step::Outgrown(score)) => {
                    outgrown = Some((score, member));
                    break;
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        let mut stored = Ok(());
        if given.count > 0 {
            stored = self.store_packed(db, key, old, form, &bytes).map(drop);
        }
        self.give_scratch(bytes);
        if let Err(error) = stored {
            *given = Given { count: 0, pairs: None };
            return Err(error);
        }
        let Some(outgrown) = outgrown else { return result };
        let old = self.find(db, key);
        let once = std::iter::once(outgrown);
        self.add_outgrown_sorted(db, key, old, once, &mut |_, score| Ok(Some(score)), given)?;
        let entry = self.find(db, key).expect("a member was added");
        let index = self.heap.view(entry.block).outside_index();
        self.add_to_big_sorted(index, pairs, decide, given)
    }

    /// Takes the members in a range of ranks away, and the key with the last one. How many.
    ///
    /// # Errors
    /// [`OpError::WrongType`], [`OpError::OutOfMemory`]; nothing changed.
    pub fn sorted_set_remove_ranks(
        &mut self,
        db: usize,
        key: &Key<'_>,
        ranks: Range<usize>,
        event: Event,
    ) -> Result<usize, OpError> {
        let Some(entry) = self.lookup_as(db, key, Look::Write, ValueType::SortedSet)? else {
            return Ok(0);
        };
        let members = Members::of(&self.heap, entry.block);
        let len = members.len();
        let ranks = ranks.start..ranks.end.min(len);
        if ranks.is_empty() {
            return Ok(0);
        }
        let mut names = Vec::new();
        if self.effects.listening {
            members.each_ranked(ranks.clone(), false, |member| {
                member.name.with_text(|name| Strings::push(&mut names, name));
            });
        }
        // What goes as a whole is freed in steps.
        let emptied = ranks.len() == len;
        if !emptied {
            self.remove_some_ranks(db, key, entry, ranks.clone())?;
        }
        let change = Change::Remove { members: Strings::new(&names) };
        self.report_removal(db, key, event, change, ranks.len(), emptied);
        Ok(ranks.len())
    }

    fn remove_some_ranks(
        &mut self,
        db: usize,
        key: &Key<'_>,
        entry: Entry,
        ranks: Range<usize>,
    ) -> Result<(), OpError> {
        if let Outside::Big(index) = Outside::of(self.heap.view(entry.block)) {
            self.heap.with_big(index, |big, heap| {
                let dict = big.dict_mut();
                for _ in ranks.clone() {
                    dict.remove_at(heap, ranks.start);
                }
            });
            self.refresh_record(db, key, index);
            return Ok(());
        }
        let form = self.packed_form(entry);
        let shape = Shape::of(form);
        let mut bytes = self.take_scratch(Some(entry));
        let rows = Rows::new(shape, &bytes);
        let start = rows.offset_of(ranks.start);
        let end = rows.skip(start, ranks.len());
        bytes.drain(start..end);
        if shape.timed {
            packed::refresh_earliest(&mut bytes, shape);
        }
        let stored = self.store_packed(db, key, Some(entry), form, &bytes).map(drop);
        self.give_scratch(bytes);
        stored
    }

    /// Stores members that a command computed, in any order but each once, over whatever the key
    /// holds, without a time; without any the key goes.
    ///
    /// # Errors
    /// [`OpError::OutOfMemory`]; nothing changed.
    pub fn sorted_set_store(
        &mut self,
        db: usize,
        key: &Key<'_>,
        mut pairs: Vec<Scored<'_>>,
        event: Event,
    ) -> Result<(), OpError> {
        if pairs.is_empty() {
            self.delete(db, key, DeleteCause::Command);
            return Ok(());
        }
        pairs.sort_unstable_by(|a, b| in_order(*a, *b));
        let (count_max, len_max) = self.limits.rows(ValueType::SortedSet);
        if pairs.len() <= count_max && pairs.iter().all(|(_, member)| member.len() <= len_max) {
            pairs.iter_mut().for_each(|(score, _)| *score = as_packed(*score));
        }
        let value = pack(pairs.into_iter());
        let placed = Placed { form: ROWS, value: &value, expire_at: None };
        self.place_value(db, key, placed, Origin::Command(event))
    }
}

/// A score of a packed sorted set: as in Redis, -0 is 0 there.
fn as_packed(score: f64) -> f64 {
    if score == 0.0 { 0.0 } else { score }
}

/// Packs members that come in their order.
pub(crate) fn pack<'a>(pairs: impl Iterator<Item = Scored<'a>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (score, member) in pairs {
        let score = ScoreBytes::new(score);
        let row = Row { member: Element::parse(member), value: score.element(), expire_at: None };
        push_row(&mut bytes, Shape::of(ROWS), &row);
    }
    bytes
}

/// Gives a member of packed rows the score that `decide` answers.
fn add_packed(
    bytes: &mut Vec<u8>,
    shape: Shape,
    member: &[u8],
    (count_max, len_max): (usize, usize),
    decide: impl FnOnce(Option<f64>) -> Result<Option<f64>, OpError>,
) -> Result<Step, OpError> {
    let found = Rows::new(shape, bytes).find(member);
    let old = found.as_ref().map(|(_, row)| score_of(row.value));
    let Some(score) = decide(old)?.filter(|score| old != Some(*score)) else {
        return Ok(Step::Left);
    };
    let mut expire_at = None;
    match found {
        Some((range, row)) => {
            expire_at = row.expire_at;
            bytes.drain(range);
        }
        None if member.len() > len_max || Rows::new(shape, bytes).len() >= count_max => {
            return Ok(Step::Outgrown(score));
        }
        None => {}
    }
    let score = as_packed(score);
    let at = Rows::new(shape, bytes).place_of((score, member));
    let packed_score = ScoreBytes::new(score);
    let row = Row { member: Element::parse(member), value: packed_score.element(), expire_at };
    packed::replace(bytes, at..at, |out| push_row(out, shape, &row));
    if shape.timed {
        packed::refresh_earliest(bytes, shape);
    }
    Ok(Step::Scored(score))
}

/// Gives a member of a big sorted set the score that `decide` answers, and says which one it was if
/// anything changed.
fn rescore(
    dict: &mut Dict,
    heap: &mut Heap,
    member: &[u8],
    decide: impl FnOnce(Option<f64>) -> Result<Option<f64>, OpError>,
) -> Result<Option<f64>, OpError> {
    let entry = dict.find(heap, member);
    let cell = entry.map(|entry| dict.cell(&heap.slabs, entry.block));
    let (old, expire_at) = (cell.map(|cell| cell.score), cell.and_then(|cell| cell.expire_at));
    let Some(score) = decide(old)?.filter(|score| old != Some(*score)) else { return Ok(None) };
    let content = Content { member, value: &[], score, expire_at };
    match entry {
        Some(entry) => dict.replace(heap, entry, &content)?,
        None => dict.insert(heap, &content)?,
    };
    Ok(Some(score))
}
