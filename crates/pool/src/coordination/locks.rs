//! Hand-over of a lock in remote memory to a waiting client of the same compute node.

use super::wait_queue::{KeyTurn, KeyWaitOutcome, WaitQueues};
use nearfield_fabric::GlobalAddress;
use std::convert::Infallible;

/// The locks in remote memory that clients of this compute node hold or want. Of several clients
/// that want one lock, one at a time competes for it. The holder may pass it on to the next without
/// releasing it (lock hand-over: Sherman, SIGMOD 2022), a limited number of times, so that other
/// compute nodes get it too.
///
/// `T` is the state that a lock's holder passes on with it, such as its word.
#[derive(Debug)]
pub struct LocalLocks<T> {
    turns: WaitQueues<GlobalAddress, (), Option<HandedOver<T>>, Infallible>,
    hand_overs: u32,
}

#[derive(Debug)]
struct HandedOver<T> {
    held: T,
    /// Number of times that it was passed on since it was taken.
    times: u32,
}

/// Number of times that Sherman passes a lock on at most.
pub const HAND_OVERS: u32 = 8;

impl<T> LocalLocks<T> {
    /// Creates locks that are passed on up to `hand_overs` times after they were taken; 0: never.
    pub fn new(hand_overs: u32) -> LocalLocks<T> {
        LocalLocks {
            turns: WaitQueues::default(),
            hand_overs,
        }
    }

    /// Waits until no other client of this compute node holds the lock at `address` or competes for
    /// it. Waiters are served in the order of their arrival. Also returns the state that the former
    /// holder has passed on: then the lock is held; without it the caller must take the lock.
    pub async fn lock(&self, address: GlobalAddress) -> (LocalLock<'_, T>, Option<T>) {
        let mut turn = match self.turns.enter(address, ()).await {
            KeyWaitOutcome::Turn(turn) => turn,
            KeyWaitOutcome::Answered(never) => match never {},
        };
        let received = turn.payload().and_then(Option::take);
        let (times, held) = received.map_or((0, None), |it| (it.times, Some(it.held)));
        debug_assert!(times <= self.hand_overs);
        (
            LocalLock {
                turn,
                times,
                most: self.hand_overs,
            },
            held,
        )
    }

    /// Returns the number of locks that are held or wanted.
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// Returns true if no lock is held or wanted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The right of one client of a compute node to have a lock in remote memory. When it is dropped,
/// the next client has the right, and must take the lock.
#[derive(Debug)]
pub struct LocalLock<'l, T> {
    turn: KeyTurn<'l, GlobalAddress, (), Option<HandedOver<T>>, Infallible>,
    /// Number of times that the lock was passed on since it was taken, and maximum of that.
    times: u32,
    most: u32,
}

impl<T> LocalLock<'_, T> {
    /// Returns true if the lock may be passed on, and a client waits for it: then the guarded data
    /// must be written without releasing it.
    pub fn is_wanted(&self) -> bool {
        self.times < self.most && self.turn.is_awaited()
    }

    /// Resets the count of hand-overs: the lock was released, or lost, and taken again.
    pub fn taken_again(&mut self) {
        self.times = 0;
    }

    /// Passes on the held lock after all writes under it have taken effect. If the client that gets
    /// it is dropped before it knows, the next one gets it.
    ///
    /// # Errors
    /// The lock may not be passed on, or no client waits any more: the caller must release it. If
    /// all waiting clients are dropped later, `held` is dropped: it releases the lock then, or the
    /// lock's lease does.
    pub fn hand_over(self, held: T) -> Result<(), (Self, T)> {
        let LocalLock { turn, times, most } = self;
        // Clients of other compute nodes wait for the lock word, and would starve.
        if times >= most {
            return Err((LocalLock { turn, times, most }, held));
        }
        let handed = HandedOver {
            held,
            times: times + 1,
        };
        match turn.pass(Some(handed)) {
            Ok(()) => Ok(()),
            Err((turn, Some(HandedOver { held, .. }))) => {
                Err((LocalLock { turn, times, most }, held))
            }
            // The call returns the state that it passed.
            Err((_, None)) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_fabric::NodeId;
    use std::pin::Pin;
    use std::rc::Rc;
    use std::task::{Context, Poll, Waker};

    const AT: GlobalAddress = GlobalAddress::new(NodeId(1), 128);

    type Locking<'l, T> = Pin<Box<dyn Future<Output = (LocalLock<'l, T>, Option<T>)> + 'l>>;

    fn lock<T>(locks: &LocalLocks<T>) -> Locking<'_, T> {
        Box::pin(locks.lock(AT))
    }

    fn poll<'l, T>(locking: &mut Locking<'l, T>) -> Option<(LocalLock<'l, T>, Option<T>)> {
        match locking
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(locked) => Some(locked),
            Poll::Pending => None,
        }
    }

    #[test]
    fn locks_are_passed_on_in_order_and_so_many_times() {
        let locks = LocalLocks::new(2);
        let mut waiting: Vec<_> = (0..7).map(|_| lock(&locks)).collect();
        let mut now = poll(&mut waiting[0]).expect("free");
        for locking in &mut waiting[1..] {
            assert!(poll(locking).is_none());
        }
        let mut taken = Vec::new();
        for number in 1..7 {
            let (lock, received) = now;
            taken.push(received);
            if lock.is_wanted() {
                lock.hand_over(number).expect("a thread waits");
            } else {
                let (lock, held) = lock.hand_over(number).expect_err("too often");
                assert_eq!(held, number);
                drop(lock);
            }
            for later in &mut waiting[number + 1..] {
                assert!(poll(later).is_none());
            }
            now = poll(&mut waiting[number]).expect("it is its turn");
        }
        let (last, received) = now;
        taken.push(received);
        assert_eq!(
            taken,
            [None, Some(1), Some(2), None, Some(4), Some(5), None]
        );
        assert!(!last.is_wanted());
        let (last, held) = last.hand_over(8).expect_err("no thread waits");
        drop(last);
        assert_eq!((held, locks.len()), (8, 0));
    }

    #[test]
    fn what_is_passed_to_one_who_is_gone_goes_to_the_next_or_is_dropped() {
        let locks = LocalLocks::new(HAND_OVERS);
        let held = Rc::new(());
        let mut first = lock(&locks);
        let (first, _) = poll(&mut first).expect("free");
        let mut waiting: Vec<_> = (0..3).map(|_| lock(&locks)).collect();
        for locking in &mut waiting {
            assert!(poll(locking).is_none());
        }
        // One leaves before, one after the lock is passed on.
        drop(waiting.remove(0));
        first.hand_over(Rc::clone(&held)).expect("two wait");
        drop(waiting.remove(0));
        let (last, received) = poll(&mut waiting[0]).expect("it is its turn");
        assert!(received.is_some());
        let mut next = lock(&locks);
        assert!(poll(&mut next).is_none());
        drop(received);
        last.hand_over(Rc::clone(&held)).expect("one waits");
        assert_eq!(Rc::strong_count(&held), 2);
        drop(next);
        assert_eq!((Rc::strong_count(&held), locks.len()), (1, 0));
    }
}
