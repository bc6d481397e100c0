//! Sockets of the io_uring backend. They are blocking ones: the kernel waits on their behalf, and
//! would not for those that say they do not want to wait.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::Arc;

use crate::{Address, SocketOptions, socket};

/// A connected stream.
#[derive(Debug)]
pub struct Socket {
    descriptor: OwnedFd,
    /// Path of the Unix listener it came by.
    path: Option<Arc<Path>>,
}

impl Socket {
    /// Takes over a descriptor that an accept has returned.
    ///
    /// # Safety
    /// The descriptor is open and nobody else's.
    pub(super) unsafe fn from_accepted(fd: RawFd, path: Option<Arc<Path>>) -> Self {
        // SAFETY: the caller hands the descriptor over.
        Self { descriptor: unsafe { OwnedFd::from_raw_fd(fd) }, path }
    }

    /// Sets keepalive and nodelay on TCP sockets.
    pub(super) fn set_options(&self, options: &SocketOptions) {
        if self.path.is_none() {
            socket::set_options(&self.descriptor, options);
        }
    }

    /// The peer's address.
    pub(super) fn peer_address(&self) -> Option<Address> {
        match &self.path {
            Some(path) => Some(Address::Unix(path.to_path_buf())),
            None => socket::peer_address(&self.descriptor),
        }
    }

    /// Our end's address.
    pub(super) fn local_address(&self) -> Option<Address> {
        match &self.path {
            Some(path) => Some(Address::Unix(path.to_path_buf())),
            None => socket::local_address(&self.descriptor),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}
