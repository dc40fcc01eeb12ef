//! The reasons for executing commands one by one, never as a batch.
//!
//! They are bits of one number, so that a thread checks all of them at once for each command.

use std::sync::atomic::{AtomicU32, Ordering};

/// A reason for executing commands one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SequentialReason {
    /// A client sees all commands (`MONITOR`).
    Monitor = 1,
    /// Commands are held back (`CLIENT PAUSE`).
    Pause = 2,
    /// The slow log includes commands that are as fast as those of a batch.
    SlowLog = 4,
    /// Expired keys are deleted only by commands that read them (`DEBUG SET-ACTIVE-EXPIRE 0`).
    LazyExpiry = 8,
    /// Commands that take memory are held back until a disk makes room.
    Room = 16,
    /// The accesses of commands are traced.
    Trace = 32,
}

/// The current reasons.
#[derive(Debug, Default)]
pub struct Singly(AtomicU32);

impl Singly {
    /// Returns true if there is no reason.
    #[inline]
    pub fn none(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Returns true if `reason` is among them.
    #[inline]
    pub fn has(&self, reason: SequentialReason) -> bool {
        self.0.load(Ordering::Relaxed) & reason as u32 != 0
    }

    /// Adds or removes a reason.
    pub fn set(&self, reason: SequentialReason, is: bool) {
        debug_assert!((reason as u32).is_power_of_two(), "each has a bit");
        if is {
            self.0.fetch_or(reason as u32, Ordering::AcqRel);
        } else {
            self.0.fetch_and(!(reason as u32), Ordering::AcqRel);
        }
    }
}
