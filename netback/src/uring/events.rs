//! From completions to events.

use std::io;
use std::os::fd::AsRawFd;

use super::conn::{Life, Progress};
use super::ring::{Completion, Kind, Token};
use super::{ACCEPT_PAUSE, Pending, Socket, Uring, now};
use crate::{CloseReason, ConnId, Event, ListenerId};

type Handler<'a> = dyn FnMut(Event<'_, Socket>) + 'a;

impl Uring {
    /// Delivers events that came up otherwise than by a completion.
    pub(super) fn deliver_pending(&mut self, budget: &mut usize, handler: &mut Handler<'_>) {
        while *budget > 0
            && let Some((token, result)) = self.files.next()
        {
            *budget -= 1;
            handler(Event::File { token, result });
        }
        while *budget > 0
            && let Some(pending) = self.pending.pop_front()
        {
            *budget -= 1;
            match pending {
                Pending::Sent(conn, buffer) => handler(Event::Sent { conn, buffer }),
                Pending::Held(conn) => self.deliver_held(conn, handler),
                Pending::Closed(conn, reason) => {
                    self.conns.release(conn);
                    handler(Event::Closed { conn, reason });
                }
            }
        }
    }

    fn deliver_held(&mut self, id: ConnId, handler: &mut Handler<'_>) {
        if let Some(conn) = self.conns.get_mut(id)
            && conn.may_send()
            && !conn.paused
            && !conn.held.is_empty()
        {
            let held = std::mem::take(&mut conn.held);
            handler(Event::Received { conn: id, bytes: &held });
        }
    }

    /// Takes completions, at most one event each, and draws the conclusion from missing ones.
    pub(super) fn take_completions(&mut self, budget: &mut usize, handler: &mut Handler<'_>) {
        let mut completions = std::mem::take(&mut self.completions);
        let all_taken = self.ring.take_completions(&mut completions, *budget);
        *budget -= completions.len();
        for completion in completions.drain(..) {
            self.on_completion(completion, handler);
        }
        self.completions = completions;
        if all_taken {
            self.conclude_quiet();
        }
    }

    fn on_completion(&mut self, completion: Completion, handler: &mut Handler<'_>) {
        let Token { kind, index } = completion.token;
        match kind {
            Kind::Waker => self.on_wake(&completion, handler),
            Kind::Accept => self.on_accept(index, &completion, handler),
            Kind::CancelAccept => {}
            Kind::Receive => self.on_receive(index, completion, handler),
            Kind::Send => self.on_send(index, completion.result),
            Kind::Cancel => self.on_cancelled(index),
            Kind::File => self.files.completed(&mut self.ring, index, completion.result),
        }
    }

    fn on_wake(&mut self, completion: &Completion, handler: &mut Handler<'_>) {
        if !completion.more {
            self.ring.watch(completion.token, self.waker.as_raw_fd());
        }
        if self.waker.take() {
            handler(Event::Woken);
        }
    }

    fn on_accept(&mut self, index: u32, completion: &Completion, handler: &mut Handler<'_>) {
        let listener = &mut self.listeners[index as usize];
        listener.accepting = completion.more;
        if listener.closing && !listener.accepting {
            listener.socket = None;
        }
        if completion.result >= 0 {
            // SAFETY: an accept's result is a new descriptor, told once.
            let socket = unsafe { Socket::from_accepted(completion.result, listener.path.clone()) };
            if !listener.closing {
                handler(Event::Accepted { listener: ListenerId(index), socket });
            }
            return;
        }
        let error = -completion.result;
        let passes = [libc::ECONNABORTED, libc::EINTR, libc::EAGAIN, libc::ECANCELED];
        if !listener.closing && !passes.contains(&error) {
            listener.retry_at = Some(now() + ACCEPT_PAUSE);
            let error = io::Error::from_raw_os_error(error);
            handler(Event::AcceptFailed { listener: ListenerId(index), error });
        }
    }

    fn on_receive(&mut self, index: u32, completion: Completion, handler: &mut Handler<'_>) {
        if let Some(id) = self.conns.id_at(index) {
            if let Some(conn) = self.conns.get_mut(id)
                && !completion.more
            {
                conn.receiving = false;
                conn.requests -= 1;
            }
            self.received(id, &completion, handler);
            if !completion.more {
                self.settle(id);
            } else if completion.lent.is_some() {
                self.suspect(id);
            }
        }
        if let Some(lent) = completion.lent {
            self.buffers.give_back(lent);
        }
    }

    fn received(&mut self, id: ConnId, completion: &Completion, handler: &mut Handler<'_>) {
        let Some(conn) = self.conns.get_mut(id).filter(|conn| !conn.is_closed()) else { return };
        match (-completion.result, &completion.lent) {
            (..0, Some(lent)) => {
                let bytes = self.buffers.bytes(lent);
                if !conn.is_open() {
                } else if conn.paused || !conn.held.is_empty() {
                    conn.held.extend_from_slice(bytes);
                } else {
                    handler(Event::Received { conn: id, bytes });
                }
            }
            // While paused it is not looked at: receiving after the pause tells it again.
            (0, _) if conn.is_open() && !conn.paused => {
                conn.life = Life::Ended;
                self.ended.push(id);
            }
            (0, _) if !conn.is_open() => conn.heard_end = true,
            (libc::ENOBUFS | libc::ECANCELED | libc::EINTR | libc::EAGAIN, _) | (..=0, _) => {}
            (error, _) => {
                let error = io::Error::from_raw_os_error(error);
                self.end(id, CloseReason::Error(error));
            }
        }
    }

    fn on_send(&mut self, index: u32, result: i32) {
        let Some(id) = self.conns.id_at(index) else { return };
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.requests -= 1;
        let pending = &mut self.pending;
        let told = !conn.is_closed();
        let progress = conn.sends.completed(result, &mut |buffer| {
            if told {
                pending.push_back(Pending::Sent(id, buffer));
            }
        });
        match progress {
            Progress::Failed(error) if told => {
                let error = io::Error::from_raw_os_error(error);
                self.end(id, CloseReason::Error(error));
            }
            _ => self.after_send(id),
        }
    }

    /// A send is over: what follows on the connection.
    fn after_send(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get(id) else { return };
        match conn.life {
            Life::Open => self.list_to_send(id),
            Life::Draining if conn.sends.is_empty() => self.end(id, CloseReason::Local),
            Life::Draining => self.list_to_send(id),
            Life::Ended if conn.owed => self.list_to_send(id),
            Life::Ended => self.end(id, CloseReason::Peer),
            Life::Closed(_) => self.settle(id),
        }
    }

    /// A cancellation is through. What it should have ended may have slipped by while it was
    /// being started again; then it is tried again.
    fn on_cancelled(&mut self, index: u32) {
        let Some(id) = self.conns.id_at(index) else { return };
        if let Some(conn) = self.conns.get_mut(id) {
            conn.cancelling = false;
            conn.requests -= 1;
        }
        self.settle(id);
    }

    /// All completions are in: quiet sends that the kernel has seen and not answered are done.
    fn conclude_quiet(&mut self) {
        let mut quiet = std::mem::take(&mut self.quiet);
        let mut kept = 0;
        for index in 0..quiet.len() {
            let (id, number) = quiet[index];
            if !self.ring.is_submitted(number) {
                quiet[kept] = quiet[index];
                kept += 1;
                continue;
            }
            let Some(conn) = self.conns.get_mut(id) else { continue };
            if let Some(buffer) = conn.sends.completed_quietly(number) {
                conn.requests -= 1;
                if !conn.is_closed() {
                    self.pending.push_back(Pending::Sent(id, buffer));
                }
                self.after_send(id);
            }
        }
        quiet.truncate(kept);
        self.quiet = quiet;
    }
}
