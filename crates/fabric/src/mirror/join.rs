//! The copy of a node that is used alone to a new one.

use super::MirroredEndpoint;
use super::state::{PairView, ViewKind, ViewWord, view_word};
use crate::address::{GlobalAddress, NodeId, RESERVED_BYTES, WORD_BYTES};
use crate::endpoint::Endpoint;
use crate::error::FabricError;
use crate::verb::FabricVerb;
use std::time::Duration;

/// Number of bytes that are copied at once.
const BLOCK_BYTES: u64 = 1 << 16;

/// Reason for which a node is not taken into a pair.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PairJoinError {
    /// The node has content, perhaps of an attempt that has failed.
    #[error("{node} is not empty: restart it, so that it loses its memory")]
    NotEmpty {
        /// The node.
        node: NodeId,
    },
    /// Another client takes a node into this pair.
    #[error("another client takes a node into this pair")]
    Busy,
    /// This client was interrupted for so long that others have given the attempt up.
    #[error("the copy was interrupted for too long: restart the new node, and try it again")]
    Interrupted,
    /// A node has failed.
    #[error(transparent)]
    Fabric(#[from] FabricError),
}

/// The progress of a copy.
#[derive(Debug)]
struct PairJoinProgress {
    /// The node whose memory is copied.
    from: NodeId,
    /// The new node.
    to: NodeId,
    /// The view word of the first one.
    word: ViewWord,
    /// The time before the last change of this word.
    beaten: Duration,
}

impl<E: Endpoint> MirroredEndpoint<E> {
    /// Takes a node without content into its pair, of which the other node has the content. Returns
    /// the number of bytes that were copied. Changes of other clients wait meanwhile, for about as
    /// long as the copy of the allocated memory takes, and three leases.
    ///
    /// # Errors
    /// `NotEmpty`, `Busy`, `Interrupted`; `Fabric` with the errors of the nodes, which have their
    /// own numbers, and with `OutOfMemory` if the new node is too small.
    pub async fn take_in(&self, node: NodeId) -> Result<u64, PairJoinError> {
        let found = self.pairs.borrow().iter().position(|state| {
            let nodes = state.pair;
            [nodes.primary, nodes.backup].contains(&node)
        });
        let pair = found.ok_or(FabricError::NoSuchNode { node })?;
        let nodes = self.nodes_of(pair);
        let from = match node == nodes.primary {
            true => nodes.backup,
            false => nodes.primary,
        };
        let memory = GlobalAddress::new(node, RESERVED_BYTES);
        let is_new = self.view_word_of(node).await? == ViewWord::NEW
            && self.endpoint().find_memory(memory, true).await?.is_none();
        if !is_new {
            return Err(PairJoinError::NotEmpty { node });
        }
        let mut progress = self.begin_join(pair, from, node).await?;
        let copied = self.fill(&mut progress).await;
        if copied.is_err() {
            let (word, at) = (progress.word, view_word(from));
            let alone = word.with(ViewKind::Alone);
            // The copy has failed, and its error counts. Others do the same after a lease.
            let _ = self.endpoint().compare_swap(at, word.0, alone.0).await;
        }
        copied
    }

    /// Makes clients wait with their changes.
    async fn begin_join(
        &self,
        pair: usize,
        from: NodeId,
        to: NodeId,
    ) -> Result<PairJoinProgress, PairJoinError> {
        let endpoint = self.endpoint();
        let mut known: Option<(ViewWord, Duration)> = None;
        loop {
            let beaten = endpoint.now();
            let found = self.view_word_of(from).await?;
            let desired = match (found.kind(), known) {
                (ViewKind::Alone, _) => found.next(ViewKind::Joining),
                (ViewKind::Joining, Some((word, since))) if word == found => {
                    if beaten < since + self.lease {
                        endpoint.sleep(self.lease / 4).await;
                        continue;
                    }
                    // The client that has written the word is dead.
                    found.with(ViewKind::Alone)
                }
                (ViewKind::Joining, Some(_)) => return Err(PairJoinError::Busy),
                (ViewKind::Joining, None) => {
                    known = Some((found, endpoint.now()));
                    continue;
                }
                // No client has noticed the loss of the other node.
                _ if self.view_of(pair) == PairView::Both => {
                    let version = self.version_of(pair);
                    self.survive(pair, from, version).await?;
                    continue;
                }
                _ => {
                    self.confirm(pair).await?;
                    continue;
                }
            };
            let at = view_word(from);
            let swapped = endpoint.compare_swap(at, found.0, desired.0).await?;
            if swapped == found.0 && desired.kind() == ViewKind::Joining {
                return Ok(PairJoinProgress {
                    from,
                    to,
                    word: desired,
                    beaten,
                });
            }
        }
    }

    /// Copies the memory, and makes the new node the backup.
    async fn fill(&self, progress: &mut PairJoinProgress) -> Result<u64, PairJoinError> {
        let endpoint = self.endpoint();
        let (from, to) = (progress.from, progress.to);
        let filling = progress.word.with(ViewKind::Filling);
        let found = endpoint.compare_swap(view_word(to), ViewWord::NEW.0, filling.0);
        if found.await? != ViewWord::NEW.0 {
            return Err(PairJoinError::NotEmpty { node: to });
        }
        if self.rules.settles {
            // Changes of clients that have read the former word begin within half of this time.
            let until = endpoint.now() + self.lease;
            while endpoint.now() < until {
                endpoint.sleep(self.lease / 8).await;
                self.beat(progress).await?;
            }
            endpoint.settle().await?;
        }
        // The view word is the last one of the reserved bytes.
        let mut copied = RESERVED_BYTES - WORD_BYTES;
        self.copy(progress, 0, copied).await?;
        let mut at = RESERVED_BYTES;
        loop {
            self.beat(progress).await?;
            let start = endpoint.find_memory(GlobalAddress::new(from, at), true);
            let Some(start) = start.await? else { break };
            let end = endpoint.find_memory(start, false).await?;
            let (start, end) = (start.offset(), end.map_or(0, GlobalAddress::offset));
            if end <= start || start < at {
                // Another program may serve the node, and return anything.
                let (address, bytes) = (GlobalAddress::new(from, at), 0);
                return Err(FabricError::NotAllocated { address, bytes }.into());
            }
            let place = GlobalAddress::new(to, start);
            endpoint.allocate_at(place, end - start).await?;
            self.copy(progress, start, end).await?;
            copied += end - start;
            at = end;
        }
        let serving = progress.word.next(ViewKind::Serving);
        let at = view_word(from);
        let found = endpoint.compare_swap(at, progress.word.0, serving.0);
        if found.await? != progress.word.0 {
            return Err(PairJoinError::Interrupted);
        }
        // A client may have done it already.
        let backup = serving.with(ViewKind::Both);
        let swapped = endpoint.compare_swap(view_word(to), filling.0, backup.0);
        swapped.await?;
        Ok(copied)
    }

    /// Copies the bytes between two offsets.
    async fn copy(
        &self,
        progress: &mut PairJoinProgress,
        start: u64,
        end: u64,
    ) -> Result<(), PairJoinError> {
        let endpoint = self.endpoint();
        let mut bytes = vec![0; BLOCK_BYTES.min(end - start) as usize];
        let mut at = start;
        while at < end {
            self.beat(progress).await?;
            // A later write could follow the copy of another client.
            let limit = progress.beaten + self.lease / 2;
            let block = &mut bytes[..BLOCK_BYTES.min(end - at) as usize];
            let length = block.len() as u64;
            let mut read = [FabricVerb::Read {
                from: GlobalAddress::new(progress.from, at),
                into: &mut *block,
            }];
            let is_read = endpoint.post_by(limit, &mut read).await?;
            let mut write = [FabricVerb::Write {
                to: GlobalAddress::new(progress.to, at),
                bytes: block,
            }];
            if is_read && endpoint.post_by(limit, &mut write).await? {
                at += length;
            }
        }
        Ok(())
    }

    /// Shows other clients that this one lives, each eighth of a lease.
    async fn beat(&self, progress: &mut PairJoinProgress) -> Result<(), PairJoinError> {
        let endpoint = self.endpoint();
        let began = endpoint.now();
        if began < progress.beaten + self.lease / 8 {
            return Ok(());
        }
        let next = progress.word.next(ViewKind::Joining);
        let at = view_word(progress.from);
        let found = endpoint.compare_swap(at, progress.word.0, next.0).await?;
        if found != progress.word.0 {
            return Err(PairJoinError::Interrupted);
        }
        progress.word = next;
        progress.beaten = began;
        Ok(())
    }
}
