//! Executors of code.
//!
//! An executor runs [`Code`](crate::isa::Code) on a [`Machine`], which holds the memory that the
//! code may access. All executors produce the same result, fault and memory. [`Interpreter`] is the
//! simplest, and defines them. `Native`, of the cargo feature `native`, translates code to the
//! processor's own instructions.
//!
//! Both also run one iteration of a [`Program`](crate::program::Program) on a [`Workspace`], which
//! holds the windows of the iteration.
//!
//! Stores and loads may be unaligned. A function has 512 bytes of stack below register 10. The
//! stack is zero when a run begins, and so are all registers that a machine does not set.

mod interpreter;
#[expect(unsafe_code, reason = "lanes with pointers go from thread to thread")]
mod lane;
mod machine;
mod memory;
#[cfg(feature = "native")]
mod native;
mod stores;
mod workspace;

pub use interpreter::Interpreter;
pub(crate) use lane::{Lane, Near};
pub use machine::{CALL_DEPTH_MAX, Fault, Machine, Region};
#[cfg(feature = "native")]
pub use native::{Native, NativeProgram, TranslateError};
pub use workspace::Workspace;
