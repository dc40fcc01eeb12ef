//! Reads of entries in the order of their keys.

use super::Marlin;
use super::layout::{MarlinLeaf, MarlinSlot};
use nearfield_fabric::Endpoint;
use nearfield_pool::{Entry, PoolError};

/// Number of leaves that a scan reads at once.
const SCAN_LEAVES: usize = 32;

impl<E: Endpoint> Marlin<E> {
    /// Returns the first `count` entries from a key on.
    pub(super) async fn collect(&self, from: &[u8], count: usize) -> Result<Vec<Entry>, PoolError> {
        let mut entries: Vec<Entry> = Vec::new();
        // A bound of zeros is below all leaves.
        let mut next = Some(from.to_vec());
        if from.iter().all(|&byte| byte == 0)
            && let Some(last) = next.as_mut().and_then(|next| next.last_mut())
        {
            *last = 1;
        }
        while let Some(at) = next.take()
            && entries.len() < count
        {
            let (leaves, high) = self.read_chain(&at, count - entries.len()).await?;
            let slots = leaves.iter().flat_map(|leaf| leaf.slots.iter().copied());
            let slots: Vec<MarlinSlot> = slots.filter(|slot| slot.is_live()).collect();
            let mut found = self.read_blocks(&slots).await?;
            found.retain(|(key, _)| *key >= at);
            found.sort_unstable();
            found.truncate(count - entries.len());
            entries.append(&mut found);
            if let Some(high) = high {
                // Bounds ascend, unless they are damaged.
                if high <= at {
                    return Err(PoolError::Damaged { at: self.root });
                }
                next = Some(high);
            }
        }
        Ok(entries)
    }

    /// Reads the leaf of a key and those behind it as far as they are known, in one round trip, and
    /// returns them with the bound behind the last; about as many as have `count` entries.
    async fn read_chain(
        &self,
        from: &[u8],
        count: usize,
    ) -> Result<(Vec<MarlinLeaf>, Option<Vec<u8>>), PoolError> {
        // Leaves are more than half full, and the first one has lesser keys, too.
        let wanted = 1 + count.div_ceil((self.layout.span() / 2).max(1));
        let known = self.node.leaves.leaves_from(from, wanted.min(SCAN_LEAVES));
        let mut chain: Vec<MarlinLeaf> = Vec::new();
        for leaf in self.read_leaves(&known).await? {
            let is_next = match chain.last() {
                None => leaf.covers(from),
                Some(last) => last.high.as_deref() == Some(&*leaf.low),
            };
            if !is_next || !leaf.successor.is_null() {
                break;
            }
            chain.push(leaf);
        }
        if chain.is_empty() {
            chain.push(self.locate(from).await?.leaf);
        }
        let high = chain.last().and_then(|last| last.high.as_ref());
        let high = high.map(|high| high.to_vec());
        Ok((chain, high))
    }
}
