//! What a service manager is told: that the server is ready, and that it stops.
//!
//! systemd's protocol: a datagram of `NAME=value` lines to the Unix socket that `NOTIFY_SOCKET`
//! names; a leading `@` stands for an abstract one. Source: sd_notify(3).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::config::Config;

/// The service manager that started the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supervisor {
    /// None that is to be told.
    None,
    /// systemd.
    Systemd,
}

impl Supervisor {
    /// The one that `supervised` names, or that `auto` finds.
    pub fn of(config: &Config) -> Self {
        let has_socket = std::env::var_os("NOTIFY_SOCKET").is_some();
        match config.value("supervised") {
            "systemd" => Self::Systemd,
            "auto" if has_socket => Self::Systemd,
            _ => Self::None,
        }
    }

    /// The name that INFO shows.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "no",
            Self::Systemd => "systemd",
        }
    }

    /// Tells that clients can come.
    pub fn ready(self) {
        self.tell("READY=1\nSTATUS=Ready to accept connections\n");
    }

    /// Tells that the server stops.
    pub fn stopping(self) {
        self.tell("STOPPING=1\nSTATUS=Shutting down\n");
    }

    fn tell(self, lines: &str) {
        if self == Self::None {
            return;
        }
        let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else {
            crate::warning!("systemd supervision requested, but NOTIFY_SOCKET not found");
            return;
        };
        if let Err(error) = send(&socket, lines) {
            crate::warning!("Can't send notification to systemd: {error}");
        }
    }
}

fn send(socket: &OsStr, lines: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(lines.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receives(receiver: &UnixDatagram, socket: &str) {
        send(OsStr::new(socket), "READY=1\n").expect("a socket that listens");
        let mut bytes = [0; 64];
        let len = receiver.recv(&mut bytes).expect("a datagram");
        assert_eq!(&bytes[..len], b"READY=1\n");
    }

    #[test]
    fn sockets_with_a_path_and_abstract_ones() {
        let name = format!("osmia-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let receiver = UnixDatagram::bind(&path).expect("a socket");
        receives(&receiver, path.to_str().expect("a path"));
        std::fs::remove_file(&path).expect("the socket");
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        receives(&UnixDatagram::bind_addr(&address).expect("a socket"), &format!("@{name}"));
    }
}
