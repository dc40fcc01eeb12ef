//! The transports to memory nodes. Each implements [`Endpoint`](crate::Endpoint).
//!
//! - `sim` (cargo feature `model`): a simulation in virtual time, repeatable from a seed. It uses
//!   all the freedom that the contract of verbs leaves.
//! - `shm`: memory that processes of one machine share (Linux only).
//! - `ucx`: nodes on other machines (Linux only).
//!
//! `nearfield memory-node` serves the last two.

#[cfg(target_os = "linux")]
mod copy;
#[cfg(target_os = "linux")]
pub mod shm;
#[cfg(feature = "model")]
pub mod sim;
#[cfg(target_os = "linux")]
pub mod ucx;
