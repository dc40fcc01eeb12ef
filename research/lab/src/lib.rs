//! The lab of Nearfield: experiments, each of which runs [workloads](workload) on contestants in
//! the same [harness] and produces a [report].
//!
//! The experiments are a [benchmark](mod@bench) against other maps and against the machine's own
//! [limit]; [servers](server) under the same load; traversal programs ([offload]); and the
//! [figures] of papers. Measured, counted and modelled numbers never appear in one figure without
//! their label.

#![deny(unsafe_code)]

pub mod bench;
pub mod clock;
pub mod error;
pub mod figures;
pub mod harness;
#[expect(
    unsafe_code,
    reason = "maps memory in huge pages, prefetches, and reads by io_uring"
)]
pub mod limit;
pub mod memory;
pub mod offload;
mod quantity;
pub mod report;
pub mod server;
mod text;
pub mod tiers;
pub mod workload;

pub use quantity::parse_quantity;
