//! The arguments of a request, and a cursor over its options.

use super::error::{CommandError, NOT_AN_INTEGER, SYNTAX};
use crate::resp::ArgRange;

/// The arguments of one request; the name has index 0.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    input: &'a [u8],
    ranges: &'a [ArgRange],
}

impl<'a> Args<'a> {
    /// Arguments as ranges of the input.
    pub fn new(input: &'a [u8], ranges: &'a [ArgRange]) -> Self {
        Self { input, ranges }
    }

    /// How many, with the name.
    #[inline]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// One argument. The row's arity must have shown that it is there.
    #[inline]
    pub fn get(&self, index: usize) -> &'a [u8] {
        let ArgRange { start, end } = self.ranges[index];
        &self.input[start..end]
    }

    /// All arguments from `first` on.
    pub fn from(&self, first: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let input = self.input;
        self.ranges[first.min(self.ranges.len())..]
            .iter()
            .map(|range| &input[range.start..range.end])
    }

    /// The arguments from `first` on as a request of their own.
    pub fn tail(&self, first: usize) -> Args<'a> {
        Args { input: self.input, ranges: &self.ranges[first.min(self.ranges.len())..] }
    }

    /// An argument as an integer.
    ///
    /// # Errors
    /// `value is not an integer or out of range`.
    pub fn integer(&self, index: usize) -> Result<i64, CommandError> {
        encodings::integer::parse_i64(self.get(index)).ok_or(NOT_AN_INTEGER)
    }

    /// When the time is over that an argument gives in milliseconds from now on, in milliseconds
    /// since 1970; `None` for 0.
    ///
    /// # Errors
    /// Redis's texts about timeouts that are no integers, negative, or beyond all time.
    pub fn until_ms(&self, index: usize, now_ms: u64) -> Result<Option<u64>, CommandError> {
        let number = self
            .integer(index)
            .map_err(|_| CommandError::new("ERR timeout is not an integer or out of range"))?;
        let timeout_ms =
            u64::try_from(number).map_err(|_| CommandError::new("ERR timeout is negative"))?;
        if timeout_ms == 0 {
            return Ok(None);
        }
        let until_ms = timeout_ms.checked_add(now_ms).filter(|ms| i64::try_from(*ms).is_ok());
        until_ms.map(Some).ok_or(CommandError::new("ERR timeout is out of range"))
    }

    /// Whether an argument is `word`, in any case.
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.get(index).eq_ignore_ascii_case(word.as_bytes())
    }

    /// A cursor over the arguments from `first` on.
    pub fn cursor(&self, first: usize) -> Cursor<'a> {
        Cursor { args: *self, at: first }
    }
}

/// A request that is kept for later.
#[derive(Clone, Debug)]
pub struct KeptArgs {
    wire: Vec<u8>,
    ranges: Vec<ArgRange>,
}

impl KeptArgs {
    /// The request whose bytes are `wire`, a part of the input of its arguments.
    pub fn new(args: Args<'_>, wire: &[u8]) -> Self {
        let offset = wire.as_ptr().addr() - args.input.as_ptr().addr();
        let range =
            |range: &ArgRange| ArgRange { start: range.start - offset, end: range.end - offset };
        Self { wire: wire.to_vec(), ranges: args.ranges.iter().map(range).collect() }
    }

    /// The arguments.
    pub fn args(&self) -> Args<'_> {
        Args::new(&self.wire, &self.ranges)
    }

    /// Bytes of memory beside the value itself.
    pub fn memory_bytes(&self) -> usize {
        self.wire.capacity() + self.ranges.capacity() * size_of::<ArgRange>()
    }

    /// The request in RESP form.
    pub fn wire(&self) -> &[u8] {
        &self.wire
    }
}

/// Walks over optional arguments.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    args: Args<'a>,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Index of the next argument.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Arguments not read yet.
    pub fn remaining(&self) -> usize {
        self.args.len() - self.at
    }

    /// Takes the next argument if it is `word`, in any case.
    pub fn accept(&mut self, word: &str) -> bool {
        let matches = self.remaining() > 0 && self.args.is(self.at, word);
        self.at += usize::from(matches);
        matches
    }

    /// Takes `word` and the value behind it; `word` as the last argument stays where it is.
    pub fn accept_with_value(&mut self, word: &str) -> Option<&'a [u8]> {
        if self.remaining() < 2 || !self.args.is(self.at, word) {
            return None;
        }
        self.at += 2;
        Some(self.args.get(self.at - 1))
    }

    /// Takes the next argument as an integer.
    ///
    /// # Errors
    /// `syntax error` at the end, `value is not an integer or out of range` otherwise.
    pub fn integer(&mut self) -> Result<i64, CommandError> {
        let text = self.next().ok_or(SYNTAX)?;
        encodings::integer::parse_i64(text).ok_or(NOT_AN_INTEGER)
    }
}

impl<'a> Iterator for Cursor<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.remaining() == 0 {
            return None;
        }
        self.at += 1;
        Some(self.args.get(self.at - 1))
    }
}
