//! Transports to memory nodes.

use super::{PoolMapIndex, ProgramNodes};
use crate::form::MapForm;
use nearfield_fabric::membership::NodeAddress;
use nearfield_fabric::transport::shm::ShmEndpoint;
use nearfield_fabric::transport::ucx::UcxEndpoint;
use nearfield_pool::store::{PoolStore, StoreOpenError, StoreOptions};

/// Returns the addresses without the names of their transports.
fn places(nodes: &[NodeAddress]) -> Vec<String> {
    let place = |node: &NodeAddress| {
        let address = node.to_string();
        match address.split_once(':') {
            Some((_, place)) => place.to_owned(),
            None => address,
        }
    };
    nodes.iter().map(place).collect()
}

/// Attaches to nodes in shared memory, once for all threads.
pub fn open_shm<F: MapForm>(
    nodes: &[NodeAddress],
    options: &StoreOptions,
    programs: Option<ProgramNodes>,
) -> Result<PoolMapIndex<F>, StoreOpenError> {
    let endpoint = ShmEndpoint::attach(places(nodes));
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
    let places = places(nodes);
    let connect = move || UcxEndpoint::connect(&places).map_err(|error| error.to_string());
    Ok(PoolMapIndex::new(
        PoolStore::open(connect, options)?,
        programs,
    ))
}
