//! How the operations of a batch come to modules, and their answers to the batch.
//!
//! The host's part: [`directory`] says which module owns which keys, `routing` and `shared_scans`
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
