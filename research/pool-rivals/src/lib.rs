//! Rivals of [CHIME](nearfield_pool::chime) over the same fabric.
//!
//! - [`marlin`] is a B+ tree for keys and values of any length (ICPP 2023).
//! - [`rolex`] is a learned index (FAST 2023).
//! - [`smart`] is a KV-discrete radix tree (OSDI 2023).
//!
//! They use the pool's layout of leaves, its hopscotch tables and its coordination of the clients
//! of a compute node. As there, an operation that finds damaged memory ends with an error.

#![forbid(unsafe_code)]

pub mod marlin;
pub mod rolex;
pub mod smart;
mod wait_limit;
