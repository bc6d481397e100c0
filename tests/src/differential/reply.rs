//! Replies of both protocol versions: read from bytes, kept as they are, shown as text.
//!
//! Nothing is normalised here: the three nulls stay apart, numbers stay text where the protocol
//! has text, so that two replies are equal exactly if their bytes are.

use std::fmt::{self, Display, Formatter};

/// A reply, read whole.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reply {
    /// A status line.
    Status(Vec<u8>),
    /// An error with its text.
    Error(Vec<u8>),
    /// An integer.
    Integer(i64),
    /// A bulk string.
    Bulk(Vec<u8>),
    /// No bulk string, in the form of RESP2.
    NullBulk,
    /// No array, in the form of RESP2.
    NullArray,
    /// Null of RESP3.
    Null,
    /// A scalar of RESP3 that is one line: double, boolean, big number; with its lead byte.
    Line(u8, Vec<u8>),
    /// A verbatim string or a bulk error of RESP3, with its lead byte.
    Text(u8, Vec<u8>),
    /// An array.
    Array(Vec<Reply>),
    /// A set of RESP3.
    Set(Vec<Reply>),
    /// Out-of-band data of RESP3.
    Push(Vec<Reply>),
    /// A map of RESP3.
    Map(Vec<(Reply, Reply)>),
}

/// Elements of one aggregate.
const ELEMENTS_MAX: usize = 1 << 24;

/// Bytes of one bulk string.
const BULK_MAX: usize = 1 << 30;

/// Aggregates inside aggregates.
const DEPTH_MAX: usize = 16;

/// These bytes are no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;

impl Reply {
    /// Reads the reply at the front of `bytes` and tells its length; `None` while it is cut.
    ///
    /// # Errors
    /// The bytes are no reply.
    pub fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, Invalid> {
        let mut at = 0;
        match read_at(bytes, &mut at, 0) {
            Ok(reply) => Ok(Some((reply, at))),
            Err(Stop::Cut) => Ok(None),
            Err(Stop::Invalid) => Err(Invalid),
        }
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_) | Self::Text(b'!', _))
    }

    /// Whether it is a null of any kind.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null | Self::NullBulk | Self::NullArray)
    }

    /// The integer that it is.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The bytes of a scalar, as a client would take them for an argument.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Status(text) | Self::Bulk(text) | Self::Line(_, text) | Self::Text(_, text) => {
                Some(text.clone())
            }
            Self::Integer(value) => Some(value.to_string().into_bytes()),
            _ => None,
        }
    }

    /// The elements of an array, set or push.
    pub fn elements(&self) -> Option<&[Reply]> {
        match self {
            Self::Array(elements) | Self::Set(elements) | Self::Push(elements) => Some(elements),
            _ => None,
        }
    }

    /// All scalars in it, in order; those of a map alternate.
    pub fn scalars(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Array(elements) | Self::Set(elements) | Self::Push(elements) => {
                elements.iter().flat_map(Self::scalars).collect()
            }
            Self::Map(pairs) => pairs
                .iter()
                .flat_map(|(name, value)| [name, value])
                .flat_map(Self::scalars)
                .collect(),
            scalar => scalar.bytes().into_iter().collect(),
        }
    }

    /// What kind of reply it is, in one word.
    pub fn kind(&self) -> String {
        match self {
            Self::Status(_) => "status".to_owned(),
            Self::Error(_) => "error".to_owned(),
            Self::Integer(_) => "integer".to_owned(),
            Self::Bulk(_) => "bulk".to_owned(),
            Self::NullBulk | Self::NullArray | Self::Null => "null".to_owned(),
            Self::Line(lead, _) | Self::Text(lead, _) => format!("'{}'", char::from(*lead)),
            Self::Array(_) => "array".to_owned(),
            Self::Set(_) => "set".to_owned(),
            Self::Push(_) => "push".to_owned(),
            Self::Map(_) => "map".to_owned(),
        }
    }
}

/// Why reading stopped.
enum Stop {
    Cut,
    Invalid,
}

fn read_at(bytes: &[u8], at: &mut usize, depth: usize) -> Result<Reply, Stop> {
    if depth > DEPTH_MAX {
        return Err(Stop::Invalid);
    }
    let (lead, line) = line(bytes, at)?;
    Ok(match lead {
        b'+' => Reply::Status(line.to_vec()),
        b'-' => Reply::Error(line.to_vec()),
        b':' => Reply::Integer(number(line)?),
        b',' | b'#' | b'(' => Reply::Line(lead, line.to_vec()),
        b'_' => Reply::Null,
        b'$' if line == b"-1" => Reply::NullBulk,
        b'*' if line == b"-1" => Reply::NullArray,
        b'$' => Reply::Bulk(data(bytes, at, length(line, BULK_MAX)?)?),
        b'=' | b'!' => Reply::Text(lead, data(bytes, at, length(line, BULK_MAX)?)?),
        b'*' | b'~' | b'>' => {
            let count = length(line, ELEMENTS_MAX)?;
            let elements = (0..count).map(|_| read_at(bytes, at, depth + 1));
            let elements = elements.collect::<Result<_, _>>()?;
            match lead {
                b'*' => Reply::Array(elements),
                b'~' => Reply::Set(elements),
                _ => Reply::Push(elements),
            }
        }
        b'%' => {
            let count = length(line, ELEMENTS_MAX)?;
            let mut pair = || Ok((read_at(bytes, at, depth + 1)?, read_at(bytes, at, depth + 1)?));
            Reply::Map((0..count).map(|_| pair()).collect::<Result<_, _>>()?)
        }
        _ => return Err(Stop::Invalid),
    })
}

/// The lead byte and the rest of a line; `at` moves behind its end.
fn line<'a>(bytes: &'a [u8], at: &mut usize) -> Result<(u8, &'a [u8]), Stop> {
    let rest = bytes.get(*at..).ok_or(Stop::Cut)?;
    let (lead, rest) = rest.split_first().ok_or(Stop::Cut)?;
    let end = rest.iter().position(|byte| *byte == b'\r').ok_or(Stop::Cut)?;
    match rest.get(end + 1) {
        None => Err(Stop::Cut),
        Some(b'\n') => {
            *at += 1 + end + 2;
            Ok((*lead, &rest[..end]))
        }
        Some(_) => Err(Stop::Invalid),
    }
}

fn data(bytes: &[u8], at: &mut usize, len: usize) -> Result<Vec<u8>, Stop> {
    let with_end = bytes.get(*at..*at + len + 2).ok_or(Stop::Cut)?;
    if &with_end[len..] != b"\r\n" {
        return Err(Stop::Invalid);
    }
    *at += len + 2;
    Ok(with_end[..len].to_vec())
}

fn number(line: &[u8]) -> Result<i64, Stop> {
    let text = std::str::from_utf8(line).map_err(|_| Stop::Invalid)?;
    text.parse().map_err(|_| Stop::Invalid)
}

fn length(line: &[u8], max: usize) -> Result<usize, Stop> {
    let length = usize::try_from(number(line)?).map_err(|_| Stop::Invalid)?;
    if length > max { Err(Stop::Invalid) } else { Ok(length) }
}

/// Appends a request of these words.
pub fn render(words: &[Vec<u8>], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// A word as redis-cli takes it: bare where that is safe, else in quotes with escapes.
pub fn quoted(word: &[u8]) -> String {
    let bare = |byte: &u8| byte.is_ascii_graphic() && !b"\"'\\".contains(byte);
    if !word.is_empty() && word.iter().all(bare) {
        return String::from_utf8_lossy(word).into_owned();
    }
    let mut text = String::from("\"");
    for byte in word {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => text.push(char::from(*byte)),
            other => text.push_str(&format!("\\x{other:02x}")),
        }
    }
    text.push('"');
    text
}

/// Words as a line that redis-cli takes.
pub fn line_of(words: &[Vec<u8>]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

impl Display for Reply {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let list = |out: &mut Formatter<'_>, ends: [&str; 2], elements: &[Reply]| {
            let texts: Vec<String> = elements.iter().map(Reply::to_string).collect();
            write!(out, "{}{}{}", ends[0], texts.join(", "), ends[1])
        };
        match self {
            Self::Status(text) => write!(out, "+{}", quoted(text)),
            Self::Error(text) => write!(out, "-{}", String::from_utf8_lossy(text)),
            Self::Integer(value) => write!(out, ":{value}"),
            Self::Bulk(text) => write!(out, "{}", quoted(text)),
            Self::NullBulk => write!(out, "(null bulk)"),
            Self::NullArray => write!(out, "(null array)"),
            Self::Null => write!(out, "(null)"),
            Self::Line(lead, text) => {
                write!(out, "{}{}", char::from(*lead), String::from_utf8_lossy(text))
            }
            Self::Text(lead, text) => write!(out, "{}{}", char::from(*lead), quoted(text)),
            Self::Array(elements) => list(out, ["[", "]"], elements),
            Self::Set(elements) => list(out, ["~[", "]"], elements),
            Self::Push(elements) => list(out, [">[", "]"], elements),
            Self::Map(pairs) => {
                let text = |(name, value): &(Reply, Reply)| format!("{name}: {value}");
                let texts: Vec<String> = pairs.iter().map(text).collect();
                write!(out, "{{{}}}", texts.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], shown: &str) {
        let (reply, len) = Reply::read(bytes).expect("a reply").expect("a whole reply");
        assert_eq!(len, bytes.len());
        assert_eq!(reply.to_string(), shown);
        for cut in 0..bytes.len() {
            assert_eq!(Reply::read(&bytes[..cut]), Ok(None), "cut at {cut}");
        }
    }

    #[test]
    fn replies_of_both_versions_are_read_and_shown() {
        check(b"+OK\r\n", "+OK");
        check(b"-ERR no\r\n", "-ERR no");
        check(b":-12\r\n", ":-12");
        check(b"$-1\r\n", "(null bulk)");
        check(b"*-1\r\n", "(null array)");
        check(b"_\r\n", "(null)");
        check(b"$4\r\na\r\nb\r\n", "\"a\\x0d\\x0ab\"");
        check(b"$0\r\n\r\n", "\"\"");
        check(b",3.25\r\n", ",3.25");
        check(b"=7\r\ntxt:abc\r\n", "=txt:abc");
        check(b"*2\r\n:1\r\n*1\r\n$1\r\na\r\n", "[:1, [a]]");
        check(b"~1\r\n+a\r\n", "~[+a]");
        check(b"%1\r\n$1\r\nk\r\n#t\r\n", "{k: #t}");
    }

    #[test]
    fn what_is_no_reply_is_found_out() {
        for bytes in [
            &b"?\r\n"[..],
            b"$x\r\n",
            b"\r\n\r\n",
            b"$-2\r\n",
            b"+OK\rx",
            b"*99999999999\r\n",
            b"$1\r\nabc",
        ] {
            assert_eq!(Reply::read(bytes), Err(Invalid), "{bytes:?}");
        }
        let deep = b"*1\r\n".repeat(100);
        assert_eq!(Reply::read(&deep), Err(Invalid));
    }

    #[test]
    fn words_are_quoted_as_redis_cli_takes_them() {
        assert_eq!(quoted(b"abc-1"), "abc-1");
        assert_eq!(quoted(b""), "\"\"");
        assert_eq!(quoted(b"a \"b\\\x00"), "\"a \\\"b\\\\\\x00\"");
    }
}
