//! The families: which commands there are and how their calls look, one row for each form.
//!
//! Options stand in the order that the documentation gives them; the plan shuffles, drops and
//! spoils words now and then. A form whose answer is ordered stands apart from the one whose answer
//! is not.

mod geo;
mod hash;
mod keys;
mod list;
mod set;
mod stream;
mod string;
mod zset;

use crate::differential::material::Kind;
use crate::differential::rule::Rule;

/// A form of a command.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// See [`grammar`](crate::differential::grammar).
    pub template: &'static str,
    /// How the replies compare.
    pub rule: Rule,
    /// How often it comes, beside the others.
    pub weight: usize,
    /// Whether it is never spoiled: what it leaves must be as others rely on it.
    pub intact: bool,
}

const fn row(template: &'static str) -> Row {
    Row { template, rule: Rule::Exact, weight: 4, intact: false }
}

impl Row {
    const fn by(mut self, rule: Rule) -> Self {
        self.rule = rule;
        self
    }

    const fn intact(mut self) -> Self {
        self.intact = true;
        self
    }

    const fn weight(mut self, weight: usize) -> Self {
        self.weight = weight;
        self
    }
}

/// Commands that are tried together.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Its name on the command line.
    pub name: &'static str,
    /// The kind of its keys.
    pub own: Kind,
    /// Its forms.
    pub rows: &'static [Row],
    /// Commands that each round begins with, after those of [`FIRST`].
    pub first: &'static [&'static str],
    /// Commands on which all others rely, so that no shorter sequence may do without them.
    pub setup: &'static [&'static str],
}

const fn family(name: &'static str, own: Kind, rows: &'static [Row]) -> Family {
    Family { name, own, rows, first: &[], setup: &[] }
}

/// All families.
pub const FAMILIES: [Family; 11] = [
    family("string", Kind::String, string::STRING),
    family("bitmap", Kind::Bits, string::BITMAP),
    family("hyperloglog", Kind::HyperLogLog, string::HYPERLOGLOG),
    family("keys", Kind::String, keys::KEYS),
    family("list", Kind::List, list::LIST),
    family("set", Kind::Set, set::SET),
    family("hash", Kind::Hash, hash::HASH),
    family("zset", Kind::SortedSet, zset::ZSET),
    family("geo", Kind::Geo, geo::GEO),
    Family { first: stream::FIRST, ..family("stream", Kind::Stream, stream::STREAM) },
    Family {
        first: keys::SORT_FIRST,
        setup: keys::SORT_SETUP,
        ..family("sort", Kind::List, keys::SORT)
    },
];

/// The family of this name, `scan` included.
pub fn named(name: &str) -> Option<Family> {
    all().into_iter().find(|family| family.name == name)
}

/// All families, in the order in which they are tried.
pub fn all() -> Vec<Family> {
    FAMILIES.into_iter().chain([family("scan", Kind::Hash, keys::SCAN)]).collect()
}

/// A value of each type, so that every command can meet the wrong one.
pub const FIRST: [&str; 9] = [
    "SET s:0 <value>",
    "SETBIT b:0 7 1",
    "PFADD p:0 a b c",
    "RPUSH l:0 {<member>}",
    "SADD u:0 {<member>}",
    "HSET h:0 {<member> <short>}",
    "ZADD z:0 {<score> <member>}",
    "GEOADD g:0 {<point>}",
    "XADD x:0 0-1 f v",
];

/// What is done with keys whatever they hold.
pub const COMMON: &[Row] = &[
    row("DEL <own>").weight(12),
    row("UNLINK {<own>}").weight(2),
    row("EXISTS {<own>}").weight(2),
    row("TYPE <own>").weight(2),
    row("OBJECT ENCODING <own>").by(Rule::Encoding),
    row("EXPIRE <own> <seconds> [NX|XX|GT|LT]").weight(2),
    row("PEXPIREAT <own> <at-ms>").weight(2),
    row("PEXPIRE <own> <blink>").weight(1),
    row("PTTL <own>").by(Rule::Milliseconds).weight(2),
    row("PERSIST <own>").weight(2),
    row("RENAME <own> <own>").weight(2),
    row("COPY <own> <own> [REPLACE]").weight(3),
    row("DUMP <own>").by(Rule::Dump).weight(2),
    row("SET <own> <short>").weight(1),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differential::grammar::parse;

    #[test]
    fn every_template_can_be_read() {
        let rows = all().into_iter().flat_map(|family| family.rows).chain(COMMON);
        let first = all().into_iter().flat_map(|family| family.first).chain(&FIRST);
        for template in rows.map(|row| row.template).chain(first.copied()) {
            assert!(parse(template).is_ok(), "{template}: {:?}", parse(template));
        }
    }

    /// Groups of commands on data, as Redis documents them.
    const GROUPS: [&str; 10] = [
        "bitmap",
        "generic",
        "geo",
        "hash",
        "hyperloglog",
        "list",
        "set",
        "sorted-set",
        "stream",
        "string",
    ];

    /// Containers, help texts, and what needs another server or counts none.
    const LEFT_OUT: [&str; 10] = [
        "migrate",
        "object",
        "object|help",
        "pfselftest",
        "waitaof",
        "xgroup",
        "xgroup|help",
        "xinfo",
        "xinfo|help",
        "restore-asking",
    ];

    #[test]
    fn every_command_on_data_is_in_a_family() {
        let forms = all().into_iter().flat_map(|family| family.rows).chain(COMMON);
        let forms: Vec<String> = forms.map(|row| row.template.to_lowercase() + " ").collect();
        let facts = include_str!("../../golden/commands-8.2.tsv");
        for line in facts.lines().filter(|line| !line.starts_with('#')) {
            let columns: Vec<&str> = line.split('\t').collect();
            let words = columns[0].replace('|', " ") + " ";
            let is_tried = forms.iter().any(|form| form.starts_with(&words));
            let is_due = GROUPS.contains(&columns[10]) && !LEFT_OUT.contains(&columns[0]);
            assert!(is_tried || !is_due, "{}", columns[0]);
        }
    }
}
