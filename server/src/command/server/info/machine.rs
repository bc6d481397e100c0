//! Sections about the process and the machine: server, persistence, replication, CPU, cluster.

use super::{Report, Source};
use crate::clock;
use crate::listen::port_of;
use crate::start::{OSMIA_VERSION, REDIS_VERSION};
use crate::supervise::Supervisor;
use crate::system;

/// Seconds in a day.
const DAY_S: u64 = 24 * 3600;

pub(super) fn server(source: &Source<'_>, report: &mut Report) {
    let shard = &source.ctx.shard;
    let (process, config) = (&shard.process, &shard.config);
    let now_us = shard.now_us;
    let uptime_s = now_us.saturating_sub(process.started_us) / 1_000_000;
    let file = config.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
    let unix_socket = &config.unixsocket;
    let (port, bind) = (port_of(config, shard.index), config.bind.join(","));
    let supervised = Supervisor::of(config).name();
    let hz = config.value("hz");
    let (backend, shards) = (process.backend, process.shards);
    let (executable, run_id) = (&process.executable, &process.run_id);
    let mode = if config.cluster_enabled { "cluster" } else { "standalone" };
    report.line("redis_version", REDIS_VERSION);
    report.line("redis_git_sha1", "00000000");
    report.line("redis_git_dirty", 0);
    report.line("redis_build_id", 0);
    report.line("redis_mode", mode);
    report.line("os", system::name());
    report.line("arch_bits", usize::BITS);
    report.line("monotonic_clock", clock::source());
    report.line("multiplexing_api", backend);
    report.line("atomicvar_api", "rust");
    report.line("gcc_version", "0.0.0");
    report.line("process_id", std::process::id());
    report.line("process_supervised", supervised);
    report.line("run_id", run_id);
    report.line("tcp_port", port);
    report.line("server_time_usec", now_us);
    report.line("uptime_in_seconds", uptime_s);
    report.line("uptime_in_days", uptime_s / DAY_S);
    report.line("hz", hz);
    report.line("configured_hz", hz);
    report.line("lru_clock", (now_us / 1_000_000) & 0xff_ffff);
    report.line("executable", executable);
    report.line("config_file", file);
    report.line("io_threads_active", u8::from(shards > 1));
    let mut listeners = 0;
    if port != 0 {
        report.format(format_args!("listener{listeners}:name=tcp,bind={bind},port={port}"));
        listeners += 1;
    }
    if !unix_socket.is_empty() {
        report.format(format_args!("listener{listeners}:name=unix,bind={unix_socket}"));
    }
    report.line("osmia_version", OSMIA_VERSION);
    report.line("network_backend", backend);
    report.line("shards", shards);
}

pub(super) fn persistence(source: &Source<'_>, report: &mut Report) {
    let started_s = source.ctx.shard.process.started_us / 1_000_000;
    report.zeros(&[
        "loading",
        "async_loading",
        "current_cow_peak",
        "current_cow_size",
        "current_cow_size_age",
    ]);
    report.line("current_fork_perc", "0.00");
    report.zeros(&["current_save_keys_processed", "current_save_keys_total"]);
    report.line("rdb_changes_since_last_save", source.figures.changes);
    report.line("rdb_bgsave_in_progress", 0);
    report.line("rdb_last_save_time", started_s);
    report.line("rdb_last_bgsave_status", "ok");
    report.line("rdb_last_bgsave_time_sec", -1);
    report.line("rdb_current_bgsave_time_sec", -1);
    report.zeros(&[
        "rdb_saves",
        "rdb_last_cow_size",
        "rdb_last_load_keys_expired",
        "rdb_last_load_keys_loaded",
        "aof_enabled",
        "aof_rewrite_in_progress",
        "aof_rewrite_scheduled",
    ]);
    report.line("aof_last_rewrite_time_sec", -1);
    report.line("aof_current_rewrite_time_sec", -1);
    report.line("aof_last_bgrewrite_status", "ok");
    report.zeros(&["aof_rewrites", "aof_rewrites_consecutive_failures"]);
    report.line("aof_last_write_status", "ok");
    report.zeros(&["aof_last_cow_size", "module_fork_in_progress", "module_fork_last_cow_size"]);
}

pub(super) fn replication(source: &Source<'_>, report: &mut Report) {
    let process = &source.ctx.shard.process;
    let backlog = source.ctx.shard.config.value("repl-backlog-size");
    report.line("role", "master");
    report.line("connected_slaves", 0);
    report.line("master_failover_state", "no-failover");
    report.line("master_replid", &process.run_id);
    report.line("master_replid2", "0".repeat(40));
    report.line("master_repl_offset", 0);
    report.line("second_repl_offset", -1);
    report.line("repl_backlog_active", 0);
    report.line("repl_backlog_size", backlog);
    report.zeros(&["repl_backlog_first_byte_offset", "repl_backlog_histlen"]);
}

pub(super) fn cpu(_source: &Source<'_>, report: &mut Report) {
    let (process, thread) = (system::process_times(), system::thread_times());
    for (name, seconds) in [
        ("used_cpu_sys", process.system_s),
        ("used_cpu_user", process.user_s),
        ("used_cpu_sys_children", process.children_system_s),
        ("used_cpu_user_children", process.children_user_s),
        ("used_cpu_sys_main_thread", thread.system_s),
        ("used_cpu_user_main_thread", thread.user_s),
    ] {
        report.line(name, format_args!("{seconds:.6}"));
    }
}

pub(super) fn cluster(source: &Source<'_>, report: &mut Report) {
    report.line("cluster_enabled", u8::from(source.ctx.shard.config.cluster_enabled));
}
