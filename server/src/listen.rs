//! Listening sockets: opening those of the configuration, and trying those of a new one.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

use netback::{Address, Backend, ListenOptions, ListenerId};

use crate::config::Config;
use crate::start::{Failed, fail, plain};

/// A word of `bind`.
struct Bind<'a> {
    text: &'a str,
    address: IpAddr,
    /// It may be missing on this machine.
    optional: bool,
}

impl<'a> Bind<'a> {
    /// Reads a word; `None` is no address.
    fn parse(word: &'a str) -> Option<Self> {
        let (text, optional) = match word.strip_prefix('-') {
            Some(rest) => (rest, true),
            None => (word, false),
        };
        let address = match text {
            "*" => Ipv4Addr::UNSPECIFIED.into(),
            "::*" => Ipv6Addr::UNSPECIFIED.into(),
            "localhost" => Ipv4Addr::LOCALHOST.into(),
            other => other.parse().ok()?,
        };
        Some(Self { text, address, optional })
    }

    /// Whether an error may be passed over.
    fn forgives(&self, error: &io::Error) -> bool {
        let codes =
            [libc::EADDRNOTAVAIL, libc::EAFNOSUPPORT, libc::EPROTONOSUPPORT, libc::ENOPROTOOPT];
        self.optional && error.raw_os_error().is_some_and(|code| codes.contains(&code))
    }
}

/// The port that a shard listens at: that of the process, or one of its own.
pub(crate) fn port_of(config: &Config, shard: usize) -> i64 {
    let offset = if config.is_port_per_shard() && config.port != 0 { shard as i64 } else { 0 };
    config.port + offset
}

/// Opens the TCP sockets of a shard.
///
/// # Errors
/// [`Failed`] after a log line with the reason.
pub(crate) fn tcp<B: Backend>(
    backend: &mut B,
    config: &Config,
    shard: usize,
) -> Result<Vec<ListenerId>, Failed> {
    let Ok(port) = u16::try_from(port_of(config, shard)) else {
        return Err(fail(&format!(
            "Shard {shard} has no port: {} and more of them end at 65535",
            config.port
        )));
    };
    let mut listeners = Vec::new();
    if port == 0 {
        return Ok(listeners);
    }
    for word in &config.bind {
        let bind =
            Bind::parse(word).ok_or_else(|| fail(&format!("Invalid bind address: '{word}'")))?;
        let address = Address::Tcp(SocketAddr::new(bind.address, port));
        match backend.listen(&address, &options(config)) {
            Ok(listener) => listeners.push(listener),
            Err(error) => {
                crate::warning!(
                    "Warning: Could not create server TCP listening socket {}:{port}: bind: {}",
                    bind.text,
                    plain(&error)
                );
                if !bind.forgives(&error) {
                    return Err(cannot_listen(port));
                }
            }
        }
    }
    if listeners.is_empty() { Err(cannot_listen(port)) } else { Ok(listeners) }
}

fn cannot_listen(port: u16) -> Failed {
    fail(&format!("Failed listening on port {port} (tcp), aborting."))
}

/// Opens the Unix socket of the configuration, if it has one.
///
/// # Errors
/// [`Failed`] after a log line with the reason.
pub(crate) fn unix<B: Backend>(backend: &mut B, config: &Config) -> Result<(), Failed> {
    if config.unixsocket.is_empty() {
        return Ok(());
    }
    let address = Address::Unix(PathBuf::from(&config.unixsocket));
    let opened = backend.listen(&address, &options(config));
    opened
        .map(|_| ())
        .map_err(|error| fail(&format!("Failed opening Unix socket: bind: {}", plain(&error))))
}

fn options(config: &Config) -> ListenOptions {
    let backlog = config.tcp_backlog.clamp(1, i64::from(i32::MAX)) as u32;
    ListenOptions { backlog, unix_mode: config.unixsocketperm }
}

/// Whether the TCP addresses of `new` can be listened on by a server that listens on those of
/// `old`: each one is opened and closed again.
pub(crate) fn can_move(old: &Config, new: &Config, shards: usize) -> bool {
    if new.port == 0 {
        return true;
    }
    let listening = if new.is_port_per_shard() { shards } else { 1 };
    (0..listening).all(|shard| can_listen(old, new, shard))
}

fn can_listen(old: &Config, new: &Config, shard: usize) -> bool {
    let Ok(port) = u16::try_from(port_of(new, shard)) else { return false };
    new.bind.iter().all(|word| {
        let Some(bind) = Bind::parse(word) else { return false };
        // Our own sockets hold the port that stays the same, so only the address is tried then.
        let tried_port = if old.port == new.port { 0 } else { port };
        match TcpListener::bind(SocketAddr::new(bind.address, tried_port)) {
            Ok(_) => true,
            Err(error) => {
                crate::warning!("Can't listen on {}:{port}: {}", bind.text, plain(&error));
                bind.forgives(&error)
            }
        }
    })
}
