//! One of the two servers, with the connections to it.

use std::io;

use crate::differential::difference::in_words;
use crate::differential::mutant::Mutant;
use crate::differential::plan::{Setting, Words};
use crate::differential::reply::{Reply, render};
use crate::differential::server::{Connection, Recipe, Server};

/// The connection for full checks.
pub(super) const INSPECTOR: usize = 4;

/// Connections to each server.
pub(super) const CONNECTIONS: usize = 5;

/// One of the two servers.
pub(super) struct Side {
    pub(super) recipe: Recipe,
    port: Option<u16>,
    pub(super) server: Server,
    pub(super) connections: Vec<Connection>,
    /// Ids of the connections, as the server counts.
    pub(super) ids: Vec<i64>,
    mutant: Option<Mutant>,
}

impl Side {
    pub(super) fn start(
        recipe: Recipe,
        port: Option<u16>,
        mutant: Option<Mutant>,
    ) -> Result<Self, String> {
        let server = Server::start(&recipe, port)?;
        Ok(Self { recipe, port, server, connections: Vec::new(), ids: Vec::new(), mutant })
    }

    pub(super) fn send(&mut self, connection: usize, commands: &[&Words]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for words in commands {
            match &self.mutant {
                Some(mutant) => render(&mutant.apply(words), &mut bytes),
                None => render(words, &mut bytes),
            }
        }
        self.connections[connection].send(&bytes)
    }

    /// Empties the server, sets its thresholds and opens all connections anew.
    pub(super) fn prepare(&mut self, setting: Setting) -> Result<(), String> {
        if self.reset(setting).is_ok() {
            return Ok(());
        }
        self.restart()?;
        self.reset(setting).map_err(|error| format!("{}: {}", self.recipe.label, in_words(&error)))
    }

    pub(super) fn restart(&mut self) -> Result<(), String> {
        self.connections.clear();
        // The port is free only when the old server has ended.
        let _ = self.server.end();
        self.server = Server::start(&self.recipe, self.port)?;
        Ok(())
    }

    fn reset(&mut self, setting: Setting) -> io::Result<()> {
        self.connections.clear();
        for _ in 0..CONNECTIONS {
            self.connections.push(self.server.connect()?);
        }
        self.command(INSPECTOR, &["FLUSHALL"])?;
        for (name, value) in setting.level.directives() {
            // A server that does not know a directive has its own way; the state will show it.
            self.command(INSPECTOR, &["CONFIG", "SET", name, value])?;
        }
        for command in setting.setup {
            let words: Vec<&str> = command.split(' ').collect();
            self.command(INSPECTOR, &words)?;
        }
        self.ids.clear();
        for connection in 0..CONNECTIONS {
            if setting.protocol == 3 && connection != INSPECTOR {
                self.command(connection, &["HELLO", "3"])?;
            }
            let id = self.command(connection, &["CLIENT", "ID"])?;
            self.ids.push(id.integer().unwrap_or_default());
        }
        Ok(())
    }

    fn command(&mut self, connection: usize, words: &[&str]) -> io::Result<Reply> {
        let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        self.send(connection, &[&words])?;
        self.connections[connection].receive()
    }
}
