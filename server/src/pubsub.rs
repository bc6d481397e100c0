//! Publishing: who subscribes to what, and how a message reaches them.
//!
//! A shard knows its own subscribers ([`Subscriptions`]); all shards share the numbers of
//! subscribers by shard ([`Registry`]), which change before a SUBSCRIBE is confirmed. PUBLISH
//! answers from these numbers, hands the message to its own shard's subscribers, sends it once to
//! each other shard that has some, and does not wait. A message is held once in each shard however
//! many of its subscribers are slow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use encodings::glob::{self, Case};
use netback::ConnId;

use crate::conn::{Client, SharedBytes};
use crate::fabric::PeerMessage;
use crate::named::{ClientsByShard, NamedClients};
use crate::resp::{Protocol, Reply};
use crate::state::ShardState;

/// What a subscription names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A channel.
    Channel,
    /// A glob pattern of channels.
    Pattern,
    /// A channel that belongs to a hash slot.
    ShardChannel,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::ShardChannel];

    /// The first word of a message to subscribers of this kind.
    pub(crate) fn message_word(self) -> &'static [u8] {
        match self {
            Self::Channel => b"message",
            Self::Pattern => b"pmessage",
            Self::ShardChannel => b"smessage",
        }
    }
}

/// Locks over which channels are spread.
const STRIPES: usize = 64;

/// How many subscribers each shard of the process has.
pub struct Registry {
    channels: Vec<Mutex<NamedClients>>,
    shard_channels: Vec<Mutex<NamedClients>>,
    patterns: RwLock<NamedClients>,
    /// Names that have subscribers, by [`Kind`].
    lens: [AtomicUsize; 3],
}

impl Default for Registry {
    fn default() -> Self {
        let stripes = || (0..STRIPES).map(|_| Mutex::default()).collect();
        Self {
            channels: stripes(),
            shard_channels: stripes(),
            patterns: RwLock::default(),
            lens: Default::default(),
        }
    }
}

const LOCKED: &str = "no thread panics while it holds the lock";

impl Registry {
    fn stripe(&self, kind: Kind, name: &[u8]) -> &Mutex<NamedClients> {
        let stripes =
            if kind == Kind::ShardChannel { &self.shard_channels } else { &self.channels };
        &stripes[usize::from(encodings::crc16::hash_slot(name)) % STRIPES]
    }

    /// Works on the names among which one of a kind is.
    fn change<R>(&self, kind: Kind, name: &[u8], f: impl FnOnce(&mut NamedClients) -> R) -> R {
        match kind {
            Kind::Pattern => f(&mut self.patterns.write().expect(LOCKED)),
            _ => f(&mut self.stripe(kind, name).lock().expect(LOCKED)),
        }
    }

    /// Counts one more subscriber of a shard.
    fn add(&self, kind: Kind, name: &[u8], shard: usize) {
        let is_new = self.change(kind, name, |names| names.add(name, shard));
        self.lens[kind as usize].fetch_add(usize::from(is_new), Ordering::AcqRel);
    }

    /// Counts one subscriber of a shard less.
    fn remove(&self, kind: Kind, name: &[u8], shard: usize) {
        let is_gone = self.change(kind, name, |names| names.remove(name, shard));
        self.lens[kind as usize].fetch_sub(usize::from(is_gone), Ordering::AcqRel);
    }

    /// How many names of a kind have subscribers.
    pub fn len(&self, kind: Kind) -> usize {
        self.lens[kind as usize].load(Ordering::Acquire)
    }

    /// How many subscribers a channel has by its name.
    pub fn subscribers(&self, kind: Kind, name: &[u8]) -> usize {
        let names = self.stripe(kind, name).lock().expect(LOCKED);
        names.get(name).map_or(0, |counts| counts.values().sum())
    }

    /// The channels that have subscribers and match a pattern, if one is given.
    pub fn channels(&self, kind: Kind, pattern: Option<&[u8]>) -> Vec<Box<[u8]>> {
        let stripes =
            if kind == Kind::ShardChannel { &self.shard_channels } else { &self.channels };
        let fits =
            |name: &[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, name, Case::Keep));
        let names = stripes.iter().flat_map(|stripe| {
            let names = stripe.lock().expect(LOCKED);
            names
                .iter()
                .map(|(name, _)| name)
                .filter(|name| fits(name))
                .map(Box::from)
                .collect::<Vec<_>>()
        });
        names.collect()
    }

    /// Subscribers by shard that a message in a channel reaches, those by pattern with them.
    fn targets(&self, kind: Kind, channel: &[u8]) -> ClientsByShard {
        let mut targets = ClientsByShard::new();
        if self.len(kind) > 0 {
            let names = self.stripe(kind, channel).lock().expect(LOCKED);
            targets = names.get(channel).cloned().unwrap_or_default();
        }
        if kind == Kind::Channel && self.len(Kind::Pattern) > 0 {
            for (pattern, counts) in self.patterns.read().expect(LOCKED).iter() {
                if glob::matches(pattern, channel, Case::Keep) {
                    counts.iter().for_each(|(shard, count)| {
                        *targets.entry(*shard).or_default() += count;
                    });
                }
            }
        }
        targets
    }
}

/// A message on its way.
#[derive(Debug)]
pub struct Published {
    kind: Kind,
    channel: Box<[u8]>,
    payload: Box<[u8]>,
}

impl Published {
    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.channel.len() + self.payload.len()
    }
}

/// Subscribers, by what they name.
type Subscribers = BTreeMap<Box<[u8]>, BTreeSet<ConnId>>;

/// The subscribers of one shard.
#[derive(Debug, Default)]
pub struct Subscriptions {
    /// By [`Kind`].
    names: [Subscribers; 3],
    /// Clients with any subscription.
    pub clients: usize,
}

impl Subscriptions {
    fn add(&mut self, kind: Kind, name: &[u8], conn: ConnId) {
        self.names[kind as usize].entry(name.into()).or_default().insert(conn);
    }

    fn remove(&mut self, kind: Kind, name: &[u8], conn: ConnId) {
        let names = &mut self.names[kind as usize];
        let Some(subscribers) = names.get_mut(name) else { return };
        subscribers.remove(&conn);
        if subscribers.is_empty() {
            names.remove(name);
        }
    }

    /// Everybody whom a message reaches: a wire form of it for each name that fits, with the
    /// subscribers by that name.
    fn each_target(&self, published: &Published, mut f: impl FnMut(Vec<u8>, &BTreeSet<ConnId>)) {
        let Published { kind, channel, payload } = published;
        if let Some(subscribers) = self.names[*kind as usize].get(channel) {
            f(message_form(&[kind.message_word(), channel, payload]), subscribers);
        }
        if *kind == Kind::Channel {
            for (pattern, subscribers) in &self.names[Kind::Pattern as usize] {
                if glob::matches(pattern, channel, Case::Keep) {
                    let word = Kind::Pattern.message_word();
                    f(message_form(&[word, pattern, channel, payload]), subscribers);
                }
            }
        }
    }
}

/// A message in wire form, without its first byte: RESP2 and RESP3 differ in that alone.
fn message_form(parts: &[&[u8]]) -> Vec<u8> {
    let mut reply = Reply::default();
    reply.array(parts.len());
    parts.iter().for_each(|part| reply.bulk(part));
    reply.into_bytes().split_off(1)
}

/// What one client subscribes to, by [`Kind`].
#[derive(Debug, Default)]
pub struct Subscribed([BTreeSet<Box<[u8]>>; 3]);

impl Subscribed {
    /// How many names of a kind.
    pub fn len(&self, kind: Kind) -> usize {
        self.0[kind as usize].len()
    }

    /// Names of a kind.
    pub fn names(&self, kind: Kind) -> impl Iterator<Item = &[u8]> {
        self.0[kind as usize].iter().map(|name| &**name)
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(BTreeSet::is_empty)
    }
}

impl Client {
    /// Whether it speaks RESP2 and subscribes to something: all that it gets looks like replies, so
    /// that it may give few commands.
    pub fn is_listening(&self) -> bool {
        self.subscribed.is_some() && self.protocol == Protocol::Resp2
    }

    /// How many names of a kind it subscribes to.
    pub fn subscribed(&self, kind: Kind) -> usize {
        self.subscribed.as_ref().map_or(0, |subscribed| subscribed.len(kind))
    }

    /// The number that confirmations of a kind carry: shard channels are counted by themselves.
    pub fn subscription_count(&self, kind: Kind) -> usize {
        match kind {
            Kind::ShardChannel => self.subscribed(kind),
            _ => self.subscribed(Kind::Channel) + self.subscribed(Kind::Pattern),
        }
    }
}

impl ShardState {
    /// Subscribes a client.
    pub fn subscribe(&mut self, client: &mut Client, kind: Kind, name: &[u8]) {
        if client.subscribed.is_none() {
            self.subscriptions.clients += 1;
        }
        let subscribed = client.subscribed.get_or_insert_default();
        if subscribed.0[kind as usize].insert(name.into()) {
            self.subscriptions.add(kind, name, client.conn);
            self.process.pubsub.add(kind, name, self.index);
        }
    }

    /// Ends a subscription of a client, if it has it.
    pub fn unsubscribe(&mut self, client: &mut Client, kind: Kind, name: &[u8]) {
        let Some(subscribed) = &mut client.subscribed else { return };
        if subscribed.0[kind as usize].remove(name) {
            self.subscriptions.remove(kind, name, client.conn);
            self.process.pubsub.remove(kind, name, self.index);
        }
        if subscribed.is_empty() {
            client.subscribed = None;
            self.subscriptions.clients -= 1;
        }
    }

    /// Ends all subscriptions of a client.
    pub fn unsubscribe_all(&mut self, client: &mut Client) {
        let Some(subscribed) = client.subscribed.take() else { return };
        self.subscriptions.clients -= 1;
        for kind in Kind::ALL {
            for name in subscribed.names(kind) {
                self.subscriptions.remove(kind, name, client.conn);
                self.process.pubsub.remove(kind, name, self.index);
            }
        }
    }

    /// Publishes a message; answers how many subscribers it goes to.
    pub fn publish(&mut self, kind: Kind, channel: &[u8], payload: &[u8]) -> usize {
        let targets = self.process.pubsub.targets(kind, channel);
        if targets.is_empty() {
            return 0;
        }
        let published =
            Arc::new(Published { kind, channel: channel.into(), payload: payload.into() });
        for shard in targets.keys().map(|shard| usize::from(*shard)) {
            if shard == self.index {
                self.deliver(&published);
            } else {
                self.outgoing[shard].push(PeerMessage::Publish(Arc::clone(&published)));
            }
        }
        targets.values().sum()
    }

    /// Hands a message to this shard's subscribers.
    pub fn deliver(&mut self, published: &Published) {
        let subscriptions = std::mem::take(&mut self.subscriptions);
        subscriptions.each_target(published, |form, subscribers| {
            let form = Arc::new(SharedBytes::new(form, &self.shared_bytes));
            subscribers.iter().for_each(|conn| self.push(*conn, &form));
        });
        self.subscriptions = subscriptions;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_has_its_subscribers_by_shard() {
        let registry = Registry::default();
        registry.add(Kind::Channel, b"news.a", 0);
        registry.add(Kind::Channel, b"news.a", 3);
        registry.add(Kind::Pattern, b"news.*", 3);
        registry.add(Kind::ShardChannel, b"news.a", 1);
        assert_eq!(
            registry.targets(Kind::Channel, b"news.a"),
            ClientsByShard::from([(0, 1), (3, 2)])
        );
        assert_eq!(registry.targets(Kind::Channel, b"news.b"), ClientsByShard::from([(3, 1)]));
        assert_eq!(registry.targets(Kind::ShardChannel, b"news.a"), ClientsByShard::from([(1, 1)]));
        assert_eq!(registry.subscribers(Kind::Channel, b"news.a"), 2);
        registry.remove(Kind::Channel, b"news.a", 3);
        registry.remove(Kind::Channel, b"news.a", 0);
        registry.remove(Kind::Pattern, b"news.*", 3);
        assert!(registry.targets(Kind::Channel, b"news.a").is_empty());
        assert_eq!(Kind::ALL.map(|kind| registry.len(kind)), [0, 0, 1]);
        assert!(registry.channels(Kind::Channel, None).is_empty());
        assert_eq!(registry.channels(Kind::ShardChannel, Some(b"n*")).len(), 1);
    }
}
