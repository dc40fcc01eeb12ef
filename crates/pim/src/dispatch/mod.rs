//! The way of a batch's operations to modules, and of their answers back.
//!
//! The host's part: [`directory`] knows which module owns which keys, `routing` and `shared_scans`
//! choose the modules of each operation and let operations share an answer, `plan` builds tasks
//! from them and outcomes from answers. Between host and modules: [`task`] is a request of a
//! module, `wire` its words on the way. The modules' part: `kernel` executes tasks.

pub mod directory;
pub(crate) mod kernel;
pub(crate) mod ordered;
pub(crate) mod plan;
pub(crate) mod routing;
pub(crate) mod shared_scans;
pub mod task;
pub(crate) mod wire;
