//! Traversals: a program, a start and a scratchpad, from `init` on the caller to the result.
//!
//! The developer of a data structure writes three functions. `init` runs on the caller: it computes
//! the first address and fills the scratchpad, which makes a [`TraversalQuery`]. `end` and `next`
//! are the [`TraversalProgram`](crate::program::TraversalProgram): an iteration loads the node and
//! calls `end` to check if the traversal is done. If it is not, `next` computes the address of the
//! next node. Address and scratchpad are the whole state of a traversal, so it can stop after any
//! iteration and continue elsewhere.
//!
//! A [`QueryRunner`] runs queries: [`InMemory`] in this process, memory nodes over their network.
//! [`Dispatch`] chooses between two runners, and continues traversals that were stopped early, so
//! that its caller need not know where the data is.

mod decision;
mod dispatch;
mod engine;
mod in_memory;
mod iteration;
mod memory;
mod query;
mod status;

pub use decision::{Hardware, IterationCost, OffloadDecision, ProgramProfile};
pub use dispatch::{Dispatch, DispatchError, RegionSource};
pub use engine::ProgramEngine;
pub use in_memory::InMemory;
pub use iteration::{TraversalContinuation, iterate};
pub use memory::{AccessError, TraversalMemory};
pub use query::{QueryRunner, TraversalOutcome, TraversalQuery};
pub use status::TraversalStatus;
