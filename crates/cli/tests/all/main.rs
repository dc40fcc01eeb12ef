//! Tests of the `nearfield` command: each starts the program and checks its output.
//!
//! All modules are in one program, so that generic code is compiled once.

use std::sync::{Mutex, MutexGuard, PoisonError};

mod advise;
mod attack;
mod memory_node;
#[cfg(target_os = "linux")]
mod memory_taken;
mod nodes;
mod offload;
#[cfg(target_os = "linux")]
mod process;
mod program;
mod serve;
#[cfg(target_os = "linux")]
mod shared_pool;

static UCX: Mutex<()> = Mutex::new(());

/// Lets one test at a time use UCX in this process. UCX 1.13 confuses the events of a worker that
/// ends with those of a worker that another thread begins meanwhile.
fn only_user_of_ucx() -> MutexGuard<'static, ()> {
    // A test that failed has left nothing that the next one uses.
    UCX.lock().unwrap_or_else(PoisonError::into_inner)
}
