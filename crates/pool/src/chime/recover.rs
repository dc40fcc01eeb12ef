//! Recovery of an operation that finds a node half written, or makes no progress, because a client
//! has died.

use super::LEASELESS_PATIENCE;
use super::node_io::NodeAt;
use super::session::ChimeSession;
use crate::error::PoolError;
use nearfield_fabric::{Endpoint, GlobalAddress};
use std::cell::Cell;
use std::time::Duration;

/// The time for which an operation assumes that clients that block it are alive.
pub(super) struct Patience {
    until: Duration,
}

impl Patience {
    pub fn has_ended(&self, endpoint: &impl Endpoint) -> bool {
        endpoint.now() > self.until
    }
}

/// Maximum number of nodes on a route to a leaf, including those to the right of their parents'
/// children. Siblings that form a circle are damaged.
pub(super) const WAY_NODES_MAX: usize = 512;

/// Maximum number of repairs of an operation, each after a lease in which it made no progress.
/// Memory that is still no index then will never be one: one repair completes what a dead client
/// has left.
pub(super) const REPAIRS_MAX: u32 = 16;

/// Maximum number of abandoned locks of which each is met in the recovery of the one before:
/// those of a node and of its ancestors, of which no tree has as many.
const RECOVERIES_MAX: u32 = 32;

/// A recovery of an abandoned lock.
pub(super) struct RecoveryDepth<'s>(&'s Cell<u32>);

impl Drop for RecoveryDepth<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl<E: Endpoint> ChimeSession<'_, E> {
    /// Begins another wait of an operation that found no route past `at`.
    ///
    /// # Errors
    /// `Damaged` if it has waited too often.
    pub(super) fn wait_again(
        &self,
        patience: &mut Patience,
        at: GlobalAddress,
    ) -> Result<(), PoolError> {
        // Counted for the whole operation: each of its loops has a patience of its own.
        let repairs = self.repairs.get() + 1;
        self.repairs.set(repairs);
        if repairs > REPAIRS_MAX {
            return Err(PoolError::Damaged { at });
        }
        *patience = self.patience();
        Ok(())
    }

    /// Begins the recovery of an abandoned lock of the node at `at`, which may be met in that of
    /// another.
    ///
    /// # Errors
    /// `Damaged` if too many have begun and not ended.
    pub(super) fn begin_recovery(&self, at: GlobalAddress) -> Result<RecoveryDepth<'_>, PoolError> {
        let depth = self.recoveries.get();
        if depth >= RECOVERIES_MAX {
            return Err(PoolError::Damaged { at });
        }
        self.recoveries.set(depth + 1);
        Ok(RecoveryDepth(&self.recoveries))
    }

    /// Takes the lock of a leaf and releases it. Taking it finishes the change of a dead client.
    pub(super) async fn repair_leaf(&self, address: GlobalAddress) -> Result<(), PoolError> {
        let lock = Box::pin(self.lock(self.leaf_at(address), &mut [])).await?;
        let word = match lock.before {
            Some(word) => word,
            None => {
                let whole = self.tree.leaves.whole();
                // The former word is lost with the dead holder, so it is made from the content.
                let read = Box::pin(self.read_leaf(address, &whole)).await?;
                self.tree.lock_words.of_leaf(&read, &lock).to_bits()
            }
        };
        self.unlock(lock, word)
    }

    /// Repairs an internal node like [`repair_leaf`](ChimeSession::repair_leaf).
    pub(super) async fn repair_internal(&self, address: GlobalAddress) -> Result<(), PoolError> {
        let lock = Box::pin(self.lock(self.internal_at(address), &mut [])).await?;
        // Internal nodes have no summary in their lock words.
        self.unlock(lock, 0)
    }

    /// Repairs any node like [`repair_leaf`](ChimeSession::repair_leaf).
    pub(super) async fn repair(&self, node: NodeAt) -> Result<(), PoolError> {
        if node.is_leaf {
            self.repair_leaf(node.address).await
        } else {
            self.repair_internal(node.address).await
        }
    }

    pub(super) fn patience(&self) -> Patience {
        let lease = match self.tree.owner {
            Some(_) => self.tree.lease,
            None => LEASELESS_PATIENCE,
        };
        Patience {
            until: self.tree.endpoint.now() + lease,
        }
    }

    /// Repairs all nodes on the route to a key, if the operation has restarted for a lease. An
    /// operation that restarts calls this: if a client died in a merge, a parent may lead to an
    /// invalid node, and the operation would restart forever.
    pub(super) async fn look_after(
        &self,
        patience: &mut Patience,
        key: &[u8],
    ) -> Result<(), PoolError> {
        if !patience.has_ended(&self.tree.endpoint) {
            return Ok(());
        }
        self.renew().await?;
        let root = self.read_root().await?;
        let (mut address, mut level) = (root.address, root.level);
        self.wait_again(patience, address)?;
        for _ in 0..WAY_NODES_MAX {
            if level <= 1 {
                break;
            }
            // Repaired before it is read: a node half written would be read in vain until a client
            // takes its lock.
            self.repair_internal(address).await?;
            let node = Box::pin(self.read_internal(address)).await?;
            if node.level() != level || !node.is_valid() {
                // The tree changes meanwhile, so a client is alive: the operation may try again.
                break;
            }
            if node.covers(key) {
                address = node.route(key).child;
                level -= 1;
            } else if node.low_fence() <= key {
                address = node.sibling();
            } else {
                break;
            }
        }
        Ok(())
    }
}
