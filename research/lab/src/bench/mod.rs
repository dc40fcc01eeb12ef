//! Measures Nearfield against other maps.
//!
//! A [`BenchPlan`] is a list of [tables](BenchTable): one key set, mix, distribution, number of
//! threads and batch size each, with the contestants to measure. The [`Conductor`] starts each
//! contestant in a process of its own and makes it load its map. Then all contestants run slices of
//! the same stream of operations in turn, so that other load on the machine affects all of them
//! alike. A contestant that dies costs one failed row.
//!
//! ```text
//!   conductor ── orders, keys, operations on stdin ──▶ host (one process a contestant)
//!             ◀── replies on stdout ─────────────────
//!                                                    host → runner → engine → lanes (threads)
//! ```

mod conductor;
mod contestant;
mod engine;
mod field;
mod host;
mod keys;
mod page;
mod plan;
mod process;
mod reading;
mod report;
mod resident;
mod runner;
mod session;
mod show;
mod suite;
mod tally;
mod task;
mod turns;
mod wire;

pub use conductor::{Conductor, ConductorEvent};
pub use contestant::{BenchContestant, Techniques};
pub use host::serve;
pub use plan::{BATCH_MAX, BenchPlan, BenchRequest, BenchTable};
pub use report::{BenchReport, FailedContestant, Row, SkippedContestant, Slices, TableResult};
pub use session::{BenchSession, SessionError};
pub use suite::default_suite;
