//! Clients that wait: for keys of any shard, for a time to pass, for a pause to end.
//!
//! A blocking command runs where its keys are. If it must wait, it leaves a [`Waiter`] with the
//! share of each key, and its client's reply has a place in line at home. Whoever holds the share
//! when the key becomes ready serves the waiters in the order in which they came; the claim, taken
//! once, decides between several keys, and between a key and the client's timeout.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::{Effect, End};
use netback::ConnId;

use crate::command::spec::flag;
use crate::command::table::Entry;
use crate::conn::{Client, Stall, Waiting};
use crate::fabric::PeerMessage;
use crate::input::Core;
use crate::multi::KeyName;
use crate::resp::Protocol;
use crate::state::ShardState;

/// The right to answer a blocked client, which is taken once.
#[derive(Clone, Debug, Default)]
pub struct Claim(Arc<AtomicBool>);

impl Claim {
    /// Takes it, if nobody has.
    pub fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Whether somebody has taken it.
    pub fn is_taken(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What a client waits for, as its home keeps it.
#[derive(Debug)]
pub struct Blocked {
    /// Who takes it answers.
    pub claim: Claim,
    /// When the client gives up, milliseconds since the Unix epoch; never without.
    pub until_ms: Option<u64>,
    /// What it is answered then, in wire form.
    pub on_timeout: Vec<u8>,
    /// The request, if its home runs it again when a key is ready.
    pub request: Vec<u8>,
}

/// A client that waits for a key, as the key's share keeps it.
#[derive(Debug)]
pub struct Waiter<W> {
    /// The client's shard.
    pub home: usize,
    /// The client.
    pub conn: ConnId,
    /// What it speaks.
    pub protocol: Protocol,
    /// Who takes it answers.
    pub claim: Claim,
    /// All keys that it waits for, the one that it would rather be served from first; none if it is
    /// only this one.
    pub keys: Arc<[Box<[u8]>]>,
    /// What it wants of the key.
    pub want: W,
}

/// What a client that waits for a list wants of it.
#[derive(Debug)]
pub struct Pop {
    /// Elements from this end.
    pub end: End,
    /// Up to so many, in an array; else one.
    pub count: Option<usize>,
    /// The list that gets the element, and the end of it.
    pub target: Option<(Box<[u8]>, End)>,
}

/// The low or the high end of a sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranked {
    /// Where the lowest scores are.
    Lowest,
    /// Where the highest scores are.
    Highest,
}

/// What a client that waits for a sorted set wants of it.
#[derive(Clone, Copy, Debug)]
pub struct PopScored {
    /// Members from this end.
    pub end: Ranked,
    /// Up to so many, in an array; else one.
    pub count: Option<usize>,
}

/// The waiters of a share, by database and key, first come first.
#[derive(Debug)]
pub struct Waiters<W> {
    keys: BTreeMap<KeyName, VecDeque<Waiter<W>>>,
    /// Keys that somebody waits for and that have changed.
    ready: Vec<KeyName>,
}

impl<W> Default for Waiters<W> {
    fn default() -> Self {
        Self { keys: BTreeMap::new(), ready: Vec::new() }
    }
}

impl<W> Waiters<W> {
    /// Keys that somebody waits for who wants what `f` says.
    pub fn awaited(&self, f: impl Fn(&W) -> bool) -> impl Iterator<Item = &KeyName> {
        let waits = move |waiter: &Waiter<W>| !waiter.claim.is_taken() && f(&waiter.want);
        let keys = self.keys.iter().filter(move |(_, waiters)| waiters.iter().any(&waits));
        keys.map(|(name, _)| name)
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Adds a waiter behind the others of its key.
    pub fn add(&mut self, db: usize, key: &[u8], waiter: Waiter<W>) {
        let waiters = self.keys.entry((db, key.into())).or_default();
        waiters.retain(|waiter| !waiter.claim.is_taken());
        waiters.push_back(waiter);
    }

    /// Takes the claim of the first waiter of a key that still waits.
    pub fn claim_next(&mut self, db: usize, key: &[u8]) -> Option<Waiter<W>> {
        let name = (db, Box::from(key));
        let waiters = self.keys.get_mut(&name)?;
        let next = std::iter::from_fn(|| waiters.pop_front()).find(|waiter| waiter.claim.take());
        if waiters.is_empty() {
            self.keys.remove(&name);
        }
        next
    }

    /// Takes the claim of a waiter of a key that still waits and is to be served, from the one behind
    /// `passed` others on; those that are passed over are added to that number.
    pub fn claim_if(
        &mut self,
        db: usize,
        key: &[u8],
        passed: &mut usize,
        mut is_due: impl FnMut(&W) -> bool,
    ) -> Option<Waiter<W>> {
        let name = (db, Box::from(key));
        let waiters = self.keys.get_mut(&name)?;
        let mut found = None;
        while found.is_none()
            && let Some(waiter) = waiters.get(*passed)
        {
            if waiter.claim.is_taken() {
                waiters.remove(*passed);
            } else if is_due(&waiter.want) {
                found = waiters.remove(*passed).filter(|waiter| waiter.claim.take());
            } else {
                *passed += 1;
            }
        }
        if waiters.is_empty() {
            self.keys.remove(&name);
        }
        found
    }

    /// Notes the keys of an effect that somebody waits for.
    pub fn heed(&mut self, effect: &Effect<'_>) {
        if self.keys.is_empty() {
            return;
        }
        let is_of = |db: usize| match *effect {
            Effect::SwapDb { a, b } => db == a as usize || db == b as usize,
            Effect::FlushDb { db: flushed } => db == flushed as usize,
            Effect::FlushAll => true,
            _ => false,
        };
        self.ready.extend(self.keys.keys().filter(|(db, _)| is_of(*db)).cloned());
        for (db, key) in effect.keys() {
            let name = (db, Box::from(key));
            if self.keys.contains_key(&name) && !self.ready.contains(&name) {
                self.ready.push(name);
            }
        }
    }

    /// Whether keys are to be looked at that somebody waits for.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The keys that are to be looked at.
    pub fn take_ready(&mut self) -> Vec<KeyName> {
        std::mem::take(&mut self.ready)
    }

    /// Forgets those who have been answered.
    pub fn sweep(&mut self) {
        self.keys.retain(|_, waiters| {
            waiters.retain(|waiter| !waiter.claim.is_taken());
            !waiters.is_empty()
        });
    }
}

/// Why a blocked client goes on without what it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unblock {
    /// Its time is over, or CLIENT UNBLOCK says so.
    Timeout,
    /// CLIENT UNBLOCK ERROR.
    Error,
}

/// Clients of a shard that wait.
#[derive(Debug, Default)]
pub struct Waits {
    /// When blocked clients give up.
    timers: BTreeSet<(u64, ConnId)>,
    /// Clients stopped by CLIENT PAUSE.
    paused: Vec<ConnId>,
    /// Answers to clients of this shard, to be handed to them at the end of the tick.
    served: Vec<(ConnId, Vec<u8>)>,
    /// Clients of this shard whose requests are to run again.
    pub again: Vec<ConnId>,
    /// Clients that are blocked.
    blocked: usize,
}

impl Waits {
    /// When the first blocked client gives up.
    pub fn next_ms(&self) -> Option<u64> {
        self.timers.first().map(|(ms, _)| *ms)
    }

    /// Whether an answer waits to be handed over.
    pub fn is_pending(&self) -> bool {
        !self.served.is_empty() || !self.again.is_empty()
    }

    /// Clients that wait, for keys or for the end of a pause.
    pub fn len(&self) -> usize {
        self.blocked + self.paused.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Clients that give up at some time.
    pub fn timers(&self) -> usize {
        self.timers.len()
    }
}

/// What CLIENT PAUSE has stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pause {
    /// Nothing.
    #[default]
    None,
    /// Commands that may write.
    Writes,
    /// All commands.
    All,
}

impl ShardState {
    /// Blocks a client of this shard; the reply of the command at hand is its answer later.
    pub fn block(&mut self, client: &mut Client, blocked: Blocked, silent: bool) {
        if let Some(until_ms) = blocked.until_ms {
            self.waits.timers.insert((until_ms, client.conn));
        }
        self.waits.blocked += 1;
        client.waiting.push_back(Waiting::Blocked { silent });
        client.blocked = Some(Box::new(blocked));
    }

    /// Ends the waiting of a client in the books.
    fn unbook(&mut self, client: &mut Client) -> Option<Box<Blocked>> {
        let blocked = client.blocked.take()?;
        self.waits.blocked -= 1;
        if let Some(until_ms) = blocked.until_ms {
            self.waits.timers.remove(&(until_ms, client.conn));
        }
        Some(blocked)
    }

    /// Ends the waiting of a client that is gone.
    pub fn forget_waiting(&mut self, client: &mut Client) {
        if let Some(blocked) = self.unbook(client) {
            blocked.claim.take();
        }
        if client.stall == Some(Stall::Paused) {
            self.waits.paused.retain(|conn| *conn != client.conn);
        }
    }

    /// Sends a waiter, whose claim has been taken, its answer.
    pub fn serve<W>(&mut self, waiter: &Waiter<W>, answer: Vec<u8>) {
        if waiter.home == self.index {
            self.waits.served.push((waiter.conn, answer));
        } else {
            self.outgoing[waiter.home].push(PeerMessage::Served(waiter.conn, answer));
        }
    }

    /// Has a waiter's home, where its request came from, run the request again.
    pub fn serve_again<W>(&mut self, waiter: &Waiter<W>) {
        if waiter.home == self.index {
            self.waits.again.push(waiter.conn);
        } else {
            self.outgoing[waiter.home].push(PeerMessage::Again(waiter.conn));
        }
    }

    /// Lets a blocked client go on at the end of the tick; `false` if it is not blocked or is being
    /// answered.
    pub fn unblock(&mut self, conn: ConnId, why: Unblock) -> bool {
        let Some(client) = self.clients.get_mut(conn) else { return false };
        let Some(blocked) = &mut client.blocked else { return false };
        if !blocked.claim.take() {
            return false;
        }
        let answer = match why {
            Unblock::Timeout => std::mem::take(&mut blocked.on_timeout),
            Unblock::Error => {
                self.stats.error(b"UNBLOCKED");
                b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n".to_vec()
            }
        };
        self.waits.served.push((conn, answer));
        true
    }

    /// As [`ShardState::unblock`], for a client by its number.
    pub fn unblock_by_id(&mut self, id: i64, why: Unblock) -> bool {
        let found = self.clients.iter().find(|client| client.id as i64 == id);
        let conn = found.map(|client| client.conn);
        conn.is_some_and(|conn| self.unblock(conn, why))
    }

    /// Has a client wait until the pause ends.
    pub fn await_unpause(&mut self, client: &mut Client) {
        client.stall = Some(Stall::Paused);
        self.waits.paused.push(client.conn);
    }

    /// Looks at what CLIENT PAUSE has stopped.
    pub fn refresh_pause(&mut self) {
        self.pause = self.process.pause(self.now_ms());
    }

    /// Whether a pause stops a command.
    #[cold]
    pub fn stops(&self, entry: &Entry, client: &Client) -> bool {
        let writes = |entry: &Entry| entry.command.is(flag::WRITE | flag::STOPS_AS_WRITE);
        match self.pause {
            Pause::None => false,
            Pause::All => true,
            Pause::Writes => {
                writes(entry) || client.queue_of(entry).iter().any(|queued| writes(queued.entry))
            }
        }
    }
}

impl Core {
    /// Takes word that a request of a client of this shard waits at another one.
    pub fn parked(&mut self, from: usize, conn: ConnId, blocked: Blocked) {
        self.state.under_way[from] -= 1;
        let Some(mut client) = self.state.clients.take(conn) else {
            // Nobody is left to be answered.
            blocked.claim.take();
            return;
        };
        let place = client.waiting.iter().position(|waiting| {
            matches!(waiting, Waiting::Remote { shard, .. } if usize::from(*shard) == from)
        });
        // Nothing is sent behind a blocking command, so its place is the last one.
        if let Some(Waiting::Remote { silent, .. }) =
            place.and_then(|place| client.waiting.remove(place))
        {
            self.state.block(&mut client, blocked, silent);
        }
        let early_answer = client.early_answer.take();
        self.state.mark_dirty(&mut client);
        self.state.clients.insert(client);
        if let Some(answer) = early_answer {
            self.served(conn, answer);
        }
    }

    /// Hands the answers of the tick to this shard's clients, and lets those go on whose time is
    /// over.
    pub fn work_on_waits(&mut self) {
        self.lapse_leases();
        let now_ms = self.state.now_ms();
        while let Some((ms, conn)) = self.state.waits.timers.first().copied()
            && ms <= now_ms
        {
            self.state.waits.timers.pop_first();
            self.state.unblock(conn, Unblock::Timeout);
        }
        self.hand_over_answers();
        if !self.state.waits.paused.is_empty() && self.state.pause == Pause::None {
            for conn in std::mem::take(&mut self.state.waits.paused) {
                self.resume(conn);
            }
        }
    }

    fn hand_over_answers(&mut self) {
        for (conn, answer) in std::mem::take(&mut self.state.waits.served) {
            self.served(conn, answer);
        }
        for conn in std::mem::take(&mut self.state.waits.again) {
            self.run_again(conn);
        }
    }

    /// Runs the request of a blocked client once more: a key that it waits for is ready, and what it
    /// does there needs more shares than were at hand. Without luck it waits again, behind others.
    pub fn run_again(&mut self, conn: ConnId) {
        let Some(mut client) = self.state.clients.take(conn) else { return };
        let Some(blocked) = self.state.unbook(&mut client) else {
            self.state.clients.insert(client);
            return;
        };
        client.waiting.pop_back();
        client.until_ms = Some(blocked.until_ms);
        client.query.get_or_insert_default().put_back(&blocked.request);
        self.state.clients.insert(client);
        self.resume(conn);
    }

    /// Ends the leases whose time is over.
    fn lapse_leases(&mut self) {
        let now_ms = self.state.now_ms();
        let Some(share) = self.keyspace.own_mut() else { return };
        if share.leases.next_ms().is_some_and(|ms| ms <= now_ms) {
            share.leases.lapse(now_ms);
            share.serve_fills(&mut self.state);
            share.update_listening();
        }
    }

    /// Answers a client that waited.
    pub fn served(&mut self, conn: ConnId, answer: Vec<u8>) {
        let Some(mut client) = self.state.clients.take(conn) else { return };
        if self.state.unbook(&mut client).is_none() {
            // The shard that serves was faster than the one where the request waits.
            client.early_answer = Some(answer);
            self.state.clients.insert(client);
            return;
        }
        client.answer_blocked(answer);
        self.state.clients.insert(client);
        self.resume(conn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(index: u32, claim: &Claim) -> Waiter<()> {
        Waiter {
            home: 0,
            conn: ConnId { index, generation: 0 },
            protocol: Protocol::Resp2,
            claim: claim.clone(),
            keys: Arc::default(),
            want: (),
        }
    }

    #[test]
    fn waiters_are_served_once_and_in_their_order() {
        let mut waiters = Waiters::default();
        let claims: Vec<Claim> = (0..3).map(|_| Claim::default()).collect();
        for (index, claim) in claims.iter().enumerate() {
            waiters.add(0, b"a", waiter(index as u32, claim));
            waiters.add(0, b"b", waiter(index as u32, claim));
        }
        // The first one gave up.
        assert!(claims[0].take());
        assert_eq!(waiters.claim_next(0, b"a").map(|waiter| waiter.conn.index), Some(1));
        assert_eq!(waiters.claim_next(0, b"b").map(|waiter| waiter.conn.index), Some(2));
        assert!(waiters.claim_next(0, b"a").is_none());
        assert!(waiters.claim_next(1, b"b").is_none());
        assert!(waiters.is_empty() && claims.iter().all(Claim::is_taken));
    }

    #[test]
    fn those_who_gave_up_do_not_pile_up() {
        let mut waiters = Waiters::default();
        for _ in 0..1000 {
            let claim = Claim::default();
            waiters.add(0, b"a", waiter(0, &claim));
            claim.take();
        }
        assert!(waiters.keys.values().all(|waiters| waiters.len() == 1));
        waiters.sweep();
        assert!(waiters.is_empty());
    }
}
