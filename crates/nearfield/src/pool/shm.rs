//! Maps on nodes in shared memory.

use super::PoolMap;
use crate::MapForm;
use nearfield_fabric::shm::ShmEndpoint;
use nearfield_pool::store::{OpenError, Store, StoreOptions};

/// Attaches to the nodes, once for all threads.
pub fn open<F: MapForm>(
    names: &[&String],
    options: &StoreOptions,
) -> Result<PoolMap<F>, OpenError> {
    let endpoint = ShmEndpoint::attach(names);
    let endpoint = endpoint.map_err(|error| OpenError::Connect(error.to_string()))?;
    // Single operations lose little by it.
    let endpoint = endpoint.prefetching();
    // To read less of a leaf saves nothing where there is no wire.
    let mut options = *options;
    options.tree.hotspot_bytes = 0;
    let connect = move || Ok(endpoint.clone());
    Ok(PoolMap::new(Store::open(connect, &options)?))
}
