//! A client's query buffer: requests that have not arrived whole, or wait for an earlier one.
//!
//! ```text
//! | have run | parsed | not parsed |
//! 0        start      at         bytes.len()
//! ```
//!
//! What has run stays until it is more than half of the bytes: a long pipeline that stops at each of
//! its requests is so moved twice at most, not once for each of them.

use crate::resp::{ArgRange, Progress};

/// Requests of a client that have not run.
#[derive(Debug, Default)]
pub struct QueryBuffer {
    bytes: Vec<u8>,
    /// Offset of the first request that has not run.
    start: usize,
    /// Offset up to which the parser has read.
    pub at: usize,
    /// The parser's state at `at`.
    pub progress: Progress,
    /// The arguments read so far, as ranges of `bytes`.
    pub args: Vec<ArgRange>,
}

impl QueryBuffer {
    /// An empty buffer that will use the room of `bytes`.
    pub fn with_room_of(mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        Self { bytes, ..Self::default() }
    }

    /// Bytes of requests that have not run.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Whether all has run.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory for requests.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Bytes of memory in all.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity() + self.args.capacity() * size_of::<ArgRange>()
    }

    /// The memory for requests, to be used for something else.
    pub fn into_room(self) -> Vec<u8> {
        self.bytes
    }

    /// The bytes that offsets refer to.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Offset of the first request that has not run.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Whether nothing of the first request has been parsed, as after it was made to wait.
    pub fn is_unparsed(&self) -> bool {
        self.at == self.start
    }

    /// Adds bytes that have come.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes note that what lies before an offset has run.
    pub fn run_upto(&mut self, start: usize) {
        debug_assert!(self.start <= start && start <= self.at && self.at <= self.bytes.len());
        self.start = start;
        if start > self.bytes.len() / 2 {
            self.bytes.drain(..start);
            self.start = 0;
            self.at -= start;
            rebase(&mut self.args, start);
        }
    }

    /// Puts a request before the others.
    pub fn put_back(&mut self, request: &[u8]) {
        match self.start.checked_sub(request.len()) {
            Some(start) => {
                self.bytes[start..self.start].copy_from_slice(request);
                self.start = start;
            }
            None => {
                self.bytes.splice(..self.start, request.iter().copied());
                self.start = 0;
            }
        }
        self.at = self.start;
        self.progress = Progress::default();
        self.args.clear();
    }
}

/// Moves ranges to bytes that begin `upto` bytes later.
pub(crate) fn rebase(args: &mut [ArgRange], upto: usize) {
    for arg in args {
        arg.start -= upto;
        arg.end -= upto;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_is_not_moved_at_each_of_its_requests() {
        let mut query = QueryBuffer::default();
        let requests = 10_000;
        query.extend(&vec![b'r'; 32 * requests]);
        let mut moved = 0;
        while !query.is_empty() {
            let before = query.bytes.len();
            query.at = query.start + 32;
            query.run_upto(query.at);
            if query.bytes.len() < before {
                moved += query.bytes.len();
            }
        }
        assert!(moved <= 32 * requests, "{moved}");
    }

    #[test]
    fn ranges_follow_the_bytes_that_are_moved() {
        let mut query = QueryBuffer::default();
        query.extend(b"aaaaaaaaaabbbcc");
        query.at = 13;
        query.args.push(ArgRange { start: 11, end: 13 });
        query.run_upto(10);
        assert_eq!((query.bytes(), query.start(), query.at), (&b"bbbcc"[..], 0, 3));
        assert_eq!((query.args[0].start, query.args[0].end), (1, 3));
    }

    #[test]
    fn a_request_that_runs_again_comes_before_the_others() {
        for run in 0..8 {
            let mut query = QueryBuffer::default();
            query.extend(b"0123456789");
            query.at = run;
            query.run_upto(run);
            query.put_back(b"abcde");
            let expected = [b"abcde", &b"0123456789"[run..]].concat();
            assert_eq!(&query.bytes()[query.start()..], expected);
            assert!(query.is_unparsed());
        }
    }
}
