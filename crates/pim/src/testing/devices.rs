//! Devices with few modules, by seeds of tests.

use crate::device::{Model, Workers};
use nearfield_hardware::modules::ModulePreset;

/// Number of bytes of each bank of [`workers`].
const BANK_BYTES: u64 = 1 << 22;

/// Returns a small number of modules, possibly one.
pub fn modules(seed: u64) -> usize {
    [1, 2, 3, 8, 64][seed as usize % 5]
}

/// Returns modelled modules.
pub fn modelled(seed: u64) -> Model {
    Model::new(modules(seed), ModulePreset::UpmemMeasured.parameters())
}

/// Returns modules that are worker threads.
pub fn workers(seed: u64) -> Workers {
    Workers::new(modules(seed), BANK_BYTES, 2)
}
