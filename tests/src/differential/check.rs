//! The full check: everything that both servers hold is compared.
//!
//! For each key of databases 0 and 1: type, expire time, encoding, contents and, where both servers
//! have it, the digest. Contents without an order are compared without one.

use std::time::Duration;

use crate::differential::difference::{Difference, Stop};
use crate::differential::duel::Duel;
use crate::differential::patience::Patience;
use crate::differential::plan::Words;
use crate::differential::reply::{Reply, line_of, quoted};
use crate::differential::rule::{Rule, agree, pairs, short_string, stays_small, unordered};
use crate::differential::side::INSPECTOR;

/// Databases that commands reach.
const DATABASES: [&str; 2] = ["0", "1"];

/// Time in which what is due must have gone.
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// Times of commands that blink are below this.
const BLINK_MAX: Duration = Duration::from_millis(5);

/// Longest string that may be `embstr`. Where `raw` begins hangs on the key in Redis 8.2, and Osmia
/// has a boundary of its own.
const EMBEDDED_MAX: usize = 64;

fn command(words: &[&[u8]]) -> Words {
    words.iter().map(|word| word.to_vec()).collect()
}

fn text_command(text: &str) -> Words {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

impl Duel {
    /// Compares all that the servers hold.
    pub(super) fn check(&mut self, at: usize) -> Result<(), Stop> {
        for database in DATABASES {
            self.ask_both(at, INSPECTOR, &[command(&[b"SELECT", database.as_bytes()])])?;
            let [left, right] = self.ask_both(at, INSPECTOR, &[text_command("KEYS *")])?;
            let (left, right) = (unordered(&left[0]), unordered(&right[0]));
            if left != right {
                return self.state_differs(
                    at,
                    "keys",
                    format!("the keys of database {database}"),
                    &left,
                    &right,
                );
            }
            for chunk in left.scalars().chunks(50) {
                self.check_keys(at, chunk)?;
            }
        }
        self.ask_both(at, INSPECTOR, &[text_command("SELECT 0")]).map(|_| ())
    }

    fn check_keys(&mut self, at: usize, keys: &[Vec<u8>]) -> Result<(), Stop> {
        let types = keys.iter().map(|key| command(&[b"TYPE", key]));
        let [types, other] = self.ask_both(at, INSPECTOR, &types.collect::<Vec<_>>())?;
        for (key, (left, right)) in keys.iter().zip(types.iter().zip(&other)) {
            if left != right {
                return self.state_differs(
                    at,
                    "type",
                    format!("TYPE of {}", quoted(key)),
                    left,
                    right,
                );
            }
        }
        let facts: Vec<Fact> =
            keys.iter().zip(&types).flat_map(|(key, kind)| facts(key, kind)).collect();
        let commands: Vec<Words> = facts.iter().map(|fact| fact.command.clone()).collect();
        let [lefts, rights] = self.ask_both(at, INSPECTOR, &commands)?;
        for (index, fact) in facts.iter().enumerate() {
            let packing_is_open = fact.what == "encoding"
                && short_string(&lefts[index])
                && short_string(&rights[index])
                && lefts[index + 1].bytes().is_some_and(|value| value.len() <= EMBEDDED_MAX);
            let stays = fact.what == "encoding" && stays_small(&lefts[index], &rights[index]);
            if !packing_is_open && !stays {
                self.check_fact(at, fact, &lefts[index], &rights[index])?;
            }
        }
        self.check_field_times(at, &facts, &lefts)
    }

    fn check_fact(
        &mut self,
        at: usize,
        fact: &Fact,
        left: &Reply,
        right: &Reply,
    ) -> Result<(), Stop> {
        // What one of the servers does not have, or keeps for itself, cannot be compared.
        let lacks = |reply: &Reply| fact.is_debug && reply.is_error();
        if lacks(left) || lacks(right) || agree(fact.rule, left, right) {
            return Ok(());
        }
        let shown = |reply: &Reply| match fact.rule {
            Rule::Unordered => unordered(reply),
            Rule::Pairs => pairs(reply),
            _ => reply.clone(),
        };
        let what = format!("{} of {}", fact.what, fact.kind);
        self.state_differs(at, &what, line_of(&fact.command), &shown(left), &shown(right))
    }

    /// The times of all fields of the hashes among the facts.
    fn check_field_times(
        &mut self,
        at: usize,
        facts: &[Fact],
        replies: &[Reply],
    ) -> Result<(), Stop> {
        let mut commands = Vec::new();
        for (fact, reply) in facts.iter().zip(replies) {
            let fields: Vec<Vec<u8>> = reply.scalars().into_iter().step_by(2).collect();
            if fact.command[0] == b"HGETALL" && !fields.is_empty() {
                let count = fields.len().to_string().into_bytes();
                let mut words = command(&[b"HPEXPIRETIME", &fact.command[1], b"FIELDS", &count]);
                words.extend(fields);
                commands.push(words);
            }
        }
        let [lefts, rights] = self.ask_both(at, INSPECTOR, &commands)?;
        for (words, (left, right)) in commands.iter().zip(lefts.iter().zip(&rights)) {
            // Without the command there are no such times.
            let known = !left.is_error() && !right.is_error();
            if known && !agree(Rule::Milliseconds, left, right) {
                return self.state_differs(
                    at,
                    "times of fields of hash",
                    line_of(words),
                    left,
                    right,
                );
            }
        }
        Ok(())
    }

    fn state_differs(
        &mut self,
        at: usize,
        what: &str,
        place: String,
        left: &Reply,
        right: &Reply,
    ) -> Result<(), Stop> {
        let place = format!("in the full check: {place}");
        let mut difference = Difference::of_texts(
            at,
            format!("state: {what}"),
            place,
            &left.to_string(),
            &right.to_string(),
        );
        difference.in_state = true;
        self.differs(difference)
    }

    /// Waits until what blinks is due, and until both servers have removed it.
    pub(super) fn pause(&mut self, at: usize) -> Result<(), Stop> {
        std::thread::sleep(BLINK_MAX);
        let patience = Patience::of(PAUSE_MAX);
        for side in 0..2 {
            while let Some(rest) = self.overdue(side, at)? {
                if patience.is_over() {
                    let mut texts = ["removes it", "removes it"];
                    texts[side] = &rest;
                    let signature = "state: what is due stays".to_owned();
                    let place = format!("after {} seconds", PAUSE_MAX.as_secs());
                    let difference = Difference::of_texts(at, signature, place, texts[0], texts[1]);
                    return Err(Stop::Difference(Box::new(difference)));
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(())
    }

    /// What is still counted though it can no longer be seen.
    fn overdue(&mut self, side: usize, at: usize) -> Result<Option<String>, Stop> {
        let mut found = None;
        for database in DATABASES {
            self.ask(side, at, INSPECTOR, &command(&[b"SELECT", database.as_bytes()]))?;
            let keys = self.ask(side, at, INSPECTOR, &text_command("KEYS *"))?.scalars();
            let counted = self.ask(side, at, INSPECTOR, &text_command("DBSIZE"))?;
            if counted.integer() != Some(keys.len() as i64) {
                found = Some(format!("DBSIZE {counted}, KEYS * finds {}", keys.len()));
            }
            for key in keys.iter().filter(|key| key.starts_with(b"h:") || key.starts_with(b"r:")) {
                let fields = self.ask(side, at, INSPECTOR, &command(&[b"HKEYS", key]))?;
                let counted = self.ask(side, at, INSPECTOR, &command(&[b"HLEN", key]))?;
                let seen = fields.elements().map_or(0, <[Reply]>::len);
                if !counted.is_error() && counted.integer() != Some(seen as i64) {
                    found = Some(format!("HLEN of {} {counted}, HKEYS finds {seen}", quoted(key)));
                }
            }
        }
        self.ask(side, at, INSPECTOR, &text_command("SELECT 0"))?;
        Ok(found)
    }
}

/// A question about a key.
struct Fact {
    what: &'static str,
    kind: String,
    command: Words,
    rule: Rule,
    is_debug: bool,
}

/// What is asked about a key of a type; its contents follow its encoding.
fn facts(key: &[u8], kind: &Reply) -> Vec<Fact> {
    let kind = String::from_utf8_lossy(&kind.bytes().unwrap_or_default()).into_owned();
    let fact = |what, words: &[&[u8]], rule| Fact {
        what,
        kind: kind.clone(),
        command: command(words),
        rule,
        is_debug: words[0] == b"DEBUG",
    };
    let mut facts = vec![
        fact("time", &[b"PEXPIRETIME", key], Rule::Milliseconds),
        fact("encoding", &[b"OBJECT", b"ENCODING", key], Rule::Exact),
    ];
    let contents: &[(&[&[u8]], Rule)] = match kind.as_str() {
        "string" => &[(&[b"GET", key], Rule::Exact)],
        "list" => &[(&[b"LRANGE", key, b"0", b"-1"], Rule::Exact)],
        "set" => &[(&[b"SMEMBERS", key], Rule::Unordered)],
        "hash" => &[(&[b"HGETALL", key], Rule::Pairs)],
        "zset" => &[(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"], Rule::Exact)],
        "stream" => &[
            (&[b"XRANGE", key, b"-", b"+"], Rule::Exact),
            (&[b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"], Rule::Details),
        ],
        // A key that has gone since TYPE was asked.
        _ => return Vec::new(),
    };
    facts.extend(contents.iter().map(|(words, rule)| fact("contents", words, *rule)));
    facts.push(fact("digest", &[b"DEBUG", b"DIGEST-VALUE", key], Rule::Exact));
    facts
}
