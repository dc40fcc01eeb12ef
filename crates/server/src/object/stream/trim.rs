//! The removal of the oldest entries.

use super::{StreamId, StreamObject};

/// The entries that are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimBound {
    /// The oldest entries, so that this many are left.
    Len(u64),
    /// The entries before an identifier.
    Id(StreamId),
}

/// The options of a removal.
#[derive(Clone, Copy, Debug)]
pub struct Trim {
    /// The entries to remove.
    pub bound: TrimBound,
    /// True if only whole nodes are removed, so that some entries may be left that are outside of
    /// the bound.
    pub is_approximate: bool,
    /// The maximum number of entries removed: a node with more than what is left of it stays; 0: no
    /// limit.
    pub limit: u64,
}

impl StreamObject {
    /// Removes the oldest entries, and returns their number. Constant time for each node that is
    /// removed as a whole, and linear in one node.
    pub fn trim(&mut self, trim: &Trim) -> u64 {
        let before = self.len;
        while let Some(node) = self.nodes.get(0) {
            let live = node.live();
            let removed = before - self.len;
            // As in Redis, a node that would exceed the limit stays whole.
            if matches!(trim.bound, TrimBound::Len(len) if self.len <= len)
                || (trim.limit > 0 && removed + live > trim.limit)
            {
                break;
            }
            let goes_whole = match trim.bound {
                TrimBound::Len(len) => self.len - live >= len,
                TrimBound::Id(id) => node.last_id() < id,
            };
            if goes_whole {
                self.nodes.pop_front();
                self.len -= live;
                continue;
            }
            if !trim.is_approximate {
                self.trim_first_node(trim.bound);
            }
            // All later nodes are newer than this one, which stays.
            break;
        }
        before - self.len
    }

    fn trim_first_node(&mut self, bound: TrimBound) {
        let Some(node) = self.nodes.get_mut(0) else {
            return;
        };
        let live = node.entries().filter(|entry| !entry.is_deleted);
        let count = match bound {
            TrimBound::Len(len) => (self.len - len) as usize,
            TrimBound::Id(_) => usize::MAX,
        };
        let goes = |id: StreamId| !matches!(bound, TrimBound::Id(least) if id >= least);
        let places = live.take(count).take_while(|entry| goes(entry.id));
        let places: Vec<usize> = places.map(|entry| entry.at).collect();
        if !places.is_empty() {
            node.delete(&places);
            self.len -= places.len() as u64;
            // Only deleted entries behind the bound are left.
            if node.live() == 0 {
                self.nodes.pop_front();
            }
        }
    }
}
