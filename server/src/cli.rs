//! The command line.
//!
//! `osmia server` takes what `redis-server` takes; called by that name the program does so
//! without the word. `osmia` alone is `osmia server`.

use clap::{Parser, Subcommand};

use crate::start::{OSMIA_VERSION, REDIS_VERSION};

/// What the program was asked to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Invocation {
    /// Run a server with these arguments.
    Server(Vec<String>),
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
        args: Vec<String>,
    },
}

const USAGE: &str = "\
Usage: ./redis-server [/path/to/redis.conf] [options] [-]
       ./redis-server - (read config from stdin)
       ./redis-server -v or --version
       ./redis-server -h or --help

Examples:
       ./redis-server (run the server with default conf)
       echo 'maxmemory 128mb' | ./redis-server -
       ./redis-server /etc/redis/6379.conf
       ./redis-server --port 7777
       ./redis-server --port 7777 --shards 4
       ./redis-server /etc/myredis.conf --loglevel verbose -
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
pub fn parse(args: Vec<String>) -> Invocation {
    let name = args.first().map(|name| name.rsplit('/').next().unwrap_or(name).to_owned());
    let rest: Vec<String> = args.iter().skip(1).cloned().collect();
    if name
        .is_some_and(|name| name.starts_with("redis-server") || name.starts_with("valkey-server"))
    {
        return server(rest, false);
    }
    // Options right after the name belong to the server: `osmia --port 7000`.
    let is_ours = |arg: &str| ["--help", "-h", "--version", "-V", "server"].contains(&arg);
    if rest.first().is_none_or(|first| !is_ours(first)) {
        return server(rest, false);
    }
    if rest[0] == "server" {
        return server(rest[1..].to_vec(), true);
    }
    match Cli::try_parse_from(args) {
        Ok(_) => Invocation::Server(Vec::new()),
        Err(error) => {
            Invocation::Print { text: error.render().to_string(), success: !error.use_stderr() }
        }
    }
}

fn server(args: Vec<String>, by_verb: bool) -> Invocation {
    match args.first().map(String::as_str) {
        Some("-v" | "--version") if args.len() == 1 => {
            Invocation::Print { text: redis_version_line(), success: true }
        }
        Some("-h" | "--help") if args.len() == 1 && by_verb => {
            let help = Cli::try_parse_from(["osmia", "server", "--help"]).err();
            let text = help.map(|error| error.render().to_string()).unwrap_or_default();
            Invocation::Print { text, success: true }
        }
        Some("-h" | "--help") if args.len() == 1 => {
            Invocation::Print { text: USAGE.to_owned(), success: true }
        }
        _ => Invocation::Server(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(args: &[&str], expected: &[&str]) {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let expected = expected.iter().map(|arg| (*arg).to_owned()).collect();
        assert_eq!(parse(args), Invocation::Server(expected));
    }

    fn check_text(args: &[&str], part: &str) {
        match parse(args.iter().map(|arg| (*arg).to_owned()).collect()) {
            Invocation::Print { text, success: true } => assert!(text.contains(part), "{text}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ways_to_start_a_server() {
        check(&["osmia"], &[]);
        check(&["osmia", "server"], &[]);
        check(&["osmia", "server", "a.conf", "--port", "1"], &["a.conf", "--port", "1"]);
        check(&["osmia", "--port", "1"], &["--port", "1"]);
        check(&["/usr/bin/redis-server", "a.conf", "-"], &["a.conf", "-"]);
    }

    #[test]
    fn help_and_version() {
        check_text(&["osmia", "--version"], OSMIA_VERSION);
        check_text(&["osmia", "--help"], "server");
        check_text(&["osmia", "server", "--help"], "--shards");
        check_text(&["redis-server", "--version"], "Redis server v=8.2.3");
        check_text(&["redis-server", "-h"], "Usage: ./redis-server");
    }
}
