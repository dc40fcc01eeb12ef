//! The passing of the configuration to the parts of the server that keep a copy of it.

use super::ServerCore;
use crate::config::{ClientClass, SavePoint, events};
use crate::eviction::{self, SAMPLES};
use crate::keyspace::WriteObserver;
use crate::log::LogSyncPolicy;
use crate::logging;
use crate::object::ChunkLimit;
use crate::rdb::Dialect;
use crate::singly::SequentialReason;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Threshold of the slow log, in microseconds, below which commands are executed one by one. If it
/// takes faster commands than this, each command must be timed. Commands of a batch are not timed,
/// and a whole batch takes no longer than this.
const SINGLY_BELOW_US: i64 = 1000;

/// Bytes that clients may hold in any case, so that a client can correct the configuration.
const CLIENT_BYTES_LEAST: usize = 128 << 10;
/// The same for a percentage of a small limit: the replies to a long pipeline take as much.
const CLIENT_SHARE_LEAST: usize = 4 << 20;

impl ServerCore {
    /// Notes whether writes are refused because `min-replicas-to-write` demands replicas: there are
    /// none.
    pub fn note_missing_replicas(&self) {
        let asked = |name| self.config.integer(name) > 0;
        let missing = asked("min-replicas-to-write") && asked("min-replicas-max-lag");
        // Data that is read from disk at the start is no client's write.
        let serving = self.serving.load(Ordering::Acquire);
        let lacking = &self.persistence.lacks_replicas;
        lacking.store(missing && serving, Ordering::Relaxed);
    }

    /// Applies the configuration to the parts of the server that do not read it each time. Call it
    /// in the exclusive phase, or before the server serves clients.
    pub fn configure(&self) {
        let hot = &self.config.hot;
        let notified = hot.notified_events.load(Ordering::Relaxed);
        let notifies = events::is_on(notified);
        self.keyspace
            .set_observed(WriteObserver::Notifications, notifies);
        let policy = LogSyncPolicy::from_name(&self.config.text("appendfsync"));
        self.log.set_policy(policy.unwrap_or_default());
        let dialect = match &*self.config.text("rdb-format") {
            "valkey" => Dialect::Valkey,
            _ => Dialect::Redis,
        };
        self.keyspace.snapshot.set_dialect(dialect);
        let save_points = SavePoint::parse(&self.config.text("save"));
        *self.persistence.save_points.lock() = save_points;
        let config = &self.config;
        let policy =
            eviction::MaxmemoryPolicy::parse(&config.text("maxmemory-policy")).unwrap_or_default();
        let limit = hot.maxmemory_bytes.load(Ordering::Relaxed);
        let samples = usize::try_from(config.integer("maxmemory-samples")).unwrap_or(SAMPLES);
        self.eviction.configure(limit, policy, samples);
        self.scripts.memory.configure(limit);
        self.clients
            .share
            .configure(self.client_bytes_max(limit), self.delivered_bytes_max());
        let memory = self.tiering.memory_bytes_max();
        self.eviction.set_memory_tier(memory);
        self.access.resize(limit, policy.is_lfu());
        let protected = config.text("protected-mode") == "yes";
        self.acl.protected.store(protected, Ordering::Relaxed);
        let listens = config.text("acl-pubsub-default") == "allchannels";
        self.acl
            .all_channels_at_first
            .store(listens, Ordering::Relaxed);
        let denials = usize::try_from(config.integer("acllog-max-len")).unwrap_or(usize::MAX);
        self.acl.keep_denials(denials);
        let times = config.is_on("latency-tracking");
        self.statistics.keeps_times.store(times, Ordering::Relaxed);
        self.note_missing_replicas();
        let threshold_ms = u64::try_from(config.integer("busy-reply-threshold")).unwrap_or(0);
        let threshold = Duration::from_millis(threshold_ms);
        self.scripts.watchdog.set_threshold(threshold);
        logging::set_level(&config.text("loglevel"));
        let slow = hot.slowlog_slower_than_us.load(Ordering::Relaxed);
        // A negative threshold turns the slow log off.
        self.singly.set(
            SequentialReason::SlowLog,
            (0..SINGLY_BELOW_US).contains(&slow),
        );
        let keys_max = hot.tracking_table_max_keys.load(Ordering::Relaxed);
        // The table may have more keys than the setting allows from this time on.
        self.tracking.shrink(&self.clients, keys_max as usize);
        let size = |name| usize::try_from(self.config.integer(name)).unwrap_or(0);
        self.keyspace.set_limits(|limits| {
            limits.hash_entries_max = size("hash-max-listpack-entries");
            limits.hash_bytes_max = size("hash-max-listpack-value");
            limits.set_integers_max = size("set-max-intset-entries");
            limits.set_entries_max = size("set-max-listpack-entries");
            limits.set_bytes_max = size("set-max-listpack-value");
            limits.sorted_set_entries_max = size("zset-max-listpack-entries");
            limits.sorted_set_bytes_max = size("zset-max-listpack-value");
            limits.stream_node_bytes_max = size("stream-node-max-bytes");
            limits.stream_node_entries_max = size("stream-node-max-entries");
            limits.hyperloglog_sparse_bytes_max = size("hll-sparse-max-bytes");
            let chunk = self.config.integer("list-max-listpack-size");
            limits.list_chunk = ChunkLimit::from_setting(chunk as i32);
        });
    }

    /// Returns the limit of all clients' memory while `maxmemory` is `limit`: `maxmemory-clients`
    /// in bytes, or as a percentage of the limit, or of the machine's memory if there is no limit.
    fn client_bytes_max(&self, limit: u64) -> usize {
        let text = self.config.text("maxmemory-clients");
        let Some(percent) = text.strip_suffix('%') else {
            return match text.parse().unwrap_or(0) {
                0 => usize::MAX,
                bytes => usize::max(bytes, CLIENT_BYTES_LEAST),
            };
        };
        let percent: u64 = percent.parse().unwrap_or(0);
        let of = match limit {
            0 => nearfield_tiers::machine::memory_bytes().unwrap_or(0),
            limit => limit,
        };
        match (of / 100).saturating_mul(percent) {
            // The percentage is zero, or the memory is unknown.
            0 if percent == 0 || of == 0 => usize::MAX,
            bytes => usize::max(bytes as usize, CLIENT_SHARE_LEAST),
        }
    }

    /// Returns the bytes that may wait for a client in a mailbox: its output limit.
    fn delivered_bytes_max(&self) -> usize {
        let limit = self.config.hot.output_limit(ClientClass::PubSub);
        match limit.hard_bytes.load(Ordering::Relaxed) {
            0 => usize::MAX,
            bytes => bytes as usize,
        }
    }
}
