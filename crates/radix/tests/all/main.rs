//! Tests of the local placement. `loom` and `stress` are programs of their own because they are
//! built with other flags, too.
//!
//! One program has all modules, so that generic code is compiled once.

#![cfg(not(loom))]

mod blocks;
mod bulk;
mod counters;
mod limits;
mod memory;
mod model;
mod pipeline;
mod shortcuts;
