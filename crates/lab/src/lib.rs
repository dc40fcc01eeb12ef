//! The lab of Nearfield: [workloads](workload), a [benchmark](mod@bench) against other maps, the
//! machine's own [limit], and [reports](report).
//!
//! Measured, counted and modelled numbers never meet in one figure without their label.

#![deny(unsafe_code)]

pub mod bench;
pub mod clock;
pub mod error;
pub mod figures;
#[expect(unsafe_code, reason = "maps memory in huge pages and prefetches")]
pub mod limit;
pub mod memory;
pub mod report;
pub mod server;
pub mod workload;
