//! Traversals over memory of this process.

use super::engine::Engine;
use super::iteration::{Next, iterate};
use super::memory::NodeMemory;
use super::query::{Outcome, Query, Runner};
use super::status::Status;
use crate::executor::Workspace;
use crate::program::ProgramHash;
use std::collections::HashMap;
use std::convert::Infallible;

/// A runner that runs traversals one after the other, on memory that this process can access.
#[derive(Debug)]
pub struct InMemory<M> {
    /// The memory.
    pub memory: M,
    engines: HashMap<ProgramHash, Engine>,
    interprets: bool,
}

impl<M: NodeMemory> InMemory<M> {
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

impl<M: NodeMemory> Runner for InMemory<M> {
    type Error = Infallible;

    fn run(&mut self, query: &Query, iterations: u64) -> Result<Outcome, Infallible> {
        let engine = self.engines.entry(query.program.hash());
        let engine = engine.or_insert_with(|| {
            let program = query.program.clone();
            match self.interprets {
                true => Engine::Interpreter(program),
                false => Engine::new(program),
            }
        });
        let mut scratchpad = query.scratchpad.clone();
        scratchpad.resize(query.program.scratchpad_bytes(), 0);
        let mut workspace = Workspace::new(query.start, scratchpad);
        let mut made = 0;
        let status = loop {
            if made == iterations {
                break Status::IterationLimit;
            }
            match iterate(engine, &self.memory, &mut workspace) {
                Ok(Next::Node(address)) => workspace.address = address,
                Ok(Next::Done) => {
                    made += 1;
                    break Status::Done;
                }
                Err(status) => break status,
            }
            made += 1;
        };
        Ok(Outcome {
            status,
            address: workspace.address,
            scratchpad: workspace.scratchpad,
            iterations: made,
        })
    }
}
