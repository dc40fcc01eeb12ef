//! Runs of indexes in remote memory over a simulated fabric, which tears verbs and kills clients.
//! They check that the clients' outcomes are linearizable.
//!
//! An index implements [`RemoteIndex`], and its creation and opening; [`check`] runs it with many
//! seeds. Each seed is a run of its own: its keys, its operations, the torn verbs, the deaths of
//! clients. A failure prints its seed, and the command that replays it. [`FaultySimEndpoint`] is an
//! endpoint with a fault, for tests of the tests.
//!
//! An index in the pool is a [`RemoteIndex`] by [`NumberKeyIndex`]; [`shared_node`] runs clients of
//! one compute node.
//!
//! [`check_damage`] runs operations on memory that is damaged meanwhile: they may fail, but must
//! neither panic nor hang.
//!
//! `ShmNodes` are memory nodes in shared memory, for tests under real threads.

#![forbid(unsafe_code)]

mod damage;
mod faulty;
mod history;
mod index;
mod numbers;
mod plan;
mod run;
pub mod shared_node;
#[cfg(target_os = "linux")]
mod shm_nodes;

pub use damage::{
    DamagePlan, DamagedEndpoint, DamagedMemory, check_damage, first_damage_failure, operate,
};
pub use faulty::{FaultInterference, FaultySimEndpoint, Interference, SimEndpointFault};
pub use index::{RemoteIndex, RemoteIndexFactory};
pub use numbers::{INDEX_ROOT, NumberKeyIndex, fabric_error};
pub use plan::RemoteRunPlan;
pub use run::{RemoteRunFailure, RemoteRunReport, check, each_seed, run};
#[cfg(target_os = "linux")]
pub use shm_nodes::ShmNodes;
