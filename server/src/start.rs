//! Start and stop of the process: shards, listening sockets, signals, the first log lines.

use std::io;
use std::sync::Arc;

use engine::Partition;
use netback::{Backend, Kind, Preference, Run};

use crate::clock::{self, Clock, OsClock};
use crate::config::{Config, NetworkBackend};
use crate::fabric::Fabric;
use crate::files_limit;
use crate::input::Core;
use crate::keyspace::{Keyspace, SHARDS_MAX, Share};
use crate::log;
use crate::process::Process;
use crate::shard::Shard;
use crate::state::ShardState;
use crate::supervise::Supervisor;

/// The version of Redis that clients are told.
pub const REDIS_VERSION: &str = "8.2.3";

/// Our own version.
pub const OSMIA_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why the server did not start or had to stop; the text has been logged.
#[derive(Debug)]
pub struct Failed;

/// Runs a server until it is told to stop.
///
/// # Errors
/// [`Failed`] after a log line with the reason.
pub fn serve(config: Config) -> Result<(), Failed> {
    let supervisor = Supervisor::of(&config);
    // Who is supervised stays where the supervisor can see it.
    let daemonize = config.daemonize && supervisor == Supervisor::None;
    if daemonize && std::env::var_os(DAEMON_MARK).is_none() {
        return start_daemon();
    }
    clock::start();
    crate::command::table::rename(&config.renamed_commands);
    log::set_level(log::Level::from_name(&config.loglevel));
    log::set_path(&config.logfile);
    let choice = netback::choose(preference(&config)).map_err(|reason| fail(&reason))?;
    crate::notice!("oO0OoO0OoO0Oo Osmia is starting oO0OoO0OoO0Oo");
    crate::notice!(
        "Osmia version={OSMIA_VERSION}, Redis version={REDIS_VERSION}, bits=64, pid={}, just started",
        std::process::id()
    );
    if let Some(warning) = choice.warning {
        crate::warning!("{warning}");
    }
    if config.dir != "." && config.dir != "./" {
        std::env::set_current_dir(&config.dir)
            .map_err(|error| fail(&format!("Can't chdir to '{}': {error}", config.dir)))?;
    }
    tell_what_is_missing(&config);
    let files = [("pid", config.pidfile.clone()), ("unix socket", config.unixsocket.clone())];
    netback::start(choice.kind, Server { config, kind: choice.kind })?;
    // A server that could not start leaves them alone: they may be another one's.
    for (what, path) in files.iter().filter(|(_, path)| !path.is_empty()) {
        crate::notice!("Removing the {what} file.");
        let _ = std::fs::remove_file(path);
    }
    crate::warning!("Redis is now ready to exit, bye bye...");
    Ok(())
}

/// Set in the environment of the process that runs in the background.
const DAEMON_MARK: &str = "OSMIA_DAEMON";

/// Starts the program once more, in the background and out of the terminal's process group.
fn start_daemon() -> Result<(), Failed> {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    let args: Vec<_> = std::env::args_os().collect();
    if args.last().is_some_and(|last| last == "-") {
        return Err(fail("daemonize does not go with configuration from standard input"));
    }
    let program = std::env::current_exe()
        .map_err(|error| fail(&format!("Can't find the program to daemonize: {error}")))?;
    let mut command = Command::new(program);
    if let Some((name, rest)) = args.split_first() {
        command.arg0(name).args(rest);
    }
    let spawned = command
        .env(DAEMON_MARK, "1")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    spawned.map(drop).map_err(|error| fail(&format!("Can't daemonize: {error}")))
}

/// Logs why, for the caller to give up.
pub(crate) fn fail(reason: &str) -> Failed {
    crate::warning!("{reason}");
    Failed
}

/// Says which parts of the configuration are kept without doing anything.
fn tell_what_is_missing(config: &Config) {
    if config.asks_to_save() {
        crate::warning!(
            "WARNING: Nothing is written to disk yet: the directives 'save' and 'appendonly' have no \
             effect, and the data ends with the process."
        );
    }
    if config.value("supervised") == "upstart" {
        crate::warning!("WARNING: Upstart is not told that the server is ready.");
    }
    let names: Vec<&str> = config.without_effect().collect();
    if !names.is_empty() {
        crate::notice!("Directives that are known but have no effect yet: {}", names.join(", "));
    }
}

fn preference(config: &Config) -> Preference {
    match config.network_backend {
        NetworkBackend::Auto => Preference::Default,
        NetworkBackend::Epoll => Preference::Epoll,
        NetworkBackend::IoUring => Preference::IoUring,
    }
}

fn write_pid_file(config: &Config) {
    if config.pidfile.is_empty() {
        return;
    }
    if let Err(error) = std::fs::write(&config.pidfile, format!("{}\n", std::process::id())) {
        crate::warning!("Failed to write PID file {}: {error}", config.pidfile);
    }
}

/// A server whose backend has been chosen.
struct Server {
    config: Config,
    kind: Kind,
}

impl Run for Server {
    type Output = Result<(), Failed>;

    fn run<B: Backend>(mut self) -> Self::Output {
        let shards = shard_count(&self.config);
        files_limit::fit(&mut self.config, shards);
        let now_us = OsClock.unix_us();
        let mut process = Process::new(self.config.clone(), shards, self.kind.name(), now_us);
        if let Some(path) = self.config.nodes_file() {
            process.cluster.keep_in(path, &self.config)?;
        }
        let process = Arc::new(process);
        let fabric = Fabric::<B::Socket, B::Waker>::new(shards);
        watch_signals(&process).map_err(|error| fail(&format!("Can't watch signals: {error}")))?;
        let seed = random_seed();
        let mut first = open_shard::<B, _>(0, &process, &fabric, OsClock, seed)?;
        first.listen()?;
        write_pid_file(&self.config);
        show_logo(&self.config, self.kind.name(), shards);
        crate::notice!("Server initialized");
        let threads = spawn_shards::<B>(&process, &fabric, seed)?;
        pin(&self.config, 0);
        announce_ready(&self.config);
        let supervisor = Supervisor::of(&self.config);
        supervisor.ready();
        let result = first.run().map_err(|error| fail(&format!("Network backend: {error}")));
        supervisor.stopping();
        process.shut_down();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap_or(Err(Failed)));
        joined.fold(result, |result, other| result.and(other))
    }
}

/// The number of shards that the configuration asks for.
fn shard_count(config: &Config) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let automatic = if cores <= 2 { 1 } else { cores * 3 / 4 };
    config.shards.map_or(automatic, |shards| shards as usize).clamp(1, SHARDS_MAX)
}

type ShardThread = std::thread::JoinHandle<Result<(), Failed>>;

fn spawn_shards<B: Backend>(
    process: &Arc<Process>,
    fabric: &Arc<Fabric<B::Socket, B::Waker>>,
    seed: u64,
) -> Result<Vec<ShardThread>, Failed> {
    let (ready, opened) = std::sync::mpsc::channel();
    let threads: Result<Vec<ShardThread>, Failed> = (1..process.shards)
        .map(|index| {
            let (process, fabric, ready) = (Arc::clone(process), Arc::clone(fabric), ready.clone());
            let run = move || {
                pin(&process.config(), index);
                let opened = open_shard::<B, _>(index, &process, &fabric, OsClock, seed);
                let opened = opened.and_then(|mut shard| {
                    if process.cluster.per_shard {
                        shard.listen()?;
                    }
                    Ok(shard)
                });
                let _ = ready.send(opened.is_ok());
                drop(ready);
                let result = opened.and_then(|shard| {
                    shard.run().map_err(|error| fail(&format!("Network backend: {error}")))
                });
                // A shard never stops alone: its part of the keys would be gone.
                process.shut_down();
                result
            };
            std::thread::Builder::new()
                .name(format!("shard-{index}"))
                .spawn(run)
                .map_err(|error| fail(&format!("Can't start the thread of shard {index}: {error}")))
        })
        .collect();
    // The server is ready when all shards are.
    drop(ready);
    if opened.iter().all(|is_open| is_open) { threads } else { Err(Failed) }
}

/// Keeps the calling thread, which runs a shard, on one core if the configuration says so.
fn pin(config: &Config, shard: usize) {
    if !config.is_yes("pin-shards") {
        return;
    }
    match crate::system::pin_to_core(shard) {
        Ok(core) => crate::notice!("Shard {shard} runs on core {core}"),
        Err(error) => crate::warning!("Can't keep shard {shard} on one core: {error}"),
    }
}

/// Opens a shard, to run on the calling thread. All that it does follows from its arguments and
/// what comes in by the backend and the fabric.
///
/// # Errors
/// [`Failed`] after a log line with the reason.
pub fn open_shard<B: Backend, C: Clock>(
    index: usize,
    process: &Arc<Process>,
    fabric: &Arc<Fabric<B::Socket, B::Waker>>,
    clock: C,
    seed: u64,
) -> Result<Shard<B, C>, Failed> {
    let backend = B::open().map_err(|error| fail(&format!("Can't open the backend: {error}")))?;
    let config = process.config();
    let now_us = clock.unix_us();
    let options = engine::Options {
        databases: config.databases as usize,
        hash_slots: config.cluster_enabled,
        route: process.shards > 1,
        shard: index as u8,
        arena_limit_bytes: config.arena_limit as usize,
        huge_pages: config.huge_pages,
        seed,
    };
    let mut partition = Partition::new(&options, now_us / 1000).map_err(|_| {
        fail(&format!("Can't reserve address space for the arena of shard {index}"))
    })?;
    configure_partition(&mut partition, &config);
    // Keys have one hash on all shards; the dice of the shards differ.
    let dice = seed ^ (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let state = ShardState::new(index, Arc::clone(process), now_us, dice);
    let mut keyspace = Keyspace::new(index, process.shards, Share::new(partition));
    keyspace.own_only = process.cluster.per_shard;
    Ok(Shard::new(backend, clock, Core::new(state, keyspace), Arc::clone(fabric)))
}

/// Hands the settings that the keyspace uses to it; at start and after each CONFIG SET.
pub fn configure_partition(partition: &mut Partition, config: &Config) {
    partition.set_access_mode(engine::AccessMode {
        lfu: config.maxmemory_policy.is_lfu(),
        lfu_log_factor: config.lfu_log_factor as u32,
        lfu_decay_minutes: config.lfu_decay_time as u32,
    });
    partition.limits = config.limits();
}

fn random_seed() -> u64 {
    // Without a random device the time still differs from start to start.
    crate::system::random_bytes().map_or_else(clock::cycles, u64::from_le_bytes)
}

/// The kernel's text without the number that Rust adds.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn watch_signals(process: &Arc<Process>) -> io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let process = Arc::clone(process);
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            if process.is_shutting_down() {
                crate::warning!("You insist... exiting now.");
                std::process::exit(1);
            }
            let name = if signal == SIGINT { "SIGINT" } else { "SIGTERM" };
            crate::warning!("Received {name} scheduling shutdown...");
            crate::warning!("User requested shutdown...");
            process.shut_down();
        }
    })?;
    Ok(())
}

/// Prints the banner, where a person may be looking or the configuration asks for it.
fn show_logo(config: &Config, backend: &str, shards: usize) {
    use io::IsTerminal;
    let wanted =
        config.always_show_logo || (io::stdout().is_terminal() && config.logfile.is_empty());
    if !wanted {
        crate::notice!(
            "Running mode={}, port={}, backend={backend}, shards={shards}.",
            if config.cluster_enabled { "cluster" } else { "standalone" },
            config.port
        );
        return;
    }
    let mode = if config.cluster_enabled { "cluster" } else { "standalone" };
    let banner = format!(
        "\n   __  __  __   Osmia {OSMIA_VERSION}, Redis {REDIS_VERSION} compatible, 64 bit\n  \
         /  \\/  \\/  \\\n  \\__/\\__/\\__/  Running in {mode} mode\n  /  \\/  \\/  \\  Port: {}\n  \
         \\__/\\__/\\__/  PID: {}\n  /  \\/  \\/  \\  Backend: {backend}, shards: {shards}\n  \
         \\__/\\__/\\__/\n\n",
        config.port,
        std::process::id()
    );
    let _ = log::raw(banner.as_bytes());
}

fn announce_ready(config: &Config) {
    if config.port != 0 {
        crate::notice!("Ready to accept connections tcp");
    }
    if !config.unixsocket.is_empty() {
        crate::notice!("Ready to accept connections unix");
    }
}
