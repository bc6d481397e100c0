//! What some clients have asked and been told, in the order of time, and the question whether it
//! could have come from one keyspace.
//!
//! The search is stateright's. It goes through the orders depth first and does not know when it
//! comes to a place where it has been; so the model remembers (operations done, keyspace) and
//! refuses the step that leads there again. That keeps the search short for histories that have
//! no order, too.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

use super::model::{Command, Keyspace};

/// The most operations of a history that is checked.
const CHECKED_MAX: usize = 128;

/// An operation by its number.
pub(crate) type OpNumber = usize;

/// Invocations and returns as they came.
pub(crate) struct History {
    pub(crate) names: Vec<String>,
    /// Keys lie on these many shards in turn.
    shards: usize,
    operations: Vec<Operation>,
    events: Vec<Event>,
}

struct Operation {
    client: u64,
    command: Command,
}

enum Event {
    Invoked(OpNumber),
    Returned(OpNumber, String),
}

impl History {
    /// One in which nothing has happened to the keys of these names, which lie on the shards in
    /// turn.
    pub(crate) fn new(names: Vec<String>, shards: usize) -> Self {
        Self { names, shards, operations: Vec::new(), events: Vec::new() }
    }

    /// A client is about to send.
    pub(crate) fn invoked(&mut self, client: u64, command: Command) -> OpNumber {
        let number = self.operations.len();
        self.operations.push(Operation { client, command });
        self.events.push(Event::Invoked(number));
        number
    }

    /// The reply that tells what has happened has come.
    pub(crate) fn returned(&mut self, number: OpNumber, reply: String) {
        self.events.push(Event::Returned(number, reply));
    }

    /// Commands with their replies.
    pub(crate) fn completed(&self) -> impl Iterator<Item = (&Command, &str)> {
        self.events.iter().filter_map(|event| match event {
            Event::Returned(number, reply) => Some((&self.operations[*number].command, &**reply)),
            Event::Invoked(_) => None,
        })
    }

    /// Whether there is an order of the operations, each at an instant between its invocation and
    /// its return, in which one keyspace gives these replies. What never returned may have
    /// happened or not: to the checker it returns at the very end, with any reply.
    pub(crate) fn is_linearizable(&self) -> bool {
        assert!(self.operations.len() <= CHECKED_MAX, "a history too long to check");
        let mut unknown: BTreeSet<OpNumber> = (0..self.operations.len()).collect();
        for event in &self.events {
            if let Event::Returned(number, _) = event {
                unknown.remove(number);
            }
        }
        let mut tester = LinearizabilityTester::new(Spec::default());
        let mut lanes = Lanes::default();
        for event in &self.events {
            let noted = match event {
                Event::Invoked(number) if unknown.contains(number) => {
                    tester.on_invoke(Lane::Unknown(*number), Rc::new(self.step(*number)))
                }
                Event::Invoked(number) => {
                    let lane = lanes.take(self.operations[*number].client, *number);
                    tester.on_invoke(lane, Rc::new(self.step(*number)))
                }
                Event::Returned(number, reply) => {
                    let lane = lanes.give(self.operations[*number].client, *number);
                    tester.on_return(lane, Some(reply.as_str().into()))
                }
            };
            noted.expect("one operation at a time in a lane");
        }
        for number in unknown {
            let noted = tester.on_return(Lane::Unknown(number), None);
            noted.expect("an operation that was under way");
        }
        tester.is_consistent()
    }

    fn step(&self, number: OpNumber) -> Step {
        let Operation { client, command } = &self.operations[number];
        let earlier = self.operations[..number].iter().enumerate();
        let bound = earlier.filter(|(_, other)| {
            other.client == *client && !self.may_swap(command, &other.command)
        });
        let after = bound.fold(0, |after, (number, _)| after | 1 << number);
        Step { number, client: *client, command: command.clone(), after }
    }

    /// Whether two commands that a client sends without waiting may be done in either order:
    /// reads that are under way to one shard each, not the same one.
    fn may_swap(&self, a: &Command, b: &Command) -> bool {
        let only_shard = |command: &Command| {
            let mut shards = command.read_keys().iter().map(|key| key % self.shards);
            let first = shards.next()?;
            shards.all(|shard| shard == first).then_some(first)
        };
        let (a, b) = (only_shard(a), only_shard(b));
        a.is_some() && b.is_some() && a != b
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for event in &self.events {
            let (Event::Invoked(number) | Event::Returned(number, _)) = event;
            let Operation { client, command } = &self.operations[*number];
            match event {
                Event::Invoked(_) => {
                    writeln!(f, "client {client}, {number:2} > {}", command.text(&self.names))?;
                }
                Event::Returned(_, reply) => {
                    writeln!(f, "client {client}, {number:2} < {}", reply.escape_debug())?;
                }
            }
        }
        Ok(())
    }
}

/// A thread in the tester's sense. It tries them in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    /// A client has one for each operation that it has under way.
    Known(u64, usize),
    /// An operation that never returned.
    Unknown(OpNumber),
}

/// The operations that clients have under way, by lane.
#[derive(Default)]
struct Lanes(BTreeMap<u64, Vec<Option<OpNumber>>>);

impl Lanes {
    fn take(&mut self, client: u64, number: OpNumber) -> Lane {
        let lanes = self.0.entry(client).or_default();
        let lane = lanes.iter().position(Option::is_none).unwrap_or(lanes.len());
        lanes.resize(lanes.len().max(lane + 1), None);
        lanes[lane] = Some(number);
        Lane::Known(client, lane)
    }

    fn give(&mut self, client: u64, number: OpNumber) -> Lane {
        let lanes = self.0.entry(client).or_default();
        let lane = lanes.iter().position(|lane| *lane == Some(number)).expect("it was taken");
        lanes[lane] = None;
        Lane::Known(client, lane)
    }
}

/// An operation as the tester has it.
#[derive(Debug)]
struct Step {
    number: OpNumber,
    client: u64,
    command: Command,
    /// Those of its client that must have happened, a bit for each.
    after: u128,
}

/// The keyspace after some operations.
#[derive(Clone, Default)]
struct Spec {
    keyspace: Keyspace,
    /// The operations, a bit for each.
    done: u128,
    /// Where the search has been.
    tried: Rc<RefCell<BTreeSet<(u128, Keyspace)>>>,
}

impl SequentialSpec for Spec {
    type Op = Rc<Step>;
    /// `None` is any reply.
    type Ret = Option<Rc<str>>;

    fn invoke(&mut self, op: &Self::Op) -> Self::Ret {
        self.done |= 1 << op.number;
        Some(self.keyspace.run(op.client, &op.command).into())
    }

    fn is_valid_step(&mut self, op: &Self::Op, ret: &Self::Ret) -> bool {
        let is_in_order = op.after & !self.done == 0;
        let reply = self.invoke(op);
        is_in_order
            && (ret.is_none() || reply == *ret)
            && self.tried.borrow_mut().insert((self.done, self.keyspace.clone()))
    }
}

#[test]
fn a_history_without_an_order_is_found() {
    let names = || vec!["a".to_owned(), "b".to_owned()];
    let nil = "*2\r\n$-1\r\n$-1\r\n";
    let half = "*2\r\n$1\r\n1\r\n$-1\r\n";
    let both = "*2\r\n$1\r\n1\r\n$1\r\n1\r\n";
    let check = |reads: &[&str], expected: bool| {
        let mut history = History::new(names(), 2);
        let write = history.invoked(0, Command::MSet(vec![(0, 1), (1, 1)]));
        for reply in reads {
            let read = history.invoked(1, Command::MGet(vec![0, 1]));
            history.returned(read, (*reply).to_owned());
        }
        history.returned(write, "+OK\r\n".to_owned());
        assert_eq!(history.is_linearizable(), expected, "{reads:?}");
    };
    check(&[nil, both, both], true);
    check(&[nil, nil], true);
    check(&[nil, both, nil], false);
    check(&[half], false);
}

#[test]
fn a_reply_from_before_the_invocation_is_found() {
    let mut history = History::new(vec!["a".to_owned()], 1);
    let write = history.invoked(0, Command::Set(0, 1));
    history.returned(write, "+OK\r\n".to_owned());
    let read = history.invoked(1, Command::Get(0));
    history.returned(read, "$-1\r\n".to_owned());
    assert!(!history.is_linearizable());
}

#[test]
fn what_never_returned_may_have_happened_in_the_order_it_was_sent() {
    let check = |read: &str, expected: bool| {
        let mut history = History::new(vec!["a".to_owned(), "b".to_owned()], 2);
        history.invoked(0, Command::Set(0, 1));
        history.invoked(0, Command::Set(1, 2));
        let get = history.invoked(1, Command::MGet(vec![0, 1]));
        history.returned(get, read.to_owned());
        assert_eq!(history.is_linearizable(), expected, "{read:?}");
    };
    check("*2\r\n$-1\r\n$-1\r\n", true);
    check("*2\r\n$1\r\n1\r\n$-1\r\n", true);
    check("*2\r\n$1\r\n1\r\n$1\r\n2\r\n", true);
    check("*2\r\n$-1\r\n$1\r\n2\r\n", false);
}
