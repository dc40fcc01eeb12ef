//! Freeing what no thread can reach any more.

use crate::memory::Memory;
use crate::node::Ref;
use crate::shortcut::Tables;
use nearfield_core::Form;
use std::sync::Arc;

/// How the memory of leaves is freed.
pub trait Reclaim: Form {
    /// Frees nodes and leaves that were unlinked a grace period ago.
    ///
    /// # Safety
    /// No thread may reach them through the tree, and they are freed only once.
    unsafe fn free_unlinked(memory: &Arc<Memory>, shortcuts: &Tables, unlinked: &[Ref]);
    /// Frees the memory that a leaf keeps outside the leaf region.
    ///
    /// # Safety
    /// No thread may reach the leaf, then or later.
    unsafe fn free_outside(memory: &Memory, leaf: Ref);
}
