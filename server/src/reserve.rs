//! Who may have which shards' shares, and in what order.
//!
//! A shard that runs a command over several shards (its coordinator) enters all of them at once,
//! under one short lock. Each shard lends its share to the coordinators in the order of its queue,
//! and never waits for a share while its own is lent, so that there is no circle of waiting: of all
//! reservations the oldest finds itself at the head of every queue that it stands in.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::keyspace::ShardSet;

/// The queues of a process, by shard. A coordinator has one reservation at a time.
pub struct Reservations {
    queues: Mutex<Vec<VecDeque<u16>>>,
    /// Length of each queue, so that a shard looks at its own without the lock.
    lens: Vec<AtomicUsize>,
}

impl Reservations {
    /// Empty queues.
    pub fn new(shards: usize) -> Self {
        Self {
            queues: Mutex::new((0..shards).map(|_| VecDeque::new()).collect()),
            lens: (0..shards).map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    /// Puts a coordinator into the queues of some shards.
    pub fn enter(&self, coordinator: usize, set: &ShardSet) {
        let mut queues = self.queues.lock().expect("no panic under the lock");
        for shard in set.iter() {
            queues[shard].push_back(coordinator as u16);
            self.lens[shard].fetch_add(1, Ordering::Release);
        }
    }

    /// Whose turn it is to have a shard's share.
    #[inline]
    pub fn head(&self, shard: usize) -> Option<usize> {
        if self.lens[shard].load(Ordering::Acquire) == 0 {
            return None;
        }
        let queues = self.queues.lock().expect("no panic under the lock");
        queues[shard].front().map(|coordinator| usize::from(*coordinator))
    }

    /// Takes a coordinator that has had all its shares out of the queues.
    pub fn leave(&self, coordinator: usize, set: &ShardSet) {
        let mut queues = self.queues.lock().expect("no panic under the lock");
        for shard in set.iter() {
            let head = queues[shard].pop_front();
            assert_eq!(head, Some(coordinator as u16), "it was its turn");
            self.lens[shard].fetch_sub(1, Ordering::Release);
        }
    }
}
