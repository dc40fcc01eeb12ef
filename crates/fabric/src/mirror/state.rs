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
    /// The node that executes reads and swaps, until a node is taken in.
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

/// A view word: a kind in the lower bits, and a count above them, so that no word recurs. The word
/// 0, a whole pair with its first roles, is the one of a new node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ViewWord(pub u64);

/// The kind of a view word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ViewKind {
    /// The node's partner serves. A node with a count has been taken in, and is the backup.
    Both,
    /// The backup may be used alone a lease later.
    Announced,
    /// The node's partner must not be used any more.
    Alone,
    /// The node is used alone, and a client copies its memory to a new partner.
    Joining,
    /// The node's partner was taken in and is the backup.
    Serving,
    /// The node gets the memory of its partner, and must not be used yet.
    Filling,
    /// None that clients write.
    Unknown,
}

const KIND_BITS: u32 = 4;

impl ViewWord {
    /// The word of a new node.
    pub const NEW: ViewWord = ViewWord(0);

    pub fn kind(self) -> ViewKind {
        match self.0 & ((1 << KIND_BITS) - 1) {
            0 => ViewKind::Both,
            1 => ViewKind::Announced,
            2 => ViewKind::Alone,
            3 => ViewKind::Joining,
            4 => ViewKind::Serving,
            5 => ViewKind::Filling,
            _ => ViewKind::Unknown,
        }
    }

    pub fn count(self) -> u64 {
        self.0 >> KIND_BITS
    }

    /// Returns the word of another kind with the same count.
    pub fn with(self, kind: ViewKind) -> ViewWord {
        let bits = match kind {
            ViewKind::Both => 0,
            ViewKind::Announced => 1,
            ViewKind::Alone => 2,
            ViewKind::Joining => 3,
            ViewKind::Serving => 4,
            ViewKind::Filling => 5,
            ViewKind::Unknown => 6,
        };
        ViewWord(self.count() << KIND_BITS | bits)
    }

    /// Returns the word with the next count, of this kind.
    pub fn next(self, kind: ViewKind) -> ViewWord {
        ViewWord((self.count() + 1) << KIND_BITS).with(kind)
    }

    /// Returns true if the node has lost its partner for good, or is about to.
    pub fn is_left(self) -> bool {
        matches!(
            self.kind(),
            ViewKind::Announced | ViewKind::Alone | ViewKind::Joining
        )
    }
}

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
    /// The nodes with their present roles.
    pub pair: NodePair,
    pub view: PairView,
    /// The number of nodes that the pair has taken in, as far as the client knows.
    pub version: u64,
    /// The count of the view words of both nodes when the client read them last.
    pub count: Option<u64>,
    /// The greatest count of a view word of a node that was used.
    pub known: u64,
    /// The time before the last read that found the view unchanged.
    pub confirmed: Option<Duration>,
    /// The word of a node that is used alone while its memory is copied, and the time when the
    /// client read this word first.
    pub joining: Option<(ViewWord, Duration)>,
    /// The time when the client changed its view.
    pub adopted: Duration,
    pub locks: Vec<PendingLockWord>,
}

impl PairState {
    pub fn new(pair: NodePair) -> PairState {
        PairState {
            pair,
            view: PairView::Both,
            version: 0,
            count: None,
            known: 0,
            confirmed: None,
            joining: None,
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

    /// Returns the time until which posts may begin; `None` if it is unknown.
    pub fn fence(&self, lease: Duration) -> Option<Duration> {
        let confirmed = self.confirmed.filter(|_| self.view != PairView::Lost)?;
        Some(confirmed + lease / 2)
    }

    /// Returns true if a change with this deadline may belong to a lock of the lost primary, which
    /// the backup has never seen.
    pub fn is_void(&self, deadline: Duration, lease: Duration) -> bool {
        self.view == PairView::Backup && deadline < self.adopted + lease / 2
    }

    /// Changes the view after the loss of a node. The first change decides.
    pub fn adopt(&mut self, view: PairView, now: Duration) {
        if self.view == PairView::Both || view == PairView::Lost {
            self.view = view;
            self.confirmed = None;
            self.joining = None;
            self.adopted = now;
            self.locks.clear();
        }
    }

    /// Changes the view to a whole pair, after the node that was used alone has taken a partner in.
    pub fn take_in(&mut self) {
        match self.view {
            PairView::Primary => {}
            PairView::Backup => self.swap_roles(),
            PairView::Both | PairView::Lost => return,
        }
        self.view = PairView::Both;
        self.version += 1;
        self.count = None;
        self.confirmed = None;
        self.joining = None;
        self.locks.clear();
    }

    /// Notes that both nodes have serving words with this count, which a client has begun to read
    /// at `began`.
    pub fn confirm(&mut self, count: u64, began: Duration) {
        if self.count.is_some_and(|former| former != count) {
            // A node was lost and another one taken in since the last read.
            self.version += 1;
            self.locks.clear();
        }
        self.count = Some(count);
        self.known = count;
        self.confirmed = Some(began);
    }

    /// Swaps the roles of the nodes.
    pub fn swap_roles(&mut self) {
        let NodePair {
            primary, backup, ..
        } = self.pair;
        self.pair.primary = backup;
        self.pair.backup = primary;
    }
}
