//! A connection of the io_uring backend, and the buffers that it sends.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};

use super::ring::{Ring, SendMode, Token};
use super::socket::Socket;
use crate::CloseReason;

/// The most buffers that one send takes together.
const PARTS_MAX: usize = 64;

/// A send of up to this many bytes is expected to be done at once and not to be told.
const QUIET_BYTES_MAX: usize = 16 * 1024;

/// A connection. It lives until the kernel has answered every request on it.
pub(super) struct Conn {
    pub(super) socket: Socket,
    /// Requests whose last completion has not come.
    pub(super) requests: u32,
    /// A receive is out.
    pub(super) receiving: bool,
    /// A cancellation is out.
    pub(super) cancelling: bool,
    pub(super) paused: bool,
    /// Bytes that came while receiving was paused.
    pub(super) held: Vec<u8>,
    /// Stands on the list of those with something to send.
    pub(super) listed: bool,
    pub(super) sends: SendQueue,
    pub(super) life: Life,
    /// The peer's end was seen: there is nothing more to receive.
    pub(super) heard_end: bool,
    /// Stays open after the peer's end, as it is still to be sent something.
    pub(super) owed: bool,
    /// Stands on the list of those whose end may have been lost; see [`super::lost`].
    pub(super) suspect: bool,
    /// Bytes came since the list was last gone through.
    pub(super) heard_lately: bool,
}

/// How far a connection is.
pub(super) enum Life {
    /// In use.
    Open,
    /// The peer has closed its end; what is queued by the next wait gets one try.
    Ended,
    /// To be closed once the queue is empty.
    Draining,
    /// Only waits for its requests to end.
    Closed(CloseReason),
}

impl Conn {
    pub(super) fn new(socket: Socket) -> Self {
        Self {
            socket,
            requests: 0,
            receiving: false,
            cancelling: false,
            paused: false,
            held: Vec::new(),
            listed: false,
            sends: SendQueue::default(),
            life: Life::Open,
            heard_end: false,
            owed: false,
            suspect: false,
            heard_lately: false,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.life, Life::Open)
    }

    /// Whether the caller may still send, and be told of bytes.
    pub(super) fn may_send(&self) -> bool {
        matches!(self.life, Life::Open | Life::Ended)
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.life, Life::Closed(_))
    }

    /// Whether to receive: to tell the bytes, or, while what is queued leaves before a close, to
    /// drop them. Bytes that nobody has received make the kernel close with a reset, which takes
    /// with it what is still to be sent.
    pub(super) fn should_receive(&self) -> bool {
        match self.life {
            Life::Open => !self.paused,
            Life::Draining => !self.heard_end,
            Life::Ended | Life::Closed(_) => false,
        }
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.held.capacity() + self.sends.heap_bytes()
    }
}

/// Buffers to be sent, in order; one request at a time works on the front.
#[derive(Default)]
pub(super) struct SendQueue {
    buffers: VecDeque<Vec<u8>>,
    /// Bytes of the first buffer that the kernel has taken.
    sent: usize,
    /// How many buffers the request that is out works on; 0: none is out.
    out: usize,
    /// Number of the request that is out if it is quiet: no completion means success.
    quiet: Option<u64>,
    /// The last request did not get all across, so the next one is not quiet.
    is_slow: bool,
    message: Option<Box<Message>>,
}

/// What a request over several buffers points to.
struct Message {
    header: libc::msghdr,
    parts: [libc::iovec; PARTS_MAX],
}

// The pointers are into buffers of the same queue and are read by the kernel only.
// SAFETY: moving the queue to another thread moves the buffers along.
unsafe impl Send for Message {}

/// How soon a send has to be over and told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// It is told at leisure.
    Usual,
    /// Somebody waits for its end.
    Told,
    /// What the kernel does not take now is lost.
    LastTry,
}

/// What became of a send.
pub(super) enum Progress {
    /// The kernel takes more later.
    Waits,
    /// Nothing is left to send.
    Empty,
    /// The connection failed with this error number.
    Failed(i32),
}

impl SendQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// Whether a request is out.
    pub(super) fn is_busy(&self) -> bool {
        self.out > 0
    }

    pub(super) fn push(&mut self, buffer: Vec<u8>) {
        self.buffers.push_back(buffer);
    }

    /// Sends the front of the queue. Returns the request's number if it is quiet.
    pub(super) fn start(
        &mut self,
        ring: &mut Ring,
        token: Token,
        fd: RawFd,
        urgency: Urgency,
    ) -> Option<u64> {
        assert!(self.out == 0 && !self.buffers.is_empty(), "one request at a time, for something");
        self.out = self.buffers.len().min(PARTS_MAX);
        let unsent = self.buffers[0].len() - self.sent;
        let may_be_quiet = !self.is_slow && self.buffers.len() == 1 && unsent <= QUIET_BYTES_MAX;
        let mode = match urgency {
            Urgency::Usual if may_be_quiet => SendMode::NowOrTell,
            Urgency::Usual | Urgency::Told => SendMode::Patient,
            Urgency::LastTry => SendMode::Now,
        };
        let number = if self.out == 1 {
            let bytes = &self.buffers[0][self.sent..];
            // SAFETY: the buffer stays in the queue, unchanged, until the request has ended, and
            // the queue in its connection; a vector's bytes do not move with it.
            unsafe { ring.send(token, fd, bytes, mode) }
        } else {
            let message = self.prepare_message();
            // SAFETY: message and buffers stay in the queue, unchanged, until the request has
            // ended; the message is boxed and does not move.
            unsafe { ring.send_message(token, fd, message, mode) }
        };
        self.quiet = (mode == SendMode::NowOrTell).then_some(number);
        self.quiet
    }

    fn prepare_message(&mut self) -> *const libc::msghdr {
        let message = self.message.get_or_insert_with(Message::boxed);
        for (index, (part, buffer)) in message.parts.iter_mut().zip(&self.buffers).enumerate() {
            let bytes = if index == 0 { &buffer[self.sent..] } else { &buffer[..] };
            part.iov_base = bytes.as_ptr().cast_mut().cast();
            part.iov_len = bytes.len();
        }
        message.header.msg_iov = message.parts.as_mut_ptr();
        message.header.msg_iovlen = self.out as _;
        &raw const message.header
    }

    /// Takes a request's result. Buffers that are with the kernel go to `done`.
    pub(super) fn completed(&mut self, result: i32, done: &mut dyn FnMut(Vec<u8>)) -> Progress {
        assert!(self.out > 0, "a completion answers a request");
        self.out = 0;
        self.quiet = None;
        match -result {
            libc::EAGAIN | libc::EINTR => self.is_slow = true,
            error if error > 0 => return Progress::Failed(error),
            _ => {
                self.advance(result as usize, done);
                self.is_slow = self.sent > 0;
            }
        }
        if self.buffers.is_empty() { Progress::Empty } else { Progress::Waits }
    }

    /// The quiet request with this number was not answered: its one buffer is with the kernel.
    pub(super) fn completed_quietly(&mut self, number: u64) -> Option<Vec<u8>> {
        self.quiet.take_if(|quiet| *quiet == number)?;
        self.out = 0;
        self.sent = 0;
        self.buffers.pop_front()
    }

    fn advance(&mut self, taken: usize, done: &mut dyn FnMut(Vec<u8>)) {
        self.sent += taken;
        while let Some(buffer) = self.buffers.pop_front_if(|front| self.sent >= front.len()) {
            self.sent -= buffer.len();
            done(buffer);
        }
        if self.buffers.is_empty() {
            self.buffers = VecDeque::new();
            self.message = None;
        }
    }

    fn heap_bytes(&self) -> usize {
        self.buffers.iter().map(Vec::capacity).sum::<usize>()
            + self.buffers.capacity() * size_of::<Vec<u8>>()
            + self.message.as_ref().map_or(0, |_| size_of::<Message>())
    }
}

impl Message {
    fn boxed() -> Box<Self> {
        let part = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: all fields are integers and pointers, for which zero is a value.
        let header = unsafe { std::mem::zeroed::<libc::msghdr>() };
        Box::new(Self { header, parts: [part; PARTS_MAX] })
    }
}

impl AsRawFd for Conn {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
