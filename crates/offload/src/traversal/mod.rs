//! Traversals: a program, a start and a scratchpad, from `init` on the caller to the result.
//!
//! The developer of a data structure writes three functions. `init` runs on the caller: it computes
//! the first address and fills the scratchpad, which makes a [`Query`]. `end` and `next` are the
//! [`Program`](crate::program::Program): an iteration loads the node and calls `end` to check if
//! the traversal is done. If it is not, `next` computes the address of the next node. Address and
//! scratchpad are the whole state of a traversal, so it can stop after any iteration and continue
//! elsewhere.
//!
//! A [`Runner`] runs queries: [`InMemory`] in this process, memory nodes over their network.
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

pub use decision::{Cost, Decision, Hardware, Profile};
pub use dispatch::{Dispatch, DispatchError, Regions};
pub use engine::Engine;
pub use in_memory::InMemory;
pub use iteration::{Next, iterate};
pub use memory::{AccessError, NodeMemory};
pub use query::{Outcome, Query, Runner};
pub use status::Status;
