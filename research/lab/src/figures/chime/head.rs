//! The text above the figures, which describes the run.

use super::scale::ChimeScale;
use crate::figures::paper::ScaledPaper;
use crate::text::grouped;

/// Describes the size of the run and its models.
pub(super) fn description(scale: &ChimeScale) -> String {
    let mut text = format!(
        "{} keys in place of 60,000,000, caches in proportion ({:.4}); {} clients at \
         most on {} compute nodes, two operations each; seed {}\n\
         All throughput and latency is modelled, in virtual time:",
        grouped(scale.keys),
        scale.part(),
        scale.clients,
        scale.compute_nodes,
        scale.seed,
    );
    for network in scale.networks() {
        text.push_str(&format!(
            "\n- {}: {:.2} µs round trip, {:.1} GB/s, {} bytes a header, {:.0} M reads, {:.0} M \
             writes, {:.0} M atomics a second, {:.1} M on one word ({})",
            network.name,
            network.round_trip_ns / 1e3,
            network.bytes_per_second / 1e9,
            network.header_bytes,
            network.reads_per_second / 1e6,
            network.writes_per_second / 1e6,
            network.atomics_per_second / 1e6,
            network.same_word_per_second / 1e6,
            network.source,
        ));
    }
    text
}
