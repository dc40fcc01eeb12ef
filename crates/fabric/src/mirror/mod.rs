//! Pairs of memory nodes with the same content: the death of one node loses nothing.
//!
//! A [`MirroredEndpoint`] is an [`Endpoint`] over pairs of nodes of another one. Clients make all
//! copies themselves; the nodes do not know of each other.
//!
//! # Protocol
//! - *Reads* go to the primary. They cost what they cost without a mirror.
//! - *Writes* go to the backup, and after its acknowledgement to the primary: one round trip more.
//!   Whatever a client reads is therefore at the backup, too. The reverse order would show values
//!   that disappear with the primary.
//! - *Locks* are masked swaps ([`MaskedSwap`](crate::MaskedSwap)). They are executed at the primary
//!   alone. The word of a lock goes to the backup as the first write of the client's next post
//!   there, so that the backup has it before any byte of the guarded data. A client that finds the
//!   lock at the backup can then take it over and complete the change
//!   ([`redo`](crate::recovery::redo)).
//! - *Whole swaps* compare and swap all bits. They change words that no lock guards, to values that
//!   do not recur: roots, owners, epochs. The backup decides, and the primary follows. A client
//!   whose swap fails at the backup makes the same change at the primary that the winner has made,
//!   because the winner may be dead. The backup is therefore at most one value ahead, and no client
//!   acts on a value that the backup does not have.
//! - *Additions* are executed at the backup, then at the primary. A client that dies in between
//!   leaves the backup ahead, so they serve for counters that may skip numbers, and for words under
//!   a lock.
//! - *Memory* is chosen by the primary and allocated at the same place of the backup, and freed in
//!   the reverse order. What the backup has allocated is therefore allocated at the primary.
//!
//! # Locks that are taken over
//! A client that dies between its two posts leaves data at the backup that are not at the primary,
//! and were never visible.
//!
//! - A recorded change is completed. The backup alone may have its record, so a search for records
//!   reads both nodes ([`read_backup`](Endpoint::read_backup)). The record is kept as long as the
//!   lock has the word of its acquisition at either node.
//! - A change without a record is taken back. The client that takes the lock over finds no change
//!   at the primary, and would leave the data in the backup, next to its own. So it calls
//!   [`align_replicas`](Endpoint::align_replicas) for all guarded data before it changes them or
//!   releases the lock. This writes its word to the lock at the backup first. If it dies then, the
//!   backup has a part of the change, as any node may after the death of a client that records
//!   nothing.
//!
//! # Death of a node
//! Each node has a *view word*. It is 0 while both nodes serve.
//!
//! - If the backup does not respond, the client sets the primary's word and uses the primary alone.
//! - If the primary does not respond, the client announces this in the backup's word and waits for
//!   a lease, until all posts of clients that do not know of it have taken effect. Then it uses the
//!   backup alone. A change with a deadline of the time before is refused, because it may belong to
//!   a lock that only the primary has seen.
//!
//! A client reads both words each quarter of a lease, and posts to the pair only until half a lease
//! after such a read. So clients that still reach a node which others have given up stop using it
//! in time.
//!
//! # Assumptions
//! Nodes stop for good: a node that was lost and returns must not be used for the pair again. No
//! failure of links makes one client lose the primary, and another the backup. All changes under
//! locks are posted by their deadlines ([`Endpoint::post_by`]).
//!
//! A post to the primary that began late takes effect within a quarter of a lease, instead of half
//! a lease ([`lease`](crate::recovery::lease)). So no clock may run at 4/3 of another's speed.
//!
//! # Errors of clients that live
//! A post that is interrupted by the death of a node is completed if that is possible without a
//! second effect; otherwise it returns `NodeLost`, with the number of the pair. Only a pair that
//! has lost both nodes returns it each time.
//!
//! A client that is interrupted between its two posts may begin the second one up to a quarter of a
//! lease after the deadline. A longer interruption returns `NodeLost`, too, although both nodes
//! serve. The outcome is unknown then: another client may complete the change, or take it back.

mod access;
mod align;
mod post;
mod state;
#[cfg(test)]
mod tests;

use crate::address::{GlobalAddress, NodeId};
use crate::endpoint::Endpoint;
use crate::error::FabricError;
use crate::verb::FabricVerb;
use state::{ALONE, ANNOUNCED, BOTH, DeferredWrite, FlushQueue, PairState, view_word};
pub use state::{NodePair, PairView};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

/// Returns true if clients have given up the other node of the pair to which a node belongs. The
/// endpoint is one of single nodes.
///
/// # Errors
/// As [`Endpoint::post`].
pub async fn is_alone(endpoint: &impl Endpoint, node: NodeId) -> Result<bool, FabricError> {
    let mut word = [0; 8];
    endpoint.read(view_word(node), &mut word).await?;
    Ok(u64::from_le_bytes(word) != BOTH)
}

/// The rules of the protocol. Tests leave some out.
#[derive(Clone, Copy, Debug)]
struct MirrorRules {
    /// Writes go to the backup, too.
    mirrors: bool,
    /// The backup has writes before the primary.
    backup_first: bool,
    /// Whole swaps are decided at the backup.
    repeats_swaps: bool,
    /// The backup has the word of a lock before the guarded data.
    sends_locks: bool,
    /// A lease passes before the backup is used alone.
    waits: bool,
    /// Changes under locks that only the primary has seen are refused.
    refuses: bool,
    /// Guarded data are made equal when a lock is taken over.
    aligns: bool,
    /// Records that only the backup has are found.
    searches: bool,
}

const ALL_RULES: MirrorRules = MirrorRules {
    mirrors: true,
    backup_first: true,
    repeats_swaps: true,
    sends_locks: true,
    waits: true,
    refuses: true,
    aligns: true,
    searches: true,
};

/// An endpoint over pairs of nodes. See the [module](self).
///
/// Posts of one task take effect in their order. Posts of several tasks that write may take effect
/// in any order.
#[derive(Debug)]
pub struct MirroredEndpoint<E> {
    endpoint: E,
    lease: Duration,
    pairs: RefCell<Vec<PairState>>,
    deferred: RefCell<VecDeque<DeferredWrite>>,
    flush_queue: FlushQueue,
    rules: MirrorRules,
}

impl<E: Endpoint> MirroredEndpoint<E> {
    /// Creates an endpoint over pairs of nodes of `endpoint`. All clients use the same pairs, and
    /// the lease of the locks. No round trip.
    pub fn new(endpoint: E, pairs: &[NodePair], lease: Duration) -> MirroredEndpoint<E> {
        MirroredEndpoint {
            endpoint,
            lease,
            pairs: RefCell::new(pairs.iter().map(|&pair| PairState::new(pair)).collect()),
            deferred: RefCell::default(),
            flush_queue: FlushQueue::default(),
            rules: ALL_RULES,
        }
    }

    /// Returns the endpoint of the single nodes.
    pub fn endpoint(&self) -> &E {
        &self.endpoint
    }

    /// Returns the nodes that this client uses of a pair. Other clients may know more.
    ///
    /// # Errors
    /// `NoSuchNode`.
    pub fn view(&self, number: NodeId) -> Result<PairView, FabricError> {
        Ok(self.view_of(self.index(number)?))
    }

    /// Returns the index of the pair with this number.
    fn index(&self, number: NodeId) -> Result<usize, FabricError> {
        let pairs = self.pairs.borrow();
        let index = pairs.iter().position(|state| state.pair.number == number);
        index.ok_or(FabricError::NoSuchNode { node: number })
    }

    fn with<T>(&self, pair: usize, act: impl FnOnce(&mut PairState) -> T) -> T {
        act(&mut self.pairs.borrow_mut()[pair])
    }

    fn nodes_of(&self, pair: usize) -> NodePair {
        self.with(pair, |state| state.pair)
    }

    fn view_of(&self, pair: usize) -> PairView {
        self.with(pair, |state| state.view)
    }

    fn lost(&self, pair: usize) -> FabricError {
        let node = self.nodes_of(pair).number;
        FabricError::NodeLost { node }
    }

    fn is_void(&self, pair: usize, deadline: Duration) -> bool {
        self.rules.refuses && self.with(pair, |state| state.is_void(deadline, self.lease))
    }

    fn adopt(&self, pair: usize, view: PairView) {
        let now = self.endpoint.now();
        self.with(pair, |state| state.adopt(view, now));
    }

    /// Returns an error of the single nodes with the numbers of pairs.
    fn outward(&self, error: FabricError) -> FabricError {
        let pairs = self.pairs.borrow();
        let number = |node: NodeId| {
            let is_of =
                |state: &&PairState| [state.pair.primary, state.pair.backup].contains(&node);
            let found = pairs.iter().find(is_of);
            found.map_or(node, |state| state.pair.number)
        };
        let outside =
            |address: GlobalAddress| GlobalAddress::new(number(address.node()), address.offset());
        match error {
            FabricError::NoSuchNode { node } => FabricError::NoSuchNode { node: number(node) },
            FabricError::NodeLost { node } => FabricError::NodeLost { node: number(node) },
            FabricError::OutOfRange {
                address,
                bytes,
                size,
            } => FabricError::OutOfRange {
                address: outside(address),
                bytes,
                size,
            },
            FabricError::Misaligned { address } => FabricError::Misaligned {
                address: outside(address),
            },
            FabricError::OutOfMemory { node, bytes } => FabricError::OutOfMemory {
                node: number(node),
                bytes,
            },
            FabricError::NotAllocated { address, bytes } => FabricError::NotAllocated {
                address: outside(address),
                bytes,
            },
        }
    }

    /// Returns the time until which posts to the pair may begin, after a read of the view words if
    /// the last one is long ago. A node that is used alone needs no such time.
    async fn fence(&self, pair: usize) -> Result<Duration, FabricError> {
        let mut was_read = false;
        loop {
            let (view, confirmed, fence) = self.with(pair, |state| {
                (state.view, state.confirmed, state.fence(self.lease))
            });
            match view {
                PairView::Both => {}
                PairView::Primary | PairView::Backup => return Ok(Duration::MAX),
                PairView::Lost => return Err(self.lost(pair)),
            }
            // A quarter of a lease is left for the post, unless the read took longer. Otherwise a
            // client whose posts are that slow would read the words for ever.
            let now = self.endpoint.now();
            let is_recent = confirmed.is_some_and(|confirmed| now < confirmed + self.lease / 4);
            if let Some(fence) = fence.filter(|&fence| is_recent || was_read && now < fence) {
                return Ok(fence);
            }
            self.confirm(pair).await?;
            was_read = true;
        }
    }

    /// Reads the view words of both nodes.
    async fn confirm(&self, pair: usize) -> Result<(), FabricError> {
        let nodes = self.nodes_of(pair);
        // Read before the post, because another client may change the words right after it.
        let began = self.endpoint.now();
        let (mut primary, mut backup) = ([0; 8], [0; 8]);
        let mut verbs = [
            FabricVerb::Read {
                from: view_word(nodes.primary),
                into: &mut primary,
            },
            FabricVerb::Read {
                from: view_word(nodes.backup),
                into: &mut backup,
            },
        ];
        match self.endpoint.post(&mut verbs).await {
            Ok(()) => {}
            Err(FabricError::NodeLost { node }) if node == nodes.primary => {
                return self.promote(pair).await;
            }
            Err(FabricError::NodeLost { .. }) => return self.drop_backup(pair).await,
            Err(error) => return Err(self.outward(error)),
        }
        match (u64::from_le_bytes(primary), u64::from_le_bytes(backup)) {
            (BOTH, BOTH) => self.with(pair, |state| state.confirmed = Some(began)),
            // Another client lost the primary.
            (BOTH, _) => self.promote(pair).await?,
            (_, BOTH) => self.adopt(pair, PairView::Primary),
            // Clients lost different nodes, so neither has all that was acknowledged.
            _ => self.adopt(pair, PairView::Lost),
        }
        Ok(())
    }

    /// Begins to use the backup alone, after a lease unless another client has waited for it.
    async fn promote(&self, pair: usize) -> Result<(), FabricError> {
        let at = view_word(self.nodes_of(pair).backup);
        if self.swap_view(pair, at, BOTH, ANNOUNCED).await? != ALONE {
            if self.rules.waits {
                // Posts of clients that have read the word before begin within half of this time.
                self.endpoint.sleep(self.lease).await;
                let settled = self.endpoint.settle().await;
                settled.map_err(|error| self.outward(error))?;
            }
            self.swap_view(pair, at, ANNOUNCED, ALONE).await?;
        }
        self.adopt(pair, PairView::Backup);
        Ok(())
    }

    /// Begins to use the primary alone.
    async fn drop_backup(&self, pair: usize) -> Result<(), FabricError> {
        let at = view_word(self.nodes_of(pair).primary);
        self.swap_view(pair, at, BOTH, ALONE).await?;
        self.adopt(pair, PairView::Primary);
        Ok(())
    }

    /// Swaps the view word of the node that is left of a pair, and returns the old one.
    async fn swap_view(
        &self,
        pair: usize,
        at: GlobalAddress,
        expected: u64,
        desired: u64,
    ) -> Result<u64, FabricError> {
        match self.endpoint.compare_swap(at, expected, desired).await {
            Err(FabricError::NodeLost { .. }) => {
                self.adopt(pair, PairView::Lost);
                Err(self.lost(pair))
            }
            other => other.map_err(|error| self.outward(error)),
        }
    }

    /// Handles the loss of the node that executes reads and swaps.
    ///
    /// # Errors
    /// `NodeLost` if no node is left.
    async fn lose_serving(&self, pair: usize, node: NodeId) -> Result<(), FabricError> {
        let (view, serving) = self.with(pair, |state| (state.view, state.serving()));
        if view == PairView::Both {
            self.promote(pair).await
        } else if serving == node {
            self.adopt(pair, PairView::Lost);
            Err(self.lost(pair))
        } else {
            // Another task of this client was faster.
            Ok(())
        }
    }
}
