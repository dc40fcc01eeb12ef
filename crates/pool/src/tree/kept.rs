//! Internal nodes as the cache keeps them.

use crate::cache::Cached;
use crate::layout::InternalNode;
use nearfield_fabric::GlobalAddress;

/// An internal node, and where it was read from.
#[derive(Debug)]
pub struct CachedNode {
    pub(super) address: GlobalAddress,
    pub(super) node: InternalNode,
}

impl Cached for CachedNode {
    fn address(&self) -> GlobalAddress {
        self.address
    }

    fn level(&self) -> u8 {
        self.node.level()
    }

    fn low(&self) -> &[u8] {
        self.node.low_fence()
    }

    fn high(&self) -> Option<&[u8]> {
        (!self.node.sibling().is_null()).then(|| self.node.high_fence())
    }

    fn bytes(&self) -> usize {
        // Its bytes lie on the heap.
        size_of::<CachedNode>() + self.node.layout().wire_bytes()
    }
}
