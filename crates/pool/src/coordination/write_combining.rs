//! Write combining: one client writes a key for all clients that want to write it.

use super::wait_queue::{KeyTurn, KeyWaitOutcome, WaitQueues};
use crate::error::PoolError;
use std::sync::Arc;

/// A write to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CombinedWrite {
    /// A write of the value, whether the key exists or not.
    Insert(Vec<u8>),
    /// A write like `Insert`, for a caller that needs no old value: the bytes of the returned one
    /// mean nothing.
    Put(Vec<u8>),
    /// A write of the value if the key exists.
    Update(Vec<u8>),
    /// A write like `Update`, for a caller that only needs to know if the key exists: the bytes of
    /// the returned value mean nothing.
    Overwrite(Vec<u8>),
}

impl CombinedWrite {
    /// Returns true if it creates a key that does not exist.
    pub fn inserts(&self) -> bool {
        matches!(self, CombinedWrite::Insert(_) | CombinedWrite::Put(_))
    }

    /// Returns the value of a key after the write, if it was `before`.
    fn after<'w>(&'w self, before: Option<&'w [u8]>) -> Option<&'w [u8]> {
        match self {
            CombinedWrite::Insert(value) | CombinedWrite::Put(value) => Some(value),
            CombinedWrite::Update(value) | CombinedWrite::Overwrite(value) => {
                before.map(|_| &value[..])
            }
        }
    }
}

/// A value, or none.
type Held = Option<Vec<u8>>;
type Answer = Result<Held, PoolError>;
type Key = Arc<[u8]>;
type WriteTurn<'w> = KeyTurn<'w, Key, Arc<CombinedWrite>, (), Answer>;

/// A table of writes, in which one client of a compute node writes a key, together with the
/// concurrent writes of other clients of that node: only the last value goes to the memory node,
/// just before the release of the lock (write combining: SMART, OSDI 2023).
///
/// The writes take effect in sequence at the moment in which the last value does, the leader's
/// first and then in the order of their arrival. Each returns the old value: the leader's the one
/// in remote memory, and each other that of the write before it.
#[derive(Debug, Default)]
pub struct WriteCombining {
    turns: WaitQueues<Key, Arc<CombinedWrite>, (), Answer>,
}

impl WriteCombining {
    /// Writes to `key`, or lets another client do it, and returns the old value.
    ///
    /// `lead` does the remote write: it takes the lock, reads the key's value,
    /// [`close`](Leader::close)s, writes the returned value, releases the lock, and returns the
    /// value that it has read. If it does not close, no write is combined with it.
    ///
    /// # Errors
    /// Those of `lead`; after it has closed, all combined writes return them. `Interrupted`, if
    /// another client led, has closed, and was dropped: then the write may have taken effect, or
    /// may do so, once or not at all. If it was dropped before, another client leads.
    pub async fn combine(
        &self,
        key: &[u8],
        write: CombinedWrite,
        lead: impl AsyncFnOnce(&mut Leader<'_>) -> Answer,
    ) -> Answer {
        let write = Arc::new(write);
        let turn = match self.turns.enter(key.into(), Arc::clone(&write)).await {
            KeyWaitOutcome::Answered(answer) => return answer,
            KeyWaitOutcome::Turn(turn) => turn,
        };
        let mut leader = Leader {
            turn: Some(turn),
            write,
            answers: Vec::new(),
        };
        let done = lead(&mut leader).await;
        // Taken, so that the drop of the leader does not report them as interrupted.
        let answers = std::mem::take(&mut leader.answers);
        let failed = done.as_ref().err();
        let combined = leader.turn.as_ref();
        debug_assert_eq!(
            answers.len(),
            combined.map_or(0, |turn| turn.messages().count()),
            "each combined write has an outcome"
        );
        leader.answer(answers.into_iter().map(|held| match failed {
            None => Ok(held),
            Some(error) => Err(error.clone()),
        }));
        done
    }

    /// Returns the number of keys that are being written.
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// Returns true if none is being written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The client that writes a key, possibly for others too.
#[derive(Debug)]
pub struct Leader<'w> {
    /// The turn; `None` if writes are not combined.
    turn: Option<WriteTurn<'w>>,
    write: Arc<CombinedWrite>,
    /// The results of the combined writes, one for each.
    answers: Vec<Held>,
}

impl Leader<'_> {
    /// Creates a leader that does only its own write.
    pub(super) fn alone(write: CombinedWrite) -> Leader<'static> {
        Leader {
            turn: None,
            write: Arc::new(write),
            answers: Vec::new(),
        }
    }

    /// Returns the leader's own write.
    pub fn write(&self) -> &CombinedWrite {
        &self.write
    }

    /// Decides which writes are combined with this one, and returns the value to write; `None` if
    /// the key stays absent. `found` is the key's value.
    ///
    /// If the key exists, all waiting writes are combined. If it does not, and the leader updates,
    /// only updates are.
    ///
    /// Call this under the lock under which `found` was read, as late as possible: no other client
    /// may write the key before the returned value is written, or given up. If the lock was lost
    /// before any of it was written, the leader can close once more, with the value found then.
    ///
    /// A leader that swaps a word in place of a lock closes before each swap of an existing value,
    /// and [`reopen`](Leader::reopen)s if it finds after that that its write changes nothing.
    pub fn close(&mut self, found: Option<&[u8]>) -> Option<Vec<u8>> {
        // A leader that closes once more decides for all writes again.
        self.answers.clear();
        let mut held = self.write.after(found);
        if let Some(turn) = &mut self.turn {
            let stays = held.is_none();
            // Updates find an absent key absent. Inserts wait then, because the leader may not know
            // a free slot.
            turn.close(|write| !stays || !write.inserts());
            for write in turn.messages() {
                self.answers.push(held.map(<[u8]>::to_vec));
                held = write.after(held);
            }
        }
        held.map(<[u8]>::to_vec)
    }

    /// Gives up the combined writes: they wait for the next leader.
    ///
    /// For a leader without a lock that updates, has closed, and then finds the key absent. Another
    /// client may have inserted the key since, and writes that arrived after that must find it.
    pub fn reopen(&mut self) {
        self.answers.clear();
        if let Some(turn) = &mut self.turn {
            turn.close(|_| false);
        }
    }

    fn answer(&mut self, answers: impl Iterator<Item = Answer>) {
        if let Some(turn) = &mut self.turn {
            turn.answer(answers);
        }
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let answers = std::mem::take(&mut self.answers);
        // The last value may have been written or not, and no client can tell.
        let interrupted = answers.iter().map(|_| Err(PoolError::Interrupted));
        self.answer(interrupted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_fabric::{FabricError, NodeId};
    use std::cell::Cell;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    fn poll(future: Pin<&mut impl Future<Output = Answer>>) -> Option<Answer> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    /// Returns when it is polled for the second time.
    async fn pause() {
        let mut polled = false;
        std::future::poll_fn(|_| match std::mem::replace(&mut polled, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// A register, and the number of times that it was written.
    #[derive(Default)]
    struct Remote {
        held: Cell<Option<u8>>,
        written: Cell<u32>,
    }

    impl Remote {
        /// Pauses twice: before it closes, and before it writes.
        async fn lead(&self, leader: &mut Leader<'_>) -> Answer {
            let found = self.held.get().map(|value| vec![value]);
            pause().await;
            let value = leader.close(found.as_deref());
            pause().await;
            if let Some(value) = value {
                self.held.set(Some(value[0]));
                self.written.set(self.written.get() + 1);
            }
            Ok(found)
        }

        async fn write(&self, writes: &WriteCombining, write: CombinedWrite) -> Answer {
            let lead = async |leader: &mut Leader<'_>| self.lead(leader).await;
            writes.combine(b"key", write, lead).await
        }
    }

    fn insert(value: u8) -> CombinedWrite {
        CombinedWrite::Insert(vec![value])
    }

    /// All combinations of the kinds of four writes and of the key's existence give the same as the
    /// writes done in sequence, in the order of their results.
    #[test]
    fn each_write_meets_the_one_before_it() {
        for case in 0..32_u8 {
            let (remote, writes) = (Remote::default(), WriteCombining::default());
            remote.held.set((case & 16 != 0).then_some(9));
            let kinds: Vec<CombinedWrite> = (0..4_u8)
                .map(|number| match case >> number & 1 {
                    0 => CombinedWrite::Insert(vec![number]),
                    _ => CombinedWrite::Update(vec![number]),
                })
                .collect();
            let mut held = remote.held.get().map(|value| vec![value]);
            let mut tasks: Vec<_> = kinds
                .iter()
                .map(|write| (write, Box::pin(remote.write(&writes, write.clone()))))
                .collect();
            let mut rounds = 0;
            while !tasks.is_empty() {
                rounds += 1;
                assert!(rounds < 20, "{kinds:?} hangs");
                tasks.retain_mut(|(write, task)| {
                    let Some(met) = poll(task.as_mut()) else {
                        return true;
                    };
                    assert_eq!(met, Ok(held.clone()), "{kinds:?}");
                    held = write.after(held.as_deref()).map(<[u8]>::to_vec);
                    false
                });
            }
            assert_eq!(remote.held.get().map(|value| vec![value]), held);
            // If updates find the key absent, inserts need a write of their own.
            let absent = case & 16 == 0;
            let inserts = kinds
                .iter()
                .any(|write| matches!(write, CombinedWrite::Insert(_)));
            assert_eq!(remote.written.get(), u32::from(!absent || inserts));
            assert!(writes.is_empty());
        }
    }

    #[test]
    fn who_is_dropped_before_he_closes_leaves_the_lead_to_the_next() {
        let (remote, writes) = (Remote::default(), WriteCombining::default());
        let mut first = Box::pin(remote.write(&writes, insert(1)));
        let mut second = pin!(remote.write(&writes, insert(2)));
        let mut third = Box::pin(remote.write(&writes, insert(3)));
        assert_eq!(poll(first.as_mut()), None);
        assert_eq!(poll(second.as_mut()), None);
        assert_eq!(poll(third.as_mut()), None);
        drop(first);
        drop(third);
        assert_eq!(poll(second.as_mut()), None);
        assert_eq!(poll(second.as_mut()), None);
        assert_eq!(poll(second.as_mut()), Some(Ok(None)));
        assert_eq!((remote.held.get(), remote.written.get()), (Some(2), 1));
        assert!(writes.is_empty());
    }

    #[test]
    fn who_is_combined_is_not_written_again() {
        let (remote, writes) = (Remote::default(), WriteCombining::default());
        let mut first = Box::pin(remote.write(&writes, insert(1)));
        assert_eq!(poll(first.as_mut()), None);
        let mut second = pin!(remote.write(&writes, insert(2)));
        assert_eq!(poll(second.as_mut()), None);
        // The leader closes.
        assert_eq!(poll(first.as_mut()), None);
        let mut late = pin!(remote.write(&writes, insert(3)));
        assert_eq!(poll(late.as_mut()), None);
        drop(first);
        assert_eq!(poll(second.as_mut()), Some(Err(PoolError::Interrupted)));
        assert_eq!(poll(late.as_mut()), None);
        assert_eq!(poll(late.as_mut()), None);
        assert_eq!(poll(late.as_mut()), Some(Ok(None)));
        assert_eq!((remote.held.get(), remote.written.get()), (Some(3), 1));
    }

    #[test]
    fn errors_are_answered_to_those_who_are_combined_and_no_others() {
        let (remote, writes) = (Remote::default(), WriteCombining::default());
        let lost = PoolError::Fabric(FabricError::NodeLost { node: NodeId(0) });
        for closes in [false, true] {
            let fails = writes.combine(b"key", insert(1), async |leader| {
                pause().await;
                if closes {
                    leader.close(None);
                }
                Err(lost.clone())
            });
            let (mut fails, mut second) = (pin!(fails), pin!(remote.write(&writes, insert(2))));
            assert_eq!(poll(fails.as_mut()), None);
            assert_eq!(poll(second.as_mut()), None);
            assert_eq!(poll(fails.as_mut()), Some(Err(lost.clone())));
            let answer = poll(second.as_mut());
            assert_eq!(answer, closes.then(|| Err(lost.clone())));
        }
    }

    #[test]
    fn what_is_closed_once_more_is_answered_what_is_found_then() {
        let writes = WriteCombining::default();
        let lead = async |leader: &mut Leader<'_>| {
            pause().await;
            // The key exists, so an insert is combined; then it does not.
            assert_eq!(leader.close(Some(&[7])), Some(vec![3]));
            assert_eq!(leader.close(None), None);
            Ok(None)
        };
        let mut first = pin!(writes.combine(b"key", CombinedWrite::Update(vec![1]), lead));
        assert_eq!(poll(first.as_mut()), None);
        let remote = Remote::default();
        let mut second = pin!(remote.write(&writes, insert(2)));
        let mut third = pin!(remote.write(&writes, CombinedWrite::Update(vec![3])));
        assert_eq!(poll(second.as_mut()), None);
        assert_eq!(poll(third.as_mut()), None);
        assert_eq!(poll(first.as_mut()), Some(Ok(None)));
        assert_eq!(poll(third.as_mut()), Some(Ok(None)));
        while poll(second.as_mut()).is_none() {}
        assert_eq!((remote.held.get(), writes.len()), (Some(2), 0));
    }

    #[test]
    fn reopened_writes_are_done_by_the_next_leader() {
        let (remote, writes) = (Remote::default(), WriteCombining::default());
        let lead = async |leader: &mut Leader<'_>| {
            pause().await;
            assert_eq!(leader.close(Some(&[7])), Some(vec![3]));
            leader.reopen();
            Ok(None)
        };
        let update = |value| CombinedWrite::Update(vec![value]);
        let mut first = pin!(writes.combine(b"key", update(1), lead));
        assert_eq!(poll(first.as_mut()), None);
        let mut second = pin!(remote.write(&writes, update(2)));
        let mut third = pin!(remote.write(&writes, update(3)));
        assert_eq!(poll(second.as_mut()), None);
        assert_eq!(poll(third.as_mut()), None);
        assert_eq!(poll(first.as_mut()), Some(Ok(None)));
        // Another client inserts the key.
        remote.held.set(Some(9));
        assert_eq!(poll(third.as_mut()), None);
        while poll(second.as_mut()).is_none() {}
        assert_eq!(poll(third.as_mut()), Some(Ok(Some(vec![2]))));
        assert_eq!((remote.held.get(), writes.len()), (Some(3), 0));
    }

    #[test]
    fn who_has_left_is_not_closed_once_more() {
        let (remote, writes) = (Remote::default(), WriteCombining::default());
        let lead = async |leader: &mut Leader<'_>| {
            pause().await;
            assert_eq!(leader.close(None), Some(vec![3]));
            pause().await;
            assert_eq!(leader.close(None), Some(vec![2]));
            Ok(None)
        };
        let mut first = pin!(writes.combine(b"key", insert(1), lead));
        assert_eq!(poll(first.as_mut()), None);
        let mut second = pin!(remote.write(&writes, insert(2)));
        let mut third = Box::pin(remote.write(&writes, insert(3)));
        assert_eq!(poll(second.as_mut()), None);
        assert_eq!(poll(third.as_mut()), None);
        assert_eq!(poll(first.as_mut()), None);
        drop(third);
        assert_eq!(poll(first.as_mut()), Some(Ok(None)));
        assert_eq!(poll(second.as_mut()), Some(Ok(Some(vec![1]))));
        assert!(writes.is_empty());
    }
}
