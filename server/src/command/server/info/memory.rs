//! The section about memory.

use tikv_jemalloc_ctl::{epoch, stats};

use super::{Report, Source, human, ratio};
use crate::system;

/// What the general allocator tells of itself.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::command::server) struct Allocator {
    /// Bytes that the program holds.
    pub allocated: u64,
    /// Bytes of pages that hold them.
    pub active: u64,
    /// Bytes of those and others that lie in RAM.
    pub resident: u64,
}

impl Allocator {
    /// The figures now; zero where the allocator is not the one that tells them.
    pub(in crate::command::server) fn read() -> Self {
        if epoch::advance().is_err() {
            return Self::default();
        }
        let bytes = |value: Result<usize, _>| value.map_or(0, |bytes| bytes as u64);
        Self {
            allocated: bytes(stats::allocated::read()),
            active: bytes(stats::active::read()),
            resident: bytes(stats::resident::read()),
        }
    }
}

pub(super) fn memory(source: &Source<'_>, report: &mut Report) {
    let figures = &source.figures;
    let (used, overhead) = (figures.used_memory(), figures.overhead());
    let peak = figures.stats.memory_peak.max(used);
    let dataset = used.saturating_sub(overhead);
    let (arena, clients) = (figures.memory, figures.client_bytes);
    let (resident, total) = (system::resident_bytes(), system::total_memory());
    let config = &source.ctx.shard.config;
    let (limit, policy) = (config.maxmemory, config.value("maxmemory-policy"));
    let now_s = source.ctx.shard.now_us / 1_000_000;
    let percent =
        |part: u64, whole: u64| format!("{:.2}%", 100.0 * ratio(part as f64, whole as f64));
    sized(report, "used_memory", used);
    sized(report, "used_memory_rss", resident);
    sized(report, "used_memory_peak", peak);
    report.line("used_memory_peak_time", now_s);
    report.line("used_memory_peak_perc", percent(used, peak));
    report.line("used_memory_overhead", overhead);
    report.line("used_memory_startup", 0);
    report.line("used_memory_dataset", dataset);
    report.line("used_memory_dataset_perc", percent(dataset, used));
    let allocator = Allocator::read();
    report.line("allocator_allocated", allocator.allocated);
    report.line("allocator_active", allocator.active);
    report.line("allocator_resident", allocator.resident);
    report.line("allocator_muzzy", 0);
    sized(report, "total_system_memory", total);
    scripts(report);
    sized(report, "maxmemory", limit);
    report.line("maxmemory_policy", policy);
    spread(report, "allocator_frag", allocator.active, allocator.allocated);
    spread(report, "allocator_rss", allocator.resident, allocator.active);
    spread(report, "rss_overhead", resident, allocator.resident + arena.committed as u64);
    report.line("mem_fragmentation_ratio", two_digits(resident, used));
    report.line("mem_fragmentation_bytes", resident as i64 - used as i64);
    report.zeros(&[
        "mem_not_counted_for_evict",
        "mem_replication_backlog",
        "mem_total_replication_buffers",
        "mem_replica_full_sync_buffer",
        "mem_clients_slaves",
    ]);
    report.line("mem_clients_normal", clients);
    report.zeros(&["mem_cluster_links", "mem_aof_buffer"]);
    report.line("mem_allocator", "jemalloc-5.3.1");
    report.zeros(&["mem_overhead_db_hashtable_rehashing", "active_defrag_running"]);
    report.line("lazyfree_pending_objects", u8::from(arena.dying > 0));
    report.line("lazyfreed_objects", 0);
    report.line("arena_blocks_bytes", arena.blocks);
    report.line("arena_committed_bytes", arena.committed);
    report.line("index_bytes", arena.index);
    report.line("expire_index_bytes", arena.expire);
    report.line("large_values_bytes", arena.large);
    report.line("dying_values_bytes", arena.dying);
    report.line("pooled_buffers_bytes", source.figures.pool_bytes);
}

/// Figures of the script engines, which are not there yet.
fn scripts(report: &mut Report) {
    report.zeros(&["used_memory_lua", "used_memory_vm_eval"]);
    report.line("used_memory_lua_human", human(0));
    report.zeros(&[
        "used_memory_scripts_eval",
        "number_of_cached_scripts",
        "number_of_functions",
        "number_of_libraries",
        "used_memory_vm_functions",
        "used_memory_vm_total",
    ]);
    report.line("used_memory_vm_total_human", human(0));
    report.zeros(&["used_memory_functions", "used_memory_scripts"]);
    report.line("used_memory_scripts_human", human(0));
}

/// A figure for programs and for people.
fn sized(report: &mut Report, name: &str, bytes: u64) {
    report.line(name, bytes);
    report.line(format_args!("{name}_human"), human(bytes));
}

/// How much larger the first figure is.
fn spread(report: &mut Report, name: &str, bytes: u64, of: u64) {
    report.line(format_args!("{name}_ratio"), two_digits(bytes, of));
    report.line(format_args!("{name}_bytes"), bytes as i64 - of as i64);
}

fn two_digits(part: u64, whole: u64) -> String {
    format!("{:.2}", ratio(part as f64, whole as f64))
}
