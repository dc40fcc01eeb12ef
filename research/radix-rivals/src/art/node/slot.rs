//! Slots: words of nodes that lead to a node or a leaf.

use super::handle::ArtNode;
use super::kinds::ArtNodeHeader;
use crate::leaf::{NewRivalLeaf, RivalForm, RivalLeaf};
use crate::scan::RivalChild;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The bit of a slot that marks a leaf. Nodes and leaves are aligned to more than two bytes.
const LEAF: usize = 1;

/// The content of a slot: nothing, the address of a node, or that of a leaf with a bit set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtTaggedPointer(*mut u8);

impl ArtTaggedPointer {
    /// The content of an empty slot.
    pub const NONE: ArtTaggedPointer = ArtTaggedPointer(null_mut());

    /// Returns the content for a leaf that becomes part of a tree.
    pub fn new_leaf<F: RivalForm>(leaf: NewRivalLeaf<F>) -> ArtTaggedPointer {
        Self::of_leaf(leaf.into_address())
    }

    /// Returns the content for a leaf at an address.
    pub fn of_leaf(address: NonNull<u8>) -> ArtTaggedPointer {
        ArtTaggedPointer(address.as_ptr().map_addr(|address| address | LEAF))
    }

    /// Returns the content for a node.
    pub fn of_node(node: ArtNode<'_>) -> ArtTaggedPointer {
        ArtTaggedPointer(node.address().cast().as_ptr())
    }

    /// Returns true if it is nothing.
    #[inline]
    pub fn is_none(self) -> bool {
        self.0.is_null()
    }

    /// Returns true if it is a leaf.
    #[inline]
    pub fn is_leaf(self) -> bool {
        self.0.addr() & LEAF != 0
    }

    /// Returns the address of the node or leaf, for events.
    pub fn address(self) -> usize {
        self.0.addr() & !LEAF
    }

    /// Returns the node or leaf, if there is one.
    ///
    /// # Safety
    /// It was read from a node of a tree of entries of this form, and a thread that unlinks it does
    /// not free it during 'g.
    #[inline]
    pub unsafe fn child<'g, F: RivalForm>(self) -> Option<RivalChild<'g, F, ArtNode<'g>>> {
        if self.is_leaf() {
            let address = self.0.map_addr(|address| address & !LEAF);
            // SAFETY: leaves have an address other than 0, and the caller promises the rest.
            return Some(RivalChild::Leaf(unsafe {
                RivalLeaf::from_address(NonNull::new_unchecked(address))
            }));
        }
        let header = NonNull::new(self.0.cast::<ArtNodeHeader>())?;
        // SAFETY: promised by the caller.
        Some(RivalChild::Node(unsafe { ArtNode::from_address(header) }))
    }
}

/// The slot; see the [module](self).
#[derive(Debug)]
#[repr(transparent)]
pub struct ArtSlot(AtomicPtr<u8>);

impl Default for ArtSlot {
    fn default() -> Self {
        ArtSlot(AtomicPtr::new(null_mut()))
    }
}

impl ArtSlot {
    /// Reads the slot, and acquires the content that its child had when it was stored.
    #[inline]
    pub fn load(&self) -> ArtTaggedPointer {
        ArtTaggedPointer(self.0.load(Ordering::Acquire))
    }

    /// Publishes a child.
    #[inline]
    pub fn store(&self, child: ArtTaggedPointer) {
        self.0.store(child.0, Ordering::Release);
    }
}
