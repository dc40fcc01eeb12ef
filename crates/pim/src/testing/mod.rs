//! Tests that several lists and indexes must pass, here and in other crates.

pub mod devices;
pub mod full;
pub mod lists;
pub mod skew;
