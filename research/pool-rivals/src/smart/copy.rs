//! Writes of an existing key by a new leaf (SMART-RCU).

use super::Smart;
use super::layout::{REMOVED, SmartLeaf, SmartSlot};
use super::place::{SmartRoutePart, SmartSlotPosition};
use super::search::SmartLeafMatch;
use crate::wait_limit::WaitLimit;
use nearfield_fabric::{Endpoint, FabricVerb, GlobalAddress};
use nearfield_pool::PoolError;
use nearfield_pool::coordination::Leader;

impl<E: Endpoint> Smart<E> {
    /// Replaces a leaf that was found by a new one; returns the old value, or `None` if the key was
    /// removed. No write is combined then.
    pub(super) async fn replace_by_copy(
        &self,
        key: &[u8],
        mut found: SmartLeafMatch,
        leader: &mut Leader<'_>,
    ) -> Result<Option<Vec<u8>>, PoolError> {
        let bytes = self.leaves.allocation_bytes();
        // One leaf serves all tries.
        let new = self.memory.leaf(&self.endpoint, bytes).await?;
        let mut limit = WaitLimit::default();
        loop {
            let SmartLeafMatch {
                position,
                address,
                leaf,
            } = found;
            // If another client replaces the leaf first, this value is given up. An existing key is
            // written in any case.
            let value = leader.close(Some(&leaf.value)).unwrap_or_default();
            let image = self.leaves.encode(&SmartLeaf {
                reverse: position.at,
                valid: true,
                key: key.into(),
                value,
                lock: 0,
                successor: None,
            });
            let writes = self.leaf_writes(new, &image);
            let before = self.succeed(address, writes, new, new.to_bits()).await?;
            if before == 0 {
                let slot = SmartSlot::leaf(position.slot.partial(), new);
                // If the slot has another child by now, the leaf is under a new node. Clients that
                // find it there swap the node's slot.
                self.swing(position, slot).await.map(drop)?;
                return Ok(Some(leaf.value));
            }
            limit.check(&self.endpoint, address)?;
            let again = match before {
                REMOVED => None,
                _ => {
                    let place = SmartRoutePart::Slot(position);
                    self.find_from(key, place).await?
                }
            };
            let Some(again) = again else {
                // No other client knows the new leaf, because no try has succeeded.
                self.memory.leaf_unused(new);
                leader.reopen();
                return Ok(None);
            };
            found = again;
        }
    }

    /// Removes a key; returns its value. It is gone once its leaf has the successor for that.
    pub(super) async fn take_by_successor(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        let mut place = self.cache().walk(key);
        let mut limit = WaitLimit::default();
        loop {
            let Some(found) = self.find_from(key, place).await? else {
                return Ok(None);
            };
            let (position, address) = (found.position, found.address);
            let before = self.succeed(address, Vec::new(), address, REMOVED).await?;
            match before {
                0 => {
                    let vacant = SmartSlot::vacant(position.slot.partial());
                    // Only for later operations, which take a removed leaf as absent.
                    self.swing(position, vacant).await.map(drop)?;
                    return Ok(Some(found.leaf.value));
                }
                // Another client has removed it during this operation.
                REMOVED => return Ok(None),
                _ => {
                    limit.check(&self.endpoint, address)?;
                    place = SmartRoutePart::Slot(position);
                }
            }
        }
    }

    /// Returns the place behind a leaf that was replaced: its slot, with the present child.
    pub(super) async fn pass(
        &self,
        mut position: SmartSlotPosition,
        successor: GlobalAddress,
    ) -> Result<SmartRoutePart, PoolError> {
        // The client that has replaced the leaf has mostly swapped the slot, too.
        if !position.is_fresh && !self.refresh(&mut position).await? {
            return Ok(SmartRoutePart::Slot(position));
        }
        let slot = SmartSlot::leaf(position.slot.partial(), successor);
        let tried = self.swing(position, slot).await?;
        Ok(match tried {
            Ok(()) => SmartRoutePart::Slot(SmartSlotPosition {
                slot,
                is_fresh: true,
                ..position
            }),
            Err(place) => place,
        })
    }

    /// Sets the successor of a leaf unless it has one, after these writes, all of which are on the
    /// node of `written`. Returns the successor found: 0 if there was none.
    async fn succeed(
        &self,
        leaf: GlobalAddress,
        mut writes: Vec<FabricVerb<'_>>,
        written: GlobalAddress,
        successor: u64,
    ) -> Result<u64, PoolError> {
        let at = leaf.plus(self.leaves.successor_offset() as u64);
        if written.node() != leaf.node() {
            // Only verbs to one node take effect in order.
            self.endpoint.post(&mut writes).await?;
            return Ok(self.endpoint.compare_swap(at, 0, successor).await?);
        }
        writes.push(FabricVerb::compare_swap(at, 0, successor));
        self.endpoint.post(&mut writes).await?;
        let before = writes.last().and_then(FabricVerb::found);
        Ok(before.unwrap_or_default())
    }
}
