//! The table of directives: name, kind, default and flags of each.
//!
//! All that CONFIG GET of Redis 8.2 answers to is here, so that files and scripts written for it
//! work. [`ACTED_ON`] lists what Osmia acts on; the rest is kept and shown and has no effect yet.

use super::value::Kind::{self, *};

/// Cannot be changed while the server runs.
pub(super) const IMMUTABLE: u8 = 1 << 0;
/// Can be changed only where `enable-protected-configs` allows.
pub(super) const PROTECTED: u8 = 1 << 1;
/// Holds a secret: not written to logs.
pub(super) const SENSITIVE: u8 = 1 << 2;
/// Osmia's own that cannot be changed: unlike Redis's, it takes the value that it has, so that
/// what CONFIG GET shows may be set again.
pub(super) const AT_START: u8 = 1 << 4;
/// Shown only to those who ask by name.
pub(super) const HIDDEN: u8 = 1 << 3;

const I32: i64 = i32::MAX as i64;
const U32: u64 = u32::MAX as u64;
/// Sizes are signed numbers in most places.
const SIZE: u64 = i64::MAX as u64;

/// Lines of a file that are no settings.
#[derive(Clone, Copy, Debug)]
pub(super) enum Other {
    /// Reads another file.
    Include,
    /// Gives a command another name.
    RenameCommand,
    /// Once had a meaning in Redis, which takes it for old files' sake.
    Ignored,
    /// A user. The default one may do all: CONFIG REWRITE of Redis writes down that it does.
    User,
    /// Means something that Osmia does not have.
    Refused(&'static str),
}

impl Other {
    /// The meaning of such a line by its first word, in lower case.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "include" => Self::Include,
            "rename-command" => Self::RenameCommand,
            "io-threads-do-reads"
            | "list-max-ziplist-entries"
            | "list-max-ziplist-value"
            | "lua-replicate-commands" => Self::Ignored,
            "loadmodule" => Self::Refused("modules are not supported"),
            "user" => Self::User,
            "sentinel" => Self::Refused("sentinel directive while not in sentinel mode"),
            _ => return None,
        })
    }
}

/// One directive.
#[derive(Debug)]
pub struct Directive {
    /// Its name.
    pub name: &'static str,
    /// Another name for it.
    pub alias: Option<&'static str>,
    /// What values it takes.
    pub kind: Kind,
    /// The value without a configuration.
    pub default: &'static str,
    flags: u8,
}

impl Directive {
    const fn alias(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }

    /// Whether a flag is set.
    pub(super) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether `name`, in any case, is its name or alias.
    pub fn is_called(&self, name: &[u8]) -> bool {
        self.name.as_bytes().eq_ignore_ascii_case(name)
            || self.alias.is_some_and(|alias| alias.as_bytes().eq_ignore_ascii_case(name))
    }
}

const fn row(name: &'static str, kind: Kind, default: &'static str, flags: u8) -> Directive {
    Directive { name, alias: None, kind, default, flags }
}

/// What changes something today. The others are accepted for the files that have them.
pub const ACTED_ON: &[&str] = &[
    "always-show-logo",
    "arena-limit",
    "bind",
    "client-output-buffer-limit",
    "client-query-buffer-limit",
    "cluster-announce-bus-port",
    "cluster-announce-hostname",
    "cluster-announce-ip",
    "cluster-announce-port",
    "cluster-config-file",
    "cluster-enabled",
    "cluster-forward",
    "cluster-port",
    "cluster-preferred-endpoint-type",
    "cluster-require-full-coverage",
    "cluster-slot-stats-enabled",
    "daemonize",
    "databases",
    "dir",
    "durability",
    "enable-debug-command",
    "enable-protected-configs",
    "hash-max-listpack-entries",
    "hash-max-listpack-value",
    "hll-sparse-max-bytes",
    "huge-pages",
    "hz",
    "latency-tracking",
    "latency-tracking-info-percentiles",
    "lfu-decay-time",
    "lfu-log-factor",
    "list-max-listpack-size",
    "logfile",
    "loglevel",
    "maxclients",
    "maxmemory",
    "maxmemory-policy",
    "network-backend",
    "pidfile",
    "pin-shards",
    "pipeline-order",
    "port",
    "port-mode",
    "protected-mode",
    "proto-max-bulk-len",
    "rdbcompression",
    "requirepass",
    "set-max-intset-entries",
    "set-max-listpack-entries",
    "set-max-listpack-value",
    "shards",
    "slowlog-log-slower-than",
    "slowlog-max-len",
    "stream-node-max-bytes",
    "stream-node-max-entries",
    "supervised",
    "tcp-backlog",
    "tcp-keepalive",
    "timeout",
    "unixsocket",
    "unixsocketperm",
    "zset-max-listpack-entries",
    "zset-max-listpack-value",
];

/// Osmia's own directives, then Redis's.
pub const DIRECTIVES: &[Directive] = &[
    row("arena-limit", Memory(1 << 20, 64 << 30), "68719476736", AT_START),
    row("cluster-forward", Bool, "no", 0),
    row("durability", Enum(&["memory", "everysec", "always"]), "memory", AT_START),
    row("huge-pages", Bool, "no", AT_START),
    row("network-backend", Enum(&["auto", "epoll", "io_uring"]), "auto", AT_START),
    row("pin-shards", Bool, "no", AT_START),
    row("pipeline-order", Enum(&["strict", "relaxed"]), "strict", 0),
    row("port-mode", Enum(&["single", "per-shard"]), "single", AT_START),
    row("shards", Shards, "auto", AT_START),
    row("acl-pubsub-default", Enum(&["allchannels", "resetchannels"]), "resetchannels", 0),
    row("aclfile", TextOrEmpty, "", IMMUTABLE),
    row("acllog-max-len", Integer(0, i64::MAX), "128", 0),
    row("active-defrag-cycle-max", Integer(1, 99), "25", 0),
    row("active-defrag-cycle-min", Integer(1, 99), "1", 0),
    row("active-defrag-ignore-bytes", Memory(1, SIZE), "104857600", 0),
    row("active-defrag-max-scan-fields", Integer(1, i64::MAX), "1000", 0),
    row("active-defrag-threshold-lower", Integer(0, 1000), "10", 0),
    row("active-defrag-threshold-upper", Integer(0, 1000), "100", 0),
    row("active-expire-effort", Integer(1, 10), "1", 0),
    row("activedefrag", Bool, "no", 0),
    row("activerehashing", Bool, "yes", 0),
    row("always-show-logo", Bool, "no", IMMUTABLE),
    row("aof-load-truncated", Bool, "yes", 0),
    row("aof-rewrite-cpulist", Text, "", IMMUTABLE).alias("aof_rewrite_cpulist"),
    row("aof-rewrite-incremental-fsync", Bool, "yes", 0),
    row("aof-timestamp-enabled", Bool, "no", 0),
    row("aof-use-rdb-preamble", Bool, "yes", 0),
    row("appenddirname", TextOrEmpty, "appendonlydir", IMMUTABLE),
    row("appendfilename", TextOrEmpty, "appendonly.aof", IMMUTABLE),
    row("appendfsync", Enum(&["everysec", "always", "no"]), "everysec", 0),
    row("appendonly", Bool, "no", 0),
    row("auto-aof-rewrite-min-size", SignedMemory(0, SIZE), "67108864", 0),
    row("auto-aof-rewrite-percentage", Integer(0, I32), "100", 0),
    row("bgsave-cpulist", Text, "", IMMUTABLE).alias("bgsave_cpulist"),
    row("bind", Addresses, "* -::*", 0),
    row("bind-source-addr", Text, "", 0),
    row("bio-cpulist", Text, "", IMMUTABLE).alias("bio_cpulist"),
    row("busy-reply-threshold", Integer(0, i64::MAX), "5000", 0).alias("lua-time-limit"),
    row(
        "client-output-buffer-limit",
        OutputLimits,
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        0,
    ),
    row("client-query-buffer-limit", Memory(1 << 20, SIZE), "1073741824", 0),
    row("cluster-allow-pubsubshard-when-down", Bool, "yes", 0),
    row("cluster-allow-reads-when-down", Bool, "no", 0),
    row("cluster-allow-replica-migration", Bool, "yes", 0),
    row("cluster-announce-bus-port", Integer(0, 65535), "0", 0),
    row("cluster-announce-hostname", Text, "", 0),
    row("cluster-announce-human-nodename", Text, "", 0),
    row("cluster-announce-ip", Text, "", 0),
    row("cluster-announce-port", Integer(0, 65535), "0", 0),
    row("cluster-announce-tls-port", Integer(0, 65535), "0", 0),
    row("cluster-compatibility-sample-ratio", Integer(0, 100), "0", 0),
    row("cluster-config-file", TextOrEmpty, "nodes.conf", IMMUTABLE),
    row("cluster-enabled", Bool, "no", IMMUTABLE),
    row("cluster-link-sendbuf-limit", Memory(0, SIZE), "0", 0),
    row("cluster-migration-barrier", Integer(0, I32), "1", 0),
    row("cluster-node-timeout", Integer(0, i64::MAX), "15000", 0),
    row("cluster-port", Integer(0, 65535), "0", IMMUTABLE),
    row("cluster-preferred-endpoint-type", Enum(&["ip", "hostname", "unknown-endpoint"]), "ip", 0),
    row("cluster-replica-no-failover", Bool, "no", 0).alias("cluster-slave-no-failover"),
    row("cluster-replica-validity-factor", Integer(0, I32), "10", 0)
        .alias("cluster-slave-validity-factor"),
    row("cluster-require-full-coverage", Bool, "yes", 0),
    row("cluster-slot-stats-enabled", Bool, "no", 0),
    row("crash-log-enabled", Bool, "yes", 0),
    row("crash-memcheck-enabled", Bool, "yes", 0),
    row("daemonize", Bool, "no", IMMUTABLE),
    row("databases", Integer(1, I32), "16", IMMUTABLE),
    row("dbfilename", TextOrEmpty, "dump.rdb", PROTECTED),
    row("dir", TextOrEmpty, ".", PROTECTED),
    row("disable-thp", Bool, "yes", IMMUTABLE),
    row("dynamic-hz", Bool, "yes", 0),
    row("enable-debug-command", Enum(&["no", "yes", "local"]), "no", IMMUTABLE),
    row("enable-module-command", Enum(&["no", "yes", "local"]), "no", IMMUTABLE),
    row("enable-protected-configs", Enum(&["no", "yes", "local"]), "no", IMMUTABLE),
    row("hash-max-listpack-entries", Unsigned(0, SIZE), "512", 0).alias("hash-max-ziplist-entries"),
    row("hash-max-listpack-value", Memory(0, SIZE), "64", 0).alias("hash-max-ziplist-value"),
    row("hide-user-data-from-log", Bool, "no", 0),
    row("hll-sparse-max-bytes", Memory(0, SIZE), "3000", 0),
    row("hz", Integer(0, I32), "10", 0),
    row("ignore-warnings", TextOrEmpty, "", 0),
    row("io-threads", Integer(1, 128), "1", IMMUTABLE),
    row("jemalloc-bg-thread", Bool, "yes", 0),
    row("latency-monitor-threshold", Integer(0, i64::MAX), "0", 0),
    row("latency-tracking", Bool, "yes", 0),
    row("latency-tracking-info-percentiles", Percentiles, "50 99 99.9", 0),
    row("lazyfree-lazy-eviction", Bool, "no", 0),
    row("lazyfree-lazy-expire", Bool, "no", 0),
    row("lazyfree-lazy-server-del", Bool, "no", 0),
    row("lazyfree-lazy-user-del", Bool, "no", 0),
    row("lazyfree-lazy-user-flush", Bool, "no", 0),
    row("lfu-decay-time", Integer(0, I32), "1", 0),
    row("lfu-log-factor", Integer(0, I32), "10", 0),
    row("list-compress-depth", Integer(0, I32), "0", 0),
    row("list-max-listpack-size", Integer(-I32 - 1, I32), "-2", 0).alias("list-max-ziplist-size"),
    row("locale-collate", TextOrEmpty, "", 0),
    row("logfile", TextOrEmpty, "", IMMUTABLE),
    row("loglevel", Enum(&["debug", "verbose", "notice", "warning", "nothing"]), "notice", 0),
    row("masterauth", Secret, "", SENSITIVE),
    row("masteruser", Secret, "", SENSITIVE),
    row("max-new-connections-per-cycle", Unsigned(1, 1000), "10", 0),
    row("max-new-tls-connections-per-cycle", Unsigned(1, 1000), "1", 0),
    row("maxclients", Unsigned(1, U32), "10000", 0),
    row("maxmemory", Memory(0, SIZE), "0", 0),
    row("maxmemory-clients", MemoryOrPercent, "0", 0),
    row("maxmemory-eviction-tenacity", Integer(0, 100), "10", 0),
    row(
        "maxmemory-policy",
        Enum(&[
            "volatile-lru",
            "volatile-lfu",
            "volatile-random",
            "volatile-ttl",
            "allkeys-lru",
            "allkeys-lfu",
            "allkeys-random",
            "noeviction",
        ]),
        "noeviction",
        0,
    ),
    row("maxmemory-samples", Integer(1, 64), "5", 0),
    row("min-replicas-max-lag", Integer(0, I32), "10", 0).alias("min-slaves-max-lag"),
    row("min-replicas-to-write", Integer(0, I32), "0", 0).alias("min-slaves-to-write"),
    row("no-appendfsync-on-rewrite", Bool, "no", 0),
    row("notify-keyspace-events", Events, "", 0),
    row("oom-score-adj", Enum(&["no", "yes", "relative", "absolute"]), "no", 0),
    row("oom-score-adj-values", OomValues, "0 200 800", 0),
    row("pidfile", Text, "", IMMUTABLE),
    row("port", Integer(0, 65535), "6379", 0),
    row("proc-title-template", TextOrEmpty, "{title} {listen-addr} {server-mode}", 0),
    row("propagation-error-behavior", Enum(&["ignore", "panic", "panic-on-replicas"]), "ignore", 0),
    row("protected-mode", Bool, "yes", 0),
    row("proto-max-bulk-len", SignedMemory(1 << 20, SIZE), "536870912", 0),
    row("rdb-del-sync-files", Bool, "no", 0),
    row("rdb-save-incremental-fsync", Bool, "yes", 0),
    row("rdbchecksum", Bool, "yes", IMMUTABLE),
    row("rdbcompression", Bool, "yes", 0),
    row("repl-backlog-size", SignedMemory(1, SIZE), "1048576", 0),
    row("repl-backlog-ttl", Integer(0, i64::MAX), "3600", 0),
    row("repl-disable-tcp-nodelay", Bool, "no", 0),
    row("repl-diskless-load", Enum(&["disabled", "on-empty-db", "swapdb"]), "disabled", 0),
    row("repl-diskless-sync", Bool, "yes", 0),
    row("repl-diskless-sync-delay", Integer(0, I32), "5", 0),
    row("repl-diskless-sync-max-replicas", Integer(0, I32), "0", 0),
    row("repl-ping-replica-period", Integer(1, I32), "10", 0).alias("repl-ping-slave-period"),
    row("repl-timeout", Integer(1, I32), "60", 0),
    row("replica-announce-ip", Text, "", 0).alias("slave-announce-ip"),
    row("replica-announce-port", Integer(0, 65535), "0", 0).alias("slave-announce-port"),
    row("replica-announced", Bool, "yes", 0),
    row("replica-full-sync-buffer-limit", SignedMemory(0, SIZE), "0", 0),
    row("replica-ignore-disk-write-errors", Bool, "no", 0),
    row("replica-ignore-maxmemory", Bool, "yes", 0).alias("slave-ignore-maxmemory"),
    row("replica-lazy-flush", Bool, "no", 0).alias("slave-lazy-flush"),
    row("replica-priority", Integer(0, I32), "100", 0).alias("slave-priority"),
    row("replica-read-only", Bool, "yes", 0).alias("slave-read-only"),
    row("replica-serve-stale-data", Bool, "yes", 0).alias("slave-serve-stale-data"),
    row("replicaof", Master, "", IMMUTABLE).alias("slaveof"),
    row("requirepass", Secret, "", SENSITIVE),
    row("sanitize-dump-payload", Enum(&["no", "yes", "clients"]), "no", 0),
    row("save", Save, "3600 1 300 100 60 10000", 0),
    row("server-cpulist", Text, "", IMMUTABLE).alias("server_cpulist"),
    row("set-max-intset-entries", Unsigned(0, SIZE), "512", 0),
    row("set-max-listpack-entries", Unsigned(0, SIZE), "128", 0),
    row("set-max-listpack-value", Unsigned(0, SIZE), "64", 0),
    row("set-proc-title", Bool, "yes", IMMUTABLE),
    row("shutdown-on-sigint", Set(&["default", "save", "nosave", "now", "force"]), "default", 0),
    row("shutdown-on-sigterm", Set(&["default", "save", "nosave", "now", "force"]), "default", 0),
    row("shutdown-timeout", Integer(0, I32), "10", 0),
    row("slowlog-log-slower-than", Integer(-1, i64::MAX), "10000", 0),
    row("slowlog-max-len", Integer(0, i64::MAX), "128", 0),
    row("socket-mark-id", Unsigned(0, U32), "0", IMMUTABLE),
    row("stop-writes-on-bgsave-error", Bool, "yes", 0),
    row("stream-node-max-bytes", Memory(0, SIZE), "4096", 0),
    row("stream-node-max-entries", Integer(0, i64::MAX), "100", 0),
    row("supervised", Enum(&["upstart", "systemd", "auto", "no"]), "no", IMMUTABLE),
    row("syslog-enabled", Bool, "no", IMMUTABLE),
    row(
        "syslog-facility",
        Enum(&[
            "user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
        ]),
        "local0",
        IMMUTABLE,
    ),
    row("syslog-ident", TextOrEmpty, "redis", IMMUTABLE),
    row("tcp-backlog", Integer(0, I32), "511", IMMUTABLE),
    row("tcp-keepalive", Integer(0, I32), "300", 0),
    row("timeout", Integer(0, I32), "0", 0),
    row("tls-auth-clients", Enum(&["no", "yes", "optional"]), "yes", 0),
    row("tls-ca-cert-dir", Text, "", 0),
    row("tls-ca-cert-file", Text, "", 0),
    row("tls-cert-file", Text, "", 0),
    row("tls-ciphers", Text, "", 0),
    row("tls-ciphersuites", Text, "", 0),
    row("tls-client-cert-file", Text, "", 0),
    row("tls-client-key-file", Text, "", 0),
    row("tls-client-key-file-pass", Secret, "", SENSITIVE),
    row("tls-cluster", Bool, "no", 0),
    row("tls-dh-params-file", Text, "", 0),
    row("tls-key-file", Text, "", 0),
    row("tls-key-file-pass", Secret, "", SENSITIVE),
    row("tls-port", Integer(0, 65535), "0", 0),
    row("tls-prefer-server-ciphers", Bool, "no", 0),
    row("tls-protocols", Text, "", 0),
    row("tls-replication", Bool, "no", 0),
    row("tls-session-cache-size", Integer(0, I32), "20480", 0),
    row("tls-session-cache-timeout", Integer(0, I32), "300", 0),
    row("tls-session-caching", Bool, "yes", 0),
    row("tracking-table-max-keys", Unsigned(0, SIZE), "1000000", 0),
    row("unixsocket", Text, "", IMMUTABLE),
    row("unixsocketperm", Octal, "0", IMMUTABLE),
    row("vset-force-single-threaded-execution", Bool, "no", 0),
    row("zset-max-listpack-entries", Unsigned(0, SIZE), "128", 0).alias("zset-max-ziplist-entries"),
    row("zset-max-listpack-value", Memory(0, SIZE), "64", 0).alias("zset-max-ziplist-value"),
    row("aof-disable-auto-gc", Bool, "no", HIDDEN),
    row("cluster-ping-interval", Integer(0, i64::MAX), "0", HIDDEN),
    row("key-load-delay", Integer(-I32 - 1, I32), "0", HIDDEN),
    row("lazyexpire-nested-arbitrary-keys", Bool, "yes", HIDDEN),
    row("loading-process-events-interval-bytes", Integer(1024, I32), "524288", HIDDEN),
    row("lua-enable-deprecated-api", Bool, "no", IMMUTABLE | HIDDEN),
    row("prefetch-batch-max-size", Integer(0, 128), "16", HIDDEN),
    row("rdb-key-save-delay", Integer(-I32 - 1, I32), "0", HIDDEN),
    row("repl-rdb-channel", Bool, "yes", HIDDEN),
    row("use-exit-on-panic", Bool, "no", HIDDEN),
    row("watchdog-period", Integer(0, I32), "0", HIDDEN),
];
