//! Sends random commands to two servers and compares their answers; see `tests::differential`.
//!
//! Called as `differential server ...` it is Osmia itself, so that the tester needs no other program
//! to start the server that it was built with.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use server::cli::Invocation;
use server::config::Config;
use tests::differential::campaign::{Campaign, Findings};
use tests::differential::duel::Duel;
use tests::differential::mutant::{MUTANTS, Mutant};
use tests::differential::plan::Habits;
use tests::differential::server::Recipe;
use tests::differential::{families, known};

/// Sends random commands to two servers and compares their answers.
///
/// A server is `redis` (the one that OSMIA_REDIS names, or that is installed), `osmia` (the one that
/// this program was built with), or `label=command line` with {port} for the port that it shall
/// use and {folder} for an empty folder.
#[derive(Debug, Parser)]
#[command(name = "differential", version)]
struct Options {
    /// The server that is right.
    #[arg(long, value_name = "SERVER", default_value = "redis")]
    reference: String,
    /// The server that is compared with it.
    #[arg(long, value_name = "SERVER", default_value = "osmia")]
    peer_command: String,
    /// Shards of `osmia`.
    #[arg(long, default_value_t = 1)]
    shards: usize,
    /// Families to try [default: all].
    #[arg(long, value_delimiter = ',')]
    family: Vec<String>,
    /// Commands for each family.
    #[arg(long, default_value_t = 20_000)]
    commands: usize,
    /// Where random choices begin.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The only round to run, as a report names it.
    #[arg(long)]
    round: Option<usize>,
    /// Protocol version: 2, 3 or both.
    #[arg(long, default_value = "both")]
    resp: String,
    /// Transactions in a hundred commands.
    #[arg(long, default_value_t = 4)]
    multi: usize,
    /// Blocking commands in a hundred, each served by other connections.
    #[arg(long, default_value_t = 2)]
    blocked: usize,
    /// Commands between two full checks.
    #[arg(long, default_value_t = 100)]
    check_every: usize,
    /// Differences of a family after which the next one begins.
    #[arg(long, default_value_t = 10)]
    differences: usize,
    /// Commands to leave out, as `SET` or `XINFO STREAM`.
    #[arg(long, value_delimiter = ',')]
    skip: Vec<String>,
    /// The only commands to try.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Counts a command that one server does not know as a difference.
    #[arg(long)]
    strict: bool,
    /// Lists how often each command was answered and how often with an error.
    #[arg(long)]
    statistics: bool,
    /// Port of the reference; the other server takes the next one [default: any free ones].
    #[arg(long)]
    port: Option<u16>,
    /// Compares the reference with itself, one of the two making this mistake; `list` shows all.
    #[arg(long)]
    mutant: Option<String>,
}

/// Commands of a round.
const ROUND_LEN: usize = 1000;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    if words.get(1).is_some_and(|word| word == "server") {
        return serve(words);
    }
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(text) => {
            say(&format!("differential: {text}"));
            ExitCode::from(2)
        }
    }
}

/// Writes a line; when nobody reads it any more, there is nothing to do about it.
fn say(text: &str) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

fn serve(words: Vec<std::ffi::OsString>) -> ExitCode {
    let Invocation::Server(args) = server::cli::parse(words) else { return ExitCode::FAILURE };
    match Config::load(&args) {
        Ok(config) => match server::start::serve(config) {
            Ok(()) => ExitCode::SUCCESS,
            Err(server::start::Failed) => ExitCode::FAILURE,
        },
        Err(error) => {
            say(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Whether no difference was found.
fn run(options: &Options) -> Result<bool, String> {
    if options.mutant.as_deref() == Some("list") {
        MUTANTS.iter().for_each(|mutant| say(&format!("{} ({})", mutant.name, mutant.family)));
        return Ok(true);
    }
    let mutant = match &options.mutant {
        Some(name) => Some(Mutant::named(name).ok_or_else(|| format!("no mutant `{name}`"))?),
        None => None,
    };
    let reference = recipe(&options.reference, options)?;
    let other = match mutant {
        Some(mutant) => Recipe { label: mutant.name.to_owned(), ..reference.clone() },
        None => recipe(&options.peer_command, options)?,
    };
    let ports = [options.port, options.port.map(|port| port + 1)];
    let mut duel = Duel::start([reference, other], ports, mutant)?;
    let findings = campaign(options, mutant)?.run(&mut duel, &mut say)?;
    if options.statistics {
        for (name, [fine, errors]) in &duel.answers {
            say(&format!("{name:24} {:8} answered, {errors} of them with an error", fine + errors));
        }
    }
    Ok(summary(options, &findings, duel.labels()))
}

fn recipe(text: &str, options: &Options) -> Result<Recipe, String> {
    match text {
        "redis" => known::redis(),
        "osmia" => {
            let program = std::env::current_exe().map_err(|error| error.to_string())?;
            Ok(known::osmia(&program, options.shards))
        }
        other => Recipe::parse(other),
    }
}

fn campaign(options: &Options, mutant: Option<Mutant>) -> Result<Campaign, String> {
    let named = |name: &String| families::named(name).ok_or_else(|| no_family(name));
    let families = match (&options.family[..], mutant) {
        ([], Some(mutant)) => vec![named(&mutant.family.to_owned())?],
        ([], None) => families::all(),
        (names, _) => names.iter().map(named).collect::<Result<_, _>>()?,
    };
    let protocol = match options.resp.as_str() {
        "2" => Some(2),
        "3" => Some(3),
        "both" => None,
        other => return Err(format!("--resp is 2, 3 or both, not `{other}`")),
    };
    let upper = |names: &[String]| names.iter().map(|name| name.to_uppercase()).collect();
    Ok(Campaign {
        families,
        seed: options.seed,
        commands: options.commands,
        round: options.round,
        habits: Habits {
            commands: ROUND_LEN,
            check_every: options.check_every.max(1),
            protocol,
            multi: options.multi.min(50),
            blocked: options.blocked.min(50),
        },
        differences_max: options.differences.max(1),
        skip: upper(&options.skip),
        only: upper(&options.only),
    })
}

fn no_family(name: &str) -> String {
    let names: Vec<&str> = families::all().iter().map(|family| family.name).collect();
    format!("no family `{name}`; there are {}", names.join(", "))
}

/// Tells what was found, and whether it was nothing.
fn summary(options: &Options, findings: &Findings, labels: [&str; 2]) -> bool {
    for (side, label) in labels.into_iter().enumerate() {
        let names: Vec<&str> = findings
            .unknown
            .iter()
            .filter_map(|(at, name)| (*at == side).then_some(name.as_str()))
            .collect();
        if !names.is_empty() {
            say(&format!("{label} does not know {} commands: {}", names.len(), names.join(", ")));
        }
    }
    let counts =
        findings.counts.iter().map(|(signature, count)| format!("  {count:6} {signature}"));
    let counts: Vec<String> = counts.collect();
    if !counts.is_empty() {
        say(&format!("came again after they were shown:\n{}", counts.join("\n")));
    }
    for command in &findings.both_waited {
        say(&format!("a round ended early since both servers waited: {command}"));
    }
    let found = findings.reproducers.len() + findings.unsteady.len();
    say(&format!("{} replies compared, {found} differences", findings.compared));
    found == 0 && (!options.strict || findings.unknown.is_empty())
}
