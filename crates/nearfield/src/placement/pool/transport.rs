//! Transports to memory nodes.

use super::{PoolMapIndex, ProgramNodes};
use crate::form::MapForm;
use nearfield_fabric::membership::NodeAddress;
use nearfield_fabric::transport::shm::ShmEndpoint;
use nearfield_fabric::transport::ucx::UcxEndpoint;
use nearfield_pool::store::{PoolStore, StoreOpenError, StoreOptions};

/// Returns the addresses without the names of their transports.
fn bare_addresses(nodes: &[NodeAddress]) -> Vec<String> {
    let bare = |node: &NodeAddress| {
        let address = node.to_string();
        match address.split_once(':') {
            Some((_, bare)) => bare.to_owned(),
            None => address,
        }
    };
    nodes.iter().map(bare).collect()
}

/// Attaches to nodes in shared memory, once for all threads.
pub fn open_shm<F: MapForm>(
    nodes: &[NodeAddress],
    options: &StoreOptions,
    programs: Option<ProgramNodes>,
) -> Result<PoolMapIndex<F>, StoreOpenError> {
    let endpoint = ShmEndpoint::attach(bare_addresses(nodes));
    let endpoint = endpoint.map_err(|error| StoreOpenError::Connect(error.to_string()))?;
    // Single operations lose little by prefetching.
    let endpoint = endpoint.prefetching();
    let connect = move || Ok(endpoint.clone());
    Ok(PoolMapIndex::new(
        PoolStore::open(connect, options)?,
        programs,
    ))
}

/// Connects to nodes by UCX, with a connection of its own for each thread.
pub fn open_ucx<F: MapForm>(
    nodes: &[NodeAddress],
    options: &StoreOptions,
    programs: Option<ProgramNodes>,
) -> Result<PoolMapIndex<F>, StoreOpenError> {
    let addresses = bare_addresses(nodes);
    let connect = move || UcxEndpoint::connect(&addresses).map_err(|error| error.to_string());
    Ok(PoolMapIndex::new(
        PoolStore::open(connect, options)?,
        programs,
    ))
}
