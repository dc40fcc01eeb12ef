//! Tests of the indexes in remote memory. `canary` and `loom` are separate programs because they
//! are built with other flags, and `processes` because it starts itself as several processes.

#![cfg(not(loom))]

mod coordination;
mod costs;
mod filtered;
mod load;
mod model;
mod numbers;
mod rolex_costs;
mod rolex_map;
mod rolex_models;
mod rolex_simulated;
mod shared_compute_node;
mod simulated;
mod sizes;
mod smart;
mod smart_costs;
mod smart_simulated;
mod speculation;
mod store;
mod torn;
mod trees;
