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

    /// Runs queries for at most `iterations` iterations each, at the same time if it can. Returns
    /// their results in their order.
    fn run_all(
        &mut self,
        queries: &[TraversalQuery],
        iterations: u64,
    ) -> Vec<Result<TraversalOutcome, String>> {
        let queries = queries.iter();
        queries.map(|query| self.run(query, iterations)).collect()
    }
}

impl<R: QueryRunner<Error: Display>> PoolProgramExecutor for R {
    fn run(&mut self, query: &TraversalQuery, iterations: u64) -> Result<TraversalOutcome, String> {
        QueryRunner::run(self, query, iterations).map_err(|error| error.to_string())
    }

    fn run_all(
        &mut self,
        queries: &[TraversalQuery],
        iterations: u64,
    ) -> Vec<Result<TraversalOutcome, String>> {
        let runs = QueryRunner::run_all(self, queries, iterations).into_iter();
        runs.map(|run| run.map_err(|error| error.to_string()))
            .collect()
    }
}
