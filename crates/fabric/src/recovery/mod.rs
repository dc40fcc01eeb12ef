//! Protocols by which a client's death neither blocks other clients nor loses memory.
//!
//! - [`lease`]: locks with a lease, so that another client can take them over.
//! - [`owners`]: numbers of lock owners, each of which belongs to one client at a time.
//! - [`redo`]: changes that are done whole or not at all, because another client finishes them.
//! - [`epochs`]: memory that is freed only when no client can still follow an address to it.

pub mod epochs;
pub mod lease;
pub mod owners;
pub mod redo;
