//! A pinned thread that writes. It hands over its unlinked memory and its counts once at the end,
//! because each atomic operation on shared state costs as much as a step of a walk.

use crate::latching::Rule;
use crate::leaf::LeafForm;
use crate::node::Ref;
use crate::tree::RadixTree;
use crossbeam_epoch::Guard;
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::sync::Arc;

/// Number of nodes and leaves that are handed to the epochs together.
const RETIRED_MAX: usize = 512;

/// Initial capacity of the list of them.
const RETIRED_SOME: usize = 16;

/// The pinned thread; see the [module](self).
pub struct PinnedWriter<'t, F: LeafForm> {
    tree: &'t RadixTree<F>,
    guard: Guard,
    latching: Rule,
    /// The nodes unlinked under `guard`, each once: the first one here, the others in the list.
    retired_first: Cell<Ref>,
    retired: RefCell<Vec<Ref>>,
    entries: Cell<i64>,
}

impl<F: LeafForm> RadixTree<F> {
    /// Pins this thread for writing.
    pub fn writer(&self) -> PinnedWriter<'_, F> {
        let guard = crossbeam_epoch::pin();
        PinnedWriter {
            tree: self,
            latching: self.latching.rule(&guard),
            guard,
            retired_first: Cell::new(Ref::NULL),
            retired: RefCell::default(),
            entries: Cell::new(0),
        }
    }
}

impl<F: LeafForm> PinnedWriter<'_, F> {
    /// Returns the rule for latches as long as this thread is pinned.
    #[inline]
    pub fn latching(&self) -> Rule {
        self.latching
    }

    /// Counts entries that were added or, if negative, removed.
    #[inline]
    pub fn count_entries(&self, change: i64) {
        self.entries.set(self.entries.get() + change);
    }

    /// Retires a node or leaf that the caller has unlinked: it is freed when no thread can read it
    /// any more.
    #[inline]
    pub fn retire(&self, unlinked: Ref) {
        debug_assert!(!unlinked.is_null(), "nothing was unlinked");
        // Most batches of one operation unlink one node at most, and need no list.
        if self.retired_first.get().is_null() {
            self.retired_first.set(unlinked);
            return;
        }
        let mut retired = self.retired.borrow_mut();
        if retired.capacity() == 0 {
            retired.reserve(RETIRED_SOME);
        }
        retired.push(unlinked);
        if retired.len() >= RETIRED_MAX {
            self.defer_free(std::mem::take(&mut *retired));
        }
    }

    /// Hands nodes and leaves to the epochs. A single one fits into the memory of an epoch's
    /// function; more need memory of their own.
    fn defer_free(&self, retired: impl AsRef<[Ref]> + 'static) {
        self.tree.count_retired(retired.as_ref().len());
        let memory = Arc::clone(&self.tree.memory);
        let shortcuts = Arc::clone(&self.tree.shortcuts);
        // SAFETY: the closure owns what it uses, and may run on any thread. It runs after all
        // guards under which the nodes could be reached through the tree are gone, and frees them
        // once, because only the thread that has unlinked a node retires it.
        unsafe {
            self.guard
                .defer_unchecked(move || F::free_unlinked(&memory, &shortcuts, retired.as_ref()));
        }
    }
}

impl<F: LeafForm> Deref for PinnedWriter<'_, F> {
    type Target = Guard;

    #[inline]
    fn deref(&self) -> &Guard {
        &self.guard
    }
}

impl<F: LeafForm> Drop for PinnedWriter<'_, F> {
    fn drop(&mut self) {
        if self.entries.get() != 0 {
            self.tree.count_entries(self.entries.get());
        }
        let (first, mut others) = (self.retired_first.get(), self.retired.take());
        if others.is_empty() && !first.is_null() {
            self.defer_free([first]);
        } else if !others.is_empty() {
            // The first one joins the list, so that one function frees all.
            others.push(first);
            self.defer_free(others);
        }
    }
}
