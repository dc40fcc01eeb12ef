//! The state of [compaction](crate::compaction): one round after another.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// The part (1 in this number) by which the memory in use must change, after a round that has given
/// back little, before the next round begins.
const CHANGE_PART: usize = 16;

/// The current round. See the [module](self).
#[derive(Debug, Default)]
pub struct Rounds(Mutex<CompactionRound>);

/// A round, and the result of the one before.
#[derive(Debug, Default)]
pub struct CompactionRound {
    pub phase: CompactionPhase,
    /// The bytes of leaves in use after a round that has given back little.
    pub useless_at: Option<usize>,
    /// The bytes of the copies that were made in this round.
    pub copied: usize,
}

/// The progress of a round.
#[derive(Debug, Default)]
pub enum CompactionPhase {
    #[default]
    Rest,
    /// Spans, and true once all threads have settled.
    Settle(Vec<u32>, Arc<AtomicBool>),
    /// Spans, the one that is being emptied, and the unit up to which it has been emptied.
    Move(Vec<u32>, usize, usize),
    /// Spans, and true once all threads have left the old blocks.
    Leave(Vec<u32>, Arc<AtomicBool>),
    /// Spans, and true once all threads that may be freeing the old blocks have finished.
    Free(Vec<u32>, Arc<AtomicBool>),
}

impl Rounds {
    /// Returns the round, unless another thread is working on it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, CompactionRound>> {
        match self.0.try_lock() {
            Ok(round) => Some(round),
            // A panic may come from an allocation, which leaves the round valid.
            Err(TryLockError::Poisoned(error)) => Some(PoisonError::into_inner(error)),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl CompactionRound {
    /// Returns true if the last round has given back little, and the map has hardly changed since.
    pub fn is_useless(&self, used: usize) -> bool {
        self.useless_at
            .is_some_and(|at| at.abs_diff(used) < at / CHANGE_PART)
    }
}
