//! The accelerator of pulse (ASPLOS 2025), cycle by cycle.
//!
//! ```text
//!            network stack                    each iteration of a traversal
//!          in │         ▲ out
//!             ▼         │                     scheduler → memory pipeline: translation, burst
//!   ┌────── scheduler ──────┐                     ↑               │
//!   ▼                       ▼                     │               ▼
//!  memory pipelines   logic pipelines         logic pipeline ← scheduler
//!   │    translation   workspaces
//!   ▼
//!  channels of DRAM
//! ```
//!
//! A *workspace* holds a traversal: its address, scratchpad and loaded bytes. Workspaces are
//! divided among the logic pipelines. A memory pipeline fetches for any workspace. It is occupied
//! while it translates an address and while a burst arrives, not while DRAM opens the row. A burst
//! occupies one channel and the interconnect that all channels share (appendix C.2). A long fetch
//! is a sequence of bursts. In the *coupled* design, with which the paper compares, each memory
//! pipeline belongs to one logic pipeline with two workspaces, without a scheduler in between
//! (section 6.2, Table 4).
//!
//! The channels are those of [`crate::dram`]: banks with rows, the queues of a controller, refresh
//! ([`PulseMemoryModel::Dram`]). A simpler model without banks has closed forms.
//!
//! Units of the accelerator begin at edges of its clock. Channels of DRAM do not follow that clock.
//! Nothing happens between events, so the model jumps from one to the next.
//!
//! [`PulseParameters`] has every constant with its source; [`bound`] the throughput that no run
//! exceeds with channels without banks; [`area`] and [`energy`] the costs of a design; [`schedule`]
//! the schedule of appendix A.

mod accelerator;
pub mod area;
pub mod bound;
mod dram;
pub mod energy;
mod parameters;
pub mod schedule;
#[cfg(test)]
mod tests;
mod usage;

pub use accelerator::PulseAccelerator;
pub use parameters::{ParameterError, PulseDesign, PulseMemoryModel, PulseParameters};
pub use usage::{Breakdown, PulseUsage};
