//! Tests of the rivals in remote memory.

mod damaged;
mod marlin_simulated;
mod rolex_costs;
mod rolex_map;
mod rolex_models;
mod rolex_simulated;
mod shared_compute_node;
mod smart;
mod smart_costs;
mod smart_simulated;
