//! Walks over the keys of a database: SCAN, KEYS, RANDOMKEY, the keys of a hash slot.

use crate::block::ValueType;
use crate::database::Tables;
use crate::effect::DeleteCause;
use crate::partition::Partition;
use crate::slab::BlockRef;
use crate::table::ScanPosition;

/// A place in a scan, as clients see it.
///
/// ```text
/// bits 22..54 position in the table | 8..22 hash slot | 0..8 shard
/// ```
///
/// 0 is the start and the end. The number stays below 2^63, which every client can read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCursor {
    /// Position in the order of hash prefixes.
    pub position: u32,
    /// Hash slot; 0 where tables are not per hash slot.
    pub slot: u16,
    /// Shard.
    pub shard: u8,
}

impl ScanCursor {
    /// The number that a client gets.
    pub fn encode(self) -> u64 {
        u64::from(self.position) << 22 | u64::from(self.slot) << 8 | u64::from(self.shard)
    }

    /// Reads a client's number; whatever it is, it names some place.
    pub fn decode(cursor: u64) -> ScanCursor {
        ScanCursor {
            position: (cursor >> 22) as u32,
            slot: (cursor >> 8) as u16 & 0x3fff,
            shard: cursor as u8,
        }
    }
}

/// Buckets and empty tables that one call visits for each key asked for.
const VISITS_PER_KEY: usize = 10;

impl Partition {
    /// Calls `f` with keys and types from a cursor on until at least `count` were found or many
    /// buckets visited, and gives the cursor to go on with; 0 at the end of this shard.
    ///
    /// A key that is there from the first call to the last is given at least once.
    pub fn scan(
        &self,
        db: usize,
        cursor: u64,
        count: usize,
        mut f: impl FnMut(&[u8], ValueType),
    ) -> u64 {
        self.scan_with_due(db, cursor, count, |key, value_type, due| {
            if !due {
                f(key, value_type);
            }
        })
    }

    /// As [`Partition::scan`], but `f` also gets the keys whose time is over and that are still
    /// there; its last argument tells them. A look at such a key lets it go.
    pub fn scan_with_due(
        &self,
        db: usize,
        cursor: u64,
        count: usize,
        mut f: impl FnMut(&[u8], ValueType, bool),
    ) -> u64 {
        let ScanCursor { position, slot, .. } = ScanCursor::decode(cursor);
        let tables = &self.databases[db].tables;
        let (mut slot, mut position) = (slot as usize, ScanPosition(position));
        let (mut found, mut visits) = (0, 0);
        let visits_max = count.saturating_mul(VISITS_PER_KEY);
        while found < count && visits < visits_max {
            if slot >= tables.count() {
                return 0;
            }
            let next = tables.get(slot as u16).and_then(|table| {
                visits += 1;
                table.scan(&self.heap.slabs, position, |block| {
                    let view = self.heap.view(block);
                    f(self.heap.key_bytes(view.key()), view.value_type(), self.is_due(view));
                    found += 1;
                })
            });
            (slot, position) = match next {
                Some(position) => (slot, position),
                None => (slot + 1, ScanPosition(0)),
            };
        }
        if slot >= tables.count() {
            return 0;
        }
        ScanCursor { position: position.0, slot: slot as u16, shard: self.shard }.encode()
    }

    /// Shows the key of a block unless its time is over.
    fn show(&self, block: BlockRef, f: &mut impl FnMut(&[u8], ValueType)) -> bool {
        let view = self.heap.view(block);
        let shown = !self.is_due(view);
        if shown {
            f(self.heap.key_bytes(view.key()), view.value_type());
        }
        shown
    }

    /// Calls `f` with every key of a database and its type.
    pub fn for_each_key(&self, db: usize, mut f: impl FnMut(&[u8], ValueType)) {
        for table in self.databases[db].tables.iter() {
            table.for_each(&self.heap.slabs, |block| {
                self.show(block, &mut f);
            });
        }
    }

    /// Calls `f` with up to `count` keys of a hash slot.
    pub fn for_each_key_in_slot(
        &self,
        db: usize,
        slot: u16,
        count: usize,
        mut f: impl FnMut(&[u8]),
    ) {
        let mut left = count;
        let mut at = Some(ScanPosition(0));
        while let (Some(position), Some(table)) = (at, self.databases[db].tables.get(slot)) {
            at = table.scan(&self.heap.slabs, position, |block| {
                if left > 0 && self.show(block, &mut |key: &[u8], _: ValueType| f(key)) {
                    left -= 1;
                }
            });
            if left == 0 {
                return;
            }
        }
    }

    /// Puts a random key of a database into `out`; false when there is none. `word` is a random
    /// number. Keys whose time is over go away on the way.
    pub fn random_key(&mut self, db: usize, word: u64, out: &mut Vec<u8>) -> bool {
        let mut word = word;
        while let Some(block) = self.random_block(db, word) {
            let view = self.heap.view(block);
            out.clear();
            out.extend_from_slice(self.heap.key_bytes(view.key()));
            if !self.is_due(view) {
                return true;
            }
            let key = self.key(out);
            self.delete(db, &key, DeleteCause::Expired);
            word = word.rotate_left(17).wrapping_add(0x9e37_79b9_7f4a_7c15);
        }
        false
    }

    fn random_block(&self, db: usize, word: u64) -> Option<BlockRef> {
        let database = &self.databases[db];
        let table = match &database.tables {
            Tables::One(table) => table,
            Tables::Slots(tables) => {
                // The hash slot of a random key, so that each key has the same chance.
                let mut rank = (((word >> 32) * database.len as u64) >> 32) as usize;
                tables.iter().filter_map(Option::as_deref).find(|table| {
                    let here = rank < table.len();
                    rank = rank.saturating_sub(table.len());
                    here
                })?
            }
        };
        table.random(&self.heap.slabs, word)
    }
}
