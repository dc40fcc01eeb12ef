//! How a deployment runs what applications ask. Each application is written once, against this.

use super::calls::CallError;
use super::sealer::SealError;
use nearfield_offload::net::udp::ClientError;
use nearfield_offload::structures::{BPlusTree, HeapError};
use nearfield_offload::traversal::{Outcome, Query, Status};

/// The reason why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeploymentError {
    /// The nodes that run programs have not answered.
    #[error(transparent)]
    Programs(#[from] ClientError),
    /// The memory node has not answered a call.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A structure cannot be changed.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// An object cannot be sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// A traversal has stopped before its end.
    #[error("the traversal stopped at {address:#x}: {status:?}")]
    Stopped {
        /// Why.
        status: Status,
        /// Where.
        address: u64,
    },
}

/// Bytes at the place that an answer points to.
pub(super) enum Then<'b> {
    /// They are read.
    Read(&'b mut [u8]),
    /// They are written.
    Write(&'b [u8]),
}

/// What a caller has at hand to reach its data.
pub(super) trait Deployment: Send {
    /// Runs a query to its end.
    fn run(&mut self, query: &Query) -> Result<Outcome, DeploymentError>;

    /// Reads or writes bytes.
    fn access(&mut self, address: u64, then: Then<'_>) -> Result<(), DeploymentError>;

    /// Runs a query, and reads or writes the bytes whose address is in a word of its answer.
    fn run_then(
        &mut self,
        query: &Query,
        word: usize,
        then: Then<'_>,
    ) -> Result<Outcome, DeploymentError> {
        let outcome = self.run(query)?;
        self.access(outcome.word(word), then)?;
        Ok(outcome)
    }

    /// Inserts an entry into a tree, whose lock the caller has.
    fn insert(&mut self, tree: &mut BPlusTree, key: u64, value: u64)
    -> Result<(), DeploymentError>;

    /// The value of a key, if the caller keeps what it has found.
    fn recall(&mut self, _key: u64) -> Option<u64> {
        None
    }

    /// Keeps what was found, if the caller does that.
    fn remember(&mut self, _key: u64, _value: u64) {}

    /// How often it has asked the memory node for something, and waited.
    fn round_trips(&self) -> u64;
}

/// An outcome that is an answer.
pub(super) fn done(outcome: Outcome) -> Result<Outcome, DeploymentError> {
    match outcome.status {
        Status::Done => Ok(outcome),
        status => Err(DeploymentError::Stopped {
            status,
            address: outcome.address,
        }),
    }
}
