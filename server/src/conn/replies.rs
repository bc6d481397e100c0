//! Replies on their way to a client: bytes of its own, pieces that it shares with others, and what
//! they wait for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that many clients are to get: held once, and counted once.
#[derive(Debug)]
pub struct SharedBytes {
    bytes: Vec<u8>,
    counter: Arc<AtomicUsize>,
}

impl SharedBytes {
    /// Shares bytes, which `counter` counts as long as they live.
    pub fn new(bytes: Vec<u8>, counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(bytes.capacity(), Ordering::Relaxed);
        Self { bytes, counter: Arc::clone(counter) }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for SharedBytes {
    fn drop(&mut self) {
        self.counter.fetch_sub(self.bytes.capacity(), Ordering::Relaxed);
    }
}

/// A piece of a client's output that waits behind others.
#[derive(Debug)]
enum Piece {
    /// The client's own.
    Own(Vec<u8>),
    /// A first byte of the client's protocol, and what follows it for everybody.
    Shared(u8, Arc<SharedBytes>),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Own(bytes) => bytes.len(),
            Self::Shared(_, shared) => 1 + shared.bytes.len(),
        }
    }

    fn write_to(&self, buffer: &mut Vec<u8>) {
        match self {
            Self::Own(bytes) => buffer.extend_from_slice(bytes),
            Self::Shared(lead, shared) => {
                buffer.push(*lead);
                buffer.extend_from_slice(&shared.bytes);
            }
        }
    }
}

/// Replies on their way out, with the log positions that they wait for.
///
/// A mark says: the bytes up to `end` may leave once the log is durable up to `position`. Marks
/// ascend in both; bytes behind the last mark wait for nothing.
#[derive(Debug, Default)]
pub struct ReplyBuffer {
    /// Replies in wire form, behind all pieces.
    pub bytes: Vec<u8>,
    /// Bytes that have left.
    left: u64,
    /// What few clients have at a time.
    backlog: Option<Box<Backlog>>,
}

/// Output in pieces, and marks.
#[derive(Debug, Default)]
struct Backlog {
    pieces: VecDeque<Piece>,
    /// Bytes of the pieces.
    pieces_len: usize,
    /// Those of them that others share.
    shared_len: usize,
    /// Memory of the pieces that are the client's own.
    own_capacity: usize,
    marks: VecDeque<ReleaseMark>,
}

/// One step of a [`ReplyBuffer`]: an end, counted from the connection's first byte.
#[derive(Clone, Copy, Debug)]
struct ReleaseMark {
    end: u64,
    position: u64,
}

/// Shared bytes are copied while a client's own bytes are fewer than this; beyond it the client
/// only refers to them.
const COPIED_MAX: usize = 16 * 1024;

/// Pieces go out in buffers of about this size.
const SEND_LEN: usize = 64 * 1024;

impl ReplyBuffer {
    /// Bytes that have not left.
    pub fn len(&self) -> usize {
        self.pieces_len() + self.bytes.len()
    }

    /// Whether all has left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pieces that wait.
    pub fn pieces(&self) -> usize {
        self.backlog.as_ref().map_or(0, |backlog| backlog.pieces.len())
    }

    /// Bytes of the pieces that wait.
    pub fn pieces_len(&self) -> usize {
        self.backlog.as_ref().map_or(0, |backlog| backlog.pieces_len)
    }

    /// Bytes that others share, which are counted where they are shared.
    pub fn shared_len(&self) -> usize {
        self.backlog.as_ref().map_or(0, |backlog| backlog.shared_len)
    }

    /// Bytes of memory, without what others share.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.backlog.as_ref().map_or(0, |backlog| backlog.memory_bytes())
    }

    /// Holds all bytes so far until the log is durable up to `position`.
    pub fn mark(&mut self, position: u64) {
        let end = self.left + self.len() as u64;
        let marks = &mut self.backlog.get_or_insert_default().marks;
        match marks.back_mut() {
            Some(last) if last.position == position => last.end = end,
            _ => marks.push_back(ReleaseMark { end, position }),
        }
    }

    /// Adds bytes that others get as well. `slow` says that the client has not taken all that was
    /// sent to it before.
    pub fn push_shared(&mut self, lead: u8, shared: &Arc<SharedBytes>, slow: bool) {
        if self.pieces() == 0 && !slow && self.bytes.len() < COPIED_MAX {
            self.bytes.push(lead);
            self.bytes.extend_from_slice(&shared.bytes);
            return;
        }
        let backlog = self.backlog.get_or_insert_default();
        backlog.push_own(&mut self.bytes);
        backlog.push(Piece::Shared(lead, Arc::clone(shared)));
    }

    /// Takes bytes that may leave once the log is durable up to `durable`; where there are many,
    /// some.
    pub fn release(&mut self, durable: u64) -> Vec<u8> {
        let released = match &mut self.backlog {
            None => std::mem::take(&mut self.bytes),
            Some(backlog) => backlog.release(&mut self.bytes, self.left, durable),
        };
        self.left += released.len() as u64;
        self.backlog.take_if(|backlog| backlog.pieces.is_empty() && backlog.marks.is_empty());
        released
    }
}

impl Backlog {
    fn push(&mut self, piece: Piece) {
        self.pieces_len += piece.len();
        match &piece {
            Piece::Own(bytes) => self.own_capacity += bytes.capacity(),
            Piece::Shared(..) => self.shared_len += piece.len(),
        }
        self.pieces.push_back(piece);
    }

    /// Takes the first piece away, of which some bytes may have left before.
    fn pop(&mut self) {
        let Some(piece) = self.pieces.pop_front() else { return };
        self.pieces_len -= piece.len();
        match &piece {
            Piece::Own(bytes) => self.own_capacity -= bytes.capacity(),
            Piece::Shared(..) => self.shared_len -= piece.len(),
        }
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.pieces.capacity() * size_of::<Piece>()
            + self.marks.capacity() * size_of::<ReleaseMark>()
            + self.own_capacity
    }

    /// Makes a piece of the client's own bytes.
    fn push_own(&mut self, bytes: &mut Vec<u8>) {
        if !bytes.is_empty() {
            self.push(Piece::Own(std::mem::take(bytes)));
        }
    }

    /// As [`ReplyBuffer::release`], where `left` bytes have left before.
    fn release(&mut self, bytes: &mut Vec<u8>, left: u64, durable: u64) -> Vec<u8> {
        let mut end = left;
        while let Some(mark) = self.marks.pop_front_if(|mark| mark.position <= durable) {
            end = mark.end;
        }
        let all = self.marks.is_empty();
        let allowed = if all { usize::MAX } else { (end - left) as usize };
        let released = if !self.pieces.is_empty() {
            self.push_own(bytes);
            self.release_pieces(allowed)
        } else if allowed >= bytes.len() {
            std::mem::take(bytes)
        } else {
            let held = bytes.split_off(allowed);
            std::mem::replace(bytes, held)
        };
        if left + (released.len() as u64) < end {
            // The rest may leave as well, with the next buffer.
            self.marks.push_front(ReleaseMark { end, position: 0 });
        }
        released
    }

    fn release_pieces(&mut self, allowed: usize) -> Vec<u8> {
        let mut released = Vec::new();
        while let Some(piece) = self.pieces.front_mut() {
            let room = allowed - released.len();
            if piece.len() > room {
                if let Piece::Own(bytes) = piece {
                    released.extend(bytes.drain(..room));
                    self.pieces_len -= room;
                }
                break;
            }
            if !released.is_empty() && released.len() + piece.len() > SEND_LEN {
                break;
            }
            piece.write_to(&mut released);
            self.pop();
        }
        released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_leave_when_their_log_position_is_durable() {
        let mut replies = ReplyBuffer::default();
        replies.bytes.extend_from_slice(b"a");
        replies.mark(1);
        replies.bytes.extend_from_slice(b"bc");
        replies.mark(3);
        replies.bytes.extend_from_slice(b"d");
        assert_eq!(replies.release(0), b"");
        assert_eq!(replies.release(2), b"a");
        assert_eq!(replies.release(2), b"");
        assert_eq!(replies.release(3), b"bcd");
        replies.bytes.extend_from_slice(b"e");
        assert_eq!(replies.release(0), b"e");
    }

    #[test]
    fn a_slow_client_refers_to_what_is_shared() {
        let counter = Arc::default();
        let shared = Arc::new(SharedBytes::new(vec![b's'; 1000], &counter));
        let mut replies = ReplyBuffer::default();
        replies.push_shared(b'>', &shared, false);
        assert_eq!((replies.len(), replies.pieces()), (1001, 0));
        for _ in 0..200 {
            replies.push_shared(b'>', &shared, true);
            replies.bytes.extend_from_slice(b"own");
        }
        assert_eq!(replies.len(), 1001 + 200 * 1004);
        assert_eq!(counter.load(Ordering::Relaxed), 1000);
        let mut all = Vec::new();
        while !replies.is_empty() {
            let buffer = replies.release(0);
            assert!(buffer.len() <= SEND_LEN);
            all.extend(buffer);
        }
        assert_eq!(all.len(), 1001 + 200 * 1004);
        assert!(all.ends_with(b"ssown"));
        drop(shared);
        assert_eq!(counter.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn pieces_that_wait_are_counted_as_memory() {
        let counter = Arc::default();
        let shared = Arc::new(SharedBytes::new(vec![b's'; 1000], &counter));
        let mut replies = ReplyBuffer::default();
        replies.bytes.reserve_exact(2000);
        replies.bytes.extend_from_slice(b"own");
        replies.mark(1);
        assert!((2000..2500).contains(&replies.memory_bytes()));
        for _ in 0..100 {
            replies.push_shared(b'>', &shared, true);
        }
        // What is shared is counted once, by its counter; places of the pieces are few bytes.
        assert_eq!((replies.shared_len(), replies.pieces_len()), (100 * 1001, 3 + 100 * 1001));
        assert!((2000..8000).contains(&replies.memory_bytes()));
        replies.mark(2);
        replies.release(1);
        assert!(replies.memory_bytes() < 6000, "{}", replies.memory_bytes());
        while !replies.is_empty() {
            replies.release(2);
        }
        assert_eq!((replies.shared_len(), replies.memory_bytes()), (0, 0));
    }

    #[test]
    fn pieces_wait_for_their_log_position_too() {
        let counter = Arc::default();
        let shared = Arc::new(SharedBytes::new(b"shared".to_vec(), &counter));
        let mut replies = ReplyBuffer::default();
        replies.push_shared(b'>', &shared, true);
        replies.bytes.extend_from_slice(b"ab");
        replies.mark(1);
        replies.push_shared(b'>', &shared, true);
        replies.mark(2);
        assert_eq!(replies.release(0), b"");
        assert_eq!(replies.release(1), b">sharedab");
        assert_eq!(replies.release(1), b"");
        replies.bytes.extend_from_slice(b"c");
        assert_eq!(replies.release(2), b">sharedc");
    }
}
