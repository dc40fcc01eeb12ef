//! What readers do who find a node half written, and nobody at work on it.

use super::Tree;
use crate::error::PoolError;
use nearfield_fabric::{Endpoint, GlobalAddress};

impl<E: Endpoint> Tree<E> {
    /// Takes the lock of a leaf, by which what the dead have begun is done, and gives it back.
    pub(super) async fn repair_leaf(&self, address: GlobalAddress) -> Result<(), PoolError> {
        let lock = Box::pin(self.lock(self.leaf_at(address), &mut [])).await?;
        let word = match lock.before {
            Some(word) => word,
            None => {
                let whole = self.leaves.whole();
                let read = Box::pin(self.read_leaf(address, &whole)).await?;
                self.lock_words.of_leaf(&read.leaf).to_bits()
            }
        };
        self.unlock(lock, word)
    }

    /// As [`repair_leaf`](Tree::repair_leaf), of an internal node.
    pub(super) async fn repair_internal(&self, address: GlobalAddress) -> Result<(), PoolError> {
        let lock = Box::pin(self.lock(self.internal_at(address), &mut [])).await?;
        self.unlock(lock, 0)
    }
}
