//! The walk over all values: round after round, some at a time. Of values that move node by node it
//! visits each node.

use crate::keyspace::Databases;
use std::ops::Bound;

/// The position of the walk.
#[derive(Debug, Default)]
pub struct KeyspaceWalk {
    database: usize,
    after: Option<Vec<u8>>,
    /// The next node to visit, and the key of its value.
    within: Option<(Vec<u8>, usize)>,
    /// Number of complete rounds.
    pub rounds: u64,
}

/// The part of an entry that was visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyspaceWalkVisit {
    /// Number of values or nodes.
    pub count: usize,
    /// The next node, if there are more than were requested.
    pub next: Option<usize>,
}

impl KeyspaceWalkVisit {
    /// The visit of a value as a whole.
    pub const WHOLE: KeyspaceWalkVisit = KeyspaceWalkVisit {
        count: 1,
        next: None,
    };
}

/// An entry to visit.
#[derive(Clone, Copy, Debug)]
pub struct KeyspaceWalkEntry<'e> {
    /// The database.
    pub database: usize,
    /// The key.
    pub key: &'e [u8],
    /// The record that the index stores for it.
    pub stored: &'e [u8],
    /// The first node to visit, and the largest number of them.
    pub nodes: (usize, usize),
}

impl KeyspaceWalk {
    /// Passes the next entries to `visit`, with at most `count` values and nodes. After the last
    /// entry the walk begins again with the next call.
    pub fn step(
        &mut self,
        databases: &Databases,
        count: usize,
        mut visit: impl FnMut(KeyspaceWalkEntry<'_>) -> KeyspaceWalkVisit,
    ) {
        let mut left = count;
        while left > 0 {
            let Some(database) = databases.get(self.database) else {
                self.database = 0;
                self.rounds += 1;
                // The caller evaluates a round before the next one begins.
                return;
            };
            let (after, within) = (self.after.take(), self.within.take());
            let start = match (&within, &after) {
                // Some of the nodes of this key were visited already.
                (Some((key, _)), _) => Bound::Included(key.as_slice()),
                (None, Some(after)) => Bound::Excluded(after.as_slice()),
                (None, None) => Bound::Unbounded,
            };
            let entries = database.entries().into_iter();
            let range = entries.flat_map(|entries| entries.range((start, Bound::Unbounded)));
            // An error ends the range, and the walk continues with the next database.
            for (key, stored) in range.flatten() {
                let node = within.as_ref().filter(|(within, _)| *within == key);
                let visited = visit(KeyspaceWalkEntry {
                    database: self.database,
                    key: &key,
                    stored: &stored,
                    nodes: (node.map_or(0, |(_, node)| *node), left),
                });
                left = left.saturating_sub(visited.count);
                if let Some(next) = visited.next {
                    self.within = Some((key, next));
                    return;
                }
                self.after = Some(key);
                if left == 0 {
                    return;
                }
            }
            self.after = None;
            self.database += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{DatabaseAccess, DatabaseKeys, Effects, Home, KeyView, Keyspace};

    #[test]
    fn each_round_meets_each_key_and_each_node_once() {
        let keyspace = Keyspace::new(Home::Local);
        let mut databases = keyspace.exclude();
        let mut effects = Effects::default();
        let access = DatabaseAccess::Exclusive(&mut databases);
        let mut keys = DatabaseKeys::new(&keyspace, access, 0, 0, &mut effects);
        for number in 0..100 {
            keys.select(number % 3 * 7);
            keys.set_string(number.to_string().as_bytes(), b"v", None)
                .unwrap();
        }
        drop(keys);
        // A key of two digits that begins with a 7 has this number of nodes.
        let nodes = |key: &[u8]| match key {
            [b'7', last] => usize::from(last - b'0') * 5 + 1,
            _ => 1,
        };
        let all: usize = (0..100_usize)
            .map(|number| nodes(number.to_string().as_bytes()))
            .sum();
        let mut hand = KeyspaceWalk::default();
        for round in 1..4 {
            let mut met = Vec::new();
            while hand.rounds < round {
                hand.step(&databases, 7, |entry| {
                    let (from, count) = entry.nodes;
                    let end = nodes(entry.key).min(from + count);
                    let numbers = from..end;
                    met.extend(numbers.map(|node| (entry.database, entry.key.to_vec(), node)));
                    KeyspaceWalkVisit {
                        count: end - from,
                        next: (end < nodes(entry.key)).then_some(end),
                    }
                });
            }
            met.sort();
            met.dedup();
            assert_eq!(met.len(), all);
        }
    }
}
