//! The containers behind typed keys: lists, hashes, sets and sorted sets.
