//! The rows against the public facts of Redis 8.2.3 in `tests/golden`.

use std::collections::BTreeMap;

use super::spec::{CATEGORY_NAMES, Command, FLAG_NAMES, KEY_FLAG_NAMES, KeySpec, Reach, bit_names};
use super::table::{Entry, table};
use super::{fill, set, sorted_set};

const FACTS: &str = include_str!("../../../tests/golden/commands-8.2.tsv");

/// Costs that are other than Redis's, because the work is done otherwise.
const OTHER_COSTS: &[&str] = &[
    // The old tables are freed in the background.
    "flushall",
    "flushdb",
    // Each member of the first input is looked for in the others.
    "zdiff",
    "zdiffstore",
    // The same, spelled otherwise.
    "zunionstore",
];

fn joined(names: impl Iterator<Item = impl Into<String>>, separator: &str) -> String {
    let names: Vec<String> = names.map(Into::into).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(separator) }
}

fn sorted(mut names: Vec<&str>) -> String {
    names.sort_unstable();
    joined(names.into_iter(), ",")
}

fn keys(command: &Command) -> String {
    let one = |spec: &KeySpec| {
        let flags: Vec<&str> = bit_names(spec.flags.into(), KEY_FLAG_NAMES).collect();
        let flags = flags.join(",");
        if let Some(keyword) = spec.keyword {
            let limit = match keyword.reach {
                Reach::NextUntold | Reach::Computed => return format!("{flags}@unknown/unknown"),
                Reach::Half => 2,
                Reach::Next => 0,
            };
            return format!(
                "{flags}@keyword:{},{}/range:{},{},{limit}",
                keyword.word, spec.first, spec.last, spec.step
            );
        }
        let find = if spec.counted {
            format!("keynum:0,1,{}", spec.step)
        } else {
            format!("range:{},{},0", spec.last, spec.step)
        };
        format!("{flags}@index:{}/{find}", spec.first)
    };
    joined(command.keys.iter().map(one), " ")
}

/// The fields of a line of facts, but the cost.
fn facts(entry: &Entry) -> Vec<String> {
    let command = entry.command;
    let (first, last, step) = command.key_range();
    vec![
        entry.name.clone(),
        command.arity.to_string(),
        sorted(bit_names(command.flags, FLAG_NAMES).collect()),
        first.to_string(),
        last.to_string(),
        step.to_string(),
        sorted(bit_names(command.all_categories(), CATEGORY_NAMES).collect()),
        sorted(command.tips.to_vec()),
        keys(command),
        command.since.to_owned(),
        command.group.name().to_owned(),
    ]
}

#[test]
fn rows_state_the_facts_of_redis() {
    let lines = FACTS.lines().filter(|line| !line.starts_with('#'));
    let golden: BTreeMap<&str, Vec<&str>> = lines
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .map(|fields| (fields[0], fields))
        .collect();
    let ours = [fill::COMMANDS, set::times::COMMANDS, sorted_set::times::COMMANDS];
    let is_ours = |name: &str| ours.iter().copied().flatten().any(|row| row.name == name);
    let theirs = |entry: &&Entry| !is_ours(entry.name.as_str());
    for entry in table().entries().iter().filter(theirs) {
        let name = entry.name.as_str();
        let expected = golden.get(name).unwrap_or_else(|| panic!("Redis has no command {name}"));
        let (cost, expected) = expected.split_last().expect("a cost");
        assert_eq!(facts(entry), expected, "{name}");
        let is_like = *cost == "-" || entry.command.complexity.starts_with(cost);
        assert!(is_like || OTHER_COSTS.contains(&name), "{name}: {cost}");
    }
}
