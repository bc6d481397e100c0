//! The io_uring backend's waker: an eventfd that the ring watches.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Wakes a backend; many wakes before it looks cost one system call.
#[derive(Clone)]
pub struct UringWaker {
    shared: Arc<Shared>,
}

struct Shared {
    eventfd: OwnedFd,
    woken: AtomicBool,
}

impl UringWaker {
    pub(super) fn open() -> io::Result<Self> {
        // SAFETY: the call takes no memory.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new.
        let eventfd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { shared: Arc::new(Shared { eventfd, woken: AtomicBool::new(false) }) })
    }

    /// Whether it was used since the last call.
    pub(super) fn take(&self) -> bool {
        self.shared.woken.swap(false, Ordering::AcqRel)
    }
}

impl AsRawFd for UringWaker {
    fn as_raw_fd(&self) -> RawFd {
        self.shared.eventfd.as_raw_fd()
    }
}

impl crate::Waker for UringWaker {
    fn wake(&self) {
        if !self.shared.woken.swap(true, Ordering::AcqRel) {
            // The count is never read, since each write is told. It is full after 2^64 wakes.
            // SAFETY: the descriptor is open as long as the value lives.
            let _ = unsafe { libc::eventfd_write(self.as_raw_fd(), 1) };
        }
    }
}
