//! Sockets of the epoll backend: TCP and Unix streams under one type.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
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
) -> io::Result<(Listener, Address)> {
    match address {
        Address::Tcp(address) => {
            let domain = Domain::for_address(*address);
            let socket = socket2::Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
            socket.set_reuse_address(true)?;
            if domain == Domain::IPV6 {
                socket.set_only_v6(true)?;
            }
            socket.set_nonblocking(true)?;
            socket.bind(&SockAddr::from(*address))?;
            socket.listen(backlog(options))?;
            let listener = std::net::TcpListener::from(socket);
            let bound = Address::Tcp(listener.local_addr()?);
            Ok((Listener::Tcp(mio::net::TcpListener::from_std(listener)), bound))
        }
        Address::Unix(path) => {
            // A file left behind by an earlier process would make bind fail.
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
            socket.set_nonblocking(true)?;
            socket.bind(&SockAddr::unix(path)?)?;
            set_mode(path, options.unix_mode)?;
            socket.listen(backlog(options))?;
            let listener = std::os::unix::net::UnixListener::from(socket);
            let listener = mio::net::UnixListener::from_std(listener);
            Ok((Listener::Unix(listener, path.clone()), address.clone()))
        }
    }
}

fn backlog(options: &ListenOptions) -> i32 {
    i32::try_from(options.backlog).unwrap_or(i32::MAX)
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    if mode == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

impl Listener {
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
    pub(crate) fn set_options(&self, options: &SocketOptions) -> io::Result<()> {
        let Stream::Tcp(stream) = &self.stream else { return Ok(()) };
        // A peer that has reset the connection makes these fail; the read tells it better.
        let _ = stream.set_nodelay(options.nodelay);
        if options.keepalive_s > 0 {
            let seconds = u64::from(options.keepalive_s);
            let keepalive = TcpKeepalive::new()
                .with_time(Duration::from_secs(seconds))
                .with_interval(Duration::from_secs((seconds / 3).max(1)))
                .with_retries(3);
            let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
        }
        Ok(())
    }

    /// The peer's address.
    pub(crate) fn peer_address(&self) -> Option<Address> {
        match (&self.stream, &self.path) {
            (Stream::Tcp(stream), _) => stream.peer_addr().ok().map(Address::Tcp),
            (Stream::Unix(_), path) => path.clone().map(Address::Unix),
        }
    }

    /// Our end's address.
    pub(crate) fn local_address(&self) -> Option<Address> {
        match (&self.stream, &self.path) {
            (Stream::Tcp(stream), _) => stream.local_addr().ok().map(Address::Tcp),
            (Stream::Unix(_), path) => path.clone().map(Address::Unix),
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
