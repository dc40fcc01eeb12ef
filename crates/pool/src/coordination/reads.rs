//! Reading a key once for all who want to read it.

use super::turns::{Called, Turns};
use crate::error::PoolError;
use std::sync::Arc;

/// What a key holds.
type Held = Option<Vec<u8>>;

/// One client of a compute node reads a key, and those who came before his read began take its
/// result (read delegation, SMART section 4.3, CHIME section 4.1.2). There is one such read of a
/// key at a time.
///
/// Who comes while one is under way waits for it, and then for the next: two round trips at most
/// instead of one, and one read in place of as many as there are readers. So it pays where the
/// memory node's port is what is scarce.
#[derive(Debug)]
pub struct Reads {
    turns: Turns<Arc<[u8]>, (), (), Held>,
}

impl Default for Reads {
    fn default() -> Reads {
        Reads {
            turns: Turns::new(),
        }
    }
}

impl Reads {
    /// What `key` holds, as `read` answers or as that of another client does. Whatever it answers
    /// must depend on nothing that was read before `read` is called.
    ///
    /// # Errors
    /// What `read` answers. Then somebody else reads for those who wait.
    pub async fn share(
        &self,
        key: &[u8],
        read: impl AsyncFnOnce() -> Result<Held, PoolError>,
    ) -> Result<Held, PoolError> {
        let mut turn = match self.turns.enter(key.into(), ()).await {
            Called::Answered(held) => return Ok(held),
            Called::Turn(turn) => turn,
        };
        // The read begins after them.
        turn.close(|()| true);
        let held = read().await?;
        turn.answer(std::iter::repeat_with(|| held.clone()));
        Ok(held)
    }

    /// The number of keys that are being read.
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// True if none is being read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
