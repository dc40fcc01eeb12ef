//! Reads of leaves and blocks.

use super::Marlin;
use super::layout::{MarlinDivision, MarlinLeaf, MarlinSlot, fingerprint};
use crate::wait_limit::WaitLimit;
use nearfield_fabric::{Endpoint, FabricVerb, GlobalAddress};
use nearfield_pool::{Entry, PoolError, PoolIndexClient};

/// A leaf that was read, and its address.
pub(super) struct MarlinPlacedLeaf {
    pub address: GlobalAddress,
    pub leaf: MarlinLeaf,
}

/// The slot of a key.
pub(super) struct MarlinMatch {
    pub number: usize,
    pub slot: MarlinSlot,
    /// The value in its block, also once the key was removed.
    pub value: Vec<u8>,
}

impl MarlinMatch {
    /// Returns the value, unless the key was removed.
    pub fn live(&self) -> Option<&[u8]> {
        (!self.slot.is_removed()).then_some(&self.value[..])
    }
}

impl<E: Endpoint> Marlin<E> {
    pub(super) async fn search(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        let place = self.locate(key).await?;
        let found = self.find(&place.leaf, key).await?;
        Ok(found
            .filter(|found| found.slot.is_live())
            .map(|found| found.value))
    }

    /// Reads the leaf to which a key belongs, which was not divided when it was read.
    pub(super) async fn locate(&self, key: &[u8]) -> Result<MarlinPlacedLeaf, PoolError> {
        let known = self.node.leaves.leaves_from(key, 1).pop();
        self.locate_from(key, known).await
    }

    /// Locates a leaf like [`locate`](Marlin::locate), from a known leaf on. Without one it begins
    /// with the inner nodes, and publishes all divisions on its way.
    async fn locate_from(
        &self,
        key: &[u8],
        mut known: Option<GlobalAddress>,
    ) -> Result<MarlinPlacedLeaf, PoolError> {
        // True if the inner nodes lead to the leaf to read.
        let mut is_published = false;
        let mut limit = WaitLimit::default();
        loop {
            let address = match known.take() {
                Some(address) => address,
                None => {
                    is_published = true;
                    self.look_up(key).await?
                }
            };
            let leaf = self.read_leaf(address).await?;
            // A leaf that does not cover the key is the last known one before an unknown one.
            if leaf.covers(key) {
                if leaf.successor.is_null() {
                    self.node.leaves.note(&leaf.low, address);
                    return Ok(MarlinPlacedLeaf { address, leaf });
                }
                let division = self.read_division(leaf.successor).await?;
                if is_published {
                    // The client that has divided the leaf may have died before it did this.
                    self.publish_division(&leaf.low, &division).await?;
                } else {
                    self.note_division(&leaf.low, &division);
                }
                known = Some(match &division.right {
                    Some((bound, right)) if *key >= **bound => *right,
                    _ => division.left,
                });
            }
            limit.check(self.endpoint(), address)?;
        }
    }

    /// Returns the leaf to which a key belongs according to the inner nodes.
    async fn look_up(&self, key: &[u8]) -> Result<GlobalAddress, PoolError> {
        let found = self.inner.scan_back(key, 1).await?;
        let word = found.first().and_then(|(_, value)| value.first_chunk());
        let leaf = word.map(|word| GlobalAddress::from_bits(u64::from_le_bytes(*word)));
        leaf.ok_or(PoolError::NoIndex { root: self.root })
    }

    /// Makes the inner nodes lead to a leaf.
    pub(super) async fn publish(&self, low: &[u8], leaf: GlobalAddress) -> Result<(), PoolError> {
        let value = leaf.to_bits().to_le_bytes();
        self.inner.put(low, &value).await?;
        self.node.leaves.note(low, leaf);
        Ok(())
    }

    /// Makes the inner nodes lead to the leaves that have replaced one, which this client has
    /// divided.
    pub(super) async fn publish_own_division(
        &self,
        place: &MarlinPlacedLeaf,
        division: &MarlinDivision,
    ) -> Result<(), PoolError> {
        let low = &place.leaf.low;
        if self.look_up(low).await? == place.address {
            return self.publish_division(low, division).await;
        }
        // The client that has made this leaf by a division may have died before it published both
        // halves. Published without them, this division would hide the other half.
        self.locate_from(low, None).await.map(drop)
    }

    /// Makes the inner nodes lead to the leaves that have replaced one, to which they lead.
    async fn publish_division(
        &self,
        low: &[u8],
        division: &MarlinDivision,
    ) -> Result<(), PoolError> {
        // First the right leaf: the left one does not lead to it.
        if let Some((bound, right)) = &division.right {
            self.publish(bound, *right).await?;
        }
        self.publish(low, division.left).await
    }

    fn note_division(&self, low: &[u8], division: &MarlinDivision) {
        if let Some((bound, right)) = &division.right {
            self.node.leaves.note(bound, *right);
        }
        self.node.leaves.note(low, division.left);
    }

    async fn read_leaf(&self, address: GlobalAddress) -> Result<MarlinLeaf, PoolError> {
        let mut bytes = vec![0; self.layout.leaf_bytes()];
        self.endpoint().read(address, &mut bytes).await?;
        Ok(self.layout.decode_leaf(&bytes))
    }

    async fn read_division(&self, record: GlobalAddress) -> Result<MarlinDivision, PoolError> {
        let mut bytes = vec![0; self.layout.record_bytes()];
        self.endpoint().read(record, &mut bytes).await?;
        Ok(self.layout.decode_record(&bytes))
    }

    /// Reads leaves in one round trip.
    pub(super) async fn read_leaves(
        &self,
        addresses: &[GlobalAddress],
    ) -> Result<Vec<MarlinLeaf>, PoolError> {
        let read = self
            .read_pieces(addresses, self.layout.leaf_bytes())
            .await?;
        let leaves = read.iter().map(|bytes| self.layout.decode_leaf(bytes));
        Ok(leaves.collect())
    }

    /// Reads the entries of slots in one round trip.
    pub(super) async fn read_blocks(&self, slots: &[MarlinSlot]) -> Result<Vec<Entry>, PoolError> {
        let addresses: Vec<GlobalAddress> = slots.iter().map(|slot| slot.block()).collect();
        let read = self
            .read_pieces(&addresses, self.layout.block_bytes())
            .await?;
        let entries = read.iter().map(|bytes| {
            let (key, value) = self.layout.decode_block(bytes);
            (key.to_vec(), value.to_vec())
        });
        Ok(entries.collect())
    }

    async fn read_pieces(
        &self,
        addresses: &[GlobalAddress],
        bytes: usize,
    ) -> Result<Vec<Vec<u8>>, PoolError> {
        let mut pieces: Vec<Vec<u8>> = addresses.iter().map(|_| vec![0; bytes]).collect();
        let mut verbs = Vec::new();
        for (&from, into) in addresses.iter().zip(&mut pieces) {
            verbs.push(FabricVerb::Read { from, into });
        }
        if !verbs.is_empty() {
            self.endpoint().post(&mut verbs).await?;
        }
        drop(verbs);
        Ok(pieces)
    }

    /// Finds the slot of a key in its leaf, also of one that was removed.
    pub(super) async fn find(
        &self,
        leaf: &MarlinLeaf,
        key: &[u8],
    ) -> Result<Option<MarlinMatch>, PoolError> {
        let wanted = fingerprint(key);
        let slots = leaf.slots.iter().copied().enumerate();
        let may_be: Vec<(usize, MarlinSlot)> = slots
            .filter(|(_, slot)| !slot.is_unused() && slot.fingerprint() == wanted)
            .collect();
        let blocks: Vec<MarlinSlot> = may_be.iter().map(|&(_, slot)| slot).collect();
        let entries = self.read_blocks(&blocks).await?;
        let mut matches = may_be.into_iter().zip(entries);
        let found = matches.find(|(_, (found, _))| **found == *key);
        Ok(found.map(|((number, slot), (_, value))| MarlinMatch {
            number,
            slot,
            value,
        }))
    }
}
