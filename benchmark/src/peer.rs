//! A server under measurement: started from a command line, watched, ended.
//!
//! A server is given as `label=command line`. The words are split as a shell splits them (quotes
//! and backslashes, no expansion), `{port}` becomes a free port and `{folder}` an empty folder,
//! in which the server also starts. Nothing is run by a shell, so the process that is measured is
//! the server itself.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::client::{self, Client};
use crate::wire::Reply;
use crate::{Error, Result, clock, machine};

/// Time that a server has to answer its first PING.
const START_MAX: Duration = Duration::from_secs(20);

/// Time that a server has to end when asked to, before it is killed.
const END_MAX: Duration = Duration::from_secs(5);

/// How to start a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name in tables and records.
    pub label: String,
    /// The program and its arguments, placeholders included.
    pub words: Vec<String>,
}

impl Peer {
    /// Reads `label=command line`.
    ///
    /// # Errors
    /// The text has no label, no command, no `{port}`, or an open quote.
    pub fn parse(text: &str) -> Result<Self> {
        let (label, line) = text
            .split_once('=')
            .ok_or_else(|| Error::Input(format!("`{text}` is not label=command line")))?;
        let words = split_words(line)
            .ok_or_else(|| Error::Input(format!("a quote is left open in `{line}`")))?;
        if label.is_empty() || words.is_empty() {
            return Err(Error::Input(format!("`{text}` lacks a label or a command")));
        }
        if !words.iter().any(|word| word.contains("{port}")) {
            return Err(Error::Input(format!("`{line}` must have {{port}} for the port to use")));
        }
        Ok(Self { label: label.to_owned(), words })
    }

    /// The command line for records: files without their folders, which say nothing to others.
    pub fn display(&self) -> String {
        let short = |word: &String| match word.rsplit_once('/') {
            Some((folders, file)) => match folders.split_once('=') {
                Some((name, _)) => format!("{name}={file}"),
                None => file.to_owned(),
            },
            None if word.is_empty() => "\"\"".to_owned(),
            None => word.clone(),
        };
        self.words.iter().map(short).collect::<Vec<_>>().join(" ")
    }

    /// Starts the server, on its core if cores are given, and waits until it answers PING.
    ///
    /// # Errors
    /// It cannot be run, ends at once, or does not answer in time; the text has its last words.
    pub fn start(&self, cores: Option<Cores>) -> Result<Running> {
        self.start_at(free_port()?, cores)
    }

    /// As [`Peer::start`], at a port of the caller's choice.
    ///
    /// # Errors
    /// As [`Peer::start`].
    pub fn start_at(&self, port: u16, cores: Option<Cores>) -> Result<Running> {
        let folder = new_folder(&self.label, port)?;
        let log = folder.join("log");
        // A child inherits the affinity of the thread that starts it.
        if let Some(cores) = cores {
            machine::pin(cores.server)?;
        }
        let child = self.spawn(port, &folder, &log);
        if let Some(cores) = cores {
            machine::pin(cores.client)?;
        }
        let child = child?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut running = Running {
            label: self.label.clone(),
            command: self.display(),
            address,
            pid: child.id(),
            version: String::new(),
            process: Some(Process { child, folder, log }),
        };
        running.wait_until_ready()?;
        running.version = running.ask_version();
        Ok(running)
    }

    fn spawn(&self, port: u16, folder: &Path, log: &Path) -> Result<Child> {
        let fill = |word: &String| {
            word.replace("{port}", &port.to_string())
                .replace("{folder}", &folder.display().to_string())
        };
        let words: Vec<String> = self.words.iter().map(fill).collect();
        let output = File::create(log).map_err(Error::io("write a server's log"))?;
        let errors = output.try_clone().map_err(Error::io("write a server's log"))?;
        Command::new(absolute_program(&words[0]))
            .args(&words[1..])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(Error::io(format!("{}: run {}", self.label, words[0])))
    }
}

/// A server that runs. It is ended when this is dropped.
#[derive(Debug)]
pub struct Running {
    /// Its name in tables and records.
    pub label: String,
    /// Its command line for records.
    pub command: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its process.
    pub pid: u32,
    /// What it calls itself, for records.
    pub version: String,
    process: Option<Process>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    folder: PathBuf,
    log: PathBuf,
}

impl Running {
    /// A server inside this very process, for tests.
    pub fn in_process(label: &str, address: SocketAddr) -> Self {
        Self {
            label: label.to_owned(),
            command: "in-process".to_owned(),
            address,
            pid: std::process::id(),
            version: String::new(),
            process: None,
        }
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn client(&self) -> Result<Client> {
        Client::connect(&self.label, self.address)
    }

    /// Resident memory, in bytes.
    ///
    /// # Errors
    /// The server has ended.
    pub fn rss_bytes(&self) -> Result<u64> {
        machine::rss_bytes(self.pid).ok_or_else(|| Error::server(&self.label, "has ended"))
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = clock::now() + START_MAX;
        loop {
            if self.has_ended() {
                return Err(Error::server(&self.label, format!("ended: {}", self.last_words())));
            }
            if TcpStream::connect(self.address).is_ok()
                && self.client()?.call(&["PING"])? == Reply::Status("PONG".to_owned())
            {
                return Ok(());
            }
            if clock::now() > deadline {
                let words = self.last_words();
                return Err(Error::server(&self.label, format!("does not answer: {words}")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn ask_version(&self) -> String {
        let Ok(Ok(info)) = self.client().map(|mut client| client.call(&["INFO", "server"])) else {
            return String::new();
        };
        let fields =
            [("osmia_version", "Osmia"), ("valkey_version", "Valkey"), ("redis_version", "Redis")];
        let name = |(field, name): (&str, &str)| {
            client::info_text(&info, field).map(|version| format!("{name} {version}"))
        };
        let version = fields.into_iter().find_map(name).unwrap_or_default();
        let memory = self.client().and_then(|mut client| client.call(&["INFO", "memory"]));
        let allocator = memory.ok().and_then(|info| client::info_text(&info, "mem_allocator"));
        match allocator {
            Some(allocator) => format!("{version}, {allocator}"),
            None => version,
        }
    }

    fn has_ended(&mut self) -> bool {
        let Some(process) = &mut self.process else { return false };
        process.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// The end of what it printed.
    fn last_words(&self) -> String {
        let Some(process) = &self.process else { return String::new() };
        let text = fs::read(&process.log).unwrap_or_default();
        let start = text.len().saturating_sub(600);
        String::from_utf8_lossy(&text[start..]).trim().replace('\n', " | ")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(process) = &mut self.process else { return };
        if let Some(pid) = rustix::process::Pid::from_raw(self.pid as i32) {
            // It may have ended by itself.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let deadline = clock::now() + END_MAX;
        while clock::now() < deadline && !matches!(process.child.try_wait(), Ok(Some(_))) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = process.child.kill();
        let _ = process.child.wait();
        let _ = fs::remove_dir_all(&process.folder);
    }
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16> {
    let port = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr();
    port().map(|address| address.port()).map_err(Error::io("find a free port"))
}

/// The first of `count` ports in a row that were free a moment ago, none below `first`.
///
/// # Errors
/// There are none.
pub fn free_ports(first: u16, count: usize) -> Result<u16> {
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let mut run = 0;
    for port in first..=u16::MAX {
        run = if is_free(port) { run + 1 } else { 0 };
        if run == count {
            return Ok(port - (count - 1) as u16);
        }
    }
    Err(Error::Input(format!("no {count} free ports in a row from {first} on")))
}

fn new_folder(label: &str, port: u16) -> Result<PathBuf> {
    let plain: String = label.chars().filter(char::is_ascii_alphanumeric).collect();
    let name = format!("osmia-benchmark-{}-{plain}-{port}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).map_err(Error::io("make a folder for a server"))?;
    Ok(folder)
}

/// A program by path stays the same in another folder; one by name is looked up as usual.
fn absolute_program(program: &str) -> PathBuf {
    match program.contains('/') {
        true => fs::canonicalize(program).unwrap_or_else(|_| program.into()),
        false => program.into(),
    }
}

/// Splits as a shell does, without its expansions; `None` for an open quote.
fn split_words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '\'' => break,
                        other => word.push(other),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '"' => break,
                        '\\' => word.push(characters.next()?),
                        other => word.push(other),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(characters.next()?),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Some(words)
}

/// The cores of a measurement: servers on one, the client on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Where servers run.
    pub server: usize,
    /// Where the load generator runs.
    pub client: usize,
}

impl Cores {
    /// The first two cores that this process may use; `None` on a machine with fewer.
    pub fn choose() -> Option<Self> {
        match machine::allowed_cores()[..] {
            [server, client, ..] => Some(Self { server, client }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<&[&str]>) {
        let expected = expected.map(|words| words.iter().map(|&word| word.to_owned()).collect());
        assert_eq!(split_words(line), expected, "{line}");
    }

    #[test]
    fn lines_are_split_into_words() {
        check("a  b\tc", Some(&["a", "b", "c"]));
        check(r#"a --save "" b"#, Some(&["a", "--save", "", "b"]));
        check(r#"'a b'c "d \"e" f\ g"#, Some(&["a bc", "d \"e", "f g"]));
        check("", Some(&[]));
        check("'a", None);
        check("\"a", None);
    }

    #[test]
    fn servers_are_given_as_label_and_command() {
        let peer = Peer::parse("x=/some/where/server --port {port} --save \"\"").expect("a peer");
        assert_eq!(peer.label, "x");
        assert_eq!(peer.display(), "server --port {port} --save \"\"");
        let peer = Peer::parse("x=env A=/b/c.so ./d/e {port}").expect("a peer");
        assert_eq!(peer.display(), "env A=c.so e {port}");
        for wrong in ["server", "=a {port}", "x=", "x=server", "x='a {port}"] {
            assert!(Peer::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn free_ports_lie_in_a_row() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = taken.local_addr().expect("its address").port();
        assert!(free_ports(port, 2).is_ok_and(|first| first > port));
        assert!(free_ports(u16::MAX, 2).is_err());
    }

    #[test]
    fn a_server_that_ends_at_once_is_reported_with_its_last_words() {
        let peer = Peer::parse("x=ls /nothing-{port}").expect("a peer");
        let text = peer.start(None).expect_err("ls is no server").to_string();
        assert!(text.contains("nothing-"), "{text}");
    }
}
