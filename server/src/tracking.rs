//! Client-side caching: telling clients which of the keys that they have read have changed.
//!
//! By default a share remembers who has read which key ([`Tracked`]) and tells each once. In
//! broadcast mode nobody is remembered: clients name prefixes, and at the end of a tick all who
//! named a prefix hear of the keys that changed under it. A message goes to the client's own
//! connection (RESP3) or to another one that it names (REDIRECT), which may be on any shard.

mod tracked;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

use netback::ConnId;

use crate::command::dispatch::CommandCtx;
use crate::conn::{Client, Waiting};
use crate::fabric::PeerMessage;
use crate::input::key_indexes;
use crate::keyspace::Share;
use crate::named::NamedClients;
use crate::pubsub::Kind;
use crate::resp::{Protocol, Reply};
use crate::state::ShardState;

pub use tracked::Tracked;
use tracked::{Reader, Readers};

/// Where subscribers in RESP2 listen for invalidations.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// Who changed a key: a client by its shard and connection; nobody when a key expired by itself.
pub type Author = Option<(usize, ConnId)>;

/// How one client is told.
#[derive(Debug, Default)]
pub struct Tracking {
    /// By prefixes, rather than by what it has read.
    pub broadcast: bool,
    /// Only keys read right after CLIENT CACHING YES.
    pub opt_in: bool,
    /// Not the keys read right after CLIENT CACHING NO.
    pub opt_out: bool,
    /// CLIENT CACHING was the last command.
    pub caching: bool,
    /// Not of its own changes.
    pub no_loop: bool,
    /// The number of the client that is told instead.
    pub redirect: Option<u64>,
    /// That client is gone.
    pub is_broken: bool,
    /// Prefixes of broadcast mode.
    pub prefixes: BTreeSet<Box<[u8]>>,
}

impl Tracking {
    /// Whether what the client reads now is remembered.
    pub fn remembers(&self) -> bool {
        !self.broadcast && if self.opt_in { self.caching } else { !(self.opt_out && self.caching) }
    }
}

/// What a client is to hear.
#[derive(Clone, Debug)]
pub struct Invalidation {
    conn: ConnId,
    /// The client's number: a connection's name is reused.
    id: u64,
    /// The keys; `None` stands for all.
    keys: Option<Arc<[Box<[u8]>]>>,
    author: Author,
    /// It is of a prefix, not of what the client has read.
    is_broadcast: bool,
    /// It is for another client, who redirects to this one.
    is_redirected: bool,
}

/// Prefixes of all shards' clients, with the numbers of clients by shard.
#[derive(Default)]
pub struct Prefixes {
    names: RwLock<NamedClients>,
    len: AtomicUsize,
}

const LOCKED: &str = "no thread panics while it holds the lock";

impl Prefixes {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn add(&self, prefix: &[u8], shard: usize) {
        let mut names = self.names.write().expect(LOCKED);
        names.add(prefix, shard);
        self.len.store(names.len(), Ordering::Release);
    }

    fn remove(&self, prefix: &[u8], shard: usize) {
        let mut names = self.names.write().expect(LOCKED);
        names.remove(prefix, shard);
        self.len.store(names.len(), Ordering::Release);
    }
}

/// Keys that changed under a prefix in one tick, with their last authors.
#[derive(Debug)]
pub struct Changes {
    prefix: Box<[u8]>,
    keys: BTreeMap<Box<[u8]>, Author>,
}

/// Bytes that a key takes in a message, beside its own.
const KEY_BYTES: usize = 64;

impl Changes {
    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.keys.keys().map(|key| key.len() + KEY_BYTES).sum()
    }
}

impl Invalidation {
    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        let keys = self.keys.iter().flat_map(|keys| keys.iter());
        size_of::<Self>() + keys.map(|key| key.len() + KEY_BYTES).sum::<usize>()
    }
}

/// A shard's part in tracking.
#[derive(Debug, Default)]
pub struct TrackingState {
    /// Clients with tracking on.
    pub clients: usize,
    /// Clients of this shard by prefix.
    prefixes: BTreeMap<Box<[u8]>, BTreeSet<ConnId>>,
    /// What clients of this shard are to hear.
    pending: Vec<Invalidation>,
    /// Keys that changed in this tick, while anybody names prefixes.
    changed: Vec<(Box<[u8]>, Author)>,
    /// Who changes keys now.
    pub author: Author,
}

impl TrackingState {
    /// Whether clients of this shard are to hear something.
    #[inline]
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }
}

impl ShardState {
    /// Turns tracking on for a client, or changes how it is told.
    pub fn track(&mut self, client: &mut Client, mut tracking: Tracking) {
        let before = client.tracking.take();
        self.tracking.clients += usize::from(before.is_none());
        if let Some(before) = before {
            tracking.prefixes.extend(before.prefixes);
        }
        for prefix in &tracking.prefixes {
            let clients = self.tracking.prefixes.entry(prefix.clone()).or_default();
            if clients.insert(client.conn) {
                self.process.prefixes.add(prefix, self.index);
            }
        }
        client.tracking = Some(Box::new(tracking));
    }

    /// Turns tracking off for a client. Shares forget what it has read when that changes.
    pub fn untrack(&mut self, client: &mut Client) {
        let Some(tracking) = client.tracking.take() else { return };
        self.tracking.clients -= 1;
        for prefix in &tracking.prefixes {
            if let Some(clients) = self.tracking.prefixes.get_mut(prefix) {
                clients.remove(&client.conn);
                if clients.is_empty() {
                    self.tracking.prefixes.remove(prefix);
                }
                self.process.prefixes.remove(prefix, self.index);
            }
        }
    }

    /// Takes note of a change of a key.
    pub(crate) fn key_changed(&mut self, share: &mut Share, key: &[u8]) {
        if !share.tracked.is_empty()
            && let Some(readers) = share.tracked.take(key)
        {
            self.invalidate(&readers, key, self.tracking.author);
        }
        if !self.process.prefixes.is_empty() {
            self.tracking.changed.push((key.into(), self.tracking.author));
        }
    }

    fn invalidate(&mut self, readers: &Readers, key: &[u8], author: Author) {
        let keys: Arc<[Box<[u8]>]> = Arc::new([Box::from(key)]);
        for Reader { home, conn, id } in readers.iter() {
            let keys = Some(Arc::clone(&keys));
            let invalidation =
                Invalidation { conn, id, keys, author, is_broadcast: false, is_redirected: false };
            self.send_invalidation(usize::from(home), invalidation);
        }
    }

    /// Forgets keys of a share that are more than `tracking-table-max-keys`, but so many at a time. Who
    /// is told of a change too many reads the key again.
    pub(crate) fn trim_tracked(&mut self, share: &mut Share, keys_max: usize) {
        let max = self.hot.tracked_keys_max;
        for _ in 0..keys_max {
            if max == 0 || share.tracked.len() <= max {
                break;
            }
            let Some((key, readers)) = share.tracked.take_any(self.random()) else { break };
            self.invalidate(&readers, &key, None);
        }
        share.update_listening();
    }

    fn send_invalidation(&mut self, home: usize, invalidation: Invalidation) {
        if home == self.index {
            self.tracking.pending.push(invalidation);
        } else {
            self.outgoing[home].push(PeerMessage::Invalidate(invalidation));
        }
    }

    /// Takes what another shard has for a client of this one.
    pub fn invalidated(&mut self, invalidation: Invalidation) {
        self.tracking.pending.push(invalidation);
        self.send_invalidations(None);
    }

    /// Tells all clients that track, on all shards, that all keys have changed. `running` is the
    /// one whose command did it.
    pub fn invalidate_all(&mut self, running: &Client) {
        let author = self.tracking.author;
        self.invalidate_own_all(Some(running), author);
        let own = self.index;
        for peer in (0..self.process.shards).filter(|peer| *peer != own) {
            self.outgoing[peer].push(PeerMessage::InvalidateAll(author));
        }
    }

    /// Tells all clients of this shard that track that all keys have changed.
    pub fn invalidate_own_all(&mut self, running: Option<&Client>, author: Author) {
        if self.tracking.clients == 0 {
            return;
        }
        let clients = self.clients.iter().chain(running);
        let all = clients.filter(|client| client.tracking.is_some()).map(|client| Invalidation {
            conn: client.conn,
            id: client.id,
            keys: None,
            author,
            is_broadcast: false,
            is_redirected: false,
        });
        let all: Vec<_> = all.collect();
        self.tracking.pending.extend(all);
    }

    /// Tells this shard's clients what they are to hear. The one whose command is running hears it
    /// behind its reply.
    pub fn send_invalidations(&mut self, mut running: Option<(&mut Client, &mut Reply)>) {
        while !self.tracking.pending.is_empty() {
            for invalidation in std::mem::take(&mut self.tracking.pending) {
                match &mut running {
                    // A client of another shard may have a connection of the same name there.
                    Some((client, reply))
                        if client.home.is_none() && client.conn == invalidation.conn =>
                    {
                        let Some(bytes) = self.heard(client, &invalidation) else { continue };
                        if client.waiting.is_empty() {
                            reply.raw(&bytes);
                        } else {
                            client.waiting.push_back(Waiting::Ready(bytes));
                        }
                    }
                    _ => {
                        let Some(mut client) = self.clients.take(invalidation.conn) else {
                            continue;
                        };
                        if let Some(bytes) = self.heard(&mut client, &invalidation) {
                            // What it has asked for before may be older, so it goes first.
                            client.push_in_order(bytes);
                            self.mark_dirty(&mut client);
                        }
                        self.clients.insert(client);
                    }
                }
            }
        }
    }

    /// What a client hears of an invalidation, in wire form, if anything.
    fn heard(&mut self, client: &mut Client, invalidation: &Invalidation) -> Option<Vec<u8>> {
        if client.id != invalidation.id {
            return None;
        }
        if invalidation.is_redirected {
            let is_subscriber = client.subscribed.is_some();
            return match client.protocol {
                Protocol::Resp3 => Some(push_form(invalidation)),
                Protocol::Resp2 if is_subscriber => Some(message_form(invalidation)),
                Protocol::Resp2 => None,
            };
        }
        let own = Some((self.index, client.conn));
        let tracking = client.tracking.as_mut()?;
        // It may have changed its mode since it read the key.
        if invalidation.keys.is_some() && invalidation.is_broadcast != tracking.broadcast {
            return None;
        }
        if tracking.no_loop && invalidation.keys.is_some() && invalidation.author == own {
            return None;
        }
        let Some(target) = tracking.redirect else {
            return (client.protocol == Protocol::Resp3).then(|| push_form(invalidation));
        };
        if let Some((home, conn)) = self.process.home_of(target) {
            let redirected =
                Invalidation { conn, id: target, is_redirected: true, ..invalidation.clone() };
            self.send_invalidation(home, redirected);
            return None;
        }
        tracking.is_broken = true;
        (client.protocol == Protocol::Resp3).then(|| {
            let mut reply = Reply::new(Vec::new(), Protocol::Resp3);
            reply.push(2);
            reply.bulk(b"tracking-redir-broken");
            reply.integer(target as i64);
            reply.into_bytes()
        })
    }

    /// Sends what changed in this tick to those who named prefixes.
    pub fn broadcast_changes(&mut self) {
        if self.tracking.changed.is_empty() {
            return;
        }
        let changed = std::mem::take(&mut self.tracking.changed);
        let process = Arc::clone(&self.process);
        for (prefix, shards) in process.prefixes.names.read().expect(LOCKED).iter() {
            let keys = changed.iter().filter(|(key, _)| key.starts_with(prefix)).cloned();
            let keys: BTreeMap<_, _> = keys.collect();
            if keys.is_empty() {
                continue;
            }
            let changes = Arc::new(Changes { prefix: prefix.into(), keys });
            for shard in shards.keys().map(|shard| usize::from(*shard)) {
                if shard == self.index {
                    self.hear_changes(&changes);
                } else {
                    self.outgoing[shard].push(PeerMessage::Changes(Arc::clone(&changes)));
                }
            }
        }
        self.send_invalidations(None);
    }

    /// Takes what changed under a prefix that clients of this shard named.
    pub fn hear_changes(&mut self, changes: &Changes) {
        let Some(conns) = self.tracking.prefixes.get(&changes.prefix) else { return };
        let all: Arc<[Box<[u8]>]> = changes.keys.keys().cloned().collect();
        let mut heard = Vec::new();
        for conn in conns {
            let Some(client) = self.clients.get(*conn) else { continue };
            let no_loop = client.tracking.as_ref().is_some_and(|tracking| tracking.no_loop);
            let keys = if no_loop {
                let own = Some((self.index, *conn));
                let others = changes.keys.iter().filter(|(_, author)| **author != own);
                others.map(|(key, _)| key.clone()).collect()
            } else {
                Arc::clone(&all)
            };
            if !keys.is_empty() {
                heard.push(Invalidation {
                    conn: *conn,
                    id: client.id,
                    keys: Some(keys),
                    author: None,
                    is_broadcast: true,
                    is_redirected: false,
                });
            }
        }
        self.tracking.pending.extend(heard);
        self.send_invalidations(None);
    }
}

fn write_keys(reply: &mut Reply, keys: Option<&[Box<[u8]>]>) {
    match keys {
        None => reply.null(),
        Some(keys) => {
            reply.array(keys.len());
            keys.iter().for_each(|key| reply.bulk(key));
        }
    }
}

fn push_form(invalidation: &Invalidation) -> Vec<u8> {
    let mut reply = Reply::new(Vec::new(), Protocol::Resp3);
    reply.push(2);
    reply.bulk(b"invalidate");
    write_keys(&mut reply, invalidation.keys.as_deref());
    reply.into_bytes()
}

/// The form for a subscriber in RESP2.
fn message_form(invalidation: &Invalidation) -> Vec<u8> {
    let mut reply = Reply::default();
    reply.array(3);
    reply.bulk(Kind::Channel.message_word());
    reply.bulk(CHANNEL);
    write_keys(&mut reply, invalidation.keys.as_deref());
    reply.into_bytes()
}

/// Keys that are forgotten at most when one is added: more than one, so that a smaller
/// `tracking-table-max-keys` is reached, yet without a halt.
const TRIMMED_AT_READ: usize = 4;

/// Remembers that a client has read the keys of its command.
#[cold]
pub(crate) fn remember_keys(ctx: &mut CommandCtx<'_>) {
    let reader = Reader {
        home: ctx.client.home.unwrap_or(ctx.shard.index) as u16,
        conn: ctx.client.conn,
        id: ctx.client.id,
    };
    for index in key_indexes(ctx.entry.command, ctx.args) {
        let key = ctx.keyspace.key(ctx.args.get(index));
        let share = ctx.keyspace.share_of(&key);
        let process = &ctx.shard.process;
        share.tracked.add(key.bytes, reader, |id| process.home_of(id).is_some());
        ctx.shard.trim_tracked(share, TRIMMED_AT_READ);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_depends_on_the_mode() {
        let remembers = |opt_in, opt_out, caching| {
            Tracking { opt_in, opt_out, caching, ..Tracking::default() }.remembers()
        };
        assert!(remembers(false, false, false));
        assert!(!remembers(true, false, false));
        assert!(remembers(true, false, true));
        assert!(remembers(false, true, false));
        assert!(!remembers(false, true, true));
        assert!(!Tracking { broadcast: true, ..Tracking::default() }.remembers());
    }
}
