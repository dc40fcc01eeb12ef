//! Maps in every placement do what a `BTreeMap` does, and keep what the facade adds.

mod every_placement;
mod filtered;
mod map;
mod model;
mod pim;
#[cfg(target_os = "linux")]
mod pool;
mod range;
mod ranges;
mod tiered;
