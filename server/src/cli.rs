//! The command line.
//!
//! `osmia server` takes what `redis-server` takes; called by that name the program does so
//! without the word. `osmia` alone is `osmia server`, and options right after `osmia` are the
//! server's too.

use std::ffi::OsString;
use std::path::Path;

use clap::{CommandFactory, Parser, Subcommand};

use crate::start::{OSMIA_VERSION, REDIS_VERSION};

/// What the program was asked to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Invocation {
    /// Run a server with these arguments.
    Server(Vec<OsString>),
    /// Print a text and stop, well or not.
    Print {
        /// The text.
        text: String,
        /// Whether that is what was asked for.
        success: bool,
    },
}

/// In-memory data server that speaks the Redis protocol
#[derive(Parser)]
#[command(name = "osmia", version = version_line(), disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Verb>,
}

#[derive(Subcommand)]
enum Verb {
    /// Run a server: [redis.conf] [--name value ...] [-]
    ///
    /// The configuration file and the names are Redis's; `-` reads more configuration from
    /// standard input. Osmia's own: --shards auto|N, --network-backend auto|epoll|io_uring,
    /// --pipeline-order strict|relaxed, --arena-limit BYTES (a shard), --huge-pages yes|no.
    #[command(version = version_line())]
    Server {
        /// Configuration file and options, as redis-server takes them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CONFIG")]
        args: Vec<OsString>,
    },
}

const REDIS_SERVER_HELP: &str = "\
Osmia, called as redis-server.

redis-server [FILE] [--NAME VALUE ...] [-]   Run a server
redis-server -v, --version                   Print the version
redis-server -h, --help                      Print this text

FILE is a configuration file in Redis's syntax; each --NAME VALUE is a line of it and comes after
the file's. A lone dash, first or last, reads more lines from standard input:

    redis-server /etc/redis.conf --port 7000 --shards 4
    echo 'maxmemory 1gb' | redis-server -
";

fn version_line() -> &'static str {
    const LINE: &str = concat!(env!("CARGO_PKG_VERSION"), " (answers as Redis 8.2.3 does)");
    LINE
}

fn redis_version_line() -> String {
    format!(
        "Redis server v={REDIS_VERSION} sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 \
         build=osmia-{OSMIA_VERSION}\n"
    )
}

/// Reads the program's arguments, its name first.
pub fn parse(args: Vec<OsString>) -> Invocation {
    let name = args.first().and_then(|path| Path::new(path).file_name());
    let name = name.unwrap_or_default().to_string_lossy();
    let rest = args.get(1..).unwrap_or_default();
    if name.starts_with("redis-server") || name.starts_with("valkey-server") {
        return redis_server(rest);
    }
    if name.starts_with("redis-sentinel") || name.starts_with("valkey-sentinel") {
        return refusal("Sentinel mode is not supported");
    }
    match rest.first().and_then(|first| first.to_str()) {
        Some("server") => server(&rest[1..]),
        Some("--help" | "-h" | "--version" | "-V") => match Cli::try_parse_from(args) {
            Ok(_) => Invocation::Server(Vec::new()),
            Err(error) => {
                let (text, success) = (error.render().to_string(), !error.use_stderr());
                Invocation::Print { text, success }
            }
        },
        Some("-v") => redis_server(rest),
        _ => arguments(rest),
    }
}

/// `osmia server`.
fn server(args: &[OsString]) -> Invocation {
    match args.first().and_then(|first| first.to_str()) {
        Some("-v" | "-V" | "--version") => {
            let text = Cli::command().render_version();
            Invocation::Print { text, success: true }
        }
        Some("-h" | "--help") => {
            let help = Cli::try_parse_from(["osmia", "server", "--help"]).err();
            let text = help.map(|error| error.render().to_string()).unwrap_or_default();
            Invocation::Print { text, success: true }
        }
        _ => arguments(args),
    }
}

/// The program by its other name.
fn redis_server(args: &[OsString]) -> Invocation {
    match args.first().and_then(|first| first.to_str()) {
        Some("-v" | "--version") => Invocation::Print { text: redis_version_line(), success: true },
        Some("-h" | "--help") => {
            Invocation::Print { text: REDIS_SERVER_HELP.to_owned(), success: true }
        }
        _ => arguments(args),
    }
}

/// Runs a server, unless the arguments ask for what only Redis's program does.
fn arguments(args: &[OsString]) -> Invocation {
    let first = args.first().and_then(|first| first.to_str());
    if first.is_some_and(|first| ["--test-memory", "--check-system"].contains(&first)) {
        return refusal("Tests of the machine are not supported");
    }
    if args.iter().any(|arg| arg == "--sentinel") {
        return refusal("Sentinel mode is not supported");
    }
    Invocation::Server(args.to_vec())
}

fn refusal(text: &str) -> Invocation {
    Invocation::Print { text: format!("{text}\n"), success: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_args(args: &[&str]) -> Invocation {
        parse(args.iter().map(Into::into).collect())
    }

    fn check(args: &[&str], expected: &[&str]) {
        let expected = expected.iter().map(Into::into).collect();
        assert_eq!(parse_args(args), Invocation::Server(expected));
    }

    fn check_text(args: &[&str], part: &str, expected: bool) {
        match parse_args(args) {
            Invocation::Print { text, success } => {
                assert!(text.contains(part), "{text}");
                assert_eq!(success, expected, "{args:?}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ways_to_start_a_server() {
        check(&["osmia"], &[]);
        check(&[], &[]);
        check(&["osmia", "server"], &[]);
        check(&["osmia", "server", "a.conf", "--port", "1"], &["a.conf", "--port", "1"]);
        check(&["osmia", "--port", "1"], &["--port", "1"]);
        check(&["osmia", "-"], &["-"]);
        check(&["/usr/bin/redis-server", "a.conf", "-"], &["a.conf", "-"]);
        check(&["redis-server", "--port", "1", "--help"], &["--port", "1", "--help"]);
    }

    #[test]
    fn help_and_version() {
        check_text(&["osmia", "--version"], OSMIA_VERSION, true);
        check_text(&["osmia", "server", "--version"], OSMIA_VERSION, true);
        check_text(&["osmia", "--help"], "server", true);
        check_text(&["osmia", "server", "--help"], "--shards", true);
        check_text(&["redis-server", "--version"], "Redis server v=8.2.3 sha=", true);
        check_text(&["redis-server", "--version"], OSMIA_VERSION, true);
        check_text(&["redis-server", "-h"], "redis-server [FILE]", true);
    }

    #[test]
    fn what_only_redis_does_is_refused() {
        check_text(&["redis-server", "--test-memory", "1"], "not supported", false);
        check_text(&["redis-server", "a.conf", "--sentinel"], "Sentinel mode", false);
        check_text(&["redis-sentinel", "a.conf"], "Sentinel mode", false);
    }
}
