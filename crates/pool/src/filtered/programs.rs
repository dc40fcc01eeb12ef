//! Access to memory nodes that run programs.

use nearfield_offload::traversal::{QueryRunner, TraversalOutcome, TraversalQuery};
use std::fmt::Display;

/// An executor of programs where the memory is: any [`QueryRunner`], such as a client over UDP
/// (`nearfield_offload::net::udp::Client`).
pub trait PoolProgramExecutor {
    /// Runs a query for at most `iterations` iterations.
    ///
    /// # Errors
    /// The reason for which there is no reply.
    fn run(&mut self, query: &TraversalQuery, iterations: u64) -> Result<TraversalOutcome, String>;
}

impl<R: QueryRunner<Error: Display>> PoolProgramExecutor for R {
    fn run(&mut self, query: &TraversalQuery, iterations: u64) -> Result<TraversalOutcome, String> {
        QueryRunner::run(self, query, iterations).map_err(|error| error.to_string())
    }
}
