//! The displayed changes between two samples.

use super::panel::{TextPanel, fit, side_by_side};
use super::sample::TopSample;
use crate::text::{bytes, number};

/// The displayed values.
#[derive(Debug)]
pub struct TopView {
    head: [String; 2],
    /// Commands: name, calls per second, and percentiles of latency in microseconds.
    commands: Vec<(String, f64, [f64; 2])>,
    /// Batch sizes, each with batches per second.
    batches: Vec<(String, f64)>,
    /// Kinds of memory, each with bytes.
    memory: Vec<(String, f64)>,
    /// Tiers, each with bytes, the percentage of the capacity in use, the percentage of uses that
    /// it serves, moves in and out per second, and a percentile of its read latency in
    /// microseconds.
    tiers: Vec<(String, f64, [f64; 5])>,
    /// Keys, each with database and uses per second.
    hot_keys: Vec<(String, u64, u64)>,
}

const DURATIONS: &str = "nearfield_command_duration_seconds_bucket";
const TIER_READS: &str = "nearfield_tier_read_duration_seconds_bucket";
const PERCENTILES: [f64; 2] = [0.5, 0.99];

impl TopView {
    /// Returns the changes from `before` to `now`.
    pub fn new(before: &TopSample, now: &TopSample) -> TopView {
        // The first view compares a sample with itself.
        let seconds = now.at.saturating_sub(before.at).as_secs_f64().max(0.001);
        // Totals fall if the server restarts, or if `CONFIG RESETSTAT` sets them back.
        let rate = |name: &str| ((now.sum(name) - before.sum(name)) / seconds).max(0.0);
        let calls = "nearfield_commands_total";
        let mut commands = Vec::new();
        for (name, count) in now.by_label(calls) {
            let more = count - before.of(calls, name);
            if more > 0.0 {
                let buckets = grown(before, now, DURATIONS, name);
                let times = PERCENTILES.map(|share| percentile(&buckets, share) * 1e6);
                commands.push((name.to_owned(), more / seconds, times));
            }
        }
        commands.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut batches = Vec::new();
        let mut least = 1.0;
        for (bound, count) in grown(before, now, "nearfield_batch_size_bucket", "") {
            let size = if least >= bound {
                format!("{bound}")
            } else if bound.is_finite() {
                format!("{least} to {bound}")
            } else {
                format!("{least} and more")
            };
            least = bound + 1.0;
            batches.push((size, count / seconds));
        }
        batches.retain(|(_, count)| *count > 0.0);
        let used = "nearfield_memory_used_bytes";
        let memory = now
            .by_label(used)
            .map(|(kind, bytes)| (kind.to_owned(), bytes));
        let limit = match now.sum("nearfield_memory_max_bytes") {
            0.0 => String::new(),
            limit => format!(" of {}", bytes(limit)),
        };
        let served = "nearfield_tier_served_total";
        let all_served = (now.sum(served) - before.sum(served)).max(1.0);
        let tier = |(tier, used): (&str, f64)| {
            let more = |name: &str| (now.of(name, tier) - before.of(name, tier)).max(0.0);
            let capacity = now.of("nearfield_tier_capacity_bytes", tier).max(1.0);
            let reads = grown(before, now, TIER_READS, tier);
            let figures = [
                100.0 * used / capacity,
                100.0 * more(served) / all_served,
                more("nearfield_tier_moved_in_total") / seconds,
                more("nearfield_tier_moved_out_total") / seconds,
                percentile(&reads, 0.99) * 1e6,
            ];
            (tier.to_owned(), used, figures)
        };
        let tiers = now
            .by_label("nearfield_tier_used_bytes")
            .map(tier)
            .collect();
        let hits = rate("nearfield_keyspace_hits_total");
        let reads = hits + rate("nearfield_keyspace_misses_total");
        let ratio = if reads > 0.0 {
            100.0 * hits / reads
        } else {
            0.0
        };
        let shown = |(key, database, uses): &(Vec<u8>, u64, u64)| {
            (key.escape_ascii().to_string(), *database, *uses)
        };
        TopView {
            head: [
                format!(
                    "{} commands/s   {} clients   {} keys   {}{limit}",
                    number(rate(calls)),
                    number(now.sum("nearfield_connected_clients")),
                    number(now.sum("nearfield_keys")),
                    bytes(now.sum(used)),
                ),
                format!(
                    "{ratio:.1} % hits   {} expired/s   {} evicted/s   {}/s in   {}/s out",
                    number(rate("nearfield_keys_expired_total")),
                    number(rate("nearfield_keys_evicted_total")),
                    bytes(rate("nearfield_received_bytes_total")),
                    bytes(rate("nearfield_sent_bytes_total")),
                ),
            ],
            commands,
            batches,
            memory: memory.collect(),
            tiers,
            hot_keys: now.hot_keys.iter().map(shown).collect(),
        }
    }

    /// Returns the view as lines of `width` characters, `height` of them if they are enough for the
    /// head and the tiers.
    pub fn lines(&self, width: usize, height: usize) -> Vec<String> {
        let mut lines: Vec<String> = self.head.iter().map(|line| fit(line, width)).collect();
        lines.push(fit("", width));
        // A server without tiers needs no lines for them.
        let tier_lines = match self.tiers.len() {
            0 => 0,
            tiers => tiers + TextPanel::FRAME_LINES,
        };
        let shared = height.saturating_sub(lines.len() + tier_lines);
        let upper = shared.div_ceil(2);
        let pairs = [
            (self.commands(), self.hot_keys(), upper),
            (self.batches(), self.memory(), shared - upper),
        ];
        for (left, right, height) in pairs {
            lines.extend(side_by_side(&left, &right, width, height));
        }
        if tier_lines > 0 {
            lines.extend(self.tiers().lines(width, tier_lines));
        }
        lines
    }

    fn commands(&self) -> TextPanel {
        let rows = self.commands.iter().map(|(name, rate, times)| {
            let [median, most] = times.map(|time| format!("{time:.1}"));
            vec![name.clone(), number(*rate), median, most]
        });
        let titles = &["command", "per second", "p50 µs", "p99 µs"];
        TextPanel::new("Commands", titles, rows)
    }

    fn hot_keys(&self) -> TextPanel {
        let rows = self.hot_keys.iter().map(|(key, database, uses)| {
            vec![key.clone(), number(*uses as f64), database.to_string()]
        });
        TextPanel::new("Hot keys", &["key", "per second", "database"], rows)
    }

    fn batches(&self) -> TextPanel {
        let rows = self.batches.iter();
        let rows = rows.map(|(size, rate)| vec![size.clone(), number(*rate)]);
        TextPanel::new("Batches", &["commands", "per second"], rows)
    }

    fn memory(&self) -> TextPanel {
        let rows = self.memory.iter();
        let rows = rows.map(|(kind, used)| vec![kind.replace('_', " "), bytes(*used)]);
        TextPanel::new("Memory", &["of", "used"], rows)
    }

    fn tiers(&self) -> TextPanel {
        let rows = self.tiers.iter().map(|(tier, used, figures)| {
            let [full, served, moved_in, moved_out, read] = figures;
            vec![
                tier.clone(),
                bytes(*used),
                format!("{full:.1} %"),
                format!("{served:.1} %"),
                number(*moved_in),
                number(*moved_out),
                number(*read),
            ]
        });
        let titles = &["tier", "used", "full", "serves", "in/s", "out/s", "read µs"];
        TextPanel::new("Tiers (read: p99)", titles, rows)
    }
}

/// Returns the number of values added to each bucket of a histogram.
fn grown(before: &TopSample, now: &TopSample, name: &str, label: &str) -> Vec<(f64, f64)> {
    let old = before.buckets(name, label);
    let mut below = 0.0;
    let buckets = now.buckets(name, label).into_iter().map(|(bound, count)| {
        let old = old.iter().find(|it| it.0 == bound).map_or(0.0, |it| it.1);
        let here = count - old - below;
        below += here;
        // `CONFIG RESETSTAT` sets the counts back.
        (bound, here.max(0.0))
    });
    buckets.collect()
}

/// Returns the upper bound of the bucket that holds a percentile.
fn percentile(buckets: &[(f64, f64)], share: f64) -> f64 {
    debug_assert!((0.0..=1.0).contains(&share));
    let all: f64 = buckets.iter().map(|(_, count)| count).sum();
    let mut below = 0.0;
    for (bound, count) in buckets {
        below += count;
        if below >= all * share {
            return *bound;
        }
    }
    0.0
}
