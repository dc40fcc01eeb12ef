//! Tests of the transports between processes, and of membership by etcd.
//!
//! One program has all modules, so that generic code is compiled once.

mod etcd;
mod shm;
#[cfg(target_os = "linux")]
mod suite;
mod ucx;
