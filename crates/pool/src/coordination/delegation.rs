//! Operations on a key that are done once for all who want them.

use super::{Leader, ReadDelegation, Write, WriteCombining};
use crate::error::PoolError;

/// What the clients of a compute node do for each other: all that an index needs of
/// [`ReadDelegation`] and [`WriteCombining`], each of which may be left out.
#[derive(Debug)]
pub struct Delegation {
    reads: Option<ReadDelegation>,
    writes: Option<WriteCombining>,
}

impl Delegation {
    /// Delegates reads and combines writes, or has each client do its own.
    pub fn new(delegates_reads: bool, combines_writes: bool) -> Delegation {
        Delegation {
            reads: delegates_reads.then(ReadDelegation::default),
            writes: combines_writes.then(WriteCombining::default),
        }
    }

    /// What `key` holds, as [`ReadDelegation::share`].
    ///
    /// # Errors
    /// What `read` answers.
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

    /// Writes to `key` and answers the value before, as [`WriteCombining::combine`].
    ///
    /// # Errors
    /// What `lead` answers; `Interrupted`.
    pub async fn write(
        &self,
        key: &[u8],
        write: Write,
        lead: impl AsyncFnOnce(&mut Leader<'_>) -> Result<Option<Vec<u8>>, PoolError>,
    ) -> Result<Option<Vec<u8>>, PoolError> {
        match &self.writes {
            Some(writes) => writes.combine(key, write, lead).await,
            None => lead(&mut Leader::alone(write)).await,
        }
    }

    /// The number of keys that are being read, and of those that are being written, by clients who
    /// share that.
    pub fn len(&self) -> usize {
        let reads = self.reads.as_ref().map_or(0, ReadDelegation::len);
        reads + self.writes.as_ref().map_or(0, WriteCombining::len)
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
