//! The views of pairs, and the changes that are not at both nodes yet.

use crate::address::{GlobalAddress, NodeId, RESERVED_BYTES, WORD_BYTES};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::Duration;

/// Two memory nodes with the same content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePair {
    /// The number that addresses of the pair's memory have.
    pub number: NodeId,
    /// The node that executes reads and swaps.
    pub primary: NodeId,
    /// The node that has each write before the primary has it.
    pub backup: NodeId,
}

/// The nodes of a pair that a client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairView {
    /// Both nodes.
    Both,
    /// The primary alone: the backup is lost.
    Primary,
    /// The backup alone: the primary is lost.
    Backup,
    /// Neither node.
    Lost,
}

/// The view word of a node whose partner serves.
pub(super) const BOTH: u64 = 0;
/// The view word of a backup that may be used alone a lease later.
pub(super) const ANNOUNCED: u64 = 1;
/// The view word of a node whose partner must not be used any more.
pub(super) const ALONE: u64 = 2;

/// Returns the address of the word in which a node has the view of its pair: the last one of the
/// reserved bytes. It is not mirrored.
pub(super) fn view_word(node: NodeId) -> GlobalAddress {
    GlobalAddress::new(node, RESERVED_BYTES - WORD_BYTES)
}

/// The word of a lock that this client has taken at the primary, and that the backup does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PendingLockWord {
    pub offset: u64,
    /// The word that the swap found.
    pub before: u64,
    pub word: u64,
    /// The time from which another client may have the lock.
    pub until: Duration,
    /// True if a post has sent the word to the backup, so that it may be there.
    pub is_sent: bool,
}

/// A write for which its caller does not wait.
#[derive(Clone, Debug)]
pub(super) struct DeferredWrite {
    pub to: GlobalAddress,
    pub bytes: Vec<u8>,
    pub deadline: Duration,
}

/// The tasks that wait for their turns to make the deferred writes. They do not sleep: on
/// transports where a sleep blocks the thread, the task whose turn it is would go on too late.
#[derive(Debug, Default)]
pub(super) struct FlushQueue {
    is_taken: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

/// A task's turn to make the deferred writes.
#[derive(Debug)]
pub(super) struct FlushTurn<'q>(&'q FlushQueue);

impl FlushQueue {
    /// Waits until no other task has a turn.
    pub async fn turn(&self) -> FlushTurn<'_> {
        poll_fn(|context| {
            if !self.is_taken.replace(true) {
                return Poll::Ready(FlushTurn(self));
            }
            let mut waiting = self.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }
}

impl Drop for FlushTurn<'_> {
    fn drop(&mut self) {
        self.0.is_taken.set(false);
        for waker in self.0.waiting.take() {
            waker.wake();
        }
    }
}

/// The state of a pair, as a client knows it.
#[derive(Debug)]
pub(super) struct PairState {
    pub pair: NodePair,
    pub view: PairView,
    /// The time before the last read that found both view words unchanged.
    pub confirmed: Option<Duration>,
    /// The time when the client changed its view.
    pub adopted: Duration,
    pub locks: Vec<PendingLockWord>,
}

impl PairState {
    pub fn new(pair: NodePair) -> PairState {
        PairState {
            pair,
            view: PairView::Both,
            confirmed: None,
            adopted: Duration::ZERO,
            locks: Vec::new(),
        }
    }

    /// Returns the node that executes reads and swaps.
    pub fn serving(&self) -> NodeId {
        match self.view {
            PairView::Backup => self.pair.backup,
            PairView::Both | PairView::Primary | PairView::Lost => self.pair.primary,
        }
    }

    /// Returns the time until which posts to both nodes may begin; `None` if it is unknown.
    pub fn fence(&self, lease: Duration) -> Option<Duration> {
        let confirmed = self.confirmed.filter(|_| self.view == PairView::Both)?;
        Some(confirmed + lease / 2)
    }

    /// Returns true if a change with this deadline may belong to a lock of the lost primary, which
    /// the backup has never seen.
    pub fn is_void(&self, deadline: Duration, lease: Duration) -> bool {
        self.view == PairView::Backup && deadline < self.adopted + lease / 2
    }

    /// Changes the view. A lost node never serves again, so the first change decides.
    pub fn adopt(&mut self, view: PairView, now: Duration) {
        if self.view == PairView::Both || view == PairView::Lost {
            self.view = view;
            self.adopted = now;
            self.locks.clear();
        }
    }
}
