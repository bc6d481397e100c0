//! Reading a sorted set in its order. Ranks count from 0 at the lowest score.

use std::cmp::Ordering;
use std::ops::Range;

use smallvec::SmallVec;

use super::{Scored, in_order};
use crate::members::{Body, Member, Members};
use crate::packed::{Rows, score_of};

impl<'a> Members<'a> {
    /// The members before the first one for which `is_before` is false; it must be true up to some
    /// rank and false from there on.
    pub fn rank_where(&self, mut is_before: impl FnMut(&Member<'a>) -> bool) -> usize {
        match self.body {
            Body::Packed(rows) => {
                rows.iter().take_while(|(_, row)| is_before(&self.member_of_row(row))).count()
            }
            Body::Big(dict) => dict.rank_where(self.heap, |row| is_before(&Member::of_cell(&row))),
            Body::Integers(_) => unreachable!("{NOT_SORTED}"),
        }
    }

    /// Rank and score of a member.
    pub fn rank(&self, name: &[u8]) -> Option<(usize, f64)> {
        match self.body {
            Body::Packed(rows) => {
                let (range, row) = rows.find(name)?;
                let rank = rows.iter().take_while(|(other, _)| other.start < range.start).count();
                Some((rank, score_of(row.value)))
            }
            Body::Big(dict) => {
                let entry = dict.find(self.heap, name)?;
                let score = dict.cell(&self.heap.slabs, entry.block).score;
                let is_before =
                    |other: Scored<'_>| in_order(other, (score, name)) == Ordering::Less;
                let rank = dict.rank_where(self.heap, |row| is_before((row.score, row.member)));
                Some((rank, score))
            }
            Body::Integers(_) => unreachable!("{NOT_SORTED}"),
        }
    }

    /// Calls `f` with the members in a range of ranks, from the highest rank down if `backward`.
    pub fn each_ranked(&self, ranks: Range<usize>, backward: bool, mut f: impl FnMut(Member<'a>)) {
        match self.body {
            Body::Packed(rows) => {
                let mut place = rows.offset_of(ranks.start);
                let mut offsets: SmallVec<[usize; 128]> = SmallVec::new();
                for _ in ranks.start..ranks.end {
                    if place >= rows.end() {
                        break;
                    }
                    let (row, next) = rows.read(place);
                    if backward {
                        offsets.push(place);
                    } else {
                        f(self.member_of_row(&row));
                    }
                    place = next;
                }
                for place in offsets.into_iter().rev() {
                    f(self.member_of_row(&rows.read(place).0));
                }
            }
            Body::Big(dict) => {
                dict.each_ranked(self.heap, ranks, backward, |row| f(Member::of_cell(&row)));
            }
            Body::Integers(_) => unreachable!("{NOT_SORTED}"),
        }
    }

    /// Calls `f` with the members from a rank on, until it answers false.
    pub fn each_from(&self, rank: usize, mut f: impl FnMut(Member<'a>) -> bool) {
        match self.body {
            Body::Packed(rows) => {
                let mut place = rows.offset_of(rank);
                while place < rows.end() {
                    let (row, next) = rows.read(place);
                    if !f(self.member_of_row(&row)) {
                        return;
                    }
                    place = next;
                }
            }
            Body::Big(dict) => dict.each_from(self.heap, rank, |row| f(Member::of_cell(&row))),
            Body::Integers(_) => unreachable!("{NOT_SORTED}"),
        }
    }
}

const NOT_SORTED: &str = "integers are packed so in sets only";

impl Rows<'_> {
    /// Where a sorted set's rows end.
    pub(super) fn end(self) -> usize {
        self.shape.start() + self.bytes_len()
    }

    /// Where the row with a rank starts, or the end.
    pub(super) fn offset_of(self, rank: usize) -> usize {
        self.skip(self.shape.start(), rank)
    }

    /// Where the row starts that comes so many rows after the one at an offset, or the end.
    pub(super) fn skip(self, mut offset: usize, rows: usize) -> usize {
        for _ in 0..rows {
            if offset >= self.end() {
                break;
            }
            offset = self.next_of(offset);
        }
        offset
    }

    /// Where a member that is not there belongs.
    pub(super) fn place_of(self, scored: Scored<'_>) -> usize {
        for (range, row) in self.iter() {
            let mut room = [0; 20];
            let other = (score_of(row.value), row.member.text(&mut room));
            if in_order(other, scored) == Ordering::Greater {
                return range.start;
            }
        }
        self.end()
    }
}
