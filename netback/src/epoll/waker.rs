//! The epoll backend's waker: mio's, with a flag before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Wakes an [`Epoll`]; many wakes before it looks cost one system call.
#[derive(Clone)]
pub struct EpollWaker {
    pub(super) waker: Arc<mio::Waker>,
    pub(super) woken: Arc<AtomicBool>,
}

impl crate::Waker for EpollWaker {
    fn wake(&self) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            // An eventfd that is full has woken the backend already; nothing else can fail.
            let _ = self.waker.wake();
        }
    }
}
