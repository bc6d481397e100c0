//! A thin face over one io_uring: requests go in, completions come out.
//!
//! What safe code may rely on: a request that needs memory of the caller is `unsafe` to make, and
//! everything else here is safe. A full submission queue is submitted and, where the kernel takes
//! nothing, kept in a backlog, so that making a request never fails.

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::buffers::{BUFFER_GROUP, Lent};

/// Places of the submission queue: how many requests one system call hands over.
const SUBMISSIONS: u32 = 1024;

/// Places of the completion queue. The kernel keeps what does not fit, at a cost.
const COMPLETIONS: u32 = 4096;

/// What a request is; with an index, its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Watching the waker's eventfd.
    Waker,
    /// Accepting on a listener, again and again.
    Accept,
    /// Receiving on a connection, again and again.
    Receive,
    /// Sending on a connection.
    Send,
    /// Cancelling a connection's or a listener's other requests.
    Cancel,
    /// Cancelling a listener's accepts.
    CancelAccept,
    /// Working on a file.
    File,
}

const KINDS: [Kind; 7] = [
    Kind::Waker,
    Kind::Accept,
    Kind::Receive,
    Kind::Send,
    Kind::Cancel,
    Kind::CancelAccept,
    Kind::File,
];

/// The name of a request: what it is and whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// Index of the connection, listener or file operation.
    pub(super) index: u32,
}

impl Token {
    pub(super) fn new(kind: Kind, index: u32) -> Self {
        Self { kind, index }
    }

    fn pack(self) -> u64 {
        (self.kind as u64) << 32 | u64::from(self.index)
    }

    fn unpack(packed: u64) -> Self {
        Self { kind: KINDS[(packed >> 32) as usize], index: packed as u32 }
    }
}

/// What became of a request.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) token: Token,
    /// The result, or a negative error number.
    pub(super) result: i32,
    /// The request goes on; more completions follow.
    pub(super) more: bool,
    /// The buffer that the kernel filled; `result` tells how far.
    pub(super) lent: Option<Lent>,
}

/// How to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendMode {
    /// Wait in the kernel until all bytes are taken.
    Patient,
    /// Take what fits now and tell.
    Now,
    /// Take what fits now and tell only where that is not all.
    NowOrTell,
}

/// One io_uring.
pub(super) struct Ring {
    uring: IoUring,
    backlog: VecDeque<squeue::Entry>,
    /// Requests made so far.
    made: u64,
    enabled: bool,
}

impl Ring {
    /// Sets a ring up. It belongs to the thread that first enters it.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn open() -> io::Result<Self> {
        let uring = match build(true) {
            // Linux 6.0 has no deferred task work.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => build(false)?,
            other => other?,
        };
        Ok(Self { uring, backlog: VecDeque::new(), made: 0, enabled: false })
    }

    /// The kernel's handle, for registrations.
    pub(super) fn uring(&self) -> &IoUring {
        &self.uring
    }

    /// Bytes of the queues.
    pub(super) fn bytes(&self) -> usize {
        SUBMISSIONS as usize * size_of::<squeue::Entry>()
            + COMPLETIONS as usize * size_of::<cqueue::Entry>()
            + self.backlog.capacity() * size_of::<squeue::Entry>()
    }

    /// Watches an eventfd.
    pub(super) fn watch(&mut self, token: Token, fd: RawFd) {
        let entry = opcode::PollAdd::new(Fd(fd), libc::POLLIN as u32).multi(true).build();
        self.push_plain(token, entry);
    }

    /// Accepts connections until told otherwise.
    pub(super) fn accept(&mut self, token: Token, fd: RawFd) {
        let entry = opcode::AcceptMulti::new(Fd(fd)).flags(libc::SOCK_CLOEXEC).build();
        self.push_plain(token, entry);
    }

    /// Receives into the shared buffers until told otherwise.
    pub(super) fn receive(&mut self, token: Token, fd: RawFd) {
        self.push_plain(token, opcode::RecvMulti::new(Fd(fd), BUFFER_GROUP).build());
    }

    /// Cancels one request.
    pub(super) fn cancel(&mut self, token: Token, target: Token) {
        let builder = CancelBuilder::user_data(target.pack());
        self.push_plain(token, opcode::AsyncCancel2::new(builder).build());
    }

    /// Cancels all requests on a descriptor.
    pub(super) fn cancel_all(&mut self, token: Token, fd: RawFd) {
        let builder = CancelBuilder::fd(Fd(fd)).all();
        self.push_plain(token, opcode::AsyncCancel2::new(builder).build());
    }

    /// Sends bytes. Returns the request's number, for [`Ring::is_submitted`].
    ///
    /// # Safety
    /// The bytes stay readable until the request's completion, or under
    /// [`SendMode::NowOrTell`] until [`Ring::is_submitted`] without a completion.
    pub(super) unsafe fn send(
        &mut self,
        token: Token,
        fd: RawFd,
        bytes: &[u8],
        mode: SendMode,
    ) -> u64 {
        let len = bytes.len().min(i32::MAX as usize) as u32;
        let entry = opcode::Send::new(Fd(fd), bytes.as_ptr(), len).flags(message_flags(mode));
        let entry = with_mode(entry.build(), mode);
        // SAFETY: the caller keeps the bytes readable for as long as the kernel may look.
        unsafe { self.push(token, entry) }
    }

    /// Sends a message of several parts. Returns the request's number.
    ///
    /// # Safety
    /// The message, its parts and their bytes stay readable until the request's completion.
    pub(super) unsafe fn send_message(
        &mut self,
        token: Token,
        fd: RawFd,
        message: *const libc::msghdr,
        mode: SendMode,
    ) -> u64 {
        let entry = opcode::SendMsg::new(Fd(fd), message).flags(message_flags(mode) as u32);
        let entry = with_mode(entry.build(), mode);
        // SAFETY: the caller keeps message and bytes readable for as long as the kernel may look.
        unsafe { self.push(token, entry) }
    }

    /// Whether the kernel has seen a request.
    pub(super) fn is_submitted(&mut self, number: u64) -> bool {
        let waiting = self.backlog.len() + self.uring.submission().len();
        number < self.made - waiting as u64
    }

    /// Hands the requests over and waits until `want` completions are there or `timeout` has
    /// passed.
    ///
    /// # Errors
    /// What makes the ring unusable.
    pub(super) fn enter(&mut self, want: usize, timeout: Option<Duration>) -> io::Result<()> {
        self.enable()?;
        self.push_backlog();
        let submitter = self.uring.submitter();
        let result = match timeout.filter(|_| want > 0) {
            Some(timeout) => {
                let timespec = Timespec::from(timeout);
                submitter.submit_with_args(want, &SubmitArgs::new().timespec(&timespec))
            }
            None => submitter.submit_and_wait(want),
        };
        match result {
            Ok(_) => Ok(()),
            Err(error) if is_passing(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Moves up to `max` completions into `out`. Returns whether none is left.
    pub(super) fn take_completions(&mut self, out: &mut Vec<Completion>, max: usize) -> bool {
        let mut queue = self.uring.completion();
        out.extend(queue.by_ref().take(max).map(|entry| {
            Completion {
                token: Token::unpack(entry.user_data()),
                result: entry.result(),
                more: cqueue::more(entry.flags()),
                lent: cqueue::buffer_select(entry.flags())
                    .map(|id| Lent::new(id, usize::try_from(entry.result()).unwrap_or(0))),
            }
        }));
        queue.sync();
        let left = queue.len();
        drop(queue);
        left == 0 && !self.uring.submission().cq_overflow()
    }

    /// Binds the ring to this thread; until then it takes requests and does nothing.
    fn enable(&mut self) -> io::Result<()> {
        if !self.enabled {
            self.uring.submitter().register_enable_rings()?;
            self.enabled = true;
        }
        Ok(())
    }

    /// Makes a request that points to no memory.
    fn push_plain(&mut self, token: Token, entry: squeue::Entry) {
        // SAFETY: the entry holds descriptors and numbers only; a wrong one is a plain error.
        unsafe { self.push(token, entry) };
    }

    /// Makes a request. Returns its number.
    ///
    /// # Safety
    /// The memory that the entry points to stays valid until the request's completion.
    pub(super) unsafe fn push(&mut self, token: Token, entry: squeue::Entry) -> u64 {
        let entry = entry.user_data(token.pack());
        self.made += 1;
        // SAFETY: the caller vouches for the entry's memory.
        if self.backlog.is_empty() && unsafe { self.uring.submission().push(&entry) }.is_ok() {
            return self.made - 1;
        }
        self.backlog.push_back(entry);
        if self.enabled {
            // What the kernel refuses now it is offered again in the next wait.
            let _ = self.uring.submitter().submit();
            self.push_backlog();
        }
        self.made - 1
    }

    fn push_backlog(&mut self) {
        let mut queue = self.uring.submission();
        while let Some(entry) = self.backlog.front() {
            // SAFETY: the maker of the request vouched for its memory.
            if unsafe { queue.push(entry) }.is_err() {
                return;
            }
            self.backlog.pop_front();
        }
    }
}

fn build(defer: bool) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder
        .setup_cqsize(COMPLETIONS)
        .setup_submit_all()
        .setup_single_issuer()
        .setup_coop_taskrun()
        .setup_taskrun_flag()
        .setup_r_disabled();
    if defer {
        builder.setup_defer_taskrun();
    }
    builder.build(SUBMISSIONS)
}

fn message_flags(mode: SendMode) -> i32 {
    let base = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
    if mode == SendMode::Patient { base } else { base | libc::MSG_DONTWAIT }
}

fn with_mode(entry: squeue::Entry, mode: SendMode) -> squeue::Entry {
    if mode == SendMode::NowOrTell { entry.flags(squeue::Flags::SKIP_SUCCESS) } else { entry }
}

/// Errors after which the next try may do: the time is over, a signal came, or completions have
/// to be taken first.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN | libc::EBADR)
    )
}
