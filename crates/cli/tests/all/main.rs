//! Tests of the `nearfield` command: each starts the program and checks its output.
//!
//! All modules are in one program, so that generic code is compiled once.

mod advise;
mod attack;
mod memory_node;
#[cfg(target_os = "linux")]
mod memory_taken;
#[cfg(target_os = "linux")]
mod node_kills;
mod nodes;
mod offload;
#[cfg(target_os = "linux")]
mod process;
mod program;
mod serve;
#[cfg(target_os = "linux")]
mod shared_pool;
