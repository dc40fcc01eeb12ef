//! Passing a lock in remote memory on to who waits for it on the same compute node.

use super::turns::{Called, Turn, Turns};
use nearfield_fabric::GlobalAddress;
use std::convert::Infallible;

/// The locks in remote memory that clients of this compute node have or want. Of those who want
/// the same one, one at a time goes for it; who has it may pass it on to the next without giving it
/// back (lock hand-over, Sherman section 4.3), so many times at most, so that other compute
/// nodes get it too.
///
/// `T` is what who gets a lock from another has to know of it, such as its word.
#[derive(Debug)]
pub struct LocalLocks<T> {
    turns: Turns<GlobalAddress, (), Option<HandedOver<T>>, Infallible>,
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
            turns: Turns::new(),
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

    /// Passes the lock on, which is held, and all that was written under it is there. If who gets it
    /// is dropped before he knows, the next one has it.
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
