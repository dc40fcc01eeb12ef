//! Reasons for which commands are executed one by one, never as a batch.
//!
//! They are bits of one number, so that a thread asks once a command for all of them.

use std::sync::atomic::{AtomicU32, Ordering};

/// A reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    /// A client sees all commands (`MONITOR`).
    Monitor = 1,
    /// Commands are held back (`CLIENT PAUSE`).
    Pause = 2,
    /// The slow log takes commands that are as fast as those of a batch.
    SlowLog = 4,
    /// Keys whose time is over are deleted by those alone who ask for them
    /// (`DEBUG SET-ACTIVE-EXPIRE 0`).
    LazyExpiry = 8,
}

/// The reasons that there are.
#[derive(Debug, Default)]
pub struct Singly(AtomicU32);

impl Singly {
    /// True if there is none.
    #[inline]
    pub fn none(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// True if `reason` is one.
    #[inline]
    pub fn has(&self, reason: Reason) -> bool {
        self.0.load(Ordering::Relaxed) & reason as u32 != 0
    }

    /// Adds or removes a reason.
    pub fn set(&self, reason: Reason, is: bool) {
        if is {
            self.0.fetch_or(reason as u32, Ordering::AcqRel);
        } else {
            self.0.fetch_and(!(reason as u32), Ordering::AcqRel);
        }
    }
}
