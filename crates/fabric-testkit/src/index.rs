//! The trait of an index for these runs.

use nearfield_fabric::transport::sim::SimEndpoint;
use nearfield_fabric::{FabricError, NodeId};
use std::future::Future;

/// One client's view of an index in remote memory, from numbers to numbers other than 0.
///
/// An operation that returns `NodeLost` may have been executed or not, and may be executed later,
/// once. All other errors fail the run.
pub trait RemoteIndex {
    /// Returns the value of a key.
    fn get(&self, key: u64) -> impl Future<Output = Result<Option<u64>, FabricError>>;

    /// Sets the value of a key and returns the old one.
    fn insert(
        &self,
        key: u64,
        value: u64,
    ) -> impl Future<Output = Result<Option<u64>, FabricError>>;

    /// Sets the value of a key if it is there, and returns the old one.
    fn update(
        &self,
        key: u64,
        value: u64,
    ) -> impl Future<Output = Result<Option<u64>, FabricError>>;

    /// Sets the value of a key if it is there. Returns true if it was.
    fn overwrite(&self, key: u64, value: u64) -> impl Future<Output = Result<bool, FabricError>> {
        async move { Ok(self.update(key, value).await?.is_some()) }
    }

    /// Sets the value of a key, present or not.
    fn put(&self, key: u64, value: u64) -> impl Future<Output = Result<(), FabricError>> {
        async move { self.insert(key, value).await.map(drop) }
    }

    /// Removes a key and returns its value.
    fn remove(&self, key: u64) -> impl Future<Output = Result<Option<u64>, FabricError>>;
}

/// The creation and opening of an index.
pub trait RemoteIndexFactory {
    /// One client's view.
    type Index: RemoteIndex;

    /// Creates an empty index in the memory of the nodes, before any client opens it.
    fn create(
        &self,
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
    ) -> impl Future<Output = Result<(), FabricError>> + 'static;

    /// Opens the index that was created.
    fn open(
        &self,
        endpoint: SimEndpoint,
    ) -> impl Future<Output = Result<Self::Index, FabricError>> + 'static;
}
