//! The state of [compaction](crate::compaction): one round after the other.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// After a round that has given back little, the memory in use changes by this part before the next
/// one begins.
const CHANGE_PART: usize = 16;

/// The round that is under way. See the [module](self).
#[derive(Debug, Default)]
pub struct Rounds(Mutex<Round>);

/// A round, and what the one before has shown.
#[derive(Debug, Default)]
pub struct Round {
    pub phase: Phase,
    /// The bytes of leaves in use after a round that has given back little.
    pub useless_at: Option<usize>,
    /// The bytes of the copies that were made in this round.
    pub copied: usize,
}

/// How far a round has come.
#[derive(Debug, Default)]
pub enum Phase {
    #[default]
    Rest,
    /// Spans, and whether all threads have settled.
    Settle(Vec<u32>, Arc<AtomicBool>),
    /// Spans, the one that is being emptied, and the unit there up to which it is.
    Move(Vec<u32>, usize, usize),
    /// Spans, and whether all threads have left the old blocks.
    Leave(Vec<u32>, Arc<AtomicBool>),
    /// Spans, and whether all threads that may be freeing the old blocks have finished.
    Free(Vec<u32>, Arc<AtomicBool>),
}

impl Rounds {
    /// The round, unless another thread is at work on it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, Round>> {
        match self.0.try_lock() {
            Ok(round) => Some(round),
            // A panic may come from an allocation, which leaves the round valid.
            Err(TryLockError::Poisoned(error)) => Some(PoisonError::into_inner(error)),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Round {
    /// True if the last round has given back little, and the map has hardly changed since.
    pub fn is_useless(&self, used: usize) -> bool {
        self.useless_at
            .is_some_and(|at| at.abs_diff(used) < at / CHANGE_PART)
    }
}
