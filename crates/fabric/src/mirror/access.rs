//! The endpoint of pairs.

use super::MirroredEndpoint;
use super::state::PairView;
use crate::address::{GlobalAddress, NodeId};
use crate::endpoint::{ClientProcessorWork, Endpoint};
use crate::error::FabricError;
use crate::verb::FabricVerb;
use std::time::Duration;

/// Number of pieces that an allocation leaves out because the nodes of a pair disagree about them.
const UNEQUAL_PIECES: usize = 8;

impl<E: Endpoint> Endpoint for MirroredEndpoint<E> {
    fn nodes(&self) -> Vec<NodeId> {
        let pairs = self.pairs.borrow();
        let mut nodes: Vec<NodeId> = pairs.iter().map(|state| state.pair.number).collect();
        nodes.sort_unstable();
        nodes
    }

    fn is_reachable(&self, node: NodeId) -> bool {
        let Ok(pair) = self.index(node) else {
            return false;
        };
        let nodes = self.nodes_of(pair);
        match self.view_of(pair) {
            PairView::Both => [nodes.primary, nodes.backup]
                .iter()
                .any(|&node| self.endpoint().is_reachable(node)),
            PairView::Primary => self.endpoint().is_reachable(nodes.primary),
            PairView::Backup => self.endpoint().is_reachable(nodes.backup),
            PairView::Lost => false,
        }
    }

    fn atomic_bytes(&self) -> u64 {
        self.endpoint().atomic_bytes()
    }

    async fn post(&self, verbs: &mut [FabricVerb<'_>]) -> Result<(), FabricError> {
        // A post without a deadline is never late.
        self.execute(Duration::MAX, verbs).await.map(drop)
    }

    async fn post_by(
        &self,
        deadline: Duration,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<bool, FabricError> {
        self.execute(deadline, verbs).await
    }

    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError> {
        self.write_later(Duration::MAX, to, bytes).map(drop)
    }

    fn write_unsignalled_by(
        &self,
        deadline: Duration,
        to: GlobalAddress,
        bytes: &[u8],
    ) -> Result<bool, FabricError> {
        self.write_later(deadline, to, bytes)
    }

    async fn flush(&self) -> Result<(), FabricError> {
        self.write_deferred().await
    }

    async fn settle(&self) -> Result<(), FabricError> {
        let settled = self.endpoint().settle().await;
        settled.map_err(|error| self.outward(error))
    }

    async fn align_replicas(
        &self,
        deadline: Duration,
        lock: GlobalAddress,
        ranges: &[(GlobalAddress, u64)],
    ) -> Result<bool, FabricError> {
        self.write_deferred().await?;
        // From here on the backup names this acquisition. The summary in the word of a free lock
        // there may be of a change that is taken back.
        let pair = self.index(lock.node())?;
        if self.rules.aligns && !self.send_lock_words(pair, deadline).await? {
            return Ok(false);
        }
        for &(from, bytes) in ranges {
            if !self.align(deadline, lock, from, bytes).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn read_backup(&self, from: GlobalAddress, into: &mut [u8]) -> Result<bool, FabricError> {
        if !self.rules.searches {
            return Ok(false);
        }
        self.write_deferred().await?;
        let pair = self.index(from.node())?;
        self.fence(pair, false, Duration::MAX).await?;
        if self.view_of(pair) != PairView::Both {
            return Ok(false);
        }
        let at = GlobalAddress::new(self.nodes_of(pair).backup, from.offset());
        match self.endpoint().read(at, into).await {
            Ok(()) => Ok(true),
            Err(FabricError::NodeLost { .. }) => {
                self.drop_backup(pair).await?;
                Ok(false)
            }
            Err(error) => Err(self.outward(error)),
        }
    }

    async fn allocate(&self, node: NodeId, bytes: u64) -> Result<GlobalAddress, FabricError> {
        let pair = self.index(node)?;
        // Pieces that the primary has freed, and the backup has not, or that another program has
        // allocated there.
        let mut unequal = Vec::new();
        loop {
            self.fence(pair, true, Duration::MAX).await?;
            let (view, serving, version, nodes) = self.with(pair, |state| {
                (state.view, state.serving(), state.version, state.pair)
            });
            let at = match self.endpoint().allocate(serving, bytes).await {
                Ok(at) => at,
                Err(FabricError::NodeLost { node }) => {
                    self.lose_serving(pair, node).await?;
                    continue;
                }
                Err(error) => return Err(self.outward(error)),
            };
            let address = GlobalAddress::new(node, at.offset());
            if view != PairView::Both {
                // The call has no deadline, so the copy of the node's memory may have begun before
                // the node has executed it.
                self.confirm(pair).await?;
                self.fence(pair, true, Duration::MAX).await?;
                let (now_at, is_whole, backup) = self.with(pair, |state| {
                    let is_whole = state.view == PairView::Both;
                    (state.version, is_whole, state.pair.backup)
                });
                if now_at == version {
                    return Ok(address);
                }
                if now_at > version + 1 || !is_whole {
                    return Err(self.lost(pair));
                }
                let copy = GlobalAddress::new(backup, at.offset());
                match self.endpoint().allocate_at(copy, bytes).await {
                    // It was copied as an allocated piece.
                    Ok(()) | Err(FabricError::OutOfMemory { .. }) => {}
                    Err(FabricError::NodeLost { .. }) => self.drop_backup(pair).await?,
                    Err(error) => return Err(self.outward(error)),
                }
                return Ok(address);
            }
            let copy = GlobalAddress::new(nodes.backup, at.offset());
            match self.endpoint().allocate_at(copy, bytes).await {
                Ok(()) => {}
                Err(FabricError::NodeLost { .. }) => self.drop_backup(pair).await?,
                Err(FabricError::OutOfMemory { .. }) if unequal.len() < UNEQUAL_PIECES => {
                    // The piece stays allocated at both nodes.
                    unequal.push(at);
                    continue;
                }
                Err(error) => {
                    for at in unequal.into_iter().chain([at]) {
                        // The error of the backup counts.
                        let _ = self.endpoint().free(at, bytes).await;
                    }
                    return Err(self.outward(error));
                }
            }
            return Ok(address);
        }
    }

    async fn free(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        let pair = self.index(address.node())?;
        self.fence(pair, true, Duration::MAX).await?;
        let nodes = self.nodes_of(pair);
        let at = |node| GlobalAddress::new(node, address.offset());
        // The backup first: the primary chooses only memory that is free at the backup, too.
        let mut is_freed = false;
        if self.view_of(pair) == PairView::Both {
            match self.endpoint().free(at(nodes.backup), bytes).await {
                Ok(()) => is_freed = true,
                Err(FabricError::NodeLost { .. }) => self.drop_backup(pair).await?,
                Err(error) => return Err(self.outward(error)),
            }
        }
        let serving = match is_freed {
            true => nodes.primary,
            false => self.with(pair, |state| state.serving()),
        };
        match self.endpoint().free(at(serving), bytes).await {
            // The backup will take over, and has freed it.
            Err(FabricError::NodeLost { .. }) if is_freed => Ok(()),
            other => other.map_err(|error| self.outward(error)),
        }
    }

    async fn charge(&self, work: ClientProcessorWork) {
        self.endpoint().charge(work).await;
    }

    fn now(&self) -> Duration {
        self.endpoint().now()
    }

    async fn sleep(&self, time: Duration) {
        self.endpoint().sleep(time).await;
    }
}
