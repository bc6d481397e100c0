//! Sections about what the server has done: clients, threads, stats, commands, errors, keyspace.

use super::{Report, Source};
use crate::clock;
use crate::command::table::table;
use crate::pubsub::Kind;

pub(super) fn clients(source: &Source<'_>, report: &mut Report) {
    let figures = &source.figures;
    let (query_max, output_max) = (figures.query_len_max, figures.output_len_max);
    report.line("connected_clients", source.ctx.shard.process.client_count());
    report.line("cluster_connections", 0);
    report.line("maxclients", source.ctx.shard.config.maxclients);
    report.line("client_recent_max_input_buffer", query_max);
    report.line("client_recent_max_output_buffer", output_max);
    let listening = &figures.listening;
    report.line("blocked_clients", listening.blocked);
    report.line("tracking_clients", listening.trackers);
    report.line("pubsub_clients", listening.subscribers);
    report.line("watching_clients", listening.watchers);
    report.line("clients_in_timeout_table", listening.timeouts);
    report.line("total_watched_keys", listening.watched_keys);
    report.line("total_blocking_keys", listening.awaited_keys);
    report.line("total_blocking_keys_on_nokey", listening.awaited_group_keys);
}

/// Shards take the place of Redis's threads.
pub(super) fn threads(source: &Source<'_>, report: &mut Report) {
    let ticks = source.figures.stats.ticks;
    for shard in &source.figures.shards {
        report.format(format_args!(
            "io_thread_{}:clients={},reads={ticks},writes={ticks}",
            shard.index, shard.clients
        ));
    }
}

/// Each shard by itself, with what lending its share to others cost.
pub(super) fn shards(source: &Source<'_>, report: &mut Report) {
    for shard in &source.figures.shards {
        let (sum, median, p99) = shard.lent_cycles;
        report.format(format_args!(
            "shard_{}:clients={},keys={},used_memory={},commands={},reservations={},lendings={},\
             lent_usec={},lent_usec_p50={},lent_usec_p99={}",
            shard.index,
            shard.clients,
            shard.keys,
            shard.used_memory,
            shard.commands,
            shard.reservations,
            shard.lendings,
            clock::to_us(sum),
            clock::to_us(median),
            clock::to_us(p99)
        ));
    }
}

pub(super) fn stats(source: &Source<'_>, report: &mut Report) {
    let figures = &source.figures;
    let (stats, keyspace) = (&figures.stats, &figures.keyspace);
    let kib = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    report.line("total_connections_received", stats.connections_received);
    report.line("total_commands_processed", stats.commands_processed);
    report.line("instantaneous_ops_per_sec", figures.commands_per_s);
    report.line("total_net_input_bytes", stats.net_input_bytes);
    report.line("total_net_output_bytes", stats.net_output_bytes);
    report.zeros(&["total_net_repl_input_bytes", "total_net_repl_output_bytes"]);
    report.line("instantaneous_input_kbps", kib(figures.input_per_s));
    report.line("instantaneous_output_kbps", kib(figures.output_per_s));
    report.line("instantaneous_input_repl_kbps", "0.00");
    report.line("instantaneous_output_repl_kbps", "0.00");
    report.line("rejected_connections", stats.connections_rejected);
    report.zeros(&["sync_full", "sync_partial_ok", "sync_partial_err"]);
    report.line("expired_subkeys", keyspace.expired_members);
    report.line("expired_keys", keyspace.expired_keys);
    report.line("expired_stale_perc", "0.00");
    report.zeros(&[
        "expired_time_cap_reached_count",
        "expire_cycle_cpu_milliseconds",
        "evicted_keys",
        "evicted_clients",
        "evicted_scripts",
        "total_eviction_exceeded_time",
        "current_eviction_exceeded_time",
    ]);
    report.line("keyspace_hits", keyspace.hits);
    report.line("keyspace_misses", keyspace.misses);
    let process = &source.ctx.shard.process;
    report.line("pubsub_channels", process.pubsub.len(Kind::Channel));
    report.line("pubsub_patterns", process.pubsub.len(Kind::Pattern));
    report.line("pubsubshard_channels", process.pubsub.len(Kind::ShardChannel));
    report.zeros(&[
        "latest_fork_usec",
        "total_forks",
        "migrate_cached_sockets",
        "slave_expires_tracked_keys",
    ]);
    report.line("active_defrag_hits", keyspace.blocks_moved);
    report.zeros(&[
        "active_defrag_misses",
        "active_defrag_key_hits",
        "active_defrag_key_misses",
        "total_active_defrag_time",
        "current_active_defrag_time",
    ]);
    report.line("tracking_total_keys", figures.listening.tracked_keys);
    report.line("tracking_total_items", figures.listening.tracked_items);
    report.line("tracking_total_prefixes", process.prefixes.len());
    report.line("unexpected_error_replies", 0);
    report.line("total_error_replies", stats.error_replies);
    report.line("dump_payload_sanitizations", 0);
    report.line("total_reads_processed", stats.ticks);
    report.line("total_writes_processed", stats.ticks);
    report.zeros(&[
        "io_threaded_reads_processed",
        "io_threaded_writes_processed",
        "io_threaded_total_prefetch_batches",
        "io_threaded_total_prefetch_entries",
    ]);
    let (query, output) =
        (stats.query_buffer_limit_disconnections, stats.output_buffer_limit_disconnections);
    report.line("client_query_buffer_limit_disconnections", query);
    report.line("client_output_buffer_limit_disconnections", output);
    report.zeros(&["reply_buffer_shrinks", "reply_buffer_expands"]);
    report.line("eventloop_cycles", stats.ticks);
    report.line("eventloop_duration_sum", clock::to_us(stats.tick_cycles));
    let command_cycles = stats.commands.iter().map(|command| command.cycles).sum();
    report.line("eventloop_duration_cmd_sum", clock::to_us(command_cycles));
    let tick_us = clock::to_us(figures.tick_cycles_per_s) / figures.ticks_per_s.max(1);
    report.line("instantaneous_eventloop_cycles_per_sec", figures.ticks_per_s);
    report.line("instantaneous_eventloop_duration_usec", tick_us);
    report.line("acl_access_denied_auth", stats.auth_denied);
    report.zeros(&["acl_access_denied_cmd", "acl_access_denied_key", "acl_access_denied_channel"]);
    report.line("tick_longest_us", stats.tick_longest_us());
    report.line("expire_lag_max_ms", keyspace.expire_lag_max_ms);
}

/// What is of interest to those who work on the server.
pub(super) fn debug(source: &Source<'_>, report: &mut Report) {
    let stats = &source.figures.stats;
    report.line("eventloop_duration_aof_sum", 0);
    report.line("eventloop_duration_cron_sum", clock::to_us(stats.upkeep_cycles));
    report.line("eventloop_duration_max", stats.tick_longest_us());
    report.line("eventloop_cmd_per_cycle_max", stats.tick_commands_max);
}

pub(super) fn command_stats(source: &Source<'_>, report: &mut Report) {
    let stats = &source.figures.stats;
    for (entry, row) in table().entries().iter().zip(&stats.commands) {
        if row.calls + row.rejected + row.failed == 0 {
            continue;
        }
        let us = clock::to_us(row.cycles);
        report.format(format_args!(
            "cmdstat_{}:calls={},usec={us},usec_per_call={:.2},rejected_calls={},failed_calls={}",
            entry.name,
            row.calls,
            us as f64 / row.calls.max(1) as f64,
            row.rejected,
            row.failed
        ));
    }
}

pub(super) fn error_stats(source: &Source<'_>, report: &mut Report) {
    for (code, count) in &source.figures.stats.errors {
        report.format(format_args!("errorstat_{code}:count={count}"));
    }
}

pub(super) fn latency_stats(source: &Source<'_>, report: &mut Report) {
    let stats = &source.figures.stats;
    let percentiles = source.ctx.shard.config.value("latency-tracking-info-percentiles");
    let percentiles: Vec<f64> =
        percentiles.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
    for (entry, row) in table().entries().iter().zip(&stats.commands) {
        let Some(histogram) = row.histogram.as_ref().filter(|histogram| histogram.count() > 0)
        else {
            continue;
        };
        let values: Vec<String> = percentiles
            .iter()
            .map(|percent| {
                let ns = clock::to_ns(histogram.percentile(*percent));
                format!("p{percent}={:.3}", ns as f64 / 1000.0)
            })
            .collect();
        let name = &entry.name;
        report.format(format_args!("latency_percentiles_usec_{name}:{}", values.join(",")));
    }
}

pub(super) fn keyspace(source: &Source<'_>, report: &mut Report) {
    for (db, database) in source.figures.databases.iter().enumerate() {
        if database.keys == 0 {
            continue;
        }
        report.format(format_args!(
            "db{db}:keys={},expires={},avg_ttl={},subexpiry={}",
            database.keys, database.volatile, database.average_ttl_ms, database.with_timed_members
        ));
    }
}
