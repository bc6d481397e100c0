//! One shard's part of the keyspace: a plain value that whoever holds it may run commands on.
//!
//! It has no threads, files, sockets or clock of its own: the owner passes the time in with
//! [`Partition::set_now`] and calls [`Partition::maintain`] when it has time to spare.

use crate::access::{Access, AccessMode};
use crate::arena::{Arena, ArenaOptions};
use crate::big::Bigs;
use crate::block::{Head, ValueType, View, bytes_for, is_of, set_stamp};
use crate::collection::Limits;
use crate::database::Database;
use crate::effect::{DeleteCause, Effect, Effects};
use crate::error::{OpError, OutOfMemory};
use crate::heap::{Heap, Outside, hash_of};
use crate::key::{Key, KeyHasher};
use crate::large::Larges;
use crate::maintain::Upkeep;
use crate::memory::Memory;
use crate::slab::{BlockRef, Slabs};
use crate::table::Entry;

/// How a partition is set up; fixed for its life.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Numbered databases.
    pub databases: usize,
    /// Keep a table for each hash slot, as a cluster needs.
    pub hash_slots: bool,
    /// Tell the hash slots of keys, for an owner that has one partition of several.
    pub route: bool,
    /// Number of the shard, which scan cursors carry.
    pub shard: u8,
    /// Most bytes that the arena hands out; at most 64 GiB, 0 = that.
    pub arena_limit_bytes: usize,
    /// Ask the kernel for huge pages.
    pub huge_pages: bool,
    /// Seed of the key hash and of the dice.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            databases: 16,
            hash_slots: false,
            route: false,
            shard: 0,
            arena_limit_bytes: 0,
            huge_pages: false,
            seed: 0,
        }
    }
}

/// Counters since start or since [`Partition::reset_stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Lookups of reads that found their key.
    pub hits: u64,
    /// Lookups of reads that did not.
    pub misses: u64,
    /// Keys that went because their time was over.
    pub expired_keys: u64,
    /// Members and fields that went because their time was over.
    pub expired_members: u64,
    /// Largest delay of such a key in milliseconds, as far as upkeep found it.
    pub expire_lag_max_ms: u64,
    /// Blocks that compaction moved.
    pub blocks_moved: u64,
}

/// How a lookup counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// A read: counted, and the key is stamped as used.
    Read,
    /// A read that leaves the stamp alone.
    Peek,
    /// Not counted and not stamped.
    Silent,
    /// Stamped, but counted neither as hit nor as miss.
    Write,
}

/// See the top of the file.
pub struct Partition {
    pub(crate) heap: Heap,
    pub(crate) databases: Vec<Database>,
    pub(crate) access: Access,
    pub(crate) effects: Effects,
    pub(crate) stats: Stats,
    pub(crate) upkeep: Upkeep,
    pub(crate) hash_slots: bool,
    route: bool,
    pub(crate) shard: u8,
    pub(crate) now_ms: u64,
    /// Upkeep expires due keys. Lookups do so in any case.
    pub active_expire: bool,
    /// Reads leave access stamps alone (CLIENT NO-TOUCH).
    pub no_touch: bool,
    /// Up to where collections stay packed.
    pub limits: Limits,
    /// Room for packed values that are being changed.
    pub(crate) scratch: Vec<u8>,
}

/// Keys from which on commands prefetch: index and short values fill about half a megabyte.
const PREFETCH_KEYS_MIN: usize = 8192;

impl Partition {
    /// An empty partition at a time in milliseconds since 1970.
    ///
    /// # Errors
    /// The kernel gave no address range for the arena.
    pub fn new(options: &Options, now_ms: u64) -> Result<Partition, OutOfMemory> {
        let mut arena = ArenaOptions { huge_pages: options.huge_pages, ..ArenaOptions::default() };
        if options.arena_limit_bytes > 0 {
            arena.reserve_bytes = arena.reserve_bytes.min(options.arena_limit_bytes);
        }
        let slabs = Slabs::new(Arena::new(arena)?);
        let heap =
            Heap { slabs, larges: Larges::default(), bigs: Bigs::default(), seed: options.seed };
        let databases = (0..options.databases).map(|_| Database::new(options.hash_slots)).collect();
        let mut partition = Partition {
            heap,
            databases,
            access: Access::new(options.seed),
            effects: Effects::default(),
            stats: Stats::default(),
            upkeep: Upkeep::default(),
            hash_slots: options.hash_slots,
            route: options.hash_slots || options.route,
            shard: options.shard,
            now_ms: 0,
            active_expire: true,
            no_touch: false,
            limits: Limits::default(),
            scratch: Vec::new(),
        };
        partition.set_now(now_ms);
        Ok(partition)
    }

    /// Names a key: its keyed hash and, where slots are told apart, its slot. Partitions with one
    /// seed give a key one name.
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.key_hasher().key(bytes)
    }

    /// What names keys as [`Partition::key`] does, without the partition.
    #[inline]
    pub fn key_hasher(&self) -> KeyHasher {
        KeyHasher { seed: self.heap.seed, route: self.route }
    }

    /// Moves the clock to a time in milliseconds since 1970; it never goes back.
    #[inline]
    pub fn set_now(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        self.access.set_now(self.now_ms);
    }

    /// The clock.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Sets how access stamps are kept.
    pub fn set_access_mode(&mut self, mode: AccessMode) {
        self.access.mode = mode;
    }

    /// How access stamps are kept.
    pub fn access_mode(&self) -> AccessMode {
        self.access.mode
    }

    /// How many numbered databases there are.
    pub fn databases(&self) -> usize {
        self.databases.len()
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Sets the counters to zero.
    pub fn reset_stats(&mut self) {
        self.stats = Stats::default();
    }

    /// Effects reported so far; a command that left it alone changed nothing.
    #[inline]
    pub fn dirty(&self) -> u64 {
        self.effects.dirty
    }

    /// Starts or stops writing effects to the log that [`Partition::effect_log`] gives.
    pub fn listen(&mut self, on: bool) {
        self.effects.listening = on;
    }

    /// Starts or stops noting, among the effects, keys that were made and keys that a read missed.
    pub fn note(&mut self, on: bool) {
        self.effects.noting = on;
    }

    /// Encoded effects since the last [`Partition::clear_effect_log`].
    pub fn effect_log(&self) -> &[u8] {
        &self.effects.log
    }

    /// Forgets the encoded effects; the owner has taken them.
    pub fn clear_effect_log(&mut self) {
        self.effects.log.clear();
    }

    /// Swaps the effect log with an empty buffer of the owner.
    pub fn swap_effect_log(&mut self, buffer: &mut Vec<u8>) {
        std::mem::swap(&mut self.effects.log, buffer);
    }

    /// Whether prefetching pays: a database with few keys lies in the processor's cache anyway.
    #[inline]
    pub fn prefetch_pays(&self, db: usize) -> bool {
        self.databases[db].len >= PREFETCH_KEYS_MIN
    }

    /// Asks the processor to load the bucket of a key; the first step for a batch of commands.
    #[inline]
    pub fn prefetch_bucket(&self, db: usize, key: &Key<'_>) {
        if let Some(table) = self.databases[db].tables.get(key.slot) {
            table.prefetch_bucket(&self.heap.slabs, key.hash);
        }
    }

    /// Asks the processor to load the blocks that may be the key's; the second step.
    #[inline]
    pub fn prefetch_block(&self, db: usize, key: &Key<'_>) {
        if let Some(table) = self.databases[db].tables.get(key.slot) {
            table.prefetch_block(&self.heap.slabs, key.hash);
        }
    }

    /// Memory by use.
    pub fn memory(&self) -> Memory {
        let counters = self.heap.slabs.counters();
        let index: usize = self.databases.iter().map(Database::index_bytes).sum();
        let index = index + self.upkeep.index_bytes();
        let expire = self.databases.iter().map(|database| database.expires.bytes()).sum();
        let (large, effects) = (self.heap.larges.memory_bytes(), self.effects.log.capacity());
        let (blocks, collections) = (counters.live_bytes as usize, self.heap.bigs.memory_bytes());
        let dying = self.heap.larges.dying_bytes() + self.heap.bigs.dying_bytes();
        let index = index + collections;
        let outside = expire + large + effects + dying;
        Memory {
            blocks,
            index,
            expire,
            large,
            effects,
            dying,
            used: blocks + index + outside,
            committed: self.heap.slabs.arena.committed_bytes() + outside,
        }
    }

    /// The entry of a key, whether due or not.
    #[inline]
    pub(crate) fn find(&self, db: usize, key: &Key<'_>) -> Option<Entry> {
        Some(self.find_head(db, key)?.0)
    }

    /// The entry of a key with the head of its block, which is at hand when the key was compared.
    #[inline]
    fn find_head(&self, db: usize, key: &Key<'_>) -> Option<(Entry, Head)> {
        let table = self.databases[db].tables.get(key.slot)?;
        let mut head = Head::of(&[0; 4]);
        let entry = table.find(&self.heap.slabs, key.hash, |block| {
            head = Head::of(block);
            self.heap.holds(block, key.bytes)
        })?;
        Some((entry, head))
    }

    /// The entry of a key that lives; one that is due goes away on the way.
    #[inline]
    pub(crate) fn lookup(&mut self, db: usize, key: &Key<'_>, look: Look) -> Option<Entry> {
        let counted = matches!(look, Look::Read | Look::Peek);
        let Some((entry, head)) = self.find_head(db, key) else {
            self.missed(db, key, counted);
            return None;
        };
        if head.has_expire() && self.is_due(self.heap.view(entry.block)) {
            self.delete_entry(db, key, entry, DeleteCause::Expired);
            self.missed(db, key, counted);
            return None;
        }
        if head.may_have_times()
            && let Some(due) = self.expire_due_members(db, key, entry)
        {
            let Some(entry) = due else {
                self.missed(db, key, counted);
                return None;
            };
            // The block may be another one now.
            self.stats.hits += u64::from(counted);
            return Some(entry);
        }
        self.stats.hits += u64::from(counted);
        if matches!(look, Look::Read | Look::Write) && !self.no_touch {
            let stamp = head.stamp();
            let used = self.access.used(stamp);
            // The line stays clean while the stamp is the same.
            if used != stamp {
                set_stamp(self.heap.slabs.block_mut(entry.block), used);
            }
        }
        Some(entry)
    }

    /// As [`Partition::lookup`], for a value of one type.
    #[inline]
    pub(crate) fn lookup_as(
        &mut self,
        db: usize,
        key: &Key<'_>,
        look: Look,
        value_type: ValueType,
    ) -> Result<Option<Entry>, OpError> {
        let found = self.lookup(db, key, look);
        self.only(found, value_type)
    }

    /// Refuses an entry of another type.
    #[inline]
    pub(crate) fn only(
        &self,
        found: Option<Entry>,
        value_type: ValueType,
    ) -> Result<Option<Entry>, OpError> {
        match found {
            Some(entry) if !is_of(self.heap.slabs.block(entry.block), value_type) => {
                Err(OpError::WrongType)
            }
            found => Ok(found),
        }
    }

    #[inline]
    fn missed(&mut self, db: usize, key: &Key<'_>, counted: bool) {
        self.stats.misses += u64::from(counted);
        if counted && self.effects.noting {
            self.effects.note(&Effect::Missed { db: db as u32, key: key.bytes });
        }
    }

    #[inline]
    pub(crate) fn is_due(&self, view: View<'_>) -> bool {
        view.expire_at().is_some_and(|at_ms| at_ms < self.now_ms)
    }

    /// Takes a key out and reports it.
    #[cold]
    pub(crate) fn delete_entry(
        &mut self,
        db: usize,
        key: &Key<'_>,
        entry: Entry,
        cause: DeleteCause,
    ) {
        let expire_at = self.heap.view(entry.block).expire_at();
        self.effects.report(&Effect::Delete { db: db as u32, key: key.bytes, cause });
        self.stats.expired_keys += u64::from(cause == DeleteCause::Expired);
        if let Some(at_ms) = expire_at {
            self.databases[db].drop_expire(key, at_ms);
        }
        let members = self.heap.members_time(entry.block);
        self.retime_members(db, key, members, None);
        self.unlink(db, key, entry);
        self.heap.free(entry.block);
    }

    /// Takes an entry out of its table; the block and the expire record stay.
    pub(crate) fn unlink(&mut self, db: usize, key: &Key<'_>, entry: Entry) {
        self.databases[db].unlink(&mut self.heap.slabs, key, entry);
    }

    /// Enters a block under a key that the table does not have.
    pub(crate) fn link(
        &mut self,
        db: usize,
        key: &Key<'_>,
        block: BlockRef,
    ) -> Result<(), OutOfMemory> {
        self.databases[db].link(&mut self.heap, key, block)?;
        if self.effects.noting {
            self.effects.note(&Effect::Created { db: db as u32, key: key.bytes });
        }
        Ok(())
    }

    /// A block of at least `len` bytes; what waits to be freed is freed before giving up.
    #[inline]
    pub(crate) fn alloc(&mut self, len: usize) -> Result<BlockRef, OutOfMemory> {
        match self.heap.slabs.alloc(len) {
            Ok(block) => Ok(block),
            Err(_) => self.alloc_after_freeing(len),
        }
    }

    #[cold]
    fn alloc_after_freeing(&mut self, len: usize) -> Result<BlockRef, OutOfMemory> {
        self.free_everything_due();
        self.heap.slabs.alloc(len)
    }

    /// Makes the expire index agree with a block that changed.
    pub(crate) fn retime(&mut self, db: usize, key: &Key<'_>, old: Option<u64>, new: Option<u64>) {
        if old == new {
            return;
        }
        let database = &mut self.databases[db];
        if let Some(at_ms) = old {
            database.drop_expire(key, at_ms);
        }
        if let Some(at_ms) = new {
            database.add_expire(&self.heap, key, at_ms);
            self.upkeep.expire_added(at_ms);
        }
    }

    /// Makes the expire index agree with the earliest time among a key's members, which changed.
    pub(crate) fn retime_members(
        &mut self,
        db: usize,
        key: &Key<'_>,
        old: Option<u64>,
        new: Option<u64>,
    ) {
        let database = &mut self.databases[db];
        database.with_timed_members += usize::from(new.is_some());
        database.with_timed_members -= usize::from(old.is_some());
        self.retime(db, key, old, new);
    }

    /// Checks every relation between counters, tables, blocks and expire indexes. Slow.
    ///
    /// # Panics
    /// When one does not hold.
    pub fn validate(&self) {
        self.heap.slabs.validate();
        let seed = self.heap.seed;
        for database in &self.databases {
            let (mut len, mut volatile, mut with_timed_members) = (0, 0, 0);
            for table in database.tables.iter() {
                table.validate(&self.heap.slabs, &|block: &[u8]| hash_of(block, seed));
                len += table.len();
                table.for_each(&self.heap.slabs, |block| {
                    let view = self.heap.view(block);
                    let value_len = view.value().len();
                    let need = bytes_for(view.key(), view.expire_at(), value_len);
                    let class = crate::slab::block_bytes_for(need);
                    assert_eq!(class, self.heap.slabs.block_bytes(block), "the smallest class");
                    volatile += usize::from(view.expire_at().is_some());
                    with_timed_members += usize::from(self.heap.members_time(block).is_some());
                    if let Outside::Big(index) = Outside::of(view) {
                        self.heap.bigs.at(index).validate(&self.heap);
                    }
                });
            }
            assert_eq!(len, database.len);
            assert_eq!(with_timed_members, database.with_timed_members);
            assert_eq!(volatile + with_timed_members, database.expires.len());
        }
    }
}

const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Partition>();
};
