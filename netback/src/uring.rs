//! The io_uring backend.
//!
//! One multishot accept a listener and one multishot receive a connection stay with the kernel;
//! received bytes lie in buffers of a provided ring ([`buffers`]). Everything that a tick submits
//! goes to the kernel in the one `io_uring_enter` that also waits.
//!
//! Unsafe code: submissions that carry pointers, and the waker's eventfd. What safe code relies
//! on: memory that a submission points to (a buffer being sent, the waker's counter) belongs to
//! the operation until its completion arrives. So a connection keeps its place, and its buffers,
//! until the kernel has answered all of its operations, and [`Drop`] cancels what is left before
//! anything is freed.

#![allow(unsafe_code, reason = "submissions carry pointers to memory that must stay")]

mod buffers;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};

use crate::places::Places;
use crate::socket;
use crate::{
    Address, Backend, Close, CloseReason, ConnId, EVENTS_MAX, Event, ListenOptions, ListenerId,
    Sent, SocketOptions,
};
use buffers::Buffers;

/// Entries of the submission queue; more are submitted in between.
const SUBMISSIONS: u32 = 1024;

/// Entries of the completion queue.
const COMPLETIONS: u32 = 8192;

/// Pause after a failed accept: without a free descriptor the next one fails as well.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What an operation was, in the top bits of its user data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    Accept = 1,
    Receive = 2,
    Send = 3,
    Wake = 4,
    Cancel = 5,
}

/// User data: four bits of [`Op`], 28 bits of generation, 32 bits of index.
fn user_data(op: Op, id: ConnId) -> u64 {
    (op as u64) << 60 | u64::from(id.generation & 0x0fff_ffff) << 32 | u64::from(id.index)
}

/// The backend; see the top of the file.
pub struct Uring {
    ring: IoUring,
    buffers: Buffers,
    /// Submissions that found the queue full.
    overflow: VecDeque<squeue::Entry>,
    listeners: Vec<Option<ListenerState>>,
    conns: Places<Conn>,
    pending: VecDeque<Pending>,
    completions: Vec<(u64, i32, u32)>,
    waker: UringWaker,
    /// Where the kernel writes the waker's counter.
    wake_counter: Box<u64>,
    wake_armed: bool,
}

struct ListenerState {
    descriptor: OwnedFd,
    address: Address,
    armed: bool,
    failed_at: Option<Instant>,
}

struct Conn {
    socket: UringSocket,
    peer: Option<Address>,
    local: Option<Address>,
    receiving: bool,
    paused: bool,
    /// Buffers not sent yet; the first one is with the kernel while `sending`.
    unsent: VecDeque<Vec<u8>>,
    sent: usize,
    sending: bool,
    /// To be closed when nothing is unsent.
    closing: bool,
    /// Closed for this reason; gone when the kernel has answered everything.
    ended: Option<CloseReason>,
}

enum Pending {
    Sent(ConnId, Vec<u8>),
    Closed(ConnId, CloseReason),
}

/// A connected stream that no backend has adopted, or the one of a connection.
#[derive(Debug)]
pub struct UringSocket {
    descriptor: OwnedFd,
    /// Path of the Unix listener it came by.
    path: Option<PathBuf>,
}

/// Wakes a [`Uring`]; many wakes before it looks cost one system call.
#[derive(Clone)]
pub struct UringWaker {
    event: Arc<File>,
    woken: Arc<AtomicBool>,
}

impl crate::Waker for UringWaker {
    fn wake(&self) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            #[allow(clippy::host_endian_bytes, reason = "an eventfd counts in host order")]
            let one = 1u64.to_ne_bytes();
            // A counter that is full has woken the backend already; nothing else can fail.
            let _ = (&*self.event).write(&one);
        }
    }
}

/// Whether io_uring can run here.
///
/// # Errors
/// One line with cause and cure.
pub fn probe() -> Result<(), String> {
    let ring = build_ring(8, 16).map_err(|error| {
        let cure = match error.raw_os_error() {
            Some(libc::ENOSYS) => {
                "the kernel has no io_uring; Linux 6.0 or later has what is needed"
            }
            Some(libc::EPERM | libc::EACCES) => {
                "io_uring is forbidden; set the sysctl kernel.io_uring_disabled to 0, or let the \
                 container's seccomp profile allow io_uring_setup, io_uring_enter and \
                 io_uring_register"
            }
            Some(libc::ENOMEM) => "the limit of locked memory is too low; raise ulimit -l",
            Some(libc::EINVAL) => "the kernel is too old; Linux 6.0 or later has what is needed",
            _ => "see the error",
        };
        format!("io_uring cannot run: {error}: {cure}")
    })?;
    let mut probe = Probe::new();
    let probed = ring.submitter().register_probe(&mut probe);
    let needed = [
        opcode::AcceptMulti::CODE,
        opcode::RecvMulti::CODE,
        opcode::Send::CODE,
        opcode::AsyncCancel::CODE,
    ];
    if probed.is_err() || !needed.iter().all(|code| probe.is_supported(*code)) {
        return Err("io_uring cannot run: the kernel lacks operations that are needed; Linux 6.0 \
                    or later has them"
            .to_owned());
    }
    Buffers::register(&ring.submitter()).map(drop).map_err(|error| {
        format!(
            "io_uring cannot run: no provided buffer ring ({error}); Linux 6.0 or later has what \
             is needed"
        )
    })
}

/// A ring for one thread, with the newest options that the kernel takes.
fn build_ring(submissions: u32, completions: u32) -> io::Result<IoUring> {
    let newest = IoUring::builder()
        .setup_cqsize(completions)
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .build(submissions);
    match newest {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => IoUring::builder()
            .setup_cqsize(completions)
            .setup_coop_taskrun()
            .setup_taskrun_flag()
            .build(submissions),
        other => other,
    }
}

fn event_file() -> io::Result<File> {
    // SAFETY: takes and returns plain numbers.
    let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

impl Uring {
    /// Queues a submission for the next enter.
    fn push(&mut self, entry: squeue::Entry) {
        if self.overflow.is_empty() {
            // SAFETY: whoever builds an entry keeps its memory until the completion; see the top
            // of the file.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            if pushed.is_ok() {
                return;
            }
        }
        self.overflow.push_back(entry);
    }

    /// Moves what found the queue full to the queue, submitting in between.
    fn push_overflow(&mut self) -> io::Result<()> {
        while let Some(entry) = self.overflow.front() {
            // SAFETY: as in `push`.
            let pushed = unsafe { self.ring.submission().push(entry) };
            if pushed.is_ok() {
                self.overflow.pop_front();
            } else {
                self.ring.submit()?;
            }
        }
        Ok(())
    }

    fn arm_accept(&mut self, index: usize) {
        let Some(Some(listener)) = self.listeners.get_mut(index) else { return };
        listener.armed = true;
        listener.failed_at = None;
        let id = ConnId { index: index as u32, generation: 0 };
        let entry = opcode::AcceptMulti::new(Fd(listener.descriptor.as_raw_fd()))
            .flags(libc::SOCK_CLOEXEC)
            .build()
            .user_data(user_data(Op::Accept, id));
        self.push(entry);
    }

    fn arm_receive(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        if conn.receiving || conn.paused || conn.closing || conn.ended.is_some() {
            return;
        }
        conn.receiving = true;
        let entry = opcode::RecvMulti::new(Fd(conn.socket.descriptor.as_raw_fd()), buffers::GROUP)
            .build()
            .user_data(user_data(Op::Receive, id));
        self.push(entry);
    }

    fn arm_waker(&mut self) {
        self.wake_armed = true;
        let target: *mut u64 = &mut *self.wake_counter;
        let id = ConnId { index: 0, generation: 0 };
        let entry = opcode::Read::new(
            Fd(self.waker.event.as_raw_fd()),
            target.cast(),
            size_of::<u64>() as u32,
        )
        .build()
        .user_data(user_data(Op::Wake, id));
        self.push(entry);
    }

    /// Sends the first unsent buffer from where it stands.
    fn start_send(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        let Some(buffer) = conn.unsent.front() else { return };
        conn.sending = true;
        let rest = &buffer[conn.sent..];
        let len = u32::try_from(rest.len()).unwrap_or(1 << 30);
        let entry = opcode::Send::new(Fd(conn.socket.descriptor.as_raw_fd()), rest.as_ptr(), len)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .user_data(user_data(Op::Send, id));
        self.push(entry);
    }

    fn cancel(&mut self, op: Op, id: ConnId) {
        let none = ConnId { index: 0, generation: 0 };
        let entry = opcode::AsyncCancel::new(user_data(op, id))
            .build()
            .user_data(user_data(Op::Cancel, none));
        self.push(entry);
    }

    /// Ends a connection; it goes when the kernel has answered its operations.
    fn end(&mut self, id: ConnId, reason: CloseReason) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        if conn.ended.is_none() {
            conn.ended = Some(reason);
            let (receiving, sending) = (conn.receiving, conn.sending);
            if receiving {
                self.cancel(Op::Receive, id);
            }
            if sending {
                self.cancel(Op::Send, id);
            }
        }
        self.reap(id);
    }

    /// Lets an ended connection go once nothing of it is with the kernel.
    fn reap(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        if conn.receiving || conn.sending {
            return;
        }
        if let Some(reason) = conn.ended.take() {
            self.conns.vacate(id);
            self.pending.push_back(Pending::Closed(id, reason));
        }
    }

    fn complete(
        &mut self,
        (data, result, flags): (u64, i32, u32),
        handler: &mut dyn FnMut(Event<'_, UringSocket>),
    ) {
        let id = ConnId { index: data as u32, generation: (data >> 32) as u32 & 0x0fff_ffff };
        match data >> 60 {
            op if op == Op::Receive as u64 => self.received(id, result, flags, handler),
            op if op == Op::Send as u64 => self.sent(id, result),
            op if op == Op::Accept as u64 => self.accepted(id.index, result, flags, handler),
            op if op == Op::Wake as u64 => {
                self.wake_armed = false;
                self.waker.woken.store(false, Ordering::Release);
                handler(Event::Woken);
            }
            _ => {}
        }
    }

    fn received(
        &mut self,
        id: ConnId,
        result: i32,
        flags: u32,
        handler: &mut dyn FnMut(Event<'_, UringSocket>),
    ) {
        let lives = self.conns.get_mut(id).is_some_and(|conn| {
            conn.receiving = cqueue::more(flags);
            conn.ended.is_none() && !conn.closing
        });
        if let Some(buffer) = cqueue::buffer_select(flags) {
            if lives && result > 0 {
                let bytes = self.buffers.bytes(buffer, result as usize);
                handler(Event::Received { conn: id, bytes });
            }
            self.buffers.give_back(buffer);
        }
        if !lives {
            self.reap(id);
            return;
        }
        match -result {
            0 => self.end(id, CloseReason::Peer),
            code if code < 0 => self.arm_receive(id),
            // All buffers are in use, or a pause took the operation back.
            libc::ENOBUFS | libc::ECANCELED | libc::EINTR | libc::EAGAIN => self.arm_receive(id),
            code => self.end(id, CloseReason::Error(io::Error::from_raw_os_error(code))),
        }
    }

    fn sent(&mut self, id: ConnId, result: i32) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.sending = false;
        if conn.ended.is_some() {
            self.reap(id);
            return;
        }
        if result < 0 {
            let retry = matches!(-result, libc::EINTR | libc::EAGAIN);
            if retry {
                self.start_send(id);
            } else {
                self.end(id, CloseReason::Error(io::Error::from_raw_os_error(-result)));
            }
            return;
        }
        conn.sent += result as usize;
        if conn.unsent.front().is_some_and(|buffer| conn.sent >= buffer.len()) {
            conn.sent = 0;
            if let Some(buffer) = conn.unsent.pop_front() {
                self.pending.push_back(Pending::Sent(id, buffer));
            }
        }
        if !conn.unsent.is_empty() {
            self.start_send(id);
        } else if conn.closing {
            self.end(id, CloseReason::Local);
        } else if conn.unsent.capacity() > 4 {
            conn.unsent = VecDeque::new();
        }
    }

    fn accepted(
        &mut self,
        index: u32,
        result: i32,
        flags: u32,
        handler: &mut dyn FnMut(Event<'_, UringSocket>),
    ) {
        let listener = self.listeners.get_mut(index as usize).and_then(Option::as_mut);
        let path = listener.as_ref().and_then(|listener| match &listener.address {
            Address::Unix(path) => Some(path.clone()),
            Address::Tcp(_) => None,
        });
        let known = listener.is_some();
        if let Some(listener) = listener {
            listener.armed = cqueue::more(flags);
            let failed = result < 0
                && !matches!(-result, libc::ECONNABORTED | libc::EINTR | libc::ECANCELED);
            listener.failed_at = failed.then(now);
        }
        if result >= 0 {
            // SAFETY: the kernel made the descriptor for this completion; nobody else has it.
            let descriptor = unsafe { OwnedFd::from_raw_fd(result) };
            if known {
                let socket = UringSocket { descriptor, path };
                handler(Event::Accepted { listener: ListenerId(index), socket });
            }
        } else if known && -result != libc::ECANCELED {
            let error = io::Error::from_raw_os_error(-result);
            handler(Event::AcceptFailed { listener: ListenerId(index), error });
        }
    }

    /// Arms what a completion or a pause has disarmed.
    fn rearm(&mut self) {
        for index in 0..self.listeners.len() {
            let due = self.listeners[index].as_ref().is_some_and(|listener| {
                let waits = listener.failed_at.is_some_and(|failed| now() - failed < ACCEPT_PAUSE);
                !listener.armed && !waits
            });
            if due {
                self.arm_accept(index);
            }
        }
        if !self.wake_armed {
            self.arm_waker();
        }
    }

    fn deliver_pending(&mut self, handler: &mut dyn FnMut(Event<'_, UringSocket>)) {
        while let Some(pending) = self.pending.pop_front() {
            match pending {
                Pending::Sent(conn, buffer) => handler(Event::Sent { conn, buffer }),
                Pending::Closed(conn, reason) => {
                    self.conns.release(conn);
                    handler(Event::Closed { conn, reason });
                }
            }
        }
    }

    /// The one system call of a tick: submits, and waits for `want` completions.
    fn enter(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let idle = self.ring.completion().is_empty() && self.pending.is_empty();
        let waits = idle && timeout != Some(Duration::ZERO);
        let result = match timeout {
            Some(timeout) if waits => {
                let timespec = Timespec::from(timeout);
                let args = SubmitArgs::new().timespec(&timespec);
                self.ring.submitter().submit_with_args(1, &args)
            }
            _ => self.ring.submitter().submit_and_wait(usize::from(waits)),
        };
        match result {
            Ok(_) => Ok(()),
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

impl Backend for Uring {
    type Socket = UringSocket;
    type Waker = UringWaker;

    fn open() -> io::Result<Self> {
        let ring = build_ring(SUBMISSIONS, COMPLETIONS)?;
        let buffers = Buffers::register(&ring.submitter())?;
        let waker =
            UringWaker { event: Arc::new(event_file()?), woken: Arc::new(AtomicBool::new(false)) };
        Ok(Self {
            ring,
            buffers,
            overflow: VecDeque::new(),
            listeners: Vec::new(),
            conns: Places::default(),
            pending: VecDeque::new(),
            completions: Vec::with_capacity(EVENTS_MAX),
            waker,
            wake_counter: Box::new(0),
            wake_armed: false,
        })
    }

    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn listen(&mut self, address: &Address, options: &ListenOptions) -> io::Result<ListenerId> {
        // Operations on a non-blocking descriptor would fail instead of waiting in the kernel.
        let (descriptor, address) = socket::listen(address, options, false)?;
        let index = self.listeners.len();
        self.listeners.push(Some(ListenerState {
            descriptor,
            address,
            armed: false,
            failed_at: None,
        }));
        Ok(ListenerId(index as u32))
    }

    fn listen_address(&self, listener: ListenerId) -> Option<Address> {
        let state = self.listeners.get(listener.0 as usize)?.as_ref()?;
        Some(state.address.clone())
    }

    fn unlisten(&mut self, listener: ListenerId) {
        let Some(place) = self.listeners.get_mut(listener.0 as usize) else { return };
        if let Some(state) = place.take() {
            if state.armed {
                self.cancel(Op::Accept, ConnId { index: listener.0, generation: 0 });
            }
            if let Address::Unix(path) = state.address {
                let _ = std::fs::remove_file(path);
            }
        }
    }

    fn adopt(&mut self, socket: UringSocket, options: &SocketOptions) -> io::Result<ConnId> {
        if socket.path.is_none() {
            socket::set_options(&socket.descriptor, options);
        }
        let path = socket.path.clone().map(Address::Unix);
        let peer = path.clone().or_else(|| socket::peer_address(&socket.descriptor));
        let local = path.or_else(|| socket::local_address(&socket.descriptor));
        let id = self.conns.next_id();
        self.conns.occupy(
            id,
            Conn {
                socket,
                peer,
                local,
                receiving: false,
                paused: false,
                unsent: VecDeque::new(),
                sent: 0,
                sending: false,
                closing: false,
                ended: None,
            },
        );
        self.arm_receive(id);
        Ok(id)
    }

    fn peer_address(&self, conn: ConnId) -> Option<Address> {
        self.conns.get(conn)?.peer.clone()
    }

    fn local_address(&self, conn: ConnId) -> Option<Address> {
        self.conns.get(conn)?.local.clone()
    }

    fn descriptor(&self, conn: ConnId) -> RawFd {
        self.conns.get(conn).map_or(-1, |conn| conn.socket.descriptor.as_raw_fd())
    }

    fn send(&mut self, id: ConnId, buffer: Vec<u8>) -> Sent {
        let Some(conn) = self.conns.get_mut(id) else { return Sent::Refused(buffer) };
        if conn.closing || conn.ended.is_some() {
            return Sent::Refused(buffer);
        }
        if buffer.is_empty() {
            return Sent::Complete(buffer);
        }
        conn.unsent.push_back(buffer);
        if !conn.sending {
            self.start_send(id);
        }
        Sent::Pending
    }

    fn pause(&mut self, id: ConnId, paused: bool) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.paused = paused;
        if paused && conn.receiving {
            self.cancel(Op::Receive, id);
        } else if !paused {
            self.arm_receive(id);
        }
    }

    fn close(&mut self, id: ConnId, how: Close) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        if how == Close::Now || conn.unsent.is_empty() {
            self.end(id, CloseReason::Local);
        } else {
            conn.closing = true;
        }
    }

    fn waker(&self) -> UringWaker {
        self.waker.clone()
    }

    fn memory_bytes(&self) -> usize {
        let unsent = self.conns.iter().flat_map(|conn| &conn.unsent).map(Vec::capacity);
        self.buffers.memory_bytes() + self.conns.bytes() + unsent.sum::<usize>()
    }

    fn wait(
        &mut self,
        timeout: Option<Duration>,
        handler: &mut dyn FnMut(Event<'_, UringSocket>),
    ) -> io::Result<()> {
        self.rearm();
        self.push_overflow()?;
        let accept_failed =
            self.listeners.iter().flatten().any(|listener| listener.failed_at.is_some());
        let timeout = match timeout {
            other if !accept_failed => other,
            other => Some(other.unwrap_or(ACCEPT_PAUSE).min(ACCEPT_PAUSE)),
        };
        self.enter(timeout)?;
        self.deliver_pending(handler);
        let mut completions = std::mem::take(&mut self.completions);
        completions.extend(
            self.ring
                .completion()
                .take(EVENTS_MAX)
                .map(|entry| (entry.user_data(), entry.result(), entry.flags())),
        );
        for completion in completions.drain(..) {
            self.complete(completion, handler);
        }
        self.completions = completions;
        self.deliver_pending(handler);
        Ok(())
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // Nothing may be freed that an operation still points to. What has not been submitted
        // yet never will be.
        let _ = self.ring.submitter().register_sync_cancel(None, CancelBuilder::any());
        let in_flight = self.conns.iter().any(|conn| conn.sending);
        let deadline = now() + Duration::from_secs(1);
        while in_flight && self.conns.iter().any(|conn| conn.sending) && now() < deadline {
            if self.wait(Some(Duration::from_millis(10)), &mut |_| {}).is_err() {
                break;
            }
        }
        let stuck = self.conns.iter_mut().filter(|conn| conn.sending);
        // A leak is better than a kernel that reads freed memory.
        stuck.for_each(|conn| std::mem::forget(std::mem::take(&mut conn.unsent)));
    }
}

#[allow(clippy::disallowed_methods, reason = "only spaces out failing accepts, and bounds a drop")]
fn now() -> Instant {
    Instant::now()
}
