//! Tests of the local placement. `loom` and `stress` are programs of their own because they are
//! built with other flags, too, and `memory` because others of its process must not be pinned.
//!
//! One program has all modules, so that generic code is compiled once.

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
