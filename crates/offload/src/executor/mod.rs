//! Executors of code.
//!
//! An executor runs [`BpfCode`](crate::isa::BpfCode) on a [`BpfMachine`], which holds the memory
//! that the code may access. All executors produce the same result, fault and memory.
//! [`Interpreter`] is the simplest, and defines them. `Native`, of the cargo feature `native`,
//! translates code to the processor's own instructions.
//!
//! Both also run one iteration of a [`TraversalProgram`](crate::program::TraversalProgram) on a
//! [`TraversalWorkspace`], which holds the windows of the iteration.
//!
//! Stores and loads may be unaligned. A function has 512 bytes of stack below register 10. The
//! stack is zero when a run begins, and so are all registers that a machine does not set.

mod interpreter;
#[expect(unsafe_code, reason = "lanes with pointers move between threads")]
mod lane;
mod machine;
mod memory;
#[cfg(feature = "native")]
mod native;
mod stores;
mod workspace;

pub use interpreter::Interpreter;
pub(crate) use lane::{Near, TraversalLane};
pub use machine::{BpfMachine, CALL_DEPTH_MAX, ExecutionFault, MachineRegion};
#[cfg(feature = "native")]
pub use native::{Native, NativeProgram, TranslateError};
pub use workspace::TraversalWorkspace;
