//! Reads of leaves: those that may have a key, and their synonyms.

use super::hopscotch::neighborhood;
use super::leaf::RolexLeaf;
use super::table::RolexModelTable;
use super::{Rolex, SCAN_LEAVES};
use crate::wait_limit::WaitLimit;
use nearfield_fabric::{Endpoint, FabricVerb, GlobalAddress};
use nearfield_pool::{Entry, PoolError};
use std::ops::RangeInclusive;

/// A leaf, and its address.
pub(super) struct RolexRemoteLeaf {
    pub address: GlobalAddress,
    pub leaf: RolexLeaf,
}

/// The leaf to which a key belongs.
pub(super) struct RolexLeafChain {
    /// Its number.
    pub number: u64,
    /// The leaf, and its synonyms as far as they are known.
    pub chain: Vec<RolexRemoteLeaf>,
    /// The leaves to the right that were read with it.
    right: Vec<RolexRemoteLeaf>,
}

impl<E: Endpoint> Rolex<E> {
    /// Reads the leaf to which a key belongs.
    pub(super) async fn locate(&self, key: &[u8]) -> Result<RolexLeafChain, PoolError> {
        let table = self.table().await?;
        let candidates = self.narrow(&table, key).await?;
        let known = self.node.synonyms.of_key(key, &candidates);
        let first = *candidates.start();
        let mut addresses: Vec<_> = candidates.map(|leaf| table.address(leaf)).collect();
        let leaves = addresses.len();
        // In the same post, although the leaf of the key is known only after it.
        addresses.extend(known.iter().flat_map(|(_, synonyms)| synonyms.iter()));

        let mut read = self.read_leaves(&addresses).await?;
        let synonyms = read.split_off(leaves);
        // If no bound is at most the key, the leaf is the first of all.
        let place = read.iter().rposition(|placed| placed.leaf.bound() <= key);
        if first > 0 && place.is_none() {
            // A prediction is off by at most the error, and bounds never change.
            let at = table.address(first);
            return Err(PoolError::Damaged { at });
        }
        let place = place.filter(|&place| place > 0 || first > 0).unwrap_or(0);
        let right = read.split_off(place + 1);
        let mut chain = read.split_off(place);
        let number = first + place as u64;
        if known.is_some_and(|(of, _)| of == number) {
            chain.extend(synonyms);
        }
        Ok(RolexLeafChain {
            number,
            chain,
            right,
        })
    }

    /// Returns the leaves that may have a key. If there are many, as for keys with a common prefix,
    /// returns the only one, found by bisection with a round trip for each step.
    pub(super) async fn narrow(
        &self,
        table: &RolexModelTable,
        key: &[u8],
    ) -> Result<RangeInclusive<u64>, PoolError> {
        let candidates = table.candidates(key);
        let (mut first, mut last) = candidates.into_inner();
        while last - first >= table.candidates_max() {
            // Rounded up, so that each step makes the range smaller.
            let middle = first + (last - first).div_ceil(2);
            let address = table.address(middle);
            let is_left = match &self.hopscotch {
                None => self.read_leaves(&[address]).await?[0].leaf.bound() <= key,
                Some(hopscotch) => {
                    let wanted = [(address, neighborhood(hopscotch, key))];
                    self.read_parts(hopscotch, &wanted).await?[0].bound() <= key
                }
            };
            if is_left {
                first = middle;
            } else {
                last = middle - 1;
            }
        }
        Ok(first..=last)
    }

    /// Finds a key in a leaf or its synonyms, which are read as far as they have not been. Returns
    /// its position in the chain and its slot.
    pub(super) async fn find(
        &self,
        located: &mut RolexLeafChain,
        key: &[u8],
    ) -> Result<Option<(usize, usize)>, PoolError> {
        let mut next = 0;
        loop {
            let rest = located.chain.iter().enumerate().skip(next);
            let mut found =
                rest.filter_map(|(number, placed)| Some((number, placed.leaf.find(key)?)));
            if let Some(found) = found.next() {
                return Ok(Some(found));
            }
            next = located.chain.len();
            let chains = std::slice::from_mut(&mut located.chain);
            // Each synonym has the address of the next one, so they are read one after the other.
            if !self.follow(located.number, chains).await? {
                return Ok(None);
            }
        }
    }

    /// Reads the leaf and its synonyms again, all of them unless a key is found. The caller holds
    /// the lock.
    pub(super) async fn reread(
        &self,
        located: &mut RolexLeafChain,
        key: &[u8],
    ) -> Result<(), PoolError> {
        let addresses: Vec<_> = located.chain.iter().map(|placed| placed.address).collect();
        located.chain = self.read_leaves(&addresses).await?;
        self.find(located, key).await?;
        Ok(())
    }

    /// Reads one more synonym of each of consecutive leaves, from number `first` on, that has one
    /// more. Returns false if none has.
    async fn follow(
        &self,
        first: u64,
        chains: &mut [Vec<RolexRemoteLeaf>],
    ) -> Result<bool, PoolError> {
        let next =
            |chain: &Vec<RolexRemoteLeaf>| chain.last().and_then(|placed| placed.leaf.synonym());
        let missing: Vec<usize> = (0..chains.len())
            .filter(|&number| next(&chains[number]).is_some())
            .collect();
        if missing.is_empty() {
            return Ok(false);
        }
        let addresses: Vec<_> = chains.iter().filter_map(next).collect();
        let read = self.read_leaves(&addresses).await?;
        for (number, placed) in missing.into_iter().zip(read) {
            let mut chain = chains[number].iter();
            if chain.any(|other| other.address == placed.address) {
                // A circle, which no write of a chain makes.
                let at = placed.address;
                return Err(PoolError::Damaged { at });
            }
            chains[number].push(placed);
            self.note_synonyms(first + number as u64, &chains[number]);
        }
        Ok(true)
    }

    /// Notes the synonyms of a leaf for the compute node.
    pub(super) fn note_synonyms(&self, leaf: u64, chain: &[RolexRemoteLeaf]) {
        let bound = if leaf == 0 {
            &[]
        } else {
            chain[0].leaf.bound()
        };
        let addresses = chain[1..].iter().map(|placed| placed.address).collect();
        self.note_addresses(leaf, bound, addresses);
    }

    /// Notes the synonyms of a leaf with this bound for the compute node; that of the first is the
    /// empty string.
    pub(super) fn note_addresses(&self, leaf: u64, bound: &[u8], addresses: Vec<GlobalAddress>) {
        let kept = self.node.model_bytes() + self.node.hotspots.bytes();
        // Models and hotspots are kept in any case, so synonyms have the rest.
        let budget = self.node.options.cache_bytes.saturating_sub(kept);
        self.node.synonyms.note(bound, leaf, addresses, budget);
    }

    /// Reads leaves in one round trip, and again those that were written meanwhile.
    async fn read_leaves(
        &self,
        addresses: &[GlobalAddress],
    ) -> Result<Vec<RolexRemoteLeaf>, PoolError> {
        let bytes = self.leaves.wire_bytes();
        let mut buffer = vec![0; addresses.len() * bytes];
        let mut leaves: Vec<Option<RolexLeaf>> = vec![None; addresses.len()];
        let mut limit = WaitLimit::default();
        while let Some(torn) = leaves.iter().position(Option::is_none) {
            let missing = addresses.iter().zip(&leaves);
            let missing = missing.zip(buffer.chunks_exact_mut(bytes));
            let missing = missing.filter(|((_, leaf), _)| leaf.is_none());
            let mut verbs: Vec<FabricVerb<'_>> = missing
                .map(|((&from, _), into)| FabricVerb::Read { from, into })
                .collect();
            self.endpoint.post(&mut verbs).await?;
            for (leaf, wire) in leaves.iter_mut().zip(buffer.chunks_exact(bytes)) {
                if leaf.is_none() {
                    *leaf = RolexLeaf::decode(self.leaves, wire).ok();
                }
            }
            if leaves[torn].is_none() {
                limit.check(&self.endpoint, addresses[torn])?;
            }
        }
        let placed = addresses.iter().zip(leaves.into_iter().flatten());
        let placed = placed.map(|(&address, leaf)| RolexRemoteLeaf { address, leaf });
        Ok(placed.collect())
    }

    /// Returns the first entries from a key on.
    pub(super) async fn collect(&self, from: &[u8], count: usize) -> Result<Vec<Entry>, PoolError> {
        let table = self.table().await?;
        let located = self.locate(from).await?;
        let mut number = located.number;
        let mut chains = vec![located.chain];
        // Read already, together with the first leaf.
        chains.extend(located.right.into_iter().map(|placed| vec![placed]));
        let mut entries = Vec::new();
        loop {
            while self.follow(number, &mut chains).await? {}
            for chain in &chains {
                let found = chain.iter().flat_map(|placed| placed.leaf.entries());
                gather(found, from, count, &mut entries);
            }
            number += chains.len() as u64;
            let wanted = (count - entries.len()).div_ceil(self.leaves.span()) as u64;
            let left = table.leaves() - number;
            if wanted == 0 || left == 0 {
                return Ok(entries);
            }
            let last = number + wanted.min(left).min(SCAN_LEAVES) - 1;
            let after = entries.last().map_or(from, |(key, _)| key);
            chains = self.read_chains(&table, number..=last, after).await?;
        }
    }

    /// Reads leaves with keys that are all greater than `after`, and their known synonyms.
    async fn read_chains(
        &self,
        table: &RolexModelTable,
        leaves: RangeInclusive<u64>,
        after: &[u8],
    ) -> Result<Vec<Vec<RolexRemoteLeaf>>, PoolError> {
        let known = self.node.synonyms.of_leaves(after, &leaves);
        let first = *leaves.start();
        let mut addresses: Vec<_> = leaves.map(|leaf| table.address(leaf)).collect();
        let count = addresses.len();
        addresses.extend(known.iter().flat_map(|(_, synonyms)| synonyms.iter()));
        let mut read = self.read_leaves(&addresses).await?.into_iter();
        let mut chains: Vec<_> = read
            .by_ref()
            .take(count)
            .map(|placed| vec![placed])
            .collect();
        for (leaf, synonyms) in known {
            chains[(leaf - first) as usize].extend(read.by_ref().take(synonyms.len()));
        }
        debug_assert_eq!(read.len(), 0, "each leaf that was read has a chain");
        Ok(chains)
    }
}

/// Adds the entries of a leaf and its synonyms from a key on, up to `count` in all.
pub(super) fn gather<'c>(
    found: impl Iterator<Item = (&'c [u8], &'c [u8])>,
    from: &[u8],
    count: usize,
    entries: &mut Vec<Entry>,
) {
    debug_assert!(entries.len() <= count);
    let mut found: Vec<_> = found.filter(|(key, _)| *key >= from).collect();
    found.sort_unstable_by_key(|(key, _)| *key);
    // Leaves are read one by one. If a key was removed meanwhile and inserted into another leaf,
    // both reads found it.
    found.dedup_by_key(|(key, _)| *key);
    let found = found.into_iter().take(count - entries.len());
    entries.extend(found.map(|(key, value)| (key.to_vec(), value.to_vec())));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rolex::{RolexLeafLayout, RolexOptions};

    #[test]
    fn a_key_that_was_read_in_two_leaves_is_gathered_once() {
        let layout = RolexLeafLayout::new(RolexOptions::default().geometry);
        let leaf = |keys: &[u8]| {
            let mut leaf = RolexLeaf::new(layout);
            for (slot, &key) in keys.iter().enumerate() {
                leaf.put(slot, &[key; 8], &[0; 8]);
            }
            let address = GlobalAddress::NULL;
            RolexRemoteLeaf { address, leaf }
        };
        let chain = [leaf(&[5, 9, 2]), leaf(&[7, 9])];
        let gathered = |from: u8, count| {
            let mut entries = vec![(vec![1; 8], vec![0; 8])];
            let found = chain.iter().flat_map(|placed| placed.leaf.entries());
            gather(found, &[from; 8], count, &mut entries);
            let first = entries.into_iter().map(|(key, _)| key[0]);
            first.collect::<Vec<_>>()
        };
        assert_eq!(gathered(1, 100), [1, 2, 5, 7, 9]);
        assert_eq!(gathered(5, 3), [1, 5, 7]);
    }
}
