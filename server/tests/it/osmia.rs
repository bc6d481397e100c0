//! A process of the built program.

use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// A server process; ended when dropped.
pub(crate) struct Osmia {
    pub(crate) child: Child,
    pub(crate) port: u16,
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// The first of so many free ports in a row. They lie below those that the kernel hands out, of which
/// another test may take one at any time.
pub(crate) fn free_ports(count: u16) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 500) as u16 * 20;
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(|| first + NEXT.fetch_add(count, Ordering::Relaxed))
        .find(|first| (*first..first + count).all(|port| is_free(&port)))
        .expect("ports")
}

impl Osmia {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_with(&[], args)
    }

    /// Starts with a configuration file, if there is one in `file`, and with arguments.
    pub(crate) fn start_with(file: &[&str], args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_osmia"));
        command.arg("server").args(file);
        Self::spawn(command, args)
    }

    /// Starts from a shell that does something first.
    pub(crate) fn start_in_shell(before: &str, args: &[&str]) -> Self {
        let mut command = Command::new("sh");
        let line = format!("{before}exec {} server \"$@\"", env!("CARGO_BIN_EXE_osmia"));
        command.args(["-c", &line, "sh"]);
        Self::spawn(command, args)
    }

    /// Starts at a port that is known to be free.
    pub(crate) fn start_at(port: u16, args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_osmia"));
        command.arg("server");
        Self::spawn_at(port, command, args)
    }

    fn spawn(command: Command, args: &[&str]) -> Self {
        Self::spawn_at(free_port(), command, args)
    }

    fn spawn_at(port: u16, mut command: Command, args: &[&str]) -> Self {
        let mut child = command
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        let mut lines = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        while !line.contains("Ready to accept connections") {
            line.clear();
            let len = lines.read_line(&mut line).expect("a log line");
            assert!(len > 0, "the server stopped before it was ready");
        }
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        Self { child, port }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.port)
    }

    /// Memory of the process that lies in RAM.
    pub(crate) fn rss_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        status
            .expect("its status")
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
            .expect("a figure")
    }

    pub(crate) fn stop(mut self) -> std::process::ExitStatus {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().expect("kill");
        self.child.wait().expect("its end")
    }
}

impl Drop for Osmia {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    stream
}

/// The arguments that put the server on each backend that this build has.
pub(crate) fn backends() -> Vec<Vec<&'static str>> {
    [netback::Preference::Epoll, netback::Preference::IoUring]
        .into_iter()
        .filter_map(|preference| netback::choose(preference).ok())
        .map(|choice| vec!["--network-backend", choice.kind.name()])
        .collect()
}
