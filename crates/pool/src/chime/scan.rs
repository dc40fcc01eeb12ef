//! Scans: all leaves of a range that the parents know, read with one notification of each node.

use super::node_io::Buffers;
use super::route::{ChimeLeafRoute, RIGHT_MOVES_MAX};
use super::session::ChimeSession;
use crate::cache::CacheableNode;
use crate::error::PoolError;
use crate::hopscotch;
use crate::index::Entry;
use crate::layout::PoolLeaf;
use nearfield_fabric::{Endpoint, FabricVerb, GlobalAddress};

/// Maximum number of leaves that are read at once.
const LEAVES_MAX: usize = 32;

/// The entries found so far by a scan.
struct ChimeScanProgress {
    /// The least key of the next entry; a greater one, if this key was returned.
    from: Vec<u8>,
    is_answered: bool,
    count: usize,
    entries: Vec<Entry>,
}

impl ChimeScanProgress {
    /// Adds the entries of a leaf.
    fn take(&mut self, leaf: &PoolLeaf) {
        debug_assert!(self.entries.len() <= self.count);
        let from = &self.from;
        let is_next = |key: &[u8]| key > &**from || !self.is_answered && key == &**from;
        let mut found: Vec<(&[u8], usize)> = leaf
            .occupied()
            .filter_map(|slot| leaf.key(slot).map(|key| (key, slot)))
            .filter(|(key, _)| is_next(key))
            .collect();
        found.sort_unstable();
        // A key that was removed and put somewhere else meanwhile may be there twice.
        found.dedup_by_key(|(key, _)| *key);
        found.truncate(self.count - self.entries.len());
        let entries = found
            .into_iter()
            .map(|(key, slot)| (key.to_vec(), leaf.value(slot).to_vec()));
        self.entries.extend(entries);
        if let Some((last, _)) = self.entries.last() {
            self.from.clone_from(last);
            self.is_answered = true;
        }
    }

    fn is_done(&self) -> bool {
        self.entries.len() >= self.count
    }
}

/// The route to a leaf, and the least key to the right of it; `None` if there is no leaf to the
/// right.
type Stretch = (ChimeLeafRoute, Option<Vec<u8>>);

impl<E: Endpoint> ChimeSession<'_, E> {
    /// Returns the first `count` entries from a key on. One round trip for every [`LEAVES_MAX`]
    /// leaves if the parents are cached, and one for each leaf that no parent knows.
    pub(super) async fn scan_from(
        &self,
        from: &[u8],
        count: usize,
    ) -> Result<Vec<Entry>, PoolError> {
        let mut scan = ChimeScanProgress {
            from: from.to_vec(),
            is_answered: false,
            count,
            entries: Vec::new(),
        };
        let mut patience = self.patience();
        while !scan.is_done() {
            self.look_after(&mut patience, &scan.from).await?;
            let stretches = self.stretches_from(&scan).await?;
            let before = (scan.entries.len(), scan.from.clone());
            if self.scan_stretches(stretches, &mut scan).await? {
                break;
            }
            // Progress proves that no dead client blocks the scan, so its patience begins again.
            if before != (scan.entries.len(), scan.from.clone()) {
                patience = self.patience();
                self.repairs.set(0);
            }
        }
        Ok(scan.entries)
    }

    /// Returns the leaves that a scan may need next, of those that one parent knows.
    async fn stretches_from(&self, scan: &ChimeScanProgress) -> Result<Vec<Stretch>, PoolError> {
        let (parent, is_kept) = match self.find_parent_of_leaf(&scan.from).await? {
            Ok(parent) => parent,
            Err(way) => return Ok(vec![(way, None)]),
        };
        let wanted = self.leaves_for(scan.count - scan.entries.len());
        let first = parent.position(&scan.from);
        let end = parent.children().min(first + wanted);
        debug_assert!(first < end, "each round reads a leaf");
        let stretch = |position| {
            let way = ChimeLeafRoute::of(&parent, position, is_kept);
            (way, parent.bound(position))
        };
        Ok((first..end).map(stretch).collect())
    }

    /// Returns the expected number of leaves with `entries` entries, up to the number that is read
    /// at once.
    pub(super) fn leaves_for(&self, entries: usize) -> usize {
        let percent = self.tree.node.options.occupancy_percent;
        let each = (self.tree.leaves.span() * percent / 100).max(1);
        (entries / each + 1).min(LEAVES_MAX)
    }

    /// Reads leaves and adds their entries; returns true if there is no leaf to the right of them.
    async fn scan_stretches(
        &self,
        stretches: Vec<Stretch>,
        scan: &mut ChimeScanProgress,
    ) -> Result<bool, PoolError> {
        let (ways, bounds): (Vec<ChimeLeafRoute>, Vec<_>) = stretches.into_iter().unzip();
        let leaves = self.read_leaves(&ways).await?;
        for ((way, bound), leaf) in ways.into_iter().zip(bounds).zip(leaves) {
            if !self.scan_stretch(&way, leaf, scan).await? {
                // The next keys are found by a new route.
                self.forget(&way);
                return Ok(false);
            }
            let Some(bound) = bound else {
                return Ok(true);
            };
            if scan.is_done() {
                return Ok(true);
            }
            // The bounds of a damaged parent may lead back, and so in a circle.
            if bound <= scan.from {
                self.forget(&way);
                return Ok(false);
            }
            // The bound is the least key that may be right of this leaf, also if this leaf is
            // empty.
            scan.from = bound;
            scan.is_answered = false;
        }
        Ok(false)
    }

    /// Adds the entries of a leaf, and of those that it was divided into. Returns false if they do
    /// not end at the key that the parent names.
    async fn scan_stretch(
        &self,
        way: &ChimeLeafRoute,
        mut leaf: PoolLeaf,
        scan: &mut ChimeScanProgress,
    ) -> Result<bool, PoolError> {
        for _ in 0..RIGHT_MOVES_MAX {
            if !leaf.is_valid(0) {
                return Ok(false);
            }
            scan.take(&leaf);
            let sibling = leaf.sibling(0);
            // The next leaf is the one that this leaf names as its sibling, so the scan misses
            // none. If the parent expects another, the leaf was divided since, and its siblings
            // have the rest.
            if sibling == way.sibling || scan.is_done() {
                return Ok(true);
            }
            self.forget(way);
            if sibling.is_null() {
                return Ok(false);
            }
            leaf = self.read_settled(sibling).await?;
        }
        Ok(false)
    }

    /// Reads a leaf as a whole, repeatedly until no entry of it was moved meanwhile.
    pub(super) async fn read_settled(&self, address: GlobalAddress) -> Result<PoolLeaf, PoolError> {
        self.tree.node.leaf_counters.add_here(1);
        let mut patience = self.patience();
        loop {
            let leaf = self.read_whole(address).await?;
            if hopscotch::is_settled(&leaf) {
                return Ok(leaf);
            }
            self.note_torn(address);
            if patience.has_ended(&self.tree.endpoint) {
                self.wait_again(&mut patience, address)?;
                self.repair_leaf(address).await?;
            }
        }
    }

    /// Reads whole leaves with one notification of each node, and again those with a concurrent
    /// write.
    pub(super) async fn read_leaves(
        &self,
        ways: &[ChimeLeafRoute],
    ) -> Result<Vec<PoolLeaf>, PoolError> {
        let whole = self.tree.leaves.whole();
        let buffers = ways
            .iter()
            .map(|way| Buffers::new(self.leaf_at(way.leaf), &whole, self.are_moves_counted()));
        let mut buffers: Vec<Buffers> = buffers.collect();
        let reads = buffers.iter_mut().flat_map(Buffers::targets);
        let mut verbs: Vec<FabricVerb<'_>> = reads
            .map(|(from, into)| FabricVerb::Read { from, into })
            .collect();
        self.tree.endpoint.post(&mut verbs).await?;
        drop(verbs);
        let mut leaves = Vec::with_capacity(ways.len());
        let mut again = 0;
        for (way, buffers) in ways.iter().zip(&buffers) {
            let mut leaf = PoolLeaf::new(self.tree.leaves);
            if !buffers.take_in(&whole, &mut leaf) || !hopscotch::is_settled(&leaf) {
                self.note_torn(way.leaf);
                // Counted there: leaves are counted once, however often they are read.
                leaf = self.read_settled(way.leaf).await?;
                again += 1;
            }
            leaves.push(leaf);
        }
        self.tree.node.leaf_counters.add_here(ways.len() - again);
        Ok(leaves)
    }
}
