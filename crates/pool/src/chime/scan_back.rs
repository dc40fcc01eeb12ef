//! Scans from right to left. Not in the paper, whose leaves know only their right siblings: the
//! leaf to the left is the one that the parent names, if that has this leaf as its sibling.

use super::route::{ChimeLeafRoute, RIGHT_MOVES_MAX};
use super::session::ChimeSession;
use crate::cache::CacheableNode;
use crate::error::PoolError;
use crate::index::Entry;
use crate::layout::PoolLeaf;
use nearfield_fabric::Endpoint;

/// The entries found so far by a scan.
struct ScanBack {
    /// The greatest key of the next entry.
    from: Vec<u8>,
    count: usize,
    entries: Vec<Entry>,
}

impl ScanBack {
    /// Adds all entries of leaves from `least` to `from`. Returns false if there is no leaf to the
    /// left of them.
    fn take(&mut self, leaves: &[PoolLeaf], least: &[u8]) -> bool {
        debug_assert!(self.entries.len() <= self.count && self.from.len() == least.len());
        let mut found: Vec<(&[u8], &[u8])> = leaves
            .iter()
            .flat_map(|leaf| {
                let entry = |slot| leaf.key(slot).map(|key| (key, leaf.value(slot)));
                leaf.occupied().filter_map(entry)
            })
            .filter(|&(key, _)| least <= key && key <= &*self.from)
            .collect();
        found.sort_unstable_by(|one, other| other.cmp(one));
        // As in a scan to the right, a key that was put elsewhere meanwhile may be there twice.
        found.dedup_by_key(|(key, _)| *key);
        found.truncate(self.count - self.entries.len());
        let entries = found.into_iter();
        let entries = entries.map(|(key, value)| (key.to_vec(), value.to_vec()));
        self.entries.extend(entries);
        // All leaves from `least` on were read, so the next entry is below it.
        self.from.copy_from_slice(least);
        decrement(&mut self.from)
    }

    fn is_done(&self) -> bool {
        self.entries.len() >= self.count
    }
}

/// Replaces a key by the one before it; returns false if there is none.
fn decrement(key: &mut [u8]) -> bool {
    for byte in key.iter_mut().rev() {
        let (less, borrows) = byte.overflowing_sub(1);
        *byte = less;
        if !borrows {
            return true;
        }
    }
    false
}

impl<E: Endpoint> ChimeSession<'_, E> {
    /// Returns the last `count` entries up to a key. Needs as many round trips as a scan in the
    /// other direction.
    pub(super) async fn scan_back_from(
        &self,
        from: &[u8],
        count: usize,
    ) -> Result<Vec<Entry>, PoolError> {
        let mut scan = ScanBack {
            from: from.to_vec(),
            count,
            entries: Vec::new(),
        };
        let mut patience = self.patience();
        while !scan.is_done() {
            self.look_after(&mut patience, &scan.from).await?;
            let before = scan.from.clone();
            if !self.scan_back_some(&mut scan).await? {
                break;
            }
            if before != scan.from {
                patience = self.patience();
                self.repairs.set(0);
            }
        }
        Ok(scan.entries)
    }

    /// Reads the leaves that one parent knows, as many as may be needed. Returns false if there is
    /// no leaf to the left of them.
    async fn scan_back_some(&self, scan: &mut ScanBack) -> Result<bool, PoolError> {
        let (ways, bounds): (Vec<ChimeLeafRoute>, Vec<Vec<u8>>) =
            match self.find_parent_of_leaf(&scan.from).await? {
                Ok((parent, is_kept)) => {
                    let last = parent.position(&scan.from);
                    let wanted = self.leaves_for(scan.count - scan.entries.len());
                    // Leaves know only their right siblings, so the parent must name the ones to
                    // the left.
                    let first = (last + 1).saturating_sub(wanted);
                    debug_assert!(first <= last, "each round reads a leaf");
                    let stretch = |position| {
                        let way = ChimeLeafRoute::of(&parent, position, is_kept);
                        (way, parent.least(position))
                    };
                    (first..=last).rev().map(stretch).unzip()
                }
                Err(way) => (vec![way], vec![vec![0; scan.from.len()]]),
            };
        let leaves = self.read_leaves(&ways).await?;
        for ((way, least), leaf) in ways.into_iter().zip(bounds).zip(leaves) {
            // The bounds of a damaged parent may lead back, and so in a circle.
            if least > scan.from {
                self.forget(&way);
                return Ok(true);
            }
            // A leaf that was divided has its greatest keys in the new siblings, which come first.
            let Some(leaves) = self.follow(&way, leaf).await? else {
                self.forget(&way);
                return Ok(true);
            };
            if !scan.take(&leaves, &least) || scan.is_done() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns a leaf, and those that it was divided into since its parent was read; `None` if they
    /// do not end at the key that the parent names.
    async fn follow(
        &self,
        way: &ChimeLeafRoute,
        leaf: PoolLeaf,
    ) -> Result<Option<Vec<PoolLeaf>>, PoolError> {
        let mut leaves = vec![leaf];
        while let Some(last) = leaves.last() {
            let sibling = last.sibling(0);
            if !last.is_valid(0) || leaves.len() > RIGHT_MOVES_MAX {
                break;
            }
            if sibling == way.sibling {
                return Ok(Some(leaves));
            }
            if sibling.is_null() {
                break;
            }
            self.forget(way);
            leaves.push(self.read_settled(sibling).await?);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_one_before_them_but_the_least() {
        let before = |mut key: [u8; 2]| decrement(&mut key).then_some(key);
        assert_eq!(before([1, 0]), Some([0, 255]));
        assert_eq!(before([0, 2]), Some([0, 1]));
        assert_eq!(before([0, 0]), None);
    }
}
