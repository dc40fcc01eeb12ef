//! Tests of the indexes in memory modules.
//!
//! All modules are in one program, so that generic code is compiled once.

mod concurrent;
mod full;
mod heights;
mod model;
mod skew;
mod strings;
mod unsteady;
mod updates;
