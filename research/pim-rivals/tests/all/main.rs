//! Tests of the rivals in memory modules.
//!
//! All modules are in one program, so that generic code is compiled once.

mod concurrent;
mod full;
mod jump_push;
mod model;
mod pim_tree;
mod skew;
