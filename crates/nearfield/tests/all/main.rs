//! Tests of the facade.
//!
//! One program has all modules, so that generic code is compiled once.

mod map;
mod model;
mod pim;
mod pool;
mod range;
mod ranges;
