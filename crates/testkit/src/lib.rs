//! The tests that every index of Nearfield must pass, and their parts.
//!
//! - [`model`]: a single-threaded index behaves like a `BTreeMap`.
//! - [`concurrent`]: with several threads, its point operations are linearizable and its scans
//!   complete.
//! - [`history`], [`linearizability`]: the operations of threads, and the check that an order
//!   explains them.
//! - [`keys`]: small key sets with difficult shapes.
//! - [`panics`]: turns panics into values.
//! - [`polling`]: runs a future on the calling thread.
//! - [`seeds`]: the seeds that a test runs.
//! - [`stop`]: stops threads that run during a test.
//!
//! Tests of several processes use [`etcd`], and [`machines`] in network namespaces.
//!
//! ```
//! use nearfield_core::{ByteStrings, Words};
//! use nearfield_testkit::concurrent::{self, ConcurrentTestConfig};
//! use nearfield_testkit::model::{self, Reference};
//!
//! model::check::<Words, _>(10, |_seed| Reference::new());
//! model::check::<ByteStrings, _>(10, |_seed| Reference::new());
//! let config = ConcurrentTestConfig::default();
//! concurrent::check::<ByteStrings, _>(2, &config, |_seed| Reference::new());
//! ```
//!
//! A test that fails prints the command that replays its seed. `NEARFIELD_SEEDS=20000` in the
//! environment runs that many seeds.

#![forbid(unsafe_code)]

#[cfg(test)]
mod canary;
pub mod concurrent;
pub mod etcd;
pub mod history;
pub mod keys;
pub mod linearizability;
#[cfg(target_os = "linux")]
pub mod machines;
pub mod model;
pub mod panics;
pub mod polling;
pub mod seeds;
pub mod stop;
