//! The return of memory nodes to pools with two replicas.

use super::{KnownPoolNodes, PoolPlacement};
use nearfield_fabric::NodeId;
use nearfield_pool::store::StoreOpenError;

/// A memory node that was taken into its pair.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RejoinedPoolNode {
    /// The node's number.
    pub number: NodeId,
    /// The number of bytes that were copied to it.
    pub copied_bytes: u64,
}

impl PoolPlacement {
    /// Takes each memory node that has come back empty into its pair, in a pool with two replicas.
    /// The content of the other node of the pair is copied to it. Maps may be used meanwhile: their
    /// reads go on, and their changes wait for the copy. All nodes must be served.
    ///
    /// # Errors
    /// `Connect` if the nodes are no pairs, cannot be reached, or have content of an attempt that
    /// has failed; `Pool` with the errors of the nodes.
    ///
    /// ```
    /// use nearfield::PoolPlacement;
    ///
    /// assert!(PoolPlacement::shm(["nobody", "no one"]).rejoin().is_err());
    /// ```
    pub fn rejoin(&self) -> Result<Vec<RejoinedPoolNode>, StoreOpenError> {
        take_in(&self.nodes.find()?)
    }
}

#[cfg(target_os = "linux")]
fn take_in(nodes: &KnownPoolNodes) -> Result<Vec<RejoinedPoolNode>, StoreOpenError> {
    super::transport::rejoin(nodes)
}

#[cfg(not(target_os = "linux"))]
fn take_in(_nodes: &KnownPoolNodes) -> Result<Vec<RejoinedPoolNode>, StoreOpenError> {
    let what = "no transport reaches the nodes".to_owned();
    Err(StoreOpenError::Connect(what))
}
