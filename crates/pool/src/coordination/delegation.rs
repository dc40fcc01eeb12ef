//! Operations on a key that one client does for all clients that want them.

use super::{CombinedWrite, Leader, ReadDelegation, WriteCombining};
use crate::error::PoolError;

/// Coordination of the clients of a compute node: the parts of [`ReadDelegation`] and
/// [`WriteCombining`] that an index needs. Each can be switched off.
#[derive(Debug)]
pub struct ClientCoordination {
    reads: Option<ReadDelegation>,
    writes: Option<WriteCombining>,
}

impl ClientCoordination {
    /// Delegates reads and combines writes, or makes each client do its own.
    pub fn new(delegates_reads: bool, combines_writes: bool) -> ClientCoordination {
        ClientCoordination {
            reads: delegates_reads.then(ReadDelegation::default),
            writes: combines_writes.then(WriteCombining::default),
        }
    }

    /// Reads `key`, like [`ReadDelegation::share`].
    ///
    /// # Errors
    /// Those of `read`.
    pub async fn read(
        &self,
        key: &[u8],
        read: impl AsyncFnOnce() -> Result<Option<Vec<u8>>, PoolError>,
    ) -> Result<Option<Vec<u8>>, PoolError> {
        match &self.reads {
            Some(reads) => reads.share(key, read).await,
            None => read().await,
        }
    }

    /// Writes to `key` and returns the old value, like [`WriteCombining::combine`].
    ///
    /// # Errors
    /// Those of `lead`; `Interrupted`.
    pub async fn write(
        &self,
        key: &[u8],
        write: CombinedWrite,
        lead: impl AsyncFnOnce(&mut Leader<'_>) -> Result<Option<Vec<u8>>, PoolError>,
    ) -> Result<Option<Vec<u8>>, PoolError> {
        match &self.writes {
            Some(writes) => writes.combine(key, write, lead).await,
            None => lead(&mut Leader::alone(write)).await,
        }
    }

    /// Returns the number of keys in shared reads plus that of keys in shared writes.
    pub fn len(&self) -> usize {
        let reads = self.reads.as_ref().map_or(0, ReadDelegation::len);
        reads + self.writes.as_ref().map_or(0, WriteCombining::len)
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
