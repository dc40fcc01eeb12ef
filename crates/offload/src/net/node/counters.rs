//! What a memory node has done.

use crate::traversal::Status;
use std::fmt;

/// Numbers of a memory node since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCounters {
    /// Datagrams that came.
    pub received: u64,
    /// Of these: not of this format, or cut off.
    pub malformed: u64,
    /// Of these: with a tag that is not that of their tenant's key.
    pub foreign: u64,
    /// Of these: responses, or announcements, which a node does not read.
    pub unexpected: u64,
    /// Of these: requests whose work was under way already.
    pub under_way: u64,
    /// Of these: requests whose work was done already, so that its answer was sent again.
    pub repeated: u64,
    /// Pieces of work that were begun.
    pub works: u64,
    /// Iterations of these.
    pub iterations: u64,
    /// Traversals that went on to another node.
    pub passed_on: u64,
    /// Answers, by the number of their status.
    pub answers: [u64; Status::COUNT],
}

impl NodeCounters {
    /// The answers of a status.
    pub fn of(&self, status: Status) -> u64 {
        self.answers
            .get(usize::from(status.code()))
            .copied()
            .unwrap_or_default()
    }

    pub(super) fn count(&mut self, status: Status) {
        if let Some(count) = self.answers.get_mut(usize::from(status.code())) {
            *count += 1;
        }
    }
}

impl fmt::Display for NodeCounters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} datagrams: {} malformed, {} foreign, {} unexpected, {} under way, {} repeated; \
             {} pieces of work with {} iterations, {} passed on; answers:",
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
        for (code, count) in self.answers.iter().enumerate() {
            if let Some(status) = Status::from_code(code as u8)
                && *count > 0
            {
                write!(formatter, "{separator}{count} {status:?}")?;
                separator = ", ";
            }
        }
        if self.answers.iter().all(|count| *count == 0) {
            formatter.write_str(" none")?;
        }
        Ok(())
    }
}
