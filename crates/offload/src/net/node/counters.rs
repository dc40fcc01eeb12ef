//! The counters of a memory node.

use crate::traversal::TraversalStatus;
use std::fmt;

/// Counters of a memory node since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCounters {
    /// Number of received datagrams.
    pub received: u64,
    /// Number of these that are not of this format, or cut off.
    pub malformed: u64,
    /// Number of these with a tag that is not that of their tenant's key.
    pub foreign: u64,
    /// Number of these that are responses or announcements, which a node does not read.
    pub unexpected: u64,
    /// Number of these that are parts of requests.
    pub parts: u64,
    /// Number of these that request work in progress.
    pub under_way: u64,
    /// Number of these that request work which is done, so that its message was sent again.
    pub repeated: u64,
    /// Number of pieces of work that were begun.
    pub works: u64,
    /// Number of iterations of these.
    pub iterations: u64,
    /// Number of traversals that continued at another node.
    pub passed_on: u64,
    /// Numbers of responses by the code of their status.
    pub replies: [u64; TraversalStatus::COUNT],
}

impl NodeCounters {
    /// Returns the number of responses with a status.
    pub fn of(&self, status: TraversalStatus) -> u64 {
        self.replies
            .get(usize::from(status.code()))
            .copied()
            .unwrap_or_default()
    }

    /// Adds the counters of a node that has worked for this one.
    pub fn add(&mut self, other: &NodeCounters) {
        self.received += other.received;
        self.malformed += other.malformed;
        self.foreign += other.foreign;
        self.unexpected += other.unexpected;
        self.parts += other.parts;
        self.under_way += other.under_way;
        self.repeated += other.repeated;
        self.works += other.works;
        self.iterations += other.iterations;
        self.passed_on += other.passed_on;
        for (count, more) in self.replies.iter_mut().zip(other.replies) {
            *count += more;
        }
    }

    pub(super) fn count(&mut self, status: TraversalStatus) {
        debug_assert!(usize::from(status.code()) < self.replies.len());
        if let Some(count) = self.replies.get_mut(usize::from(status.code())) {
            *count += 1;
        }
    }
}

impl fmt::Display for NodeCounters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} datagrams: {} malformed, {} foreign, {} unexpected, {} under way, {} repeated; {} \
             pieces of work with {} iterations, {} passed on; replies:",
            self.received,
            self.malformed,
            self.foreign,
            self.unexpected,
            self.under_way,
            self.repeated,
            self.works,
            self.iterations,
            self.passed_on
        )?;
        let mut separator = " ";
        for (code, count) in self.replies.iter().enumerate() {
            if let Some(status) = TraversalStatus::from_code(code as u8)
                && *count > 0
            {
                write!(formatter, "{separator}{count} {status:?}")?;
                separator = ", ";
            }
        }
        if self.replies.iter().all(|count| *count == 0) {
            formatter.write_str(" none")?;
        }
        Ok(())
    }
}
