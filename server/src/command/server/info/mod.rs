//! INFO: the server's state as lines of `name:value` in sections.
//!
//! Names and order are Redis's, since tools read them; figures that Osmia has no counterpart of
//! are zero. Its own figures stand at the end of the section that they belong to.

mod activity;
mod machine;
mod memory;

pub(super) use memory::Allocator;

use std::fmt::{Arguments, Display, Write};

use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::figures::Figures;

/// A section.
struct Section {
    /// The name that a client asks by.
    name: &'static str,
    title: &'static str,
    shown: Shown,
    write: fn(&Source<'_>, &mut Report),
}

/// When a section is shown beside being named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// Never.
    Named,
    /// When all sections are asked for.
    All,
    /// Also when none is named.
    Default,
}

use Shown::{All, Default as ByDefault, Named};

const fn section(
    name: &'static str,
    title: &'static str,
    shown: Shown,
    write: fn(&Source<'_>, &mut Report),
) -> Section {
    Section { name, title, shown, write }
}

/// All sections in their order.
const SECTIONS: &[Section] = &[
    section("server", "Server", ByDefault, machine::server),
    section("clients", "Clients", ByDefault, activity::clients),
    section("memory", "Memory", ByDefault, memory::memory),
    section("persistence", "Persistence", ByDefault, machine::persistence),
    section("threads", "Threads", ByDefault, activity::threads),
    section("stats", "Stats", ByDefault, activity::stats),
    section("replication", "Replication", ByDefault, machine::replication),
    section("cpu", "CPU", ByDefault, machine::cpu),
    section("modules", "Modules", ByDefault, |_, _| {}),
    section("commandstats", "Commandstats", All, activity::command_stats),
    section("errorstats", "Errorstats", ByDefault, activity::error_stats),
    section("latencystats", "Latencystats", All, activity::latency_stats),
    section("cluster", "Cluster", ByDefault, machine::cluster),
    section("shards", "Shards", ByDefault, activity::shards),
    section("keyspace", "Keyspace", ByDefault, activity::keyspace),
    section("keysizes", "Keysizes", ByDefault, |_, _| {}),
    section("debug", "Debug", Named, activity::debug),
];

/// What the sections tell of.
struct Source<'a> {
    ctx: &'a CommandCtx<'a>,
    figures: Figures,
}

/// A report under construction.
#[derive(Default)]
struct Report {
    text: String,
}

impl Report {
    /// Adds a line.
    fn line(&mut self, name: impl Display, value: impl Display) {
        self.format(format_args!("{name}:{value}"));
    }

    /// Adds lines whose values are zero here.
    fn zeros(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.line(name, 0));
    }

    fn format(&mut self, line: Arguments<'_>) {
        // Writing to a `String` cannot fail.
        let _ = write!(self.text, "{line}\r\n");
    }
}

pub(super) fn info(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let figures = Figures::of_process(ctx);
    let source = Source { ctx, figures };
    let mut report = Report::default();
    let wanted = |section: &&Section| {
        let named = |word: &[u8]| match word.to_ascii_lowercase().as_slice() {
            b"default" => section.shown == ByDefault,
            b"all" | b"everything" => section.shown != Named,
            other => other == section.name.as_bytes(),
        };
        if ctx.args.len() == 1 { section.shown == ByDefault } else { ctx.args.from(1).any(named) }
    };
    for section in SECTIONS.iter().filter(wanted) {
        if !report.text.is_empty() {
            report.text.push_str("\r\n");
        }
        report.format(format_args!("# {}", section.title));
        (section.write)(&source, &mut report);
    }
    ctx.reply.verbatim(b"txt", report.text.as_bytes());
    Ok(())
}

/// Bytes with a unit, as Redis shows them.
pub(super) fn human(bytes: u64) -> String {
    const UNITS: [char; 5] = ['K', 'M', 'G', 'T', 'P'];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let magnitude = ((63 - bytes.leading_zeros()) as usize / 10).min(UNITS.len());
    format!("{:.2}{}", bytes as f64 / (1u64 << (10 * magnitude)) as f64, UNITS[magnitude - 1])
}

/// A share, 0 of nothing.
pub(super) fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_for_people() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00K"),
            (694_152, "677.88K"),
            (8_298_496, "7.91M"),
            (25_276_063_744, "23.54G"),
            (u64::MAX, "16384.00P"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }
}
