//! The query that a caller sends, and its outcome.

use super::status::TraversalStatus;
use crate::program::TraversalProgram;
use std::sync::Arc;

/// A traversal before it runs.
#[derive(Clone, Debug)]
pub struct TraversalQuery {
    /// The program: `next` and `end`.
    pub program: Arc<TraversalProgram>,
    /// The address of the first node.
    pub start: u64,
    /// The state, with the length that the program declares.
    pub scratchpad: Vec<u8>,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraversalOutcome {
    /// The status with which it ended.
    pub status: TraversalStatus,
    /// The node at which it ended, or at which the next iteration begins.
    pub address: u64,
    /// The state.
    pub scratchpad: Vec<u8>,
    /// Number of iterations that it made.
    pub iterations: u64,
}

impl TraversalQuery {
    /// Creates a query whose scratchpad begins with `words`, followed by zeros.
    pub fn new(program: &Arc<TraversalProgram>, start: u64, words: &[u64]) -> TraversalQuery {
        let mut scratchpad: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        scratchpad.resize(program.scratchpad_bytes(), 0);
        TraversalQuery {
            program: Arc::clone(program),
            start,
            scratchpad,
        }
    }
}

impl TraversalOutcome {
    /// Returns a word of the scratchpad by its number; zero if there is no such word.
    pub fn word(&self, number: usize) -> u64 {
        let bytes = self.scratchpad.get(8 * number..8 * number + 8);
        bytes
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u64::from_le_bytes)
    }
}

/// A runner of queries.
pub trait QueryRunner {
    /// The reason why the result of a run is unknown.
    type Error;

    /// Runs a query for at most `iterations` iterations.
    ///
    /// # Errors
    /// There is no result. Stores of the program may have taken effect or not.
    fn run(
        &mut self,
        query: &TraversalQuery,
        iterations: u64,
    ) -> Result<TraversalOutcome, Self::Error>;

    /// Runs queries for at most `iterations` iterations each, at the same time where the runner
    /// can. Returns their results in their order.
    fn run_all(
        &mut self,
        queries: &[TraversalQuery],
        iterations: u64,
    ) -> Vec<Result<TraversalOutcome, Self::Error>> {
        let queries = queries.iter();
        queries.map(|query| self.run(query, iterations)).collect()
    }
}
