//! The nodes of a store, which get more when nodes are added.

use nearfield_fabric::NodeId;
use std::sync::{Arc, PoisonError, RwLock};

/// The nodes of a store, in the order of their numbers.
#[derive(Debug)]
pub(super) struct StoreNodeList(RwLock<Arc<[NodeId]>>);

impl StoreNodeList {
    pub fn new(nodes: &[NodeId]) -> StoreNodeList {
        StoreNodeList(RwLock::new(nodes.into()))
    }

    pub fn get(&self) -> Arc<[NodeId]> {
        let nodes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&nodes)
    }

    /// Replaces the nodes, unless that would leave out some: a client may have read fewer before.
    pub fn extend(&self, nodes: &[NodeId]) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if nodes.len() > known.len() {
            *known = nodes.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_never_gets_shorter() {
        let [one, other] = [NodeId(0), NodeId(7)];
        let list = StoreNodeList::new(&[one]);
        list.extend(&[one, other]);
        list.extend(&[one]);
        assert_eq!(*list.get(), [one, other]);
    }
}
