//! Tests of the indexes in remote memory. `canary` and `loom` are separate programs because they
//! are built with other flags, and `processes` because it starts itself as several processes.

#![cfg(not(loom))]

mod added_nodes;
mod batched_changes;
mod coordination;
mod costs;
mod counts;
mod damaged;
mod drains;
mod filtered;
mod interrupted;
mod load;
mod long_keys;
mod mirrored;
mod model;
mod repairs;
mod shared_compute_node;
mod simulated;
mod sizes;
mod sorted_load;
mod speculation;
mod store;
mod torn;
mod trees;
