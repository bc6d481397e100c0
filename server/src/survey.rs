//! Commands about all shards: each of the others tells its part before the command runs at home.

use netback::ConnId;

use crate::command::args::Args;
use crate::command::dispatch;
use crate::command::table::Entry;
use crate::conn::{Client, Stall};
use crate::fabric::PeerMessage;
use crate::figures::Figures;
use crate::input::Core;
use crate::resp::{Progress, Step, parse};

/// A shard's part of an answer.
#[derive(Debug)]
pub enum Report {
    /// All its figures.
    Figures(Box<Figures>),
    /// Lines about its clients, with their numbers.
    Clients(Vec<(u64, Vec<u8>)>),
    /// How many of its clients were meant.
    Count(usize),
}

/// Makes a shard's part of a command's answer.
pub(crate) type Surveyor = fn(Args<'_>, &mut Core) -> Report;

/// Reports on their way to a client's command. A transaction asks for those of all its commands at
/// once.
#[derive(Debug, Default)]
pub struct Survey {
    /// By command, in their order.
    parts: std::collections::VecDeque<Vec<Report>>,
    /// Reports that have not come yet.
    left: usize,
}

impl Survey {
    /// The reports for the next command.
    pub(crate) fn next(&mut self) -> Vec<Report> {
        self.parts.pop_front().unwrap_or_default()
    }
}

impl Core {
    /// Whether a request has the reports that it needs; if not, they are asked for.
    pub(crate) fn surveyed(&mut self, client: &mut Client, entry: &Entry, wire: &[u8]) -> bool {
        if self.keyspace.own_only {
            return true;
        }
        if let Some(survey) = &client.survey {
            let is_complete = survey.left == 0;
            if !is_complete {
                client.stall = Some(Stall::Survey);
            }
            return is_complete;
        }
        let mut queued: Vec<&[u8]> = Vec::new();
        if entry.command.survey.is_some() {
            queued.push(wire);
        }
        // Nobody is asked, or made to do anything, for a transaction that will not run.
        if client.will_run_queue() {
            let commands = client.queue_of(entry).iter();
            let surveyed = commands.filter(|queued| queued.entry.command.survey.is_some());
            queued.extend(surveyed.map(|queued| queued.args.wire()));
        }
        if queued.is_empty() {
            return true;
        }
        let (own, shards) = (self.state.index, self.keyspace.shards());
        for peer in (0..shards).filter(|peer| *peer != own) {
            for (part, bytes) in queued.iter().enumerate() {
                let bytes = bytes.to_vec();
                let message = PeerMessage::Survey { conn: client.conn, part, bytes };
                self.state.outgoing[peer].push(message);
            }
        }
        let parts = queued.iter().map(|_| Vec::new()).collect();
        client.survey = Some(Box::new(Survey { parts, left: queued.len() * (shards - 1) }));
        client.stall = Some(Stall::Survey);
        false
    }

    /// Tells another shard this one's part.
    pub fn report(&mut self, from: usize, conn: ConnId, part: usize, bytes: &[u8]) {
        let (mut at, mut progress, mut args) = (0, Progress::default(), Vec::new());
        // The peer has parsed it under its limits.
        let limits = crate::resp::Limits { bulk_max: i64::MAX, authenticated: true };
        let parsed = parse::next(bytes, &mut at, &mut progress, &mut args, &limits);
        debug_assert_eq!(parsed, Ok(Step::Request), "a request that a peer has parsed");
        let args = Args::new(bytes, &args);
        let found = self.table.find(args.get(0));
        let surveyor = dispatch::resolve(args, found).ok().and_then(|entry| entry.command.survey);
        let report = surveyor.map_or(Report::Count(0), |surveyor| surveyor(args, self));
        let message = PeerMessage::Report { conn, part, report };
        self.state.outgoing[from].push(message);
    }

    /// Takes a peer's part.
    pub fn reported(&mut self, conn: ConnId, part: usize, report: Report) {
        let Some(client) = self.state.clients.get_mut(conn) else { return };
        let Some(survey) = &mut client.survey else { return };
        if let Some(reports) = survey.parts.get_mut(part) {
            reports.push(report);
        }
        survey.left -= 1;
        if survey.left == 0 && client.stall == Some(Stall::Survey) {
            self.resume(conn);
        }
    }
}
