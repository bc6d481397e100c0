//! What is known about a command before it runs: one [`Command`] row per command or subcommand.
//!
//! The rows of a family stand in the family's file beside its handlers; [`super::table`] joins
//! them. Everything else is derived from the rows: gates, COMMAND, statistics, documentation.

use super::args::Args;
use super::dispatch::{CommandCtx, CommandResult};
use crate::conn::Client;
use crate::input::Needs;
use crate::survey::Surveyor;

/// Runs a command. Arguments, keyspace and reply are in the context.
pub type Handler = fn(&mut CommandCtx<'_>) -> CommandResult;

/// Tells the shares that a client's request needs in a process of so many shards.
pub(crate) type Placement = fn(Args<'_>, &Client, usize) -> Needs;

/// Flags of a command, as COMMAND INFO names them.
pub mod flag {
    /// May change the keyspace.
    pub const WRITE: u32 = 1 << 0;
    /// Reads keys and changes nothing.
    pub const READONLY: u32 = 1 << 1;
    /// Refused while memory is over its limit.
    pub const DENYOOM: u32 = 1 << 2;
    /// For operators.
    pub const ADMIN: u32 = 1 << 3;
    /// Publishes or subscribes.
    pub const PUBSUB: u32 = 1 << 4;
    /// Not allowed in scripts.
    pub const NOSCRIPT: u32 = 1 << 5;
    /// May block the client.
    pub const BLOCKING: u32 = 1 << 6;
    /// Allowed while the data is loading.
    pub const LOADING: u32 = 1 << 7;
    /// Allowed on a replica whose data is stale.
    pub const STALE: u32 = 1 << 8;
    /// Not shown by MONITOR.
    pub const SKIP_MONITOR: u32 = 1 << 9;
    /// Not kept in the slow log.
    pub const SKIP_SLOWLOG: u32 = 1 << 10;
    /// Accepted by a node that imports the hash slot.
    pub const ASKING: u32 = 1 << 11;
    /// Constant or logarithmic time.
    pub const FAST: u32 = 1 << 12;
    /// Needs no authentication.
    pub const NO_AUTH: u32 = 1 << 13;
    /// May replicate without being a write.
    pub const MAY_REPLICATE: u32 = 1 << 14;
    /// Not allowed while data is loaded beside the served data.
    pub const NO_ASYNC_LOADING: u32 = 1 << 15;
    /// Not allowed in a transaction.
    pub const NO_MULTI: u32 = 1 << 16;
    /// The keys cannot be told from positions alone.
    pub const MOVABLE_KEYS: u32 = 1 << 17;
    /// Allowed while a script is running.
    pub const ALLOW_BUSY: u32 = 1 << 18;
    /// Runs where its client is, as it reads or changes what the server keeps of the client.
    pub const HOME: u32 = 1 << 28;
    /// Runs what is queued since MULTI.
    pub const RUNS_QUEUE: u32 = 1 << 23;
    /// What CLIENT CACHING says holds for the command behind it.
    pub const KEEPS_CACHING: u32 = 1 << 24;
    /// Stopped by CLIENT PAUSE WRITE though it is no write, as replicas would get it.
    pub const STOPS_AS_WRITE: u32 = 1 << 25;
    /// Allowed to a RESP2 client that has subscribed to something.
    pub const IN_SUBSCRIBED: u32 = 1 << 26;
    /// Runs at once even between MULTI and EXEC.
    pub const IN_MULTI: u32 = 1 << 27;
    /// Looks at the shard's own share, beside what it has keys for.
    pub const OWN_SHARE: u32 = 1 << 29;
    /// Sees or changes the keys of every shard; names none.
    pub const ALL_SHARDS: u32 = 1 << 30;
}

/// The names of the flags, from bit 0 on, in the order in which COMMAND INFO lists them.
pub const FLAG_NAMES: &[&str] = &[
    "write",
    "readonly",
    "denyoom",
    "admin",
    "pubsub",
    "noscript",
    "blocking",
    "loading",
    "stale",
    "skip_monitor",
    "skip_slowlog",
    "asking",
    "fast",
    "no_auth",
    "may_replicate",
    "no_async_loading",
    "no_multi",
    "movablekeys",
    "allow_busy",
];

/// ACL categories that a row names; those that follow from flags are derived.
pub mod acl {
    /// Keys of any type.
    pub const KEYSPACE: u32 = 1 << 0;
    /// Reads keys; derived.
    pub const READ: u32 = 1 << 1;
    /// Changes keys; derived.
    pub const WRITE: u32 = 1 << 2;
    /// Sets.
    pub const SET: u32 = 1 << 3;
    /// Sorted sets.
    pub const SORTEDSET: u32 = 1 << 4;
    /// Lists.
    pub const LIST: u32 = 1 << 5;
    /// Hashes.
    pub const HASH: u32 = 1 << 6;
    /// Strings.
    pub const STRING: u32 = 1 << 7;
    /// Bitmaps.
    pub const BITMAP: u32 = 1 << 8;
    /// HyperLogLogs.
    pub const HYPERLOGLOG: u32 = 1 << 9;
    /// Places on earth.
    pub const GEO: u32 = 1 << 10;
    /// Streams.
    pub const STREAM: u32 = 1 << 11;
    /// Publishing and subscribing; derived.
    pub const PUBSUB: u32 = 1 << 12;
    /// Operators' commands; derived.
    pub const ADMIN: u32 = 1 << 13;
    /// Constant or logarithmic time; derived.
    pub const FAST: u32 = 1 << 14;
    /// Not fast; derived.
    pub const SLOW: u32 = 1 << 15;
    /// May block the client; derived.
    pub const BLOCKING: u32 = 1 << 16;
    /// Commands that harm when misused.
    pub const DANGEROUS: u32 = 1 << 17;
    /// Commands about the connection.
    pub const CONNECTION: u32 = 1 << 18;
    /// Transactions.
    pub const TRANSACTION: u32 = 1 << 19;
}

/// The names of the ACL categories, from bit 0 on.
pub const CATEGORY_NAMES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// The group of a command in the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Keys of any type.
    Generic,
    /// Strings.
    String,
    /// Bitmaps.
    Bitmap,
    /// HyperLogLogs.
    HyperLogLog,
    /// Lists.
    List,
    /// Sets.
    Set,
    /// Hashes.
    Hash,
    /// Sorted sets.
    SortedSet,
    /// Places on the earth.
    Geo,
    /// Streams.
    Stream,
    /// The connection.
    Connection,
    /// The server.
    Server,
    /// Transactions.
    Transactions,
    /// Publishing and subscribing.
    PubSub,
    /// The cluster.
    Cluster,
}

impl Group {
    /// All groups, in the order of the documentation.
    pub const ALL: [Self; 15] = [
        Self::String,
        Self::Bitmap,
        Self::HyperLogLog,
        Self::List,
        Self::Set,
        Self::Hash,
        Self::SortedSet,
        Self::Geo,
        Self::Stream,
        Self::Generic,
        Self::Transactions,
        Self::PubSub,
        Self::Cluster,
        Self::Connection,
        Self::Server,
    ];

    /// The name that COMMAND DOCS answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::String => "string",
            Self::Bitmap => "bitmap",
            Self::HyperLogLog => "hyperloglog",
            Self::List => "list",
            Self::Set => "set",
            Self::Hash => "hash",
            Self::SortedSet => "sorted-set",
            Self::Geo => "geo",
            Self::Stream => "stream",
            Self::Connection => "connection",
            Self::Server => "server",
            Self::Transactions => "transactions",
            Self::PubSub => "pubsub",
            Self::Cluster => "cluster",
        }
    }
}

/// Flags of a key specification.
pub mod key_flag {
    /// Reads and writes the value.
    pub const RW: u16 = 1 << 0;
    /// Reads the value.
    pub const RO: u16 = 1 << 1;
    /// Overwrites the value.
    pub const OW: u16 = 1 << 2;
    /// Removes the key.
    pub const RM: u16 = 1 << 3;
    /// Answers or copies the user's data.
    pub const ACCESS: u16 = 1 << 4;
    /// Changes the user's data by what it was.
    pub const UPDATE: u16 = 1 << 5;
    /// Adds data, never changes or deletes.
    pub const INSERT: u16 = 1 << 6;
    /// Deletes data.
    pub const DELETE: u16 = 1 << 7;
    /// Not a key, though it is routed as one.
    pub const NOT_KEY: u16 = 1 << 8;
    /// Keys that may be missed by the specification.
    pub const INCOMPLETE: u16 = 1 << 9;
    /// The flags differ by the arguments.
    pub const VARIABLE_FLAGS: u16 = 1 << 10;
}

/// The names of the flags of key specifications, from bit 0 on.
pub const KEY_FLAG_NAMES: &[&str] = &[
    "RW",
    "RO",
    "OW",
    "RM",
    "access",
    "update",
    "insert",
    "delete",
    "not_key",
    "incomplete",
    "variable_flags",
];

/// The names of the bits that are set.
pub fn bit_names(bits: u32, names: &'static [&'static str]) -> impl Iterator<Item = &'static str> {
    names.iter().enumerate().filter(move |(bit, _)| bits >> bit & 1 == 1).map(|(_, name)| *name)
}

/// A word in front of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keyword {
    /// The word.
    pub word: &'static str,
    /// Options that may stand beside it, with the number of their values.
    pub options: &'static [(&'static str, usize)],
    /// Which arguments behind it are keys.
    pub reach: Reach,
}

/// Which arguments behind a word are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The first half of all; nothing but options may stand in front of the word.
    Half,
    /// The next one, of the last such word.
    Next,
    /// The same, but clients are told that they cannot know.
    NextUntold,
    /// None: the keys are made from values, so that only the handler knows them.
    Computed,
}

impl Keyword {
    /// The places of the keys; where the word can be first.
    fn keys(&self, args: Args<'_>, first: i32) -> std::ops::Range<i32> {
        match self.reach {
            Reach::Half => self.half(args),
            Reach::Next | Reach::NextUntold => self.next(args, first as usize),
            Reach::Computed => 0..0,
        }
    }

    fn next(&self, args: Args<'_>, first: usize) -> std::ops::Range<i32> {
        let (mut at, mut found) = (first, 0..0);
        while at + 1 < args.len() {
            if args.is(at, self.word) {
                found = at as i32 + 1..at as i32 + 2;
                at += 1;
            } else if let Some((_, values)) =
                self.options.iter().find(|(word, _)| args.is(at, word))
            {
                at += values;
            }
            at += 1;
        }
        found
    }

    fn half(&self, args: Args<'_>) -> std::ops::Range<i32> {
        let mut at = 1;
        while at < args.len() && !args.is(at, self.word) {
            match self.options.iter().find(|(word, _)| args.is(at, word)) {
                Some((_, values)) => at += 1 + values,
                None => return 0..0,
            }
        }
        let behind = args.len().saturating_sub(at + 1);
        let count = if behind.is_multiple_of(2) { behind / 2 } else { 0 };
        at as i32 + 1..(at + 1 + count) as i32
    }
}

/// One group of key arguments: `first`, every `step`-th argument, up to `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// Index of the first key; the command's name has index 0.
    pub first: i32,
    /// Index of the last key relative to the first, or from the end if negative (-1 is the last
    /// argument).
    pub last: i32,
    /// Distance from one key to the next.
    pub step: i32,
    /// The argument at `first` says how many keys follow it; `last` means nothing then.
    pub counted: bool,
    /// The keys are behind a word, which `first` is where to look for.
    pub keyword: Option<Keyword>,
    /// Bits of [`key_flag`].
    pub flags: u16,
    /// A remark that COMMAND INFO shows.
    pub notes: Option<&'static str>,
}

impl KeySpec {
    /// One key at `first`.
    pub const fn one(first: i32, flags: u16) -> Self {
        Self { first, last: 0, step: 1, counted: false, keyword: None, flags, notes: None }
    }

    /// Keys from `first` to the last argument, `step` apart.
    pub const fn all(first: i32, step: i32, flags: u16) -> Self {
        Self { first, last: -1, step, counted: false, keyword: None, flags, notes: None }
    }

    /// Adds a remark.
    pub const fn notes(mut self, notes: &'static str) -> Self {
        self.notes = Some(notes);
        self
    }

    /// Keys behind the argument at `first`, which says how many there are.
    pub const fn counted(first: i32, flags: u16) -> Self {
        Self { first, last: 0, step: 1, counted: true, keyword: None, flags, notes: None }
    }

    /// Keys behind a word, which may stand from `first` on.
    pub const fn behind(keyword: Keyword, first: i32, flags: u16) -> Self {
        match keyword.reach {
            Reach::Half => Self { keyword: Some(keyword), ..Self::all(first, 1, flags) },
            _ => Self { keyword: Some(keyword), ..Self::one(first, flags) },
        }
    }

    /// Keys that the handler makes from values.
    pub const fn computed(flags: u16) -> Self {
        Self::behind(Keyword { word: "", options: &[], reach: Reach::Computed }, 1, flags)
    }

    /// Whether clients are told that they cannot know the keys.
    pub fn is_untold(&self) -> bool {
        let untold = [Reach::NextUntold, Reach::Computed];
        self.keyword.is_some_and(|keyword| untold.contains(&keyword.reach))
    }

    /// Indexes of the keys in a request; none where their number makes no sense.
    pub fn indexes(&self, args: Args<'_>) -> impl Iterator<Item = usize> + use<> {
        let argc = args.len() as i32;
        let (first, last) = if let Some(keyword) = &self.keyword {
            let keys = keyword.keys(args, self.first);
            (keys.start, keys.end - 1)
        } else if self.counted {
            let count = usize::try_from(self.first)
                .ok()
                .filter(|at| *at < args.len())
                .and_then(|at| args.integer(at).ok())
                .filter(|count| (1..i64::from(argc - self.first)).contains(count));
            (self.first + 1, self.first + count.unwrap_or(0) as i32)
        } else {
            let last = if self.last < 0 { argc + self.last } else { self.first + self.last };
            (self.first, last.min(argc - 1))
        };
        (first..=last).step_by(self.step as usize).map(|index| index as usize)
    }
}

/// A row: all that is known of a command or subcommand before it runs. Rows never change.
#[derive(Debug)]
pub struct Command {
    /// Lower-case name; of a subcommand, its own word only.
    pub name: &'static str,
    /// Number of arguments with the name(s); negative: at least as many.
    pub arity: i32,
    /// Bits of [`flag`].
    pub flags: u32,
    /// Bits of [`acl`] beyond those that the flags imply.
    pub categories: u32,
    /// Where the keys are.
    pub keys: &'static [KeySpec],
    /// The group in the documentation.
    pub group: Group,
    /// The version of Redis that had it first.
    pub since: &'static str,
    /// How the cost grows.
    pub complexity: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// Hints to clients, as COMMAND INFO shows them.
    pub tips: &'static [&'static str],
    /// Subcommands of a container.
    pub subcommands: &'static [Command],
    /// Tells the shares that a request needs, where that is not told by its keys.
    pub(crate) place: Option<Placement>,
    /// Makes another shard's part of the answer.
    pub(crate) survey: Option<Surveyor>,
    /// The handler; a container with subcommands runs those instead.
    pub run: Handler,
}

/// What the rows of one type's commands share.
pub(super) struct Family {
    pub(super) group: Group,
    /// Categories beyond those that the flags imply.
    pub(super) categories: u32,
}

impl Family {
    /// A row with its documentation.
    #[allow(clippy::too_many_arguments, reason = "a row of the table has so many columns")]
    pub(super) const fn row(
        &self,
        name: &'static str,
        arity: i32,
        flags: u32,
        run: Handler,
        keys: &'static [KeySpec],
        since: &'static str,
        cost: &'static str,
        summary: &'static str,
    ) -> Command {
        let row = Command::new(name, arity, flags, run).keys(keys).acl(self.categories);
        row.docs(self.group, since, cost, summary)
    }
}

impl Command {
    /// A row without keys; the builder calls below add to it.
    pub const fn new(name: &'static str, arity: i32, flags: u32, run: Handler) -> Self {
        Self {
            name,
            arity,
            flags,
            categories: 0,
            keys: &[],
            group: Group::Generic,
            since: "1.0.0",
            complexity: "",
            summary: "",
            tips: &[],
            subcommands: &[],
            place: None,
            survey: None,
            run,
        }
    }

    /// A command whose second word picks a subcommand.
    pub const fn container(name: &'static str, subcommands: &'static [Command]) -> Self {
        let mut row = Self::new(name, -2, 0, super::dispatch::unknown_subcommand);
        row.subcommands = subcommands;
        row
    }

    /// Sets where the keys are.
    pub const fn keys(mut self, keys: &'static [KeySpec]) -> Self {
        self.keys = keys;
        self
    }

    /// Sets the subcommands of a command that does something without them too.
    pub const fn subcommands(mut self, subcommands: &'static [Command]) -> Self {
        self.subcommands = subcommands;
        self
    }

    /// Sets the categories beyond those that the flags imply.
    pub const fn acl(mut self, categories: u32) -> Self {
        self.categories = categories;
        self
    }

    /// Sets group, first version, cost and summary.
    pub const fn docs(
        mut self,
        group: Group,
        since: &'static str,
        complexity: &'static str,
        summary: &'static str,
    ) -> Self {
        self.group = group;
        self.since = since;
        self.complexity = complexity;
        self.summary = summary;
        self
    }

    /// Sets the hints to clients.
    pub const fn tips(mut self, tips: &'static [&'static str]) -> Self {
        self.tips = tips;
        self
    }

    /// Sets how the shares that a request needs are told.
    pub(crate) const fn placed(mut self, place: Placement) -> Self {
        self.place = Some(place);
        self
    }

    /// Sets how other shards make their parts of the answer.
    pub(crate) const fn surveyed(mut self, survey: Surveyor) -> Self {
        self.survey = Some(survey);
        self
    }

    /// Whether a flag is set.
    #[inline]
    pub const fn is(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// All categories: the row's own and those that follow from its flags.
    pub const fn all_categories(&self) -> u32 {
        let mut bits = self.categories;
        let derived = [
            (flag::WRITE, acl::WRITE),
            (flag::READONLY, acl::READ),
            (flag::ADMIN, acl::ADMIN | acl::DANGEROUS),
            (flag::PUBSUB, acl::PUBSUB),
            (flag::BLOCKING, acl::BLOCKING),
            (flag::FAST, acl::FAST),
        ];
        let mut index = 0;
        while index < derived.len() {
            if self.is(derived[index].0) {
                bits |= derived[index].1;
            }
            index += 1;
        }
        if self.is(flag::FAST) { bits } else { bits | acl::SLOW }
    }

    /// Whether `argc` arguments fit.
    #[inline]
    pub const fn accepts(&self, argc: usize) -> bool {
        let argc = argc as i32;
        if self.arity >= 0 { argc == self.arity } else { argc >= -self.arity }
    }

    /// First key, last key and step, for clients that know no key specifications; zeros without
    /// keys that stand at fixed places. Groups that follow one another count as one.
    pub fn key_range(&self) -> (i32, i32, i32) {
        let last_of =
            |spec: &KeySpec| if spec.last < 0 { spec.last } else { spec.first + spec.last };
        let mut groups = self.keys.iter().filter(|spec| !spec.counted && spec.keyword.is_none());
        let Some(first) = groups.next() else { return (0, 0, 0) };
        match groups.next_back() {
            None => (first.first, last_of(first), first.step),
            Some(last) => (first.first, last_of(last), 1),
        }
    }

    /// Indexes of all key arguments of a request.
    pub fn key_indexes<'a>(&self, args: Args<'a>) -> impl Iterator<Item = usize> + use<'a> {
        self.keys.iter().flat_map(move |spec| spec.indexes(args))
    }
}
