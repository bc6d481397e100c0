//! The physical limit: a server that reads, counts bytes and answers without parsing.
//!
//! What a request costs here is what the kernel and the network backend cost; no server of this
//! protocol can do with less on the same backend. Length of a request and bytes of a reply are
//! told by one request of its own, [`CONFIGURE`], before a measurement; until then it answers
//! PING, so that it starts like any other server.
//!
//! Requests of a measurement all have one length, so `bytes received / length` is the number of
//! replies due.

use std::net::{Ipv4Addr, SocketAddr};

use netback::{
    Address, Backend, Close, Event, Kind, ListenOptions, Preference, Run, Sent, SocketOptions,
};

use crate::client::Client;
use crate::peer::Peer;
use crate::wire::{self, Measured, Reply};
use crate::{Error, Result};

/// Front of the request `FLOOR <length of a request> <reply>`.
const CONFIGURE: &[u8] = b"*3\r\n$5\r\nFLOOR\r\n";

/// A request that is answered from the start.
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Buffers kept for reuse; more are only needed where many sends are under way.
const SPARES_MAX: usize = 1024;

/// The peers that are floors: one for each backend that runs here.
///
/// # Errors
/// This program's own path is not known.
pub fn peers() -> Result<Vec<Peer>> {
    let program = std::env::current_exe().map_err(Error::io("find this program"))?;
    let peer = |preference, backend: &str| {
        netback::choose(preference).ok().map(|_| Peer {
            label: format!("floor-{backend}"),
            words: [
                &program.display().to_string(),
                "floor-server",
                "--port",
                "{port}",
                "--backend",
                backend,
            ]
            .map(str::to_owned)
            .to_vec(),
        })
    };
    let epoll = peer(Preference::Epoll, "epoll");
    Ok(epoll.into_iter().chain(peer(Preference::IoUring, "io_uring")).collect())
}

/// Whether a label is that of a floor.
pub fn is_floor(label: &str) -> bool {
    label.starts_with("floor-")
}

/// Tells a floor the length of the requests that follow on other connections, and their reply.
///
/// # Errors
/// The connection failed or the server is no floor.
pub fn configure(client: &mut Client, request_len: usize, reply: &[u8]) -> Result<()> {
    let answer = client.call(&[b"FLOOR", request_len.to_string().as_bytes(), reply])?;
    match answer {
        Reply::Status(text) if text == "OK" => Ok(()),
        other => Err(Error::Input(format!("the floor answered {other:?}"))),
    }
}

/// Runs the server until the process is ended.
///
/// # Errors
/// The backend is not there, or the port is taken.
pub fn serve(backend: &str, port: u16) -> Result<()> {
    let preference = match backend {
        "epoll" => Preference::Epoll,
        "io_uring" => Preference::IoUring,
        _ => return Err(Error::Input(format!("no backend `{backend}`: epoll or io_uring"))),
    };
    let kind: Kind = netback::choose(preference).map_err(Error::Input)?.kind;
    netback::start(kind, Serve { port }).map_err(Error::io("serve"))
}

struct Serve {
    port: u16,
}

impl Run for Serve {
    type Output = std::io::Result<()>;

    fn run<B: Backend>(self) -> Self::Output {
        let mut backend = B::open()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let options = ListenOptions { backlog: 1024, unix_mode: 0 };
        backend.listen(&Address::Tcp(address), &options)?;
        let mut floor = Floor::new();
        let mut turn = Turn { accepted: Vec::new(), sends: Vec::new(), closes: Vec::new() };
        loop {
            backend.wait(None, &mut |event| floor.take(event, &mut turn))?;
            for socket in turn.accepted.drain(..) {
                let options = SocketOptions { keepalive_s: 0, nodelay: true };
                // One connection that fails is the client's to notice.
                let _ = backend.adopt(socket, &options);
            }
            for (conn, buffer) in turn.sends.drain(..) {
                if let Sent::Complete(buffer) | Sent::Refused(buffer) = backend.send(conn, buffer) {
                    floor.keep(buffer);
                }
            }
            for conn in turn.closes.drain(..) {
                backend.close(conn, Close::Now);
            }
        }
    }
}

/// What one wait brought and the backend has to do after it.
struct Turn<S> {
    accepted: Vec<S>,
    sends: Vec<(netback::ConnId, Vec<u8>)>,
    closes: Vec<netback::ConnId>,
}

struct Floor {
    request_len: usize,
    reply: Vec<u8>,
    /// Bytes received of a request that is not complete, by connection.
    carried: Vec<usize>,
    /// Buffers full of replies; those of the right length are sent again as they are.
    spares: Vec<Vec<u8>>,
}

impl Floor {
    fn new() -> Self {
        let reply = b"+PONG\r\n".to_vec();
        Self { request_len: PING.len(), reply, carried: Vec::new(), spares: Vec::new() }
    }

    fn take<S>(&mut self, event: Event<'_, S>, turn: &mut Turn<S>) {
        match event {
            Event::Accepted { socket, .. } => turn.accepted.push(socket),
            Event::Received { conn, bytes } if bytes.starts_with(CONFIGURE) => {
                match self.configure(bytes) {
                    Some(answer) => turn.sends.push((conn, answer)),
                    None => turn.closes.push(conn),
                }
            }
            Event::Received { conn, bytes } => {
                let index = conn.index as usize;
                if index >= self.carried.len() {
                    self.carried.resize(index + 1, 0);
                }
                let bytes = self.carried[index] + bytes.len();
                self.carried[index] = bytes % self.request_len;
                let replies = bytes / self.request_len;
                if replies > 0 {
                    turn.sends.push((conn, self.replies(replies)));
                }
            }
            Event::Sent { buffer, .. } => self.keep(buffer),
            Event::Closed { conn, .. } => {
                if let Some(carried) = self.carried.get_mut(conn.index as usize) {
                    *carried = 0;
                }
            }
            _ => {}
        }
    }

    /// Reads the one request that is parsed; it must have come in one piece.
    fn configure(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let Measured::Whole { len, .. } = wire::measure(bytes) else { return None };
        let Some(Reply::Array(words)) = wire::read(&bytes[..len]) else { return None };
        let [_, Reply::Bulk(request_len), Reply::Bulk(reply)] = &words[..] else { return None };
        let request_len = std::str::from_utf8(request_len).ok()?.parse().ok()?;
        if request_len == 0 || reply.is_empty() {
            return None;
        }
        self.request_len = request_len;
        self.reply.clone_from(reply);
        self.carried.fill(0);
        self.spares.clear();
        Some(b"+OK\r\n".to_vec())
    }

    fn replies(&mut self, count: usize) -> Vec<u8> {
        let len = count * self.reply.len();
        let mut buffer = self.spares.pop().unwrap_or_default();
        if buffer.len() != len {
            buffer.clear();
            for _ in 0..count {
                buffer.extend_from_slice(&self.reply);
            }
        }
        buffer
    }

    fn keep(&mut self, buffer: Vec<u8>) {
        // What was sent before the last configuration has other replies in it.
        let is_current = buffer.starts_with(&self.reply);
        if is_current && self.spares.len() < SPARES_MAX {
            self.spares.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netback::ConnId;

    fn receive(floor: &mut Floor, index: u32, bytes: &[u8]) -> Vec<u8> {
        let mut turn: Turn<()> = Turn { accepted: vec![], sends: vec![], closes: vec![] };
        let conn = ConnId { index, generation: 0 };
        floor.take(Event::Received { conn, bytes }, &mut turn);
        let bytes = turn.sends.iter().flat_map(|(_, buffer)| buffer.clone()).collect();
        for (_, buffer) in turn.sends {
            floor.keep(buffer);
        }
        bytes
    }

    #[test]
    fn replies_are_counted_by_bytes() {
        let mut floor = Floor::new();
        assert_eq!(receive(&mut floor, 0, PING), b"+PONG\r\n");
        let mut request = Vec::new();
        wire::render(&["FLOOR", "10", "+OK\r\n"], &mut request);
        assert_eq!(receive(&mut floor, 0, &request), b"+OK\r\n");
        assert_eq!(receive(&mut floor, 1, &[b'x'; 25]), b"+OK\r\n+OK\r\n");
        assert_eq!(receive(&mut floor, 2, &[b'x'; 4]), b"");
        assert_eq!(receive(&mut floor, 1, &[b'x'; 5]), b"+OK\r\n");
        assert_eq!(receive(&mut floor, 2, &[b'x'; 6]), b"+OK\r\n");
    }

    #[test]
    fn a_nonsensical_configuration_is_refused() {
        let mut floor = Floor::new();
        for bytes in [&b"*3\r\n$5\r\nFLOOR\r\n$1\r\n0\r\n$1\r\nx\r\n"[..], CONFIGURE] {
            assert_eq!(floor.configure(bytes), None);
        }
    }
}
