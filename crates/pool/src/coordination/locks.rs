//! Passing a lock in remote memory on to who waits for it on the same compute node.

use super::wait_queue::{Called, Turn, WaitQueues};
use nearfield_fabric::GlobalAddress;
use std::convert::Infallible;

/// The locks in remote memory that clients of this compute node have or want. Of those who want
/// the same one, one at a time goes for it; who has it may pass it on to the next without giving it
/// back (lock hand-over: Sherman, SIGMOD 2022), so many times at most, so that other compute
/// nodes get it too.
///
/// `T` is what who gets a lock from another has to know of it, such as its word.
#[derive(Debug)]
pub struct LocalLocks<T> {
    turns: WaitQueues<GlobalAddress, (), Option<HandedOver<T>>, Infallible>,
    hand_overs: u32,
}

#[derive(Debug)]
struct HandedOver<T> {
    held: T,
    /// How many times it was passed on since it was taken.
    times: u32,
}

/// How often a lock is passed on at most in Sherman.
pub const HAND_OVERS: u32 = 8;

impl<T> LocalLocks<T> {
    /// Locks that are passed on up to `hand_overs` times after they were taken; 0: never.
    pub fn new(hand_overs: u32) -> LocalLocks<T> {
        LocalLocks {
            turns: WaitQueues::default(),
            hand_overs,
        }
    }

    /// Waits until no other client of this compute node has the lock at `address` or goes for it.
    /// Those who wait are served in the order in which they came. Answers too what the one before
    /// has passed on: then the lock is held; without that it is to be taken.
    pub async fn lock(&self, address: GlobalAddress) -> (LocalLock<'_, T>, Option<T>) {
        let mut turn = match self.turns.enter(address, ()).await {
            Called::Turn(turn) => turn,
            Called::Answered(never) => match never {},
        };
        let received = turn.payload().and_then(Option::take);
        let (times, held) = received.map_or((0, None), |it| (it.times, Some(it.held)));
        (
            LocalLock {
                turn,
                times,
                most: self.hand_overs,
            },
            held,
        )
    }

    /// The number of locks that somebody has or wants.
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// True if nobody has or wants any.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The right of one client of a compute node to have a lock in remote memory. When it is dropped,
/// the next one has the right, and has to take the lock.
#[derive(Debug)]
pub struct LocalLock<'l, T> {
    turn: Turn<'l, GlobalAddress, (), Option<HandedOver<T>>, Infallible>,
    /// How many times the lock was passed on since it was taken, and how many times it may be.
    times: u32,
    most: u32,
}

impl<T> LocalLock<'_, T> {
    /// True if the lock may be passed on, and somebody waits for it: then what it guards is to be
    /// written without giving it back.
    pub fn is_wanted(&self) -> bool {
        self.times < self.most && self.turn.is_awaited()
    }

    /// Forgets how often the lock was passed on: it was given back, or lost, and taken again.
    pub fn taken_again(&mut self) {
        self.times = 0;
    }

    /// Passes the lock on, which is held, and all that was written under it is there. If who gets
    /// it is dropped before he knows, the next one has it.
    ///
    /// # Errors
    /// It may not be passed on, or nobody waits any more: the lock is to be given back. If all who
    /// wait are dropped later, `held` is dropped: it gives the lock back then, or the lock's
    /// lease does.
    pub fn hand_over(self, held: T) -> Result<(), (Self, T)> {
        let LocalLock { turn, times, most } = self;
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
            // What comes back is what was passed.
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
                lock.hand_over(number).expect("somebody waits");
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
        let (last, held) = last.hand_over(8).expect_err("nobody waits");
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
