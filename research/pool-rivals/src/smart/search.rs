//! Reads of the value of a key.

use super::Smart;
use super::layout::SmartLeaf;
use super::place::{SmartRouteEnd, SmartRoutePart, SmartSlotPosition};
use nearfield_fabric::{Endpoint, GlobalAddress};
use nearfield_pool::PoolError;

/// A leaf with the wanted key, valid when it was read.
pub struct SmartLeafMatch {
    pub position: SmartSlotPosition,
    pub address: GlobalAddress,
    pub leaf: SmartLeaf,
}

impl<E: Endpoint> Smart<E> {
    pub(super) async fn search(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        let found = self.find(key).await?;
        Ok(found.map(|found| found.leaf.value))
    }

    /// Finds the leaf of a key, or returns `None` if there was none at some time while this ran.
    pub(super) async fn find(&self, key: &[u8]) -> Result<Option<SmartLeafMatch>, PoolError> {
        self.find_from(key, self.cache().walk(key)).await
    }

    /// Finds a leaf like [`find`](Smart::find), from a place on.
    pub(super) async fn find_from(
        &self,
        key: &[u8],
        mut place: SmartRoutePart,
    ) -> Result<Option<SmartLeafMatch>, PoolError> {
        loop {
            let mut position = match self.follow(key, place).await? {
                SmartRouteEnd::Leaf(position, address, leaf) if leaf.valid && *leaf.key == *key => {
                    return Ok(Some(SmartLeafMatch {
                        position,
                        address,
                        leaf,
                    }));
                }
                // The nodes were read while the operation ran, so the key is absent.
                SmartRouteEnd::Node { .. } => return Ok(None),
                SmartRouteEnd::Vacant(position)
                | SmartRouteEnd::Leaf(position, ..)
                | SmartRouteEnd::Beside { position, .. } => position,
            };
            if position.is_fresh {
                return Ok(None);
            }
            // The slot has had another child in the meantime, or a child without this key. A leaf
            // has its key forever, a node its prefix, and removed leaves do not come back.
            if self.refresh(&mut position).await? {
                return Ok(None);
            }
            place = SmartRoutePart::Slot(position);
        }
    }
}
