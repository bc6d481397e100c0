//! The keyspace as a shard sees it: its own share, and those that other shards have lent to it.
//!
//! A share is a value that moves: a command over several shards runs where all their shares are
//! (see [`crate::reserve`]), as if the process had one shard only.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use engine::{HASH_SLOTS, Key, KeyHasher, Partition};

use crate::blocking::{Pop, PopScored, Waiters};
use crate::command::stream::Read;
use crate::fill::Leases;
use crate::multi::{KeyName, Watchers};
use crate::state::ShardState;
use crate::tracking::Tracked;

/// The most shards that a process may have.
pub const SHARDS_MAX: usize = 256;

/// A set of shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardSet([u64; SHARDS_MAX / 64]);

impl ShardSet {
    /// The first `shards` shards.
    pub fn all(shards: usize) -> Self {
        let mut set = Self::default();
        (0..shards).for_each(|shard| set.insert(shard));
        set
    }

    /// One shard.
    pub fn one(shard: usize) -> Self {
        let mut set = Self::default();
        set.insert(shard);
        set
    }

    /// Adds a shard.
    pub fn insert(&mut self, shard: usize) {
        self.0[shard / 64] |= 1 << (shard % 64);
    }

    /// Takes a shard out.
    pub fn remove(&mut self, shard: usize) {
        self.0[shard / 64] &= !(1 << (shard % 64));
    }

    /// Adds all shards of another set.
    pub fn unite(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
    }

    /// Whether a shard is in it.
    pub fn contains(&self, shard: usize) -> bool {
        self.0[shard / 64] >> (shard % 64) & 1 == 1
    }

    /// Whether it has no shard.
    pub fn is_empty(&self) -> bool {
        self.0 == Self::default().0
    }

    /// The shards in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        let words = self.0;
        (0..SHARDS_MAX).filter(move |shard| words[shard / 64] >> (shard % 64) & 1 == 1)
    }
}

/// The shard that owns a hash slot: slots lie in contiguous ranges.
#[inline]
pub fn shard_of(slot: u16, shards: usize) -> usize {
    usize::from(slot) * shards / HASH_SLOTS
}

/// The hash slots that a shard owns.
pub fn slots_of(shard: usize, shards: usize) -> std::ops::Range<usize> {
    (shard * HASH_SLOTS).div_ceil(shards)..((shard + 1) * HASH_SLOTS).div_ceil(shards)
}

/// What commands on the keys of one hash slot have used.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlotStats {
    /// Cycles.
    pub cycles: u64,
    /// Bytes of requests.
    pub bytes_in: u64,
    /// Bytes of replies.
    pub bytes_out: u64,
}

/// One shard's part of the keyspace, with all that hangs on its keys.
pub struct Share {
    /// The keys.
    pub partition: Partition,
    /// Who watches keys.
    pub watchers: Watchers,
    /// Who waits for keys that others fill, with the milliseconds of a lease.
    pub waiters: Waiters<u64>,
    /// Who waits for lists.
    pub list_waiters: Waiters<Arc<Pop>>,
    /// Who waits for sorted sets.
    pub sorted_set_waiters: Waiters<PopScored>,
    /// Who waits for entries of streams.
    pub stream_waiters: Waiters<Arc<Read>>,
    /// Who has read keys and is to hear of changes.
    pub tracked: Tracked,
    /// Who may fill keys.
    pub leases: Leases,
    /// Use of the hash slots, if it is counted.
    slot_stats: Vec<SlotStats>,
    /// Effects are published or told to clients beside those that wait for a key.
    pub is_notified: bool,
    /// Version of the configuration that the partition follows.
    pub config_version: u64,
    /// Version of the counters that the partition's belong to.
    pub stats_version: u64,
}

impl Share {
    /// A share of a partition that nobody watches yet.
    pub fn new(partition: Partition) -> Self {
        Self {
            partition,
            watchers: Watchers::default(),
            tracked: Tracked::default(),
            waiters: Waiters::default(),
            list_waiters: Waiters::default(),
            sorted_set_waiters: Waiters::default(),
            stream_waiters: Waiters::default(),
            leases: Leases::default(),
            slot_stats: Vec::new(),
            is_notified: false,
            config_version: 0,
            stats_version: 1,
        }
    }

    /// Counts what a command on the keys of a hash slot has used.
    #[cold]
    pub fn count_use(&mut self, slot: u16, used: SlotStats) {
        if self.slot_stats.is_empty() {
            self.slot_stats = vec![SlotStats::default(); HASH_SLOTS];
        }
        let sum = &mut self.slot_stats[usize::from(slot)];
        sum.cycles += used.cycles;
        sum.bytes_in += used.bytes_in;
        sum.bytes_out += used.bytes_out;
    }

    /// What commands on the keys of a hash slot have used.
    pub fn slot_stats(&self, slot: u16) -> SlotStats {
        self.slot_stats.get(usize::from(slot)).copied().unwrap_or_default()
    }

    /// Whether effects have been written down.
    #[inline]
    pub fn has_effects(&self) -> bool {
        !self.partition.effect_log().is_empty() || self.leases.has_void()
    }

    /// Empties all databases.
    pub fn flush_all(&mut self) {
        let partition = &mut self.partition;
        self.watchers.touch_all(|db, key| partition.holds(db, &partition.key(key)));
        self.partition.flush_all();
        self.tracked.clear();
    }

    /// Empties a database.
    pub fn flush_db(&mut self, db: usize) {
        let partition = &mut self.partition;
        self.watchers
            .touch_all(|other, key| other == db && partition.holds(db, &partition.key(key)));
        self.partition.flush_db(db);
        self.tracked.clear();
    }

    /// Makes two databases change places.
    pub fn swap_db(&mut self, a: usize, b: usize) {
        if a == b {
            return;
        }
        let partition = &mut self.partition;
        self.watchers.touch_all(|db, key| {
            let key = partition.key(key);
            (db == a || db == b) && (partition.holds(a, &key) || partition.holds(b, &key))
        });
        self.partition.swap_db(a, b);
    }

    /// Makes it follow the configuration of a shard.
    pub fn configure(&mut self, state: &ShardState) {
        self.config_version = state.config_version;
        crate::start::configure_partition(&mut self.partition, &state.config);
        self.is_notified = state.hot.events.any() || !state.process.prefixes.is_empty();
        self.partition.note(state.hot.events.need_notes());
        self.update_listening();
    }

    /// How many keys clients wait for.
    pub fn awaited_keys(&self) -> usize {
        let lists = self.list_waiters.awaited(|_| true);
        let sorted_sets = self.sorted_set_waiters.awaited(|_| true);
        let streams = self.stream_waiters.awaited(|_| true);
        let others = lists.chain(sorted_sets).chain(streams);
        let names: BTreeSet<&KeyName> = self.waiters.awaited(|_| true).chain(others).collect();
        names.len()
    }

    /// Has the partition write its effects down if anybody wants to know of them.
    pub fn update_listening(&mut self) {
        let is_awaited =
            !self.watchers.is_empty() || !self.leases.is_empty() || !self.tracked.is_empty();
        let is_awaited = is_awaited
            || !self.list_waiters.is_empty()
            || !self.sorted_set_waiters.is_empty()
            || !self.stream_waiters.is_empty();
        self.partition.listen(self.is_notified || is_awaited);
    }
}

/// The shares that a shard has at hand; see the top of the file. Dereferences to the partition
/// that the command at hand works on, which dispatch selects by its first key.
pub struct Keyspace {
    own: usize,
    selected: usize,
    shares: Vec<Option<Box<Share>>>,
    hasher: KeyHasher,
    databases: usize,
    /// Whether reads leave access stamps alone, in all shares.
    no_touch: bool,
    /// Shares of other shards that are here.
    borrowed: usize,
    /// Commands on all keys mean the own share only (`port-mode per-shard`).
    pub own_only: bool,
}

impl Keyspace {
    /// The keyspace of shard `own` of `shards`, which has its own share.
    pub fn new(own: usize, shards: usize, share: Share) -> Self {
        let (hasher, databases) = (share.partition.key_hasher(), share.partition.databases());
        let mut all: Vec<Option<Box<Share>>> = (0..shards).map(|_| None).collect();
        all[own] = Some(Box::new(share));
        Self {
            own,
            selected: own,
            shares: all,
            hasher,
            databases,
            no_touch: false,
            borrowed: 0,
            own_only: false,
        }
    }

    /// How many shards the process has.
    #[inline]
    pub fn shards(&self) -> usize {
        self.shares.len()
    }

    /// The shard whose keyspace this is.
    pub fn own_shard(&self) -> usize {
        self.own
    }

    /// How many numbered databases there are.
    pub fn databases(&self) -> usize {
        self.databases
    }

    /// Names a key; needs no share.
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.hasher.key(bytes)
    }

    /// The shard that owns a key.
    #[inline]
    pub fn owner(&self, key: &Key<'_>) -> usize {
        if self.shares.len() == 1 { 0 } else { shard_of(key.slot, self.shares.len()) }
    }

    /// Makes the share of a shard the one that commands work on.
    #[inline]
    pub fn select(&mut self, shard: usize) {
        self.selected = shard;
    }

    /// The shard whose share is selected.
    pub fn selected(&self) -> usize {
        self.selected
    }

    /// Whether a shard's share is here.
    #[inline]
    pub fn has(&self, shard: usize) -> bool {
        self.shares[shard].is_some()
    }

    /// Whether all of the shards' shares are here.
    pub fn has_all(&self, set: &ShardSet) -> bool {
        set.iter().all(|shard| self.has(shard))
    }

    /// Gives a share away.
    pub fn take(&mut self, shard: usize) -> Option<Box<Share>> {
        let share = self.shares[shard].take();
        self.borrowed -= usize::from(share.is_some() && shard != self.own);
        share
    }

    /// Whether shares of other shards are here.
    #[inline]
    pub fn has_borrowed(&self) -> bool {
        self.borrowed > 0
    }

    /// Takes a share in.
    pub fn put(&mut self, shard: usize, mut share: Box<Share>) {
        share.partition.no_touch = self.no_touch;
        self.borrowed += usize::from(shard != self.own);
        let before = self.shares[shard].replace(share);
        debug_assert!(before.is_none(), "a share is in one place");
    }

    /// Sets whether reads leave access stamps alone (CLIENT NO-TOUCH).
    #[inline]
    pub fn set_no_touch(&mut self, on: bool) {
        if self.no_touch != on {
            self.no_touch = on;
            self.held_mut().for_each(|(_, share)| share.partition.no_touch = on);
        }
    }

    /// The shard's own share, unless it is lent.
    #[inline]
    pub fn own(&self) -> Option<&Share> {
        self.shares[self.own].as_deref()
    }

    /// The shard's own share, unless it is lent.
    #[inline]
    pub fn own_mut(&mut self) -> Option<&mut Share> {
        self.shares[self.own].as_deref_mut()
    }

    /// The partition of a key, whose share is here.
    #[inline]
    pub fn of(&mut self, key: &Key<'_>) -> &mut Partition {
        &mut self.share_of(key).partition
    }

    /// The share of a key, which is here.
    #[inline]
    pub fn share_of(&mut self, key: &Key<'_>) -> &mut Share {
        self.share_mut(self.owner(key))
    }

    /// The partition of a key to be looked at, whose share is here.
    pub fn view_of(&self, key: &Key<'_>) -> &Partition {
        &self.share(self.owner(key)).partition
    }

    /// The partitions of two keys, `None` where it is one and the same.
    pub fn pair(&mut self, a: &Key<'_>, b: &Key<'_>) -> Option<(&mut Partition, &mut Partition)> {
        let owners = [self.owner(a), self.owner(b)];
        let [a, b] = self.shares.get_disjoint_mut(owners).ok()?;
        Some((&mut here(a).partition, &mut here(b).partition))
    }

    /// All partitions that a command on the whole keyspace means, with their shards.
    pub fn all(&self) -> impl Iterator<Item = (usize, &Partition)> {
        self.scope().map(|shard| (shard, &self.share(shard).partition))
    }

    /// All shares that a command on the whole keyspace means, to be changed.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Share> {
        let scope = self.scope();
        self.shares[scope].iter_mut().map(|share| &mut **here(share))
    }

    fn scope(&self) -> std::ops::Range<usize> {
        if self.own_only { self.own..self.own + 1 } else { 0..self.shares.len() }
    }

    /// The selected share.
    #[inline]
    pub fn selected_share(&mut self) -> &mut Share {
        self.share_mut(self.selected)
    }

    /// Every share that is here.
    pub fn held_mut(&mut self) -> impl Iterator<Item = (usize, &mut Share)> {
        let shares = self.shares.iter_mut().enumerate();
        shares.filter_map(|(shard, share)| Some((shard, share.as_deref_mut()?)))
    }

    /// The share of a shard to be looked at, which is here.
    #[inline]
    pub fn share(&self, shard: usize) -> &Share {
        self.shares[shard].as_deref().expect(NOT_HERE)
    }

    /// The share of a shard, which is here.
    #[inline]
    pub fn share_mut(&mut self, shard: usize) -> &mut Share {
        self.shares[shard].as_deref_mut().expect(NOT_HERE)
    }
}

/// Dispatch runs a command only where the shares of its keys are.
const NOT_HERE: &str = "a command runs where the shares of its keys are";

fn here(share: &mut Option<Box<Share>>) -> &mut Box<Share> {
    share.as_mut().expect(NOT_HERE)
}

impl Deref for Keyspace {
    type Target = Partition;

    #[inline]
    fn deref(&self) -> &Partition {
        &self.share(self.selected).partition
    }
}

impl DerefMut for Keyspace {
    #[inline]
    fn deref_mut(&mut self) -> &mut Partition {
        &mut self.share_mut(self.selected).partition
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_the_owner_whose_range_holds_it() {
        for shards in [1, 2, 3, 7, 16, 255, 256] {
            let mut next = 0;
            for shard in 0..shards {
                let range = slots_of(shard, shards);
                assert_eq!(range.start, next);
                next = range.end;
                assert!(range.clone().all(|slot| shard_of(slot as u16, shards) == shard));
            }
            assert_eq!(next, HASH_SLOTS);
        }
    }

    #[test]
    fn sets_of_shards() {
        let mut set = ShardSet::one(200);
        set.unite(ShardSet::all(2));
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 200]);
        set.remove(200);
        set.remove(0);
        assert!(set.contains(1) && !set.contains(200));
        assert_eq!(set, ShardSet::one(1));
        set.remove(1);
        assert!(set.is_empty());
    }
}
