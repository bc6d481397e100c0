//! Ends of connections that the kernel does not tell.
//!
//! A receive that stays armed can miss the peer's end or reset where it comes right behind bytes:
//! both wake the receive before it runs, it takes the bytes, and forgets that there was a second
//! reason to look (seen on Linux 6.18, about once in 100,000 connections that are reset behind
//! their last bytes). Nothing wakes it again. So a connection that has sent something and then is
//! silent for a while is looked at once, by a peek that neither waits nor takes anything.

use std::io;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::conn::Life;
use super::{Uring, now};
use crate::{CloseReason, ConnId};

/// Silence after which a connection is looked at: this long, or up to twice as long.
const LOOK_AFTER: Duration = Duration::from_millis(500);

/// Connections that have sent bytes and were not looked at since.
#[derive(Default)]
pub(super) struct Suspects {
    conns: Vec<ConnId>,
    look_at: Option<Instant>,
}

impl Suspects {
    /// When to look, if there is anybody to look at.
    pub(super) fn look_at(&self) -> Option<Instant> {
        self.look_at
    }
}

impl Uring {
    /// Bytes came by a receive that stays armed.
    pub(super) fn suspect(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.heard_lately = true;
        if !conn.suspect {
            conn.suspect = true;
            self.suspects.conns.push(id);
        }
    }

    /// Looks at those that were silent since the last time.
    pub(super) fn look_for_lost_ends(&mut self) {
        if self.suspects.conns.is_empty() {
            return;
        }
        let now = now();
        match self.suspects.look_at {
            Some(look_at) if look_at <= now => {}
            Some(_) => return,
            None => {
                self.suspects.look_at = Some(now + LOOK_AFTER);
                return;
            }
        }
        for id in std::mem::take(&mut self.suspects.conns) {
            if self.is_still_suspect(id) {
                self.suspects.conns.push(id);
            } else if let Some(conn) = self.conns.get_mut(id) {
                conn.suspect = false;
            }
        }
        self.suspects.look_at = (!self.suspects.conns.is_empty()).then(|| now + LOOK_AFTER);
    }

    /// Looks at a connection, and ends it if that is what it finds.
    fn is_still_suspect(&mut self, id: ConnId) -> bool {
        let Some(conn) = self.conns.get_mut(id).filter(|conn| conn.is_open()) else { return false };
        if std::mem::take(&mut conn.heard_lately) || conn.paused {
            return true;
        }
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        let mut byte = [MaybeUninit::uninit()];
        match SockRef::from(&conn.socket).recv_with_flags(&mut byte, flags) {
            Ok(0) => {
                conn.life = Life::Ended;
                self.ended.push(id);
            }
            Ok(_) => return true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            Err(error) => self.end(id, CloseReason::Error(error)),
        }
        false
    }
}
