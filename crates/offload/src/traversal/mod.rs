//! Traversals: a program, a start and a scratchpad, from `init` on the caller to the answer.
//!
//! The developer of a data structure writes three functions. `init` runs on the caller: it computes
//! the first address and fills the scratchpad, which makes a [`Query`]. `end` and `next` are the
//! [`Program`](crate::program::Program): an iteration loads the node, asks `end` whether the
//! traversal is done, and else computes the address of the next node by `next`. Address and
//! scratchpad are all of a traversal's state, so it can stop after any iteration and continue
//! elsewhere.
//!
//! A [`Runner`] runs queries: [`InMemory`] in this process, memory nodes by their network.
//! [`Dispatch`] decides which of two does, and continues traversals that were stopped early, so
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
