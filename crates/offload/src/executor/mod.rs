//! What runs code.
//!
//! An executor runs [`Code`](crate::isa::Code) on a [`Machine`], which holds the memory that the
//! code may access. All executors give the same result, fault and memory. [`Interpreter`] is the
//! simplest, and the definition. `Native`, of the cargo feature `native`, translates code to the
//! processor's own instructions.
//!
//! Stores and loads may be unaligned. A function has 512 bytes of stack below register 10. The
//! stack is zero when a run begins, and so are all registers that a machine does not set.

mod interpreter;
mod machine;
#[cfg(feature = "native")]
mod native;

pub use interpreter::Interpreter;
pub use machine::{CALL_DEPTH_MAX, Fault, Machine, Region, STACK_BYTES};
#[cfg(feature = "native")]
pub use native::{Native, TranslateError};
