//! What follows from changes of the keyspace: the one place where every write path ends.
//!
//! The effects that the shares at hand have written down are taken and handed to those who wait for
//! them: watchers, clients that track, subscribers. A share writes them down only while there is
//! somebody. Clients that wait for keys are served when the whole unit of work (a command, a
//! transaction, a round of upkeep) is over.

use engine::Effect;

use crate::keyspace::{Keyspace, Share};
use crate::multi::KeyName;
use crate::state::ShardState;

impl Keyspace {
    /// Hands on what has changed since the last call, that of the selected share first.
    #[inline]
    pub fn settle(&mut self, state: &mut ShardState) {
        if self.shards() == 1 {
            if self.own().is_some_and(Share::has_effects) {
                self.share_mut(0).settle(state);
            }
            return;
        }
        let selected = self.selected();
        if self.has(selected) && self.share_mut(selected).has_effects() {
            self.share_mut(selected).settle(state);
        }
        if self.has_borrowed() {
            for (_, share) in self.held_mut().filter(|(_, share)| share.has_effects()) {
                share.settle(state);
            }
        }
    }

    /// Serves those who wait for keys that are ready.
    #[inline]
    pub fn serve(&mut self, state: &mut ShardState) {
        if self.shards() == 1 || !self.has_borrowed() {
            if self.own().is_some_and(Share::has_ready) {
                self.serve_ready(state);
            }
        } else if self.held_mut().any(|(_, share)| share.has_ready()) {
            self.serve_ready(state);
        }
    }

    /// Serves until nothing is ready any more: who is served may make other keys ready.
    #[cold]
    fn serve_ready(&mut self, state: &mut ShardState) {
        loop {
            let ready: Vec<(usize, [Vec<KeyName>; 3])> = self
                .held_mut()
                .filter(|(_, share)| share.has_ready())
                .map(|(shard, share)| {
                    if share.leases.has_void() {
                        share.serve_fills(state);
                    }
                    let lists = share.list_waiters.take_ready();
                    let sorted_sets = share.sorted_set_waiters.take_ready();
                    (shard, [lists, sorted_sets, share.stream_waiters.take_ready()])
                })
                .collect();
            if ready.is_empty() {
                return;
            }
            for (shard, [lists, sorted_sets, streams]) in ready {
                for (db, name) in lists {
                    self.serve_lists(state, shard, db, &name);
                }
                for (db, name) in sorted_sets {
                    self.serve_sorted_sets(state, shard, db, &name);
                }
                for (db, name) in streams {
                    self.serve_streams(state, shard, db, &name);
                }
            }
            for (_, share) in self.held_mut().filter(|(_, share)| share.has_effects()) {
                share.settle(state);
            }
        }
    }
}

impl Share {
    /// Whether somebody who waits is to be looked after.
    fn has_ready(&self) -> bool {
        self.leases.has_void()
            || self.list_waiters.has_ready()
            || self.sorted_set_waiters.has_ready()
            || self.stream_waiters.has_ready()
    }

    #[cold]
    fn settle(&mut self, state: &mut ShardState) {
        let mut log = std::mem::take(&mut state.effects);
        self.partition.swap_effect_log(&mut log);
        let mut rest = &log[..];
        while let Ok((effect, after)) = Effect::decode(rest) {
            self.leases.heed(&effect);
            self.list_waiters.heed(&effect);
            self.sorted_set_waiters.heed(&effect);
            self.stream_waiters.heed(&effect);
            if effect.is_watched() {
                for (db, key) in effect.keys() {
                    self.watchers.touch(db, key);
                    state.key_changed(self, key);
                }
            }
            if state.hot.events.any() {
                state.notify(&effect);
            }
            rest = after;
        }
        log.clear();
        state.effects = log;
        self.update_listening();
    }
}
