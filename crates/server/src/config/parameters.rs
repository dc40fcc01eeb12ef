//! All parameters.
//!
//! Most of them are read by code. Parameters that only describe how Redis does something that this
//! server does in another way are accepted and kept, because clients and tests set them; the log
//! warns once that they have no effect. Parameters that clients would rely on, but which are not
//! implemented, have only one possible value.

use super::parameter::{
    Parameter, ParameterKind, bytes, choice, free, integer, secret, special as with, switch, text,
};
use super::special;
use crate::keyspace::DATABASES;

const INDEX: &str = "keys are in an ordered index, not in a hash table";
const DEFRAGMENTATION: &str = "a thread compacts memory without settings";
const DELETION: &str = "all commands free deleted values in the same way";
const COUNTERS: &str = "the counting of uses has constant parameters";
const LISTS: &str = "no part of a list is compressed";
const FILES: &str = "files are written and synced in one way";
const CHECKS: &str = "payloads are always checked";
const PROCESS: &str = "the process title, huge pages and crash reports are not configurable";
const PINNING: &str = "threads are not bound to processors; taskset does that";
const REPLICAS: &str = "there are no replicas";
const CLUSTERS: &str = "the server is not part of a cluster";
const OUTGOING: &str = "the server opens no connections with TLS";
const SYSLOG: &str = "messages go to the standard error or to logfile";
const CLIENTS_LOG: &str = "only slow commands are logged";
const TLS_SESSIONS: &str = "the TLS library resumes sessions without settings";
const STORAGE: &str = "values move to files by 'tier'";
const LOADING: &str = "data is loaded in one way";
const SCRATCH: &str =
    "snapshots are made without a second process and without other versions of keys";
const EXPIRY: &str = "keys expire by an index of expiry times, without settings";

/// All parameters.
pub const PARAMETERS: &[Parameter] = &[
    // ---- Listening, and clients
    with("bind", special::bind, "127.0.0.1"),
    with(
        "client-output-buffer-limit",
        special::output_limits,
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
    ),
    bytes("client-query-buffer-limit", 1048576, "1073741824"),
    integer("io-threads", 1, 128, "1")
        .once("server-threads")
        .fixed(),
    switch("io-threads-do-reads", "no")
        .fixed()
        .inert("each thread reads and writes for its own connections"),
    integer("maxclients", 1, 4294967295, "10000"),
    free("maxmemory-clients", ParameterKind::MemoryOrPercent, "25%"),
    integer("port", 0, 65535, "6399"),
    switch("protected-mode", "yes"),
    bytes("proto-max-bulk-len", 1048576, "536870912"),
    integer("tcp-backlog", 0, 2147483647, "511").fixed(),
    integer("tcp-keepalive", 0, 2147483647, "300"),
    integer("timeout", 0, 2147483647, "0"),
    integer("tracking-table-max-keys", 0, i64::MAX, "1000000"),
    integer("metrics-port", 0, 65535, "0").fixed(),
    choice("tls-auth-clients", &["no", "yes", "optional"], "yes").fixed(),
    text("tls-ca-cert-file", "").fixed(),
    text("tls-cert-file", "").fixed(),
    text("tls-key-file", "").fixed(),
    integer("tls-port", 0, 65535, "0").fixed(),
    text("unixsocket", "").fixed(),
    // The digits are those of an octal number, as for `chmod`.
    integer("unixsocketperm", 0, 777, "0").fixed(),
    // ---- Memory
    with("tier", special::tiers, "").fixed(),
    text("access-trace", "").fixed(),
    choice("tier-policy", &["adaptive", "adm"], "adaptive").fixed(),
    integer("adm-threshold-in", 0, 255, "9").fixed(),
    integer("adm-threshold-out", 0, 16777215, "13").fixed(),
    integer("adm-interval-ms", 10, 86400000, "10000").fixed(),
    integer("active-defrag-cycle-max", 0, 2147483647, "25").inert(DEFRAGMENTATION),
    integer("active-defrag-cycle-min", 0, 2147483647, "1").inert(DEFRAGMENTATION),
    bytes("active-defrag-ignore-bytes", 1, "104857600").inert(DEFRAGMENTATION),
    integer("active-defrag-max-scan-fields", 0, 2147483647, "1000").inert(DEFRAGMENTATION),
    integer("active-defrag-threshold-lower", 0, 2147483647, "10").inert(DEFRAGMENTATION),
    integer("active-defrag-threshold-upper", 0, 2147483647, "100").inert(DEFRAGMENTATION),
    with("activedefrag", special::defragmentation, "no").inert(DEFRAGMENTATION),
    switch("activerehashing", "yes").inert(INDEX),
    switch("lazyfree-lazy-eviction", "no").inert(DELETION),
    switch("lazyfree-lazy-expire", "no").inert(DELETION),
    switch("lazyfree-lazy-server-del", "no").inert(DELETION),
    switch("lazyfree-lazy-user-del", "no").inert(DELETION),
    switch("lazyfree-lazy-user-flush", "no").inert(DELETION),
    integer("lfu-decay-time", 0, 2147483647, "1").inert(COUNTERS),
    integer("lfu-log-factor", 0, 2147483647, "10").inert(COUNTERS),
    free("maxmemory", ParameterKind::Memory(0, u64::MAX), "0"),
    integer("maxmemory-eviction-tenacity", 0, 100, "10").inert(COUNTERS),
    choice(
        "maxmemory-policy",
        &[
            "volatile-lru",
            "volatile-lfu",
            "volatile-random",
            "volatile-ttl",
            "allkeys-lru",
            "allkeys-lfu",
            "allkeys-random",
            "noeviction",
        ],
        "noeviction",
    ),
    integer("maxmemory-samples", 1, 64, "5"),
    with("oom-score-adj", special::oom_score, "no"),
    with("oom-score-adj-values", special::oom_scores, "0 200 800"),
    switch("replica-lazy-flush", "no")
        .once("slave-lazy-flush")
        .inert(DELETION),
    // ---- Small forms of objects
    integer("hash-max-listpack-entries", 0, i64::MAX, "512").once("hash-max-ziplist-entries"),
    integer("hash-max-listpack-value", 0, i64::MAX, "64").once("hash-max-ziplist-value"),
    bytes("hll-sparse-max-bytes", 0, "3000"),
    integer("list-compress-depth", 0, 2147483647, "0").inert(LISTS),
    integer("list-max-listpack-size", -2147483648, 2147483647, "-2").once("list-max-ziplist-size"),
    integer("set-max-intset-entries", 0, i64::MAX, "512"),
    integer("set-max-listpack-entries", 0, i64::MAX, "128"),
    integer("set-max-listpack-value", 0, i64::MAX, "64"),
    bytes("stream-node-max-bytes", 0, "4096"),
    integer("stream-node-max-entries", 0, i64::MAX, "100"),
    integer("zset-max-listpack-entries", 0, i64::MAX, "128").once("zset-max-ziplist-entries"),
    integer("zset-max-listpack-value", 0, i64::MAX, "64").once("zset-max-ziplist-value"),
    // ---- Snapshots and the log
    switch("aof-disable-auto-gc", "no").inert(FILES),
    switch("aof-load-truncated", "yes").constant("a torn last record is always truncated"),
    switch("aof-rewrite-incremental-fsync", "yes").inert(FILES),
    switch("aof-timestamp-enabled", "no").inert(FILES),
    switch("aof-use-rdb-preamble", "yes").inert(FILES),
    free("appenddirname", ParameterKind::FileName, "appendonlydir").fixed(),
    free("appendfilename", ParameterKind::FileName, "appendonly.aof").fixed(),
    choice("appendfsync", &["everysec", "always", "no"], "everysec"),
    switch("appendonly", "no"),
    bytes("auto-aof-rewrite-min-size", 0, "67108864"),
    integer("auto-aof-rewrite-percentage", 0, 2147483647, "100"),
    free("dbfilename", ParameterKind::FileName, "dump.rdb").protected(),
    text("dir", "").protected_always(),
    switch("no-appendfsync-on-rewrite", "no").inert(FILES),
    switch("rdb-del-sync-files", "no").inert(FILES),
    switch("rdb-save-incremental-fsync", "yes").inert(FILES),
    choice("rdb-format", &["redis", "valkey"], "redis"),
    switch("rdbchecksum", "yes").fixed().inert(FILES),
    switch("rdbcompression", "yes").inert(FILES),
    choice("sanitize-dump-payload", &["no", "yes", "clients"], "no").inert(CHECKS),
    with("save", special::save, ""),
    switch("stop-writes-on-bgsave-error", "yes"),
    // ---- Access
    choice(
        "acl-pubsub-default",
        &["allchannels", "resetchannels"],
        "resetchannels",
    ),
    text("aclfile", "").fixed(),
    integer("acllog-max-len", 0, i64::MAX, "128"),
    secret("requirepass"),
    // ---- Observation
    integer("latency-monitor-threshold", 0, i64::MAX, "0"),
    switch("latency-tracking", "yes"),
    with(
        "latency-tracking-info-percentiles",
        special::percentiles,
        "50 99 99.9",
    ),
    text("logfile", "").fixed(),
    choice(
        "loglevel",
        &["debug", "verbose", "notice", "warning"],
        "notice",
    ),
    with("notify-keyspace-events", special::notified, ""),
    integer("slowlog-log-slower-than", -1, i64::MAX, "10000")
        .once("commandlog-execution-slower-than"),
    integer("slowlog-max-len", 0, i64::MAX, "128").once("commandlog-slow-execution-max-len"),
    // ---- Replicas and clusters
    integer("cluster-announce-bus-port", 0, 2147483647, "0").inert(CLUSTERS),
    text("cluster-announce-hostname", "").inert(CLUSTERS),
    text("cluster-announce-ip", "").inert(CLUSTERS),
    integer("cluster-announce-port", 0, 2147483647, "0").inert(CLUSTERS),
    integer("cluster-announce-tls-port", 0, 2147483647, "0").inert(CLUSTERS),
    text("cluster-config-file", "nodes.conf")
        .fixed()
        .inert(CLUSTERS),
    switch("cluster-enabled", "no").fixed().constant(CLUSTERS),
    integer("cluster-migration-barrier", 0, 2147483647, "1").inert(CLUSTERS),
    integer("cluster-node-timeout", 0, 2147483647, "15000").inert(CLUSTERS),
    switch("cluster-replica-no-failover", "no")
        .once("cluster-slave-no-failover")
        .inert(CLUSTERS),
    integer("cluster-replica-validity-factor", 0, 2147483647, "10")
        .once("cluster-slave-validity-factor")
        .inert(CLUSTERS),
    switch("cluster-require-full-coverage", "yes").inert(CLUSTERS),
    secret("masterauth").once("primaryauth").inert(REPLICAS),
    text("masteruser", "").once("primaryuser").inert(REPLICAS),
    integer("min-replicas-max-lag", 0, 2147483647, "10").once("min-slaves-max-lag"),
    integer("min-replicas-to-write", 0, 2147483647, "0").once("min-slaves-to-write"),
    bytes("repl-backlog-size", 1, "1048576").inert(REPLICAS),
    integer("repl-backlog-ttl", 0, 2147483647, "3600").inert(REPLICAS),
    switch("repl-disable-tcp-nodelay", "no").inert(REPLICAS),
    choice(
        "repl-diskless-load",
        &["disabled", "on-empty-db", "swapdb"],
        "disabled",
    )
    .inert(REPLICAS),
    switch("repl-diskless-sync", "yes").inert(REPLICAS),
    integer("repl-diskless-sync-delay", 0, 2147483647, "5").inert(REPLICAS),
    integer("repl-diskless-sync-max-replicas", 0, 2147483647, "0").inert(REPLICAS),
    integer("repl-ping-replica-period", 0, 2147483647, "10")
        .once("repl-ping-slave-period")
        .inert(REPLICAS),
    integer("repl-timeout", 0, 2147483647, "60").inert(REPLICAS),
    text("replica-announce-ip", "")
        .once("slave-announce-ip")
        .inert(REPLICAS),
    integer("replica-announce-port", 0, 2147483647, "0")
        .once("slave-announce-port")
        .inert(REPLICAS),
    switch("replica-announced", "yes").inert(REPLICAS),
    switch("replica-ignore-disk-write-errors", "no").inert(REPLICAS),
    switch("replica-ignore-maxmemory", "yes")
        .once("slave-ignore-maxmemory")
        .inert(REPLICAS),
    integer("replica-priority", 0, 2147483647, "100")
        .once("slave-priority")
        .inert(REPLICAS),
    switch("replica-read-only", "yes")
        .once("slave-read-only")
        .inert(REPLICAS),
    switch("replica-serve-stale-data", "yes")
        .once("slave-serve-stale-data")
        .inert(REPLICAS),
    text("replicaof", "")
        .once("slaveof")
        .fixed()
        .constant(REPLICAS),
    // ---- The rest
    integer("active-expire-effort", 1, 10, "1").inert(EXPIRY),
    integer("busy-reply-threshold", 0, i64::MAX, "5000").once("lua-time-limit"),
    switch("daemonize", "no").fixed(),
    integer("databases", 1, DATABASES as i64, "16").fixed(),
    switch("dynamic-hz", "yes").inert(EXPIRY),
    choice("enable-debug-command", &["no", "yes", "local"], "no").fixed(),
    choice("enable-module-command", &["no", "yes", "local"], "no").fixed(),
    integer("hz", 0, 2147483647, "10"),
    text("pidfile", "").fixed(),
    with("shutdown-on-sigint", special::shutdown, "default"),
    with("shutdown-on-sigterm", special::shutdown, "default"),
    integer("shutdown-timeout", 0, 2147483647, "10").inert(REPLICAS),
    choice("enable-protected-configs", &["no", "yes", "local"], "no").fixed(),
    with("supervised", special::supervised, "no")
        .inert("systemd is notified of the start if it requests that")
        .fixed(),
    // ---- Of the process
    switch("always-show-logo", "no").inert(PROCESS).fixed(),
    switch("crash-log-enabled", "yes").inert(PROCESS),
    switch("crash-memcheck-enabled", "yes").inert(PROCESS),
    switch("disable-thp", "yes").inert(PROCESS).fixed(),
    switch("jemalloc-bg-thread", "yes").inert("jemalloc is not the allocator"),
    text("locale-collate", "").inert("SORT compares bytes"),
    switch("set-proc-title", "yes").inert(PROCESS).fixed(),
    text("proc-title-template", "{title} {listen-addr} {server-mode}").inert(PROCESS),
    text("ignore-warnings", "").inert(PROCESS),
    switch("hide-user-data-from-log", "yes").inert("no message contains keys or values"),
    switch("extended-redis-compatibility", "no").inert(PROCESS),
    choice("log-format", &["legacy", "logfmt"], "legacy").inert("the flag --log-format sets it"),
    choice(
        "log-timestamp-format",
        &["legacy", "iso8601", "milliseconds"],
        "legacy",
    )
    .inert("times of messages have a fixed format"),
    switch("syslog-enabled", "no").constant(SYSLOG).fixed(),
    text("syslog-facility", "local0").inert(SYSLOG).fixed(),
    text("syslog-ident", "redis").inert(SYSLOG).fixed(),
    text("server-cpulist", "")
        .once("server_cpulist")
        .inert(PINNING)
        .fixed(),
    text("bio-cpulist", "")
        .once("bio_cpulist")
        .inert(PINNING)
        .fixed(),
    text("aof-rewrite-cpulist", "")
        .once("aof_rewrite_cpulist")
        .inert(PINNING)
        .fixed(),
    text("bgsave-cpulist", "")
        .once("bgsave_cpulist")
        .inert(PINNING)
        .fixed(),
    text("server-thread-affinity", "false")
        .inert(PINNING)
        .fixed(),
    text("availability-zone", "").inert("clients do not receive it"),
    text("hash-seed", "").inert(INDEX).fixed(),
    // ---- Of connections
    text("bind-source-addr", "").constant("the system chooses the source address of connections"),
    integer("max-new-connections-per-cycle", 1, 1000, "10")
        .inert("all waiting connections are accepted"),
    integer("max-new-tls-connections-per-cycle", 1, 1000, "1")
        .inert("all waiting connections are accepted"),
    switch("mptcp", "no").constant("there is no MPTCP").fixed(),
    integer("prefetch-batch-max-size", 0, 128, "16").inert("the size of batches is not limited"),
    integer("socket-mark-id", 0, 4294967295, "0").constant("sockets are not marked"),
    integer("tcp-keepalive-probes", 1, 2147483647, "3").inert("the system sets the number"),
    text("unixsocketgroup", "")
        .constant("unixsocketperm alone decides which programs may connect")
        .fixed(),
    text("rdma-bind", "").inert("there is no RDMA for clients"),
    integer("rdma-completion-vector", -1, 1024, "-1").inert("there is no RDMA for clients"),
    integer("rdma-port", 0, 65535, "0").constant("there is no RDMA for clients"),
    free(
        "rdma-rx-size",
        ParameterKind::Memory(65536, 16777216),
        "1048576",
    )
    .inert("there is no RDMA for clients"),
    // ---- Of TLS
    free("tls-auth-clients-user", ParameterKind::Text, "off")
        .constant("certificates do not identify users"),
    integer("tls-auto-reload-interval", 0, 2147483647, "0").constant("SIGHUP reloads certificates"),
    text("tls-ca-cert-dir", "").constant("tls-ca-cert-file has all certificates"),
    text("tls-ciphers", "").constant("the TLS library has secure ciphers only"),
    text("tls-ciphersuites", "").constant("the TLS library has secure ciphers only"),
    text("tls-client-cert-file", "").inert(OUTGOING),
    text("tls-client-key-file", "").inert(OUTGOING),
    secret("tls-client-key-file-pass").inert(OUTGOING),
    switch("tls-cluster", "no").inert(CLUSTERS),
    text("tls-dh-params-file", "").inert("key exchange is by elliptic curves"),
    secret("tls-key-file-pass").constant("keys with a password are not read"),
    switch("tls-prefer-server-ciphers", "no").inert("the TLS library has secure ciphers only"),
    with("tls-protocols", special::tls_protocols, "").inert("both are always supported"),
    switch("tls-replication", "no").inert(REPLICAS),
    integer("tls-session-cache-size", 0, 2147483647, "20480").inert(TLS_SESSIONS),
    integer("tls-session-cache-timeout", 0, 2147483647, "300").inert(TLS_SESSIONS),
    switch("tls-session-caching", "yes").inert(TLS_SESSIONS),
    // ---- Of memory, logs of commands and files
    integer("active-defrag-cycle-us", 0, 100000, "500").inert(DEFRAGMENTATION),
    integer("commandlog-large-reply-max-len", 0, i64::MAX, "128").inert(CLIENTS_LOG),
    integer("commandlog-large-request-max-len", 0, i64::MAX, "128").inert(CLIENTS_LOG),
    integer("commandlog-reply-larger-than", -1, i64::MAX, "1048576").inert(CLIENTS_LOG),
    integer("commandlog-request-larger-than", -1, i64::MAX, "1048576").inert(CLIENTS_LOG),
    choice("rdb-version-check", &["strict", "relaxed"], "strict")
        .inert("files of all known versions are read"),
    // ---- Of replicas and clusters
    switch("active-replica", "no").constant(REPLICAS).fixed(),
    switch("multi-master", "no").constant(REPLICAS).fixed(),
    switch("dual-channel-replication-enabled", "no").inert(REPLICAS),
    switch("import-mode", "no").constant(REPLICAS),
    choice(
        "propagation-error-behavior",
        &["ignore", "panic", "panic-on-replicas"],
        "ignore",
    )
    .inert(REPLICAS),
    switch("repl-mptcp", "no").inert(REPLICAS),
    bytes("replica-full-sync-buffer-limit", 0, "0").inert(REPLICAS),
    switch("cluster-allow-pubsubshard-when-down", "yes").inert(CLUSTERS),
    switch("cluster-allow-reads-when-down", "no").inert(CLUSTERS),
    switch("cluster-allow-replica-migration", "yes").inert(CLUSTERS),
    text("cluster-announce-client-ipv4", "").inert(CLUSTERS),
    text("cluster-announce-client-ipv6", "").inert(CLUSTERS),
    integer("cluster-announce-client-port", 0, 65535, "0").inert(CLUSTERS),
    integer("cluster-announce-client-tls-port", 0, 65535, "0").inert(CLUSTERS),
    text("cluster-announce-human-nodename", "").inert(CLUSTERS),
    integer("cluster-blacklist-ttl", 0, i64::MAX, "60").inert(CLUSTERS),
    integer("cluster-compatibility-sample-ratio", 0, 100, "0").inert(CLUSTERS),
    text("cluster-config-save-behavior", "sync").inert(CLUSTERS),
    integer("cluster-databases", 1, 2147483647, "1").inert(CLUSTERS),
    bytes("cluster-link-sendbuf-limit", 0, "0").inert(CLUSTERS),
    integer("cluster-manual-failover-timeout", 1, 2147483647, "5000").inert(CLUSTERS),
    integer("cluster-port", 0, 65535, "0")
        .inert(CLUSTERS)
        .fixed(),
    choice(
        "cluster-preferred-endpoint-type",
        &["ip", "hostname", "unknown-endpoint"],
        "ip",
    )
    .inert(CLUSTERS),
    integer("cluster-slot-migration-log-max-len", 0, i64::MAX, "1000").inert(CLUSTERS),
    switch("cluster-slot-stats-enabled", "no").inert(CLUSTERS),
    bytes("slot-migration-max-failover-repl-bytes", 0, "0").inert(CLUSTERS),
    switch("vset-force-single-threaded-execution", "no").inert("there are no vector sets"),
    // ---- Of KeyDB
    switch("active-client-balancing", "yes").inert("connections are distributed evenly"),
    switch("allow-rdb-resize-op", "yes").inert(INDEX),
    switch("allow-write-during-load", "no").constant(LOADING),
    text("db-s3-object", "")
        .constant("snapshots are files")
        .fixed(),
    switch("delete-on-evict", "no").inert(STORAGE),
    switch("enable-async-commands", "no").inert("all threads read at the same time"),
    switch("enable-async-rehash", "yes").inert(INDEX),
    switch("enable-keydb-fastsync", "no").inert(REPLICAS),
    switch("enable-motd", "yes").inert(PROCESS),
    switch("flash-disable-key-cache", "no").inert(STORAGE),
    switch("force-backlog-disk-reserve", "no").inert(REPLICAS),
    integer("force-eviction-percent", 0, 100, "0").constant("keys are evicted at maxmemory only"),
    integer("key-load-delay", -2147483648, 2147483647, "0").inert(LOADING),
    integer(
        "loading-process-events-interval-bytes",
        0,
        i64::MAX,
        "2097152",
    )
    .inert(LOADING),
    integer("loading-process-events-interval-keys", 0, i64::MAX, "8192").inert(LOADING),
    switch("lua-replicate-commands", "yes")
        .inert("the log has the writes of scripts, never the scripts"),
    integer("max-rand-count", 0, i64::MAX, "4611686018427387903").inert("replies are bounded"),
    integer("max-snapshot-slip", 0, i64::MAX, "400").inert(SCRATCH),
    integer("maxclients-reserved", 0, 100, "0").constant("no connections are reserved"),
    bytes("maxstorage", 0, "0").constant(STORAGE),
    integer("min-clients-per-thread", 0, 400, "20").inert("connections are distributed evenly"),
    switch("multi-master-no-forward", "no").inert(REPLICAS),
    switch("multithread-load-enabled", "no").inert(LOADING),
    integer("overload-protect-percent", 0, 200, "0")
        .constant("no client is delayed because of the load"),
    switch("prefetch-enabled", "yes").inert(INDEX),
    integer("rdb-key-save-delay", -2147483648, 2147483647, "0").inert(SCRATCH),
    bytes("repl-backlog-disk-reserve", 0, "0").inert(REPLICAS),
    integer("replica-quorum", -1, 2147483647, "-1").inert(REPLICAS),
    integer("replica-weighting-factor", 1, 2147483647, "2").inert(REPLICAS),
    text("scratch-file-path", "").inert(STORAGE).fixed(),
    integer("semi-ordered-set-bucket-size", 0, 1024, "0").inert(INDEX),
    switch("soft-shutdown", "no").inert(PROCESS),
    text("storage-cache-mode", "writethrough")
        .inert(STORAGE)
        .fixed(),
    integer("storage-flush-period", 1, 10000, "500").inert(STORAGE),
    text("storage-provider", "").constant(STORAGE).fixed(),
    text("storage-provider-options", "").inert(STORAGE),
    switch("testmode", "no").inert(PROCESS),
    switch("time-thread-priority", "no").inert(PROCESS),
    text("tls-allowlist", "").constant("certificates are not distinguished by their names"),
    text("tls-auditlog-blocklist", "").inert("certificates are not logged"),
    switch("tls-rotation", "no").constant("certificates are reloaded by SIGHUP only"),
    switch("use-exit-on-panic", "no").inert(PROCESS),
    switch("use-fork", "yes").inert(SCRATCH),
    integer("watchdog-period", 0, 2147483647, "0").inert(PROCESS),
];

#[cfg(test)]
mod tests {
    use super::super::parameter::ParameterEffect;
    use super::PARAMETERS;
    use std::path::Path;

    /// Adds the text of all source files in a folder, except this file.
    fn read_sources(folder: &Path, text: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read_sources(&path, text);
            } else if !path.ends_with("config/parameters.rs") {
                *text += &std::fs::read_to_string(path).unwrap();
            }
        }
    }

    #[test]
    fn each_parameter_is_asked_for_or_says_why_it_has_no_effect() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut sources = String::new();
        for folder in ["src", "../cli/src"] {
            read_sources(&here.join(folder), &mut sources);
        }
        let is_asked_for = |name: &str| sources.contains(&format!("\"{name}\""));
        // Checks the search itself: a name that appears in no source is not found.
        assert!(!is_asked_for(&["no", "such", "parameter"].concat()));
        for parameter in PARAMETERS {
            let heeded = parameter.effect == ParameterEffect::Heeded;
            assert!(
                !heeded || is_asked_for(parameter.name),
                "{}",
                parameter.name
            );
        }
    }

    #[test]
    fn names_are_there_once_and_defaults_are_values() {
        let names = PARAMETERS.iter().flat_map(|it| [it.name, it.alias]);
        let mut names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for parameter in PARAMETERS {
            let default = parameter.default.as_bytes();
            let shown = parameter.accept(default, default);
            assert_eq!(shown.as_deref(), Ok(default), "{}", parameter.name);
        }
    }
}
