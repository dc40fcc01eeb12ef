//! Attacks on a server in a process of its own.
//!
//! [`campaign`] sends mutated byte streams while the server has small limits, and watches that it
//! stays, answers and keeps within its memory.

#![forbid(unsafe_code)]

mod attacker;
pub mod campaign;
pub mod outcome;
mod process;
mod pulse;
mod record;
mod reload;
mod samples;
mod starts;
mod streams;
mod target;
