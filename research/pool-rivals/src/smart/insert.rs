//! Inserts: setting the value of a key, whether it exists or not.

use super::layout::{
    HEADER_OFFSET, NodeType, SmartLeaf, SmartNode, SmartNodeHeader, SmartSlot, slot_offset,
};
use super::place::{SmartRouteEnd, SmartRoutePart, SmartSlotPosition};
use super::search::SmartLeafMatch;
use super::split::Below;
use super::{Smart, SmartUpdate};
use crate::wait_limit::WaitLimit;
use nearfield_fabric::{Endpoint, FabricVerb, GlobalAddress};
use nearfield_pool::PoolError;
use nearfield_pool::coordination::Leader;

/// A leaf for the key that is being inserted, which no other client knows.
pub struct SmartNewLeaf<'k> {
    pub address: GlobalAddress,
    pub key: &'k [u8],
    value: Vec<u8>,
}

/// Result of a try to insert the key; if it failed, the place from which to search again.
pub type Tried = Result<(), SmartRoutePart>;

impl<E: Endpoint> Smart<E> {
    /// Inserts a key; returns the old value.
    pub(super) async fn put(
        &self,
        key: &[u8],
        leader: &mut Leader<'_>,
    ) -> Result<Option<Vec<u8>>, PoolError> {
        let began = self.endpoint.now();
        let mut unused = None;
        let mut place = self.cache().walk(key);
        let mut limit = WaitLimit::default();
        loop {
            let end = self.follow(key, place).await?;
            if let SmartRouteEnd::Leaf(position, address, leaf) = &end
                && leaf.valid
                && *leaf.key == *key
            {
                let before = match self.node.options.update {
                    SmartUpdate::InPlace => self.replace_in(*address, leaf, leader, began).await?,
                    SmartUpdate::Copy => {
                        let found = SmartLeafMatch {
                            position: *position,
                            address: *address,
                            leaf: leaf.clone(),
                        };
                        self.replace_by_copy(key, found, leader).await?
                    }
                };
                if before.is_some() {
                    if let Some(leaf) = unused {
                        // No other client knows it, because all tries to take a slot for it failed.
                        self.memory.leaf_unused(leaf);
                    }
                    return Ok(before);
                }
                limit.check(&self.endpoint, *address)?;
                // The leaf is dead, so the slot may have another child by now.
                let mut position = *position;
                self.refresh(&mut position).await?;
                place = SmartRoutePart::Slot(position);
                continue;
            }
            // One leaf serves all tries.
            let address = match unused {
                Some(address) => address,
                None => {
                    let bytes = self.leaves.allocation_bytes();
                    self.memory.leaf(&self.endpoint, bytes).await?
                }
            };
            unused = Some(address);
            // If the key exists when its slot is taken, this value is given up, and the leader
            // closes once more. An insert always writes a value.
            let value = leader.close(None).unwrap_or_default();
            let new = SmartNewLeaf {
                address,
                key,
                value,
            };
            let tried = match end {
                SmartRouteEnd::Leaf(position, _, leaf) if leaf.valid => {
                    let below = Below::Leaf(&leaf.key);
                    self.split(position, below, &new).await?
                }
                // A leaf whose key was removed counts as empty.
                SmartRouteEnd::Vacant(position) | SmartRouteEnd::Leaf(position, ..) => {
                    self.fill(position, &new).await?
                }
                SmartRouteEnd::Beside {
                    position,
                    header,
                    agree,
                } => {
                    let below = Below::Node(header, agree);
                    self.split(position, below, &new).await?
                }
                SmartRouteEnd::Node {
                    address,
                    node,
                    depth,
                } => self.add(address, node, depth, &new).await?,
            };
            match tried {
                Ok(()) => return Ok(None),
                Err(next) => place = next,
            }
            // Each try fails because another client was first, unless the memory is damaged.
            limit.check(&self.endpoint, self.root)?;
        }
    }

    /// Puts a leaf into a slot that has no child.
    async fn fill(
        &self,
        position: SmartSlotPosition,
        new: &SmartNewLeaf<'_>,
    ) -> Result<Tried, PoolError> {
        let bytes = self.new_leaf(new, position.at);
        let mut writes = self.leaf_writes(new.address, &bytes);
        // The leaf is complete before a slot leads to it.
        self.endpoint.post(&mut writes).await?;
        let slot = SmartSlot::leaf(position.slot.partial(), new.address);
        self.swing(position, slot).await
    }

    /// Creates the bytes of a new leaf for the slot at `reverse`.
    pub(super) fn new_leaf(&self, new: &SmartNewLeaf<'_>, reverse: GlobalAddress) -> Vec<u8> {
        self.leaves.encode(&SmartLeaf {
            reverse,
            valid: true,
            key: new.key.into(),
            value: new.value.clone(),
            lock: 0,
            successor: None,
        })
    }

    /// Swaps a slot to another child, if it is unchanged. The new child was written before.
    pub(super) async fn swing(
        &self,
        mut position: SmartSlotPosition,
        slot: SmartSlot,
    ) -> Result<Tried, PoolError> {
        let (before, after) = (position.slot.to_word(), slot.to_word());
        let found = self.endpoint.compare_swap(position.at, before, after);
        let found = found.await?;
        let swung = found == before;
        position.slot = if swung {
            slot
        } else {
            SmartSlot::from_word(found)
        };
        // The swap has read the slot, so the next try begins with its present child.
        position.is_fresh = true;
        self.remember(&position);
        Ok(if swung {
            Ok(())
        } else {
            Err(SmartRoutePart::Slot(position))
        })
    }

    /// Puts a leaf into the first unused slot of a node, which was read without a slot for the
    /// key's byte at `depth`. All clients take the first one, so a client detects that another has
    /// taken one for the same byte.
    async fn add(
        &self,
        holder: GlobalAddress,
        mut node: SmartNode,
        depth: usize,
        new: &SmartNewLeaf<'_>,
    ) -> Result<Tried, PoolError> {
        let partial = new.key.get(depth).copied().unwrap_or_default();
        let slot = SmartSlot::leaf(partial, new.address);
        let mut number = node.first_unused().unwrap_or(node.slots.len());
        let at = |number| holder.plus(slot_offset(number));
        let bytes = self.new_leaf(new, at(number));
        let mut writes = self.leaf_writes(new.address, &bytes);
        self.endpoint.post(&mut writes).await?;
        while number < node.slots.len() {
            let found = self.endpoint.compare_swap(at(number), 0, slot.to_word());
            let found = SmartSlot::from_word(found.await?);
            if found.is_unused() {
                if let Some(taken) = node.slots.get_mut(number) {
                    *taken = slot;
                }
                self.cache().keep(holder, &node);
                return Ok(Ok(()));
            }
            if let Some(taken) = node.slots.get_mut(number) {
                *taken = found;
            }
            if found.partial() == partial {
                return Ok(Err(SmartRoutePart::Slot(SmartSlotPosition {
                    holder,
                    at: at(number),
                    slot: found,
                    depth: depth + 1,
                    is_fresh: true,
                })));
            }
            number += 1;
            let reverse = at(number).to_bits().to_le_bytes();
            // Without waiting: only scans of cached nodes rely on reverse pointers.
            self.endpoint.write_unsignalled(new.address, &reverse)?;
        }
        self.grow(holder, node, depth, slot).await
    }

    /// Doubles the slots of a full node, and takes the first of the new ones. The header is changed
    /// first, so that no slot is taken that the header does not cover.
    async fn grow(
        &self,
        holder: GlobalAddress,
        mut node: SmartNode,
        depth: usize,
        slot: SmartSlot,
    ) -> Result<Tried, PoolError> {
        let from = node.header.node_type();
        debug_assert_eq!(node.slots.len(), from.slots(), "a full node grows");
        let again = |node_type: NodeType| SmartRoutePart::Node {
            address: holder,
            node_type,
            depth,
        };
        let Some(to) = from.doubled() else {
            // All bytes have slots; the missing one was taken meanwhile.
            return Ok(Err(again(from)));
        };
        let number = node.slots.len();
        let growth = SmartNodeHeader::growth(from, to);
        let mut verbs = [
            FabricVerb::Swap {
                at: holder.plus(HEADER_OFFSET),
                swap: growth,
                found: 0,
            },
            FabricVerb::compare_swap(holder.plus(slot_offset(number)), 0, slot.to_word()),
            // A later reader reads all slots at once. If the slot has another child by then, it
            // stays.
            FabricVerb::Swap {
                at: node.reverse,
                swap: SmartSlot::growth(holder, from, to),
                found: 0,
            },
        ];
        self.endpoint.post(&mut verbs).await?;
        // Another client has grown the node and taken the slot.
        if verbs[1].found() != Some(0) {
            return Ok(Err(again(to)));
        }
        if let Some(grown) = growth.apply(node.header.to_word()) {
            node.header = SmartNodeHeader::from_word(grown);
        }
        node.slots.push(slot);
        self.cache().keep(holder, &node);
        Ok(Ok(()))
    }
}
