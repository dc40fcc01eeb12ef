//! The tools that every experiment uses to run: interrupts, clocks, statistics, and the description
//! of the machine.
//!
//! This layer is below reports and experiments, and does not depend on maps, servers or figures.

mod counts;
mod interrupt;
mod latency;
mod machine;
mod sample;
mod team;
mod turns;

pub use counts::MapCostCounts;
pub use interrupt::{Completion, Interrupt};
pub(crate) use latency::Durations;
pub use latency::LatencySummary;
pub use machine::{MachineProperties, commit};
pub use sample::MeasurementSample;
pub(crate) use team::{cores, together};
pub(crate) use turns::in_turns;
