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
//! Each node has a *view word*: a kind, and a count, so that no word recurs. It is 0 in a new pair.
//!
//! - If the backup does not respond, the client sets the primary's word and uses the primary alone.
//! - If the primary does not respond, the client announces this in the backup's word and waits for
//!   a lease, until all posts of clients that do not know of it have taken effect. Then it uses the
//!   backup alone. A change with a deadline of the time before is refused, because it may belong to
//!   a lock that only the primary has seen.
//!
//! A client reads both words each quarter of a lease, or the one of a node that it uses alone. It
//! posts to the pair only until half a lease after such a read. So clients that still reach a node
//! which others have given up stop using it in time.
//!
//! # Return of a node
//! A node without content is taken in by [`take_in`](MirroredEndpoint::take_in). It becomes the
//! backup of the node that is used alone, whatever its role was before.
//!
//! 1. The copying client sets the word of the node that is used alone (*joining*). Changes of all
//!    clients wait from then on, and reads go on. It waits for a lease, until all changes of
//!    clients that have not seen this word have taken effect. It changes the word each eighth of a
//!    lease. If a word stays for a lease, its writer is dead, and clients go on with the node
//!    alone.
//! 2. It copies the reserved bytes and all allocated memory. Nothing changes meanwhile, so the copy
//!    has the words of locks with the data and the records that they guard. All these locks have
//!    expired, and are taken over afterwards. Each write begins within half a lease of a change of
//!    the word, so none is late for the next attempt.
//! 3. It changes the word of the node that was alone (*serving*), which fails if others have given
//!    the attempt up. Then the new node's word becomes that of a backup. A client uses the pair
//!    only after it has read both words, or made the second change itself, so nothing is
//!    acknowledged while the new node must not take over.
//!
//! Calls for memory have no deadline. A client that has allocated memory of a node which is alone
//! reads its word again. If a copy has begun, it allocates the same bytes at the new node, too. A
//! piece that one node has allocated, and not the other one, is left out by later allocations.
//!
//! # Assumptions
//! Nodes stop for good: what was a node of the pair and returns has no content, and clients use it
//! only through a new connection, after it was taken in. No failure of links makes one client lose
//! the primary, and another the backup. All changes under locks are posted by their deadlines
//! ([`Endpoint::post_by`]).
//!
//! A post to the primary that began late takes effect within a quarter of a lease, instead of half
//! a lease ([`lease`](crate::recovery::lease)). So no clock may run at 4/3 of another's speed.
//!
//! # Errors of clients that live
//! A post that is interrupted by the death of a node is completed if that is possible without a
//! second effect; otherwise it returns `NodeLost`, with the number of the pair. Only a pair that
//! has lost both nodes returns it each time. A post between whose two parts a node is lost and
//! another one is taken in returns it, too.
//!
//! A client that is interrupted between its two posts may begin the second one up to a quarter of a
//! lease after the deadline. A longer interruption returns `NodeLost`, too, although both nodes
//! serve. The outcome is unknown then: another client may complete the change, or take it back.

mod access;
mod align;
mod join;
mod post;
mod state;
#[cfg(test)]
mod tests;
mod view;

use crate::address::{GlobalAddress, NodeId};
use crate::endpoint::Endpoint;
use crate::error::FabricError;
pub use join::PairJoinError;
use state::{DeferredWrite, FlushQueue, PairState, ViewWord, view_word};
pub use state::{NodePair, PairView};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

/// Returns true if clients have given up the other node of the pair to which a node belongs, and
/// have taken in no other. The endpoint is one of single nodes.
///
/// # Errors
/// As [`Endpoint::post`].
pub async fn is_alone(endpoint: &impl Endpoint, node: NodeId) -> Result<bool, FabricError> {
    let mut word = [0; 8];
    endpoint.read(view_word(node), &mut word).await?;
    Ok(ViewWord(u64::from_le_bytes(word)).is_left())
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
    /// Changes wait while the memory of a node is copied.
    pauses: bool,
    /// A lease passes before the memory of a node is copied.
    settles: bool,
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
    pauses: true,
    settles: true,
};

/// A function that connects to the nodes again.
struct NodeReconnection<E>(Box<dyn Fn() -> Option<E>>);

impl<E> fmt::Debug for NodeReconnection<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("NodeReconnection")
    }
}

/// An endpoint over pairs of nodes. See the [module](self).
///
/// Posts of one task take effect in their order. Posts of several tasks that write may take effect
/// in any order.
#[derive(Debug)]
pub struct MirroredEndpoint<E> {
    /// Replaced when a node is taken in that it does not reach.
    endpoint: RefCell<Rc<E>>,
    reconnection: Option<NodeReconnection<E>>,
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
            endpoint: RefCell::new(Rc::new(endpoint)),
            reconnection: None,
            lease,
            pairs: RefCell::new(pairs.iter().map(|&pair| PairState::new(pair)).collect()),
            deferred: RefCell::default(),
            flush_queue: FlushQueue::default(),
            rules: ALL_RULES,
        }
    }

    /// Sets a function that connects to the nodes again, for transports on which a node that is
    /// served again needs a new connection. It returns `None` if it fails. It is called when a node
    /// was taken in that the endpoint does not reach.
    #[must_use]
    pub fn with_reconnection(
        self,
        reconnect: impl Fn() -> Option<E> + 'static,
    ) -> MirroredEndpoint<E> {
        MirroredEndpoint {
            reconnection: Some(NodeReconnection(Box::new(reconnect))),
            ..self
        }
    }

    /// Returns the endpoint of the single nodes.
    pub fn endpoint(&self) -> Rc<E> {
        Rc::clone(&self.endpoint.borrow())
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

    fn version_of(&self, pair: usize) -> u64 {
        self.with(pair, |state| state.version)
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
}
