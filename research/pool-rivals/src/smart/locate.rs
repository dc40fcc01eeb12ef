//! The route of a key: through the cache as far as possible, then by reading nodes.

use super::Smart;
use super::layout::{
    NodeType, SmartLeaf, SmartNode, SmartSlot, SmartSlotChild, decode_slots, slot_offset,
};
use super::place::{SmartRouteEnd, SmartRoutePart, SmartSlotPosition};
use crate::wait_limit::WaitLimit;
use nearfield_fabric::{Endpoint, GlobalAddress};
use nearfield_pool::PoolError;
use std::time::Duration;

/// Time for which a client backs off before it reads again bytes that another client is about to
/// write: initially, and at most.
pub const BACK_OFF: Duration = Duration::from_micros(2);
pub const BACK_OFF_MAX: Duration = Duration::from_micros(64);

impl<E: Endpoint> Smart<E> {
    /// Follows the route of a key from a place to its end. Nodes that it reads are cached.
    pub(super) async fn follow(
        &self,
        key: &[u8],
        mut place: SmartRoutePart,
    ) -> Result<SmartRouteEnd, PoolError> {
        let mut limit = WaitLimit::default();
        loop {
            let position = match place {
                SmartRoutePart::Root => {
                    let mut position = SmartSlotPosition {
                        holder: GlobalAddress::NULL,
                        at: self.root,
                        slot: SmartSlot::default(),
                        depth: 0,
                        is_fresh: true,
                    };
                    self.refresh(&mut position).await?;
                    position
                }
                SmartRoutePart::Slot(position) => position,
                SmartRoutePart::Beside {
                    position,
                    header,
                    agree,
                } => {
                    return Ok(SmartRouteEnd::Beside {
                        position,
                        header,
                        agree,
                    });
                }
                SmartRoutePart::Node {
                    address,
                    node_type,
                    depth,
                } => {
                    // The cached node may lack new slots, so it proves nothing.
                    let node = self.read_node(address, node_type).await?;
                    match slot_of(&node, address, key, depth) {
                        Some(position) => position,
                        None => {
                            return Ok(SmartRouteEnd::Node {
                                address,
                                node,
                                depth,
                            });
                        }
                    }
                }
            };
            let (address, node_type) = match position.slot.child() {
                SmartSlotChild::None => return Ok(SmartRouteEnd::Vacant(position)),
                SmartSlotChild::Leaf(address) => {
                    let leaf = self.read_leaf(address).await?;
                    let Some(successor) = leaf.successor else {
                        return Ok(SmartRouteEnd::Leaf(position, address, leaf));
                    };
                    // Each leaf has one successor, unless damaged ones form a circle.
                    limit.check(&self.endpoint, address)?;
                    place = self.pass(position, successor).await?;
                    continue;
                }
                SmartSlotChild::Node(address, node_type) => (address, node_type),
            };
            // It is enough that the prefix agrees, even if the slot no longer leads to the node:
            // the node covers the key.
            let node = self.read_node(address, node_type).await?;
            let (depth, is_whole) = node.header.agreement(key, position.depth);
            if !is_whole {
                return Ok(SmartRouteEnd::Beside {
                    position,
                    header: node.header,
                    agree: depth,
                });
            }
            match slot_of(&node, address, key, depth) {
                Some(position) => place = SmartRoutePart::Slot(position),
                None => {
                    return Ok(SmartRouteEnd::Node {
                        address,
                        node,
                        depth,
                    });
                }
            }
        }
    }

    /// Reads a slot once more, and updates the cache. Returns true if it is unchanged.
    pub(super) async fn refresh(
        &self,
        position: &mut SmartSlotPosition,
    ) -> Result<bool, PoolError> {
        let mut word = [0; 8];
        self.endpoint.read(position.at, &mut word).await?;
        let slot = SmartSlot::from_word(u64::from_le_bytes(word));
        let same = slot == position.slot;
        position.slot = slot;
        position.is_fresh = true;
        self.remember(position);
        Ok(same)
    }

    /// Caches a slot that was read or written while the operation ran.
    pub(super) fn remember(&self, position: &SmartSlotPosition) {
        // An unused slot must be read again in any case, so there is no use in caching it.
        if !position.slot.is_unused() {
            self.cache().set(position);
        }
    }

    /// Reads a node that had at least this many slots, and caches it.
    pub(super) async fn read_node(
        &self,
        address: GlobalAddress,
        expected: NodeType,
    ) -> Result<SmartNode, PoolError> {
        // Nodes only grow, so these slots exist, and mostly one read is enough.
        let mut bytes = vec![0; SmartNode::bytes(expected.slots())];
        self.endpoint.read(address, &mut bytes).await?;
        let mut node = SmartNode::decode(&bytes);
        self.complete(address, &mut node).await?;
        self.cache().keep(address, &node);
        Ok(node)
    }

    /// Reads the slots of a node that its header covers and that were not read with it.
    pub(super) async fn complete(
        &self,
        address: GlobalAddress,
        node: &mut SmartNode,
    ) -> Result<(), PoolError> {
        let (known, all) = (node.slots.len(), node.header.node_type().slots());
        debug_assert!(known <= all);
        if known < all {
            let mut bytes = vec![0; 8 * (all - known)];
            let from = address.plus(slot_offset(known));
            self.endpoint.read(from, &mut bytes).await?;
            node.slots.extend(decode_slots(&bytes));
        }
        Ok(())
    }

    /// Reads a leaf, repeatedly until no write intervenes.
    pub(super) async fn read_leaf(&self, address: GlobalAddress) -> Result<SmartLeaf, PoolError> {
        let mut bytes = vec![0; self.leaves.bytes()];
        let mut limit = WaitLimit::default();
        loop {
            self.endpoint.read(address, &mut bytes).await?;
            if let Some(leaf) = self.leaves.decode(&bytes) {
                return Ok(leaf);
            }
            limit.check(&self.endpoint, address)?;
        }
    }
}

/// Returns the slot of a key in a node that was just read.
fn slot_of(
    node: &SmartNode,
    holder: GlobalAddress,
    key: &[u8],
    depth: usize,
) -> Option<SmartSlotPosition> {
    let (number, slot) = node.find(*key.get(depth)?)?;
    Some(SmartSlotPosition {
        holder,
        at: holder.plus(slot_offset(number)),
        slot,
        depth: depth + 1,
        is_fresh: true,
    })
}
