//! Memory nodes and one-sided access to them.
//!
//! A *memory node* has much memory and does little with it; *clients* on other machines read and
//! write it without its help. A client has an [`Endpoint`], on which it posts [`Verb`]s: reads and
//! writes of bytes, swaps and additions of words. An index that is written against the trait runs
//! over every transport.
//!
//! # What is promised, and what is not
//!
//! - A word of 8 bytes, aligned, is read and changed as one, also those of its bytes that a verb
//!   that covers it in part accesses. Where an adapter accesses memory by lines, so are the up to
//!   64 bytes of a verb that lie in one line; where processors copy bytes they are not.
//!   [`Endpoint::atomic_bytes`] says which.
//! - Nothing holds these parts of one verb together: they are read or written one by one, in any
//!   order, with whatever others do in between.
//! - The verbs that one client posts to one node take effect in the order in which they were
//!   posted, each whole before the next. Between clients, and between nodes, there is no order.
//! - Swaps and additions of a word exclude each other.
//!
//! - [`recovery`] holds the protocols by which the death of a client blocks nobody and loses no
//!   memory: leases on locks, numbers of owners, redo records, epochs.
//! - [`transport`] holds the ways to memory nodes: a simulation, shared memory, UCX.
//! - [`membership`] says which nodes there are, by a list or by etcd.

#![deny(unsafe_code)]

mod address;
mod arena;
mod chunks;
pub mod count;
mod endpoint;
mod error;
pub mod membership;
#[expect(unsafe_code, reason = "processors prefetch from raw addresses")]
mod prefetch;
pub mod recovery;
pub mod transport;
mod verb;

pub use address::{GlobalAddress, LINE_BYTES, NodeId, RESERVED_BYTES, WORD_BYTES};
pub use arena::Arena;
pub use chunks::Chunks;
pub use endpoint::Endpoint;
pub use error::FabricError;
pub use prefetch::prefetch;
pub use verb::{MaskedSwap, Verb};
