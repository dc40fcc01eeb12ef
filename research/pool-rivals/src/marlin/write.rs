//! Changes of one slot.

use super::Marlin;
use super::layout::{MarlinLeaf, MarlinSlot, fingerprint};
use super::locate::{MarlinMatch, MarlinPlacedLeaf};
use crate::wait_limit::WaitLimit;
use nearfield_fabric::{Endpoint, FabricVerb, GlobalAddress};
use nearfield_pool::PoolError;
use nearfield_pool::coordination::Leader;

impl<E: Endpoint> Marlin<E> {
    /// Writes a key, and returns the old value.
    pub(super) async fn store(
        &self,
        key: &[u8],
        leader: &mut Leader<'_>,
    ) -> Result<Option<Vec<u8>>, PoolError> {
        // A block that no other client knows, because no try with it has succeeded.
        let mut spare: Option<GlobalAddress> = None;
        let mut limit = WaitLimit::default();
        loop {
            let place = self.locate(key).await?;
            let found = self.find(&place.leaf, key).await?;
            let before = found.as_ref().and_then(MarlinMatch::live);
            let before = before.map(<[u8]>::to_vec);
            if before.is_none() && !leader.write().inserts() {
                leader.reopen();
                return Ok(None);
            }
            // The slot to swap, and its content.
            let (number, slot) = match &found {
                Some(found) => (found.number, found.slot),
                None => match place.leaf.first_unused() {
                    Some(number) => (number, place.leaf.slots[number]),
                    None => {
                        self.divide(&place).await?;
                        limit.check(self.endpoint(), place.address)?;
                        continue;
                    }
                },
            };
            if slot.is_frozen() {
                // Another client divides the leaf, and may have died.
                self.divide(&place).await?;
                limit.check(self.endpoint(), place.address)?;
                continue;
            }
            // An insert, or an update of an existing key, writes in any case.
            let value = leader.close(before.as_deref()).unwrap_or_default();
            let block = match spare.take() {
                Some(block) => block,
                None => {
                    let bytes = self.layout.block_bytes() as u64;
                    self.arena.allocate(self.endpoint(), bytes).await?
                }
            };
            let image = self.layout.encode_block(key, &value);
            let new = MarlinSlot::new(block, fingerprint(key));
            let write = FabricVerb::Write {
                to: block,
                bytes: &image,
            };
            if self.swap(&place, number, [slot, new], vec![write]).await? {
                return Ok(before);
            }
            spare = Some(block);
            limit.check(self.endpoint(), place.address)?;
        }
    }

    /// Removes a key, and returns its value.
    pub(super) async fn take(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        let mut limit = WaitLimit::default();
        loop {
            let place = self.locate(key).await?;
            let found = self.find(&place.leaf, key).await?;
            let Some(found) = found.filter(|found| found.slot.is_live()) else {
                return Ok(None);
            };
            if found.slot.is_frozen() {
                self.divide(&place).await?;
            } else {
                let slots = [found.slot, found.slot.removed()];
                if self.swap(&place, found.number, slots, Vec::new()).await? {
                    return Ok(Some(found.value));
                }
            }
            limit.check(self.endpoint(), place.address)?;
        }
    }

    /// Swaps a slot from one content to another after some writes, all on one node. Returns false
    /// if it had another content.
    async fn swap(
        &self,
        place: &MarlinPlacedLeaf,
        number: usize,
        [before, after]: [MarlinSlot; 2],
        mut writes: Vec<FabricVerb<'_>>,
    ) -> Result<bool, PoolError> {
        let at = place.address.plus(self.layout.slot_offset(number));
        let (before, after) = (before.to_word(), after.to_word());
        if writes.iter().any(|write| write.node() != at.node()) {
            // Only verbs to one node take effect in order.
            self.endpoint().post(&mut writes).await?;
            writes.clear();
        }
        writes.push(FabricVerb::compare_swap(at, before, after));
        self.endpoint().post(&mut writes).await?;
        Ok(writes.last().and_then(FabricVerb::found) == Some(before))
    }

    /// Writes a new leaf to memory, and returns its address.
    pub(super) async fn store_leaf(&self, leaf: &MarlinLeaf) -> Result<GlobalAddress, PoolError> {
        let image = self.layout.encode_leaf(leaf);
        let address = self
            .arena
            .allocate(self.endpoint(), image.len() as u64)
            .await?;
        self.endpoint().write(address, &image).await?;
        Ok(address)
    }
}
