//! Who has read which keys of a share, so that each is told once when a key changes.
//!
//! ```text
//! places: key -> number of its row        rows: | key, readers | key, readers | ...
//! ```
//!
//! Rows are numbered without gaps, so that any of them can be drawn with the same chance, and the
//! order of all follows from what was done: a simulation replays it. A client that is gone is not
//! looked for; its entries go when the key changes, or when a key's readers have doubled since the
//! last look at them. So readers that come and go never are more than twice those that are there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netback::ConnId;

/// A client that has read a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reader {
    /// Its number, which is never used again.
    pub(super) id: u64,
    /// Its shard.
    pub(super) home: u16,
    /// Its connection there.
    pub(super) conn: ConnId,
}

/// The readers of a key.
#[derive(Debug)]
pub(super) enum Readers {
    /// One, as most keys have.
    One(Reader),
    /// Several.
    Many(Box<Many>),
}

#[derive(Debug)]
pub(super) struct Many {
    readers: BTreeSet<Reader>,
    /// How many there were after the last look for those that are gone.
    swept_len: usize,
}

/// Fewer readers than this are not looked at.
const SWEEP_LEN_MIN: usize = 8;

impl Readers {
    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(many) => many.readers.len(),
        }
    }

    /// All, in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = Reader> + '_ {
        let (one, many) = match self {
            Self::One(reader) => (Some(*reader), None),
            Self::Many(many) => (None, Some(many.readers.iter().copied())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    fn add(&mut self, reader: Reader, is_there: impl Fn(u64) -> bool) {
        match self {
            Self::One(first) if *first == reader => {}
            Self::One(first) if !is_there(first.id) => *first = reader,
            Self::One(first) => {
                let readers = BTreeSet::from([*first, reader]);
                *self = Self::Many(Box::new(Many { readers, swept_len: 2 }));
            }
            Self::Many(many) => {
                many.readers.insert(reader);
                if many.readers.len() > 2 * many.swept_len.max(SWEEP_LEN_MIN / 2) {
                    many.readers.retain(|reader| is_there(reader.id));
                    many.swept_len = many.readers.len();
                }
            }
        }
    }
}

#[derive(Debug)]
struct Row {
    key: Arc<[u8]>,
    readers: Readers,
}

/// Who has read which keys of a share, in whatever database.
#[derive(Debug, Default)]
pub struct Tracked {
    places: BTreeMap<Arc<[u8]>, usize>,
    rows: Vec<Row>,
    /// Pairs of a key and a reader.
    items: usize,
}

impl Tracked {
    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Keys remembered.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Pairs of a key and a reader, some of them gone.
    pub fn items(&self) -> usize {
        self.items
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Remembers a reader; `is_there` tells by its number whether a client is still connected.
    pub(super) fn add(&mut self, key: &[u8], reader: Reader, is_there: impl Fn(u64) -> bool) {
        if let Some(place) = self.places.get(key) {
            let readers = &mut self.rows[*place].readers;
            let before = readers.len();
            readers.add(reader, is_there);
            self.items = self.items - before + readers.len();
            return;
        }
        let key: Arc<[u8]> = key.into();
        self.places.insert(Arc::clone(&key), self.rows.len());
        self.rows.push(Row { key, readers: Readers::One(reader) });
        self.items += 1;
    }

    /// Forgets a key; its readers come back.
    pub(super) fn take(&mut self, key: &[u8]) -> Option<Readers> {
        let place = self.places.remove(key)?;
        let row = self.rows.swap_remove(place);
        if let Some(moved) = self.rows.get(place) {
            *self.places.get_mut(&moved.key).expect("each row has a place") = place;
        }
        self.items -= row.readers.len();
        Some(row.readers)
    }

    /// Forgets the key that a random number draws; it comes back with its readers.
    pub(super) fn take_any(&mut self, random: u64) -> Option<(Arc<[u8]>, Readers)> {
        let len = self.rows.len() as u64;
        let row = self.rows.get(random.checked_rem(len)? as usize)?;
        let key = Arc::clone(&row.key);
        let readers = self.take(&key)?;
        Some((key, readers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(id: u64) -> Reader {
        Reader { home: 0, conn: ConnId { index: 1, generation: 1 }, id }
    }

    fn ids(readers: Option<Readers>) -> Vec<u64> {
        readers.map_or_else(Vec::new, |readers| readers.iter().map(|reader| reader.id).collect())
    }

    #[test]
    fn a_reader_is_told_once_of_each_key() {
        let mut tracked = Tracked::default();
        let always = |_| true;
        tracked.add(b"a", reader(1), always);
        tracked.add(b"a", reader(1), always);
        tracked.add(b"a", reader(2), always);
        tracked.add(b"b", reader(1), always);
        assert_eq!((tracked.len(), tracked.items()), (2, 3));
        assert_eq!(ids(tracked.take(b"a")), [1, 2]);
        assert!(tracked.take(b"a").is_none());
        assert_eq!((tracked.len(), tracked.items()), (1, 1));
    }

    #[test]
    fn readers_that_are_gone_do_not_pile_up() {
        let mut tracked = Tracked::default();
        for id in 0..10_000 {
            // The last reader and three old ones are connected.
            tracked.add(b"a", reader(id), |other| other + 1 >= id || other < 3);
            tracked.add(b"b", reader(id), |_| false);
            assert!(tracked.items() <= 2 * SWEEP_LEN_MIN, "{}", tracked.items());
        }
        let left = ids(tracked.take(b"a"));
        assert!(left.starts_with(&[0, 1, 2]) && left.ends_with(&[9999]), "{left:?}");
        assert_eq!(ids(tracked.take(b"b")), [9999]);
    }

    #[test]
    fn any_key_may_be_the_one_that_is_forgotten() {
        let mut random = 1u64;
        let mut first_drawn = BTreeSet::new();
        for _ in 0..200 {
            let mut tracked = Tracked::default();
            (0..10u64).for_each(|n| tracked.add(&n.to_le_bytes(), reader(n), |_| true));
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (key, readers) = tracked.take_any(random >> 33).expect("a key");
            let id = readers.iter().next().expect("its reader").id;
            assert_eq!(*key, id.to_le_bytes());
            first_drawn.insert(id);
            // All others are still found.
            for n in (0..10u64).filter(|n| *n != id) {
                assert_eq!(ids(tracked.take(&n.to_le_bytes())), [n]);
            }
            assert!(tracked.is_empty() && tracked.take_any(7).is_none());
            assert_eq!(tracked.items(), 0);
        }
        assert_eq!(first_drawn.len(), 10);
    }
}
