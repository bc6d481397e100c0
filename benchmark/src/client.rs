//! A plain blocking client: one request and its reply, or many in a pipeline.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::wire::{self, Measured, Reply};
use crate::{Error, Result};

/// Time without a byte after which a server counts as dead; FLUSHALL of millions of keys is
/// faster than this on all of them.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// Bytes of requests that [`Pipeline`] sends at once.
const BATCH_LEN: usize = 32 * 1024;

/// A connection to a server.
pub struct Client {
    label: String,
    stream: TcpStream,
    /// Bytes received, of which the first `used` have been handed out.
    received: Vec<u8>,
    used: usize,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn connect(label: &str, address: SocketAddr) -> Result<Self> {
        let connect = || -> std::io::Result<TcpStream> {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(SILENCE_MAX))?;
            Ok(stream)
        };
        let stream = connect().map_err(Error::io(format!("{label}: connect to {address}")))?;
        Ok(Self { label: label.to_owned(), stream, received: Vec::new(), used: 0 })
    }

    /// Sends one request and waits for its reply, which may be an error reply.
    ///
    /// # Errors
    /// The connection failed, or the bytes are no RESP.
    pub fn call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Reply> {
        let raw = self.call_raw(words)?;
        wire::read(&raw).ok_or_else(|| self.not_resp())
    }

    /// As [`Client::call`], for a request written as words with spaces between them.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn call_line(&mut self, line: &str) -> Result<Reply> {
        let words: Vec<&str> = line.split(' ').collect();
        self.call(&words)
    }

    /// As [`Client::call`], with the reply's bytes as they came.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn call_raw<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Vec<u8>> {
        let mut request = Vec::new();
        wire::render(words, &mut request);
        self.send(&request)?;
        self.receive(|raw, _| raw.to_vec())
    }

    /// A field of INFO as a number; `None` where the server does not have it.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn info(&mut self, section: &str, field: &str) -> Result<Option<f64>> {
        let reply = self.call(&["INFO", section])?;
        Ok(info_text(&reply, field).and_then(|value| value.parse().ok()))
    }

    /// Sends requests without waiting for each reply.
    pub fn pipeline(&mut self) -> Pipeline<'_> {
        Pipeline { client: self, requests: Vec::new(), waiting: 0, outcome: Filled::default() }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).map_err(Error::io(format!("{}: send", self.label)))
    }

    /// Waits for one reply and hands its bytes, and whether it is an error, to `look`.
    fn receive<T>(&mut self, look: impl FnOnce(&[u8], bool) -> T) -> Result<T> {
        loop {
            match wire::measure(&self.received[self.used..]) {
                Measured::Whole { len, is_error } => {
                    let raw = &self.received[self.used..self.used + len];
                    self.used += len;
                    return Ok(look(raw, is_error));
                }
                Measured::Invalid => return Err(self.not_resp()),
                Measured::Partial => self.fill()?,
            }
        }
    }

    fn fill(&mut self) -> Result<()> {
        self.received.drain(..self.used);
        self.used = 0;
        let start = self.received.len();
        self.received.resize(start + 64 * 1024, 0);
        let result = self.stream.read(&mut self.received[start..]);
        let len = result.map_err(Error::io(format!("{}: receive", self.label)))?;
        self.received.truncate(start + len);
        if len == 0 {
            return Err(Error::server(&self.label, "closed the connection"));
        }
        Ok(())
    }

    fn not_resp(&self) -> Error {
        Error::server(&self.label, "sent bytes that are no reply")
    }
}

/// Value of a field in the text of INFO.
pub fn info_text(reply: &Reply, field: &str) -> Option<String> {
    let Reply::Bulk(bytes) = reply else { return None };
    let text = String::from_utf8_lossy(bytes);
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| *name == field)
        .map(|(_, value)| value.trim().to_owned())
}

/// What became of a pipeline.
#[derive(Clone, Debug, Default)]
pub struct Filled {
    /// Replies received.
    pub replies: u64,
    /// Replies that are errors.
    pub errors: u64,
    /// The text of the first of them.
    pub first_error: Option<String>,
}

/// Requests on their way; see [`Client::pipeline`].
pub struct Pipeline<'a> {
    client: &'a mut Client,
    requests: Vec<u8>,
    waiting: usize,
    outcome: Filled,
}

impl Pipeline<'_> {
    /// Adds a request.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn push<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<()> {
        wire::render(words, &mut self.requests);
        self.waiting += 1;
        if self.requests.len() >= BATCH_LEN { self.exchange() } else { Ok(()) }
    }

    /// Waits for the rest.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn finish(mut self) -> Result<Filled> {
        self.exchange()?;
        Ok(self.outcome)
    }

    fn exchange(&mut self) -> Result<()> {
        self.client.send(&self.requests)?;
        self.requests.clear();
        for _ in 0..std::mem::take(&mut self.waiting) {
            let error = self.client.receive(|raw, is_error| {
                is_error.then(|| String::from_utf8_lossy(raw).trim().to_owned())
            })?;
            self.outcome.replies += 1;
            if let Some(text) = error {
                self.outcome.errors += 1;
                self.outcome.first_error.get_or_insert(text);
            }
        }
        Ok(())
    }
}
