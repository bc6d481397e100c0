//! Where a request runs: here, on the shard that owns its keys, or here once shares of other shards
//! have come.

use super::{Core, OUTPUT_PAUSE_BYTES};
use crate::command::args::Args;
use crate::command::spec::{Command, flag, key_flag};
use crate::command::table::Entry;
use crate::conn::{Client, ReplyMode};
use crate::keyspace::{Keyspace, ShardSet, shard_of};

/// The shares that a request works on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Needs {
    /// None: it has no keys.
    #[default]
    Nothing,
    /// That of one shard.
    One(usize),
    /// Those of several, or of one other shard's that must come to the client's.
    Set(ShardSet),
}

impl Needs {
    /// Needs what either needs.
    pub(crate) fn unite(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, needs) | (needs, Self::Nothing) => needs,
            (Self::One(a), Self::One(b)) if a == b => self,
            _ => {
                let mut set = self.set();
                set.unite(other.set());
                Self::Set(set)
            }
        }
    }

    /// The shards as a set.
    pub(crate) fn set(self) -> ShardSet {
        match self {
            Self::Nothing => ShardSet::default(),
            Self::One(shard) => ShardSet::one(shard),
            Self::Set(set) => set,
        }
    }

    /// The first shard of all.
    pub(crate) fn first(self) -> Option<usize> {
        match self {
            Self::One(shard) => Some(shard),
            _ => self.set().iter().next(),
        }
    }
}

/// What to do with a request now.
pub(super) enum Place {
    /// Run it on the selected share.
    Here,
    /// Run it on the own share, and put the reply behind the answers that are owed.
    HereInLine,
    /// Send it to a shard.
    Shard(usize),
    /// It must wait until the answers that are owed have come.
    AfterAnswers,
    /// It must wait for the own share.
    AfterReturn,
    /// It must wait for shares of others.
    AfterShares(ShardSet),
}

impl Keyspace {
    /// What a client's request needs. `slot` is the hash slot of its only key, where that is known.
    pub(crate) fn needs(
        &self,
        client: &Client,
        command: &Command,
        args: Args<'_>,
        slot: Option<u16>,
    ) -> Needs {
        let shards = self.shards();
        // A command on no key of its own means the keys of this port where ports have their own.
        let means_own = self.own_only
            && (command.is(flag::ALL_SHARDS)
                || command.place.is_some() && command.keys.is_empty() && !command.is(flag::HOME));
        if means_own || command.is(flag::OWN_SHARE) {
            return Needs::One(self.own_shard());
        }
        if command.is(flag::ALL_SHARDS) {
            return Needs::Set(ShardSet::all(shards));
        }
        if let Some(slot) = slot {
            return Needs::One(shard_of(slot, shards));
        }
        if let Some(place) = command.place {
            return place(args, client, shards);
        }
        key_indexes(command, args).fold(Needs::Nothing, |needs, index| {
            let slot = engine::hash_slot(args.get(index));
            needs.unite(Needs::One(shard_of(slot, shards)))
        })
    }

    /// The shard whose share a request works on first: that of its first key, or the first of all.
    pub(crate) fn first_shard(
        &self,
        client: &Client,
        command: &Command,
        args: Args<'_>,
    ) -> Option<usize> {
        let first = key_indexes(command, args).next();
        let owner = first.map(|index| shard_of(engine::hash_slot(args.get(index)), self.shards()));
        owner.or_else(|| self.needs(client, command, args, None).first())
    }
}

impl Core {
    /// Finds the place of a request and selects the share that it runs on.
    pub(super) fn place(
        &mut self,
        client: &Client,
        entry: &Entry,
        args: Args<'_>,
        slot: Option<u16>,
    ) -> Place {
        let own = self.state.index;
        let mut needs = self.keyspace.needs(client, entry.command, args, slot);
        if entry.command.is(flag::HOME)
            && let Needs::One(shard) = needs
            && shard != own
        {
            needs = Needs::Set(ShardSet::one(shard));
        }
        let missing = match needs {
            Needs::Nothing => None,
            Needs::One(shard) if self.keyspace.has(shard) => None,
            Needs::One(shard) if shard == own => Some(Place::AfterReturn),
            // The order of its answers is looked at when it is sent.
            Needs::One(shard) => return Place::Shard(shard),
            Needs::Set(set) if self.keyspace.has_all(&set) => None,
            Needs::Set(set) => Some(Place::AfterShares(set)),
        };
        if !client.waiting.is_empty() {
            let is_plain = needs == Needs::One(own)
                && client.reply_mode == ReplyMode::On
                && client.output_len() <= OUTPUT_PAUSE_BYTES
                && missing.is_none()
                && entry.command.survey.is_none()
                && !entry.command.is(flag::HOME | flag::BLOCKING);
            let read = entry.command.is(flag::READONLY);
            if is_plain && client.may_overtake(own, read, self.state.hot.relaxed_order) {
                self.keyspace.select(own);
                return Place::HereInLine;
            }
            return Place::AfterAnswers;
        }
        if let Some(wait) = missing {
            return wait;
        }
        let first = match needs {
            Needs::Set(_) => self.keyspace.first_shard(client, entry.command, args),
            needs => needs.first(),
        };
        if let Some(shard) = first {
            self.keyspace.select(shard);
        }
        Place::Here
    }
}

/// Indexes of the arguments that are keys of the keyspace; channels are routed as keys only in a
/// cluster.
pub(crate) fn key_indexes(command: &Command, args: Args<'_>) -> impl Iterator<Item = usize> {
    let keys = command.keys.iter().filter(|spec| spec.flags & key_flag::NOT_KEY == 0);
    keys.flat_map(move |spec| spec.indexes(args))
}
