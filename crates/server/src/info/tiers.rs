//! The section about tiers, and the figures of each tier for other readers.

use super::InfoPage;
use crate::keyspace::Databases;
use crate::server::ServerCore;
use nearfield_tiers::cold::Traffic;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The figures of one tier.
#[derive(Clone, Debug)]
pub struct TierFigures {
    /// The tier's number, from 0 for the fastest.
    pub number: usize,
    /// The tier's kind: `memory`, `compressed` or `file`.
    pub kind: &'static str,
    /// The largest number of bytes that it may take.
    pub capacity_bytes: u64,
    /// The number of bytes that it takes.
    pub used_bytes: u64,
    /// The number of values in it.
    pub values: u64,
    /// The bytes of its values before any compression. For memory, keys and all indexes are
    /// included.
    pub value_bytes: u64,
    /// The number of uses of values in this tier.
    pub served: u64,
    /// The number of values that moved in.
    pub moved_in: u64,
    /// The bytes of the values that moved in.
    pub moved_in_bytes: u64,
    /// The number of values that moved out.
    pub moved_out: u64,
    /// The bytes of the values that moved out.
    pub moved_out_bytes: u64,
    /// The number of abandoned moves into this tier.
    pub abandoned: u64,
    /// The number of values that could not be read.
    pub unreadable: u64,
    /// The number of values that its disk could not write.
    pub unwritable: u64,
    /// The median duration of its reads, to a factor of two.
    pub read_p50: Duration,
    /// The 99th percentile of the duration of its reads, to a factor of two.
    pub read_p99: Duration,
}

impl TierFigures {
    /// Returns the figures of all tiers. Empty if there are no tiers.
    pub fn take(server: &ServerCore, databases: &Databases) -> Vec<TierFigures> {
        let keyspace = &server.keyspace;
        let Some(tiers) = keyspace.cold.tiers() else {
            return Vec::new();
        };
        let keys: usize = databases.iter().map(|it| it.len().unwrap_or(0)).sum();
        let memory = (keyspace.index_bytes(databases) + keyspace.heap.used_bytes()) as u64;
        let mut all = Vec::new();
        let (mut cold_values, mut cold_served) = (0, 0);
        for (number, tier) in tiers.specifications().iter().enumerate() {
            let Some(traffic) = keyspace.cold.traffic(number) else {
                continue;
            };
            let usage = tiers.usage(number).unwrap_or_default();
            let served = traffic.served.load(Relaxed);
            cold_values += usage.values;
            cold_served += served;
            all.push(TierFigures {
                number,
                kind: keyspace.cold.name(number),
                capacity_bytes: tier.capacity_bytes,
                used_bytes: usage.used_bytes,
                values: usage.values,
                value_bytes: usage.value_bytes,
                served,
                moved_in: traffic.moved_in.load(Relaxed),
                moved_in_bytes: traffic.moved_in_bytes.load(Relaxed),
                moved_out: traffic.moved_out.load(Relaxed),
                moved_out_bytes: traffic.moved_out_bytes.load(Relaxed),
                abandoned: traffic.abandoned.load(Relaxed),
                unreadable: traffic.unreadable.load(Relaxed),
                unwritable: traffic.unwritable.load(Relaxed),
                read_p50: traffic.quantile(0.5).unwrap_or_default(),
                read_p99: traffic.quantile(0.99).unwrap_or_default(),
            });
        }
        // Memory counts no uses of its own: they are the hits that no cold tier has served.
        if let Some(first) = all.first_mut() {
            debug_assert_eq!(first.number, 0, "the first tier is memory");
            first.used_bytes = memory;
            first.value_bytes = memory;
            first.values = (keys as u64).saturating_sub(cold_values);
            first.served = keyspace.hits.load(Relaxed).saturating_sub(cold_served);
        }
        all
    }

    /// Returns the compression ratio of the tier's values.
    pub fn compression(&self) -> f64 {
        self.value_bytes as f64 / (self.used_bytes as f64).max(1.0)
    }
}

/// Writes the section.
pub fn write(page: &mut InfoPage<'_>) {
    let tiers = TierFigures::take(page.server, page.databases);
    page.field("tiers", tiers.len());
    let served: u64 = tiers.iter().map(|tier| tier.served).sum();
    for tier in &tiers {
        let share = 100.0 * tier.served as f64 / (served as f64).max(1.0);
        let name = format!("tier_{}", tier.number);
        let traffic = page.server.keyspace.cold.traffic(tier.number);
        if let Some(failure) = traffic.and_then(Traffic::failure) {
            page.field(&format!("{name}_failure"), failure);
        }
        let fields = [
            format!("kind={}", tier.kind),
            format!("capacity_bytes={}", tier.capacity_bytes),
            format!("used_bytes={}", tier.used_bytes),
            format!("values={}", tier.values),
            format!("value_bytes={}", tier.value_bytes),
            format!("compression={:.2}", tier.compression()),
            format!("served={}", tier.served),
            format!("served_percent={share:.2}"),
            format!("moved_in={}", tier.moved_in),
            format!("moved_in_bytes={}", tier.moved_in_bytes),
            format!("moved_out={}", tier.moved_out),
            format!("moved_out_bytes={}", tier.moved_out_bytes),
            format!("abandoned={}", tier.abandoned),
            format!("unreadable={}", tier.unreadable),
            format!("unwritable={}", tier.unwritable),
            format!("read_p50_us={}", tier.read_p50.as_micros()),
            format!("read_p99_us={}", tier.read_p99.as_micros()),
        ];
        page.field(&name, fields.join(","));
    }
    if !tiers.is_empty() {
        page.field("tiers_policy", page.server.config.text("tier-policy"));
        page.field("tiers_full", u8::from(page.server.tiering.is_stuck()));
        let (ping_pong, put_off) = page.server.tiering.ping_pong_and_put_off();
        page.field("tiers_ping_pong", ping_pong);
        page.field("tiers_put_off", put_off);
        page.field("pinned_keys", page.server.tiering.pins.count());
    }
}
