//! The memory that a program may access.

use std::fmt;

/// Largest number of bytes of a node that an iteration loads.
pub const NODE_BYTES_MAX: usize = 256;

/// Number of bytes of a region that a program may allocate.
pub const REGION_BYTES: usize = 256;

/// Largest number of bytes of a scratchpad.
pub const SCRATCHPAD_BYTES_MAX: usize = 4096;

/// A range of memory that a program may access. All other memory is out of reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProgramWindow {
    /// The node at the current address: at most [`NODE_BYTES_MAX`] bytes, loaded at once when an
    /// iteration begins. Register 1 is the current address.
    Node,
    /// The state of the traversal, which moves with it from node to node. Register 2 is its start.
    Scratchpad,
    /// The region that this iteration may allocate: [`REGION_BYTES`] bytes, zero when an iteration
    /// begins. Register 4 is its start.
    Allocation,
    /// The stack: 512 bytes below register 10, which do not outlive an iteration.
    Stack,
}

impl fmt::Display for ProgramWindow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            ProgramWindow::Node => "the node",
            ProgramWindow::Scratchpad => "the scratchpad",
            ProgramWindow::Allocation => "the new allocation",
            ProgramWindow::Stack => "the stack",
        })
    }
}
