//! Commands whose outcome is not one: random choices, iterations, ids from the clock, payloads.
//!
//! Each is sent on its own. What one server chose is checked against the other one, and then both
//! are brought to the same state again.

use std::collections::BTreeSet;

use crate::differential::difference::{Difference, Stop};
use crate::differential::duel::Duel;
use crate::differential::plan::{Words, name_of};
use crate::differential::reply::Reply;
use crate::differential::rule::Rule;

/// What a walk has found: a member, with its value where there is one, each once.
type Found = BTreeSet<Vec<Vec<u8>>>;

/// Calls of one iteration.
const CALLS_MAX: usize = 100_000;

/// Prefix of keys that come and go while SCAN runs.
const NOISE: &str = "noise:";

impl Duel {
    pub(super) fn settle(
        &mut self,
        at: usize,
        connection: usize,
        words: &Words,
        rule: Rule,
    ) -> Result<(), Stop> {
        match rule {
            Rule::AutoId => self.auto_id(at, connection, words),
            Rule::Scan => self.scan(at, connection, words),
            _ => {
                let [left, right] = self.ask_both(at, connection, std::slice::from_ref(words))?;
                let (left, right) = (&left[0], &right[0]);
                let shape = |reply: &Reply| (reply.kind(), reply.scalars().len());
                if left.is_error() || shape(left) != shape(right) {
                    return self.judge(at, connection, words, Rule::Exact, left, right);
                }
                // Of the same shape: counted as compared by its kind.
                self.judge(at, connection, words, Rule::Kind, left, right)?;
                match rule {
                    Rule::Pop => self.pop(at, connection, words, left, right),
                    Rule::Sample => self.sample(at, connection, words, left, right),
                    _ => self.restore(at, connection, left, right),
                }
            }
        }
    }

    /// Members that one server has lost are taken from the other one, which must have them.
    fn pop(
        &mut self,
        at: usize,
        connection: usize,
        words: &Words,
        left: &Reply,
        right: &Reply,
    ) -> Result<(), Stop> {
        let members = [left, right].map(|reply| BTreeSet::from_iter(reply.scalars()));
        let (left_count, right_count) = (left.scalars().len(), right.scalars().len());
        for side in 0..2 {
            let missing: Vec<Vec<u8>> =
                members[1 - side].difference(&members[side]).cloned().collect();
            if missing.is_empty() {
                continue;
            }
            let command = [vec![b"SREM".to_vec(), words[1].clone()], missing.clone()].concat();
            let removed = self.ask(side, at, connection, &command)?;
            if removed.integer() != Some(missing.len() as i64) {
                return self.odd(
                    at,
                    words,
                    left,
                    right,
                    "members that the other one does not have",
                );
            }
        }
        let once = members[0].len() == left_count && members[1].len() == right_count;
        if once { Ok(()) } else { self.odd(at, words, left, right, "a member twice") }
    }

    /// What one server has chosen must be there on the other one, with the same value.
    fn sample(
        &mut self,
        at: usize,
        connection: usize,
        words: &Words,
        left: &Reply,
        right: &Reply,
    ) -> Result<(), Stop> {
        for (side, reply) in [left, right].into_iter().enumerate() {
            let chosen = reply.scalars();
            if chosen.is_empty() {
                continue;
            }
            let paired = words.len() > 3;
            let members: Vec<Vec<u8>> =
                chosen.iter().step_by(1 + usize::from(paired)).cloned().collect();
            let (query, wanted) = probe(words, &members, &chosen, paired);
            let found = self.ask(1 - side, at, connection, &query)?;
            // Of what is not there SMISMEMBER and EXISTS say 0, the others null, which is no scalar.
            let found = found.scalars();
            let is_there = match query[0].as_slice() {
                b"SMISMEMBER" | b"EXISTS" => found.iter().all(|flag| flag == b"1"),
                _ => found.len() == members.len(),
            };
            if !is_there || wanted.is_some_and(|values| found != values) {
                return self.odd(at, words, left, right, "what the other one does not have");
            }
            let distinct = words.get(2).is_some_and(|count| !count.starts_with(b"-"));
            if distinct && BTreeSet::from_iter(&members).len() < members.len() {
                return self.odd(at, words, left, right, "a member twice");
            }
        }
        Ok(())
    }

    /// Each server restores the other one's payload at a key of its own.
    fn restore(
        &mut self,
        at: usize,
        connection: usize,
        left: &Reply,
        right: &Reply,
    ) -> Result<(), Stop> {
        let (Reply::Bulk(left), Reply::Bulk(right)) = (left, right) else { return Ok(()) };
        let command = |payload: &[u8]| {
            [&b"RESTORE"[..], b"r:0", b"0", payload, b"REPLACE"].map(<[u8]>::to_vec).to_vec()
        };
        let of_right = self.ask(0, at, connection, &command(right))?;
        let of_left = self.ask(1, at, connection, &command(left))?;
        let shown = command(b"(payload of the other one)");
        self.judge(at, connection, &shown, Rule::Exact, &of_right, &of_left)
    }

    /// One server chooses the id; the other one is told.
    fn auto_id(&mut self, at: usize, connection: usize, words: &Words) -> Result<(), Stop> {
        let first = words.iter().flatten().fold(0, |sum: usize, byte| sum + usize::from(*byte)) % 2;
        let chosen = self.ask(first, at, connection, words)?;
        let mut told = words.clone();
        if let (Some(id), Some(star)) = (chosen.bytes(), told.iter_mut().find(|word| *word == b"*"))
        {
            *star = id;
        }
        let answered = self.ask(1 - first, at, connection, &told)?;
        let [left, right] = if first == 0 { [chosen, answered] } else { [answered, chosen] };
        self.judge(at, connection, words, Rule::Exact, &left, &right)
    }

    /// Runs an iteration to its end on both servers. While a SCAN of keys runs, others come and go.
    fn scan(&mut self, at: usize, connection: usize, words: &Words) -> Result<(), Stop> {
        let mut found = [BTreeSet::new(), BTreeSet::new()];
        let mut first_replies = [Reply::Null, Reply::Null];
        for side in 0..2 {
            (first_replies[side], found[side]) = self.iterate(side, at, connection, words)?;
        }
        let [left, right] = &first_replies;
        if left.elements().is_none() || right.elements().is_none() {
            return self.judge(at, connection, words, Rule::Exact, left, right);
        }
        self.judge(at, connection, words, Rule::Kind, left, right)?;
        if found[0] == found[1] {
            return Ok(());
        }
        let only = |one: usize| {
            let units = found[one].difference(&found[1 - one]);
            Reply::Array(units.map(|unit| Reply::Bulk(unit.concat())).collect())
        };
        let mut difference = Difference::of_replies(at, words, &only(0), &only(1));
        difference.signature = format!("{}: found by one only", name_of(words));
        difference.place.push_str(" (found by this one only)");
        self.differs(difference)
    }

    /// All that an iteration finds, in units of a member or of a member and its value.
    fn iterate(
        &mut self,
        side: usize,
        at: usize,
        connection: usize,
        words: &Words,
    ) -> Result<(Reply, Found), Stop> {
        let name = name_of(words);
        let of_keys = name == "SCAN";
        let cursor_at = if of_keys { 1 } else { 2 };
        let has_word = |word: &[u8]| words.iter().any(|other| other.eq_ignore_ascii_case(word));
        let paired = name == "ZSCAN" || (name == "HSCAN" && !has_word(b"NOVALUES"));
        let noisy = of_keys && words.len().is_multiple_of(2);
        let (mut found, mut call, mut first) = (BTreeSet::new(), words.clone(), None);
        for round in 0..CALLS_MAX {
            if noisy {
                self.noise(side, at, connection, round)?;
            }
            let reply = self.ask(side, at, connection, &call)?;
            let page = match reply.elements() {
                Some([cursor, page]) => cursor.bytes().map(|cursor| (cursor, page.scalars())),
                _ => None,
            };
            first = first.or_else(|| Some(reply.clone()));
            let Some((cursor, page)) = page else { break };
            let units = page.chunks(1 + usize::from(paired)).map(<[Vec<u8>]>::to_vec);
            found.extend(units.filter(|unit| !unit[0].starts_with(NOISE.as_bytes())));
            if cursor == b"0" || call.len() <= cursor_at {
                break;
            }
            call[cursor_at] = cursor;
        }
        if noisy {
            let keys = (0..2 * CALLS_MAX.ilog2() as usize)
                .map(|index| format!("{NOISE}{index}").into_bytes());
            let command: Words = [b"DEL".to_vec()].into_iter().chain(keys).collect();
            self.ask(side, at, connection, &command)?;
        }
        Ok((first.unwrap_or(Reply::Null), found))
    }

    /// Keys that come and go: some are set, others are deleted, in a ring of few names.
    fn noise(
        &mut self,
        side: usize,
        at: usize,
        connection: usize,
        round: usize,
    ) -> Result<(), Stop> {
        let ring = 2 * CALLS_MAX.ilog2() as usize;
        for (name, shift, has_value) in [("SET", 0, true), ("SET", 7, true), ("DEL", 3, false)] {
            let key = format!("{NOISE}{}", (round * 5 + shift) % ring).into_bytes();
            let mut command = vec![name.as_bytes().to_vec(), key];
            command.extend(has_value.then(|| b"1".to_vec()));
            self.ask(side, at, connection, &command)?;
        }
        Ok(())
    }

    /// Replies of the same shape of which one cannot be.
    fn odd(
        &mut self,
        at: usize,
        words: &Words,
        left: &Reply,
        right: &Reply,
        what: &str,
    ) -> Result<(), Stop> {
        let mut difference = Difference::of_replies(at, words, left, right);
        difference.signature = format!("{}: {what}", name_of(words));
        difference.place.push_str(&format!(" (one answers {what})"));
        self.differs(difference)
    }
}

/// The command that tells whether members are there, and the values that it shall answer.
fn probe(
    words: &Words,
    members: &[Vec<u8>],
    chosen: &[Vec<u8>],
    paired: bool,
) -> (Words, Option<Vec<Vec<u8>>>) {
    let values = || chosen.iter().skip(1).step_by(2).cloned().collect();
    let (name, keyed) = match name_of(words).as_str() {
        "RANDOMKEY" => ("EXISTS", false),
        "SRANDMEMBER" => ("SMISMEMBER", true),
        "HRANDFIELD" => ("HMGET", true),
        _ => ("ZMSCORE", true),
    };
    let key = if keyed { words[1..2].to_vec() } else { Words::new() };
    let wanted = match name {
        "HMGET" | "ZMSCORE" if paired => Some(values()),
        _ => None,
    };
    ([vec![name.as_bytes().to_vec()], key, members.to_vec()].concat(), wanted)
}
