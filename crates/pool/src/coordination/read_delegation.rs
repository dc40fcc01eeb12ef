//! Read delegation: one client reads a key for all clients that want to read it.

use super::wait_queue::{KeyWaitOutcome, WaitQueues};
use crate::error::PoolError;
use std::sync::Arc;

/// The value of a key.
type Held = Option<Vec<u8>>;

/// A table of reads, in which one client of a compute node reads a key, and clients that arrived
/// before its read began take its result (read delegation: SMART, OSDI 2023). There is one such
/// read of a key at a time.
///
/// A client that arrives during a read waits for it, and then for the next: two round trips at most
/// instead of one, and one read in place of one for each reader. So it pays if the memory node's
/// port is the bottleneck.
#[derive(Debug, Default)]
pub struct ReadDelegation {
    turns: WaitQueues<Arc<[u8]>, (), (), Held>,
}

impl ReadDelegation {
    /// Reads `key` by `read`, or takes the result of another client's read. The result must not
    /// depend on anything that was read before the call of `read`.
    ///
    /// # Errors
    /// Those of `read`. Then another client reads for the waiting ones.
    pub async fn share(
        &self,
        key: &[u8],
        read: impl AsyncFnOnce() -> Result<Held, PoolError>,
    ) -> Result<Held, PoolError> {
        let mut turn = match self.turns.enter(key.into(), ()).await {
            KeyWaitOutcome::Answered(held) => return Ok(held),
            KeyWaitOutcome::Turn(turn) => turn,
        };
        // The read begins after they arrived.
        turn.close(|()| true);
        // If this fails, or is dropped, the closed waiters become the first ones again.
        let held = read().await?;
        turn.answer(std::iter::repeat_with(|| held.clone()));
        Ok(held)
    }

    /// Returns the number of keys that are being read.
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// Returns true if none is being read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_fabric::{FabricError, NodeId};
    use std::cell::Cell;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    type Answer = Result<Held, PoolError>;

    fn poll(future: Pin<&mut impl Future<Output = Answer>>) -> Option<Answer> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    /// Reads until `done` is set, and counts itself when it begins.
    async fn read(begun: &Cell<u8>, done: &Cell<bool>) -> Answer {
        begun.set(begun.get() + 1);
        let number = begun.get();
        std::future::poll_fn(|_| match done.get() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
        Ok(Some(vec![number]))
    }

    #[test]
    fn those_who_came_before_a_read_began_take_its_result() {
        let reads = ReadDelegation::default();
        let (begun, done) = (Cell::new(0), Cell::new(false));
        let share = |key: &'static [u8]| reads.share(key, async || read(&begun, &done).await);
        let mut first = pin!(share(b"a"));
        assert_eq!(poll(first.as_mut()), None);
        let (mut second, mut third) = (pin!(share(b"a")), pin!(share(b"a")));
        assert_eq!(poll(second.as_mut()), None);
        assert_eq!(poll(third.as_mut()), None);
        assert_eq!((begun.get(), reads.len()), (1, 1));
        done.set(true);
        assert_eq!(poll(first.as_mut()), Some(Ok(Some(vec![1]))));
        // The second read serves both waiting clients, and the third client has not begun it.
        assert_eq!(poll(third.as_mut()), None);
        assert_eq!(poll(second.as_mut()), Some(Ok(Some(vec![2]))));
        assert_eq!(poll(third.as_mut()), Some(Ok(Some(vec![2]))));
        assert_eq!((begun.get(), reads.is_empty()), (2, true));
    }

    #[test]
    fn other_keys_are_not_waited_for() {
        let reads = ReadDelegation::default();
        let (begun, done) = (Cell::new(0), Cell::new(false));
        let mut slow = pin!(reads.share(b"a", async || read(&begun, &done).await));
        assert_eq!(poll(slow.as_mut()), None);
        for key in 0..1000_u16 {
            let name = key.to_be_bytes();
            let mut other = pin!(reads.share(&name, async || Ok(None)));
            assert_eq!(poll(other.as_mut()), Some(Ok(None)));
        }
        assert_eq!(reads.len(), 1);
    }

    #[test]
    fn who_fails_or_is_dropped_leaves_the_read_to_the_next() {
        let reads = ReadDelegation::default();
        let (begun, done) = (Cell::new(0), Cell::new(false));
        let lost = PoolError::Fabric(FabricError::NodeLost { node: NodeId(0) });
        let share = || reads.share(b"a", async || read(&begun, &done).await);
        let mut first = Box::pin(share());
        assert_eq!(poll(first.as_mut()), None);
        let fails = reads.share(b"a", async || {
            read(&begun, &done).await?;
            Err(lost.clone())
        });
        let (mut fails, mut last) = (pin!(fails), pin!(share()));
        assert_eq!(poll(fails.as_mut()), None);
        let mut leaves = Box::pin(share());
        assert_eq!(poll(leaves.as_mut()), None);
        assert_eq!(poll(last.as_mut()), None);
        let mut behind = pin!(share());
        assert_eq!(poll(behind.as_mut()), None);
        drop(first);
        assert_eq!(poll(fails.as_mut()), None);
        drop(leaves);
        done.set(true);
        assert_eq!(poll(fails.as_mut()), Some(Err(lost.clone())));
        assert_eq!(poll(behind.as_mut()), None);
        assert_eq!(poll(last.as_mut()), Some(Ok(Some(vec![3]))));
        assert_eq!(poll(behind.as_mut()), Some(Ok(Some(vec![3]))));
        assert!(reads.is_empty());
    }
}
