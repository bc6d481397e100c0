//! The table against the golden facts of Redis 8.2.3: names, defaults, flags, refusals.

use super::directives::{HIDDEN, IMMUTABLE, PROTECTED};
use super::{Config, DIRECTIVES, SetError, find};

const FACTS: &str = include_str!("../../../tests/golden/config-8.2.tsv");
const PROBES: [&str; 3] = ["x", "-1", "99999999999999999999"];

/// Values that Osmia answers in another way, with their directives.
const DIFFERENCES: &[(&str, &str)] = &[
    // Redis takes the largest number for a percentage.
    ("maxmemory-clients", "99999999999999999999"),
];

fn rows() -> impl Iterator<Item = Vec<&'static str>> {
    FACTS.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}

#[test]
fn every_parameter_of_redis_is_known_and_no_other() {
    let mut known: Vec<&str> =
        DIRECTIVES.iter().flat_map(|row| [Some(row.name), row.alias]).flatten().collect();
    for row in rows() {
        let [name, default, flags, ..] = row[..] else { panic!("a short row: {row:?}") };
        let index = find(name.as_bytes()).unwrap_or_else(|| panic!("unknown: {name}"));
        known.retain(|other| *other != name);
        let directive = &DIRECTIVES[index];
        assert_eq!(directive.default, default, "{name}");
        for (letter, flag) in [('h', HIDDEN), ('i', IMMUTABLE), ('p', PROTECTED)] {
            assert_eq!(directive.is(flag), flags.contains(letter), "{name}: {letter}");
        }
    }
    let ours = [
        "arena-limit",
        "cluster-forward",
        "durability",
        "huge-pages",
        "network-backend",
        "pin-shards",
        "pipeline-order",
        "port-mode",
        "shards",
    ];
    assert_eq!(known, ours);
}

#[test]
fn values_are_refused_in_the_words_of_redis() {
    let mut config = Config::new();
    config.enable_protected_configs = "yes".to_owned();
    for row in rows() {
        let (name, answers) = (row[0], &row[3..]);
        for (probe, expected) in PROBES.iter().zip(answers) {
            if *expected == "-" || DIFFERENCES.contains(&(name, probe)) {
                continue;
            }
            let mut config = config.clone();
            let found = config.set(&[(name.as_bytes(), probe.as_bytes())], true);
            let expected = match *expected {
                "ok" => Ok(()),
                reason => Err(SetError::Refused(name.to_owned(), reason.to_owned())),
            };
            assert_eq!(found, expected, "{name} {probe}");
        }
    }
}
