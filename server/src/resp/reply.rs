//! The reply builder: the one place where reply bytes are made.
//!
//! Handlers say what they answer (a map, a null array, a double) and the builder writes the form
//! of the client's protocol version, so that no command can get a shape wrong on one path only.

/// The protocol version that a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, the default of a connection.
    #[default]
    Resp2,
    /// RESP3, after `HELLO 3`.
    Resp3,
}

impl Protocol {
    /// The first byte of a message that answers no command.
    pub fn push_lead(self) -> u8 {
        match self {
            Self::Resp2 => b'*',
            Self::Resp3 => b'>',
        }
    }
}

/// Replies under construction, in wire form.
#[derive(Debug, Default)]
pub struct Reply {
    bytes: Vec<u8>,
    protocol: Protocol,
}

/// Where an aggregate whose length is not known yet begins.
#[derive(Clone, Copy, Debug)]
pub struct Deferred(usize);

impl Reply {
    /// Continues the replies in `bytes`.
    pub fn new(bytes: Vec<u8>, protocol: Protocol) -> Self {
        Self { bytes, protocol }
    }

    /// The bytes so far.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing has been answered.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes back everything after the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    /// The bytes from `start` on.
    pub fn since(&self, start: usize) -> &[u8] {
        &self.bytes[start..]
    }

    /// The protocol version in force.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Changes the version from the next reply on (HELLO).
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Appends replies that are in wire form already (from another shard, say).
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A status such as `OK`, without line ends in it.
    pub fn status(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// `+OK`.
    pub fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    /// An error with its code, `ERR syntax error` say. Line ends in it become spaces.
    pub fn error(&mut self, text: &[u8]) {
        self.bytes.push(b'-');
        self.bytes.extend(text.iter().map(|byte| match byte {
            b'\r' | b'\n' => b' ',
            other => *other,
        }));
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// An integer.
    pub fn integer(&mut self, value: i64) {
        self.header(b':', value);
    }

    /// A count, as an integer.
    pub fn count(&mut self, value: usize) {
        self.integer(value as i64);
    }

    /// A bulk string.
    #[inline]
    pub fn bulk(&mut self, value: &[u8]) {
        self.bytes.reserve(value.len() + 32);
        self.header(b'$', value.len() as i64);
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// An integer as a bulk string.
    pub fn bulk_integer(&mut self, value: i64) {
        let mut digits = itoa::Buffer::new();
        self.bulk(digits.format(value).as_bytes());
    }

    /// The null of a missing string.
    pub fn null(&mut self) {
        self.bytes.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// The null of a missing array.
    pub fn null_array(&mut self) {
        self.bytes.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// An array; its `len` elements follow.
    pub fn array(&mut self, len: usize) {
        self.header(b'*', len as i64);
    }

    /// A map; its `len` pairs follow. RESP2 has a flat array.
    pub fn map(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', 2 * len as i64),
            Protocol::Resp3 => self.header(b'%', len as i64),
        }
    }

    /// A set; its `len` members follow. RESP2 has an array.
    pub fn set(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', len as i64),
            Protocol::Resp3 => self.header(b'~', len as i64),
        }
    }

    /// A message that answers no command; its `len` elements follow. RESP2 has an array.
    pub fn push(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', len as i64),
            Protocol::Resp3 => self.header(b'>', len as i64),
        }
    }

    /// Attributes of the reply that follows them, as a map of `len` pairs. RESP3 only.
    pub fn attributes(&mut self, len: usize) {
        self.header(b'|', len as i64);
    }

    /// A truth value; an integer in RESP2.
    pub fn boolean(&mut self, value: bool) {
        match self.protocol {
            Protocol::Resp2 => self.integer(i64::from(value)),
            Protocol::Resp3 => {
                self.bytes.extend_from_slice(if value { b"#t\r\n" } else { b"#f\r\n" })
            }
        }
    }

    /// A double in Redis's text; a bulk string in RESP2.
    pub fn double(&mut self, value: f64) {
        let text = encodings::double::format(value);
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => self.line(b',', text.as_bytes()),
        }
    }

    /// An integer of any size by its digits; a bulk string in RESP2.
    pub fn big_number(&mut self, digits: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits.as_bytes()),
            Protocol::Resp3 => self.line(b'(', digits.as_bytes()),
        }
    }

    /// Text with its three-letter format (`txt`, `mkd`); a bulk string in RESP2.
    pub fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.header(b'=', text.len() as i64 + 4);
                self.bytes.extend_from_slice(format);
                self.bytes.push(b':');
                self.bytes.extend_from_slice(text);
                self.bytes.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Lines of help, as an array of statuses.
    pub fn lines(&mut self, lines: &[&str]) {
        self.array(lines.len());
        lines.iter().for_each(|line| self.status(line));
    }

    /// Begins an aggregate whose length [`Reply::finish_array`] will tell.
    pub fn defer(&mut self) -> Deferred {
        Deferred(self.bytes.len())
    }

    /// Gives the array begun at `start` its length.
    pub fn finish_array(&mut self, start: Deferred, len: usize) {
        self.finish(start, b'*', len as i64);
    }

    /// Gives the map begun at `start` its number of pairs.
    pub fn finish_map(&mut self, start: Deferred, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.finish(start, b'*', 2 * len as i64),
            Protocol::Resp3 => self.finish(start, b'%', len as i64),
        }
    }

    fn finish(&mut self, start: Deferred, lead: u8, len: i64) {
        let end = self.bytes.len();
        self.header(lead, len);
        let header_len = self.bytes.len() - end;
        self.bytes[start.0..].rotate_right(header_len);
    }

    fn line(&mut self, lead: u8, text: &[u8]) {
        self.bytes.push(lead);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn header(&mut self, lead: u8, value: i64) {
        // Nearly all numbers have one digit or two.
        if (0..10).contains(&value) {
            self.bytes.extend_from_slice(&[lead, b'0' + value as u8, b'\r', b'\n']);
            return;
        }
        if (10..100).contains(&value) {
            let (tens, ones) = (value as u8 / 10, value as u8 % 10);
            self.bytes.extend_from_slice(&[lead, b'0' + tens, b'0' + ones, b'\r', b'\n']);
            return;
        }
        let mut digits = itoa::Buffer::new();
        self.line(lead, digits.format(value).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(build: impl Fn(&mut Reply), resp2: &str, resp3: &str) {
        for (protocol, expected) in [(Protocol::Resp2, resp2), (Protocol::Resp3, resp3)] {
            let mut reply = Reply::new(Vec::new(), protocol);
            build(&mut reply);
            assert_eq!(String::from_utf8_lossy(&reply.into_bytes()), expected);
        }
    }

    #[test]
    fn shapes() {
        check(|r| r.ok(), "+OK\r\n", "+OK\r\n");
        check(|r| r.error(b"ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n");
        check(|r| r.integer(-12), ":-12\r\n", ":-12\r\n");
        check(|r| r.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n");
        check(|r| r.bulk_integer(100), "$3\r\n100\r\n", "$3\r\n100\r\n");
        check(|r| r.null(), "$-1\r\n", "_\r\n");
        check(|r| r.null_array(), "*-1\r\n", "_\r\n");
        check(|r| r.map(2), "*4\r\n", "%2\r\n");
        check(|r| r.set(2), "*2\r\n", "~2\r\n");
        check(|r| r.push(12), "*12\r\n", ">12\r\n");
        check(|r| r.boolean(true), ":1\r\n", "#t\r\n");
        check(|r| r.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n");
        check(|r| r.big_number("123"), "$3\r\n123\r\n", "(123\r\n");
        check(|r| r.verbatim(b"txt", b"hi"), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n");
    }

    #[test]
    fn deferred_lengths() {
        check(
            |reply| {
                let start = reply.defer();
                (0..11).for_each(|value| reply.integer(value % 10));
                reply.finish_array(start, 11);
            },
            "*11\r\n:0\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n:7\r\n:8\r\n:9\r\n:0\r\n",
            "*11\r\n:0\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n:7\r\n:8\r\n:9\r\n:0\r\n",
        );
    }
}
