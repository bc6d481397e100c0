//! A map in the order of its keys, in two levels: short sorted arrays in a ring.
//!
//! A key is found by two binary searches. What is added behind the last key, as nearly everything is
//! in a stream, fills arrays to the brim; an array that is full elsewhere is cut in halves. What is
//! taken from the front costs no move of the rest. The bytes that it takes are known without a walk,
//! which a B-tree map of the standard library does not tell.
//!
//! Invariants, checked by [`Ordered::validate`]: no array is empty; keys ascend; `len` and `bytes` are
//! the sums over the arrays.

use std::collections::VecDeque;

/// Entries of an array at most.
const CHUNK_MAX: usize = 64;
/// Neighbours that have as many together become one.
const JOIN_MAX: usize = CHUNK_MAX / 2;

/// See the top of the file.
pub(crate) struct Ordered<K, V> {
    chunks: VecDeque<Vec<(K, V)>>,
    len: usize,
    bytes: usize,
}

impl<K, V> Default for Ordered<K, V> {
    fn default() -> Self {
        Ordered { chunks: VecDeque::new(), len: 0, bytes: 0 }
    }
}

impl<K: Ord + Copy, V> Ordered<K, V> {
    /// Bytes of the elements of an array.
    fn bytes_of(chunk: &Vec<(K, V)>) -> usize {
        chunk.capacity() * size_of::<(K, V)>()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes beside the value itself.
    pub(crate) fn outside_bytes(&self) -> usize {
        self.bytes + self.chunks.capacity() * size_of::<Vec<(K, V)>>()
    }

    /// Where a key is; else where it would be, within an array that is there.
    fn locate(&self, key: K) -> Result<(usize, usize), (usize, usize)> {
        let after = self.chunks.partition_point(|chunk| chunk[0].0 <= key);
        let Some(at) = after.checked_sub(1) else { return Err((0, 0)) };
        let found = self.chunks[at].binary_search_by(|(other, _)| other.cmp(&key));
        found.map(|index| (at, index)).map_err(|index| (at, index))
    }

    pub(crate) fn get(&self, key: K) -> Option<&V> {
        let (at, index) = self.locate(key).ok()?;
        Some(&self.chunks[at][index].1)
    }

    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let (at, index) = self.locate(key).ok()?;
        Some(&mut self.chunks[at][index].1)
    }

    /// The last entry whose key is not after one.
    pub(crate) fn floor(&self, key: K) -> Option<(K, &V)> {
        self.iter_back(key).next()
    }

    pub(crate) fn first(&self) -> Option<(K, &V)> {
        let (key, value) = self.chunks.front()?.first()?;
        Some((*key, value))
    }

    pub(crate) fn last(&self) -> Option<(K, &V)> {
        let (key, value) = self.chunks.back()?.last()?;
        Some((*key, value))
    }

    /// All entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &V)> + Clone + use<'_, K, V> {
        self.chunks.iter().flatten().map(|(key, value)| (*key, value))
    }

    /// The entries whose keys are not before one.
    pub(crate) fn iter_from(
        &self,
        key: K,
    ) -> impl Iterator<Item = (K, &V)> + Clone + use<'_, K, V> {
        let (Ok((at, index)) | Err((at, index))) = self.locate(key);
        let chunks = self.chunks.iter().enumerate().skip(at);
        chunks.flat_map(move |(number, chunk)| {
            let rest = &chunk[if number == at { index } else { 0 }..];
            rest.iter().map(|(key, value)| (*key, value))
        })
    }

    /// The entries whose keys are not after one, the last one first.
    pub(crate) fn iter_back(
        &self,
        key: K,
    ) -> impl Iterator<Item = (K, &V)> + Clone + use<'_, K, V> {
        let (at, end) = match self.locate(key) {
            Ok((at, index)) => (at, index + 1),
            Err((at, index)) => (at, index),
        };
        let chunks = self.chunks.iter().enumerate().take(at + 1).rev();
        chunks.flat_map(move |(number, chunk)| {
            let rest = if number == at { &chunk[..end] } else { &chunk[..] };
            rest.iter().rev().map(|(key, value)| (*key, value))
        })
    }

    /// Puts a value under a key that is not there.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        let place = self.locate(key);
        debug_assert!(place.is_err(), "the key is not there");
        let (Ok((mut at, mut index)) | Err((mut at, mut index))) = place;
        self.len += 1;
        match self.chunks.get(at).map(Vec::len) {
            None => return self.add_chunk(at, key, value),
            Some(CHUNK_MAX) if at + 1 == self.chunks.len() && index == CHUNK_MAX => {
                return self.add_chunk(at + 1, key, value);
            }
            Some(CHUNK_MAX) => {
                let half = self.chunks[at].split_off(CHUNK_MAX / 2);
                self.bytes += Self::bytes_of(&half);
                self.chunks.insert(at + 1, half);
                if index > CHUNK_MAX / 2 {
                    (at, index) = (at + 1, index - CHUNK_MAX / 2);
                }
            }
            Some(_) => {}
        }
        let chunk = &mut self.chunks[at];
        let before = Self::bytes_of(chunk);
        if chunk.len() == chunk.capacity() {
            let more = (chunk.len() / 2).clamp(1, CHUNK_MAX - chunk.len());
            chunk.reserve_exact(more);
        }
        chunk.insert(index, (key, value));
        self.bytes = self.bytes + Self::bytes_of(chunk) - before;
    }

    fn add_chunk(&mut self, at: usize, key: K, value: V) {
        let chunk = vec![(key, value)];
        self.bytes += Self::bytes_of(&chunk);
        if self.chunks.is_empty() {
            self.chunks.reserve_exact(1);
        }
        self.chunks.insert(at, chunk);
    }

    /// Takes a key out with its value.
    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        let (at, index) = self.locate(key).ok()?;
        let (_, value) = self.chunks[at].remove(index);
        self.len -= 1;
        if self.chunks[at].is_empty() {
            self.remove_chunk(at);
        } else {
            self.join(at);
            if at > 0 {
                self.join(at - 1);
            }
        }
        Some(value)
    }

    fn remove_chunk(&mut self, at: usize) -> Vec<(K, V)> {
        let chunk = self.chunks.remove(at).expect("the caller names an array");
        self.bytes -= Self::bytes_of(&chunk);
        if self.chunks.is_empty() {
            self.chunks = VecDeque::new();
        }
        chunk
    }

    /// Makes an array and the next one a single one if they have become short.
    fn join(&mut self, at: usize) {
        let len = |at: usize| self.chunks.get(at).map_or(CHUNK_MAX, Vec::len);
        if len(at) + len(at + 1) > JOIN_MAX {
            return;
        }
        let second = self.remove_chunk(at + 1);
        let chunk = &mut self.chunks[at];
        let before = Self::bytes_of(chunk);
        chunk.reserve_exact(second.len());
        chunk.extend(second);
        self.bytes = self.bytes + Self::bytes_of(chunk) - before;
    }

    /// Takes out all entries of the last array; false without any.
    pub(crate) fn pop_chunk(&mut self, f: impl FnMut((K, V))) -> bool {
        let Some(last) = self.chunks.len().checked_sub(1) else { return false };
        let chunk = self.remove_chunk(last);
        self.len -= chunk.len();
        chunk.into_iter().for_each(f);
        true
    }

    /// Arrays.
    pub(crate) fn chunks_len(&self) -> usize {
        self.chunks.len()
    }

    /// The values of an array, to be changed.
    pub(crate) fn chunk_mut(&mut self, at: usize) -> impl Iterator<Item = &mut V> {
        self.chunks.get_mut(at).into_iter().flatten().map(|(_, value)| value)
    }

    /// Checks the sums and the order.
    ///
    /// # Panics
    /// When something does not agree.
    pub(crate) fn validate(&self) {
        assert!(self.chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK_MAX));
        assert_eq!(self.len, self.iter().count());
        assert_eq!(self.bytes, self.chunks.iter().map(Self::bytes_of).sum::<usize>());
        assert!(self.iter().zip(self.iter().skip(1)).all(|((a, _), (b, _))| a < b));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn it_is_a_map_in_order() {
        for (seed, spread) in
            (0..if cfg!(miri) { 1 } else { 6 }).zip([50, 300, 5000].iter().cycle())
        {
            let (mut rng, mut map, mut oracle) =
                (Rng::new(seed), Ordered::default(), BTreeMap::new());
            for i in 0..if cfg!(miri) { 200 } else { 4000 } {
                let key = rng.below(*spread);
                match rng.below(if i % 1000 < 500 { 3 } else { 7 }) {
                    0 | 1 if !oracle.contains_key(&key) => {
                        map.insert(key, i);
                        oracle.insert(key, i);
                    }
                    _ => assert_eq!(map.remove(key), oracle.remove(&key)),
                }
                let key = rng.below(*spread);
                assert_eq!(map.get(key), oracle.get(&key));
                let expected = oracle.range(key..).map(|(key, value)| (*key, value)).take(70);
                assert!(map.iter_from(key).take(70).eq(expected));
                let expected =
                    oracle.range(..=key).rev().map(|(key, value)| (*key, value)).take(70);
                assert!(map.iter_back(key).take(70).eq(expected));
                assert_eq!(map.first().map(|(key, _)| key), oracle.keys().next().copied());
                assert_eq!(map.last().map(|(key, _)| key), oracle.keys().next_back().copied());
                map.validate();
            }
            let mut left = 0;
            while map.pop_chunk(|_| left += 1) {}
            assert_eq!((left, map.outside_bytes()), (oracle.len(), 0));
        }
    }

    #[test]
    fn what_is_added_behind_fills_the_arrays() {
        let mut map = Ordered::default();
        (0..6400u64).for_each(|key| map.insert(key, ()));
        assert_eq!(map.chunks_len(), 100);
        assert_eq!(map.bytes, 6400 * 8);
    }
}
