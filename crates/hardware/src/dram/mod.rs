//! Channels of DRAM, clock by clock: the time of each line, and its energy.
//!
//! A [`Memory`] has channels, each with a controller: a queue of reads, a buffer of writes, a queue
//! of commands for each bank. The controller decides which command a channel gets at a clock, and
//! the [`Device`] knows the earliest clock at which a bank accepts it. Time is a number of clocks
//! and always an argument. Nothing happens between events, so the model jumps from one to the next.
//!
//! ```
//! use nearfield_hardware::dram::{Access, Memory, Preset};
//!
//! let mut memory = Memory::new(Preset::Ddr4X16.parameters())?;
//! memory.submit(0x1000, Access::Read, 0);
//! // The row is opened, the column read, the burst carried: 22 + 22 + 4 clocks, and 1 of the
//! // controller.
//! assert_eq!(memory.finish().latency_ns.mean, 49.0 * 0.625);
//! # Ok::<(), nearfield_hardware::dram::Error>(())
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

pub use channel::Answer;
pub use device::{Command, Device};
pub use error::Error;
pub use map::{AddressMap, Place};
pub use memory::{LINE_BYTES, Memory};
pub use parameters::{Currents, Page, Parameters};
pub use presets::Preset;
pub use replay::{Pace, Replay};
pub use report::{Commands, Energy, Latency, Report, Requests};
pub use trace::{Access, Request, Trace};
