//! The layout of nodes and leaves in remote memory.

mod leaf;
mod node;
mod slot;

pub(super) use leaf::{DEAD, LOCKED, REMOVED, SmartLeaf};
pub use leaf::{LeafWrite, SmartLeafLayout};
pub use node::{HEADER_OFFSET, NODE_BYTES, PREFIX_BYTES, SmartNodeHeader, slot_offset};
pub(super) use node::{SmartNode, decode_slots};
pub(super) use slot::pack;
#[cfg(test)]
pub(super) use slot::unpack;
pub use slot::{ALIGNMENT, NODES, NodeType, SmartSlot, SmartSlotChild};
