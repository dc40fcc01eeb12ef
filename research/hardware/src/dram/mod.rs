//! Channels of DRAM, clock by clock: the time of each line, and its energy.
//!
//! A [`DramMemory`] has channels, each with a controller: a queue of reads, a buffer of writes, a
//! queue of commands for each bank. The controller decides which command a channel gets at a clock,
//! and the [`DramDevice`] knows the earliest clock at which a bank accepts it. Time is a number of
//! clocks and always an argument. Nothing happens between events, so the model jumps from one to
//! the next.
//!
//! ```
//! use nearfield_hardware::dram::{DramAccess, DramMemory, DramPreset};
//!
//! let mut memory = DramMemory::new(DramPreset::Ddr4X16.parameters())?;
//! memory.submit(0x1000, DramAccess::Read, 0);
//! // The row is opened, the column read, the burst carried: 22 + 22 + 4 clocks, and 1 of the
//! // controller.
//! assert_eq!(memory.finish().latency_ns.mean, 49.0 * 0.625);
//! # Ok::<(), nearfield_hardware::dram::DramError>(())
//! ```
//!
//! The rules of the controller are those that DRAMsim3 documents in its configuration and shows in
//! its results (Li et al., IEEE Computer Architecture Letters 19(2), 2020); `docs/dram.md` lists
//! them, and the omissions.

mod bank;
mod channel;
mod device;
mod error;
mod gaps;
mod latencies;
pub(crate) mod lines;
mod map;
mod memory;
mod parameters;
mod pending;
mod presets;
mod refresh;
mod replay;
mod report;
#[cfg(test)]
mod tests;
mod trace;

pub use channel::DramReadCompletion;
pub use device::{DramCommand, DramDevice};
pub use error::DramError;
pub use map::{AddressMap, DramLocation};
pub use memory::{DramMemory, LINE_BYTES};
pub use parameters::{Currents, DramPagePolicy, DramParameters};
pub use presets::DramPreset;
pub use replay::{DramReplayPace, Replay};
pub use report::{DramCommandCounts, DramEnergy, DramLatency, DramReport, DramRequestCounts};
pub use trace::{DramAccess, DramRequest, DramTrace};
