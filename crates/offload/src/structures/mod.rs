//! Linked structures in node memory: the thirteen of the paper, and the B+ tree of its
//! applications. A caller changes them through a [`NodeHeap`]. Their lookups are [`programs`],
//! which run where the nodes are.
//!
//! | structure of the paper | here |
//! |---|---|
//! | `std::list`, `std::forward_list` | [`OffloadList`] |
//! | Boost's `unordered_map`, `unordered_set` | [`OffloadHashTable`] |
//! | Boost's `bimap` | [`Bimap`] |
//! | Google's `btree` | [`BTree`] |
//! | `std::map`, `set`, `multimap`, `multiset` | [`SearchTree`], `RedBlack` |
//! | Boost's AVL, splay and scapegoat tree | [`SearchTree`], `Avl`, `Splay`, `Scapegoat` |

mod b_plus_tree;
mod b_tree;
mod entry;
mod hash_table;
mod heap;
pub mod layout;
mod list;
pub mod programs;
mod search_tree;
mod wide_node;

pub use b_plus_tree::{BPlusTree, OffloadAggregates, aggregated, scanned, was_put};
pub use b_tree::BTree;
pub use entry::{StructureEntry, entry, entry_node};
pub use hash_table::{Bimap, OffloadHashTable, found_all};
pub use heap::{HeapError, NodeArena, NodeHeap};
pub use list::{ListKind, OffloadList};
pub use search_tree::{BalanceAlgorithm, DuplicateKeyRule, SearchTree};
