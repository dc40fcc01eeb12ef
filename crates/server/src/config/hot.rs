//! Parameters that code reads often.

use crate::keyspace::DATABASES;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

/// The values of parameters that code reads often, as numbers.
#[derive(Debug, Default)]
pub struct Hot {
    /// `slowlog-log-slower-than`, in microseconds; if negative, nothing is logged.
    pub slowlog_slower_than_us: AtomicI64,
    /// `slowlog-max-len`
    pub slowlog_max_len: AtomicU64,
    /// `latency-monitor-threshold`, in milliseconds; if 0, nothing is recorded.
    pub latency_threshold_ms: AtomicU64,
    /// `latency-tracking`
    pub latency_tracking: AtomicBool,
    /// `notify-keyspace-events`, as bits (see [`events`](super::events)).
    pub notified_events: AtomicU32,
    /// `maxmemory`, in bytes; 0: no limit.
    pub maxmemory_bytes: AtomicU64,
    /// `databases`
    pub databases: AtomicU64,
    /// `maxclients`
    pub maxclients: AtomicU64,
    /// `timeout`, in seconds; if 0, idle clients are not closed.
    pub timeout_s: AtomicU64,
    /// `tcp-keepalive`, in seconds; if 0, it is off.
    pub tcp_keepalive_s: AtomicU64,
    /// `proto-max-bulk-len`, in bytes.
    pub argument_bytes_max: AtomicU64,
    /// `client-query-buffer-limit`, in bytes.
    pub query_bytes_max: AtomicU64,
    /// `tracking-table-max-keys`; 0: no limit.
    pub tracking_table_max_keys: AtomicU64,
    /// `client-output-buffer-limit normal`
    pub output_normal: BufferLimit,
    /// `client-output-buffer-limit pubsub`
    pub output_pubsub: BufferLimit,
}

/// The limits of the bytes that wait to be sent to a client.
#[derive(Debug, Default)]
pub struct BufferLimit {
    /// Bytes at which the client is closed at once; 0: no limit.
    pub hard_bytes: AtomicU64,
    /// Bytes at which it is closed if they stay that many for `soft_s` seconds; 0: no limit.
    pub soft_bytes: AtomicU64,
    /// The seconds for which the soft limit may be exceeded.
    pub soft_s: AtomicU64,
}

/// A class of clients with output limits of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientClass {
    /// Clients that receive replies.
    Normal,
    /// Clients that listen to channels.
    PubSub,
}

impl Hot {
    /// Returns the limit of a class of clients.
    pub fn output_limit(&self, class: ClientClass) -> &BufferLimit {
        match class {
            ClientClass::Normal => &self.output_normal,
            ClientClass::PubSub => &self.output_pubsub,
        }
    }

    /// Returns the number of databases.
    pub fn databases(&self) -> usize {
        let number = self.databases.load(Ordering::Relaxed);
        usize::try_from(number).unwrap_or(DATABASES).min(DATABASES)
    }

    /// Updates all numbers from the values that `text` returns by name.
    pub fn refresh(&self, text: impl Fn(&str) -> String) {
        let numbers = [
            ("slowlog-max-len", &self.slowlog_max_len),
            ("latency-monitor-threshold", &self.latency_threshold_ms),
            ("maxmemory", &self.maxmemory_bytes),
            ("databases", &self.databases),
            ("maxclients", &self.maxclients),
            ("timeout", &self.timeout_s),
            ("tcp-keepalive", &self.tcp_keepalive_s),
            ("proto-max-bulk-len", &self.argument_bytes_max),
            ("client-query-buffer-limit", &self.query_bytes_max),
            ("tracking-table-max-keys", &self.tracking_table_max_keys),
        ];
        for (name, number) in numbers {
            number.store(text(name).parse().unwrap_or(0), Ordering::Relaxed);
        }
        // The check of the parameter lets only numbers pass. Without one, nothing would be logged.
        let slower = text("slowlog-log-slower-than").parse().unwrap_or(-1);
        self.slowlog_slower_than_us.store(slower, Ordering::Relaxed);
        let tracking = text("latency-tracking") == "yes";
        self.latency_tracking.store(tracking, Ordering::Relaxed);
        let events = super::events::parse(&text("notify-keyspace-events"));
        self.notified_events
            .store(events.unwrap_or(0), Ordering::Relaxed);
        let limits = text("client-output-buffer-limit");
        let words: Vec<_> = limits.split_whitespace().collect();
        for limit in words.chunks(4) {
            debug_assert_eq!(limit.len(), 4, "the parameter's check completes each class");
            let [class, hard, soft, seconds] = limit else {
                continue;
            };
            let limit = match *class {
                "normal" => &self.output_normal,
                "pubsub" => &self.output_pubsub,
                // There are no replicas, so the class `slave` has no clients.
                _ => continue,
            };
            let numbers = [
                (hard, &limit.hard_bytes),
                (soft, &limit.soft_bytes),
                (seconds, &limit.soft_s),
            ];
            for (word, number) in numbers {
                number.store(word.parse().unwrap_or(0), Ordering::Relaxed);
            }
        }
    }
}
