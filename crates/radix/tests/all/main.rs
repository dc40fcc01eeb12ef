//! Tests of the local placement. `loom` and `stress` are separate programs because they are also
//! built with other flags, and `memory` because other threads of its process must not be pinned.
//!
//! One program contains all modules, so that generic code is compiled once.

#![cfg(not(loom))]

mod blocks;
mod bulk;
mod counters;
mod jumps;
mod limits;
mod model;
mod pipeline;
mod reclaim;
mod recorded;
mod runs;
mod shortcuts;
