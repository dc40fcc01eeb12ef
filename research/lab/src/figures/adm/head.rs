//! The description of a run, as text.

use super::hybrid::{SLOW, VARIANTS};
use super::placement::ADM_INTERVAL;
use super::scale::AdmScale;
use super::served::PAPER_OBJECTS;
use crate::text::grouped;

pub(super) fn description(scale: &AdmScale) -> String {
    let mut text = format!(
        "{} objects and {} requests in place of 100,000 and 10,000,000; keys by a \
         normal distribution of deviation {:.1} %; the fast memory has room for {:.0} % of the \
         bytes; ADM walks after {} requests for each object, with thresholds {} and {}; our policy \
         moves at most {} bytes in a second for each object; seed {}\n\
         All of it is modelled: policies on objects without contents, and models of memory, which \
         execute about {} lines of each run, in windows over all of it. Latencies and energies \
         are those of these lines, copies included; energy is that of column accesses unless \
         stated otherwise. One client has ten lines in flight. There is no cache. Figure server \
         has a real server with {} objects, whose shares are measured. Its trace passes caches of \
         {:.0} % of the paper's size, as it has this part of the paper's objects. The memories:",
        grouped(scale.objects),
        grouped(scale.requests()),
        scale.deviation * 100.0,
        scale.capacity * 100.0,
        ADM_INTERVAL,
        scale.threshold_in,
        scale.threshold_out,
        scale.our_bytes_per_second,
        scale.seed,
        grouped(scale.lines),
        grouped(scale.server_objects),
        scale.server_objects as f64 / PAPER_OBJECTS * 100.0,
    );
    let slow = SLOW.parameters();
    text.push_str(&format!("\n- slow: {} ({})", slow.name, slow.source));
    for variant in VARIANTS {
        let fast = variant.fast.parameters();
        text.push_str(&format!(
            "\n- {}: {}, {} ({})",
            variant.name, fast.name, variant.map, fast.source
        ));
    }
    text
}
