//! The limit of waits for other clients.

use nearfield_fabric::{Endpoint, GlobalAddress};
use nearfield_pool::PoolError;
use std::time::Duration;

/// Time after which an operation that makes no progress takes the memory for damaged. The papers'
/// locks have no leases, so the lock of a dead client looks like that, too.
const WAIT: Duration = Duration::from_secs(16);

/// The limit of a wait for other clients, from its first check on.
#[derive(Debug, Default)]
pub(crate) struct WaitLimit {
    until: Option<Duration>,
}

impl WaitLimit {
    /// Begins or continues to wait until other clients have changed what is at `at`.
    ///
    /// # Errors
    /// `Damaged` if the wait takes too long.
    pub fn check(&mut self, endpoint: &impl Endpoint, at: GlobalAddress) -> Result<(), PoolError> {
        let now = endpoint.now();
        // Most operations wait for no client, and so read no clock.
        if now > *self.until.get_or_insert(now + WAIT) {
            return Err(PoolError::Damaged { at });
        }
        Ok(())
    }
}
