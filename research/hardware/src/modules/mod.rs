//! Memory modules with their own processors, from the host's side: the time of programs in them,
//! and of moving data there and back.
//!
//! A host has thousands of modules, each a small processor with a bank of memory that nothing else
//! can reach while it runs. All communication goes through the host, in *rounds*: data to all
//! modules at once, a program in each, data back from all. The model counts the work of programs
//! ([`ModuleAccount`]) and computes their time ([`ModuleParameters::kernel`]), and the other time
//! of rounds ([`ModuleParameters::transfer`]).
//!
//! The model omits open and closed rows of the memory, the host's own caches, and modules that are
//! slower than others.
//!
//! ```
//! use nearfield_hardware::modules::{ModuleAccount, ModulePreset};
//!
//! let parameters = ModulePreset::UpmemMeasured.parameters();
//! let mut account = ModuleAccount::new(&parameters);
//! account.begin(0);
//! account.read(8);
//! let alone = parameters.kernel(&account).as_nanoseconds();
//! assert!((231.0..232.0).contains(&alone));
//! ```

mod account;
mod energy;
mod parameters;
mod transfer;

pub use account::ModuleAccount;
pub use parameters::{Bandwidth, Dma, ModuleHostTimes, ModuleParameters, ModulePreset};
pub use transfer::ModuleTransferDirection;
