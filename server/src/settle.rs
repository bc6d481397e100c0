//! What follows from changes of the keyspace: the one place where every write path ends.
//!
//! After each unit of work (a command, a transaction, a round of upkeep) the effects that the shares
//! at hand have written down are taken and handed to those who wait for them. A share writes them
//! down only while there is somebody.

use engine::Effect;

use crate::input::Core;
use crate::keyspace::Share;

impl Core {
    /// Hands the effects of the last unit of work on.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if self.keyspace.shards() == 1 {
            let changed = self.keyspace.own().is_some_and(Share::has_effects);
            if changed {
                self.settle_share(0);
            }
            return;
        }
        let shards: smallvec::SmallVec<[usize; 8]> = self
            .keyspace
            .held_mut()
            .filter(|(_, share)| share.has_effects())
            .map(|(shard, _)| shard)
            .collect();
        shards.into_iter().for_each(|shard| self.settle_share(shard));
    }

    #[cold]
    fn settle_share(&mut self, shard: usize) {
        let share = self.keyspace.share_mut(shard);
        share.dirty_watchers();
        let mut log = std::mem::take(&mut self.effects);
        share.partition.swap_effect_log(&mut log);
        let mut rest = &log[..];
        while let Ok((effect, after)) = Effect::decode(rest) {
            share.leases.heed(&effect);
            if self.state.hot.events.any() {
                self.state.notify(&effect);
            }
            rest = after;
        }
        log.clear();
        self.effects = log;
        if share.leases.has_void() {
            share.serve_fills(&mut self.state);
        }
        share.update_listening();
    }
}
