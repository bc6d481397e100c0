//! A server under test: started from a command line, spoken to, ended.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::differential::patience::Patience;
use crate::differential::reply::{Reply, render};

/// Time that a server has to answer its first PING.
const START_MAX: Duration = Duration::from_secs(20);

/// Time that a server has for an answer.
pub const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Bytes that are read at once.
const READ_LEN: usize = 64 * 1024;

/// How to start a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Its name in reports.
    pub label: String,
    /// The program and its arguments, with `{port}` and `{folder}`.
    pub words: Vec<String>,
}

impl Recipe {
    /// Reads `label=command line`. Words end at blanks; `""` is an empty one.
    ///
    /// # Errors
    /// What the text lacks.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some((label, line)) = text.split_once('=') else {
            return Err(format!("`{text}` is not label=command line"));
        };
        let word = |word: &str| if word == "\"\"" { String::new() } else { word.to_owned() };
        let words: Vec<String> = line.split_whitespace().map(word).collect();
        if label.is_empty() || words.is_empty() {
            return Err(format!("`{text}` lacks a label or a command"));
        }
        if !words.iter().any(|word| word.contains("{port}")) {
            return Err(format!("`{line}` must have {{port}} for the port to use"));
        }
        Ok(Self { label: label.to_owned(), words })
    }
}

/// A server that runs. It is ended when this is dropped.
#[derive(Debug)]
pub struct Server {
    port: u16,
    child: Child,
    folder: PathBuf,
}

impl Server {
    /// Starts it at this port, or at any that is free, and waits until it answers.
    ///
    /// # Errors
    /// It cannot be run, ends at once, or does not answer in time; the text has its last words.
    pub fn start(recipe: &Recipe, port: Option<u16>) -> Result<Self, String> {
        let failed = |what: &str, error: io::Error| format!("{}: {what}: {error}", recipe.label);
        let port = match port {
            Some(port) => port,
            None => free_port().map_err(|error| failed("find a free port", error))?,
        };
        let name = format!("osmia-differential-{}-{port}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).map_err(|error| failed("make a folder", error))?;
        let child = spawn(recipe, port, &folder).map_err(|error| failed("run it", error))?;
        let mut server = Self { port, child, folder };
        server.wait_until_ready().map_err(|text| format!("{}: {text}", recipe.label))?;
        Ok(server)
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// The server is gone.
    pub fn connect(&self) -> io::Result<Connection> {
        Connection::open(self.port)
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let patience = Patience::of(START_MAX);
        let pong = Reply::Status(b"PONG".to_vec());
        loop {
            let answer = self.connect().and_then(|mut connection| connection.call(&["PING"]));
            // Another server at the port would answer too, while the child has ended.
            let has_ended = self.child.try_wait().is_ok_and(|status| status.is_some());
            if answer.is_ok_and(|answer| answer == pong) && !has_ended {
                return Ok(());
            }
            if has_ended || patience.is_over() {
                return Err(format!("does not answer: {}", self.last_words()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Ends the process.
    ///
    /// # Errors
    /// It has ended before.
    pub fn end(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(|_| ())
    }

    /// The end of what it printed.
    pub fn last_words(&self) -> String {
        let text = fs::read(self.folder.join("log")).unwrap_or_default();
        let start = text.len().saturating_sub(800);
        String::from_utf8_lossy(&text[start..]).trim().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has no data to save, and may be stuck or have ended.
        let _ = self.end();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn spawn(recipe: &Recipe, port: u16, folder: &Path) -> io::Result<Child> {
    let fill = |word: &String| {
        word.replace("{port}", &port.to_string()).replace("{folder}", &folder.display().to_string())
    };
    let words: Vec<String> = recipe.words.iter().map(fill).collect();
    // A program by path stays the same in another folder; one by name is looked up as usual.
    let program = match words[0].contains('/') {
        true => fs::canonicalize(&words[0])?,
        false => PathBuf::from(&words[0]),
    };
    let log = File::create(folder.join("log"))?;
    Command::new(program)
        .args(&words[1..])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
}

/// A port that was free a moment ago.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// A connection whose replies are waited for [`ANSWER_MAX`].
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    bytes: Vec<u8>,
    /// Where in `bytes` the next reply begins.
    at: usize,
}

impl Connection {
    /// Connects to a port of this machine.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn open(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(ANSWER_MAX))?;
        Ok(Self { stream, bytes: Vec::new(), at: 0 })
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// The server is gone or takes nothing.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends one command.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_words(&mut self, words: &[Vec<u8>]) -> io::Result<()> {
        let mut bytes = Vec::new();
        render(words, &mut bytes);
        self.send(&bytes)
    }

    /// Sends one command and waits for its reply.
    ///
    /// # Errors
    /// As [`Self::send`] and [`Self::receive`].
    pub fn call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> io::Result<Reply> {
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_ref().to_vec()).collect();
        self.send_words(&words)?;
        self.receive()
    }

    /// Sends commands together and waits for their replies.
    ///
    /// # Errors
    /// As [`Self::send`] and [`Self::receive`].
    pub fn call_all(&mut self, commands: &[Vec<Vec<u8>>]) -> io::Result<Vec<Reply>> {
        let mut bytes = Vec::new();
        commands.iter().for_each(|words| render(words, &mut bytes));
        self.send(&bytes)?;
        commands.iter().map(|_| self.receive()).collect()
    }

    /// Waits for the next reply.
    ///
    /// # Errors
    /// `TimedOut` if none comes; or the connection is closed, or the bytes are no reply.
    pub fn receive(&mut self) -> io::Result<Reply> {
        self.receive_within(ANSWER_MAX)?.ok_or_else(|| ErrorKind::TimedOut.into())
    }

    /// Waits this long for the next reply.
    ///
    /// # Errors
    /// The connection is closed, or the bytes are no reply.
    pub fn receive_within(&mut self, time: Duration) -> io::Result<Option<Reply>> {
        let patience = Patience::of(time);
        loop {
            match Reply::read(&self.bytes[self.at..]) {
                Ok(Some((reply, len))) => {
                    self.at += len;
                    return Ok(Some(reply));
                }
                Ok(None) => {}
                Err(_) => return Err(io::Error::new(ErrorKind::InvalidData, self.oddity())),
            }
            self.bytes.drain(..self.at);
            self.at = 0;
            let left = patience.left();
            if left.is_zero() || !self.read_more(left)? {
                return Ok(None);
            }
        }
    }

    /// Reads what is there; false if nothing comes in time.
    fn read_more(&mut self, time: Duration) -> io::Result<bool> {
        self.stream.set_read_timeout(Some(time))?;
        let len = self.bytes.len();
        self.bytes.resize(len + READ_LEN, 0);
        let read = self.stream.read(&mut self.bytes[len..]);
        self.bytes.truncate(len + read.as_ref().map_or(0, |read| *read));
        match read {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Ok(false)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn oddity(&self) -> String {
        let rest = &self.bytes[self.at..];
        format!(
            "these bytes are no reply: {:?}",
            String::from_utf8_lossy(&rest[..rest.len().min(60)])
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_given_as_label_and_command() {
        let recipe = Recipe::parse("x=/some/server --port {port} --save \"\"").expect("a recipe");
        assert_eq!(recipe.label, "x");
        assert_eq!(recipe.words, ["/some/server", "--port", "{port}", "--save", ""]);
        for wrong in ["server", "=a {port}", "x=", "x=server"] {
            assert!(Recipe::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_server_that_ends_at_once_is_reported_with_its_last_words() {
        let recipe = Recipe::parse("x=ls /nothing-{port}").expect("a recipe");
        let text = Server::start(&recipe, None).expect_err("ls is no server");
        assert!(text.contains("nothing-"), "{text}");
    }
}
