//! The configuration: one table of directives, files in Redis's syntax, CONFIG SET and GET.
//!
//! A value is kept as its canonical text, which is what CONFIG GET shows and CONFIG REWRITE
//! writes; the settings that code reads are typed fields derived from it after each change.
//! Every parameter of Redis 8.2 is known, so that files and scripts written for it work; those
//! without an effect yet are told apart by [`ACTED_ON`] and named at start
//! ([`Config::without_effect`]). What would be a lie to accept is refused (see `check`).

mod check;
mod directives;
#[cfg(test)]
mod golden;
mod options;
mod parse;
mod rewrite;
mod set;
mod value;
mod words;

pub use directives::{ACTED_ON, DIRECTIVES, Directive};
pub use parse::ConfigError;
pub use set::SetError;
pub use value::parse_memory;
pub(crate) use words::quoted;
pub use words::split as split_words;

use std::ffi::OsString;

use directives::{HIDDEN, SENSITIVE};
use value::Kind;

/// Which network backend to run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkBackend {
    /// The preferred one of the build that works.
    #[default]
    Auto,
    /// epoll.
    Epoll,
    /// io_uring or nothing.
    IoUring,
}

/// How much of what it is owed a client may leave unread. Zeros are without limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// With more bytes than this it is closed at once.
    pub hard_bytes: usize,
    /// With more bytes than this it is closed once [`OutputLimit::soft_ms`] have passed.
    pub soft_bytes: usize,
    /// How long it may stay over the soft limit.
    pub soft_ms: u64,
}

/// What happens when memory is over `maxmemory`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaxmemoryPolicy {
    lfu: bool,
}

impl MaxmemoryPolicy {
    /// Whether accesses are counted (LFU) rather than dated (LRU).
    pub fn is_lfu(self) -> bool {
        self.lfu
    }
}

/// The configuration. The public fields are derived from the directives of the same names.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "each field is the directive of its name")]
pub struct Config {
    /// Canonical values, in the order of [`DIRECTIVES`].
    values: Vec<Vec<u8>>,
    /// The file that the configuration came from.
    pub file: Option<std::path::PathBuf>,
    /// `cluster-config-file` was set, be it to its default.
    has_nodes_file: bool,
    /// Commands with other names than their own, in lower case; an empty one takes the command
    /// away.
    pub renamed_commands: Vec<(String, String)>,
    pub port: i64,
    pub bind: Vec<String>,
    pub protected_mode: bool,
    pub unixsocket: String,
    pub unixsocketperm: u32,
    pub databases: i64,
    pub requirepass: Vec<u8>,
    pub maxclients: i64,
    pub timeout: i64,
    pub tcp_backlog: i64,
    pub tcp_keepalive: i64,
    pub proto_max_bulk_len: i64,
    pub client_query_buffer_limit: i64,
    pub maxmemory: u64,
    pub maxmemory_policy: MaxmemoryPolicy,
    pub lfu_log_factor: i64,
    pub lfu_decay_time: i64,
    pub slowlog_log_slower_than: i64,
    pub slowlog_max_len: i64,
    pub latency_tracking: bool,
    pub loglevel: String,
    pub logfile: String,
    pub always_show_logo: bool,
    pub daemonize: bool,
    pub pidfile: String,
    pub dir: String,
    pub rdbcompression: bool,
    pub enable_debug_command: String,
    pub enable_protected_configs: String,
    pub cluster_enabled: bool,
    pub network_backend: NetworkBackend,
    pub arena_limit: u64,
    pub huge_pages: bool,
    /// `None` is `auto`.
    pub shards: Option<u32>,
}

impl Config {
    /// The configuration of a server that is given none.
    pub fn new() -> Self {
        let default = |directive: &Directive| directive.default.as_bytes().to_vec();
        let values = DIRECTIVES.iter().map(default).collect();
        let mut config = Self { values, ..Self::default() };
        config.derive();
        config
    }

    /// Reads the arguments of the program: `[file] [--name value ...] [-]`.
    ///
    /// # Errors
    /// [`ConfigError`]: what is wrong, and where.
    pub fn load(args: &[OsString]) -> Result<Self, ConfigError> {
        parse::load(args)
    }

    /// The canonical value of a directive. A secret, which may be other bytes than UTF-8 and then
    /// is empty here, is read with [`Config::bytes`].
    ///
    /// # Panics
    /// For a name that is no directive: names are written in the code.
    pub fn value(&self, name: &str) -> &str {
        std::str::from_utf8(self.bytes(name)).unwrap_or_default()
    }

    /// The canonical value of a directive, whatever bytes it is.
    ///
    /// # Panics
    /// As [`Config::value`].
    pub fn bytes(&self, name: &str) -> &[u8] {
        &self.values[find(name.as_bytes()).expect("a directive of the table")]
    }

    /// Whether a directive says `yes`.
    pub(crate) fn is_yes(&self, name: &str) -> bool {
        self.value(name) == "yes"
    }

    fn number(&self, name: &str) -> i64 {
        self.value(name).parse().unwrap_or(i64::MAX)
    }

    fn text(&self, name: &str) -> String {
        self.value(name).to_owned()
    }

    /// The `client-output-buffer-limit` of a class of clients.
    pub fn output_limit(&self, class: &str) -> OutputLimit {
        let words = self.value("client-output-buffer-limit").split(' ');
        let words = words.skip_while(|word| *word != class).skip(1);
        let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let [hard, soft, soft_s, ..] = numbers[..] else { return OutputLimit::default() };
        let (hard_bytes, soft_bytes) = (hard as usize, soft as usize);
        OutputLimit { hard_bytes, soft_bytes, soft_ms: soft_s.saturating_mul(1000) }
    }

    /// Up to where collections stay packed.
    pub fn limits(&self) -> engine::Limits {
        let size = |name| self.number(name) as usize;
        engine::Limits {
            list_max_listpack_size: self.number("list-max-listpack-size"),
            hash_max_listpack_entries: size("hash-max-listpack-entries"),
            hash_max_listpack_value: size("hash-max-listpack-value"),
            set_max_intset_entries: size("set-max-intset-entries"),
            set_max_listpack_entries: size("set-max-listpack-entries"),
            set_max_listpack_value: size("set-max-listpack-value"),
            zset_max_listpack_entries: size("zset-max-listpack-entries"),
            zset_max_listpack_value: size("zset-max-listpack-value"),
            stream_node_max_bytes: size("stream-node-max-bytes"),
            stream_node_max_entries: size("stream-node-max-entries"),
            hll_sparse_max_bytes: size("hll-sparse-max-bytes"),
        }
    }

    /// `tracking-table-max-keys`.
    pub fn tracking_table_max_keys(&self) -> i64 {
        self.number("tracking-table-max-keys")
    }

    /// Whether each shard listens at a port of its own (`port-mode per-shard`).
    pub fn is_port_per_shard(&self) -> bool {
        self.value("port-mode") == "per-shard"
    }

    /// The file that keeps the nodes of the cluster over restarts. With `port-mode per-shard` alone
    /// there is one only if it was asked for.
    pub fn nodes_file(&self) -> Option<std::path::PathBuf> {
        let is_asked_for = self.is_port_per_shard() && self.has_nodes_file;
        let is_kept = self.is_yes("cluster-enabled") || is_asked_for;
        is_kept.then(|| self.value("cluster-config-file").into())
    }

    /// Whether `pipeline-order` is `relaxed`.
    pub fn pipeline_order_relaxed(&self) -> bool {
        self.value("pipeline-order") == "relaxed"
    }

    fn derive(&mut self) {
        self.port = self.number("port");
        self.bind = self.value("bind").split(' ').map(str::to_owned).collect();
        self.bind.retain(|address| !address.is_empty());
        self.protected_mode = self.is_yes("protected-mode");
        self.unixsocket = self.text("unixsocket");
        self.unixsocketperm = u32::from_str_radix(self.value("unixsocketperm"), 8).unwrap_or(0);
        self.databases = self.number("databases");
        self.requirepass = self.bytes("requirepass").to_vec();
        self.maxclients = self.number("maxclients");
        self.timeout = self.number("timeout");
        self.tcp_backlog = self.number("tcp-backlog");
        self.tcp_keepalive = self.number("tcp-keepalive");
        self.proto_max_bulk_len = self.number("proto-max-bulk-len");
        self.client_query_buffer_limit = self.number("client-query-buffer-limit");
        self.maxmemory = self.number("maxmemory") as u64;
        self.maxmemory_policy.lfu = self.value("maxmemory-policy").ends_with("lfu");
        self.lfu_log_factor = self.number("lfu-log-factor");
        self.lfu_decay_time = self.number("lfu-decay-time");
        self.slowlog_log_slower_than = self.number("slowlog-log-slower-than");
        self.slowlog_max_len = self.number("slowlog-max-len");
        self.latency_tracking = self.is_yes("latency-tracking");
        self.loglevel = self.text("loglevel");
        self.logfile = self.text("logfile");
        self.always_show_logo = self.is_yes("always-show-logo");
        self.daemonize = self.is_yes("daemonize");
        self.pidfile = self.text("pidfile");
        self.dir = self.text("dir");
        self.rdbcompression = self.is_yes("rdbcompression");
        self.enable_debug_command = self.text("enable-debug-command");
        self.enable_protected_configs = self.text("enable-protected-configs");
        self.cluster_enabled = self.is_yes("cluster-enabled") || self.is_port_per_shard();
        self.network_backend = match self.value("network-backend") {
            "epoll" => NetworkBackend::Epoll,
            "io_uring" => NetworkBackend::IoUring,
            _ => NetworkBackend::Auto,
        };
        self.arena_limit = self.number("arena-limit") as u64;
        self.huge_pages = self.is_yes("huge-pages");
        self.shards = self.value("shards").parse().ok();
    }

    /// Names and values of the directives that match any of the patterns, aliases with them.
    /// Hidden ones are found by their names only.
    pub fn matching<'a>(
        &'a self,
        patterns: &'a [&'a [u8]],
    ) -> impl Iterator<Item = (&'static str, Vec<u8>)> + 'a {
        use encodings::glob::{self, Case};
        let indexed = DIRECTIVES.iter().enumerate().flat_map(|(index, directive)| {
            let names = [Some(directive.name), directive.alias];
            names.into_iter().flatten().map(move |name| (name, index, directive.is(HIDDEN)))
        });
        let is_named = |name: &str, hidden: bool, pattern: &[u8]| match hidden {
            true => name.as_bytes().eq_ignore_ascii_case(pattern),
            false => glob::matches(pattern, name.as_bytes(), Case::Ignore),
        };
        indexed
            .filter(move |(name, _, hidden)| {
                patterns.iter().any(|pattern| is_named(name, *hidden, pattern))
            })
            .map(|(name, index, _)| (name, self.shown(index)))
    }

    /// A value as CONFIG GET shows it.
    fn shown(&self, index: usize) -> Vec<u8> {
        let value = &self.values[index];
        match DIRECTIVES[index].kind {
            // The folder that the process has moved to.
            _ if DIRECTIVES[index].name == "dir" => match std::env::current_dir() {
                Ok(dir) => dir.into_os_string().into_encoded_bytes(),
                Err(_) => value.clone(),
            },
            Kind::Events => value::shown_events(&String::from_utf8_lossy(value)).into_bytes(),
            _ => value.clone(),
        }
    }

    /// The directives that were given another value than their default and that nothing acts on
    /// yet: worth a line in the log. Saving to disk is a matter of its own, [`Config::asks_to_save`].
    pub fn without_effect(&self) -> impl Iterator<Item = &'static str> + '_ {
        DIRECTIVES
            .iter()
            .zip(&self.values)
            .filter(|(directive, value)| directive.default.as_bytes() != value.as_slice())
            .map(|(directive, _)| directive.name)
            .filter(|name| !ACTED_ON.contains(name) && !["save", "appendonly"].contains(name))
    }

    /// Whether data should be written to disk.
    pub fn asks_to_save(&self) -> bool {
        !self.value("save").is_empty() || self.is_yes("appendonly")
    }

    /// CONFIG REWRITE: the text that the configuration file gets for its old one. With `all`, the
    /// directives that have their defaults are in it too.
    pub fn rewrite(&self, old: &[u8], all: bool) -> Vec<u8> {
        rewrite::rewrite(self, old, all)
    }
}

/// The place of a directive in the table.
fn find(name: &[u8]) -> Option<usize> {
    DIRECTIVES.iter().position(|directive| directive.is_called(name))
}

/// Whether the value of a directive is a secret.
pub fn is_sensitive(name: &[u8]) -> bool {
    find(name).is_some_and(|index| DIRECTIVES[index].is(SENSITIVE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_canonical() {
        for directive in DIRECTIVES {
            let words = directive.kind.words(directive.default.as_bytes());
            // No master is the absence of the directive.
            if directive.name != "replicaof" {
                let value = directive.kind.canonical(&words, directive.default);
                assert_eq!(value, Ok(directive.default.as_bytes().to_vec()), "{}", directive.name);
            }
        }
        for name in ACTED_ON {
            assert!(find(name.as_bytes()).is_some(), "{name}");
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> =
            DIRECTIVES.iter().flat_map(|row| [Some(row.name), row.alias]).flatten().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn aliases_are_shown_beside_names() {
        let config = Config::new();
        let patterns: [&[u8]; 1] = [b"*slave-priority"];
        let found: Vec<_> = config.matching(&patterns).collect();
        assert_eq!(found, [("slave-priority", b"100".to_vec())]);
    }

    #[test]
    fn hidden_directives_have_to_be_asked_for() {
        let config = Config::new();
        let all: [&[u8]; 1] = [b"*"];
        assert!(!config.matching(&all).any(|(name, _)| name == "key-load-delay"));
        let named: [&[u8]; 1] = [b"Key-Load-Delay"];
        assert_eq!(config.matching(&named).count(), 1);
    }

    #[test]
    fn what_has_no_effect_is_told() {
        let mut config = Config::new();
        assert_eq!(config.without_effect().count(), 0);
        config.set(&[(b"hz", b"20"), (b"appendfsync", b"no")], true).expect("good values");
        assert_eq!(config.without_effect().collect::<Vec<_>>(), ["appendfsync"]);
    }
}
