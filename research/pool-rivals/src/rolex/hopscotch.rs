//! Reads of leaves that are hopscotch hash tables, as in CHIME's figure 15b, which applies its
//! techniques to ROLEX one after the other.
//!
//! A client reads the key's neighborhood in each leaf that may have the key, and with it the leaf's
//! metadata: the bound, which is the lower fence key, and the address of the synonym leaf, in the
//! place of the sibling. Entries move within a leaf ([`hopscotch`]), and never from one leaf to
//! another.

use super::Rolex;
use super::options::Hopscotch;
use super::table::RolexModelTable;
use crate::wait_limit::WaitLimit;
use nearfield_fabric::{Endpoint, FabricVerb, GlobalAddress, NodeId};
use nearfield_pool::hopscotch::{self, NeighborhoodLookup};
use nearfield_pool::layout::{self, LeafSlotRange, NodeSegments, PoolLeaf, Versions};
use nearfield_pool::{Entry, PoolError};
use std::ops::RangeInclusive;

/// A leaf with some known slots, and its address.
pub(super) struct RolexLeafPart {
    pub address: GlobalAddress,
    pub leaf: PoolLeaf,
    pub known: LeafSlotRange,
}

/// The leaf to which a key belongs.
pub(super) struct RolexHopscotchChain {
    /// Its number.
    pub number: u64,
    /// The neighborhoods of the key in the leaf and in its synonyms, as far as they are known.
    pub chain: Vec<RolexLeafPart>,
}

impl RolexLeafPart {
    /// Returns the segments that were read of it.
    fn segments(&self) -> NodeSegments {
        self.leaf.layout().with_metadata(self.known)
    }

    fn group(&self) -> usize {
        let layout = self.leaf.layout();
        layout.replica_within(&self.segments()).unwrap_or(0)
    }

    /// Returns the least key that belongs to the leaf; meaningless in a synonym leaf.
    pub fn bound(&self) -> &[u8] {
        let fences = self.leaf.fences(self.group());
        fences.map_or(&[], |(bound, _)| bound)
    }

    pub fn synonym(&self) -> Option<GlobalAddress> {
        let address = self.leaf.sibling(self.group());
        (!address.is_null()).then_some(address)
    }
}

impl<E: Endpoint> Rolex<E> {
    /// Reads the value of a key. One round trip if the key exists and, if it is in a synonym, that
    /// is known; two after a wrong guess.
    pub(super) async fn hopscotch_get(
        &self,
        hopscotch: &Hopscotch,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, PoolError> {
        if let Some(value) = self.hopscotch_speculate(hopscotch, key).await? {
            return Ok(Some(value));
        }
        let mut found = self.hopscotch_locate(hopscotch, key).await?;
        // The homes' versions when the key was last not found in any leaf.
        let mut absent_at: Option<Vec<Versions>> = None;
        let mut limit = WaitLimit::default();
        loop {
            let mut absent = Some(Vec::new());
            for part in &found.chain {
                match hopscotch::lookup(&part.leaf, key) {
                    NeighborhoodLookup::Found(slot) => {
                        self.hopscotch_admit(part.address, slot, key);
                        return Ok(Some(part.leaf.value(slot).to_vec()));
                    }
                    NeighborhoodLookup::Absent => {
                        let versions = part.leaf.entry_versions(part.known.first());
                        absent.iter_mut().for_each(|all| all.push(versions));
                    }
                    NeighborhoodLookup::Moved => absent = None,
                }
            }
            // The key counts as absent only if all synonyms were read.
            if self.hopscotch_follow(hopscotch, &mut found, key).await? {
                continue;
            }
            // It may have been moved while its neighborhood was read. Each move changes the home.
            // So if the home is the same after another read, no entry was moved during the first.
            if absent.is_some() && absent == absent_at {
                return Ok(None);
            }
            absent_at = absent;
            limit.check(&self.endpoint, found.chain[0].address)?;
            let wanted = found.chain.iter().map(|part| (part.address, part.known));
            let wanted: Vec<_> = wanted.collect();
            found.chain = self.read_parts(hopscotch, &wanted).await?;
        }
    }

    /// Reads the neighborhood of a key in the leaf to which it belongs.
    pub(super) async fn hopscotch_locate(
        &self,
        hopscotch: &Hopscotch,
        key: &[u8],
    ) -> Result<RolexHopscotchChain, PoolError> {
        let table = self.table().await?;
        let candidates = self.narrow(&table, key).await?;
        let known = self.node.synonyms.of_key(key, &candidates);
        let near = neighborhood(hopscotch, key);
        let first = *candidates.start();
        let mut wanted: Vec<_> = candidates.map(|leaf| (table.address(leaf), near)).collect();
        let leaves = wanted.len();
        let synonyms = known.iter().flat_map(|(_, synonyms)| synonyms.iter());
        wanted.extend(synonyms.map(|&address| (address, near)));

        let mut read = self.read_parts(hopscotch, &wanted).await?;
        let synonyms = read.split_off(leaves);
        // If no bound is at most the key, the leaf is the first of all.
        let place = read.iter().rposition(|part| part.bound() <= key);
        if first > 0 && place.is_none() {
            // A prediction is off by at most the error, and bounds never change.
            let at = table.address(first);
            return Err(PoolError::Damaged { at });
        }
        let place = place.unwrap_or(0);
        let number = first + place as u64;
        let mut chain = vec![read.swap_remove(place)];
        if known.is_some_and(|(of, _)| of == number) {
            chain.extend(synonyms);
        }
        Ok(RolexHopscotchChain { number, chain })
    }

    /// Reads the neighborhood of a key in one more synonym. Returns false if there is none.
    pub(super) async fn hopscotch_follow(
        &self,
        hopscotch: &Hopscotch,
        found: &mut RolexHopscotchChain,
        key: &[u8],
    ) -> Result<bool, PoolError> {
        let Some(synonym) = found.chain.last().and_then(RolexLeafPart::synonym) else {
            return Ok(false);
        };
        check_chain(&found.chain, synonym)?;
        let wanted = [(synonym, neighborhood(hopscotch, key))];
        found
            .chain
            .extend(self.read_parts(hopscotch, &wanted).await?);
        self.hopscotch_note(found);
        Ok(true)
    }

    /// Notes the synonyms of a leaf for the compute node.
    pub(super) fn hopscotch_note(&self, found: &RolexHopscotchChain) {
        let synonyms = found.chain[1..].iter().map(|part| part.address);
        // The first leaf also has the keys below the least one that was loaded.
        let bound = if found.number == 0 {
            &[]
        } else {
            found.chain[0].bound()
        };
        self.note_addresses(found.number, bound, synonyms.collect());
    }

    /// Reads slots of leaves, and metadata with each, in one round trip, and again those that were
    /// written meanwhile.
    pub(super) async fn read_parts(
        &self,
        hopscotch: &Hopscotch,
        wanted: &[(GlobalAddress, LeafSlotRange)],
    ) -> Result<Vec<RolexLeafPart>, PoolError> {
        let layout = hopscotch.layout;
        let segments: Vec<(GlobalAddress, NodeSegments)> = wanted
            .iter()
            .map(|&(address, slots)| (address, layout.with_metadata(slots)))
            .collect();
        let leaves = self.read_segments(hopscotch, &segments).await?;
        let parts = wanted.iter().zip(leaves);
        let parts = parts.map(|(&(address, known), leaf)| RolexLeafPart {
            address,
            leaf,
            known,
        });
        Ok(parts.collect())
    }

    /// Reads segments of leaves in one round trip, and again those that were written meanwhile.
    pub(super) async fn read_segments(
        &self,
        hopscotch: &Hopscotch,
        wanted: &[(GlobalAddress, NodeSegments)],
    ) -> Result<Vec<PoolLeaf>, PoolError> {
        let layout = hopscotch.layout;
        let buffers = |segments: &NodeSegments| -> Vec<Vec<u8>> {
            let lengths = segments.iter().map(|segment| segment.wire().len());
            lengths.map(|length| vec![0; length]).collect()
        };
        let mut buffers: Vec<_> = wanted
            .iter()
            .map(|(_, segments)| buffers(segments))
            .collect();
        let mut leaves: Vec<Option<PoolLeaf>> = vec![None; wanted.len()];
        let mut limit = WaitLimit::default();
        while let Some(torn) = leaves.iter().position(Option::is_none) {
            let mut verbs = Vec::new();
            for (number, buffers) in buffers.iter_mut().enumerate() {
                if leaves[number].is_some() {
                    continue;
                }
                let (address, segments) = &wanted[number];
                for (segment, into) in segments.iter().zip(buffers) {
                    let from = address.plus(segment.wire().start as u64);
                    verbs.push(FabricVerb::Read { from, into });
                }
            }
            self.endpoint.post(&mut verbs).await?;
            for (number, leaf) in leaves.iter_mut().enumerate() {
                let mut read = PoolLeaf::new(layout);
                let wire: Vec<&[u8]> = buffers[number].iter().map(Vec::as_slice).collect();
                if leaf.is_none() && read.decode(&wanted[number].1, &wire).is_ok() {
                    *leaf = Some(read);
                }
            }
            if leaves[torn].is_none() {
                limit.check(&self.endpoint, wanted[torn].0)?;
            }
        }
        Ok(leaves.into_iter().flatten().collect())
    }

    /// Returns the first entries from a key on. Leaves are read until they are equal twice, because
    /// entries may have been moved while they were read.
    pub(super) async fn hopscotch_collect(
        &self,
        hopscotch: &Hopscotch,
        from: &[u8],
        count: usize,
    ) -> Result<Vec<Entry>, PoolError> {
        let table = self.table().await?;
        let mut number = self.hopscotch_locate(hopscotch, from).await?.number;
        let mut entries = Vec::new();
        while entries.len() < count && number < table.leaves() {
            let wanted = (count - entries.len()).div_ceil(self.node.options.keys_per_leaf()) as u64;
            let last = number + wanted.min(table.leaves() - number).min(super::SCAN_LEAVES) - 1;
            let after = entries.last().map_or(from, |(key, _): &Entry| key);
            let chains = self.hopscotch_chains(hopscotch, &table, number..=last, after);
            for chain in chains.await? {
                let leaves = chain.iter().map(|part| &part.leaf);
                let found = leaves.flat_map(|leaf| {
                    let key = |slot| Some((leaf.key(slot)?, leaf.value(slot)));
                    leaf.occupied().filter_map(key)
                });
                super::locate::gather(found, from, count, &mut entries);
            }
            number = last + 1;
        }
        Ok(entries)
    }

    /// Reads whole leaves and all their synonyms.
    async fn hopscotch_chains(
        &self,
        hopscotch: &Hopscotch,
        table: &RolexModelTable,
        leaves: RangeInclusive<u64>,
        after: &[u8],
    ) -> Result<Vec<Vec<RolexLeafPart>>, PoolError> {
        let span = hopscotch.layout.span();
        let whole = |address| (address, LeafSlotRange::new(0, span, span));
        let known = self.node.synonyms.of_leaves(after, &leaves);
        // The leaf of each wanted address, counted from the first one.
        let mut owners: Vec<usize> = (0..(leaves.end() - leaves.start() + 1) as usize).collect();
        let mut wanted: Vec<_> = leaves
            .clone()
            .map(|leaf| whole(table.address(leaf)))
            .collect();
        for (leaf, synonyms) in known {
            owners.extend(synonyms.iter().map(|_| (leaf - leaves.start()) as usize));
            wanted.extend(synonyms.iter().map(|&address| whole(address)));
        }
        let mut chains: Vec<Vec<RolexLeafPart>> = owners.iter().map(|_| Vec::new()).collect();
        chains.truncate((leaves.end() - leaves.start() + 1) as usize);
        while !wanted.is_empty() {
            debug_assert_eq!(owners.len(), wanted.len());
            let mut read = self.read_parts(hopscotch, &wanted).await?;
            let mut limit = WaitLimit::default();
            loop {
                let again = self.read_parts(hopscotch, &wanted).await?;
                let before = std::mem::replace(&mut read, again);
                let mut pairs = before.iter().zip(&read);
                // Leaves contain their versions, so no entry was moved between equal reads.
                if pairs.all(|(before, now)| before.leaf == now.leaf) {
                    break;
                }
                limit.check(&self.endpoint, wanted[0].0)?;
            }
            for (&owner, part) in owners.iter().zip(read) {
                chains[owner].push(part);
            }
            (owners, wanted) = (Vec::new(), Vec::new());
            for (owner, chain) in chains.iter().enumerate() {
                if let Some(synonym) = chain.last().and_then(RolexLeafPart::synonym) {
                    check_chain(chain, synonym)?;
                    owners.push(owner);
                    wanted.push(whole(synonym));
                }
            }
        }
        Ok(chains)
    }

    /// Creates the bytes of a leaf on a node with these entries, and its lock word. Entries without
    /// room go to synonym leaves.
    pub(super) async fn hopscotch_image(
        &self,
        hopscotch: &Hopscotch,
        node: NodeId,
        entries: &[Entry],
    ) -> Result<Vec<u8>, PoolError> {
        let span = hopscotch.layout.span();
        let mut rest: Vec<&Entry> = entries.iter().collect();
        let mut leaves = Vec::new();
        while leaves.is_empty() || !rest.is_empty() {
            let mut leaf = PoolLeaf::new(hopscotch.layout);
            rest.retain(|(key, value)| {
                let all = LeafSlotRange::new(layout::home(key, span), span, span);
                hopscotch::insert(&mut leaf, all, key, value).is_err()
            });
            leaves.push(leaf);
        }
        // Leaves are encoded from the last to the first, each with the address of the one behind
        // it.
        let mut synonym = GlobalAddress::NULL;
        while let Some(mut leaf) = leaves.pop() {
            leaf.set_sibling(synonym);
            if leaves.is_empty() {
                let zeros = vec![0; self.node.options.geometry.shape().key_bytes];
                let bound = entries.first().map_or(&zeros, |(key, _)| key);
                // No client reads the upper fence.
                leaf.set_fences(bound, &zeros);
                return Ok(hopscotch.image(&leaf));
            }
            synonym = self.allocate(node).await?;
            self.endpoint
                .write(synonym, &hopscotch.image(&leaf))
                .await?;
        }
        Ok(Vec::new())
    }
}

impl Hopscotch {
    /// Returns the bytes of a fully known leaf, and its lock word.
    pub fn image(&self, leaf: &PoolLeaf) -> Vec<u8> {
        let mut bytes = leaf.encode(&self.layout.whole()).concat();
        debug_assert!(bytes.len() <= self.layout.lock_offset());
        bytes.resize(self.layout.lock_offset(), 0);
        bytes.extend(self.words.of_leaf(leaf).to_bits().to_le_bytes());
        bytes
    }
}

/// Refuses a synonym that is in a chain already: a circle, which no write of a chain makes.
fn check_chain(chain: &[RolexLeafPart], synonym: GlobalAddress) -> Result<(), PoolError> {
    if chain.iter().any(|part| part.address == synonym) {
        return Err(PoolError::Damaged { at: synonym });
    }
    Ok(())
}

/// Returns the slots of a leaf in which a key may be.
pub(super) fn neighborhood(hopscotch: &Hopscotch, key: &[u8]) -> LeafSlotRange {
    let home = layout::home(key, hopscotch.layout.span());
    hopscotch.layout.neighborhood_slots(home)
}
