//! Access to memory nodes that run programs.

use nearfield_offload::traversal::{Outcome, Query, Runner};
use std::fmt::Display;

/// An executor of programs where the memory is: any [`Runner`], such as a client over UDP
/// (`nearfield_offload::net::udp::Client`).
pub trait Programs {
    /// Runs a query for at most `iterations` iterations.
    ///
    /// # Errors
    /// The reason for which there is no reply.
    fn run(&mut self, query: &Query, iterations: u64) -> Result<Outcome, String>;
}

impl<R: Runner<Error: Display>> Programs for R {
    fn run(&mut self, query: &Query, iterations: u64) -> Result<Outcome, String> {
        Runner::run(self, query, iterations).map_err(|error| error.to_string())
    }
}
