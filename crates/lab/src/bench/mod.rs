//! Measuring Nearfield beside other maps.
//!
//! A [`Plan`] is a list of [tables](Table): one key set, mix, distribution, number of threads and
//! batch size each, with the contestants to measure. The [`Conductor`] starts each contestant in
//! a process of its own, lets it load its map, and then has all of them run slices of the same
//! stream of operations in turn, so that what else happens on the machine meets all of them
//! alike. A contestant that dies costs one failed row.
//!
//! ```text
//!   conductor ── orders, keys, operations on stdin ──▶ host (one process a contestant)
//!             ◀── answers on stdout ─────────────────
//!                                                      host → runner → engine → lanes (threads)
//! ```

mod conductor;
mod contestant;
mod counts;
mod engine;
mod field;
mod host;
mod interrupt;
mod keys;
mod latency;
mod machine;
mod plan;
mod process;
mod quantity;
mod resident;
mod result;
mod runner;
mod suite;
mod tally;
mod task;
mod team;
mod turns;
mod wire;

pub use conductor::{Completion, Conductor, Event};
pub use contestant::{Contestant, Techniques};
pub use counts::Counts;
pub use host::serve;
pub use interrupt::Interrupt;
pub(crate) use latency::Durations;
pub use machine::{Machine, commit};
pub use plan::{BATCH_MAX, Plan, Request, Skip, Table};
pub use quantity::parse_quantity;
pub use result::{Failure, Measurement, TableResult};
pub use suite::default_suite;
pub use wire::Latency;
