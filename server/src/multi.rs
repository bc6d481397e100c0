//! Transactions: what a client has queued, and the keys that it watches.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use crate::command::args::KeptArgs;
use crate::command::spec::flag;
use crate::command::table::Entry;
use crate::conn::Client;
use crate::input::Needs;

/// A key by its database and name.
pub type KeyName = (usize, Box<[u8]>);

/// Commands between MULTI and EXEC.
#[derive(Debug, Default)]
pub struct Multi {
    /// In their order.
    pub queued: Vec<Queued>,
    /// The shares that they need together.
    pub(crate) needs: Needs,
    /// One was refused, so EXEC will refuse all.
    pub aborted: bool,
    /// Bytes of all requests.
    pub bytes: usize,
    /// Memory that they take, beside their places in `queued`.
    kept_bytes: usize,
}

impl Multi {
    /// Queues a command, which needs these shares.
    pub(crate) fn push(&mut self, command: Queued, needs: Needs) {
        self.needs = self.needs.unite(needs);
        self.bytes += command.args.wire().len();
        self.kept_bytes += command.args.memory_bytes();
        self.queued.push(command);
    }

    /// Bytes of memory that the queued commands take.
    pub fn memory_bytes(&self) -> usize {
        self.queued.capacity() * size_of::<Queued>() + self.kept_bytes
    }
}

/// One queued command.
#[derive(Debug)]
pub struct Queued {
    /// Its request.
    pub args: KeptArgs,
    /// Its row.
    pub entry: &'static Entry,
}

/// The keys that a client watches. The mark is set by whoever changes one of them; dropping this
/// ends the watch, and the shares forget it in time.
#[derive(Debug, Default)]
pub struct Watch {
    /// A watched key has changed.
    dirty: Arc<AtomicBool>,
    /// The shares of the keys.
    pub(crate) needs: Needs,
    /// Database and name of each.
    pub keys: Vec<KeyName>,
}

impl Watch {
    /// Whether a watched key has changed.
    pub fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::Acquire)
    }
}

impl Client {
    /// The shares that EXEC needs: of the queued commands and of the watched keys.
    pub(crate) fn exec_needs(&self) -> Needs {
        let multi = self.multi.as_ref().map_or(Needs::Nothing, |multi| multi.needs);
        multi.unite(self.watch.as_ref().map_or(Needs::Nothing, |watch| watch.needs))
    }

    /// The queued commands, for the command that runs them.
    pub fn queue_of(&self, entry: &Entry) -> &[Queued] {
        let multi = self.multi.as_ref().filter(|_| entry.command.is(flag::RUNS_QUEUE));
        multi.map_or(&[], |multi| &multi.queued)
    }

    /// Whether EXEC would run the queued commands, as far as is known now.
    pub fn will_run_queue(&self) -> bool {
        let is_dirty = self.watch.as_ref().is_some_and(|watch| watch.is_dirty());
        !is_dirty && self.multi.as_ref().is_some_and(|multi| !multi.aborted)
    }

    /// Ends a transaction, and the watch with it.
    pub fn end_transaction(&mut self) {
        self.multi = None;
        self.watch = None;
    }
}

/// Who watches the keys of a share.
#[derive(Debug, Default)]
pub struct Watchers {
    keys: BTreeMap<KeyName, Vec<Weak<AtomicBool>>>,
    /// Keys after the last sweep; the next one comes when they have doubled.
    swept_len: usize,
}

/// Fewer watched keys than this are not swept.
const SWEEP_LEN_MIN: usize = 64;

impl Watchers {
    /// Keys that are watched, some by nobody any more.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no key is watched.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Has a client's watch know of changes of a key; one that is watched already stays so.
    pub(crate) fn add(&mut self, db: usize, key: &[u8], watch: &mut Watch) {
        if watch.keys.iter().any(|(other_db, other)| *other_db == db && **other == *key) {
            return;
        }
        watch.keys.push((db, key.into()));
        if self.keys.len() >= SWEEP_LEN_MIN.max(2 * self.swept_len) {
            self.sweep();
        }
        let watches = self.keys.entry((db, key.into())).or_default();
        watches.retain(|watch| watch.strong_count() > 0);
        watches.push(Arc::downgrade(&watch.dirty));
    }

    /// Forgets watches that have ended.
    pub fn sweep(&mut self) {
        self.keys.retain(|_, watches| {
            watches.retain(|watch| watch.strong_count() > 0);
            !watches.is_empty()
        });
        self.swept_len = self.keys.len();
    }

    /// Tells the watches of a key that it has changed.
    pub fn touch(&mut self, db: usize, key: &[u8]) {
        if self.keys.is_empty() {
            return;
        }
        if let Some(watches) = self.keys.remove(&(db, Box::from(key))) {
            mark(&watches);
        }
    }

    /// Tells the watches of all keys that `changed` says have changed.
    pub fn touch_all(&mut self, mut changed: impl FnMut(usize, &[u8]) -> bool) {
        self.keys.retain(|(db, key), watches| {
            let hit = changed(*db, key);
            if hit {
                mark(watches);
            }
            !hit
        });
    }
}

fn mark(watches: &[Weak<AtomicBool>]) {
    watches.iter().filter_map(Weak::upgrade).for_each(|dirty| dirty.store(true, Ordering::Release));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_reaches_the_watches_of_its_key_only() {
        let mut watchers = Watchers::default();
        let (mut a, mut b) = (Watch::default(), Watch::default());
        watchers.add(0, b"k", &mut a);
        watchers.add(1, b"k", &mut b);
        watchers.touch(0, b"other");
        assert!(!a.is_dirty() && !b.is_dirty());
        watchers.touch(0, b"k");
        assert!(a.is_dirty() && !b.is_dirty());
        watchers.touch_all(|db, _| db == 1);
        assert!(b.is_dirty());
        assert!(watchers.is_empty());
    }

    #[test]
    fn ended_watches_do_not_pile_up() {
        let mut watchers = Watchers::default();
        for round in 0..10_000u32 {
            watchers.add(0, &round.to_le_bytes(), &mut Watch::default());
            watchers.add(0, b"same", &mut Watch::default());
            assert!(watchers.keys.len() <= 2 * SWEEP_LEN_MIN);
        }
        assert!(watchers.keys[&(0, Box::from(&b"same"[..]))].len() <= 2);
    }
}
