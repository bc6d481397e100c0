//! The plan of a round: all its steps, from the seed alone.
//!
//! A round begins with a value of every type, then draws forms of its family by weight. One command
//! in a dozen is spoiled. Some go into transactions, with keys watched and changed by another
//! connection; some block on connections of their own while the main one goes on.

use crate::differential::families::{COMMON, FIRST, Family};
use crate::differential::grammar::{Sequence, draws, expand, parse};
use crate::differential::material::{Level, Material, Pool, hostile};
use crate::differential::reply::line_of;
use crate::differential::rule::Rule;
use crate::random::Random;

use super::grammar::Node;

/// The connection that most commands take.
pub const MAIN: usize = 0;
/// The connection that changes what a transaction watches.
pub const OTHER: usize = 1;
/// The connections that block.
pub const BLOCKING: [usize; 2] = [2, 3];

/// One command more or less is spoiled in so many.
const SPOILED_ONE_IN: usize = 12;

/// Words of a request.
pub type Words = Vec<Vec<u8>>;

/// What is done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sends a command; what follows may be sent before the reply is there.
    Send {
        /// On which connection.
        connection: usize,
        /// The command.
        words: Words,
        /// How the replies compare.
        rule: Rule,
    },
    /// Sends a command and waits until it is answered or blocks.
    Block {
        /// On which connection.
        connection: usize,
        /// The command.
        words: Words,
        /// How the replies compare.
        rule: Rule,
    },
    /// Ends the wait of a connection that blocks, and takes its reply.
    Unblock {
        /// Which connection.
        connection: usize,
        /// Whether it gets an error instead of a null.
        error: bool,
    },
    /// Waits until everything that is due has gone.
    Pause,
    /// Compares all that the servers hold.
    Check,
}

impl Step {
    /// The command, if it is one.
    pub fn words(&self) -> Option<&Words> {
        match self {
            Self::Send { words, .. } | Self::Block { words, .. } => Some(words),
            _ => None,
        }
    }

    /// The command, if it is one.
    pub fn words_mut(&mut self) -> Option<&mut Words> {
        match self {
            Self::Send { words, .. } | Self::Block { words, .. } => Some(words),
            _ => None,
        }
    }

    /// The step as a line of a report.
    pub fn display(&self) -> String {
        let from = |connection: usize| match connection {
            MAIN => String::new(),
            other => format!("[connection {other}] "),
        };
        match self {
            Self::Send { connection, words, .. } => {
                format!("{}{}", from(*connection), line_of(words))
            }
            Self::Block { connection, words, .. } => {
                format!("{}{} (blocks)", from(*connection), line_of(words))
            }
            Self::Unblock { connection, error } => {
                let how = if *error { "ERROR" } else { "TIMEOUT" };
                format!("CLIENT UNBLOCK (id of connection {connection}) {how}")
            }
            Self::Pause => "(a pause of some milliseconds)".to_owned(),
            Self::Check => "(full check)".to_owned(),
        }
    }
}

/// How the servers are set for a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The thresholds.
    pub level: Level,
    /// 2 or 3.
    pub protocol: u8,
    /// Most commands that are sent before their replies are read.
    pub pipeline: usize,
    /// What is sent before all else.
    pub setup: &'static [&'static str],
}

/// How plans are made.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Commands of a round.
    pub commands: usize,
    /// Commands between two full checks.
    pub check_every: usize,
    /// The one protocol version, or both in turn.
    pub protocol: Option<u8>,
    /// Transactions begun in a hundred commands.
    pub multi: usize,
    /// Blocking commands in a hundred.
    pub blocked: usize,
}

/// A form, read.
#[derive(Clone, Debug)]
struct Form {
    sequence: Sequence,
    rule: Rule,
    weight: usize,
    blinks: bool,
    waits: bool,
    timed: bool,
    intact: bool,
}

/// The forms of a family, without those of commands that one server does not know.
#[derive(Clone, Debug)]
pub struct Grammar {
    family: Family,
    first: Vec<Sequence>,
    forms: Vec<Form>,
    weights: usize,
}

/// Commands whose second word is a command of its own.
const CONTAINERS: [&str; 5] = ["OBJECT", "XGROUP", "XINFO", "MEMORY", "CLIENT"];

/// The name of a command, that of its subcommand included.
pub fn name_of(words: &[Vec<u8>]) -> String {
    let upper = |word: &Vec<u8>| String::from_utf8_lossy(word).to_uppercase();
    let name = words.first().map(upper).unwrap_or_default();
    match words.get(1) {
        Some(second) if CONTAINERS.contains(&name.as_str()) => format!("{name} {}", upper(second)),
        _ => name,
    }
}

/// The name of the command that a template is of.
fn name_of_sequence(sequence: &[Node]) -> String {
    let word = |node: &Node| match node {
        Node::Word(word) => Some(word.clone().into_bytes()),
        _ => None,
    };
    let words: Words = sequence.iter().map_while(word).collect();
    name_of(&words)
}

impl Grammar {
    /// Reads the forms of a family.
    pub fn of(family: Family) -> Self {
        let read = |template: &str| parse(template).expect("a test reads all templates");
        let first = FIRST.iter().chain(family.first).map(|template| read(template)).collect();
        let form = |row: &super::families::Row| {
            let sequence = read(row.template);
            Form {
                blinks: draws(&sequence, Pool::is_blink),
                waits: draws(&sequence, Pool::is_wait),
                timed: draws(&sequence, Pool::is_time),
                sequence,
                rule: row.rule,
                weight: row.weight,
                intact: row.intact,
            }
        };
        let forms: Vec<Form> = family.rows.iter().chain(COMMON).map(form).collect();
        let weights = forms.iter().map(|form| form.weight).sum();
        Self { family, first, forms, weights }
    }

    /// The commands in it.
    pub fn names(&self) -> Vec<String> {
        let forms = self.forms.iter().map(|form| &form.sequence);
        let mut names: Vec<String> =
            forms.chain(&self.first).map(|sequence| name_of_sequence(sequence)).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Keeps the commands for which this holds.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.forms.retain(|form| keep(&name_of_sequence(&form.sequence)));
        self.first.retain(|sequence| keep(&name_of_sequence(sequence)));
        self.weights = self.forms.iter().map(|form| form.weight).sum();
    }

    /// Whether nothing is left of it.
    pub fn is_empty(&self) -> bool {
        self.weights == 0
    }

    /// The name of the family.
    pub fn family_name(&self) -> &'static str {
        self.family.name
    }

    /// The plan of a round.
    pub fn plan(&self, seed: u64, round: usize, habits: &Habits) -> (Setting, Vec<Step>) {
        let name = self.family.name.bytes().fold(0, |sum: u64, byte| sum * 31 + u64::from(byte));
        let mut random = Random::new(seed ^ (name << 20) ^ ((round as u64) << 40));
        let level = [Level::Low, Level::Default, Level::Low, Level::High][round % 4];
        let setting = Setting {
            level,
            protocol: habits.protocol.unwrap_or(2 + (round / 4 % 2) as u8),
            pipeline: *random.pick(&[1, 5, 20, 60]),
            setup: self.family.setup,
        };
        let material = Material::new(level, &mut random).of(self.family.own);
        let mut planner = Planner { grammar: self, random, material, steps: Vec::new() };
        planner.fill(habits);
        (setting, planner.steps)
    }
}

struct Planner<'a> {
    grammar: &'a Grammar,
    random: Random,
    material: Material,
    steps: Vec<Step>,
}

impl<'a> Planner<'a> {
    fn fill(&mut self, habits: &Habits) {
        let grammar = self.grammar;
        for sequence in &grammar.first {
            let words = self.words(sequence);
            self.send(MAIN, words, Rule::Exact);
        }
        let mut next_check = habits.check_every;
        while self.steps.len() < habits.commands {
            match self.random.below(100) {
                percent if percent < habits.multi => self.transaction(),
                percent if percent < habits.multi + habits.blocked => self.blocking(),
                _ => self.command(),
            }
            if self.steps.len() >= next_check {
                self.steps.push(Step::Check);
                next_check = self.steps.len() + habits.check_every;
            }
        }
        self.steps.push(Step::Check);
    }

    fn send(&mut self, connection: usize, mut words: Words, rule: Rule) {
        keep_off(&mut words, rule);
        self.steps.push(Step::Send { connection, words, rule });
    }

    fn send_text(&mut self, connection: usize, text: &str) {
        let words = text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        self.send(connection, words, Rule::Exact);
    }

    fn words(&mut self, sequence: &[Node]) -> Words {
        let mut words = Words::new();
        expand(sequence, &mut self.material, &mut self.random, &mut words);
        words
    }

    /// A form by weight.
    fn form(&mut self) -> &'a Form {
        let grammar = self.grammar;
        let mut rest = self.random.below(grammar.weights);
        for form in &grammar.forms {
            match rest.checked_sub(form.weight) {
                None => return form,
                Some(left) => rest = left,
            }
        }
        unreachable!("the weights add up to their sum")
    }

    fn command(&mut self) {
        let form = self.form();
        let mut words = self.words(&form.sequence);
        if !form.intact && self.random.once_in(SPOILED_ONE_IN) {
            spoil(&mut words, form, &mut self.random);
        }
        self.send(MAIN, words, form.rule);
        if form.blinks {
            self.steps.push(Step::Pause);
        }
    }

    /// A command whose comparison takes no commands, and no time.
    fn plain_command(&mut self, connection: usize) {
        for _ in 0..20 {
            let form = self.form();
            if form.rule.settles() || form.blinks {
                continue;
            }
            let mut words = self.words(&form.sequence);
            if !form.intact && self.random.once_in(SPOILED_ONE_IN) {
                spoil(&mut words, form, &mut self.random);
            }
            // Where a transaction ends by SELECT the other connection would go on elsewhere.
            if connection == MAIN || words[0] != b"SELECT" {
                self.send(connection, words, form.rule);
            }
            return;
        }
    }

    fn transaction(&mut self) {
        let watches = self.random.once_in(3);
        if watches {
            let mut words = vec![b"WATCH".to_vec()];
            for _ in 0..1 + self.random.below(2) {
                self.material.draw(Pool::Own, &mut self.random, &mut words);
            }
            self.send(MAIN, words, Rule::Exact);
        }
        if watches && self.random.once_in(2) {
            self.plain_command(OTHER);
        }
        self.send_text(MAIN, "MULTI");
        for _ in 0..self.random.below(6) {
            self.plain_command(MAIN);
        }
        if self.random.once_in(4) {
            self.plain_command(OTHER);
        }
        let end =
            *self.random.pick(&["EXEC", "EXEC", "EXEC", "EXEC", "EXEC", "DISCARD", "EXEC now"]);
        self.send_text(MAIN, end);
        if end == "EXEC now" {
            self.send_text(MAIN, "EXEC");
        }
        if self.random.once_in(20) {
            let stray = *self.random.pick(&["EXEC", "DISCARD", "UNWATCH"]);
            self.send_text(MAIN, stray);
        }
    }

    /// One or two connections block; the main one changes something; the wait is ended.
    fn blocking(&mut self) {
        let waiting: Vec<&'a Form> = self.grammar.forms.iter().filter(|form| form.waits).collect();
        if waiting.is_empty() {
            return self.command();
        }
        let blocked = &BLOCKING[..1 + self.random.below(2)];
        self.material.waits = true;
        for connection in blocked {
            let form = self.random.pick(&waiting).to_owned();
            let words = self.words(&form.sequence);
            self.steps.push(Step::Block { connection: *connection, words, rule: form.rule });
        }
        self.material.waits = false;
        for _ in 0..1 + self.random.below(5) {
            match self.random.below(6) {
                0 => self.transaction(),
                _ => self.command(),
            }
        }
        for connection in blocked {
            let error = self.random.once_in(2);
            self.steps.push(Step::Unblock { connection: *connection, error });
        }
    }
}

/// Changes a command that is answered otherwise by design, as docs/DIFFERENCES.md tells, to one that
/// is not.
fn keep_off(words: &mut Words, rule: Rule) {
    let name = name_of(words);
    let number = |word: &Vec<u8>| std::str::from_utf8(word).ok()?.parse::<f64>().ok();
    let beyond_i32 = |word: &Vec<u8>| number(word).is_some_and(|index| index.abs() > 2e9);
    match name.as_str() {
        "LSET" => {
            if let Some(index) = words.get_mut(2).filter(|word| beyond_i32(word)) {
                *index = b"0".to_vec();
            }
        }
        _ if name.starts_with('Z') => {
            let is_minus_zero =
                |word: &Vec<u8>| number(word).is_some_and(|score| score.to_bits() == 1 << 63);
            for word in words.iter_mut().filter(|word| is_minus_zero(word)) {
                *word = b"0".to_vec();
            }
        }
        "HSETEX" => {
            let at = words.iter().position(|word| {
                word.eq_ignore_ascii_case(b"PXAT") || word.eq_ignore_ascii_case(b"EXAT")
            });
            if let Some(time) = at.and_then(|at| words.get_mut(at + 1))
                && number(time).is_some_and(|time| (0.0..1e9).contains(&time))
            {
                *time = b"5000000000500".to_vec();
            }
        }
        // The order of a set by no pattern is its own.
        "SORT" | "SORT_RO" if rule != Rule::Unordered => {
            let is_set = words.get(1).is_some_and(|key| key.starts_with(b"u:"))
                && !words.iter().any(|word| word.eq_ignore_ascii_case(b"STORE"));
            let by = words.iter().position(|word| word.eq_ignore_ascii_case(b"BY"));
            if let Some(pattern) = by.and_then(|by| words.get_mut(by + 1))
                && !pattern.contains(&b'*')
                && (is_set || pattern != b"nosort")
            {
                *pattern = b"w_*".to_vec();
            }
        }
        _ => (),
    }
}

/// Makes a call wrong, or unusual: a word lost, doubled, moved, replaced or in other letters.
fn spoil(words: &mut Words, form: &Form, random: &mut Random) {
    let calm = form.waits || form.rule.settles();
    if words.len() < 2 || random.once_in(6) {
        let lower = random.once_in(2);
        for word in words.iter_mut().filter(|word| word.iter().all(u8::is_ascii_uppercase)) {
            match lower {
                true => word.make_ascii_lowercase(),
                false => word.iter_mut().skip(1).for_each(|byte| byte.make_ascii_lowercase()),
            }
        }
        return;
    }
    let at = 1 + random.below(words.len() - 1);
    match random.below(5) {
        0 => {
            words.remove(at);
        }
        1 => words.insert(at, words[at].clone()),
        2 if !form.timed && at + 1 < words.len() => words.swap(at, at + 1),
        _ => words[at] = hostile(random, calm),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differential::families;

    const HABITS: Habits =
        Habits { commands: 500, check_every: 100, protocol: None, multi: 5, blocked: 5 };

    #[test]
    fn plans_follow_from_the_seed() {
        for family in families::all() {
            let grammar = Grammar::of(family);
            assert_eq!(grammar.plan(7, 3, &HABITS), grammar.plan(7, 3, &HABITS));
            assert_ne!(grammar.plan(7, 3, &HABITS).1, grammar.plan(7, 4, &HABITS).1);
            assert_ne!(grammar.plan(7, 3, &HABITS).1, grammar.plan(8, 3, &HABITS).1);
        }
    }

    #[test]
    fn every_transaction_ends_and_every_wait_too() {
        let grammar = Grammar::of(families::named("list").expect("a family"));
        let (mut open, mut blocked) = (false, Vec::new());
        for step in grammar.plan(1, 0, &HABITS).1 {
            match step {
                Step::Send { connection: MAIN, words, .. } => match words[0].as_slice() {
                    b"MULTI" => open = true,
                    b"EXEC" | b"DISCARD" if words.len() == 1 => open = false,
                    _ => {}
                },
                Step::Block { connection, .. } => blocked.push(connection),
                Step::Unblock { connection, .. } => blocked.retain(|other| *other != connection),
                _ => {}
            }
        }
        assert!(!open && blocked.is_empty());
    }

    #[test]
    fn what_a_server_does_not_know_is_left_out() {
        let mut grammar = Grammar::of(families::named("stream").expect("a family"));
        assert!(grammar.names().contains(&"XINFO STREAM".to_owned()));
        grammar.retain(|name| !name.starts_with('X'));
        assert!(!grammar.names().contains(&"XINFO STREAM".to_owned()) && !grammar.is_empty());
        for step in grammar.plan(1, 0, &HABITS).1 {
            assert!(step.words().is_none_or(|words| words[0][0] != b'X'), "{}", step.display());
        }
    }
}
