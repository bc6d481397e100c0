//! Two servers that get the same commands, and whose replies are compared.
//!
//! Commands of one connection in a row are sent together and their replies read afterwards; before
//! another connection speaks, all replies are in, so that both servers see one order.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::time::Duration;

use crate::differential::difference::{Difference, Stop, in_words};
use crate::differential::mutant::Mutant;
use crate::differential::patience::Patience;
use crate::differential::plan::{Setting, Step, Words, name_of};
use crate::differential::reply::{Reply, line_of};
use crate::differential::rule::{Rule, agree};
use crate::differential::server::{ANSWER_MAX, Recipe};
use crate::differential::side::{CONNECTIONS, INSPECTOR, Side};

/// Both servers and what is known of them.
pub struct Duel {
    sides: [Side; 2],
    /// What is queued on each connection between MULTI and EXEC.
    queued: Vec<Option<Vec<(Words, Rule)>>>,
    /// What each connection waits for: the step, the command and its rule.
    waiting: Vec<Option<(usize, Words, Rule)>>,
    /// The command whose replies differed in a known way, so that the states may differ too.
    suspect: Option<String>,
    /// Differences of replies that are known and only counted.
    pub known: BTreeSet<String>,
    /// How often each of them came.
    pub counts: BTreeMap<String, usize>,
    /// Commands compared so far.
    pub compared: usize,
    /// How often each command was answered without an error, and with one.
    pub answers: BTreeMap<String, [usize; 2]>,
}

impl Duel {
    /// Starts both servers; a mutant changes what the second one is sent.
    ///
    /// # Errors
    /// A server does not start.
    pub fn start(
        recipes: [Recipe; 2],
        ports: [Option<u16>; 2],
        mutant: Option<Mutant>,
    ) -> Result<Self, String> {
        let [left, right] = recipes;
        let sides = [Side::start(left, ports[0], None)?, Side::start(right, ports[1], mutant)?];
        Ok(Self {
            sides,
            queued: Vec::new(),
            waiting: Vec::new(),
            suspect: None,
            known: BTreeSet::new(),
            counts: BTreeMap::new(),
            compared: 0,
            answers: BTreeMap::new(),
        })
    }

    /// The names of the servers.
    pub fn labels(&self) -> [&str; 2] {
        [&self.sides[0].recipe.label, &self.sides[1].recipe.label]
    }

    /// Replaces both servers by new ones.
    ///
    /// # Errors
    /// A server does not start.
    pub fn restart(&mut self) -> Result<(), String> {
        self.sides.iter_mut().try_for_each(Side::restart)
    }

    /// Empties both servers and sets them for a round.
    ///
    /// # Errors
    /// A server cannot be brought back.
    pub fn prepare(&mut self, setting: Setting) -> Result<(), Stop> {
        self.suspect = None;
        self.queued = vec![None; CONNECTIONS];
        self.waiting = vec![None; CONNECTIONS];
        self.sides.iter_mut().try_for_each(|side| side.prepare(setting)).map_err(Stop::Broken)
    }

    /// Whether a server knows a command.
    ///
    /// # Errors
    /// It does not answer.
    pub fn knows(&mut self, side: usize, name: &str) -> Result<bool, Stop> {
        let query = name.to_lowercase().replace(' ', "|");
        let words = ["COMMAND", "INFO", &query].map(|word| word.as_bytes().to_vec()).to_vec();
        let reply = self.ask(side, 0, INSPECTOR, &words)?;
        Ok(reply.elements().is_some_and(|found| found.iter().any(|entry| !entry.is_null())))
    }

    /// Takes the steps, from freshly prepared servers.
    ///
    /// # Errors
    /// Why the run ended early.
    pub fn run(&mut self, setting: Setting, steps: &[Step]) -> Result<(), Stop> {
        self.prepare(setting)?;
        let mut at = 0;
        while at < steps.len() {
            let batch = batch_len(&steps[at..], setting.pipeline);
            match &steps[at] {
                Step::Send { connection, words, rule } if batch == 0 => {
                    self.free(*connection)?;
                    self.settle(at, *connection, words, *rule)?;
                }
                Step::Send { connection, .. } => {
                    self.free(*connection)?;
                    self.exchange(at, *connection, &steps[at..at + batch])?;
                }
                Step::Block { connection, words, rule } => {
                    self.free(*connection)?;
                    self.block(at, *connection, words, *rule)?;
                }
                Step::Unblock { connection, error } => self.unblock(*connection, *error)?,
                Step::Pause => self.pause(at)?,
                Step::Check => self.check(at)?,
            }
            self.check_suspect(at)?;
            at += batch.max(1);
        }
        (0..CONNECTIONS).try_for_each(|connection| self.free(connection))
    }

    /// After a known difference in a reply: the rest says something only if the states agree.
    fn check_suspect(&mut self, at: usize) -> Result<(), Stop> {
        let Some(name) = self.suspect.take() else { return Ok(()) };
        match self.check(at) {
            Err(Stop::Difference(_) | Stop::Known(_)) => Err(Stop::Diverged(name)),
            other => other,
        }
    }

    /// Sends commands of one connection together and compares the replies.
    fn exchange(&mut self, first: usize, connection: usize, batch: &[Step]) -> Result<(), Stop> {
        let commands: Vec<&Words> = batch.iter().filter_map(Step::words).collect();
        for side in 0..2 {
            self.send(side, first, connection, &commands)?;
        }
        for (index, step) in batch.iter().enumerate() {
            let Step::Send { words, rule, .. } = step else { continue };
            let [left, right] = self.receive_both(first + index, connection, words)?;
            self.judge(first + index, connection, words, *rule, &left, &right)?;
        }
        Ok(())
    }

    /// Compares two replies, and follows transactions.
    pub(super) fn judge(
        &mut self,
        at: usize,
        connection: usize,
        words: &Words,
        rule: Rule,
        left: &Reply,
        right: &Reply,
    ) -> Result<(), Stop> {
        self.compared += 1;
        let name = name_of(words);
        self.answers.entry(name.clone()).or_default()[usize::from(left.is_error())] += 1;
        if let Some(side) = [left, right].iter().position(|reply| is_unknown(reply))
            && !(is_unknown(left) && is_unknown(right))
        {
            return Err(Stop::Unknown { side, name });
        }
        let queued = Reply::Status(b"QUEUED".to_vec());
        let agrees = match (name.as_str(), self.queued[connection].take()) {
            ("EXEC", Some(commands)) if !left.is_error() => {
                return self.judge_all(at, words, &commands, left, right);
            }
            ("DISCARD", Some(_)) if !left.is_error() => left == right,
            (_, Some(mut commands)) if *left == queued || left.is_error() => {
                commands.extend((*left == queued).then(|| (words.clone(), rule)));
                // EXEC that is refused for its errors ends the transaction as well.
                let ended = matches!(left, Reply::Error(text) if text.starts_with(b"EXECABORT"));
                self.queued[connection] = (!ended).then_some(commands);
                left == right
            }
            ("MULTI", None) if !left.is_error() => {
                self.queued[connection] = Some(Vec::new());
                left == right
            }
            (_, other) => {
                self.queued[connection] = other;
                agree(rule, left, right)
            }
        };
        // What was sent together with a suspect may hang on it.
        if agrees || self.suspect.is_some() {
            Ok(())
        } else {
            self.differs(Difference::of_replies(at, words, left, right))
        }
    }

    /// What EXEC answers agrees where each of its replies does.
    fn judge_all(
        &mut self,
        at: usize,
        exec: &Words,
        commands: &[(Words, Rule)],
        left: &Reply,
        right: &Reply,
    ) -> Result<(), Stop> {
        let (Reply::Array(lefts), Reply::Array(rights)) = (left, right) else {
            return match left == right {
                true => Ok(()),
                false => self.differs(Difference::of_replies(at, exec, left, right)),
            };
        };
        if lefts.len() != rights.len() || lefts.len() != commands.len() {
            return self.differs(Difference::of_replies(at, exec, left, right));
        }
        for ((words, rule), (left, right)) in commands.iter().zip(lefts.iter().zip(rights)) {
            if self.suspect.is_none() && !agree(*rule, left, right) {
                let mut difference = Difference::of_replies(at, words, left, right);
                difference.signature.insert_str(0, "EXEC of ");
                difference.place.insert_str(0, "in EXEC: ");
                self.differs(difference)?;
            }
        }
        Ok(())
    }

    /// Counts a difference that is known; stops at one that is not.
    pub(super) fn differs(&mut self, difference: Difference) -> Result<(), Stop> {
        if !self.known.contains(&difference.signature) {
            return Err(Stop::Difference(Box::new(difference)));
        }
        *self.counts.entry(difference.signature.clone()).or_default() += 1;
        match difference.in_state {
            true => Err(Stop::Known(difference.signature)),
            false => {
                self.suspect = Some(difference.command);
                Ok(())
            }
        }
    }

    /// Sends a command on a connection of its own and waits until it is answered or blocks.
    fn block(
        &mut self,
        at: usize,
        connection: usize,
        words: &Words,
        rule: Rule,
    ) -> Result<(), Stop> {
        let mut answers = [None, None];
        for (side, answer) in answers.iter_mut().enumerate() {
            self.send(side, at, connection, &[words])?;
            *answer = self.answered_or_blocked(side, at, connection, words)?;
        }
        match answers {
            [Some(left), Some(right)] => self.judge(at, connection, words, rule, &left, &right),
            [None, None] => {
                self.waiting[connection] = Some((at, words.clone(), rule));
                Ok(())
            }
            [left, right] => {
                let text = |reply: Option<Reply>| {
                    reply.map_or_else(|| "blocks".to_owned(), |reply| reply.to_string())
                };
                let name = name_of(words);
                let [left, right] = [left, right].map(text);
                let signature = format!("{name}: one blocks");
                let place = format!("{name} on a connection of its own");
                Err(Stop::Difference(Box::new(Difference::of_texts(
                    at, signature, place, &left, &right,
                ))))
            }
        }
    }

    /// The reply of a connection, or nothing once the server says that it blocks.
    fn answered_or_blocked(
        &mut self,
        side: usize,
        at: usize,
        connection: usize,
        words: &Words,
    ) -> Result<Option<Reply>, Stop> {
        let patience = Patience::of(ANSWER_MAX);
        let id = self.sides[side].ids[connection].to_string();
        let query = ["CLIENT", "LIST", "ID", &id].map(|word| word.as_bytes().to_vec()).to_vec();
        while !patience.is_over() {
            let shown = self.ask(side, at, INSPECTOR, &query)?;
            let answer = self.sides[side].connections[connection]
                .receive_within(Duration::from_micros(100))
                .map_err(|error| self.gone(side, at, words, &error))?;
            if answer.is_some() {
                return Ok(answer);
            }
            if is_blocked(&shown) {
                return Ok(None);
            }
        }
        Err(self.gone(side, at, words, &ErrorKind::TimedOut.into()))
    }

    /// Ends the wait of a connection, if it waits.
    fn free(&mut self, connection: usize) -> Result<(), Stop> {
        self.unblock(connection, false)
    }

    fn unblock(&mut self, connection: usize, error: bool) -> Result<(), Stop> {
        let Some((at, words, rule)) = self.waiting[connection].take() else { return Ok(()) };
        let how = if error { "ERROR" } else { "TIMEOUT" };
        let mut replies = Vec::new();
        for side in 0..2 {
            let id = self.sides[side].ids[connection].to_string();
            let command = ["CLIENT", "UNBLOCK", &id, how].map(|word| word.as_bytes().to_vec());
            replies.push(self.ask(side, at, INSPECTOR, &command.to_vec())?);
        }
        let [left, right] = self.receive_both(at, connection, &words)?;
        if replies[0] != replies[1] {
            let unblock = ["CLIENT", "UNBLOCK", "id", how].map(|word| word.as_bytes().to_vec());
            let mut difference =
                Difference::of_replies(at, &unblock.to_vec(), &replies[0], &replies[1]);
            difference.signature.push_str(&format!(" of {}", name_of(&words)));
            self.differs(difference)?;
        }
        self.judge(at, connection, &words, rule, &left, &right)
    }
}

/// Talking to one side; what goes wrong there is a difference.
impl Duel {
    pub(super) fn send(
        &mut self,
        side: usize,
        at: usize,
        connection: usize,
        commands: &[&Words],
    ) -> Result<(), Stop> {
        let sent = self.sides[side].send(connection, commands);
        sent.map_err(|error| self.gone(side, at, commands[0], &error))
    }

    /// Sends one command to one server and waits for its reply.
    pub(super) fn ask(
        &mut self,
        side: usize,
        at: usize,
        connection: usize,
        words: &Words,
    ) -> Result<Reply, Stop> {
        self.send(side, at, connection, &[words])?;
        let reply = self.sides[side].connections[connection].receive();
        reply.map_err(|error| self.gone(side, at, words, &error))
    }

    /// Sends commands to both servers and waits for all replies.
    pub(super) fn ask_both(
        &mut self,
        at: usize,
        connection: usize,
        commands: &[Words],
    ) -> Result<[Vec<Reply>; 2], Stop> {
        let commands: Vec<&Words> = commands.iter().collect();
        let mut replies = [Vec::new(), Vec::new()];
        if commands.is_empty() {
            return Ok(replies);
        }
        for side in 0..2 {
            self.send(side, at, connection, &commands)?;
        }
        for words in commands {
            let [left, right] = self.receive_both(at, connection, words)?;
            replies[0].push(left);
            replies[1].push(right);
        }
        Ok(replies)
    }

    /// The next reply of each server.
    fn receive_both(
        &mut self,
        at: usize,
        connection: usize,
        words: &Words,
    ) -> Result<[Reply; 2], Stop> {
        let left = self.sides[0].connections[connection].receive();
        // Who waits for the first has waited for the second too.
        let right = match left.as_ref().is_err_and(is_timeout) {
            true => self.sides[1].connections[connection]
                .receive_within(Duration::from_millis(200))
                .and_then(|reply| reply.ok_or_else(|| ErrorKind::TimedOut.into())),
            false => self.sides[1].connections[connection].receive(),
        };
        match (left, right) {
            (Ok(left), Ok(right)) => Ok([left, right]),
            (Err(left), Err(right)) if is_timeout(&left) && is_timeout(&right) => {
                Err(Stop::BothWait(line_of(words)))
            }
            (Err(error), _) => Err(self.gone(0, at, words, &error)),
            (_, Err(error)) => Err(self.gone(1, at, words, &error)),
        }
    }

    /// A server that does not answer as servers do.
    fn gone(&mut self, side: usize, at: usize, words: &Words, error: &io::Error) -> Stop {
        // A process that has just broken off may take a moment to end.
        std::thread::sleep(Duration::from_millis(if is_timeout(error) { 0 } else { 50 }));
        let server = &mut self.sides[side].server;
        let mut text = in_words(error);
        if server.has_ended() {
            text = format!("the server has ended: {}", server.last_words());
        }
        let other = "answers, or was not waited for".to_owned();
        let [left, right] = if side == 0 { [text, other] } else { [other, text] };
        let name = name_of(words);
        let signature = format!("{name}: {} gone", ["first", "second"][side]);
        let place = line_of(words);
        Stop::Difference(Box::new(Difference::of_texts(at, signature, place, &left, &right)))
    }
}

/// Steps that can be sent together; 0 where the first is a command that settles by itself.
fn batch_len(steps: &[Step], pipeline: usize) -> usize {
    let fits = |step: &&Step| match (step, &steps[0]) {
        (Step::Send { connection, rule, .. }, Step::Send { connection: first, .. }) => {
            connection == first && !rule.settles()
        }
        _ => false,
    };
    steps.iter().take(pipeline).take_while(fits).count()
}

fn is_unknown(reply: &Reply) -> bool {
    match reply {
        Reply::Error(text) => text.starts_with(b"ERR unknown command"),
        _ => false,
    }
}

/// Whether CLIENT LIST shows a client that blocks.
fn is_blocked(shown: &Reply) -> bool {
    let text = shown.bytes().unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let flags = text.split(' ').find_map(|field| field.strip_prefix("flags="));
    flags.is_some_and(|flags| flags.contains('b'))
}

fn is_timeout(error: &io::Error) -> bool {
    error.kind() == ErrorKind::TimedOut
}
