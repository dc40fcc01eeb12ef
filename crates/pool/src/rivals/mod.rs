//! Indexes that CHIME is compared with, over the same fabric.
//!
//! - [`rolex`] is a learned index (FAST 2023).
//! - [`smart`] is a radix tree whose entries lie apart (OSDI 2023).

pub mod rolex;
pub mod smart;
