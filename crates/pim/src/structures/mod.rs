//! The ordered structures that a module keeps in its bank.

pub mod block_tree;
// The rivals in `research/pim-rivals` hash keys by it. It is no structure.
#[doc(hidden)]
pub mod hash;
pub mod list;
pub mod skip_list;
