//! Modules, and rounds of work in them.
//!
//! Data move only between host and modules, never between modules, and only in *rounds*: words to
//! all modules, a [`Program`] in each, words back from all. A program sees only the bank of its own
//! module. It works in both devices: in the [`Model`], which computes the time of the round on
//! modelled hardware, and in [`Workers`], which execute it as fast as they can.
//!
//! ```
//! use nearfield_hardware::modules::Preset;
//! use nearfield_pim::device::{Device, Fault, Meter, Model, Module, Program};
//!
//! /// Adds the words that it is sent to the module's sum.
//! struct Add;
//! impl Program for Add {
//!     fn run<M: Meter>(&self, module: &mut Module<'_, M>, input: &[u64], output: &mut Vec<u64>)
//!     -> Result<(), Fault> {
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
//! let mut model = Model::new(2, Preset::UpmemMeasured.parameters());
//! model.round(Add, vec![vec![1, 2], vec![10]])?;
//! let sums = model.round(Add, vec![vec![1], vec![]])?;
//! assert_eq!(sums, [Ok(vec![4]), Ok(vec![10])]);
//! assert_eq!(model.counters().rounds, 2);
//! # Ok::<(), nearfield_pim::device::RoundError>(())
//! ```

mod bank;
mod counters;
mod model;
mod module;
#[cfg(test)]
mod tests;
mod workers;

pub use bank::{Bank, Full};
pub use counters::Counters;
pub use model::Model;
pub use module::{Fault, Meter, Module, Program};
pub use workers::Workers;

use nearfield_hardware::modules::HostWork;

/// Why a round was not begun.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoundError {
    /// There are more or fewer inputs than modules.
    #[error("{found} inputs for {modules} modules")]
    Inputs {
        /// How many inputs there are.
        found: usize,
        /// How many modules there are.
        modules: usize,
    },
    /// More is to be moved to a module than its bank could hold.
    #[error("{bytes} bytes for module {module}, whose bank has {limit}")]
    TooLong {
        /// The module.
        module: usize,
        /// How much there is for it.
        bytes: u64,
        /// How much its bank holds.
        limit: u64,
    },
}

/// The reason why a round has failed in a module. The work of the other modules is done, and all
/// data are as the programs have left them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleError {
    /// A program has failed.
    #[error("module {module}: {fault}")]
    Fault {
        /// The module.
        module: usize,
        /// Why.
        fault: Fault,
    },
    /// A program has panicked.
    #[error("module {module}: the program has panicked: {message}")]
    Panic {
        /// The module.
        module: usize,
        /// Its message.
        message: String,
    },
    /// The thread that has a module is gone.
    #[error("module {module}: its worker is gone")]
    Gone {
        /// The module.
        module: usize,
    },
}

/// The answer of a module.
pub type Answered = Result<Vec<u64>, ModuleError>;

/// Modules, and a host that works with them in rounds.
pub trait Device {
    /// How many modules there are.
    fn modules(&self) -> usize;

    /// The size of a module's bank in bytes, which also limits a transfer to it. By default a bank
    /// has as many words as 32-bit numbers allow.
    fn bank_bytes(&self) -> u64 {
        BANK_BYTES_MAX
    }

    /// Sends to each module its words, runs a program in each, and returns the output of each, or
    /// the reason why it failed.
    ///
    /// # Errors
    /// The fault of the inputs. Then nothing was done.
    fn round<P: Program>(
        &mut self,
        program: P,
        inputs: Vec<Vec<u64>>,
    ) -> Result<Vec<Answered>, RoundError>;

    /// Counts the host's own work between rounds. A device that measures real time can ignore it.
    fn at_host(&mut self, _: &HostWork) {}

    /// The counters so far.
    fn counters(&self) -> &Counters;
}

/// A bank has no more bytes, as its words have numbers of 32 bits.
pub const BANK_BYTES_MAX: u64 = u32::MAX as u64 * 8;

/// A module of the host's own beside those of its device: the same programs work in it, without
/// counted time.
#[derive(Debug)]
pub(crate) struct Own {
    bank: Bank,
    root: u64,
}

impl Own {
    /// A module whose bank has the greatest size.
    pub fn new() -> Own {
        Own {
            bank: Bank::new(BANK_BYTES_MAX),
            root: 0,
        }
    }

    /// Runs a program in it; `number` is the module's number.
    pub fn run(&mut self, number: usize, program: &impl Program, input: &[u64]) -> Answered {
        let mut meter = ();
        let module = &mut Module::new(&mut self.bank, &mut self.root, &mut meter);
        model::run_in(number, module, program, input)
    }

    /// The bytes that are in use.
    pub fn used_bytes(&self) -> u64 {
        self.bank.used_bytes()
    }
}

/// Checks that there is an input for each module, and that none is too long.
fn check(inputs: &[Vec<u64>], modules: usize, bank_bytes: u64) -> Result<(), RoundError> {
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

/// The message of a panic.
fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
