//! Memory nodes and one-sided access to them.
//!
//! A *memory node* has much memory and little computation. *Clients* on other machines read and
//! write it without its processor. A client has an [`Endpoint`], on which it posts [`FabricVerb`]s:
//! reads and writes of bytes, swaps and additions of words. An index that is written against the
//! trait runs over every transport.
//!
//! # Guarantees and their limits
//!
//! - An aligned word of 8 bytes is read and changed atomically, even if a verb covers only a part
//!   of it. If an adapter accesses memory by lines, the bytes of a verb within one line are atomic,
//!   too; if processors copy bytes they are not. [`Endpoint::atomic_bytes`] returns the unit.
//! - A verb as a whole is not atomic: its words or lines are read or written one by one, in any
//!   order, and other clients' verbs may take effect in between.
//! - The verbs that one client posts to one node take effect in the order of the posts, each whole
//!   before the next. Between clients, and between nodes, there is no order.
//! - Swaps and additions of a word exclude each other.
//!
//! # Modules
//!
//! - [`recovery`] holds the protocols by which a client's death neither blocks other clients nor
//!   loses memory: leases on locks, numbers of owners, redo records, epochs.
//! - [`transport`] holds the transports: shared memory, UCX, and a simulation (cargo feature
//!   `model`).
//! - [`mirror`] keeps each byte at two nodes, so that the death of a node loses nothing.
//! - [`membership`] lists the nodes, from a list or from etcd.

#![deny(unsafe_code)]

mod address;
mod arena;
mod chunks;
pub mod count;
mod endpoint;
mod error;
pub mod membership;
pub mod mirror;
#[expect(unsafe_code, reason = "processors prefetch from raw addresses")]
mod prefetch;
pub mod recovery;
pub mod transport;
mod verb;

pub use address::{GlobalAddress, LINE_BYTES, NodeId, RESERVED_BYTES, WORD_BYTES};
pub use arena::FabricArena;
pub use chunks::Chunks;
pub use endpoint::{ClientProcessorWork, Endpoint, NodeMemoryUse};
pub use error::FabricError;
pub use prefetch::{prefetch, prefetch_line};
pub use verb::{FabricVerb, MaskedSwap};
