//! The request parser: RESP arrays of bulk strings, in place and resumable.
//!
//! A request that lies whole in the input yields ranges of it; nothing is copied or allocated
//! but the ranges, whose vector the caller reuses. A request that is cut anywhere leaves its
//! state in [`Progress`] and the ranges read so far, and the next call goes on from there, so
//! that a request of a million arguments in small pieces is still read once.
//!
//! Texts and limits are Redis's (`processMultibulkBuffer`, `processInlineBuffer`).

/// The longest line: an inline request, or the header of an array or a bulk string.
pub const LINE_MAX: usize = 64 * 1024;

/// Arguments that a client may send in one request before it has authenticated.
const UNAUTHENTICATED_ARGS_MAX: i64 = 10;

/// Bytes of one argument before the client has authenticated.
const UNAUTHENTICATED_BULK_MAX: i64 = 16384;

/// Where one argument lies in the input, as a half-open range of offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgRange {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset after the last byte.
    pub end: usize,
}

/// What a connection may send at this moment.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// `proto-max-bulk-len`.
    pub bulk_max: i64,
    /// Whether the client has authenticated or need not.
    pub authenticated: bool,
}

/// A request that breaks the protocol; the connection is closed after the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// An array length that is no number, or out of range.
    MultibulkLength,
    /// A bulk length that is no number, negative, or over the limit.
    BulkLength,
    /// Too many arguments for a client that has not authenticated.
    UnauthenticatedMultibulkLength,
    /// Too long an argument for a client that has not authenticated.
    UnauthenticatedBulkLength,
    /// An array header without an end.
    MultibulkCountTooBig,
    /// A bulk header without an end.
    BulkCountTooBig,
    /// An inline request without an end.
    InlineTooBig,
    /// Another byte where `$` belongs.
    ExpectedDollar(u8),
    /// An inline request that leaves a quote open.
    UnbalancedQuotes,
}

impl ProtocolError {
    /// The text after `ERR Protocol error: `.
    pub fn text(&self) -> Vec<u8> {
        let text: &[u8] = match self {
            Self::MultibulkLength => b"invalid multibulk length",
            Self::BulkLength => b"invalid bulk length",
            Self::UnauthenticatedMultibulkLength => b"unauthenticated multibulk length",
            Self::UnauthenticatedBulkLength => b"unauthenticated bulk length",
            Self::MultibulkCountTooBig => b"too big mbulk count string",
            Self::BulkCountTooBig => b"too big bulk count string",
            Self::InlineTooBig => b"too big inline request",
            Self::ExpectedDollar(byte) => {
                return [b"expected '$', got '".as_slice(), &[*byte], b"'"].concat();
            }
            Self::UnbalancedQuotes => b"unbalanced quotes in request",
        };
        text.to_vec()
    }
}

/// How far the request at hand has been read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Arguments still to come; 0 between requests.
    remaining: usize,
    /// Length of the argument at hand, once its header has been read.
    bulk_len: Option<usize>,
}

impl Progress {
    /// Whether a request has begun.
    pub fn is_inside_request(&self) -> bool {
        self.remaining > 0
    }

    /// Bytes of the argument at hand, where its length is known; to reserve room for it.
    pub fn bulk_len(&self) -> Option<usize> {
        self.bulk_len
    }
}

/// What one call found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A whole request; its arguments have been appended.
    Request,
    /// A line that is no array: an inline request, without its line end.
    Inline(ArgRange),
    /// An empty request (`*0`, `*-1`), consumed.
    Empty,
    /// The input ends before the request does.
    NeedMore,
}

/// Reads on at `input[*at..]`, moves `at` past what it consumed, and appends the arguments that
/// it completes to `args`.
///
/// # Errors
/// [`ProtocolError`]; the connection cannot go on.
pub fn next(
    input: &[u8],
    at: &mut usize,
    progress: &mut Progress,
    args: &mut Vec<ArgRange>,
    limits: &Limits,
) -> Result<Step, ProtocolError> {
    if progress.remaining == 0 {
        match input.get(*at) {
            None => return Ok(Step::NeedMore),
            Some(b'*') => {}
            Some(_) => return inline(input, at),
        }
        progress.remaining = match short_header(input, *at, b'*') {
            Some((count @ 1..=9, after)) => {
                *at = after;
                count
            }
            _ => match array_header(input, at, limits)? {
                Some(0) => return Ok(Step::Empty),
                Some(count) => count,
                None => return Ok(Step::NeedMore),
            },
        };
    }
    let mut known_len = progress.bulk_len.take();
    for remaining in (1..=progress.remaining).rev() {
        let len = match (known_len.take(), short_header(input, *at, b'$')) {
            (Some(len), _) => Some(len),
            (None, Some((len, after))) => {
                *at = after;
                Some(len)
            }
            (None, None) => bulk_header(input, at, limits)?,
        };
        let start = *at;
        // The two bytes of the line end are skipped unread, as Redis does.
        match len {
            Some(len) if input.len() - start >= len + 2 => {
                args.push(ArgRange { start, end: start + len });
                *at = start + len + 2;
            }
            _ => {
                *progress = Progress { remaining, bulk_len: len };
                return Ok(Step::NeedMore);
            }
        }
    }
    progress.remaining = 0;
    Ok(Step::Request)
}

/// Reads a header line whose number has one digit or two, as nearly all have, and which is not the
/// end of the input. Such a number is within all limits but that on arguments before
/// authentication.
#[inline]
fn short_header(input: &[u8], at: usize, lead: u8) -> Option<(usize, usize)> {
    let &[first, a, b, c, _] = input.get(at..)?.first_chunk()?;
    let (tens, ones) = (a.wrapping_sub(b'0'), b.wrapping_sub(b'0'));
    if first != lead || tens > 9 {
        return None;
    }
    if b == b'\r' {
        return Some((usize::from(tens), at + 4));
    }
    let is_short = tens > 0 && ones <= 9 && c == b'\r';
    is_short.then_some((usize::from(tens) * 10 + usize::from(ones), at + 5))
}

/// Reads `*<count>\r\n`; `None` if the line is not whole yet. Counts below zero are as zero.
fn array_header(
    input: &[u8],
    at: &mut usize,
    limits: &Limits,
) -> Result<Option<usize>, ProtocolError> {
    let Some((count, after)) = header(input, *at + 1) else {
        return need_line(input, *at, ProtocolError::MultibulkCountTooBig);
    };
    let count = count.filter(|count| *count <= i64::from(i32::MAX));
    let count = count.ok_or(ProtocolError::MultibulkLength)?;
    if count > UNAUTHENTICATED_ARGS_MAX && !limits.authenticated {
        return Err(ProtocolError::UnauthenticatedMultibulkLength);
    }
    *at = after;
    Ok(Some(count.max(0) as usize))
}

/// Reads `$<len>\r\n`; `None` if the line is not whole yet.
fn bulk_header(
    input: &[u8],
    at: &mut usize,
    limits: &Limits,
) -> Result<Option<usize>, ProtocolError> {
    let Some(&lead) = input.get(*at) else { return Ok(None) };
    // Redis looks for the line end before it looks at the lead byte.
    let Some((len, after)) = header(input, *at + 1) else {
        return need_line(input, *at, ProtocolError::BulkCountTooBig);
    };
    if lead != b'$' {
        return Err(ProtocolError::ExpectedDollar(lead));
    }
    let len = len.filter(|len| (0..=limits.bulk_max).contains(len));
    let len = len.ok_or(ProtocolError::BulkLength)?;
    if len > UNAUTHENTICATED_BULK_MAX && !limits.authenticated {
        return Err(ProtocolError::UnauthenticatedBulkLength);
    }
    *at = after;
    Ok(Some(len as usize))
}

/// Reads the number of a header line that starts at `at`, behind its lead byte: the number, or
/// `None` for a text that is none, and the offset after the line end. `None` without a line end.
fn header(input: &[u8], at: usize) -> Option<(Option<i64>, usize)> {
    let line_end = at + memchr::memchr(b'\r', input.get(at..)?)?;
    let number = encodings::integer::parse_i64(&input[at..line_end]);
    (line_end + 1 < input.len()).then_some((number, line_end + 2))
}

/// A line has no end yet: more input may bring it, unless it is too long already.
fn need_line<T>(input: &[u8], at: usize, error: ProtocolError) -> Result<Option<T>, ProtocolError> {
    if input.len() - at > LINE_MAX { Err(error) } else { Ok(None) }
}

fn inline(input: &[u8], at: &mut usize) -> Result<Step, ProtocolError> {
    let rest = &input[*at..];
    let Some(newline) = memchr::memchr(b'\n', rest) else {
        need_line::<()>(input, *at, ProtocolError::InlineTooBig)?;
        return Ok(Step::NeedMore);
    };
    let mut end = newline;
    if end > 0 && rest[end - 1] == b'\r' {
        end -= 1;
    }
    let range = ArgRange { start: *at, end: *at + end };
    *at += newline + 1;
    Ok(Step::Inline(range))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: Limits = Limits { bulk_max: 512 << 20, authenticated: true };

    /// Feeds `input` cut at `cut` and returns all requests, or the error.
    fn parse(input: &[u8], cut: usize, limits: Limits) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
        let (mut at, mut progress, mut args) = (0, Progress::default(), Vec::new());
        let mut requests = Vec::new();
        for visible in [&input[..cut], input] {
            loop {
                match next(visible, &mut at, &mut progress, &mut args, &limits)? {
                    Step::NeedMore => break,
                    Step::Empty => {}
                    Step::Inline(line) => {
                        requests.push(vec![visible[line.start..line.end].to_vec()]);
                    }
                    Step::Request => requests.push(
                        args.drain(..).map(|arg| visible[arg.start..arg.end].to_vec()).collect(),
                    ),
                }
            }
        }
        Ok(requests)
    }

    fn check(input: &[u8], expected: &[&[&[u8]]]) {
        for cut in 0..=input.len() {
            let found = parse(input, cut, OPEN).expect("a valid request");
            assert_eq!(found, expected, "cut at {cut}");
        }
    }

    fn check_error(input: &[u8], limits: Limits, expected: &str) {
        for cut in 0..=input.len() {
            let error = parse(input, cut, limits).expect_err("a protocol error");
            assert_eq!(error.text(), expected.as_bytes(), "cut at {cut}");
        }
    }

    #[test]
    fn requests_cut_at_every_byte() {
        check(b"*1\r\n$4\r\nPING\r\n", &[&[b"PING"]]);
        check(b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n*1\r\n$1\r\nx\r\n", &[&[b"GET", b""], &[b"x"]]);
        check(b"*0\r\n*-1\r\nPING x\r\n\nq\n", &[&[b"PING x"], &[b""], &[b"q"]]);
        check(b"*1\r\n$12\r\n\r\n*1\r\n$1\r\na\r\r\n", &[&[b"\r\n*1\r\n$1\r\na\r"]]);
    }

    #[test]
    fn errors_have_redis_texts() {
        check_error(b"*3000000000\r\n", OPEN, "invalid multibulk length");
        check_error(b"*x\r\n", OPEN, "invalid multibulk length");
        check_error(b"*01\r\n", OPEN, "invalid multibulk length");
        check_error(b"*1\r\n$-10\r\n", OPEN, "invalid bulk length");
        check_error(b"*1\r\n$2000000000\r\n", OPEN, "invalid bulk length");
        check_error(b"*1\r\n$99999999999999999999\r\n", OPEN, "invalid bulk length");
        check_error(b"*1\r\nfooz\r\n", OPEN, "expected '$', got 'f'");
        let closed = Limits { authenticated: false, ..OPEN };
        check_error(b"*11\r\n", closed, "unauthenticated multibulk length");
        check_error(b"*1\r\n$16385\r\n", closed, "unauthenticated bulk length");
    }

    #[test]
    fn a_line_without_end_is_refused_at_its_limit() {
        for (lead, text) in [
            ("*", "too big mbulk count string"),
            ("*1\r\n$", "too big bulk count string"),
            ("A", "too big inline request"),
        ] {
            let mut input = lead.as_bytes().to_vec();
            assert_eq!(parse(&input, 0, OPEN), Ok(vec![]));
            input.resize(input.len() + LINE_MAX, b'1');
            let error = parse(&input, 0, OPEN).expect_err("too long a line");
            assert_eq!(error.text(), text.as_bytes());
        }
    }
}
