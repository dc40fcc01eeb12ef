//! The decision if a program is worth offloading.

use crate::executor::{ExecutionFault, Interpreter, TraversalWorkspace};
use crate::program::TraversalProgram;

/// The time that a memory node needs for instructions and loads, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hardware {
    /// Time of one instruction.
    pub instruction_ns: f64,
    /// Time of the load of a node.
    pub load_ns: f64,
    /// Largest share of a load's time that an iteration may compute, so that memory stays the
    /// bottleneck: the number of logic pipelines for each memory pipeline.
    pub threshold: f64,
}

impl Hardware {
    /// The accelerator of pulse (ASPLOS 2025): logic at 250 MHz (section 4.2), three logic
    /// pipelines and four memory pipelines. The paper does not print the time of a load; 117 ns
    /// follow from its ratio of 0.06 for the hash table and 7 ns of logic.
    pub const PULSE: Hardware = Hardware {
        instruction_ns: 4.0,
        load_ns: 117.0,
        threshold: 0.75,
    };

    /// Decides if a program is offloaded.
    pub fn decide(&self, program: &TraversalProgram, cost: IterationCost) -> OffloadDecision {
        let instructions = match cost {
            IterationCost::Worst => program.longest_path() as f64,
            IterationCost::Profiled(profile) => profile.instructions_an_iteration(),
        };
        let ratio = instructions * self.instruction_ns / self.load_ns;
        match ratio <= self.threshold {
            true => OffloadDecision::Offload { ratio },
            false => OffloadDecision::OnCaller { ratio },
        }
    }
}

/// The number of instructions that an iteration is assumed to execute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum IterationCost {
    /// The instructions of the longest path.
    Worst,
    /// The mean of real runs.
    Profiled(ProgramProfile),
}

/// The side where a program runs, with the time of its logic divided by that of its load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OffloadDecision {
    /// The program runs at memory nodes.
    Offload {
        /// Logic time divided by load time: at most the threshold.
        ratio: f64,
    },
    /// The program runs on the caller, which loads each node over the network.
    OnCaller {
        /// Logic time divided by load time: above the threshold.
        ratio: f64,
    },
}

/// The iterations and instructions that real runs of a program have executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramProfile {
    /// Number of iterations.
    pub iterations: u64,
    /// Number of instructions in all of them.
    pub instructions: u64,
}

impl ProgramProfile {
    /// Runs an iteration by the interpreter, and counts its instructions.
    ///
    /// # Errors
    /// See [`Interpreter::iterate`].
    pub fn iterate(
        &mut self,
        program: &TraversalProgram,
        workspace: &mut TraversalWorkspace,
    ) -> Result<u64, ExecutionFault> {
        let (next, instructions) = Interpreter.iterate_counting(program, workspace)?;
        self.iterations += 1;
        self.instructions += instructions;
        Ok(next)
    }

    /// Returns the mean number of instructions of an iteration; zero without iterations.
    pub fn instructions_an_iteration(&self) -> f64 {
        self.instructions as f64 / self.iterations.max(1) as f64
    }
}
