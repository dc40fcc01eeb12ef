//! Most sections of `INFO`.

use super::InfoPage;
use crate::acl::log::DenialReason;
use crate::catalog::REDIS_VERSION;
use crate::client::Topic;
use crate::clock::now_ms;
use crate::server::SnapshotTask;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Writes the section about the program and its process.
pub fn server(page: &mut InfoPage<'_>) {
    let server = page.server;
    let uptime = server.started.elapsed().as_secs();
    page.field("redis_version", REDIS_VERSION);
    // Tools read these fields, so they have values that Redis could have.
    page.field("redis_git_sha1", "00000000");
    page.field("redis_git_dirty", 0);
    page.field("redis_build_id", "0");
    page.field("redis_mode", "standalone");
    page.field("nearfield_version", env!("CARGO_PKG_VERSION"));
    page.field("os", std::env::consts::OS);
    page.field("arch_bits", usize::BITS);
    page.field("multiplexing_api", "epoll");
    page.field("process_id", std::process::id());
    page.field("run_id", &server.run_id);
    page.field("tcp_port", server.config.integer("port"));
    page.field("server_time_usec", now_ms() * 1000);
    page.field("uptime_in_seconds", uptime);
    page.field("uptime_in_days", uptime / 86400);
    page.field("hz", server.config.integer("hz"));
    page.field("configured_hz", server.config.integer("hz"));
    // Redis's clock counts seconds in 24 bits.
    page.field("lru_clock", (now_ms() / 1000) & 0xff_ffff);
    let program = std::env::current_exe().unwrap_or_default();
    page.field("executable", program.display());
    let file = server.config.file.clone().unwrap_or_default();
    page.field("config_file", file.display());
    page.field("io_threads_active", u8::from(server.options.threads > 1));
}

/// Writes the section about clients.
pub fn clients(page: &mut InfoPage<'_>) {
    let server = page.server;
    let (mut input, mut output) = (0, 0);
    let clients = server.clients.lock();
    for client in clients.values() {
        input = input.max(client.listed.query_bytes.load(Relaxed));
        output = output.max(client.listed.output_bytes.load(Relaxed));
    }
    let count = clients.len();
    // Released before other locks are taken.
    drop(clients);
    page.field("connected_clients", count);
    page.field("cluster_connections", 0);
    page.field("maxclients", server.config.hot.maxclients.load(Relaxed));
    page.field("client_recent_max_input_buffer", input);
    page.field("client_recent_max_output_buffer", output);
    // As in Redis, clients that a pause holds back count as blocked.
    page.field(
        "blocked_clients",
        server.blocked.len() + server.pause.held(),
    );
    page.field("tracking_clients", server.tracking.counts().clients);
    page.field("clients_in_timeout_table", 0);
}

/// Writes the section about snapshots and the log.
pub fn persistence(page: &mut InfoPage<'_>) {
    let server = page.server;
    // No client is served while data is loaded.
    page.zeros(&["loading", "async_loading", "current_cow_size"]);
    let changes = server.keyspace.changes.load(Relaxed);
    page.field("rdb_changes_since_last_save", changes);
    let status = server.persistence.status();
    let seconds = |time: Option<Duration>| match time {
        Some(time) => time.as_secs().to_string(),
        None => "-1".to_owned(),
    };
    let word = |ok: bool| if ok { "ok" } else { "err" };
    let running = |task| status.running == Some(task);
    let time_of = |task| seconds(status.running_for.filter(|_| running(task)));
    page.field(
        "rdb_bgsave_in_progress",
        u8::from(running(SnapshotTask::Save)),
    );
    page.field("rdb_last_save_time", status.last_save_s);
    page.field("rdb_last_bgsave_status", word(status.last_save_ok));
    page.field("rdb_last_bgsave_time_sec", seconds(status.last_save_time));
    page.field("rdb_current_bgsave_time_sec", time_of(SnapshotTask::Save));
    page.field("rdb_saves", status.saves);
    page.field("rdb_last_cow_size", 0);
    let loaded = &server.persistence.loaded;
    page.field("rdb_last_load_keys_expired", loaded.expired.load(Relaxed));
    page.field("rdb_last_load_keys_loaded", loaded.kept.load(Relaxed));
    // A snapshot does not fork the process, so no memory is copied meanwhile.
    page.zeros(&["current_cow_peak", "current_cow_size_age"]);
    page.field("current_fork_perc", "0.00");
    let (done, all) = match status.running {
        Some(_) => (server.keyspace.snapshot.written_keys(), keys(page)),
        None => (0, 0),
    };
    page.field("current_save_keys_processed", done);
    page.field("current_save_keys_total", all);
    // As in Redis, the field is 1 from when the log is requested, even if it is not yet in use.
    let is_wanted = server.config.is_on("appendonly");
    page.field("aof_enabled", u8::from(is_wanted));
    let rewriting = u8::from(running(SnapshotTask::Rewrite));
    page.field("aof_rewrite_in_progress", rewriting);
    let scheduled = u8::from(status.scheduled == Some(SnapshotTask::Rewrite));
    page.field("aof_rewrite_scheduled", scheduled);
    let rewritten = seconds(status.last_rewrite_time);
    page.field("aof_last_rewrite_time_sec", rewritten);
    page.field(
        "aof_current_rewrite_time_sec",
        time_of(SnapshotTask::Rewrite),
    );
    page.field("aof_last_bgrewrite_status", word(status.last_rewrite_ok));
    page.field("aof_last_write_status", word(!server.log.is_failing()));
    page.field("aof_last_cow_size", 0);
    page.field("aof_rewrites", status.rewrites);
    page.zeros(&["module_fork_in_progress", "module_fork_last_cow_size"]);
    // As in Redis, these fields are shown only while there is a log.
    if server.log.is_on() {
        let counts = server.log.counts();
        page.field("aof_current_size", counts.file_bytes);
        page.field("aof_base_size", status.base_bytes);
        page.field("aof_buffer_length", counts.buffer_bytes);
        page.field("aof_delayed_fsync", counts.delayed);
    }
}

/// Returns the number of keys, as far as that is known.
fn keys(page: &InfoPage<'_>) -> u64 {
    let lens = page.databases.iter().map(|database| database.len());
    lens.map(|len| len.unwrap_or(0) as u64).sum()
}

/// Writes the section about activity since the start.
pub fn stats(page: &mut InfoPage<'_>) {
    let server = page.server;
    let statistics = &server.statistics;
    let keyspace = &server.keyspace;
    let [commands, received, sent] = statistics.per_second();
    let kilobytes = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    page.field(
        "total_connections_received",
        statistics.connections.load(Relaxed),
    );
    page.field("total_commands_processed", statistics.calls());
    page.field("instantaneous_ops_per_sec", commands);
    page.field(
        "total_net_input_bytes",
        statistics.received_bytes.load(Relaxed),
    );
    page.field(
        "total_net_output_bytes",
        statistics.sent_bytes.load(Relaxed),
    );
    page.zeros(&["total_net_repl_input_bytes", "total_net_repl_output_bytes"]);
    page.field("instantaneous_input_kbps", kilobytes(received));
    page.field("instantaneous_output_kbps", kilobytes(sent));
    page.field("instantaneous_input_repl_kbps", "0.00");
    page.field("instantaneous_output_repl_kbps", "0.00");
    page.zeros(&["slave_expires_tracked_keys"]);
    page.field(
        "rejected_connections",
        statistics.rejected_connections.load(Relaxed),
    );
    page.zeros(&["sync_full", "sync_partial_ok", "sync_partial_err"]);
    page.field("expired_keys", keyspace.expired_keys.load(Relaxed));
    page.field("expired_subkeys", keyspace.expired_fields.load(Relaxed));
    page.field("expired_stale_perc", "0.00");
    page.zeros(&["expired_time_cap_reached_count"]);
    page.field("evicted_keys", server.eviction.evicted_keys());
    let (evicted, overfilled) = server.clients.share.closed();
    page.field("evicted_clients", evicted);
    page.zeros(&["total_eviction_exceeded_time"]);
    page.zeros(&["current_eviction_exceeded_time"]);
    page.field("keyspace_hits", keyspace.hits.load(Relaxed));
    page.field("keyspace_misses", keyspace.misses.load(Relaxed));
    page.field("pubsub_channels", server.pubsub.count(Topic::Channel));
    page.field("pubsub_patterns", server.pubsub.count(Topic::Pattern));
    page.field("pubsubshard_channels", server.pubsub.count(Topic::Shard));
    page.zeros(&["latest_fork_usec", "total_forks", "migrate_cached_sockets"]);
    let tracking = server.tracking.counts();
    page.field("tracking_total_keys", tracking.keys);
    page.field("tracking_total_items", tracking.items);
    page.field("tracking_total_prefixes", tracking.prefixes);
    page.field("unexpected_error_replies", 0);
    for (name, reason) in [
        ("auth", DenialReason::Auth),
        ("cmd", DenialReason::Command),
        ("key", DenialReason::Key),
        ("channel", DenialReason::Channel),
    ] {
        page.field(
            &format!("acl_access_denied_{name}"),
            server.acl.denied(reason),
        );
    }
    page.field(
        "total_error_replies",
        statistics.error_replies.load(Relaxed),
    );
    page.zeros(&["dump_payload_sanitizations"]);
    page.zeros(&["reply_buffer_shrinks", "reply_buffer_expands"]);
    page.zeros(&["total_active_defrag_time", "current_active_defrag_time"]);
    page.zeros(&["active_defrag_hits", "active_defrag_misses"]);
    page.zeros(&["active_defrag_key_hits", "active_defrag_key_misses"]);
    page.field(
        "client_query_buffer_limit_disconnections",
        statistics.query_limit_closed.load(Relaxed),
    );
    page.field(
        "client_output_buffer_limit_disconnections",
        statistics.output_limit_closed.load(Relaxed) + overfilled,
    );
}

/// Writes the section about replication, in which the server takes no part.
pub fn replication(page: &mut InfoPage<'_>) {
    page.field("role", "master");
    page.field("connected_slaves", 0);
    page.field("master_failover_state", "no-failover");
    page.field("master_replid", &page.server.run_id);
    // As in Redis, zeros stand for no other run.
    page.field("master_replid2", "0".repeat(40));
    page.field("master_repl_offset", 0);
    page.field("second_repl_offset", -1);
    page.zeros(&["repl_backlog_active", "repl_backlog_size"]);
    page.zeros(&["repl_backlog_first_byte_offset", "repl_backlog_histlen"]);
}

/// Writes the processor time used.
pub fn cpu(page: &mut InfoPage<'_>) {
    let (system, user) = processor_seconds().unwrap_or((0.0, 0.0));
    page.field("used_cpu_sys", format!("{system:.6}"));
    page.field("used_cpu_user", format!("{user:.6}"));
    // No process is started for snapshots.
    page.field("used_cpu_sys_children", "0.000000");
    page.field("used_cpu_user_children", "0.000000");
}

/// Returns the seconds spent in the system and in the program, or `None` if the system does not
/// report them.
fn processor_seconds() -> Option<(f64, f64)> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name, in parentheses, may have spaces.
    let mut fields = text.rsplit(')').next()?.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((system / TICKS_PER_SECOND, user / TICKS_PER_SECOND))
}

/// Writes that the server is not part of a cluster.
pub fn cluster(page: &mut InfoPage<'_>) {
    page.field("cluster_enabled", 0);
}

/// Writes the number of keys of each database.
pub fn keyspace(page: &mut InfoPage<'_>) {
    let databases = page.databases;
    for (number, database) in databases.iter().enumerate() {
        // Counting the keys of a shared database would read them all; `DBSIZE` does so.
        if database.is_shared() {
            continue;
        }
        if let (Ok(keys @ 1..), Ok(expires)) = (database.len(), database.expiring()) {
            let mut value = format!("keys={keys},expires={expires},avg_ttl=0");
            let hashes = database.field_notes().len();
            if hashes > 0 {
                value += &format!(",subexpiry={hashes}");
            }
            page.field(&format!("db{number}"), value);
        }
    }
}
