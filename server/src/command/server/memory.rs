//! MEMORY: where the memory is.

use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{CommandError, SYNTAX};
use crate::figures::Figures;
use crate::resp::Reply;
use crate::system;

use super::info::{Allocator, human, ratio};

/// Steps of upkeep that PURGE waits for; the rest is done in the background.
const PURGE_STEPS_MAX: usize = 1000;

const HELP: &[&str] = &[
    "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DOCTOR",
    "    Tell what is odd about the use of memory.",
    "MALLOC-STATS",
    "    Show the general allocator's own report.",
    "PURGE",
    "    Give memory that is not in use back to the system.",
    "STATS",
    "    Show the use of memory in figures.",
    "USAGE <key> [SAMPLES <count>]",
    "    Count the bytes that <key> and its value take. The figure is exact, so <count>",
    "    changes nothing.",
    "HELP",
    "    Print this help.",
];

pub(super) fn help(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.reply.lines(HELP);
    Ok(())
}

pub(super) fn usage(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let mut cursor = ctx.args.cursor(3);
    while cursor.remaining() > 0 {
        if cursor.remaining() < 2 || !cursor.accept("samples") {
            return Err(SYNTAX);
        }
        if cursor.integer()? < 0 {
            return Err(SYNTAX);
        }
    }
    let key = ctx.key(2);
    match ctx.keyspace.memory_usage(ctx.client.db, &key) {
        Some(bytes) => ctx.reply.count(bytes),
        None => ctx.reply.null(),
    }
    Ok(())
}

pub(super) fn purge(ctx: &mut CommandCtx<'_>) -> CommandResult {
    for share in ctx.keyspace.all_mut() {
        let mut steps = 0;
        share.partition.maintain(&mut || {
            steps += 1;
            steps < PURGE_STEPS_MAX
        });
    }
    ctx.reply.ok();
    Ok(())
}

pub(super) fn malloc_stats(ctx: &mut CommandCtx<'_>) -> CommandResult {
    use tikv_jemalloc_ctl::stats_print::{Options, stats_print};
    let mut text = Vec::new();
    stats_print(&mut text, Options::default()).map_err(|error| {
        CommandError::text(format!("ERR the allocator gives no report: {error}"))
    })?;
    ctx.reply.verbatim(b"txt", &text);
    Ok(())
}

pub(super) fn stats(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let figures = Figures::of_process(ctx);
    let start = ctx.reply.defer();
    let mut fields = Fields { reply: &mut *ctx.reply, len: 0 };
    fields.write(&figures);
    let len = fields.len;
    ctx.reply.finish_map(start, len);
    Ok(())
}

/// Writes the pairs of MEMORY STATS and counts them.
struct Fields<'a> {
    reply: &'a mut Reply,
    len: usize,
}

impl Fields<'_> {
    fn name(&mut self, name: &str) {
        self.len += 1;
        self.reply.bulk(name.as_bytes());
    }

    fn integer(&mut self, name: &str, value: i64) {
        self.name(name);
        self.reply.integer(value);
    }

    fn double(&mut self, name: &str, value: f64) {
        self.name(name);
        self.reply.double(value);
    }

    /// Two figures about how much larger `bytes` is.
    fn spread(&mut self, name: &str, bytes: u64, of: u64) {
        self.double(&format!("{name}.ratio"), ratio(bytes as f64, of as f64));
        self.integer(&format!("{name}.bytes"), bytes as i64 - of as i64);
    }

    fn write(&mut self, figures: &Figures) {
        let (used, overhead) = (figures.used_memory(), figures.overhead());
        let peak = figures.stats.memory_peak.max(used);
        let dataset = used.saturating_sub(overhead);
        let keys = figures.keys() as u64;
        self.integer("peak.allocated", peak as i64);
        self.integer("total.allocated", used as i64);
        for name in [
            "startup.allocated",
            "replication.backlog",
            "replica.fullsync.buffer",
            "clients.slaves",
        ] {
            self.integer(name, 0);
        }
        self.integer("clients.normal", figures.client_bytes as i64);
        for name in ["cluster.links", "aof.buffer", "lua.caches", "functions.caches", "script.VMs"]
        {
            self.integer(name, 0);
        }
        self.databases(figures);
        self.integer("overhead.db.hashtable.lut", figures.memory.index as i64);
        self.integer("overhead.db.hashtable.rehashing", 0);
        self.integer("overhead.total", overhead as i64);
        self.integer("db.dict.rehashing.count", 0);
        self.integer("keys.count", keys as i64);
        self.integer("keys.bytes-per-key", used.checked_div(keys).unwrap_or(0) as i64);
        self.integer("dataset.bytes", dataset as i64);
        self.double("dataset.percentage", 100.0 * ratio(dataset as f64, used as f64));
        self.double("peak.percentage", 100.0 * ratio(used as f64, peak as f64));
        self.allocator(figures, used);
    }

    /// Databases share one arena: the indexes are split by their keys.
    fn databases(&mut self, figures: &Figures) {
        let volatile: usize = figures.databases.iter().map(|database| database.volatile).sum();
        let share = |bytes: usize, part: usize, whole: usize| {
            (bytes as u128 * part as u128 / whole.max(1) as u128) as i64
        };
        for (db, database) in figures.databases.iter().enumerate() {
            if database.keys == 0 {
                continue;
            }
            self.name(&format!("db.{db}"));
            self.reply.map(2);
            self.reply.bulk(b"overhead.hashtable.main");
            self.reply.integer(share(figures.memory.index, database.keys, figures.keys()));
            self.reply.bulk(b"overhead.hashtable.expires");
            self.reply.integer(share(figures.memory.expire, database.volatile, volatile));
        }
    }

    fn allocator(&mut self, figures: &Figures, used: u64) {
        let (allocator, resident) = (Allocator::read(), system::resident_bytes());
        self.integer("allocator.allocated", allocator.allocated as i64);
        self.integer("allocator.active", allocator.active as i64);
        self.integer("allocator.resident", allocator.resident as i64);
        self.integer("allocator.muzzy", 0);
        self.spread("allocator-fragmentation", allocator.active, allocator.allocated);
        self.spread("allocator-rss", allocator.resident, allocator.active);
        let committed = allocator.resident + figures.memory.committed as u64;
        self.spread("rss-overhead", resident, committed);
        self.double("fragmentation", ratio(resident as f64, used as f64));
        self.integer("fragmentation.bytes", resident as i64 - used as i64);
    }
}

/// Below this much memory ratios mean nothing.
const DOCTOR_LEN_MIN: u64 = 5 << 20;

pub(super) fn doctor(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let figures = Figures::of_process(ctx);
    let text = diagnosis(&figures, system::resident_bytes());
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn diagnosis(figures: &Figures, resident: u64) -> String {
    let used = figures.used_memory();
    if used < DOCTOR_LEN_MIN {
        return format!(
            "The server holds {} only; there is nothing to be said about so little.\n",
            human(used)
        );
    }
    let mut findings = Vec::new();
    if figures.stats.memory_peak as f64 > 1.5 * used as f64 {
        findings.push(format!(
            "At its peak the server used {}, more than one and a half times the {} of now. Pages \
             that emptied since then go back to the system bit by bit.",
            human(figures.stats.memory_peak),
            human(used)
        ));
    }
    if resident as f64 > 1.4 * used as f64 {
        findings.push(format!(
            "The process takes {} of RAM for {} in use. Sparse pages are compacted in the \
             background; MEMORY PURGE hurries it.",
            human(resident),
            human(used)
        ));
    }
    if figures.clients > 0 && figures.client_bytes / figures.clients > 200 << 10 {
        findings.push(format!(
            "Clients hold {} each on average. Look for large pipelines, or clients that do not \
             read their replies, with CLIENT LIST.",
            human((figures.client_bytes / figures.clients) as u64)
        ));
    }
    if findings.is_empty() {
        return "No trouble found with the use of memory.\n".to_owned();
    }
    findings.iter().map(|finding| format!("* {finding}\n")).collect()
}
