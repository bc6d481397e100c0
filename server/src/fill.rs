//! Leases against cache stampedes: of all who miss a key, one gets the right to fill it.
//!
//! FILLGET of a missing key gives the first caller a token with a lease; the others wait for the
//! value or are told when to try again. FILLSET stores the value if its token is the current one. A
//! lease ends when its time is over (the next caller gets one), when somebody else stores a value
//! (the value counts), or when somebody deletes the key meanwhile, present or not: what the filler
//! has read may be older than the deletion, so its token is refused and the next caller fills
//! anew. The idea is that of leases in memcached (Nishtala et al., Scaling Memcache at Facebook,
//! 2013).

use std::collections::{BTreeMap, BTreeSet};

use engine::{DeleteCause, Effect, StringValue};

use crate::keyspace::Share;
use crate::multi::KeyName;
use crate::resp::Reply;
use crate::state::ShardState;

/// The right to fill a key.
#[derive(Clone, Copy, Debug)]
struct Lease {
    token: u64,
    until_ms: u64,
}

/// The leases of a share.
#[derive(Debug, Default)]
pub struct Leases {
    keys: BTreeMap<KeyName, Lease>,
    /// When each ends.
    ends: BTreeSet<(u64, usize, Box<[u8]>)>,
    /// Keys whose lease was made void, with waiters to be looked after.
    void: Vec<KeyName>,
}

impl Leases {
    /// Whether nobody has a lease.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.void.is_empty()
    }

    /// When the first lease ends.
    pub fn next_ms(&self) -> Option<u64> {
        self.ends.first().map(|(ms, ..)| *ms)
    }

    /// Whether waiters are to be looked after.
    pub fn has_void(&self) -> bool {
        !self.void.is_empty()
    }

    /// The milliseconds that the lease of a key has left, if there is one.
    pub fn left_ms(&self, db: usize, key: &[u8], now_ms: u64) -> Option<u64> {
        let lease = self.keys.get(&(db, Box::from(key)))?;
        Some(lease.until_ms.saturating_sub(now_ms))
    }

    /// Gives a lease with a token that no other one has, in place of the one that there is.
    pub fn give(&mut self, db: usize, key: &[u8], until_ms: u64, token: u64) {
        self.end(db, key);
        self.keys.insert((db, key.into()), Lease { token, until_ms });
        self.ends.insert((until_ms, db, key.into()));
    }

    /// Whether a token is the key's current one.
    pub fn is_current(&self, db: usize, key: &[u8], token: u64, now_ms: u64) -> bool {
        let lease = self.keys.get(&(db, Box::from(key)));
        lease.is_some_and(|lease| lease.token == token && lease.until_ms > now_ms)
    }

    /// Ends the lease of a key; `false` if there is none.
    pub fn end(&mut self, db: usize, key: &[u8]) -> bool {
        let name = (db, Box::from(key));
        let Some(lease) = self.keys.remove(&name) else { return false };
        self.ends.remove(&(lease.until_ms, name.0, name.1));
        true
    }

    /// Makes the lease of a key void.
    pub fn make_void(&mut self, db: usize, key: &[u8]) {
        if self.end(db, key) {
            self.void.push((db, key.into()));
        }
    }

    fn make_all_void(&mut self, mut meant: impl FnMut(usize) -> bool) {
        let keys: Vec<_> = self.keys.keys().filter(|(db, _)| meant(*db)).cloned().collect();
        keys.iter().for_each(|(db, key)| self.make_void(*db, key));
    }

    /// Takes notice of a change of the keyspace.
    pub fn heed(&mut self, effect: &Effect<'_>) {
        match effect {
            Effect::FlushAll => self.make_all_void(|_| true),
            Effect::FlushDb { db } => self.make_all_void(|other| other == *db as usize),
            Effect::SwapDb { a, b } => {
                self.make_all_void(|db| db == *a as usize || db == *b as usize);
            }
            // What was stale or had to give way is filled anew all the same.
            Effect::Delete { cause: DeleteCause::Expired | DeleteCause::Evicted, .. }
            | Effect::Expire { .. }
            | Effect::Persist { .. }
            | Effect::Created { .. }
            | Effect::Missed { .. } => {}
            _ => effect.keys().for_each(|(db, key)| self.make_void(db, key)),
        }
    }

    /// Makes void what has ended by now.
    pub fn lapse(&mut self, now_ms: u64) {
        while let Some((ms, db, key)) = self.ends.first().cloned()
            && ms <= now_ms
        {
            self.make_void(db, &key);
        }
    }
}

/// Writes the reply of FILLGET to who is to fill the key.
pub fn reply_fill(reply: &mut Reply, token: u64) {
    reply.array(2);
    reply.bulk(b"fill");
    reply.integer(token as i64);
}

/// Writes a string value.
pub fn reply_value(reply: &mut Reply, value: StringValue<'_>) {
    match value {
        StringValue::Bytes(bytes) => reply.bulk(bytes),
        StringValue::Int(value) => reply.bulk_integer(value),
    }
}

impl Share {
    /// Looks after those who wait for keys whose lease has ended: all get the value where there is
    /// one, else the first one gets a lease.
    pub fn serve_fills(&mut self, state: &mut ShardState) {
        for (db, name) in std::mem::take(&mut self.leases.void) {
            let key = self.partition.key(&name);
            loop {
                if self.leases.left_ms(db, &name, 0).is_some() {
                    break;
                }
                let is_there = self.partition.holds(db, &key);
                let Some(waiter) = self.waiters.claim_next(db, &name) else { break };
                let mut reply = Reply::new(Vec::new(), waiter.protocol);
                if is_there {
                    match self.partition.get(db, &key) {
                        Ok(Some(value)) => reply_value(&mut reply, value),
                        Ok(None) => reply.null(),
                        Err(error) => {
                            reply.error(&crate::command::error::CommandError::from(error).0);
                        }
                    }
                } else {
                    let until_ms = state.now_ms() + waiter.want;
                    let token = state.random_token();
                    self.leases.give(db, &name, until_ms, token);
                    reply_fill(&mut reply, token);
                }
                state.serve(&waiter, reply.into_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_current_until_its_lease_ends() {
        let mut leases = Leases::default();
        leases.give(0, b"k", 100, 7);
        assert!(leases.is_current(0, b"k", 7, 99));
        assert!(!leases.is_current(0, b"k", 7, 100));
        assert!(!leases.is_current(1, b"k", 7, 99));
        leases.give(0, b"k", 200, 8);
        assert!(!leases.is_current(0, b"k", 7, 50));
        leases.lapse(150);
        assert!(!leases.has_void());
        leases.lapse(200);
        assert!(leases.has_void());
        assert_eq!(leases.next_ms(), None);
    }

    #[test]
    fn deletions_and_writes_end_a_lease_and_expiry_does_not() {
        let mut leases = Leases::default();
        let delete = |cause| Effect::Delete { db: 0, key: b"k", cause };
        leases.give(0, b"k", 100, 1);
        leases.heed(&delete(DeleteCause::Expired));
        leases.heed(&Effect::FlushDb { db: 3 });
        assert!(leases.is_current(0, b"k", 1, 0));
        leases.heed(&delete(DeleteCause::Command));
        assert!(!leases.is_current(0, b"k", 1, 0));
        leases.give(0, b"k", 100, 2);
        leases.heed(&Effect::FlushAll);
        assert!(!leases.is_current(0, b"k", 2, 0));
    }
}
