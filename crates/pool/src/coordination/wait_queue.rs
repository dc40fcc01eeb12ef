//! Queues of clients that wait for another client that works on the same key.

use super::primitive::Mutex;
use foldhash::fast::FixedState;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, Hash};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Number of shards of keys that have their own locks. Several times the threads of a machine.
const SHARDS: usize = if cfg!(loom) { 2 } else { 256 };

/// The waiters of each key in use, in the order of their arrival. Each of them has left a message,
/// and gets either the turn to work, with a payload, or a reply from the worker.
///
/// A waiter's lock is taken under that of a shard, never the other way round. Wakers are woken, and
/// payloads dropped, while no lock is held.
pub struct WaitQueues<K, M, P, A> {
    shards: Box<[Shard<K, M, P, A>]>,
    // Not random, so that runs can be repeated. Only keys in use are in the tables, so that
    // choosing keys that collide gains little.
    hasher: FixedState,
}

type Shard<K, M, P, A> = Mutex<Queues<K, M, P, A>>;
type Queues<K, M, P, A> = HashMap<K, Queue<M, P, A>, FixedState>;
type Queue<M, P, A> = VecDeque<Arc<QueueWaiter<M, P, A>>>;

struct QueueWaiter<M, P, A> {
    message: M,
    state: Mutex<QueueWaiterState<P, A>>,
}

enum QueueWaiterState<P, A> {
    Waits(Option<Waker>),
    Turn(P),
    Answered(A),
    /// The waiter has taken its state, or no longer waits.
    Left,
}

impl<M, P, A> QueueWaiter<M, P, A> {
    /// Gives a state to a waiter, and returns its waker, or the state if the waiter has left.
    fn give(&self, given: QueueWaiterState<P, A>) -> Result<Option<Waker>, QueueWaiterState<P, A>> {
        let mut state = self.state.lock();
        if !matches!(*state, QueueWaiterState::Waits(_)) {
            // Each waiter gets one state, or a turn would be lost.
            return Err(given);
        }
        match std::mem::replace(&mut *state, given) {
            QueueWaiterState::Waits(waker) => Ok(waker),
            _ => Ok(None),
        }
    }

    fn has_left(&self) -> bool {
        matches!(*self.state.lock(), QueueWaiterState::Left)
    }
}

/// The result of waiting for a key.
pub enum KeyWaitOutcome<'t, K: Hash + Eq, M, P, A> {
    Turn(KeyTurn<'t, K, M, P, A>),
    Answered(A),
}

impl<K, M, P, A> Default for WaitQueues<K, M, P, A> {
    fn default() -> WaitQueues<K, M, P, A> {
        let shard = |_| Mutex::new(HashMap::default());
        WaitQueues {
            shards: (0..SHARDS).map(shard).collect(),
            hasher: FixedState::default(),
        }
    }
}

impl<K: Hash + Eq + Clone, M, P: Default, A> WaitQueues<K, M, P, A> {
    /// Waits for the turn to work on a key, or for a reply. If the key is not in use, the caller
    /// has the turn at once.
    pub async fn enter(&self, key: K, message: M) -> KeyWaitOutcome<'_, K, M, P, A> {
        let waiter = {
            let mut shard = self.shard(&key).lock();
            match shard.get_mut(&key) {
                None => {
                    shard.insert(key.clone(), VecDeque::new());
                    None
                }
                Some(queue) => {
                    // Queued while the shard is locked, so that a worker that ends finds this
                    // waiter, or this one finds the key free.
                    let state = Mutex::new(QueueWaiterState::Waits(None));
                    let waiter = Arc::new(QueueWaiter { message, state });
                    queue.push_back(Arc::clone(&waiter));
                    Some(waiter)
                }
            }
        };
        match waiter {
            None => KeyWaitOutcome::Turn(KeyTurn::new(self, key, P::default())),
            Some(waiter) => {
                let waiting = QueueWaiterGuard {
                    turns: self,
                    key,
                    waiter,
                };
                waiting.await
            }
        }
    }
}

impl<K: Hash + Eq, M, P, A> WaitQueues<K, M, P, A> {
    fn shard(&self, key: &K) -> &Shard<K, M, P, A> {
        // The tables within use the other bits.
        let hash = self.hasher.hash_one(key).rotate_left(16);
        &self.shards[hash as usize % SHARDS]
    }

    /// Returns the number of keys in use.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

impl<K, M, P, A> fmt::Debug for WaitQueues<K, M, P, A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("WaitQueues").finish_non_exhaustive()
    }
}

impl<K: Hash + Eq + fmt::Debug, M, P, A> fmt::Debug for KeyTurn<'_, K, M, P, A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Turn")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// A waiter. When it is dropped, it leaves the queue, or passes its turn on.
struct QueueWaiterGuard<'t, K: Hash + Eq + Clone, M, P: Default, A> {
    turns: &'t WaitQueues<K, M, P, A>,
    key: K,
    waiter: Arc<QueueWaiter<M, P, A>>,
}

impl<'t, K: Hash + Eq + Clone, M, P: Default, A> Future for QueueWaiterGuard<'t, K, M, P, A> {
    type Output = KeyWaitOutcome<'t, K, M, P, A>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.waiter.state.lock();
        if let QueueWaiterState::Waits(waker) = &mut *state {
            match waker {
                Some(waker) => waker.clone_from(context.waker()),
                None => *waker = Some(context.waker().clone()),
            }
            return Poll::Pending;
        }
        let given = std::mem::replace(&mut *state, QueueWaiterState::Left);
        drop(state);
        match given {
            QueueWaiterState::Turn(payload) => {
                let turn = KeyTurn::new(self.turns, self.key.clone(), payload);
                Poll::Ready(KeyWaitOutcome::Turn(turn))
            }
            QueueWaiterState::Answered(answer) => Poll::Ready(KeyWaitOutcome::Answered(answer)),
            // It was polled after it had ended.
            QueueWaiterState::Waits(_) | QueueWaiterState::Left => Poll::Pending,
        }
    }
}

impl<K: Hash + Eq + Clone, M, P: Default, A> Drop for QueueWaiterGuard<'_, K, M, P, A> {
    fn drop(&mut self) {
        let given = std::mem::replace(&mut *self.waiter.state.lock(), QueueWaiterState::Left);
        match given {
            QueueWaiterState::Waits(_) => {
                let mut shard = self.turns.shard(&self.key).lock();
                if let Some(queue) = shard.get_mut(&self.key) {
                    // A waiter that was closed is in no queue, and its reply finds it gone.
                    queue.retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter));
                }
            }
            QueueWaiterState::Turn(payload) => {
                // It was given the turn, and did not learn of it: a turn that is dropped goes to
                // the next waiter.
                drop(KeyTurn::new(self.turns, self.key.clone(), payload))
            }
            QueueWaiterState::Answered(_) | QueueWaiterState::Left => {}
        }
    }
}

/// The turn to work on a key. When it is dropped, the next waiter gets it, with the payload if that
/// was not taken.
pub struct KeyTurn<'t, K: Hash + Eq, M, P, A> {
    turns: &'t WaitQueues<K, M, P, A>,
    key: K,
    /// The payload of the turn, until it is taken; `None` once the turn was passed on.
    payload: Option<P>,
    /// The waiters that will get a reply. If they get none, they become the first waiters again.
    closed: Vec<Arc<QueueWaiter<M, P, A>>>,
}

impl<'t, K: Hash + Eq, M, P, A> KeyTurn<'t, K, M, P, A> {
    fn new(turns: &'t WaitQueues<K, M, P, A>, key: K, payload: P) -> KeyTurn<'t, K, M, P, A> {
        KeyTurn {
            turns,
            key,
            payload: Some(payload),
            closed: Vec::new(),
        }
    }

    /// Returns the payload of the turn.
    pub fn payload(&mut self) -> Option<&mut P> {
        self.payload.as_mut()
    }

    /// Selects the current waiters that will get a reply, replacing an earlier selection.
    pub fn close(&mut self, is_answered: impl Fn(&M) -> bool) {
        let mut shard = self.turns.shard(&self.key).lock();
        debug_assert!(shard.contains_key(&self.key), "a key with a turn is in use");
        self.reopen(&mut shard);
        if let Some(queue) = shard.get_mut(&self.key) {
            let waiters = std::mem::take(queue);
            let (closed, others) = waiters
                .into_iter()
                .partition::<Vec<_>, _>(|waiter| is_answered(&waiter.message));
            self.closed = closed;
            queue.extend(others);
        }
    }

    /// Makes the selected waiters the first waiters again.
    fn reopen(&mut self, shard: &mut Queues<K, M, P, A>) {
        let Some(queue) = shard.get_mut(&self.key) else {
            return;
        };
        // From the last one on, so that they come before later waiters in their former order.
        for waiter in self.closed.drain(..).rev() {
            // A waiter that leaves after this finds itself in the queue.
            if !waiter.has_left() {
                queue.push_front(waiter);
            }
        }
    }

    /// Returns the messages of the selected waiters.
    pub fn messages(&self) -> impl Iterator<Item = &M> {
        self.closed.iter().map(|waiter| &waiter.message)
    }

    /// Replies to the selected waiters, in the order of their messages. Waiters that have left
    /// meanwhile are skipped.
    pub fn answer(&mut self, answers: impl IntoIterator<Item = A>) {
        for (waiter, answer) in self.closed.drain(..).zip(answers) {
            if let Ok(Some(waker)) = waiter.give(QueueWaiterState::Answered(answer)) {
                waker.wake();
            }
        }
    }

    /// Returns true if there is a waiter.
    pub fn is_awaited(&self) -> bool {
        let shard = self.turns.shard(&self.key).lock();
        debug_assert!(shard.contains_key(&self.key), "a key with a turn is in use");
        shard.get(&self.key).is_some_and(|queue| !queue.is_empty())
    }

    /// Gives the turn to the first waiter, with a payload.
    ///
    /// # Errors
    /// There is no waiter: the turn and the payload.
    pub fn pass(mut self, payload: P) -> Result<(), (Self, P)> {
        match self.give(payload, false) {
            Some(payload) => Err((self, payload)),
            None => Ok(()),
        }
    }

    /// Gives the turn to the first waiter, and returns the payload if there is none. Then the key
    /// is no longer in use, if this `ends` it.
    fn give(&mut self, payload: P, ends: bool) -> Option<P> {
        let mut given = QueueWaiterState::Turn(payload);
        let mut shard = self.turns.shard(&self.key).lock();
        self.reopen(&mut shard);
        if let Some(queue) = shard.get_mut(&self.key) {
            while let Some(waiter) = queue.pop_front() {
                match waiter.give(given) {
                    Ok(waker) => {
                        // A waker may poll at once, and the waiter would wait for this lock.
                        drop(shard);
                        self.payload = None;
                        if let Some(waker) = waker {
                            waker.wake();
                        }
                        return None;
                    }
                    // The waiter has left, so the next one gets the turn.
                    Err(back) => given = back,
                }
            }
        }
        // In the lock under which no waiter was found, so that none is left behind.
        if ends {
            shard.remove(&self.key);
        }
        debug_assert!(
            matches!(given, QueueWaiterState::Turn(_)),
            "a waiter that left takes nothing"
        );
        match given {
            QueueWaiterState::Turn(payload) => Some(payload),
            _ => None,
        }
    }
}

impl<K: Hash + Eq, M, P, A> Drop for KeyTurn<'_, K, M, P, A> {
    fn drop(&mut self) {
        if let Some(payload) = self.payload.take() {
            // A payload without a taker is dropped.
            drop(self.give(payload, true));
        }
    }
}
