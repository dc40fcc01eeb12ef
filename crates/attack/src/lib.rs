//! Attacks on a server in a process of its own.
//!
//! [`campaign`] sends mutated byte streams to a server with small limits, and checks that it keeps
//! running, replies and stays within its memory. [`limits`] measures the cost of clients at a
//! server's limits.

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
