//! Maps in every placement behave like a `BTreeMap`, and the facade's additions hold.

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
