//! The indexes that RADAR is compared with, on the devices of [`nearfield_pim`].
//!
//! - [`range_partition`]: key ranges of the same length, one for each module.
//! - [`jump_push`]: one skip list over all modules.
//! - [`pim_tree`]: one tree of chunks over all modules.
//!
//! They use the modules, the structures and the dispatch of `nearfield_pim`. The structures that
//! only they have are `hash_table` and `hashed_skip_list`.

#![forbid(unsafe_code)]

mod hash_table;
mod hashed_skip_list;
pub mod jump_push;
pub mod pim_tree;
pub mod range_partition;
