//! Memory reclamation: nodes and leaves that no thread can reach any more are freed.
//!
//! The epochs call a function for the memory that they free, and may do so while a thread is being
//! pinned. A thread that ends no longer takes part in the epochs: there, each function that pins
//! the thread may call the next function within its own call, as often as functions wait. So such a
//! function pins the thread only to free something later, and never within another such function.

use crate::memory::RadixMemory;
use crate::node::Ref;
use crate::shortcut::ShortcutTables;
use nearfield_core::EntryForm;
use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

/// Nodes that will be freed after another grace period.
type Later = (Arc<RadixMemory>, Vec<Ref>);

/// The nodes that no thread has handed to the epochs yet. Empty unless threads are in
/// [`free_later`].
static WAITING: Mutex<Vec<Later>> = Mutex::new(Vec::new());

thread_local! {
    /// True while the thread is in [`free_later`]. It has no destructor, so that a thread that ends
    /// still has it.
    static IS_AT_WORK: Cell<bool> = const { Cell::new(false) };
}

/// Operations that free the memory of leaves.
pub trait Reclaim: EntryForm {
    /// Frees nodes and leaves that were unlinked a grace period ago.
    ///
    /// # Safety
    /// No thread may reach them through the tree, and they are freed only once.
    unsafe fn free_unlinked(
        memory: &Arc<RadixMemory>,
        shortcuts: &ShortcutTables,
        unlinked: &[Ref],
    );
    /// Frees the memory that a leaf keeps outside the leaf region.
    ///
    /// # Safety
    /// No thread may reach the leaf, then or later.
    unsafe fn free_outside(memory: &RadixMemory, leaf: Ref);
}

/// Calls `free` for nodes after another grace period.
///
/// # Safety
/// `free` may be called for the nodes once all threads that are pinned now have been unpinned.
pub unsafe fn free_later(
    memory: &Arc<RadixMemory>,
    nodes: Vec<Ref>,
    free: unsafe fn(&RadixMemory, Ref),
) {
    let waiting = || WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    waiting().push((Arc::clone(memory), nodes));
    if IS_AT_WORK.replace(true) {
        // The enclosing call continues with them.
        return;
    }
    let guard = crossbeam_epoch::pin();
    // The list is taken after pinning, so that the grace period begins after each entry was added.
    let later = std::mem::take(&mut *waiting());
    let free_all = move || {
        for (memory, nodes) in later {
            // SAFETY: promised by the caller; the guard is newer than the promise.
            nodes
                .into_iter()
                .for_each(|node| unsafe { free(&memory, node) });
        }
    };
    // SAFETY: the closure owns what it uses, and may run on any thread.
    unsafe { guard.defer_unchecked(free_all) };
    drop(guard);
    IS_AT_WORK.set(false);
}
