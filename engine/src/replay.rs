//! Applying effects: what recovery and replication do.

use crate::collection::Placed;
use crate::effect::{Change, Effect, Event};
use crate::error::OpError;
use crate::key::Key;
use crate::partition::Partition;
use crate::string::{Changed, SetCondition, SetExpire, SetOptions};

impl Partition {
    /// Does what an effect says. Applied in order to an empty partition, the effects of another give
    /// the same keys, values and times. Unknown databases are ignored.
    ///
    /// Whoever replays a log that is older than the clock leaves the partition's clock at the log's
    /// time, or at 0, until the end: a key whose time is over would go before an effect that takes
    /// its time away.
    ///
    /// # Errors
    /// What the operation answers; an effect of a partition in the same state never fails but for
    /// lack of memory.
    pub fn apply(&mut self, effect: &Effect<'_>) -> Result<(), OpError> {
        match *effect {
            Effect::FlushAll => {
                self.flush_all();
            }
            Effect::SwapDb { a, b } => {
                if let (Some(a), Some(b)) = (self.known(a), self.known(b)) {
                    self.swap_db(a, b);
                }
            }
            Effect::FlushDb { db } => self.flush_known(db),
            Effect::Rename { db, from, to, .. } => {
                let Some(db) = self.known(db) else { return Ok(()) };
                self.rename(db, &self.key(from), &self.key(to), true)?;
            }
            Effect::Copy { db, from, to_db, to, .. } => {
                let (Some(db), Some(to_db)) = (self.known(db), self.known(to_db)) else {
                    return Ok(());
                };
                self.copy(db, &self.key(from), to_db, &self.key(to), true)?;
            }
            Effect::Move { db, key, to_db } => {
                if let (Some(db), Some(to_db)) = (self.known(db), self.known(to_db)) {
                    self.move_key(db, &self.key(key), to_db)?;
                }
            }
            Effect::Set { db, .. }
            | Effect::IncrBy { db, .. }
            | Effect::IncrByFloat { db, .. }
            | Effect::Append { db, .. }
            | Effect::SetRange { db, .. }
            | Effect::SetBit { db, .. }
            | Effect::BitField { db, .. } => {
                if let Some(db) = self.known(db) {
                    self.apply_string(db, effect)?;
                }
            }
            Effect::HyperLogLogRaise { db, .. }
            | Effect::HyperLogLogCount { db, .. }
            | Effect::HyperLogLogRewrite { db, .. } => {
                if let Some(db) = self.known(db) {
                    self.apply_hyperloglog(db, effect)?;
                }
            }
            Effect::Expire { db, key, at_ms } => {
                if let Some(db) = self.known(db) {
                    self.expire_at(db, &self.key(key), at_ms)?;
                }
            }
            Effect::Persist { db, key } => {
                if let Some(db) = self.known(db) {
                    self.persist(db, &self.key(key));
                }
            }
            Effect::Place { db, key, form, value, expire_at, origin, .. } => {
                let Some(db) = self.known(db) else { return Ok(()) };
                let placed = Placed { form: form.0, value, expire_at };
                self.place_value(db, &self.key(key), placed, origin)?;
            }
            Effect::Change { db, key, event, change } => {
                if let Some(db) = self.known(db) {
                    self.apply_change(db, &self.key(key), event, &change)?;
                }
            }
            Effect::Created { .. } | Effect::Missed { .. } => {}
            Effect::Delete { db, key, cause } => {
                if let Some(db) = self.known(db) {
                    self.delete(db, &self.key(key), cause);
                }
            }
        }
        Ok(())
    }

    fn flush_known(&mut self, db: u32) {
        if let Some(db) = self.known(db) {
            self.flush_db(db);
        }
    }

    fn known(&self, db: u32) -> Option<usize> {
        Some(db as usize).filter(|&db| db < self.databases())
    }

    fn apply_change(
        &mut self,
        db: usize,
        key: &Key<'_>,
        event: Event,
        change: &Change<'_>,
    ) -> Result<(), OpError> {
        match *change {
            Change::HashSet { pairs, keeps_times } => {
                let fields = pairs.iter().step_by(2);
                let pairs = fields.zip(pairs.iter().skip(1).step_by(2));
                self.hash_set(db, key, pairs, keeps_times, event).map(drop)
            }
            Change::SetAdd { members } => self.set_add(db, key, members.iter(), event).map(drop),
            Change::Remove { members } => {
                self.remove_members(db, key, members.iter(), event).map(drop)
            }
            Change::Expire { members, at_ms } => {
                self.expire_members(db, key, members.iter(), at_ms, event).map(drop)
            }
            Change::ListPush { .. }
            | Change::ListPop { .. }
            | Change::ListSet { .. }
            | Change::ListInsert { .. }
            | Change::ListRemove { .. }
            | Change::ListKeep { .. } => self.apply_list(db, key, event, change),
            Change::SortedSetAdd { pairs } => {
                let score = |bytes: &[u8]| {
                    f64::from_le_bytes(bytes.try_into().expect("decoding has checked the scores"))
                };
                let scores = pairs.iter().step_by(2).map(score);
                let pairs = scores.zip(pairs.iter().skip(1).step_by(2));
                self.sorted_set_add(db, key, pairs, |_, score| Ok(Some(score)), event)
            }
            Change::Stream(ref change) => self.apply_stream(db, key, change),
        }
    }

    fn apply_string(&mut self, db: usize, effect: &Effect<'_>) -> Result<(), OpError> {
        match *effect {
            Effect::Set { key, value, expire_at, .. } => {
                let expire = expire_at.map_or(SetExpire::Clear, SetExpire::At);
                let options = SetOptions { expire, condition: SetCondition::Always };
                self.set(db, &self.key(key), value, options)?;
            }
            Effect::IncrBy { key, delta, .. } => {
                self.incr_by(db, &self.key(key), delta)?;
            }
            Effect::IncrByFloat { key, text, .. } => {
                self.set_float_text(db, &self.key(key), text)?;
            }
            Effect::Append { key, bytes, .. } => {
                self.append(db, &self.key(key), bytes, usize::MAX)?;
            }
            Effect::SetRange { key, offset, bytes, .. } => {
                let offset = usize::try_from(offset).map_err(|_| OpError::TooLarge)?;
                self.set_range(db, &self.key(key), offset, bytes)?;
            }
            Effect::SetBit { key, offset, on, .. } => {
                let byte = usize::try_from(offset / 8).map_err(|_| OpError::TooLarge)?;
                self.string_mut(db, &self.key(key), byte + 1, |bytes| {
                    let mask = 0x80 >> (offset % 8);
                    bytes[byte] = bytes[byte] & !mask | if on { mask } else { 0 };
                    ((), Changed::Bit { offset, on })
                })?;
            }
            Effect::BitField { key, offset, bytes, .. } => {
                let start = usize::try_from(offset).map_err(|_| OpError::TooLarge)?;
                let end = start.checked_add(bytes.len()).ok_or(OpError::TooLarge)?;
                self.string_mut(db, &self.key(key), end, |string| {
                    string[start..end].copy_from_slice(bytes);
                    ((), Changed::Range(start..end))
                })?;
            }
            _ => unreachable!("the caller passes effects of strings"),
        }
        Ok(())
    }
}
