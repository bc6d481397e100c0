//! What follows from changes of the keyspace: the one place where every write path ends.
//!
//! After each unit of work (a command, a transaction, a round of upkeep) the effects that the shares
//! at hand have written down are taken and handed to those who wait for them. A share writes them
//! down only while there is somebody.

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
        share.partition.clear_effect_log();
        share.update_listening();
    }
}
