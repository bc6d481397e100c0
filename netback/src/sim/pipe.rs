//! One direction of a simulated connection.

use std::collections::VecDeque;
use std::time::Duration;

/// Bytes on their way and bytes that have arrived, in order.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    travelling: VecDeque<(Duration, Cargo)>,
    arrived: VecDeque<u8>,
    /// What follows the arrived bytes, once it has arrived.
    end: Option<End>,
    /// Bytes travelling and arrived.
    len: usize,
    /// Nothing arrives before this, so that order is kept.
    last_at: Duration,
    /// A writer found too little room since the last read.
    was_full: bool,
}

#[derive(Debug)]
enum Cargo {
    Bytes(Vec<u8>),
    End(End),
}

/// How a direction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The writer has closed.
    Closed,
    /// The connection was reset.
    Reset,
}

impl Pipe {
    /// Bytes that still fit.
    pub(super) fn room(&mut self, capacity: usize, wanted: usize) -> usize {
        let room = capacity.saturating_sub(self.len);
        self.was_full |= room < wanted;
        room.min(wanted)
    }

    /// Sends bytes on their way; returns when they arrive.
    pub(super) fn put(&mut self, at: Duration, bytes: &[u8]) -> Duration {
        self.len += bytes.len();
        self.push(at, Cargo::Bytes(bytes.to_vec()))
    }

    /// Ends the direction behind all bytes put so far; returns when that arrives.
    pub(super) fn put_end(&mut self, at: Duration, end: End) -> Duration {
        self.push(at, Cargo::End(end))
    }

    fn push(&mut self, at: Duration, cargo: Cargo) -> Duration {
        self.last_at = self.last_at.max(at);
        self.travelling.push_back((self.last_at, cargo));
        self.last_at
    }

    /// Ends the direction at once; what was on its way is lost.
    pub(super) fn cut(&mut self, end: End) {
        self.travelling.clear();
        self.len = self.arrived.len();
        self.end = Some(end);
    }

    /// Lets arrive what has arrived by `now`.
    pub(super) fn settle(&mut self, now: Duration) {
        while let Some((_, cargo)) = self.travelling.pop_front_if(|(at, _)| *at <= now) {
            match cargo {
                Cargo::Bytes(bytes) if self.end.is_none() => self.arrived.extend(bytes),
                Cargo::Bytes(bytes) => self.len -= bytes.len(),
                Cargo::End(end) => {
                    self.end.get_or_insert(end);
                }
            }
        }
    }

    /// Bytes that can be read.
    pub(super) fn arrived(&self) -> usize {
        self.arrived.len()
    }

    /// Whether a read would tell anything.
    pub(super) fn is_readable(&self) -> bool {
        !self.arrived.is_empty() || self.end.is_some()
    }

    /// Whether bytes were put that nobody has read.
    pub(super) fn has_unread(&self) -> bool {
        self.len > 0
    }

    /// The end, once all bytes before it have been read.
    pub(super) fn end(&self) -> Option<End> {
        self.end.filter(|_| self.arrived.is_empty())
    }

    /// Takes arrived bytes to the front of `out`, which is at most as long as there are. Returns
    /// whether a writer may be waiting for the room.
    pub(super) fn take(&mut self, out: &mut [u8]) -> bool {
        let len = out.len();
        let (front, back) = self.arrived.as_slices();
        let (to_front, to_back) = out.split_at_mut(len.min(front.len()));
        to_front.copy_from_slice(&front[..to_front.len()]);
        to_back.copy_from_slice(&back[..to_back.len()]);
        self.arrived.drain(..len);
        self.len -= len;
        if self.arrived.is_empty() {
            self.arrived = VecDeque::new();
        }
        std::mem::take(&mut self.was_full)
    }
}
