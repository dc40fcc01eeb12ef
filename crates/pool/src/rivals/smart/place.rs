//! The place to which a key leads.

use super::layout::{Header, Leaf, Node, NodeType, Slot};
use nearfield_fabric::GlobalAddress;

/// A slot on the way of a key.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// The node that it is a slot of; null: the root's, which is no node's.
    pub holder: GlobalAddress,
    /// Where it is.
    pub at: GlobalAddress,
    /// Its content.
    pub slot: Slot,
    /// How many bytes of the key have led to it, its own partial key included.
    pub depth: usize,
    /// Whether it was read during the operation. The content of a cached slot may be old.
    pub is_fresh: bool,
}

/// How far the way of a key is known.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// Not at all.
    Root,
    /// To a slot, whose child is not known.
    Slot(Position),
    /// To a node that has, or had, no slot for the next byte of the key.
    Node {
        address: GlobalAddress,
        node_type: NodeType,
        depth: usize,
    },
    /// To a slot with a node whose prefix the key does not have.
    Beside {
        position: Position,
        header: Header,
        /// How many bytes of the key agree.
        agree: usize,
    },
}

/// Where the way of a key ends.
#[derive(Debug)]
pub enum End {
    /// A slot that leads to nothing.
    Vacant(Position),
    /// A leaf, of this key or another.
    Leaf(Position, GlobalAddress, Leaf),
    /// A slot with a node whose prefix the key does not have.
    Beside {
        position: Position,
        header: Header,
        /// How many bytes of the key agree.
        agree: usize,
    },
    /// A node that had no slot for the byte of the key at `depth` when it was read.
    Node {
        address: GlobalAddress,
        node: Node,
        depth: usize,
    },
}
