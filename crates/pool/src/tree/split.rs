//! Dividing leaves and internal nodes that are full, and telling their parents.

use super::kept::CachedNode;
use super::root::Root;
use super::route::{Found, Way};
use super::{BACK_OFF, Tree};
use crate::cache::Cached;
use crate::error::PoolError;
use crate::hopscotch;
use crate::layout::{InternalNode, Leaf, LockWord};
use nearfield_fabric::{Endpoint, GlobalAddress, Verb};

/// A node that was divided: `left` has kept the keys below `separator`, `right` has the others.
struct Division {
    left: GlobalAddress,
    separator: Box<[u8]>,
    right: GlobalAddress,
}

impl<E: Endpoint> Tree<E> {
    /// Divides a full leaf, whose lock is held, and puts a key into the half where it belongs.
    pub(super) async fn divide(
        &self,
        way: &Way,
        mut leaf: Leaf,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), PoolError> {
        let right = self.allocate(self.leaves.allocation_bytes()).await?;
        let separator = hopscotch::split_key(&leaf, key);
        let mut other = hopscotch::split(&mut leaf, &separator, right);
        let half = if key < &*separator {
            &mut leaf
        } else {
            &mut other
        };
        let inserted = hopscotch::insert(half, self.leaves.all_slots(key), key, value);
        debug_assert!(inserted.is_ok(), "the separator makes room");
        let whole = self.leaves.whole();
        // Whoever sees the left half finds the right one.
        let word = self.lock_words.of_leaf(&other);
        self.write_leaf(right, &other, &whole, word).await?;
        self.write_left(way.leaf, &leaf)?;
        let division = Division {
            left: way.leaf,
            separator,
            right,
        };
        self.add_child(2, division).await
    }

    /// Writes the left half of a leaf and gives its lock back, without waiting: what follows does not
    /// need it.
    fn write_left(&self, address: GlobalAddress, leaf: &Leaf) -> Result<(), PoolError> {
        let whole = self.leaves.whole();
        for (segment, bytes) in whole.iter().zip(leaf.encode(&whole)) {
            let to = address.plus(segment.wire().start as u64);
            self.endpoint.write_unsignalled(to, &bytes)?;
        }
        self.unlock_leaf(address, self.lock_words.of_leaf(leaf))
    }

    /// Tells the parents of a node of `level - 1` that it was divided, and divides those that are
    /// full.
    async fn add_child(&self, mut level: u8, mut division: Division) -> Result<(), PoolError> {
        loop {
            let Some(parent) = self.find_parent(level, &division).await? else {
                return Ok(());
            };
            match self.add_child_at(parent, &division).await? {
                None => return Ok(()),
                Some(of_parent) => {
                    division = of_parent;
                    level += 1;
                }
            }
        }
    }

    /// The node of a level that covers a separator, or one left of it. `None` if there was none, and
    /// it is made now.
    async fn find_parent(
        &self,
        level: u8,
        division: &Division,
    ) -> Result<Option<GlobalAddress>, PoolError> {
        loop {
            if let Some(kept) = self.node.cache.seek(&division.separator, level)
                && kept.level() == level
            {
                return Ok(Some(kept.address()));
            }
            let root = match self.find_node(&division.separator, level).await? {
                Found::Node(parent) => return Ok(Some(parent.address())),
                Found::Below(root) => root,
            };
            let divided = Root {
                level: level - 1,
                address: division.left,
            };
            if root == divided && self.grow(root, &division.separator, division.right).await? {
                return Ok(None);
            }
            // Who has divided the root will put another above it.
            self.endpoint.sleep(BACK_OFF).await;
        }
    }

    /// Adds a child to the node at `address`, or one to the right of it. If that is full it is
    /// divided.
    async fn add_child_at(
        &self,
        mut address: GlobalAddress,
        division: &Division,
    ) -> Result<Option<Division>, PoolError> {
        let Division {
            separator, right, ..
        } = division;
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
        if node.insert(separator, *right).is_ok() {
            node.count_node_write();
            self.write_internal(address, &node).await?;
            self.node.cache.keep(CachedNode::new(address, &node));
            return Ok(None);
        }
        let other = self.allocate(self.internals.allocation_bytes()).await?;
        let mut half = node.split(other);
        let target = if **separator < *half.separator {
            &mut node
        } else {
            &mut half.node
        };
        let inserted = target.insert(separator, *right);
        debug_assert!(inserted.is_ok(), "half a node has room");
        self.write_internal(other, &half.node).await?;
        self.write_internal(address, &node).await?;
        self.node.cache.keep(CachedNode::new(address, &node));
        self.node.cache.keep(CachedNode::new(other, &half.node));
        Ok(Some(Division {
            left: address,
            separator: half.separator,
            right: other,
        }))
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
                bytes: &LockWord::default().to_bits().to_le_bytes(),
            },
        ];
        Ok(self.endpoint.post(&mut verbs).await?)
    }

    fn lock_of_internal(&self, address: GlobalAddress) -> GlobalAddress {
        address.plus(self.internals.lock_offset() as u64)
    }
}
