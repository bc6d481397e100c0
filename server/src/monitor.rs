//! MONITOR: what all clients of all shards do, in one order.
//!
//! A command is written down under a lock that all shards share, which gives the order and the
//! times; the shards that have monitoring clients take the lines from there. While nobody monitors,
//! a command costs the look at one number.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use netback::ConnId;

use crate::command::dispatch::CommandCtx;
use crate::command::spec::flag;
use crate::config::quoted;
use crate::conn::{Client, SharedBytes};
use crate::state::ShardState;

/// Lines that a shard has not taken yet; beyond this many bytes its clients are as slow as those
/// that are closed for their output, and lines are dropped with a word in the log.
const UNTAKEN_MAX: usize = 64 << 20;

/// What all shards write and those with monitoring clients take.
pub struct Feed {
    /// Monitoring clients of the process.
    clients: AtomicUsize,
    lines: Mutex<Lines>,
}

struct Lines {
    last_us: u64,
    /// By shard: its monitoring clients, and the lines for them.
    shards: Vec<(usize, Vec<u8>, Vec<usize>)>,
}

const LOCKED: &str = "no thread panics while it holds the lock";

impl Feed {
    /// A feed that nobody reads.
    pub fn new(shards: usize) -> Self {
        let shards = (0..shards).map(|_| (0, Vec::new(), Vec::new())).collect();
        Self { clients: AtomicUsize::new(0), lines: Mutex::new(Lines { last_us: 0, shards }) }
    }

    /// Whether anybody reads.
    #[inline]
    pub fn is_read(&self) -> bool {
        self.clients.load(Ordering::Relaxed) > 0
    }

    fn count(&self, shard: usize, more: bool) {
        let mut lines = self.lines.lock().expect(LOCKED);
        let (clients, bytes, ends) = &mut lines.shards[shard];
        if more {
            *clients += 1;
            self.clients.fetch_add(1, Ordering::Relaxed);
        } else {
            *clients -= 1;
            self.clients.fetch_sub(1, Ordering::Relaxed);
        }
        if *clients == 0 {
            (*bytes, *ends) = (Vec::new(), Vec::new());
        }
    }
}

impl ShardState {
    /// Has a client get what all clients do from now on.
    pub fn start_monitoring(&mut self, client: &mut Client) {
        if !client.monitors {
            client.monitors = true;
            self.monitors.push(client.conn);
            self.process.feed.count(self.index, true);
        }
    }

    /// Ends what [`ShardState::start_monitoring`] began.
    pub fn stop_monitoring(&mut self, client: &mut Client) {
        if client.monitors {
            client.monitors = false;
            self.monitors.retain(|conn: &ConnId| *conn != client.conn);
            self.process.feed.count(self.index, false);
        }
    }

    /// Hands the lines written since the last call to this shard's monitoring clients.
    pub fn take_monitor_lines(&mut self) {
        if self.monitors.is_empty() {
            return;
        }
        let (bytes, ends) = {
            let mut lines = self.process.feed.lines.lock().expect(LOCKED);
            let (_, bytes, ends) = &mut lines.shards[self.index];
            (std::mem::take(bytes), std::mem::take(ends))
        };
        let mut start = 0;
        for end in ends {
            let line = Arc::new(SharedBytes::new(bytes[start..end].to_vec(), &self.shared_bytes));
            start = end;
            for conn in self.monitors.clone() {
                self.push_line(conn, &line);
            }
        }
    }
}

/// Writes a command that has run down for those who monitor.
#[cold]
pub(crate) fn feed(ctx: &mut CommandCtx<'_>) {
    if ctx.entry.command.is(flag::SKIP_MONITOR | flag::ADMIN) {
        return;
    }
    let mut lines = ctx.shard.process.feed.lines.lock().expect(LOCKED);
    let Lines { last_us, shards } = &mut *lines;
    *last_us = (*last_us).max(ctx.shard.now_us);
    let mut line = format!(
        "{}.{:06} [{} {}]",
        *last_us / 1_000_000,
        *last_us % 1_000_000,
        ctx.client.db,
        ctx.client.shown_address()
    )
    .into_bytes();
    for (index, arg) in ctx.args.from(0).enumerate() {
        let is_redacted = index < 32 && ctx.redacted >> index & 1 == 1;
        line.push(b' ');
        line.extend(quoted(if is_redacted { b"(redacted)" } else { arg }));
    }
    line.extend_from_slice(b"\r\n");
    for (shard, (_, bytes, ends)) in
        shards.iter_mut().enumerate().filter(|(_, (clients, ..))| *clients > 0)
    {
        if bytes.len() + line.len() > UNTAKEN_MAX {
            crate::warning!("MONITOR on shard {shard} lags: a line was dropped");
            continue;
        }
        bytes.extend_from_slice(&line);
        ends.push(bytes.len());
        ctx.shard.wake.insert(shard);
    }
}
