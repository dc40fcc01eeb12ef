//! The layout of nodes and leaves in remote memory.

mod leaf;
mod node;
mod slot;

pub(super) use leaf::{DEAD, LOCKED, Leaf};
pub use leaf::{LeafLayout, LeafWrite};
pub use node::{HEADER_OFFSET, Header, NODE_BYTES, PREFIX_BYTES, slot_offset};
pub(super) use node::{Node, decode_slots};
pub(super) use slot::pack;
#[cfg(test)]
pub(super) use slot::unpack;
pub use slot::{ALIGNMENT, Child, NODES, NodeType, Slot};
