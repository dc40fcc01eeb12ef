//! Internal nodes: reading them on the way down, and adding children.

use super::Tree;
use super::kept::CachedNode;
use super::root::Root;
use crate::error::PoolError;
use crate::layout::InternalNode;
use nearfield_fabric::{Endpoint, GlobalAddress, Verb};

impl<E: Endpoint> Tree<E> {
    /// Goes down from the root to a node of `level` to which a key belongs, or one left of it.
    pub(super) async fn descend(
        &self,
        root: Root,
        key: &[u8],
        level: u8,
    ) -> Result<GlobalAddress, PoolError> {
        let (mut address, mut at) = (root.address, root.level);
        while at > level {
            let node = self.read_internal(address).await?;
            if node.covers(key) {
                let child = node.route(key).child;
                self.cache.keep(CachedNode { address, node });
                address = child;
                at -= 1;
            } else {
                // It was divided since its parent was read; keys never move to the left.
                self.forget_way(key, at, address);
                address = node.sibling();
            }
        }
        Ok(address)
    }

    /// Forgets the kept node that has led a key to the node `stale` of a level, from which it has to
    /// go right.
    pub(super) fn forget_way(&self, key: &[u8], level: u8, stale: GlobalAddress) {
        if let Some(kept) = self.cache.seek(key, level + 1)
            && kept.node.level() == level + 1
            && kept.node.route(key).child == stale
        {
            self.cache.invalidate(&kept);
        }
    }

    /// Reads a node, again and again until nobody has written meanwhile.
    async fn read_internal(&self, address: GlobalAddress) -> Result<InternalNode, PoolError> {
        let mut wire = vec![0; self.internals.wire_bytes()];
        loop {
            self.endpoint.read(address, &mut wire).await?;
            if let Ok(node) = InternalNode::decode(self.internals, &wire) {
                return Ok(node);
            }
        }
    }

    /// Writes a node, and gives its lock back or, if nobody knows of the node yet, makes it.
    pub(super) async fn write_internal(
        &self,
        address: GlobalAddress,
        node: &InternalNode,
    ) -> Result<(), PoolError> {
        let wire = node.encode();
        let mut verbs = [
            Verb::Write {
                to: address,
                bytes: &wire,
            },
            Verb::Write {
                to: self.lock_of_internal(address),
                bytes: &[0; 8],
            },
        ];
        Ok(self.endpoint.post(&mut verbs).await?)
    }

    fn lock_of_internal(&self, address: GlobalAddress) -> GlobalAddress {
        address.plus(self.internals.lock_offset() as u64)
    }

    /// Tells the parents of a node of `level - 1` that it was divided: `left` has kept the keys
    /// below `separator`, `right` has the others. Divides parents that are full.
    pub(super) async fn add_child(
        &self,
        mut level: u8,
        mut left: GlobalAddress,
        separator: &[u8],
        mut right: GlobalAddress,
    ) -> Result<(), PoolError> {
        let mut separator: Box<[u8]> = separator.into();
        loop {
            if self.grow(level, left, &separator, right).await? {
                return Ok(());
            }
            let address = self.find(&separator, level).await?;
            match self.add_child_at(address, &separator, right).await? {
                None => return Ok(()),
                Some((divided, at, other)) => {
                    (left, separator, right) = (divided, at, other);
                    level += 1;
                }
            }
        }
    }

    /// Adds a child to the node at `address`, or one to the right of it. If that is full it is
    /// divided, and answered where it is, where it was divided, and what is right of that.
    async fn add_child_at(
        &self,
        mut address: GlobalAddress,
        separator: &[u8],
        child: GlobalAddress,
    ) -> Result<Option<(GlobalAddress, Box<[u8]>, GlobalAddress)>, PoolError> {
        let mut node = loop {
            let lock = self.lock_of_internal(address);
            self.lock(lock).await?;
            let node = self.read_internal(address).await?;
            if node.covers(separator) {
                break node;
            }
            self.unlock(lock, 0)?;
            address = node.sibling();
        };
        if node.insert(separator, child).is_ok() {
            node.count_node_write();
            self.write_internal(address, &node).await?;
            self.cache.keep(CachedNode { address, node });
            return Ok(None);
        }
        let right = self.allocate(self.internals.allocation_bytes()).await?;
        let mut half = node.split(right);
        let target = if separator < &*half.separator {
            &mut node
        } else {
            &mut half.node
        };
        let inserted = target.insert(separator, child);
        debug_assert!(inserted.is_ok(), "half a node has room");
        self.write_internal(right, &half.node).await?;
        self.write_internal(address, &node).await?;
        self.cache.keep(CachedNode { address, node });
        Ok(Some((address, half.separator, right)))
    }
}
