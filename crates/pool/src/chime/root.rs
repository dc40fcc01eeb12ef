//! The root: its position, and the growth of the tree there.

use super::lock::ChimeNodeLock;
use super::node_io::NodeAt;
use super::session::ChimeSession;
use crate::error::PoolError;
use crate::layout::{InternalNode, PoolLeaf};
use nearfield_fabric::{Endpoint, FabricVerb, GlobalAddress, NodeId};

/// The greatest number of a memory node that a root word can hold.
pub(super) const NODE_MAX: u16 = 0xff;
/// The greatest level of a node. A tree with two children for each node would have had to fill all
/// memory to grow so high.
pub(super) const LEVEL_MAX: u8 = 64;

/// The root's level and address, in one word: 8 bits of level, 8 of the node's number and 48 of the
/// offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChimeRoot {
    pub level: u8,
    pub address: GlobalAddress,
}

impl ChimeRoot {
    fn from_word(word: u64) -> ChimeRoot {
        let node = NodeId((word >> 48) as u16 & NODE_MAX);
        ChimeRoot {
            level: (word >> 56) as u8,
            address: GlobalAddress::new(node, word & ((1 << 48) - 1)),
        }
    }

    pub(super) fn to_word(self) -> u64 {
        let node = u64::from(self.address.node().0 & NODE_MAX);
        u64::from(self.level) << 56 | node << 48 | self.address.offset()
    }
}

impl<E: Endpoint> ChimeSession<'_, E> {
    /// Creates the first leaf.
    pub(super) async fn create_root(&self) -> Result<(), PoolError> {
        let address = self.allocate(self.leaf_at(GlobalAddress::NULL)).await?;
        let (leaf, whole) = (PoolLeaf::new(self.tree.leaves), self.tree.leaves.whole());
        let at = self.leaf_at(address);
        let word = self.tree.lock_words.of_new(&leaf).to_bits();
        let writes = at.writes(&whole, leaf.encode(&whole));
        self.write_new(at, &writes, word).await?;
        // The leaf is whole before the word leads other clients to it.
        let root = ChimeRoot { level: 1, address };
        let word = root.to_word().to_le_bytes();
        Ok(self.tree.endpoint.write(self.tree.root, &word).await?)
    }

    /// Reads the root.
    ///
    /// # Errors
    /// `Damaged` if no tree has a root of that level, and the nodes' errors.
    pub(super) async fn read_root(&self) -> Result<ChimeRoot, PoolError> {
        let mut word = [0; 8];
        self.tree.endpoint.read(self.tree.root, &mut word).await?;
        let root = ChimeRoot::from_word(u64::from_le_bytes(word));
        // All levels of a search count down from this one.
        if (1..=LEVEL_MAX).contains(&root.level) {
            Ok(root)
        } else {
            Err(PoolError::Damaged { at: self.tree.root })
        }
    }

    /// Returns the position of the node that is the root.
    pub(super) fn root_at(&self, root: ChimeRoot) -> NodeAt {
        if root.level == 1 {
            self.leaf_at(root.address)
        } else {
            self.internal_at(root.address)
        }
    }

    /// Puts a root above `former`, which was divided at `separator`; returns false if that is no
    /// longer the root, so that there is a parent, or if another client may hold its lock.
    pub(super) async fn grow(
        &self,
        former: ChimeRoot,
        separator: &[u8],
        right: GlobalAddress,
        under: Option<&ChimeNodeLock<'_>>,
    ) -> Result<bool, PoolError> {
        let level = former.level + 1;
        let mut node = InternalNode::new(self.tree.internals, level, former.address);
        let inserted = node.insert(separator, right);
        debug_assert!(inserted.is_ok(), "a new node has room");
        // Nothing is swapped yet, so a lack of memory leaves the former root in place.
        let address = self.allocate(self.internal_at(GlobalAddress::NULL)).await?;
        let writes = self.internal_writes(address, &node).writes;
        self.write_new(self.internal_at(address), &writes, 0)
            .await?;
        let root = ChimeRoot { level, address };
        // Only the client that divided the root puts another above it.
        let (before, after) = (former.to_word(), root.to_word());
        let mut swap = [FabricVerb::compare_swap(self.tree.root, before, after)];
        // With a lease, the swap must not be made once another client may make it from the record.
        let done = match under {
            Some(lock) => self.post_under(lock, &mut swap).await?,
            None => self.tree.endpoint.post(&mut swap).await.map(|()| true)?,
        };
        Ok(done && swap[0].found() == Some(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_fits_into_a_word() {
        let address = GlobalAddress::new(NodeId(200), 0xffff_ffff_ffc0);
        let root = ChimeRoot { level: 9, address };
        assert_eq!(ChimeRoot::from_word(root.to_word()), root);
    }
}
