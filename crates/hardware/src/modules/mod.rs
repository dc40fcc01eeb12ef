//! Memory modules with processors of their own, as their host sees them: how long programs run in
//! them, and how long it takes to bring data there and back.
//!
//! A host has thousands of modules, each a small processor with a bank of memory that nobody else
//! can reach while it runs. All communication goes through the host, in *rounds*: data to all
//! modules at once, a program in each, data back from all. The model counts what programs do
//! ([`Account`]) and says what that takes ([`Parameters::kernel`]), and what rounds take besides
//! ([`Parameters::transfer`]).
//!
//! What the model leaves out: rows of the memory that are open or not, the host's own caches, and
//! modules that are slower than others.
//!
//! ```
//! use nearfield_hardware::modules::{Account, Preset};
//!
//! let parameters = Preset::UpmemMeasured.parameters();
//! let mut account = Account::new(&parameters);
//! account.begin(0);
//! account.read(8);
//! let alone = parameters.kernel(&account).as_nanoseconds();
//! assert!((231.0..232.0).contains(&alone));
//! ```

mod account;
mod energy;
mod host;
mod parameters;
mod transfer;

pub use account::{Account, Totals};
pub use host::HostWork;
pub use parameters::{Bandwidth, Dma, Host, Parameters, Preset};
pub use transfer::Way;
