//! The tests that every index of Nearfield has to pass, and what they are made of.
//!
//! - [`model`]: an index, on its own, does what a `BTreeMap` does.
//! - [`concurrent`]: under threads, its point operations are linearizable and its scans complete.
//! - [`history`], [`linearizability`]: what threads have done, and whether it can be ordered.
//! - [`keys`]: small key sets with difficult shapes.
//! - [`seeds`]: which seeds a test runs.
//!
//! And what tests of several processes share: [`etcd`], and [`machines`] in network namespaces.
//!
//! ```
//! use nearfield_core::{Bytes, Words};
//! use nearfield_testkit::concurrent::{self, Config};
//! use nearfield_testkit::model::{self, Reference};
//!
//! model::check::<Words, _>(10, |_seed| Reference::new());
//! model::check::<Bytes, _>(10, |_seed| Reference::new());
//! concurrent::check::<Bytes, _>(2, &Config::default(), |_seed| Reference::new());
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
mod panics;
pub mod seeds;
