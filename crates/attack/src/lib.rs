//! Attacks on a server in a process of its own.
//!
//! [`campaign`] sends mutated byte streams while the server has small limits, and watches that it
//! stays, answers and keeps within its memory. [`limits`] measures what clients at a server's
//! limits cost it.

#![forbid(unsafe_code)]

mod attacker;
pub mod campaign;
pub mod limits;
pub mod outcome;
mod process;
mod pulse;
mod record;
mod reload;
mod samples;
mod starts;
mod streams;
mod target;
