//! Modules, and rounds of work in them.
//!
//! Data move only between host and modules, never between modules, and only in *rounds*: words are
//! sent to all modules, each runs a [`ModuleProgram`], and words are sent back from all. A program
//! accesses only the bank of its own module. It runs on both devices: on [`Workers`], which execute
//! it as fast as they can, and on the `Model` (cargo feature `model`), which computes the time of
//! the round on modelled hardware.
//!
//! ```
//! use nearfield_hardware::modules::ModulePreset;
//! use nearfield_pim::device::{
//!     Model, Module, ModuleDevice, ModuleProgram, ProgramFault, WorkMeter,
//! };
//!
//! /// Adds the words that it is sent to the module's sum.
//! struct Add;
//! impl ModuleProgram for Add {
//!     fn run<M: WorkMeter>(
//!         &self,
//!         module: &mut Module<'_, M>,
//!         input: &[u64],
//!         output: &mut Vec<u64>,
//!     )
//!     -> Result<(), ProgramFault> {
//!         let at = match module.root() {
//!             0 => module.allocate(1)?,
//!             root => root as u32,
//!         };
//!         module.set_root(at.into());
//!         let sum = module.read(at, 1)[0] + input.iter().sum::<u64>();
//!         module.write(at, &[sum]);
//!         output.push(sum);
//!         Ok(())
//!     }
//! }
//!
//! let mut model = Model::new(2, ModulePreset::UpmemMeasured.parameters());
//! model.round(Add, vec![vec![1, 2], vec![10]])?;
//! let sums = model.round(Add, vec![vec![1], vec![]])?;
//! assert_eq!(sums, [Ok(vec![4]), Ok(vec![10])]);
//! assert_eq!(model.counters().rounds, 2);
//! # Ok::<(), nearfield_pim::device::RoundError>(())
//! ```

mod bank;
mod counters;
#[cfg(feature = "model")]
mod model;
mod module;
#[cfg(test)]
mod tests;
mod work;
mod workers;

pub use bank::{BankFull, ModuleBank};
pub use counters::DeviceCounters;
#[cfg(feature = "model")]
pub use model::Model;
pub use module::{Module, ModuleProgram, ProgramFault, WorkMeter};
pub use work::{HostWork, ProgramWork};
pub use workers::Workers;

/// The reason why a round was not begun.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoundError {
    /// The number of inputs differs from that of modules.
    #[error("{found} inputs for {modules} modules")]
    Inputs {
        /// Number of inputs.
        found: usize,
        /// Number of modules.
        modules: usize,
    },
    /// The input of a module is longer than its bank.
    #[error("{bytes} bytes for module {module}, whose bank has {limit}")]
    TooLong {
        /// The module.
        module: usize,
        /// Bytes of its input.
        bytes: u64,
        /// Bytes of its bank.
        limit: u64,
    },
}

/// The reason why a round failed in a module. The other modules have done their work, and all data
/// are as the programs left them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleError {
    /// The program failed.
    #[error("module {module}: {fault}")]
    Fault {
        /// The module.
        module: usize,
        /// The reason.
        fault: ProgramFault,
    },
    /// The program panicked.
    #[error("module {module}: the program has panicked: {message}")]
    Panic {
        /// The module.
        module: usize,
        /// The message of the panic.
        message: String,
    },
    /// The thread that owns the module has ended.
    #[error("module {module}: its worker has ended")]
    Gone {
        /// The module.
        module: usize,
    },
}

/// The output of a module, or its error.
pub type Answered = Result<Vec<u64>, ModuleError>;

/// A set of modules, which a host uses in rounds.
pub trait ModuleDevice {
    /// Returns the number of modules.
    fn modules(&self) -> usize;

    /// Returns the size of a module's bank in bytes, which also limits a transfer to it. By default
    /// a bank has as many words as 32-bit numbers allow.
    fn bank_bytes(&self) -> u64 {
        BANK_BYTES_MAX
    }

    /// Sends each module its words, runs a program in each, and returns the output or the error of
    /// each.
    ///
    /// # Errors
    /// The fault of the inputs. Nothing was done.
    fn round<P: ModuleProgram>(
        &mut self,
        program: P,
        inputs: Vec<Vec<u64>>,
    ) -> Result<Vec<Answered>, RoundError>;

    /// Counts the host's own work between rounds. A device that measures real time can ignore it.
    fn at_host(&mut self, _: &HostWork) {}

    /// Returns the counters so far.
    fn counters(&self) -> &DeviceCounters;
}

/// Greatest size of a bank in bytes. It is limited because words have numbers of 32 bits.
pub const BANK_BYTES_MAX: u64 = u32::MAX as u64 * 8;

/// A module in the host, in addition to those of the device. It runs the same programs, without
/// counting time.
#[derive(Debug)]
pub(crate) struct HostModule {
    bank: ModuleBank,
    root: u64,
}

impl HostModule {
    /// Creates a module whose bank has the greatest size.
    pub fn new() -> HostModule {
        HostModule {
            bank: ModuleBank::new(BANK_BYTES_MAX),
            root: 0,
        }
    }

    /// Runs a program in the module; `number` is the module's number.
    pub fn run(&mut self, number: usize, program: &impl ModuleProgram, input: &[u64]) -> Answered {
        // The host's own work is charged through `at_host`, so this module is not metered.
        let mut meter = ();
        let module = &mut Module::new(&mut self.bank, &mut self.root, &mut meter);
        module::run_in(number, module, program, input)
    }

    /// Returns the number of bytes in use.
    pub fn used_bytes(&self) -> u64 {
        self.bank.used_bytes()
    }
}

/// Checks that there is an input for each module, and that none is too long.
fn check(inputs: &[Vec<u64>], modules: usize, bank_bytes: u64) -> Result<(), RoundError> {
    // A round with a missing input would leave one module with its old content while others change.
    if inputs.len() != modules {
        let found = inputs.len();
        return Err(RoundError::Inputs { found, modules });
    }
    let bytes = inputs.iter().map(|input| input.len() as u64 * 8);
    match bytes.enumerate().find(|&(_, bytes)| bytes > bank_bytes) {
        None => Ok(()),
        Some((module, bytes)) => Err(RoundError::TooLong {
            module,
            bytes,
            limit: bank_bytes,
        }),
    }
}
