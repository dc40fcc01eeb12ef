//! Equal content of both nodes after a lock was taken over.

use super::MirroredEndpoint;
use super::state::PairView;
use crate::address::{GlobalAddress, WORD_BYTES};
use crate::endpoint::Endpoint;
use crate::error::FabricError;
use crate::verb::FabricVerb;
use std::time::Duration;

impl<E: Endpoint> MirroredEndpoint<E> {
    /// Copies guarded bytes, without the word of their lock, from the primary to the backup.
    /// Returns false if the deadline has passed, or the lock was lost with the primary.
    pub(super) async fn align(
        &self,
        deadline: Duration,
        lock: GlobalAddress,
        from: GlobalAddress,
        length: u64,
    ) -> Result<bool, FabricError> {
        let pair = self.index(from.node())?;
        loop {
            let fence = self.fence(pair, true, deadline).await?;
            let nodes = self.nodes_of(pair);
            if self.view_of(pair) != PairView::Both || !self.rules.aligns {
                return Ok(!self.is_void(pair, deadline));
            }
            let limit = deadline.min(fence);
            let mut bytes = vec![0; length as usize];
            let mut read = [FabricVerb::Read {
                from: GlobalAddress::new(nodes.primary, from.offset()),
                into: &mut bytes,
            }];
            match self.endpoint().post_by(limit, &mut read).await {
                Ok(true) => {}
                Ok(false) if self.endpoint().now() >= deadline => return Ok(false),
                Ok(false) => continue,
                Err(FabricError::NodeLost { node }) => {
                    self.lose_serving(pair, node).await?;
                    return Ok(false);
                }
                Err(error) => return Err(self.outward(error)),
            }
            let mut writes: Vec<FabricVerb<'_>> = Vec::new();
            for (offset, bytes) in without_lock(from, &bytes, lock) {
                writes.push(FabricVerb::Write {
                    to: GlobalAddress::new(nodes.backup, offset),
                    bytes,
                });
            }
            match self.endpoint().post_by(limit, &mut writes).await {
                Ok(true) => return Ok(true),
                Ok(false) if self.endpoint().now() >= deadline => return Ok(false),
                Ok(false) => {}
                Err(FabricError::NodeLost { .. }) => {
                    self.drop_backup(pair).await?;
                    return Ok(true);
                }
                Err(error) => return Err(self.outward(error)),
            }
        }
    }
}

/// Returns the parts of bytes before and behind the word of a lock, with their offsets.
fn without_lock(from: GlobalAddress, bytes: &[u8], lock: GlobalAddress) -> Vec<(u64, &[u8])> {
    let (start, end) = (from.offset(), from.offset() + bytes.len() as u64);
    let word = lock.offset()..lock.offset() + WORD_BYTES;
    if lock.node() != from.node() || word.end <= start || word.start >= end {
        return vec![(start, bytes)];
    }
    let mut parts = Vec::new();
    if word.start > start {
        parts.push((start, &bytes[..(word.start - start) as usize]));
    }
    if word.end < end {
        parts.push((word.end, &bytes[(word.end - start) as usize..]));
    }
    parts
}
