//! The header of every node.

use super::reference::Ref;
use crate::lock::VersionLock;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

/// The first 12 bytes of every node.
#[derive(Debug)]
#[repr(C)]
pub struct RadixNodeHeader {
    /// The node's version and lock.
    pub lock: VersionLock,
    /// Number of key bytes before the byte that this node decides on. All keys below the node agree
    /// in these bytes. It never changes while the node is in the tree: a path that splits above a
    /// node gets a new node. The skipped bytes are found in any leaf below.
    depth: AtomicU16,
    /// Number of slots in use.
    count: AtomicU16,
    /// The leaf whose key ends at this node's depth, if any.
    end: AtomicU32,
}

impl RadixNodeHeader {
    /// The offset of the reference to the leaf of the key that ends here.
    pub const END_AT: usize = std::mem::offset_of!(RadixNodeHeader, end);

    /// Prepares the header of a node that no other thread can reach through the tree. A node
    /// that is used again stays obsolete until it is [published](RadixNodeHeader::publish).
    pub fn reset(&self, depth: usize) {
        debug_assert!(u16::try_from(depth).is_ok(), "keys are shorter");
        self.depth.store(depth as u16, Ordering::Relaxed);
        self.count.store(0, Ordering::Relaxed);
        self.end.store(0, Ordering::Relaxed);
    }

    /// Lets writers in. Call it when the node has all of its initial content and before it is
    /// linked: a writer may have a stale shortcut to the node, and finds there a leaf that it would
    /// reach anyway. After this call the node must be linked.
    pub fn publish(&self) {
        // The release here publishes the content to a writer that comes by a stale shortcut.
        self.lock.revive();
    }

    /// Returns the number of key bytes before the byte that this node decides on.
    #[inline]
    pub fn depth(&self) -> usize {
        self.depth.load(Ordering::Relaxed) as usize
    }

    /// Returns the number of slots in use.
    #[inline]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed) as usize
    }

    /// Sets the number of slots in use. Only under the lock.
    #[inline]
    pub fn set_count(&self, count: usize) {
        debug_assert!(count <= 256, "a slot for each byte at most");
        self.count.store(count as u16, Ordering::Relaxed);
    }

    /// Returns the leaf whose key ends at this node's depth, null if there is none.
    #[inline]
    pub fn end(&self) -> Ref {
        Ref::from_bits(self.end.load(Ordering::Acquire))
    }

    /// Sets the leaf whose key ends at this node's depth. Only under the lock.
    #[inline]
    pub fn set_end(&self, leaf: Ref) {
        debug_assert!(leaf.is_null() || leaf.is_leaf(), "a key ends in a leaf");
        self.end.store(leaf.bits(), Ordering::Release);
    }
}
