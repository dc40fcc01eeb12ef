//! What is asked, and what comes back.

use super::status::Status;
use crate::program::Program;
use std::sync::Arc;

/// A traversal before it runs.
#[derive(Clone, Debug)]
pub struct Query {
    /// `next` and `end`.
    pub program: Arc<Program>,
    /// The first node.
    pub start: u64,
    /// The state, of the length that the program declares.
    pub scratchpad: Vec<u8>,
}

/// What a run has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// The node at which it ended, or at which the next iteration begins.
    pub address: u64,
    /// The state.
    pub scratchpad: Vec<u8>,
    /// How many iterations it has made.
    pub iterations: u64,
}

impl Query {
    /// A query whose scratchpad holds words at its beginning, and then zeros.
    pub fn new(program: &Arc<Program>, start: u64, words: &[u64]) -> Query {
        let mut scratchpad: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        scratchpad.resize(program.scratchpad_bytes(), 0);
        Query {
            program: Arc::clone(program),
            start,
            scratchpad,
        }
    }
}

impl Outcome {
    /// A word of the scratchpad, by its number; zero if there is none.
    pub fn word(&self, number: usize) -> u64 {
        let bytes = self.scratchpad.get(8 * number..8 * number + 8);
        bytes
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u64::from_le_bytes)
    }
}

/// Something that runs queries.
pub trait Runner {
    /// The reason why nothing is known about a run.
    type Error;

    /// Runs a query for at most so many iterations.
    ///
    /// # Errors
    /// There is no answer. Stores of the program may have taken effect or not.
    fn run(&mut self, query: &Query, iterations: u64) -> Result<Outcome, Self::Error>;
}
