//! Clients on real sockets, for the backends that speak to the kernel.

use std::io;
use std::marker::PhantomData;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::{Client, Read, World, write_some};
use crate::{Address, Backend};

/// The kernel's world.
pub(crate) struct Real<B> {
    start: Instant,
    directory: PathBuf,
    backend: PhantomData<B>,
}

/// A backend that may be refused by the kernel.
pub(crate) trait Probe: Backend {
    fn probe() -> Result<(), String>;
}

#[allow(clippy::disallowed_methods, reason = "these tests run in real time")]
fn now() -> Instant {
    Instant::now()
}

impl<B: Probe> World for Real<B> {
    type Backend = B;

    const IS_REAL: bool = true;

    fn open() -> Result<(Self, B), String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        B::probe()?;
        let backend = B::open().map_err(|error| error.to_string())?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("netback-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
        Ok((Self { start: now(), directory, backend: PhantomData }, backend))
    }

    fn open_another(&mut self) -> B {
        B::open().unwrap()
    }

    fn connect(&mut self, address: &Address) -> Box<dyn Client> {
        match connect(address).unwrap() {
            Stream::Tcp(stream) => {
                stream.set_nonblocking(true).unwrap();
                stream.set_nodelay(true).unwrap();
                Box::new(Stream::Tcp(stream))
            }
            Stream::Unix(stream) => {
                stream.set_nonblocking(true).unwrap();
                Box::new(Stream::Unix(stream))
            }
        }
    }

    fn is_refused(&mut self, address: &Address) -> bool {
        connect(address).is_err()
    }

    fn directory(&self) -> PathBuf {
        self.directory.clone()
    }

    fn now(&self) -> Duration {
        now() - self.start
    }
}

impl<B> Drop for Real<B> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

fn connect(address: &Address) -> io::Result<Stream> {
    match address {
        Address::Tcp(address) => TcpStream::connect(address).map(Stream::Tcp),
        Address::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
    }
}

impl Client for Stream {
    fn write(&mut self, bytes: &[u8]) -> usize {
        match self {
            Self::Tcp(stream) => write_some(stream, bytes),
            Self::Unix(stream) => write_some(stream, bytes),
        }
    }

    fn read(&mut self) -> Read {
        match self {
            Self::Tcp(stream) => Read::from(stream),
            Self::Unix(stream) => Read::from(stream),
        }
    }

    fn finish(&mut self) {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write).unwrap(),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write).unwrap(),
        }
    }

    fn reset(self: Box<Self>) {
        // A socket that lingers for no time resets when it is closed.
        if let Self::Tcp(stream) = &*self {
            socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
    }
}
