//! Splits: putting a node above a leaf or a node from which a key differs.

use super::Smart;
use super::insert::{SmartNewLeaf, Tried};
use super::layout::{
    NodeType, PREFIX_BYTES, SmartNode, SmartNodeHeader, SmartSlot, SmartSlotChild, slot_offset,
};
use super::place::SmartSlotPosition;
use nearfield_fabric::{Endpoint, FabricVerb, GlobalAddress};
use nearfield_pool::PoolError;

/// The current child of the slot.
pub enum Below<'b> {
    /// A leaf with another key.
    Leaf(&'b [u8]),
    /// A node with another prefix, and the number of bytes of the key that agree.
    Node(SmartNodeHeader, usize),
}

impl<E: Endpoint> Smart<E> {
    /// Puts a node into a slot, above the slot's child and a new leaf. Their common bytes are its
    /// prefix; if these are too long for one node, there are more nodes above it, each with a
    /// prefix and one slot.
    pub(super) async fn split(
        &self,
        position: SmartSlotPosition,
        below: Below<'_>,
        new: &SmartNewLeaf<'_>,
    ) -> Result<Tried, PoolError> {
        let (agree, other) = match below {
            Below::Leaf(other) => {
                let pairs = new.key.iter().zip(other).skip(position.depth);
                let common = pairs.take_while(|(own, other)| own == other).count();
                let agree = position.depth + common;
                (agree, other.get(agree).copied())
            }
            Below::Node(header, agree) => {
                let mut after = header.prefix_from(position.depth);
                (agree, after.nth(agree - position.depth))
            }
        };
        let partials = [other, new.key.get(agree).copied()].map(Option::unwrap_or_default);
        let [below, own] = [
            position.slot.under(partials[0]),
            SmartSlot::leaf(partials[1], new.address),
        ];
        let (nodes, last) = self.chain(position, new.key, agree, [below, own]).await?;
        let moved_to = last.plus(slot_offset(0));
        let leaf = self.new_leaf(new, last.plus(slot_offset(1)));
        let images: Vec<Vec<u8>> = nodes.iter().map(|(_, node)| node.encode()).collect();
        let addresses = nodes.iter().map(|(address, _)| *address);
        let mut writes = self.leaf_writes(new.address, &leaf);
        for (to, bytes) in addresses.clone().zip(&images) {
            writes.push(FabricVerb::Write { to, bytes });
        }
        // All of it is written before the swap shows it to other clients.
        self.endpoint.post(&mut writes).await?;
        let first = addresses.clone().next().unwrap_or(last);
        let slot = SmartSlot::node(position.slot.partial(), first, NodeType::SMALLEST);
        let tried = self.swing(position, slot).await?;
        if tried.is_err() {
            // The caller keeps the new leaf for its next try.
            self.memory.nodes_unused(addresses);
            return Ok(tried);
        }
        if let SmartSlotChild::Leaf(moved) | SmartSlotChild::Node(moved, _) = position.slot.child()
        {
            let reverse = moved_to.to_bits().to_le_bytes();
            // Without waiting, as in `add`.
            self.endpoint.write_unsignalled(moved, &reverse)?;
        }
        for (address, node) in &nodes {
            self.cache().keep(*address, node);
        }
        Ok(tried)
    }

    /// Creates a chain of nodes, from a slot on, for the bytes of a key that come before `agree`.
    /// The last one, whose address is returned too, has two slots.
    async fn chain(
        &self,
        position: SmartSlotPosition,
        key: &[u8],
        agree: usize,
        slots: [SmartSlot; 2],
    ) -> Result<(Vec<(GlobalAddress, SmartNode)>, GlobalAddress), PoolError> {
        let mut nodes: Vec<(GlobalAddress, SmartNode)> = Vec::new();
        let (mut depth, mut reverse) = (position.depth, position.at);
        loop {
            debug_assert!(depth <= agree);
            let address = self.memory.node(&self.endpoint).await?;
            let end = agree.min(depth + PREFIX_BYTES);
            let prefix = key.get(depth..end).unwrap_or_default();
            if let Some((_, above)) = nodes.last_mut() {
                let partial = key.get(depth - 1).copied().unwrap_or_default();
                above.slots = vec![SmartSlot::node(partial, address, NodeType::SMALLEST)];
            }
            let is_last = end == agree;
            nodes.push((
                address,
                SmartNode {
                    reverse,
                    header: SmartNodeHeader::new(depth, NodeType::SMALLEST, prefix),
                    slots: if is_last { slots.into() } else { Vec::new() },
                },
            ));
            if is_last {
                return Ok((nodes, address));
            }
            // The byte behind the prefix is the partial key of the only slot.
            depth = end + 1;
            reverse = address.plus(slot_offset(0));
        }
    }
}
