//! The description of a run, as text.

use super::scale::PulseScale;
use crate::text::grouped;
use nearfield_hardware::accelerator::cores;
use nearfield_hardware::accelerator::pulse::{PulseDesign, PulseParameters};

pub(super) fn description(scale: &PulseScale) -> String {
    let parameters = PulseParameters::PAPER;
    format!(
        "{} requests of a point, {} traversals where only these count; {} % of \
         the paper's keys; seed {}\n\
         All of it is modelled, hardware and network. Programs are real: the interpreter executes \
         them when the hardware would, on the bytes of tables of the paper's size, and every \
         result is checked. Many constants are assumed, because the paper's text has lost its \
         numbers: `sensitivity` shows how much results depend on each.\n\
         - accelerator: {}, {} workspaces, a cycle of {}, two channels of DDR4-2400, \
         {:.1} GB/s each, behind an interconnect of {:.1} GB/s\n\
         - processors: {} ({} cores), {} ({} cores)",
        grouped(scale.requests),
        grouped(scale.traversals),
        scale.keys_percent,
        scale.seed,
        PulseDesign::PROTOTYPE,
        PulseDesign::PROTOTYPE.workspaces(),
        parameters.cycle,
        parameters.channel_bytes_per_second / 1e9,
        parameters.memory_bytes_per_second() / 1e9,
        cores::CoresParameters::XEON.name,
        cores::CoresParameters::XEON.cores,
        cores::CoresParameters::ARM.name,
        cores::CoresParameters::ARM.cores,
    )
}
