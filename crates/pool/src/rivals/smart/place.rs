//! The place to which a key leads.

use super::layout::{Header, Leaf, Node, NodeType, Slot};
use nearfield_fabric::GlobalAddress;

/// A slot on the route of a key.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// The node of the slot; null for the root's slot, which is in no node.
    pub holder: GlobalAddress,
    /// The address of the slot.
    pub at: GlobalAddress,
    /// Its content.
    pub slot: Slot,
    /// Number of bytes of the key that lead to it, including its own partial key.
    pub depth: usize,
    /// True if it was read during the operation. The content of a cached slot may be old.
    pub is_fresh: bool,
}

/// The known part of the route of a key.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// No part is known.
    Root,
    /// The route to a slot with an unknown child.
    Slot(Position),
    /// The route to a node that has, or had, no slot for the next byte of the key.
    Node {
        address: GlobalAddress,
        node_type: NodeType,
        depth: usize,
    },
    /// The route to a slot with a node whose prefix the key does not have.
    Beside {
        position: Position,
        header: Header,
        /// Number of bytes of the key that agree.
        agree: usize,
    },
}

/// The end of the route of a key.
#[derive(Debug)]
pub enum End {
    /// A slot without a child.
    Vacant(Position),
    /// A leaf, of this key or another.
    Leaf(Position, GlobalAddress, Leaf),
    /// A slot with a node whose prefix the key does not have.
    Beside {
        position: Position,
        header: Header,
        /// Number of bytes of the key that agree.
        agree: usize,
    },
    /// A node that had no slot for the byte of the key at `depth` when it was read.
    Node {
        address: GlobalAddress,
        node: Node,
        depth: usize,
    },
}
