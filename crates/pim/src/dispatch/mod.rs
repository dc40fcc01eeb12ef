//! The route of a batch's operations to modules, and of their results back.
//!
//! - On the host, [`directory`] maps keys to modules. `routing` and `shared_scans` choose the
//!   modules of each operation and let operations share a result. `plan` builds tasks from them,
//!   and outcomes from results.
//! - Between host and modules, [`task`] is a request to a module, and `wire` its encoding for the
//!   transfer.
//! - In the modules, `kernel` executes tasks.

pub mod directory;
// The hidden modules are for the rivals in `research/pim-rivals`. Users have the indexes.
#[doc(hidden)]
pub mod kernel;
pub(crate) mod ordered;
#[doc(hidden)]
pub mod plan;
#[doc(hidden)]
pub mod routing;
pub(crate) mod shared_scans;
pub mod task;
#[doc(hidden)]
pub mod wire;
