//! The place to which a key leads.

use super::layout::{NodeType, SmartLeaf, SmartNode, SmartNodeHeader, SmartSlot};
use nearfield_fabric::GlobalAddress;

/// A slot on the route of a key.
#[derive(Clone, Copy, Debug)]
pub struct SmartSlotPosition {
    /// The node of the slot; null for the root's slot, which is in no node.
    pub holder: GlobalAddress,
    /// The address of the slot.
    pub at: GlobalAddress,
    /// Its content.
    pub slot: SmartSlot,
    /// Number of bytes of the key that lead to it, including its own partial key.
    pub depth: usize,
    /// True if it was read during the operation. The content of a cached slot may be old.
    pub is_fresh: bool,
}

/// The known part of the route of a key.
#[derive(Clone, Copy, Debug)]
pub enum SmartRoutePart {
    /// No part is known.
    Root,
    /// The route to a slot with an unknown child.
    Slot(SmartSlotPosition),
    /// The route to a node that has, or had, no slot for the next byte of the key.
    Node {
        address: GlobalAddress,
        node_type: NodeType,
        depth: usize,
    },
    /// The route to a slot with a node whose prefix the key does not have.
    Beside {
        position: SmartSlotPosition,
        header: SmartNodeHeader,
        /// Number of bytes of the key that agree.
        agree: usize,
    },
}

/// The end of the route of a key.
#[derive(Debug)]
pub enum SmartRouteEnd {
    /// A slot without a child.
    Vacant(SmartSlotPosition),
    /// A leaf, of this key or another.
    Leaf(SmartSlotPosition, GlobalAddress, SmartLeaf),
    /// A slot with a node whose prefix the key does not have.
    Beside {
        position: SmartSlotPosition,
        header: SmartNodeHeader,
        /// Number of bytes of the key that agree.
        agree: usize,
    },
    /// A node that had no slot for the byte of the key at `depth` when it was read.
    Node {
        address: GlobalAddress,
        node: SmartNode,
        depth: usize,
    },
}
