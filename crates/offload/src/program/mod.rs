//! Programs: code that the verifier has accepted.

mod declaration;
mod hash;
#[expect(
    clippy::module_inception,
    reason = "the module holds more than the type"
)]
mod program;
mod verify;
mod window;

pub use declaration::Declaration;
pub use hash::ProgramHash;
pub use program::{INSTRUCTIONS_MAX, NodeLoad, ProgramAccess, ProgramError, TraversalProgram};
pub use verify::{InstructionRefusal, VerifyError};
pub use window::{NODE_BYTES_MAX, ProgramWindow, REGION_BYTES, SCRATCHPAD_BYTES_MAX};
