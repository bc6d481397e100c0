//! Commands over several shards: borrowing the shares of others, lending the own one.
//!
//! A client whose next request needs shares that are elsewhere stalls. The shard makes one
//! reservation for all such clients of a tick; when the shares have come, they run one after
//! another, each as far as the shares reach, and the shares go back. See [`crate::reserve`] for the
//! order in which shards lend.

use std::collections::VecDeque;

use netback::ConnId;

use crate::clock;
use crate::conn::{Client, Stall};
use crate::fabric::PeerMessage;
use crate::input::Core;
use crate::keyspace::{ShardSet, Share};

/// Clients of one reservation are served for this long at most; who is left takes part in the
/// next one.
const SERVE_BUDGET_US: u64 = 1000;

/// A shard's part in lending.
#[derive(Default)]
pub struct Lending {
    /// Clients that need shares of others, with all that they need.
    stalled: Vec<(ConnId, ShardSet)>,
    /// The reservation under way.
    open: Option<Reservation>,
    /// When the own share was lent, by the cycle counter.
    lent_at: Option<u64>,
    /// Clients whose next request needs the own share while it is lent.
    awaiting_own: Vec<ConnId>,
    /// Requests of other shards that came while the own share was lent, or while a peer had much to
    /// take.
    deferred: VecDeque<(usize, PeerMessage)>,
}

struct Reservation {
    set: ShardSet,
    clients: Vec<(ConnId, ShardSet)>,
}

impl Lending {
    /// Whether something may be possible without a message from a peer. `peers_behind`: a peer has
    /// much to take; `has_own`: the own share is here.
    pub fn is_pending(&self, peers_behind: bool, has_own: bool) -> bool {
        let may_run = has_own && !peers_behind && !self.deferred.is_empty();
        may_run || self.open.is_none() && !self.stalled.is_empty()
    }
}

impl Core {
    /// Makes a share that is here follow the configuration.
    pub fn follow_config(&mut self, shard: usize) {
        if !self.keyspace.has(shard) {
            return;
        }
        let share = self.keyspace.share_mut(shard);
        if share.config_version == self.state.config_version {
            return;
        }
        share.configure(&self.state);
        let stats_version = self.state.process.stats_version();
        if share.stats_version != stats_version {
            share.stats_version = stats_version;
            share.partition.reset_stats();
        }
        if self.state.stats_version != stats_version {
            self.state.stats_version = stats_version;
            self.state.stats.reset();
        }
    }

    /// Has a client wait until the shares of a set are here.
    pub(crate) fn await_shares(&mut self, client: &mut Client, set: ShardSet) {
        client.stall = Some(Stall::Shares);
        self.lending.stalled.push((client.conn, set));
    }

    /// Has a client wait until the own share is back.
    pub(crate) fn await_own_share(&mut self, client: &mut Client) {
        client.stall = Some(Stall::Shares);
        self.lending.awaiting_own.push(client.conn);
    }

    /// Takes a message of another shard. What needs the own share is kept while that is lent; so are
    /// requests, whose changes are told to peers, while a peer has much to take.
    pub fn told(&mut self, from: usize, message: PeerMessage) {
        match message {
            PeerMessage::Request(_) if self.state.peers_behind => {
                self.lending.deferred.push_back((from, message));
            }
            PeerMessage::Request(_) | PeerMessage::Survey { .. }
                if self.keyspace.own().is_none() =>
            {
                self.lending.deferred.push_back((from, message));
            }
            PeerMessage::Request(request) => self.run_remote(from, request),
            PeerMessage::Answer(conn, bytes) => self.answered(from, conn, bytes),
            PeerMessage::Share(shard, share) => self.take_share(shard, share),
            PeerMessage::Parked(conn, blocked) => self.parked(from, conn, blocked),
            PeerMessage::Served(conn, bytes) => self.served(conn, bytes),
            PeerMessage::Again(conn) => self.run_again(conn),
            PeerMessage::Invalidate(invalidation) => self.state.invalidated(invalidation),
            PeerMessage::InvalidateAll(author) => {
                self.state.invalidate_own_all(None, author);
                self.state.send_invalidations(None);
            }
            PeerMessage::Changes(changes) => self.state.hear_changes(&changes),
            PeerMessage::Publish(published) => self.state.deliver(&published),
            PeerMessage::Survey { conn, part, bytes } => self.report(from, conn, part, &bytes),
            PeerMessage::Report { conn, part, report } => self.reported(conn, part, report),
        }
    }

    /// Takes a share that comes home or is lent to this shard.
    pub fn take_share(&mut self, shard: usize, mut share: Box<Share>) {
        share.partition.set_now(self.state.now_ms());
        self.keyspace.put(shard, share);
        self.follow_config(shard);
        if shard != self.state.index {
            return;
        }
        let lent_at = self.lending.lent_at.take().unwrap_or_default();
        self.state.stats.lent(clock::elapsed(lent_at, clock::cycles()));
        self.run_deferred();
        for conn in std::mem::take(&mut self.lending.awaiting_own) {
            self.resume(conn);
        }
    }

    /// Takes the messages that were kept, in their order; what still cannot be done is kept on.
    pub fn run_deferred(&mut self) {
        if self.lending.deferred.is_empty() {
            return;
        }
        for (from, message) in std::mem::take(&mut self.lending.deferred) {
            self.told(from, message);
        }
    }

    /// Does what the queues of reservations allow: lends the own share, makes a reservation for the
    /// clients that wait for one, and serves those whose shares have come.
    pub fn work_on_reservations(&mut self) {
        self.lend();
        if self.lending.open.is_none() && !self.lending.stalled.is_empty() {
            self.open_reservation();
        }
        if self.may_serve() {
            self.serve_reservation();
            self.lend();
        }
    }

    fn lend(&mut self) {
        let own = self.state.index;
        let head = self.state.process.reservations.head(own);
        let Some(coordinator) = head.filter(|coordinator| *coordinator != own) else { return };
        if let Some(share) = self.keyspace.take(own) {
            self.lending.lent_at = Some(clock::cycles());
            self.state.outgoing[coordinator].push(PeerMessage::Share(own, share));
        }
    }

    fn open_reservation(&mut self) {
        let clients = std::mem::take(&mut self.lending.stalled);
        let mut set = ShardSet::default();
        clients.iter().for_each(|(_, needs)| set.unite(*needs));
        self.state.process.reservations.enter(self.state.index, &set);
        self.state.wake.unite(set);
        self.lending.open = Some(Reservation { set, clients });
    }

    fn may_serve(&self) -> bool {
        let own = self.state.index;
        self.lending.open.as_ref().is_some_and(|open| {
            let my_turn =
                !open.set.contains(own) || self.state.process.reservations.head(own) == Some(own);
            my_turn && self.keyspace.has_all(&open.set)
        })
    }

    fn serve_reservation(&mut self) {
        let Some(open) = self.lending.open.take() else { return };
        let own = self.state.index;
        let (began, budget) = (clock::cycles(), clock::from_us(SERVE_BUDGET_US));
        for (conn, needs) in open.clients {
            if clock::elapsed(began, clock::cycles()) < budget {
                self.resume(conn);
            } else {
                self.lending.stalled.push((conn, needs));
            }
        }
        self.state.stats.reservations += 1;
        self.state.process.reservations.leave(own, &open.set);
        for shard in open.set.iter().filter(|shard| *shard != own) {
            if let Some(share) = self.keyspace.take(shard) {
                self.state.outgoing[shard].push(PeerMessage::Share(shard, share));
            }
        }
        self.keyspace.select(own);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use engine::{Options, Partition};

    use super::*;
    use crate::command::table::table;
    use crate::config::Config;
    use crate::keyspace::Keyspace;
    use crate::process::Process;
    use crate::state::ShardState;

    #[test]
    fn commands_that_need_no_share_run_while_the_own_one_is_lent() {
        let process = Arc::new(Process::new(Config::new(), 2, "sim", 1));
        let state = ShardState::new(0, process, 1, 1);
        let options = Options { route: true, ..Options::default() };
        let partition = Partition::new(&options, 1).expect("address space");
        let mut core = Core::new(state, Keyspace::new(0, 2, Share::new(partition)));
        let share = core.keyspace.take(0);
        let mut ran = 0;
        for (index, entry) in table().entries().iter().enumerate() {
            let words = entry.command.arity.unsigned_abs() as usize;
            let name = entry.name.replace('|', " ");
            let args = " 1".repeat(words - name.split(' ').count().min(words));
            let conn = ConnId { index: index as u32, generation: 1 };
            let mut client = Client::new(index as u64, conn, 1);
            client.authenticated = true;
            core.state.clients.insert(Box::new(client));
            core.received(conn, format!("{name}{args}\r\n").as_bytes());
            let client = core.state.clients.get(conn).expect("the client");
            let waits = client.stall.is_some() || !client.waiting.is_empty();
            ran += usize::from(!waits);
            let is_silent = ["client reply", "shutdown"].contains(&name.as_str());
            assert!(waits || is_silent || !client.replies.is_empty(), "{name}");
        }
        assert!(ran > 60, "{ran}");
        drop(share);
    }
}
