//! Checks of readers, repairs and drains that a test can switch off, to show that it fails without
//! them. Without the feature `canary` they are always made, and the switch costs nothing.

/// A reader's check for concurrent writes to a node, for a node that was divided or for another key
/// in a block, or a check of a repair or a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The check that the node is of one write of all of it (CHIME, section 4.1.3, level 1).
    NodeVersions,
    /// The check that each entry is of one write of it (level 2).
    EntryVersions,
    /// The check that no key was moved while its neighborhood was read: by the hop bitmap of the
    /// home, and by the versions of the home in a second read (level 3).
    Moves,
    /// The check that the leaf has the sibling that its parent expects (section 4.2.3).
    Siblings,
    /// The check that the counter behind the lock is even, and the same before and after the read.
    Counters,
    /// The check that no key has left its slot since a key was overwritten that is overwritten
    /// again.
    Stamps,
    /// The check that the rest of a long key is the one in its block, and not only its hash.
    Rests,
    /// The check of a repair that no leaf leads to one on a lost memory node.
    LostSiblings,
    /// The check of a repair or a drain that the lock of each leaf is free, so that no recorded
    /// change is left to be made.
    HeldLocks,
    /// The check of a drain that the leaf to the left of a moved one leads to the copy.
    MovedSiblings,
}

#[cfg(not(feature = "canary"))]
impl Check {
    pub(crate) const fn is_made(self) -> bool {
        true
    }
}

#[cfg(feature = "canary")]
thread_local! {
    static LEFT_OUT: std::cell::Cell<Option<Check>> = const { std::cell::Cell::new(None) };
}

#[cfg(feature = "canary")]
impl Check {
    /// Makes this thread leave out a check from now on, or none.
    pub fn leave_out(check: Option<Check>) {
        LEFT_OUT.set(check);
    }

    pub(crate) fn is_made(self) -> bool {
        LEFT_OUT.get() != Some(self)
    }
}
