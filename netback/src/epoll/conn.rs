//! A connection of the epoll backend.

use std::collections::VecDeque;
use std::io::{self, Write};

use mio::Token;

use crate::socket::Socket;
use crate::{Address, ConnId};

/// A connection. One that is idle costs this and nothing else.
pub(super) struct Conn {
    pub(super) socket: Socket,
    pub(super) peer: Option<Address>,
    pub(super) local: Option<Address>,
    /// Readiness was announced and no read has come back short since.
    pub(super) readable: bool,
    /// The peer has closed its end: reads go on until the end of the stream is seen.
    pub(super) read_closed: bool,
    /// Stands on the ready list.
    pub(super) listed: bool,
    pub(super) paused: bool,
    /// Buffers that the kernel has not taken, the first one from `sent` on.
    pub(super) unsent: VecDeque<Vec<u8>>,
    pub(super) sent: usize,
    /// To be closed once nothing is unsent.
    pub(super) closing: bool,
    /// Stays open after the peer's end, as it is still to be sent something.
    pub(super) owed: bool,
    /// The peer's end was seen while it was owed something.
    pub(super) ended: bool,
}

impl Conn {
    pub(super) fn new(socket: Socket) -> Self {
        Self {
            peer: socket.peer_address(),
            local: socket.local_address(),
            socket,
            readable: false,
            read_closed: false,
            listed: false,
            paused: false,
            unsent: VecDeque::new(),
            sent: 0,
            closing: false,
            owed: false,
            ended: false,
        }
    }
}

/// Writes `buffer` from `sent` on. `false`: the kernel takes no more for now.
pub(super) fn write_all(socket: &mut Socket, buffer: &[u8], sent: &mut usize) -> io::Result<bool> {
    while *sent < buffer.len() {
        match socket.write(&buffer[*sent..]) {
            Ok(len) => *sent += len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// A connection's token; the generation keeps late announcements from a new owner of the place.
pub(super) fn token_of(id: ConnId) -> Token {
    Token(id.index as usize | ((id.generation & 0x7fff_ffff) as usize) << 32)
}

pub(super) fn conn_of(token: Token) -> ConnId {
    ConnId { index: token.0 as u32, generation: (token.0 >> 32) as u32 }
}
