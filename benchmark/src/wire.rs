//! RESP from the client's side: render requests, find the end of replies, read simple ones.
//!
//! The load generator only has to know where a reply ends and whether it is an error, so
//! [`measure`] walks a reply without building anything. [`Reply`] is for set-up and checks.

/// What [`measure`] found at the front of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// A whole reply of this many bytes.
    Whole {
        /// Bytes of the reply.
        len: usize,
        /// It is an error, or has one inside (EXEC).
        is_error: bool,
    },
    /// The reply goes on in bytes not yet here.
    Partial,
    /// These bytes are no reply.
    Invalid,
}

/// A reply, read whole.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A status, or any one-line scalar other than an integer.
    Status(String),
    /// An error with its text, without the lead byte.
    Error(String),
    /// An integer.
    Integer(i64),
    /// A bulk string.
    Bulk(Vec<u8>),
    /// Null of any kind.
    Null,
    /// An aggregate of any kind; maps are flat.
    Array(Vec<Reply>),
}

/// Elements of nested aggregates that a reply may have.
const ELEMENTS_MAX: usize = 1 << 24;

/// Finds the length of the reply at the front of `bytes`. Attributes and streamed aggregates do
/// not occur: nobody asks for them.
pub fn measure(bytes: &[u8]) -> Measured {
    let mut at = 0;
    let mut left = 1;
    let mut is_error = false;
    while left > 0 {
        let Some((lead, line, next)) = line(&bytes[at..]) else {
            return partial_or_invalid(&bytes[at..]);
        };
        at += next;
        left -= 1;
        match lead {
            b'+' | b':' | b',' | b'(' | b'#' | b'_' => {}
            b'-' => is_error = true,
            b'$' | b'=' | b'!' => {
                is_error |= lead == b'!';
                match number(line) {
                    Some(-1) => {}
                    Some(len @ 0..) => at += len as usize + 2,
                    _ => return Measured::Invalid,
                }
                if at > bytes.len() {
                    return Measured::Partial;
                }
            }
            b'*' | b'~' | b'>' | b'%' => {
                let pairs = if lead == b'%' { 2 } else { 1 };
                match number(line) {
                    Some(-1) => {}
                    Some(count @ 0..) if (count as usize) < ELEMENTS_MAX => {
                        left += count as usize * pairs;
                    }
                    _ => return Measured::Invalid,
                }
            }
            _ => return Measured::Invalid,
        }
    }
    Measured::Whole { len: at, is_error }
}

/// Reads the reply that `measure` found whole in exactly these bytes; `None` if it is none.
pub fn read(bytes: &[u8]) -> Option<Reply> {
    read_at(bytes, &mut 0)
}

fn read_at(bytes: &[u8], at: &mut usize) -> Option<Reply> {
    let (lead, line, next) = line(bytes.get(*at..)?)?;
    *at += next;
    let text = || String::from_utf8_lossy(line).into_owned();
    Some(match lead {
        b'+' | b',' | b'(' | b'#' => Reply::Status(text()),
        b'-' => Reply::Error(text()),
        b':' => Reply::Integer(number(line)?),
        b'_' => Reply::Null,
        b'$' | b'=' | b'!' => {
            let Ok(len) = usize::try_from(number(line)?) else { return Some(Reply::Null) };
            let data = bytes.get(*at..*at + len)?;
            *at += len + 2;
            match lead {
                b'!' => Reply::Error(String::from_utf8_lossy(data).into_owned()),
                _ => Reply::Bulk(data.to_vec()),
            }
        }
        b'*' | b'~' | b'>' | b'%' => {
            let Ok(count) = usize::try_from(number(line)?) else { return Some(Reply::Null) };
            let count = if lead == b'%' { count * 2 } else { count };
            let elements: Option<Vec<_>> = (0..count).map(|_| read_at(bytes, at)).collect();
            Reply::Array(elements?)
        }
        _ => return None,
    })
}

/// The lead byte, the rest of the first line, and where the next one begins.
fn line(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let end = memchr::memchr(b'\r', bytes)?;
    if end == 0 || bytes.get(end + 1) != Some(&b'\n') {
        return None;
    }
    Some((bytes[0], &bytes[1..end], end + 2))
}

/// Longest first line that is waited for: error texts are short, lengths shorter.
const LINE_LEN_MAX: usize = 64 * 1024;

fn partial_or_invalid(bytes: &[u8]) -> Measured {
    let lead_is_known = bytes.first().is_none_or(|lead| b"+-:,(#_$=!*~>%".contains(lead));
    let line_is_open = match memchr::memchr(b'\r', bytes) {
        None => bytes.len() < LINE_LEN_MAX,
        Some(end) => end > 0 && end + 1 == bytes.len(),
    };
    if lead_is_known && line_is_open { Measured::Partial } else { Measured::Invalid }
}

fn number(digits: &[u8]) -> Option<i64> {
    let (negative, digits) = match digits.split_first()? {
        (b'-', rest) => (true, rest),
        _ => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value: i64 = 0;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(i64::from(digit))?;
    }
    Some(if negative { -value } else { value })
}

/// Appends a request of these words.
pub fn render<W: AsRef<[u8]>>(words: &[W], out: &mut Vec<u8>) {
    push_count(b'*', words.len(), out);
    for word in words {
        let word = word.as_ref();
        push_count(b'$', word.len(), out);
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// A lead byte, a number and the line's end. Loads of millions of keys pass here, so without the
/// detour of formatting.
fn push_count(lead: u8, mut count: usize, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (count % 10) as u8;
        count /= 10;
        if count == 0 {
            break;
        }
    }
    out.push(lead);
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], is_error: bool, reply: Reply) {
        let mut more = bytes.to_vec();
        more.extend_from_slice(b"+next\r\n");
        assert_eq!(measure(&more), Measured::Whole { len: bytes.len(), is_error });
        assert_eq!(read(bytes), Some(reply));
        for cut in 0..bytes.len() {
            assert_eq!(measure(&bytes[..cut]), Measured::Partial, "cut at {cut}");
        }
    }

    #[test]
    fn replies_are_measured_and_read() {
        check(b"+OK\r\n", false, Reply::Status("OK".to_owned()));
        check(b"-ERR no\r\n", true, Reply::Error("ERR no".to_owned()));
        check(b":-12\r\n", false, Reply::Integer(-12));
        check(b"$-1\r\n", false, Reply::Null);
        check(b"_\r\n", false, Reply::Null);
        check(b"$4\r\na\r\nb\r\n", false, Reply::Bulk(b"a\r\nb".to_vec()));
        check(b"$0\r\n\r\n", false, Reply::Bulk(Vec::new()));
        check(b"*0\r\n", false, Reply::Array(Vec::new()));
        let nested = b"*3\r\n:1\r\n*2\r\n$1\r\na\r\n-ERR x\r\n$-1\r\n";
        let inner = Reply::Array(vec![Reply::Bulk(b"a".to_vec()), Reply::Error("ERR x".into())]);
        check(nested, true, Reply::Array(vec![Reply::Integer(1), inner, Reply::Null]));
        let map = b"%1\r\n+k\r\n#t\r\n";
        let flat = vec![Reply::Status("k".to_owned()), Reply::Status("t".to_owned())];
        check(map, false, Reply::Array(flat));
    }

    #[test]
    fn what_is_no_reply_is_found_out() {
        for bytes in [&b"?\r\n"[..], b"$x\r\n", b"\r\n", b"$-2\r\n", b"+OK\rx", b"*99999999999\r\n"]
        {
            assert_eq!(measure(bytes), Measured::Invalid, "{bytes:?}");
        }
    }

    #[test]
    fn requests_are_rendered() {
        let mut out = Vec::new();
        render(&["GET", "k"], &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
        out.clear();
        render(&["x".repeat(1020)], &mut out);
        assert!(out.starts_with(b"*1\r\n$1020\r\nxx"));
    }
}
