//! The interface of deployments, which run the requests of applications. Each application is
//! written once, against this.

use super::calls::NodeCallError;
use super::sealer::SealError;
use nearfield_offload::net::udp::ClientError;
use nearfield_offload::structures::{BPlusTree, HeapError};
use nearfield_offload::traversal::{TraversalOutcome, TraversalQuery, TraversalStatus};

/// Reason why a request has no reply.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeploymentError {
    /// An error of the nodes that run programs.
    #[error(transparent)]
    Programs(#[from] ClientError),
    /// An error of a call to a memory node.
    #[error(transparent)]
    Call(#[from] NodeCallError),
    /// A structure that cannot be changed.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// An object that cannot be sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// A traversal that has stopped before its end.
    #[error("the traversal stopped at {address:#x}: {status:?}")]
    Stopped {
        /// The reason.
        status: TraversalStatus,
        /// The address at which it stopped.
        address: u64,
    },
}

/// An access to the bytes at the address that a result contains.
pub(super) enum ObjectAccess<'b> {
    /// A read of the bytes.
    Read(&'b mut [u8]),
    /// A write of the bytes.
    Write(&'b [u8]),
}

/// A caller's access to its data.
pub(super) trait Deployment: Send {
    /// Runs a query to its end.
    fn run(&mut self, query: &TraversalQuery) -> Result<TraversalOutcome, DeploymentError>;

    /// Reads or writes bytes.
    fn access(&mut self, address: u64, then: ObjectAccess<'_>) -> Result<(), DeploymentError>;

    /// Runs a query, and reads or writes the bytes at the address in a word of its result.
    fn run_then(
        &mut self,
        query: &TraversalQuery,
        word: usize,
        then: ObjectAccess<'_>,
    ) -> Result<TraversalOutcome, DeploymentError> {
        let outcome = self.run(query)?;
        self.access(outcome.word(word), then)?;
        Ok(outcome)
    }

    /// Inserts an entry into a tree. The caller holds the tree's lock.
    fn insert(&mut self, tree: &mut BPlusTree, key: u64, value: u64)
    -> Result<(), DeploymentError>;

    /// Returns the cached value of a key, if the caller has a cache.
    fn recall(&mut self, _key: u64) -> Option<u64> {
        None
    }

    /// Caches a value, if the caller has a cache.
    fn remember(&mut self, _key: u64, _value: u64) {}

    /// Returns the number of requests to memory nodes that it has waited for.
    fn round_trips(&self) -> u64;
}

/// Turns an outcome that is not complete into an error.
pub(super) fn done(outcome: TraversalOutcome) -> Result<TraversalOutcome, DeploymentError> {
    match outcome.status {
        TraversalStatus::Done => Ok(outcome),
        status => Err(DeploymentError::Stopped {
            status,
            address: outcome.address,
        }),
    }
}
