//! Removing the oldest entries.

use super::{Stream, StreamId};

/// Which entries go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The oldest, so that so many are left.
    Len(u64),
    /// Those before an identifier.
    Id(StreamId),
}

/// What is to be removed.
#[derive(Clone, Copy, Debug)]
pub struct Trim {
    /// Which entries go.
    pub bound: Bound,
    /// Whether only whole nodes go, so that some entries are left that the bound does not ask for.
    pub is_approximate: bool,
    /// So many entries go at most, and no node is begun that has more; 0: no limit.
    pub limit: u64,
}

impl Stream {
    /// Removes the oldest entries, and answers how many. Constant time for each node that goes as a
    /// whole, and linear in one node.
    pub fn trim(&mut self, trim: &Trim) -> u64 {
        let before = self.len;
        while let Some(node) = self.nodes.get(0) {
            let live = node.live();
            let removed = before - self.len;
            if matches!(trim.bound, Bound::Len(len) if self.len <= len)
                || (trim.limit > 0 && removed + live > trim.limit)
            {
                break;
            }
            let goes_whole = match trim.bound {
                Bound::Len(len) => self.len - live >= len,
                Bound::Id(id) => node.last_id() < id,
            };
            if goes_whole {
                self.nodes.pop_front();
                self.len -= live;
                continue;
            }
            if !trim.is_approximate {
                self.trim_first_node(trim.bound);
            }
            break;
        }
        before - self.len
    }

    fn trim_first_node(&mut self, bound: Bound) {
        let Some(node) = self.nodes.get_mut(0) else {
            return;
        };
        let live = node.entries().filter(|entry| !entry.is_deleted);
        let count = match bound {
            Bound::Len(len) => (self.len - len) as usize,
            Bound::Id(_) => usize::MAX,
        };
        let goes = |id: StreamId| !matches!(bound, Bound::Id(least) if id >= least);
        let places = live.take(count).take_while(|entry| goes(entry.id));
        let places: Vec<usize> = places.map(|entry| entry.at).collect();
        if !places.is_empty() {
            node.delete(&places);
            self.len -= places.len() as u64;
            // Deleted entries behind the bound are all that is left.
            if node.live() == 0 {
                self.nodes.pop_front();
            }
        }
    }
}
