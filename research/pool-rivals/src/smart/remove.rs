//! Removal of a key.

use super::layout::{DEAD, SmartSlot};
use super::{Smart, SmartUpdate};
use nearfield_fabric::{Endpoint, FabricVerb};
use nearfield_pool::PoolError;

impl<E: Endpoint> Smart<E> {
    /// Removes a key; returns its value. It is gone once its leaf is marked. The slot is made
    /// vacant after that. If the slot has another child by then, because the leaf was put under a
    /// new node, it stays, and a client that finds the leaf there takes the key as absent.
    pub(super) async fn take(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        if self.node.options.update == SmartUpdate::Copy {
            return self.take_by_successor(key).await;
        }
        let began = self.endpoint.now();
        let Some(found) = self.find(key).await? else {
            return Ok(None);
        };
        let locked = self.lock(found.address, &found.leaf, began).await?;
        let Some(mut leaf) = locked else {
            return Ok(None);
        };
        // Dead forever: a client that comes by an outdated route must not write it.
        leaf.lock = leaf.lock_after() | DEAD;
        leaf.valid = false;
        let bytes = self.leaves.encode(&leaf);
        let mut position = found.position;
        let vacant = SmartSlot::vacant(position.slot.partial());
        let clear =
            FabricVerb::compare_swap(position.at, position.slot.to_word(), vacant.to_word());
        let mut verbs = self.leaf_writes(found.address, &bytes);
        let cleared = if position.at.node() == found.address.node() {
            // Both are done in order, in one post.
            verbs.push(clear);
            self.endpoint.post(&mut verbs).await?;
            verbs.last().and_then(FabricVerb::found)
        } else {
            self.endpoint.post(&mut verbs).await?;
            let mut clear = [clear];
            self.endpoint.post(&mut clear).await?;
            clear[0].found()
        };
        let before = SmartSlot::from_word(cleared.unwrap_or_default());
        position.slot = if before == position.slot {
            vacant
        } else {
            before
        };
        // Only for later operations: the key was gone with the write of its leaf.
        self.remember(&position);
        Ok(Some(leaf.value))
    }
}
