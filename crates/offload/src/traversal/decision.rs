//! Whether a program is worth to be offloaded.

use crate::executor::{Fault, Interpreter, Workspace};
use crate::program::Program;

/// What a memory node takes for instructions and loads, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hardware {
    /// For one instruction.
    pub instruction_ns: f64,
    /// For the load of a node.
    pub load_ns: f64,
    /// How much of the time of a load an iteration may compute, so that memory stays the
    /// bottleneck: the logic pipelines for each memory pipeline.
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

    /// Decides about a program.
    pub fn decide(&self, program: &Program, cost: Cost) -> Decision {
        let instructions = match cost {
            Cost::Worst => program.longest_path() as f64,
            Cost::Profiled(profile) => profile.instructions_an_iteration(),
        };
        let ratio = instructions * self.instruction_ns / self.load_ns;
        match ratio <= self.threshold {
            true => Decision::Offload { ratio },
            false => Decision::OnCaller { ratio },
        }
    }
}

/// How many instructions an iteration is taken to have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cost {
    /// Those of the longest path.
    Worst,
    /// The mean of real runs.
    Profiled(Profile),
}

/// Where a program runs, and the time of its logic divided by that of its load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decision {
    /// At memory nodes.
    Offload {
        /// At most the threshold.
        ratio: f64,
    },
    /// On the caller, which loads each node from afar.
    OnCaller {
        /// Above the threshold.
        ratio: f64,
    },
}

/// What real runs of a program have executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Iterations.
    pub iterations: u64,
    /// Instructions in all of them.
    pub instructions: u64,
}

impl Profile {
    /// Runs an iteration by the interpreter, and counts it.
    ///
    /// # Errors
    /// See [`Interpreter::iterate`].
    pub fn iterate(&mut self, program: &Program, workspace: &mut Workspace) -> Result<u64, Fault> {
        let (next, instructions) = Interpreter.iterate_counting(program, workspace)?;
        self.iterations += 1;
        self.instructions += instructions;
        Ok(next)
    }

    /// The mean; zero without iterations.
    pub fn instructions_an_iteration(&self) -> f64 {
        self.instructions as f64 / self.iterations.max(1) as f64
    }
}
