//! The ordered structures that a module keeps in its bank.

pub mod block_tree;
pub(crate) mod hash;
pub(crate) mod hash_table;
pub(crate) mod hashed_skip_list;
pub mod list;
pub mod skip_list;
