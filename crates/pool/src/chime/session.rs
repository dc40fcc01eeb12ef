//! Sessions: the addresses that an operation may follow.
//!
//! If locks have leases, the memory of merged nodes is freed
//! ([`epochs`](nearfield_fabric::recovery::epochs)). So each operation holds a guard. It follows an
//! address from the cache only if that was cached in the guard's epoch or later. It caches nodes
//! and changes memory only while the guard is safe. It trusts its reads only if the guard is still
//! safe at the end; otherwise it restarts.

use super::ChimeTree;
use super::cached_node::CachedNode;
use crate::cache::CacheableNode;
use crate::error::PoolError;
use crate::index::Entry;
use crate::layout::InternalNode;
use nearfield_fabric::recovery::epochs::{Epoch, RemoteEpochGuard};
use nearfield_fabric::{Endpoint, FabricError, GlobalAddress, NodeId};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// A session of one operation of a client, or of several that must see the same memory: they may
/// follow addresses that one of them has read in another structure, as long as the session [is
/// valid](ChimeSession::is_valid) after the read.
///
/// It delays the reclamation of memory, so it should be short.
#[derive(Debug)]
pub struct ChimeSession<'t, E> {
    pub(super) tree: &'t ChimeTree<E>,
    guard: Option<RemoteEpochGuard<'t>>,
    /// Set if the operation has changed something, so that it must not be repeated.
    changed: Cell<bool>,
    /// Number of leases that it has waited for since it made progress.
    pub(super) repairs: Cell<u32>,
    /// Number of recoveries of abandoned locks that have begun and not ended.
    pub(super) recoveries: Cell<u32>,
}

impl<E: Endpoint> ChimeTree<E> {
    /// Begins a session.
    ///
    /// # Errors
    /// The nodes' errors.
    pub async fn session(&self) -> Result<ChimeSession<'_, E>, PoolError> {
        let epochs = self.node.epochs.get();
        if let Some(epochs) = epochs {
            // A participant that does not renew its slot for a lease is expelled, and its guards
            // become void.
            epochs.tend(&self.endpoint).await?;
        }
        Ok(ChimeSession {
            tree: self,
            guard: epochs.map(|epochs| epochs.enter()),
            changed: Cell::new(false),
            repairs: Cell::new(0),
            recoveries: Cell::new(0),
        })
    }

    /// Runs an operation in a session of its own, and again if the session was not valid to the
    /// end.
    pub(super) async fn run<R>(
        &self,
        mut operation: impl AsyncFnMut(&ChimeSession<'_, E>) -> Result<R, PoolError>,
    ) -> Result<R, PoolError> {
        loop {
            let session = self.session().await?;
            let result = operation(&session).await;
            // A lock whose release was put off would keep others waiting until the next operation.
            self.endpoint.flush().await?;
            // A change was made while the guard was safe. To make it again would undo the writes of
            // others that came after it.
            if session.changed.get() {
                return match result {
                    // A caller takes `OutOfMemory` for a change that was not made.
                    Err(PoolError::Fabric(error @ FabricError::OutOfMemory { .. })) => {
                        Err(PoolError::Undetermined(error))
                    }
                    result => result,
                };
            }
            if session.is_valid().await? {
                return result;
            }
        }
    }
}

impl<E: Endpoint> ChimeSession<'_, E> {
    /// Returns true if reads of the session, by addresses that were read in it, can be trusted.
    /// Otherwise the bytes may be anything, and all must be read again, in another session.
    ///
    /// # Errors
    /// The nodes' errors.
    pub async fn is_valid(&self) -> Result<bool, PoolError> {
        match &self.guard {
            Some(guard) => Ok(guard.confirm(&self.tree.endpoint).await?),
            None => Ok(true),
        }
    }

    /// Returns true if the session is valid now, as far as is known without asking.
    pub(super) fn is_safe(&self) -> bool {
        let guard = self.guard.as_ref();
        guard.is_none_or(|guard| guard.is_safe(&self.tree.endpoint))
    }

    /// Returns the time until which the session is valid, as far as is known without asking.
    pub(super) fn safe_until(&self) -> Duration {
        let guard = self.guard.as_ref();
        guard.map_or(Duration::MAX, RemoteEpochGuard::until)
    }

    /// Renews the session's guard, if it is due. Call it before a long step.
    ///
    /// # Errors
    /// `Session` if it is not valid any more, and the nodes' errors.
    pub(super) async fn renew(&self) -> Result<(), PoolError> {
        if let Some(epochs) = self.tree.node.epochs.get() {
            epochs.tend(&self.tree.endpoint).await?;
        }
        if self.is_valid().await? {
            Ok(())
        } else {
            Err(PoolError::Session)
        }
    }

    /// Notes that the operation has changed its key, or may have, or that it has not.
    pub(super) fn note_change(&self, changed: bool) {
        self.changed.set(changed);
    }

    /// Returns the error of a change. If that may have been made, the failure of a node must not
    /// look as if nothing was changed: callers then change each key alone, or reuse its memory.
    pub(super) fn after_change(&self, error: PoolError) -> PoolError {
        match error {
            PoolError::Fabric(error) if self.changed.get() => PoolError::Undetermined(error),
            error => error,
        }
    }

    /// Reads the value of a key, like [`get`](crate::PoolIndexClient::get).
    ///
    /// # Errors
    /// `Key`, and the nodes' errors.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.tree.check_key(key)?;
        self.search(key, <[u8]>::to_vec).await
    }

    /// Returns the first `count` entries from a key on, like
    /// [`scan`](crate::PoolIndexClient::scan).
    ///
    /// # Errors
    /// `Key`, and the nodes' errors.
    pub async fn scan(&self, from: &[u8], count: usize) -> Result<Vec<Entry>, PoolError> {
        self.tree.check_bound(from)?;
        self.scan_from(from, count).await
    }

    /// Returns the last `count` entries up to a key, like [`ChimeTree::scan_back`].
    ///
    /// # Errors
    /// `Key`, and the nodes' errors.
    pub async fn scan_back(&self, from: &[u8], count: usize) -> Result<Vec<Entry>, PoolError> {
        self.tree.check_bound(from)?;
        self.scan_back_from(from, count).await
    }

    /// Retires memory that was unlinked in this session, so that it is freed when no operation can
    /// find it any more; the unlinking change must be acknowledged. In the paper's variants, which
    /// have no epochs, it stays allocated.
    ///
    /// # Errors
    /// The nodes' errors.
    pub async fn retire(&self, address: GlobalAddress, bytes: u64) -> Result<(), PoolError> {
        if let (Some(guard), Some(epochs)) = (&self.guard, self.tree.node.epochs.get()) {
            epochs
                .retire(&self.tree.endpoint, guard, address, bytes)
                .await?;
        }
        Ok(())
    }

    /// Returns the cached node of the lowest level from `from` on that leads to a key, of those
    /// that the session may follow.
    pub(super) fn seek(&self, key: &[u8], from: u8) -> Option<Arc<CachedNode>> {
        loop {
            let kept = self.tree.node.cache.seek(key, from)?;
            if self.may_follow(&kept) {
                return Some(kept);
            }
            // Read in an earlier epoch: the addresses in it may lead to reused memory, for later
            // operations, too.
            self.tree.node.cache.invalidate(&kept);
        }
    }

    /// Returns true if the session may follow the addresses of a cached node.
    pub(super) fn may_follow(&self, kept: &CachedNode) -> bool {
        let guard = self.guard.as_ref();
        guard.is_none_or(|guard| guard.may_follow(kept.epoch()))
    }

    /// Returns the cached node of exactly this level that leads to a key.
    pub(super) fn seek_at(&self, key: &[u8], level: u8) -> Option<Arc<CachedNode>> {
        self.seek(key, level).filter(|kept| kept.level() == level)
    }

    /// Caches a node that was read or written in this session.
    pub(super) fn keep(&self, address: GlobalAddress, node: &InternalNode) -> Arc<CachedNode> {
        let epoch = self
            .guard
            .as_ref()
            .map_or(Epoch::default(), RemoteEpochGuard::epoch);
        let kept = CachedNode::new(address, node, epoch);
        // An expelled session may have read reused memory, on which no other operation may rely.
        if self.is_safe() {
            self.tree.node.cache.keep(kept)
        } else {
            Arc::new(kept)
        }
    }

    /// Allocates memory: a retired block, or a piece of a chunk.
    pub(super) async fn allocate_bytes(&self, bytes: u64) -> Result<GlobalAddress, PoolError> {
        let endpoint = &self.tree.endpoint;
        // A retired block of this length costs no call to a node.
        if let Some(epochs) = self.tree.node.epochs.get() {
            let closed = epochs.closed_nodes();
            self.tree.arena.avoid(closed);
            while let Some(spare) = epochs.reuse(endpoint, bytes).await? {
                if !endpoint.is_reachable(spare.node()) {
                    // The block is lost with its node.
                    continue;
                }
                if !closed.contains(spare.node()) {
                    return Ok(spare);
                }
                match endpoint.free(spare, bytes).await {
                    // The node was drained, and has ended.
                    Err(FabricError::NodeLost { .. }) => {}
                    freed => freed?,
                }
            }
        }
        Ok(self.tree.arena.allocate(endpoint, bytes).await?)
    }

    /// Allocates memory on a node, which all clients must know.
    ///
    /// # Errors
    /// `Closed` if the node is closed, `OutOfMemory`, and the nodes' errors.
    pub(super) async fn allocate_on(
        &self,
        node: NodeId,
        bytes: u64,
    ) -> Result<GlobalAddress, PoolError> {
        let endpoint = &self.tree.endpoint;
        if self.tree.closed_nodes().contains(node) {
            return Err(PoolError::Closed { node });
        }
        Ok(self.tree.arena.allocate_on(endpoint, node, bytes).await?)
    }

    /// Allocates memory on the first node: a retired block, or a piece of a chunk.
    pub(super) async fn allocate_first(&self, bytes: u64) -> Result<GlobalAddress, PoolError> {
        let (endpoint, first) = (&self.tree.endpoint, self.tree.root.node());
        if let Some(epochs) = self.tree.node.epochs.get() {
            // If the first node is full, the memory comes from another.
            self.tree.arena.avoid(epochs.closed_nodes());
        }
        if let Some(epochs) = self.tree.node.epochs.get()
            && let Some(spare) = epochs.reuse(endpoint, bytes).await?
        {
            if spare.node() == first {
                return Ok(spare);
            }
            // It may serve a leaf of this length, or goes back to its node.
            self.retire(spare, bytes).await?;
        }
        Ok(self.tree.arena.allocate_first(endpoint, bytes).await?)
    }
}
