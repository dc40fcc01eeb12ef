//! Traversals over memory of this process.

use super::engine::ProgramEngine;
use super::iteration::{TraversalContinuation, iterate};
use super::memory::TraversalMemory;
use super::query::{QueryRunner, TraversalOutcome, TraversalQuery};
use super::status::TraversalStatus;
use crate::executor::TraversalWorkspace;
use crate::program::ProgramHash;
use std::collections::HashMap;
use std::convert::Infallible;

/// A runner that runs traversals one after the other, on memory that this process can access.
#[derive(Debug)]
pub struct InMemory<M> {
    /// The memory.
    pub memory: M,
    engines: HashMap<ProgramHash, ProgramEngine>,
    interprets: bool,
}

impl<M: TraversalMemory> InMemory<M> {
    /// Creates a runner with the fastest engine.
    pub fn new(memory: M) -> InMemory<M> {
        InMemory {
            memory,
            engines: HashMap::new(),
            interprets: false,
        }
    }

    /// Creates a runner with the interpreter.
    pub fn interpreting(memory: M) -> InMemory<M> {
        InMemory {
            interprets: true,
            ..InMemory::new(memory)
        }
    }
}

impl<M: TraversalMemory> QueryRunner for InMemory<M> {
    type Error = Infallible;

    fn run(
        &mut self,
        query: &TraversalQuery,
        iterations: u64,
    ) -> Result<TraversalOutcome, Infallible> {
        let engine = self.engines.entry(query.program.hash());
        let engine = engine.or_insert_with(|| {
            let program = query.program.clone();
            match self.interprets {
                true => ProgramEngine::Interpreter(program),
                false => ProgramEngine::new(program),
            }
        });
        // Callers may fill the scratchpad themselves. Engines need it to have the declared length.
        let mut scratchpad = query.scratchpad.clone();
        scratchpad.resize(query.program.scratchpad_bytes(), 0);
        let mut workspace = TraversalWorkspace::new(query.start, scratchpad);
        let mut made = 0;
        let status = loop {
            if made == iterations {
                break TraversalStatus::IterationLimit;
            }
            match iterate(engine, &self.memory, &mut workspace) {
                Ok(TraversalContinuation::Node(address)) => workspace.address = address,
                Ok(TraversalContinuation::Done) => {
                    made += 1;
                    break TraversalStatus::Done;
                }
                // An iteration that failed has had no effect, and is not counted.
                Err(status) => break status,
            }
            made += 1;
        };
        Ok(TraversalOutcome {
            status,
            address: workspace.address,
            scratchpad: workspace.scratchpad,
            iterations: made,
        })
    }
}
