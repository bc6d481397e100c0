//! The shard loop: one thread, one backend, one part of the keyspace.
//!
//! A tick waits for events, works on each as it comes, and then, once for all of them: takes in
//! new connections, exchanges messages with other shards, flushes clients with replies, and
//! gives what is left of its time budget to the keyspace's upkeep. Only this file knows the type
//! of the backend.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use netback::{
    Address, Backend, Close, CloseReason, ConnId, Event, FileResult, FileToken, ListenerId, Sent,
    SocketOptions,
};

use crate::clock::{self, Clock};
use crate::conn::{Client, Stall};
use crate::fabric::{Fabric, Message};
use crate::input::{Core, OUTPUT_PAUSE_BYTES};
use crate::listen;
use crate::replace_file::{Next, Owner, ReplaceFile};
use crate::start::Failed;
use crate::tick::TickTimer;

/// Upkeep of the keyspace may take this long in a tick: as long as a client may wait for it. While
/// there is much to do, a tick is little more, and a request waits half of it on average.
const UPKEEP_BUDGET_US: u64 = 250;

/// The longest sleep: the pace of the work that is done by the clock.
const CRON_PERIOD_US: u64 = 100_000;

/// One shard: the generic shell around [`Core`].
pub struct Shard<B: Backend, C: Clock> {
    backend: B,
    clock: C,
    core: Core,
    fabric: Arc<Fabric<B::Socket, B::Waker>>,
    /// The sockets that this shard accepts on, if it is the one that does.
    listening: Option<Listening>,
    /// Version of the configuration that the sockets follow.
    applied_config_version: u64,
    /// Sockets of the tick, to be adopted at its end.
    accepted: Vec<(ListenerId, B::Socket)>,
    /// Messages to each peer, handed over at the end of the tick.
    batches: Vec<Vec<Message<B::Socket>>>,
    /// Scratch space for messages from peers.
    inbox: Vec<Message<B::Socket>>,
    files: Files,
    /// Clients whose requests waited for room for their replies, and have it now.
    resumed: Vec<ConnId>,
    timer: TickTimer,
    cron_due_us: u64,
    /// The keyspace has upkeep left.
    upkeep_pending: bool,
    /// When the next key expires, milliseconds since the Unix epoch.
    next_expire_ms: Option<u64>,
}

/// Files that are being replaced.
#[derive(Default)]
struct Files {
    under_way: BTreeMap<FileToken, (Owner, ReplaceFile)>,
    started: u64,
    /// Operations that are over, to be followed by the next ones.
    over: Vec<(FileToken, FileResult)>,
}

/// Where a shard accepts TCP connections.
struct Listening {
    port: i64,
    bind: Vec<String>,
    tcp: Vec<ListenerId>,
}

impl<B: Backend, C: Clock> Shard<B, C> {
    /// A shard that will run on this thread.
    pub fn new(backend: B, clock: C, core: Core, fabric: Arc<Fabric<B::Socket, B::Waker>>) -> Self {
        let (index, shards) = (core.state.index, core.state.process.shards);
        fabric.join(index, backend.waker());
        let waker = backend.waker();
        core.state.process.add_waker(Box::new(move || netback::Waker::wake(&waker)));
        let cron_due_us = core.state.now_us;
        let applied_config_version = core.state.config_version;
        Self {
            timer: TickTimer::new(&clock),
            backend,
            clock,
            core,
            fabric,
            listening: None,
            applied_config_version,
            accepted: Vec::new(),
            batches: (0..shards).map(|_| Vec::new()).collect(),
            inbox: Vec::new(),
            files: Files::default(),
            resumed: Vec::new(),
            cron_due_us,
            upkeep_pending: true,
            next_expire_ms: None,
        }
    }

    /// Opens the listening sockets of the configuration. The first shard does so, and the others if
    /// each has a port of its own.
    ///
    /// # Errors
    /// [`Failed`] after a log line with the reason.
    pub fn listen(&mut self) -> Result<(), Failed> {
        let config = &self.core.state.config;
        let index = self.core.state.index;
        let tcp = listen::tcp(&mut self.backend, config, index)?;
        if index == 0 {
            listen::unix(&mut self.backend, config)?;
        }
        self.listening = Some(Listening { port: config.port, bind: config.bind.clone(), tcp });
        Ok(())
    }

    /// Moves the listening sockets where the configuration has them now.
    fn listen_anew(&mut self) {
        let Some(listening) = &mut self.listening else { return };
        let config = &self.core.state.config;
        if listening.port == config.port && listening.bind == config.bind {
            return;
        }
        listening.tcp.drain(..).for_each(|listener| self.backend.unlisten(listener));
        (listening.port, listening.bind) = (config.port, config.bind.clone());
        // CONFIG SET has tried the addresses; what fails nonetheless stands in the log.
        if let Ok(tcp) = listen::tcp(&mut self.backend, config, self.core.state.index) {
            listening.tcp = tcp;
        }
    }

    /// Runs until the process shuts down.
    ///
    /// # Errors
    /// What made the backend unusable.
    pub fn run(mut self) -> io::Result<()> {
        while !self.core.state.process.is_shutting_down() || self.has_files_to_write() {
            self.tick()?;
        }
        // Replies of the last commands (to SHUTDOWN's neighbours) still leave.
        self.flush_clients();
        self.backend.wait(Some(Duration::ZERO), &mut |_| {})
    }

    /// One turn of the loop.
    ///
    /// # Errors
    /// What made the backend unusable.
    pub fn tick(&mut self) -> io::Result<()> {
        let timeout = self.timeout();
        let commands_before = self.core.state.stats.commands_processed;
        let Self { backend, clock, core, accepted, timer, files, .. } = self;
        let mut started = false;
        backend.wait(Some(timeout), &mut |event| {
            // The clock is read once, after the wait.
            if !started {
                begin(core, clock, timer);
                started = true;
            }
            match event {
                Event::Accepted { listener, socket } => accepted.push((listener, socket)),
                Event::File { token, result } => files.over.push((token, result)),
                event => on_event(core, event),
            }
        })?;
        if !started {
            begin(core, clock, timer);
        }
        if self.core.state.refresh_config() {
            self.core.follow_config(self.core.state.index);
        }
        if self.core.state.config_version != self.applied_config_version {
            self.applied_config_version = self.core.state.config_version;
            self.listen_anew();
        }
        self.adopt_accepted();
        self.exchange_messages();
        for conn in std::mem::take(&mut self.resumed) {
            self.core.resume(conn);
        }
        self.core.work_on_waits();
        self.core.state.broadcast_changes();
        self.core.state.take_monitor_lines();
        self.send_messages();
        self.work_on_files();
        self.flush_clients();
        let upkeep_started = self.clock.cycles();
        if self.core.state.now_us >= self.cron_due_us {
            self.cron();
        }
        self.upkeep();
        let upkeep_cycles = clock::elapsed(upkeep_started, self.clock.cycles());
        self.core.state.stats.upkeep_cycles += upkeep_cycles;
        let stats = &mut self.core.state.stats;
        let cycles = self.timer.end(&self.clock, stats.tick_longest_cycles);
        // CONFIG RESETSTAT may have set the counter back.
        let commands = stats.commands_processed.saturating_sub(commands_before);
        stats.tick(cycles, commands);
        Ok(())
    }

    fn timeout(&self) -> Duration {
        // While the share is lent there is nothing to keep up.
        let has_share = self.core.keyspace.own().is_some();
        if self.upkeep_pending && has_share
            || !self.resumed.is_empty()
            || self.core.lending.is_pending(self.core.state.peers_behind, has_share)
            || self.core.state.waits.is_pending()
        {
            return Duration::ZERO;
        }
        let now_us = self.core.state.now_us;
        let cron_us = self.cron_due_us.saturating_sub(now_us);
        let expire_us = self
            .next_expire_ms
            .filter(|_| has_share)
            .map_or(u64::MAX, |ms| ms.saturating_mul(1000).saturating_sub(now_us));
        let waits = self.core.state.waits.next_ms();
        let leases = self.core.keyspace.own().and_then(|share| share.leases.next_ms());
        let wait_us = [waits, leases]
            .into_iter()
            .flatten()
            .min()
            .map_or(u64::MAX, |ms| ms.saturating_mul(1000).saturating_sub(now_us));
        Duration::from_micros(cron_us.min(expire_us).min(wait_us).min(CRON_PERIOD_US))
    }

    fn adopt_accepted(&mut self) {
        for (listener, socket) in std::mem::take(&mut self.accepted) {
            let process = &self.core.state.process;
            let per_shard = process.cluster.per_shard;
            let own = self.core.state.index;
            let shard = if per_shard { own } else { process.least_loaded_shard() };
            if shard == self.core.state.index {
                self.adopt(socket);
            } else {
                // Counted at once, so that the next one of this tick goes elsewhere.
                process.clients[shard].fetch_add(1, Ordering::Relaxed);
                self.batches[shard].push(Message::Socket(listener, socket));
            }
        }
    }

    /// Takes in a connection, or refuses it with a text.
    fn adopt(&mut self, socket: B::Socket) {
        let state = &mut self.core.state;
        let options = SocketOptions {
            keepalive_s: state.config.tcp_keepalive.clamp(0, i64::from(u32::MAX)) as u32,
            nodelay: true,
        };
        let conn = match self.backend.adopt(socket, &options) {
            Ok(conn) => conn,
            Err(error) => {
                crate::warning!("Error registering a new connection: {error}");
                return;
            }
        };
        let process = Arc::clone(&state.process);
        if process.client_count() >= state.config.maxclients as usize {
            state.stats.connections_rejected += 1;
            self.refuse(conn, b"-ERR max number of clients reached\r\n");
            return;
        }
        let peer = self.backend.peer_address(conn);
        if state.config.protected_mode
            && !state.hot.password_required
            && !peer.as_ref().is_some_and(is_local)
        {
            self.refuse(conn, DENIED.as_bytes());
            return;
        }
        let mut client = Client::new(process.next_client_id(), conn, state.now_ms());
        client.is_unix = matches!(peer, Some(Address::Unix(_)));
        client.address = address_text(peer.as_ref());
        client.local_address = address_text(self.backend.local_address(conn).as_ref());
        client.descriptor = self.backend.descriptor(conn);
        client.authenticated = !state.hot.password_required;
        crate::verbose!("Accepted {}", client.address);
        state.stats.connections_received += 1;
        process.clients[state.index].fetch_add(1, Ordering::Relaxed);
        process.set_home(client.id, Some((state.index, conn)));
        state.clients.insert(Box::new(client));
    }

    fn refuse(&mut self, conn: ConnId, text: &[u8]) {
        let _ = self.backend.send(conn, text.to_vec());
        self.backend.close(conn, Close::AfterSends);
    }

    fn exchange_messages(&mut self) {
        let (index, shards) = (self.core.state.index, self.core.state.process.shards);
        if shards == 1 {
            return;
        }
        if !self.core.state.peers_behind {
            self.core.run_deferred();
        }
        for peer in (0..shards).filter(|peer| *peer != index) {
            self.fabric.receive(peer, index, &mut self.inbox);
            if !self.inbox.is_empty() && self.core.state.refresh_config() {
                // A command sent after CONFIG SET was answered finds the new settings here too.
                self.core.follow_config(index);
            }
            for message in std::mem::take(&mut self.inbox) {
                match message {
                    Message::Socket(_, socket) => {
                        self.core.state.process.clients[index].fetch_sub(1, Ordering::Relaxed);
                        self.adopt(socket);
                    }
                    Message::Peer(message) => self.core.told(peer, message),
                }
            }
        }
        self.core.work_on_reservations();
        self.send_messages();
    }

    /// Hands over what the tick has for each peer.
    fn send_messages(&mut self) {
        let (index, shards) = (self.core.state.index, self.core.state.process.shards);
        if shards == 1 {
            return;
        }
        let wake = std::mem::take(&mut self.core.state.wake);
        for peer in (0..shards).filter(|peer| *peer != index) {
            let outgoing = self.core.state.outgoing[peer].drain(..);
            self.batches[peer].extend(outgoing.map(Message::Peer));
            if !self.batches[peer].is_empty() {
                self.fabric.send(index, peer, &mut self.batches[peer]);
            } else if wake.contains(peer) {
                self.fabric.wake(peer);
            }
        }
        let state = &mut self.core.state;
        state.peers_behind = self.fabric.is_behind(index);
        if !state.peers_behind {
            self.resumed.append(&mut state.held_by_peers);
        }
    }

    /// Whether a file is to be written before the shard may end.
    fn has_files_to_write(&self) -> bool {
        !self.files.under_way.is_empty() || self.core.state.has_cluster_to_save()
    }

    fn work_on_files(&mut self) {
        for (token, result) in std::mem::take(&mut self.files.over) {
            let Some((owner, job)) = self.files.under_way.remove(&token) else { continue };
            match job.advance(result) {
                Next::Submit(job, op) => {
                    self.files.under_way.insert(token, (owner, job));
                    self.backend.submit_file(token, op);
                }
                Next::Over(result) => match owner {
                    Owner::Client(conn) => self.core.file_replaced(conn, result),
                    Owner::Cluster(version) => {
                        self.core.state.process.cluster_saved(version, result);
                    }
                },
            }
        }
        self.core.state.save_cluster();
        self.core.answer_saved();
        for (owner, job, op) in std::mem::take(&mut self.core.state.file_jobs) {
            self.files.started += 1;
            let token = FileToken(self.files.started);
            self.files.under_way.insert(token, (owner, job));
            self.backend.submit_file(token, op);
        }
    }

    /// Sends the replies of the tick, one buffer a client, and closes who is to be closed.
    fn flush_clients(&mut self) {
        let mut dirty = std::mem::take(&mut self.core.state.dirty);
        for conn in dirty.drain(..) {
            self.flush(conn);
        }
        self.core.state.dirty = dirty;
    }

    fn flush(&mut self, conn: ConnId) {
        let state = &mut self.core.state;
        let durable = state.durable_position;
        let Some(client) = state.clients.get_mut(conn) else { return };
        client.dirty = false;
        let limit = &state.hot.output_limits[usize::from(client.subscribed.is_some())];
        let is_closing = client.close == Some(Close::Now);
        if !is_closing && client.is_over_output_limit(limit, state.now_us / 1000) {
            crate::warning!(
                "Client id={} addr={} closed for overcoming of output buffer limits.",
                client.id,
                client.address
            );
            state.stats.output_buffer_limit_disconnections += 1;
            client.close = Some(Close::Now);
            self.backend.close(conn, Close::Now);
            return;
        }
        // Pieces that others share are copied when the client has taken what went before.
        while client.sending_bytes == 0 || client.replies.pieces() == 0 {
            let buffer = client.replies.release(durable);
            if buffer.is_empty() {
                break;
            }
            let len = buffer.len();
            client.net_output_bytes += len as u64;
            state.stats.net_output_bytes += len as u64;
            match self.backend.send(conn, buffer) {
                Sent::Complete(buffer) => state.buffers.give(buffer),
                Sent::Refused(buffer) => {
                    state.buffers.give(buffer);
                    break;
                }
                Sent::Pending => {
                    client.sending_bytes += len;
                    client.sending_buffers += 1;
                }
            }
        }
        let Some(client) = self.core.state.clients.get_mut(conn) else { return };
        let has_room = client.output_len() <= OUTPUT_PAUSE_BYTES;
        let may_go_on = matches!(client.stall, Some(Stall::Answers | Stall::Room));
        if may_go_on && client.waiting.is_empty() && has_room {
            self.resumed.push(conn);
        }
        let paused = client.is_stopped() || !has_room;
        if paused != client.paused {
            client.paused = paused;
            self.backend.pause(conn, paused);
        }
        let owed = client.is_owed();
        if owed != client.held {
            client.held = owed;
            self.backend.hold(conn, owed);
        }
        // What is still owed leaves before the end.
        if let Some(how) = client.close
            && (how == Close::Now || client.replies.pieces() == 0)
        {
            self.backend.close(conn, how);
        }
    }

    /// Gives the keyspace what is left of the tick's budget.
    fn upkeep(&mut self) {
        let now_ms = self.core.state.now_ms();
        let expire_due = self.next_expire_ms.is_some_and(|due_ms| due_ms <= now_ms);
        let Some(share) = self.core.keyspace.own_mut() else { return };
        let dirty = share.partition.has_upkeep();
        if !self.upkeep_pending && !expire_due && !dirty {
            return;
        }
        let budget = clock::from_us(UPKEEP_BUDGET_US);
        let clock = &self.clock;
        let began = clock.cycles();
        let report =
            share.partition.maintain(&mut || clock::elapsed(began, clock.cycles()) < budget);
        self.upkeep_pending = report.work_left;
        self.next_expire_ms = report.next_expire_ms;
        self.core.state.tracking.author = None;
        let Core { keyspace, state, .. } = &mut self.core;
        keyspace.settle(state);
        keyspace.serve(state);
        state.send_invalidations(None);
    }

    /// What is done by the clock, ten times a second.
    fn cron(&mut self) {
        let now_us = self.core.state.now_us;
        self.cron_due_us = now_us + CRON_PERIOD_US;
        self.upkeep_pending = true;
        self.core.cron();
    }
}

/// Reads the clocks at the start of a tick.
fn begin<C: Clock>(core: &mut Core, clock: &C, timer: &mut TickTimer) {
    let now_us = clock.unix_us();
    core.state.now_us = now_us;
    if let Some(share) = core.keyspace.own_mut() {
        share.partition.set_now(now_us / 1000);
    }
    core.state.refresh_pause();
    core.state.refresh_config();
    core.follow_config(core.state.index);
    timer.start(clock);
}

fn on_event<S>(core: &mut Core, event: Event<'_, S>) {
    match event {
        Event::Received { conn, bytes } => core.received(conn, bytes),
        Event::Sent { conn, buffer } => sent(core, conn, buffer),
        Event::AcceptFailed { error, .. } => {
            crate::warning!("Accepting client connection: {error}");
        }
        Event::Closed { conn, reason } => closed(core, conn, &reason),
        // The others are for the end of the tick.
        Event::Accepted { .. } | Event::File { .. } | Event::Woken => {}
    }
}

fn sent(core: &mut Core, conn: ConnId, buffer: Vec<u8>) {
    if let Some(mut client) = core.state.clients.take(conn) {
        client.sending_bytes -= buffer.len();
        client.sending_buffers -= 1;
        if client.paused || client.replies.pieces() > 0 {
            core.state.mark_dirty(&mut client);
        }
        core.state.clients.insert(client);
    }
    core.state.give_buffer(buffer);
}

fn closed(core: &mut Core, conn: ConnId, reason: &CloseReason) {
    let Some(mut client) = core.state.clients.take(conn) else { return };
    core.state.unsubscribe_all(&mut client);
    core.state.forget_waiting(&mut client);
    core.state.untrack(&mut client);
    core.state.stop_monitoring(&mut client);
    core.state.process.set_home(client.id, None);
    let process = &core.state.process;
    process.clients[core.state.index].fetch_sub(1, Ordering::Relaxed);
    match reason {
        CloseReason::Peer => crate::verbose!("Client closed connection id={}", client.id),
        CloseReason::Local => {}
        CloseReason::Error(error) => crate::verbose!("Reading from client: {error}"),
    }
}

fn is_local(address: &Address) -> bool {
    match address {
        Address::Tcp(address) => address.ip().to_canonical().is_loopback(),
        Address::Unix(_) => true,
    }
}

fn address_text(address: Option<&Address>) -> String {
    match address {
        Some(Address::Tcp(address)) => address.to_string(),
        Some(Address::Unix(path)) => format!("{}:0", path.display()),
        None => "?:0".to_owned(),
    }
}

/// Answer to a client from elsewhere while `protected-mode` is on and no password is set.
const DENIED: &str = "-DENIED Osmia is running in protected mode because protected mode is enabled \
and no password is set for the default user. In this mode connections are only accepted from the \
loopback interface. To connect from other machines, set a password (requirepass), bind the server \
to addresses that only trusted machines reach and turn protected-mode off, or connect from this \
machine.\r\n";
