//! Tests of the indexes in memory modules.
//!
//! One program has all modules, so that generic code is compiled once.

mod concurrent;
mod full;
mod heights;
mod jump_push;
mod model;
mod pim_tree;
mod skew;
mod strings;
mod updates;
