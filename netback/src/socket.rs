//! Sockets: opening and options for both backends, and the streams of the epoll backend.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mio::event::Source;
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, SockAddr, SockRef, TcpKeepalive, Type};

use crate::{Address, ListenOptions, SocketOptions};

/// A connected stream.
#[derive(Debug)]
pub struct Socket {
    stream: Stream,
    /// Path of the listener it came by.
    path: Option<PathBuf>,
}

#[derive(Debug)]
enum Stream {
    Tcp(mio::net::TcpStream),
    Unix(mio::net::UnixStream),
}

/// A listening socket.
pub(crate) enum Listener {
    Tcp(mio::net::TcpListener),
    Unix(mio::net::UnixListener, PathBuf),
}

/// Opens a listening socket; returns it with the address that it got.
pub(crate) fn listen(
    address: &Address,
    options: &ListenOptions,
    nonblocking: bool,
) -> io::Result<(OwnedFd, Address)> {
    let socket = match address {
        Address::Tcp(address) => {
            let domain = Domain::for_address(*address);
            let socket = socket2::Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
            socket.set_reuse_address(true)?;
            if domain == Domain::IPV6 {
                socket.set_only_v6(true)?;
            }
            socket.bind(&SockAddr::from(*address))?;
            socket
        }
        Address::Unix(path) => {
            // A file left behind by an earlier process would make bind fail.
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
            socket.bind(&SockAddr::unix(path)?)?;
            set_mode(path, options.unix_mode)?;
            socket
        }
    };
    socket.set_nonblocking(nonblocking)?;
    socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX))?;
    let descriptor = OwnedFd::from(socket);
    let bound = match address {
        Address::Tcp(_) => local_address(&descriptor).unwrap_or_else(|| address.clone()),
        Address::Unix(_) => address.clone(),
    };
    Ok((descriptor, bound))
}

/// Sets keepalive and nodelay on a TCP socket. A peer that has reset the connection makes these
/// fail; the read tells it better.
pub(crate) fn set_options(socket: &impl AsFd, options: &SocketOptions) {
    let socket = SockRef::from(socket);
    let _ = socket.set_tcp_nodelay(options.nodelay);
    if options.keepalive_s > 0 {
        let seconds = u64::from(options.keepalive_s);
        let keepalive = TcpKeepalive::new()
            .with_time(Duration::from_secs(seconds))
            .with_interval(Duration::from_secs((seconds / 3).max(1)))
            .with_retries(3);
        let _ = socket.set_tcp_keepalive(&keepalive);
    }
}

/// The peer's address of a TCP socket.
pub(crate) fn peer_address(socket: &impl AsFd) -> Option<Address> {
    SockRef::from(socket).peer_addr().ok()?.as_socket().map(Address::Tcp)
}

/// Our end's address of a TCP socket.
pub(crate) fn local_address(socket: &impl AsFd) -> Option<Address> {
    SockRef::from(socket).local_addr().ok()?.as_socket().map(Address::Tcp)
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    if mode == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

impl Listener {
    /// Wraps a listening descriptor.
    pub(crate) fn new(descriptor: OwnedFd, address: &Address) -> Self {
        match address {
            Address::Tcp(_) => {
                let listener = std::net::TcpListener::from(descriptor);
                Self::Tcp(mio::net::TcpListener::from_std(listener))
            }
            Address::Unix(path) => {
                let listener = std::os::unix::net::UnixListener::from(descriptor);
                Self::Unix(mio::net::UnixListener::from_std(listener), path.clone())
            }
        }
    }

    /// Takes the next connection.
    pub(crate) fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                Ok(Socket { stream: Stream::Tcp(stream), path: None })
            }
            Self::Unix(listener, path) => {
                let (stream, _) = listener.accept()?;
                Ok(Socket { stream: Stream::Unix(stream), path: Some(path.clone()) })
            }
        }
    }

    /// Has the poll announce new connections.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.source().register(registry, token, Interest::READABLE)
    }

    /// Takes the socket out of the poll.
    pub(crate) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.source().deregister(registry)
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(listener) => listener,
            Self::Unix(listener, _) => listener,
        }
    }
}

impl Socket {
    /// Sets keepalive and nodelay on TCP sockets.
    pub(crate) fn set_options(&self, options: &SocketOptions) {
        if let Stream::Tcp(stream) = &self.stream {
            set_options(stream, options);
        }
    }

    /// The peer's address.
    pub(crate) fn peer_address(&self) -> Option<Address> {
        match &self.stream {
            Stream::Tcp(stream) => peer_address(stream),
            Stream::Unix(_) => self.path.clone().map(Address::Unix),
        }
    }

    /// Our end's address.
    pub(crate) fn local_address(&self) -> Option<Address> {
        match &self.stream {
            Stream::Tcp(stream) => local_address(stream),
            Stream::Unix(_) => self.path.clone().map(Address::Unix),
        }
    }

    /// Has the poll announce what happens on the socket.
    pub(crate) fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.source().register(registry, token, interest)
    }

    /// Takes the socket out of the poll.
    pub(crate) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.source().deregister(registry)
    }

    fn source(&mut self) -> &mut dyn Source {
        match &mut self.stream {
            Stream::Tcp(stream) => stream,
            Stream::Unix(stream) => stream,
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.write(buffer),
            Stream::Unix(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        match &self.stream {
            Stream::Tcp(stream) => stream.as_raw_fd(),
            Stream::Unix(stream) => stream.as_raw_fd(),
        }
    }
}
