//! Changes of a leaf or its synonyms under the lock of the leaf.

use super::Rolex;
use super::leaf::RolexLeaf;
use super::locate::{RolexLeafChain, RolexRemoteLeaf};
use crate::wait_limit::WaitLimit;
use nearfield_fabric::recovery::lease::HELD_BIT;
use nearfield_fabric::{Endpoint, FabricError, FabricVerb, GlobalAddress, MaskedSwap, NodeId};
use nearfield_pool::PoolError;
use nearfield_pool::coordination::Leader;
use std::time::Duration;

/// Delay until a client tries a held lock again: about a round trip.
const BACK_OFF: Duration = Duration::from_micros(2);

impl<E: Endpoint> Rolex<E> {
    /// Writes a key into its leaf and returns the old value.
    pub(super) async fn put(
        &self,
        mut located: RolexLeafChain,
        key: &[u8],
        leader: &mut Leader<'_>,
    ) -> Result<Option<Vec<u8>>, PoolError> {
        let lock = self.lock(&mut located, key).await?;
        let chain = &mut located.chain;
        if let Some((number, slot)) = position(chain, |leaf| leaf.find(key)) {
            let before = chain[number].leaf.value(slot).to_vec();
            // An existing key is written in any case.
            let value = leader.close(Some(&before)).unwrap_or_default();
            chain[number].leaf.put(slot, key, &value);
            self.write_back(lock, &mut chain[number..=number]).await?;
            return Ok(Some(before));
        }
        let Some(value) = leader.close(None) else {
            self.unlock(lock)?;
            return Ok(None);
        };
        // The first leaf with room takes the key, so that chains stay short.
        if let Some((number, slot)) = position(chain, |leaf| leaf.slot_for(key)) {
            chain[number].leaf.put(slot, key, &value);
            self.write_back(lock, &mut chain[number..=number]).await?;
            return Ok(None);
        }
        let address = match self.allocate(lock.node()).await {
            Ok(address) => address,
            Err(error) => {
                // Nothing has been written, and others may wait for the lock.
                self.unlock(lock)?;
                return Err(error.into());
            }
        };
        let mut leaf = RolexLeaf::new(self.leaves);
        leaf.put(0, key, &value);
        let last = chain.len() - 1;
        chain[last].leaf.set_synonym(address);
        chain.push(RolexRemoteLeaf { address, leaf });
        self.write_back(lock, &mut chain[last..]).await?;
        // Noted only after the write, which may fail.
        self.note_synonyms(located.number, chain);
        Ok(None)
    }

    /// Removes a key from its leaf and returns its value.
    pub(super) async fn take(
        &self,
        mut located: RolexLeafChain,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, PoolError> {
        let lock = self.lock(&mut located, key).await?;
        let chain = &mut located.chain;
        let Some((number, slot)) = position(chain, |leaf| leaf.find(key)) else {
            self.unlock(lock)?;
            return Ok(None);
        };
        let value = chain[number].leaf.value(slot).to_vec();
        // Readers choose leaves by bounds, so a bound stays. The first leaf and synonyms have none.
        let is_bound = located.number > 0 && number == 0 && slot == 0;
        chain[number].leaf.clear(slot, is_bound);
        self.write_back(lock, &mut chain[number..=number]).await?;
        Ok(Some(value))
    }

    /// Takes the lock of a leaf, reads the leaf and its synonyms again as far as a key may be
    /// there, and returns the address of the lock.
    async fn lock(
        &self,
        located: &mut RolexLeafChain,
        key: &[u8],
    ) -> Result<GlobalAddress, PoolError> {
        let at = located.chain[0].address;
        let at = at.plus(self.leaves.lock_offset() as u64);
        self.acquire(at).await?;
        self.reread(located, key).await?;
        Ok(at)
    }

    /// Takes a lock by setting a bit of its word, and returns the old word.
    pub(super) async fn acquire(&self, at: GlobalAddress) -> Result<u64, PoolError> {
        let swap = MaskedSwap {
            expected: 0,
            // The other bits are the vacancy bitmap of hopscotch leaves.
            compare_mask: HELD_BIT,
            desired: HELD_BIT,
            swap_mask: HELD_BIT,
        };
        let mut limit = WaitLimit::default();
        loop {
            let found = 0;
            let mut verbs = [FabricVerb::Swap { at, swap, found }];
            self.endpoint.post(&mut verbs).await?;
            let found = verbs[0].found().filter(|&found| swap.succeeds(found));
            if let Some(found) = found {
                return Ok(found);
            }
            limit.check(&self.endpoint, at)?;
            self.endpoint.sleep(BACK_OFF).await;
        }
    }

    fn unlock(&self, lock: GlobalAddress) -> Result<(), FabricError> {
        // Leaves that are arrays use no other bit of the word.
        self.endpoint.write_unsignalled(lock, &[0; 8])
    }

    /// Writes changed leaves, the last first, and releases the lock: all in one round trip, because
    /// they are on one node. A client that sees a leaf finds its synonym written.
    async fn write_back(
        &self,
        lock: GlobalAddress,
        changed: &mut [RolexRemoteLeaf],
    ) -> Result<(), PoolError> {
        debug_assert!(!changed.is_empty());
        changed
            .iter_mut()
            .for_each(|placed| placed.leaf.count_write());
        let images = changed.iter().rev();
        let images: Vec<_> = images
            .map(|placed| (placed.address, placed.leaf.encode()))
            .collect();
        let writes = images.iter().map(|(to, bytes)| (*to, &**bytes));
        let mut verbs: Vec<FabricVerb<'_>> = writes
            .chain([(lock, &[0; 8][..])])
            .map(|(to, bytes)| FabricVerb::Write { to, bytes })
            .collect();
        Ok(self.endpoint.post(&mut verbs).await?)
    }

    /// Allocates memory for a synonym leaf on a node.
    pub(super) async fn allocate(&self, node: NodeId) -> Result<GlobalAddress, FabricError> {
        let arena = self.arenas.iter().find(|(of, _)| *of == node);
        let (_, arena) = arena.ok_or(FabricError::NoSuchNode { node })?;
        let bytes = self.node.options.stride_bytes() as u64;
        arena.allocate(&self.endpoint, bytes).await
    }
}

/// Returns the first position in a chain for which `slot` returns a slot, and that slot.
fn position(
    chain: &[RolexRemoteLeaf],
    slot: impl Fn(&RolexLeaf) -> Option<usize>,
) -> Option<(usize, usize)> {
    let mut slots = chain
        .iter()
        .enumerate()
        .filter_map(|(number, placed)| Some((number, slot(&placed.leaf)?)));
    slots.next()
}
