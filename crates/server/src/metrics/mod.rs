//! Metrics, in the text format of Prometheus: over HTTP at `/metrics` and by the command METRICS.

mod port;

pub use port::serve;

use crate::info::tiers::TierFigures;
use crate::keyspace::{Database, Databases};
use crate::server::{ServerCore, SnapshotTask};
use nearfield::{OperationError, PoolNodeUse};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The metrics at the time of a request.
#[derive(Debug, Default)]
struct Metrics(Vec<Family>);

/// A metric, with one sample for each of its labels.
#[derive(Debug)]
struct Family {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    samples: Vec<(Vec<(&'static str, String)>, MetricValue)>,
}

#[derive(Debug)]
enum MetricValue {
    Count(u64),
    Seconds(Duration),
    Gauge(u64),
    /// Upper bounds, each with the number of values between the previous bound and it.
    Histogram(f64, Vec<(f64, u64)>),
}

/// Returns all current metrics. The caller is in a phase of the keyspace.
pub fn text(server: &ServerCore, databases: &Databases) -> String {
    let mut metrics = Metrics::default();
    metrics.add_commands(server);
    metrics.add_server(server);
    metrics.add_memory(server, databases);
    metrics.add_keys(server, databases);
    metrics.add_tiers(server, databases);
    metrics.add_pool(server);
    metrics.add_persistence(server);
    let mut registry = Registry::default();
    registry.register_collector(Box::new(metrics));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = encode(&mut text, &registry);
    text
}

fn label(name: &'static str, value: impl ToString) -> Vec<(&'static str, String)> {
    vec![(name, value.to_string())]
}

impl Metrics {
    fn add(&mut self, name: &'static str, help: &'static str, sample: MetricValue) {
        self.add_all(name, help, vec![(Vec::new(), sample)]);
    }

    fn count(&mut self, name: &'static str, help: &'static str, count: u64) {
        self.add(name, help, MetricValue::Count(count));
    }

    fn gauge(&mut self, name: &'static str, help: &'static str, value: u64) {
        self.add(name, help, MetricValue::Gauge(value));
    }

    fn add_all(
        &mut self,
        name: &'static str,
        help: &'static str,
        samples: Vec<(Vec<(&'static str, String)>, MetricValue)>,
    ) {
        let kinds = || {
            samples
                .iter()
                .map(|(_, sample)| std::mem::discriminant(sample))
        };
        debug_assert!(
            kinds()
                .zip(kinds().skip(1))
                .all(|(one, other)| one == other)
        );
        // The encoder adds the unit to the name.
        let (name, unit) = match (name.strip_suffix("_bytes"), name.strip_suffix("_seconds")) {
            (Some(name), _) => (name, Some(Unit::Bytes)),
            (_, Some(name)) => (name, Some(Unit::Seconds)),
            _ => (name, None),
        };
        self.0.push(Family {
            name,
            help,
            unit,
            samples,
        });
    }

    fn add_commands(&mut self, server: &ServerCore) {
        let commands = server.statistics.commands();
        let count = |of: fn(&crate::observe::statistics::CommandCounts) -> u64| {
            let sample = |counts| {
                (
                    label("command", name(counts)),
                    MetricValue::Count(of(counts)),
                )
            };
            commands.iter().map(sample).collect()
        };
        fn name(counts: &crate::observe::statistics::CommandCounts) -> &'static str {
            counts.name
        }
        let calls = count(|counts| counts.calls);
        self.add_all("nearfield_commands", "Commands that were executed", calls);
        let failed = count(|counts| counts.failed);
        self.add_all(
            "nearfield_commands_failed",
            "Commands that replied with an error",
            failed,
        );
        let rejected = count(|counts| counts.rejected);
        self.add_all(
            "nearfield_commands_rejected",
            "Commands that were refused",
            rejected,
        );
        let durations = commands.iter().map(|counts| {
            // Bucket n has times below 2^n nanoseconds.
            let buckets = counts.durations.iter().zip(0..);
            let buckets = buckets.map(|(&count, power)| (2_f64.powi(power) / 1e9, count));
            let sum = Duration::from_nanos(counts.nanoseconds).as_secs_f64();
            let histogram = MetricValue::Histogram(sum, buckets.collect());
            (label("command", counts.name), histogram)
        });
        let help = "Duration of commands; commands of a batch share its duration";
        self.add_all(
            "nearfield_command_duration_seconds",
            help,
            durations.collect(),
        );
        let batches = server.batches.counts();
        let buckets = batches.batches.iter().zip(0..);
        let buckets = buckets.map(|(&count, power)| (2_f64.powi(power), count));
        let sizes = MetricValue::Histogram(batches.commands as f64, buckets.collect());
        self.add(
            "nearfield_batch_size",
            "Commands that were executed as one batch",
            sizes,
        );
    }

    fn add_server(&mut self, server: &ServerCore) {
        let clients = server.clients.lock().len() as u64;
        let help = "Clients that are connected";
        self.gauge("nearfield_connected_clients", help, clients);
        let statistics = &server.statistics;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let all = of(&statistics.connections);
        let help = "Connections that were accepted";
        self.count("nearfield_connections", help, all);
        let rejected = of(&statistics.rejected_connections);
        let help = "Connections beyond maxclients";
        self.count("nearfield_connections_rejected", help, rejected);
        let received = of(&statistics.received_bytes);
        self.count("nearfield_received_bytes", "Bytes from clients", received);
        let sent = of(&statistics.sent_bytes);
        self.count("nearfield_sent_bytes", "Bytes to clients", sent);
        let uptime = server.started.elapsed().as_secs();
        self.gauge("nearfield_uptime_seconds", "Time since the start", uptime);
    }

    fn add_memory<'d>(&mut self, server: &ServerCore, databases: &'d Databases) {
        let (mut nodes, mut leaves, mut taken) = (0, 0, 0);
        let both = |database: &'d Database| [database.entries(), database.expiries()];
        for index in databases.iter().flat_map(both).flatten() {
            let memory = index.memory();
            leaves += memory.leaf_bytes;
            nodes += memory.total_bytes() - memory.leaf_bytes;
            taken += memory.taken_bytes;
        }
        let kinds = [
            ("index_nodes", nodes),
            ("index_leaves", leaves),
            ("objects", server.keyspace.heap.used_bytes()),
            ("clients", server.eviction.client_bytes()),
            ("aside", server.eviction.aside_bytes()),
            ("access_tables", server.access.bytes()),
        ];
        let kinds =
            kinds.map(|(kind, bytes)| (label("kind", kind), MetricValue::Gauge(bytes as u64)));
        self.add_all("nearfield_memory_used_bytes", "Memory in use", kinds.into());
        let help = "Memory of the indexes: in use, or free for reuse";
        self.gauge("nearfield_memory_index_taken_bytes", help, taken as u64);
        let limit = server.eviction.limit_bytes();
        let help = "The limit of memory; 0 if there is none";
        self.gauge("nearfield_memory_max_bytes", help, limit);
    }

    fn add_keys(&mut self, server: &ServerCore, databases: &Databases) {
        // To count shared keys, all of them would be read.
        let counted =
            |database: &Database| !database.is_shared() && database.is_empty() == Ok(false);
        // As in `INFO`, databases without keys are left out.
        let count = |of: fn(&Database) -> Result<usize, OperationError>| {
            let used = databases.iter().zip(0..).filter(|it| counted(it.0));
            used.map(|(database, number): (_, u32)| {
                let count = of(database).unwrap_or(0);
                (label("database", number), MetricValue::Gauge(count as u64))
            })
            .collect()
        };
        self.add_all("nearfield_keys", "Keys", count(Database::len));
        let help = "Keys with an expiry";
        self.add_all("nearfield_keys_expiring", help, count(Database::expiring));
        let keyspace = &server.keyspace;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let expired = of(&keyspace.expired_keys);
        self.count("nearfield_keys_expired", "Keys that have expired", expired);
        let evicted = server.eviction.evicted_keys();
        self.count("nearfield_keys_evicted", "Keys that were evicted", evicted);
        let help = "Lookups that found their key";
        self.count("nearfield_keyspace_hits", help, of(&keyspace.hits));
        let help = "Lookups that did not find their key";
        self.count("nearfield_keyspace_misses", help, of(&keyspace.misses));
    }

    fn add_tiers(&mut self, server: &ServerCore, databases: &Databases) {
        let tiers = TierFigures::take(server, databases);
        let mut add = |name, help, of: fn(&TierFigures) -> MetricValue| {
            let sample = |tier: &TierFigures| (label("tier", tier.kind), of(tier));
            self.add_all(name, help, tiers.iter().map(sample).collect());
        };
        add(
            "nearfield_tier_capacity_bytes",
            "Capacity of a tier",
            |tier| MetricValue::Gauge(tier.capacity_bytes),
        );
        add(
            "nearfield_tier_used_bytes",
            "Bytes that a tier uses",
            |tier| MetricValue::Gauge(tier.used_bytes),
        );
        add("nearfield_tier_values", "Values in a tier", |tier| {
            MetricValue::Gauge(tier.values)
        });
        let help = "Bytes of the values in a tier, before any compression";
        add("nearfield_tier_value_bytes", help, |tier| {
            MetricValue::Gauge(tier.value_bytes)
        });
        let help = "Uses of values that a tier has served";
        add("nearfield_tier_served", help, |tier| {
            MetricValue::Count(tier.served)
        });
        let help = "Values that have moved into a tier";
        add("nearfield_tier_moved_in", help, |tier| {
            MetricValue::Count(tier.moved_in)
        });
        let help = "Values that have moved out of a tier";
        add("nearfield_tier_moved_out", help, |tier| {
            MetricValue::Count(tier.moved_out)
        });
        let help = "Bytes of values that have moved into a tier";
        add("nearfield_tier_moved_in_bytes", help, |tier| {
            MetricValue::Count(tier.moved_in_bytes)
        });
        let help = "Failed moves of values into a tier";
        add("nearfield_tier_moves_abandoned", help, |tier| {
            MetricValue::Count(tier.abandoned)
        });
        let help = "Values in a tier that could not be read";
        add("nearfield_tier_unreadable", help, |tier| {
            MetricValue::Count(tier.unreadable)
        });
        let help = "Values that the disk of a tier could not write";
        add("nearfield_tier_unwritable", help, |tier| {
            MetricValue::Count(tier.unwritable)
        });
        if !tiers.is_empty() {
            let (ping_pong, _) = server.tiering.ping_pong_and_put_off();
            let help = "Values that returned to a faster tier soon after they had left it";
            self.count("nearfield_tier_ping_pong", help, ping_pong);
        }
        let keyspace = &server.keyspace;
        let latencies = tiers.iter().filter_map(|tier| {
            let traffic = keyspace.cold.traffic(tier.number)?;
            let buckets = traffic.latencies();
            let buckets = buckets.map(|(time, count)| (time.as_secs_f64(), count));
            let sum = traffic.reading().as_secs_f64();
            let histogram = MetricValue::Histogram(sum, buckets.collect());
            Some((label("tier", tier.kind), histogram))
        });
        let help = "Duration of reads of a tier";
        // The first tier is memory, of which no reads are timed.
        let latencies = latencies.skip(1).collect();
        self.add_all("nearfield_tier_read_duration_seconds", help, latencies);
    }

    fn add_pool(&mut self, server: &ServerCore) {
        let Some(pool) = server.keyspace.home.pool_use() else {
            return;
        };
        let mut add = |name, help, of: fn(&PoolNodeUse) -> MetricValue| {
            let sample = |node: &PoolNodeUse| (label("node", node.state.node.0), of(node));
            self.add_all(name, help, pool.nodes.iter().map(sample).collect());
        };
        let help = "1 unless a memory node of the pool was lost when it was last accessed";
        add("nearfield_pool_node_served", help, |node| {
            MetricValue::Gauge(u64::from(node.state.is_served))
        });
        let help = "1 if a repair of the pool has excluded the memory node";
        add("nearfield_pool_node_excluded", help, |node| {
            MetricValue::Gauge(u64::from(node.state.is_excluded))
        });
        let help = "Operations that failed because a memory node of the pool was lost";
        add("nearfield_pool_node_failures", help, |node| {
            MetricValue::Count(node.state.failures)
        });
        let help = "Reads that this server has posted to the memory node";
        add("nearfield_pool_node_reads", help, |node| {
            MetricValue::Count(node.traffic.reads)
        });
        let help = "Writes that this server has posted to the memory node";
        add("nearfield_pool_node_writes", help, |node| {
            MetricValue::Count(node.traffic.writes)
        });
        let help = "Swaps and additions that this server has posted to the memory node";
        add("nearfield_pool_node_atomics", help, |node| {
            MetricValue::Count(node.traffic.atomics)
        });
        let help = "Allocations and frees that this server has requested of the memory node";
        add("nearfield_pool_node_calls", help, |node| {
            MetricValue::Count(node.traffic.calls)
        });
        let help = "Bytes that this server has read from the memory node";
        add("nearfield_pool_node_read_bytes", help, |node| {
            MetricValue::Count(node.traffic.read_bytes)
        });
        let help = "Bytes that this server has written to the memory node";
        add("nearfield_pool_node_written_bytes", help, |node| {
            MetricValue::Count(node.traffic.written_bytes)
        });
        let help = "Tries to take a lock on the memory node that another client held";
        add("nearfield_pool_node_held_locks", help, |node| {
            MetricValue::Count(node.traffic.held_locks)
        });
        let help = "Reads of the memory node that met a concurrent write and were repeated";
        add("nearfield_pool_node_torn_reads", help, |node| {
            MetricValue::Count(node.state.torn_reads)
        });
        let help = "Outdated routes to leaves and inner nodes on the memory node";
        add("nearfield_pool_node_stale_routes", help, |node| {
            MetricValue::Count(node.state.stale_routes)
        });
        let help = "Posts and calls that failed because the memory node was lost";
        add("nearfield_pool_node_lost_posts", help, |node| {
            MetricValue::Count(node.traffic.lost_posts)
        });
        let help = "Bytes of inner nodes of the pool in the cache of this server";
        let bytes = pool.cache_bytes as u64;
        self.gauge("nearfield_pool_cache_bytes", help, bytes);
        let lookups = pool.cache_lookups;
        let help = "Lookups of parents of leaves that found them in the cache";
        self.count("nearfield_pool_cache_hits", help, lookups.hits);
        let help = "Lookups of parents of leaves that did not find them in the cache";
        self.count("nearfield_pool_cache_misses", help, lookups.misses);
        let help = "Bytes of long values in the pool that this server has replaced, not free yet";
        self.gauge("nearfield_pool_retired_bytes", help, pool.retired_bytes);
    }

    fn add_persistence(&mut self, server: &ServerCore) {
        let log = server.log.counts();
        let help = "The length of the log's current file";
        self.gauge("nearfield_log_bytes", help, log.file_bytes);
        self.count("nearfield_log_syncs", "Syncs of the log", log.syncs);
        let time = MetricValue::Seconds(log.sync_time);
        let help = "Time that syncs of the log took";
        self.add("nearfield_log_sync_seconds", help, time);
        let status = server.persistence.status();
        let saves = u64::from(status.running == Some(SnapshotTask::Save));
        let help = "1 if a snapshot is being saved";
        self.gauge("nearfield_snapshot_in_progress", help, saves);
        let ok = u64::from(status.last_save_ok);
        let help = "1 if the last snapshot was saved";
        self.gauge("nearfield_snapshot_last_ok", help, ok);
        let time = status.last_save_s;
        let help = "Time of the last snapshot, in seconds since 1970";
        self.gauge("nearfield_snapshot_last_timestamp_seconds", help, time);
        let changes = server.keyspace.changes.load(Ordering::Relaxed);
        let help = "Changes since the last snapshot";
        self.gauge("nearfield_snapshot_unsaved_changes", help, changes);
    }
}

impl MetricValue {
    fn encode(&self, metric: &mut MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        match self {
            MetricValue::Count(count) => metric.encode_counter::<NoLabelSet, _, u64>(count, None),
            MetricValue::Seconds(time) => {
                metric.encode_counter::<NoLabelSet, _, u64>(&time.as_secs_f64(), None)
            }
            MetricValue::Gauge(value) => metric.encode_gauge(value),
            MetricValue::Histogram(sum, buckets) => {
                let count = buckets.iter().map(|(_, count)| count).sum();
                debug_assert!(buckets.is_sorted_by(|one, next| one.0 < next.0));
                // The format demands a last bucket without a bound.
                let last = [(f64::INFINITY, 0)];
                let buckets = [&buckets[..], &last].concat();
                metric.encode_histogram::<NoLabelSet>(*sum, count, &buckets, None)
            }
        }
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        for family in &self.0 {
            // A family without samples has no kind, and nothing to show.
            let kind = match family.samples.first() {
                None => continue,
                Some((_, MetricValue::Gauge(_))) => MetricType::Gauge,
                Some((_, MetricValue::Histogram(..))) => MetricType::Histogram,
                Some(_) => MetricType::Counter,
            };
            let unit = family.unit.as_ref();
            let mut metric = encoder.encode_descriptor(family.name, family.help, unit, kind)?;
            for (labels, sample) in &family.samples {
                if labels.is_empty() {
                    sample.encode(&mut metric)?;
                } else {
                    sample.encode(&mut metric.encode_family(labels)?)?;
                }
            }
        }
        Ok(())
    }
}
