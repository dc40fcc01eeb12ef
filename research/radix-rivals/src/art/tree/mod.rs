//! The tree, except for the operations of the [synchronizations](super::synchronization).
//!
//! All changes are made under the locks of the nodes that change: the node, and its parent if the
//! node is replaced. If a lock is not available, the writer restarts. A node that was replaced
//! stays locked forever, as obsolete.

mod change;
mod locking;
mod remove;
mod root;
mod walk;

pub use locking::{enter, upgrade};

use super::node::ArtNode;
use super::synchronization::Synchronization;
use crate::design::RivalDesign;
use crate::leaf::{RivalForm, RivalLeaf};
use crate::scan;
use crossbeam_epoch::Guard;
use nearfield_core::ScanDirection;
use nearfield_radix::lock::Version;
use nearfield_radix::{RadixKeyChange, RadixProbe};
use root::ArtRoot;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};

/// The link to a node: its parent, the slot there, and the parent's version.
#[derive(Clone, Copy, Debug)]
pub struct Parent<'g> {
    pub node: ArtNode<'g>,
    pub version: Version,
    pub slot: u32,
}

/// The tree; see the [module](self).
#[derive(Debug)]
pub struct ArtTree<F: RivalForm, S> {
    root: ArtRoot<F>,
    synchronization: PhantomData<S>,
}

impl<F: RivalForm, S> Default for ArtTree<F, S> {
    fn default() -> Self {
        ArtTree {
            root: ArtRoot::default(),
            synchronization: PhantomData,
        }
    }
}

impl<F: RivalForm, S: Synchronization> RivalDesign<F> for ArtTree<F, S> {
    #[inline]
    fn read<R>(
        &self,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl RadixProbe,
        read: impl FnOnce(F::Value<'_>) -> R,
    ) -> Option<R> {
        let key = F::bytes(key);
        let leaf = S::leaf::<F>(self.root.node(), key.as_ref(), guard, probe)?;
        Some(read(leaf.value()))
    }

    fn modify<'v>(
        &self,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl RadixProbe,
        decide: &mut (impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>> + Send),
    ) {
        let key = F::bytes(key);
        self.change(key.as_ref(), guard, probe, decide);
    }

    fn scan<'g>(
        &'g self,
        from: Bound<&'g [u8]>,
        direction: ScanDirection,
        guard: &'g Guard,
        probe: &mut impl RadixProbe,
        visit: impl FnMut(RivalLeaf<'g, F>) -> ControlFlow<()>,
    ) {
        scan::scan(self, from, direction, guard, probe, visit);
    }

    fn entries(&self) -> usize {
        self.root.entries.sum()
    }

    fn check_invariants(&self) {
        self.root.check_invariants(S::ASCENDING);
    }
}
