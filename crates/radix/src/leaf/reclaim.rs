//! Freeing what no thread can reach any more.
//!
//! The epochs call a function for what they free, and may do so while a thread is being pinned. A
//! thread that ends has no place among the epochs any more: there, each function that pins the
//! thread may call the next function within its own call, as often as functions wait. So such a
//! function pins the thread only to free something later, and then not within another one.

use crate::memory::Memory;
use crate::node::Ref;
use crate::shortcut::Tables;
use nearfield_core::Form;
use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

/// What is to be freed after another grace period.
type Later = (Arc<Memory>, Vec<Ref>);

/// What no thread has handed to the epochs yet. Empty unless threads are at [`free_later`].
static WAITING: Mutex<Vec<Later>> = Mutex::new(Vec::new());

thread_local! {
    /// True while the thread is at [`free_later`]. Without a destructor, so that a thread that ends
    /// still has it.
    static IS_AT_WORK: Cell<bool> = const { Cell::new(false) };
}

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

/// Calls `free` for nodes after another grace period.
///
/// # Safety
/// `free` may be called for them once no thread is pinned any more that is pinned now.
pub unsafe fn free_later(memory: &Arc<Memory>, nodes: Vec<Ref>, free: unsafe fn(&Memory, Ref)) {
    let waiting = || WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    waiting().push((Arc::clone(memory), nodes));
    if IS_AT_WORK.replace(true) {
        // The call that this one is within goes on.
        return;
    }
    let guard = crossbeam_epoch::pin();
    let later = std::mem::take(&mut *waiting());
    let free_all = move || {
        for (memory, nodes) in later {
            // SAFETY: promised by the caller, as the guard is from after its promise.
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
