//! Rivals of CHIME over the same fabric.
//!
//! - [`rolex`] is a learned index (FAST 2023).
//! - [`smart`] is a KV-discrete radix tree (OSDI 2023).

pub mod rolex;
pub mod smart;
