//! The text above the figures, which describes the run.

use super::bench::DEVICE;
use super::scale::RadarScale;
use crate::figures::paper::ScaledPaper;
use crate::text::grouped;

pub(super) fn description(scale: &RadarScale) -> String {
    let mut text = format!(
        "{} keys on {} modules, {:.2} of the paper's density, batches of {} operations \
         or a hundredth of that in scans; {} batches of {} count; seed {}\n\
         All throughput is modelled, in virtual time, except that of figure CPU and of servers in \
         figure 14; training and the time of a protocol are measured. Figures use {} unless \
         they state otherwise:",
        grouped(scale.keys),
        grouped(scale.modules),
        scale.density(),
        grouped(scale.batch),
        scale.batches,
        scale.warming + scale.batches,
        scale.seed,
        DEVICE.parameters().name,
    );
    for device in scale.devices() {
        let [to_modules, from_modules] = device.bytes_per_second;
        text.push_str(&format!(
            "\n- {}: {:.0} MHz, {} threads, {:.0} ns a word of the bank, {:.0} µs a transfer and \
             {:.1} GB/s there, {:.1} GB/s back, {:.0} µs a launch ({})",
            device.name,
            device.cycles_per_second / 1e6,
            device.tasklets,
            device.word_ns,
            device.transfer_ns / 1e3,
            to_modules / 1e9,
            from_modules / 1e9,
            device.launch_ns / 1e3,
            device.source,
        ));
    }
    text
}
