//! The subcommand `complaints`.

use benchmark::complaints::{churn, deletion, due, stalls};
use benchmark::peer::{Cores, Peer, Running};
use benchmark::record::ServerNote;
use benchmark::table::{self, Table, cell};
use benchmark::{Result, machine};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::Common;

/// A complaint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Complaint {
    /// Keys that fall due are gone late.
    Due,
    /// Memory does not come back after deletions.
    Deletion,
    /// Memory grows under overwrites and deletions.
    Churn,
    /// Growth, FLUSHALL and a huge deletion stop everybody.
    Stalls,
}

#[derive(Debug, Args)]
pub(super) struct ComplaintsOptions {
    #[command(flatten)]
    common: Common,
    /// Which ones [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Complaint>,
    /// Keys of due (the others), deletion and churn.
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// Keys that fall due.
    #[arg(long, default_value_t = 20)]
    due_keys: u64,
    /// Milliseconds over which they fall due.
    #[arg(long, default_value_t = 0)]
    due_spread_ms: u64,
    /// Seconds to wait for keys that are late.
    #[arg(long, default_value_t = 40)]
    due_wait_s: u64,
    /// Length of values of deletion and stalls.
    #[arg(long, default_value_t = 64)]
    value: usize,
    /// Operations per key of churn.
    #[arg(long, default_value_t = 10)]
    churn_rounds: u64,
    /// Seconds that a server has to give memory back.
    #[arg(long, default_value_t = 10)]
    wait_s: u64,
    /// Keys that stalls grow to.
    #[arg(long, default_value_t = 5_000_000)]
    growth_keys: u64,
    /// Length of the huge value.
    #[arg(long, default_value_t = 512 * 1024 * 1024)]
    huge: u64,
    /// Field of INFO with the longest tick, in microseconds.
    #[arg(long, default_value = "tick_longest_us")]
    tick_field: String,
}

/// The servers under complaint.
struct Servers {
    peers: Vec<Peer>,
    cores: Option<Cores>,
    notes: Vec<ServerNote>,
}

impl Servers {
    /// Runs something on a fresh process of each.
    fn each<T>(&mut self, what: &str, run: impl Fn(&Running) -> Result<T>) -> Result<Vec<T>> {
        let mut results = Vec::new();
        for peer in &self.peers {
            table::progress(&format!("{what}: {}", peer.label));
            let server = peer.start(self.cores)?;
            if self.notes.len() < self.peers.len() {
                self.notes.push(ServerNote::from(&server));
            }
            results.push(run(&server)?);
        }
        Ok(results)
    }
}

pub(super) fn run(options: &ComplaintsOptions) -> Result<()> {
    let common = &options.common;
    let cores = common.cores();
    if let Some(cores) = cores {
        machine::pin(cores.client)?;
    }
    let mut servers = Servers { peers: common.peers()?, cores, notes: Vec::new() };
    let is_asked = |complaint| options.only.is_empty() || options.only.contains(&complaint);
    let mut results = serde_json::Map::new();
    if is_asked(Complaint::Due) {
        results.insert("due".to_owned(), run_due(&mut servers, options)?);
    }
    if is_asked(Complaint::Deletion) {
        results.insert("deletion".to_owned(), run_deletion(&mut servers, options)?);
    }
    if is_asked(Complaint::Churn) {
        results.insert("churn".to_owned(), run_churn(&mut servers, options)?);
    }
    if is_asked(Complaint::Stalls) {
        results.insert("stalls".to_owned(), run_stalls(&mut servers, options)?);
    }
    let parameters = json!({"pinned": cores.is_some()});
    common.record("complaints", parameters, servers.notes, Value::Object(results))
}

fn run_due(servers: &mut Servers, options: &ComplaintsOptions) -> Result<Value> {
    let asked = due::Options {
        others: options.keys,
        due: options.due_keys,
        spread_ms: options.due_spread_ms,
        wait_ms: options.due_wait_s * 1000,
    };
    let seen = servers.each("due", |server| due::run(server, &asked))?;
    let head = format!("{} due among {} others", asked.due, asked.others);
    let mut table = Table::new(&[&head, "gone", "within 50 ms", "p50 ms", "p99 ms", "max ms"]);
    for due in &seen {
        table.push(vec![
            due.label.clone(),
            due.gone.to_string(),
            due.on_time.to_string(),
            cell(due.p50_ms),
            cell(due.p99_ms),
            cell(due.max_ms),
        ]);
    }
    table.print();
    Ok(json!({"options": asked, "servers": seen}))
}

fn run_deletion(servers: &mut Servers, options: &ComplaintsOptions) -> Result<Value> {
    let asked = deletion::Options {
        keys: options.keys,
        value_len: options.value,
        percent: 90,
        wait_s: options.wait_s,
    };
    let seen = servers.each("deletion", |server| deletion::run(server, &asked))?;
    let head = format!("90 % of {} keys deleted", asked.keys);
    let mut table = Table::new(&[&head, "live", "RSS/key fresh", "RSS/key after", "ratio"]);
    for deletion in &seen {
        table.push(vec![
            deletion.label.clone(),
            deletion.live.to_string(),
            cell(Some(deletion.fresh)),
            cell(Some(deletion.after)),
            cell(Some(deletion.ratio)),
        ]);
    }
    table.print();
    Ok(json!({"options": asked, "servers": seen}))
}

fn run_churn(servers: &mut Servers, options: &ComplaintsOptions) -> Result<Value> {
    let asked =
        churn::Options { keys: options.keys, rounds: options.churn_rounds, wait_s: options.wait_s };
    let seen = servers.each("churn", |server| churn::run(server, &asked))?;
    let head = format!("{} x {} overwrites, deletions", asked.rounds, asked.keys);
    let mut table =
        Table::new(&[&head, "live", "payload", "RSS/payload", "used/payload", "fresh RSS/payload"]);
    for churn in &seen {
        table.push(vec![
            churn.label.clone(),
            churn.live.to_string(),
            churn.payload.to_string(),
            cell(Some(churn.rss_ratio)),
            cell(Some(churn.used_ratio)),
            cell(Some(churn.fresh_ratio)),
        ]);
    }
    table.print();
    Ok(json!({"options": asked, "servers": seen}))
}

fn run_stalls(servers: &mut Servers, options: &ComplaintsOptions) -> Result<Value> {
    let asked = stalls::Options {
        keys: options.growth_keys,
        value_len: options.value,
        huge_len: options.huge,
        tick_field: options.tick_field.clone(),
        after_ms: 3000,
    };
    let seen = servers.each("stalls", |server| stalls::run(server, &asked))?;
    let mut table = Table::new(&[
        "bystander during",
        "server",
        "command ms",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "max us",
        "longest tick us",
    ]);
    for stall in seen.iter().flatten() {
        table.push(vec![
            stall.phase.clone(),
            stall.label.clone(),
            cell(Some(stall.command_ms)),
            cell(Some(stall.bystander.p50_us)),
            cell(Some(stall.bystander.p99_us)),
            cell(Some(stall.bystander.p99_9_us)),
            cell(Some(stall.bystander.max_us)),
            cell(stall.tick_longest_us),
        ]);
    }
    table.print();
    Ok(json!({"options": asked, "servers": seen}))
}
