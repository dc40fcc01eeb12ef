//! The forms in which a small container is one string.

pub(super) mod intset;
pub(super) mod listpack;
mod slice;
pub(super) mod ziplist;
pub(super) mod zipmap;

/// Fields and their values, or members and the texts of their scores.
pub(super) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;
