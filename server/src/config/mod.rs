//! The configuration: one table of directives, files in Redis's syntax, CONFIG SET and GET.
//!
//! A value is kept as its canonical text, which is what CONFIG GET shows and CONFIG REWRITE
//! writes; the settings that code reads are typed fields derived from it after each change.

mod directives;
mod parse;
mod rewrite;
mod value;

pub use directives::{ACTED_ON, DIRECTIVES, Directive};
pub use parse::{ConfigError, split_words};
pub use rewrite::RewriteError;
pub use value::parse_memory;

use directives::{IMMUTABLE, PROTECTED, SENSITIVE};

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
    values: Vec<String>,
    /// The file that the configuration came from.
    pub file: Option<std::path::PathBuf>,
    pub port: i64,
    pub bind: Vec<String>,
    pub protected_mode: bool,
    pub unixsocket: String,
    pub unixsocketperm: u32,
    pub databases: i64,
    pub requirepass: String,
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

/// Why CONFIG SET refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// A name that is no directive.
    Unknown(Vec<u8>),
    /// The name and why.
    Refused(String, String),
}

impl Config {
    /// The configuration of a server that is given none.
    pub fn new() -> Self {
        let values = DIRECTIVES.iter().map(|directive| directive.default.to_owned()).collect();
        let mut config = Self { values, ..Self::default() };
        config.derive();
        config
    }

    /// Reads the arguments of the program: `[file] [--name value ...] [-]`.
    ///
    /// # Errors
    /// [`ConfigError`]: what is wrong, and where.
    pub fn load(args: &[String]) -> Result<Self, ConfigError> {
        parse::load(args)
    }

    /// The canonical value of a directive.
    ///
    /// # Panics
    /// For a name that is no directive: names are written in the code.
    pub fn value(&self, name: &str) -> &str {
        let index = find(name.as_bytes()).expect("a directive of the table");
        &self.values[index]
    }

    /// Whether a directive says `yes`.
    fn is_yes(&self, name: &str) -> bool {
        self.value(name) == "yes"
    }

    fn number(&self, name: &str) -> i64 {
        self.value(name).parse().unwrap_or_default()
    }

    fn text(&self, name: &str) -> String {
        self.value(name).to_owned()
    }

    /// The `client-output-buffer-limit` of normal clients.
    pub fn output_limit(&self) -> OutputLimit {
        let words = self.value("client-output-buffer-limit").split(' ');
        let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
        let [hard, soft, soft_s, ..] = numbers[..] else { return OutputLimit::default() };
        let (hard_bytes, soft_bytes) = (hard as usize, soft as usize);
        OutputLimit { hard_bytes, soft_bytes, soft_ms: soft_s * 1000 }
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
        self.requirepass = self.text("requirepass");
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
        self.pidfile = self.text("pidfile");
        self.dir = self.text("dir");
        self.rdbcompression = self.is_yes("rdbcompression");
        self.enable_debug_command = self.text("enable-debug-command");
        self.enable_protected_configs = self.text("enable-protected-configs");
        self.cluster_enabled = self.is_yes("cluster-enabled");
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
    pub fn matching<'a>(
        &'a self,
        patterns: &'a [&'a [u8]],
    ) -> impl Iterator<Item = (&'static str, String)> + 'a {
        let named = DIRECTIVES.iter().zip(&self.values).flat_map(|(directive, value)| {
            let names = [Some(directive.name), directive.alias];
            names.into_iter().flatten().map(move |name| (name, value))
        });
        named
            .filter(|(name, _)| {
                let matches = |pattern: &&[u8]| {
                    encodings::glob::matches(
                        pattern,
                        name.as_bytes(),
                        encodings::glob::Case::Ignore,
                    )
                };
                patterns.iter().any(matches)
            })
            .map(|(name, value)| (name, self.shown(name, value)))
    }

    fn shown(&self, name: &str, value: &str) -> String {
        match name {
            // The folder that the process has moved to.
            "dir" => std::env::current_dir()
                .map_or_else(|_| value.to_owned(), |dir| dir.display().to_string()),
            _ => value.to_owned(),
        }
    }

    /// CONFIG SET: all pairs or none. `local` tells that the client is on this machine.
    ///
    /// # Errors
    /// [`SetError`]; nothing has changed.
    pub fn set(&mut self, pairs: &[(&[u8], &[u8])], local: bool) -> Result<(), SetError> {
        let mut values = self.values.clone();
        let mut seen = Vec::new();
        for (name, value) in pairs {
            let index = find(name).ok_or_else(|| SetError::Unknown(name.to_vec()))?;
            let directive = &DIRECTIVES[index];
            let shown = String::from_utf8_lossy(name).into_owned();
            let refuse = |why: String| SetError::Refused(shown.clone(), why);
            if directive.is(IMMUTABLE) {
                return Err(refuse("can't set immutable config".to_owned()));
            }
            if directive.is(PROTECTED) && !self.allows_protected(local) {
                return Err(refuse("can't set protected config".to_owned()));
            }
            if seen.contains(&index) {
                return Err(refuse("duplicate parameter".to_owned()));
            }
            seen.push(index);
            let value = std::str::from_utf8(value)
                .map_err(|_| refuse("argument is not valid UTF-8".to_owned()))?;
            values[index] = directive.kind.canonical(value, &values[index]).map_err(&refuse)?;
            check(directive.name, &values[index]).map_err(&refuse)?;
        }
        self.values = values;
        self.derive();
        Ok(())
    }

    fn allows_protected(&self, local: bool) -> bool {
        match self.enable_protected_configs.as_str() {
            "yes" => true,
            "local" => local,
            _ => false,
        }
    }

    /// CONFIG REWRITE: the text that the configuration file gets.
    ///
    /// # Errors
    /// [`RewriteError`]: there is no file, or it cannot be read.
    pub fn rewrite(&self) -> Result<String, RewriteError> {
        rewrite::rewrite(self, false)
    }

    /// As [`Config::rewrite`], with the directives that have their defaults too.
    ///
    /// # Errors
    /// As [`Config::rewrite`].
    pub fn rewrite_all(&self) -> Result<String, RewriteError> {
        rewrite::rewrite(self, true)
    }

    /// Sets a directive at start, where flags do not matter.
    fn set_at_start(&mut self, index: usize, value: &str) -> Result<(), String> {
        let canonical = DIRECTIVES[index].kind.canonical(value, &self.values[index])?;
        check(DIRECTIVES[index].name, &canonical)?;
        self.values[index] = canonical;
        Ok(())
    }
}

/// Checks that go beyond a directive's kind.
fn check(name: &str, value: &str) -> Result<(), String> {
    match name {
        "dbfilename" if value.contains('/') => {
            Err("dbfilename can't be a path, just a filename".to_owned())
        }
        "dir" if !std::path::Path::new(value).is_dir() => {
            Err("No such file or directory".to_owned())
        }
        "replicaof" if !value.is_empty() => match value.split_once(' ') {
            Some((_, port)) if port.contains(' ') => Err("wrong number of arguments".to_owned()),
            Some((_, port)) if port.parse::<u16>().is_err() => {
                Err("Invalid master port".to_owned())
            }
            Some(_) => Ok(()),
            None => Err("wrong number of arguments".to_owned()),
        },
        "activedefrag" if value == "yes" => {
            Err("Active defragmentation cannot be enabled: sparse pages are always compacted"
                .to_owned())
        }
        _ => Ok(()),
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
            let value = directive.kind.canonical(directive.default, directive.default);
            assert_eq!(value.as_deref(), Ok(directive.default), "{}", directive.name);
        }
        for name in ACTED_ON {
            assert!(find(name.as_bytes()).is_some(), "{name}");
        }
    }

    #[test]
    fn set_takes_all_or_nothing() {
        let mut config = Config::new();
        let error = config.set(&[(b"hz", b"20"), (b"maxmemory", b"x")], true);
        let why = "argument must be a memory value".to_owned();
        assert_eq!(error, Err(SetError::Refused("maxmemory".to_owned(), why)));
        assert_eq!(config.value("hz"), "10");
        assert_eq!(config.set(&[(b"HZ", b"20"), (b"maxmemory", b"1mb")], true), Ok(()));
        assert_eq!(config.maxmemory, 1 << 20);
        assert_eq!(config.set(&[(b"nope", b"1")], true), Err(SetError::Unknown(b"nope".to_vec())));
        for (name, why) in [
            ("port2", ""),
            ("databases", "can't set immutable config"),
            ("dbfilename", "can't set protected config"),
        ] {
            let error = config.set(&[(name.as_bytes(), b"2")], true);
            match error {
                Err(SetError::Refused(_, reason)) => assert_eq!(reason, why),
                other => assert_eq!(other, Err(SetError::Unknown(name.as_bytes().to_vec()))),
            }
        }
    }

    #[test]
    fn aliases_are_shown_beside_names() {
        let config = Config::new();
        let patterns: [&[u8]; 1] = [b"*slave-priority"];
        let found: Vec<_> = config.matching(&patterns).collect();
        assert_eq!(found, [("slave-priority", "100".to_owned())]);
    }
}
