//! The walk over all values: round and round, some keys at a time.

use crate::keyspace::Databases;
use std::ops::Bound;

/// Where the walk stands.
#[derive(Debug, Default)]
pub struct Hand {
    database: usize,
    after: Option<Vec<u8>>,
    /// How often it has come to the end.
    pub rounds: u64,
}

impl Hand {
    /// Gives the next entries to `visit`, `count` at most. After the last come the first, with the
    /// next call.
    pub fn step(
        &mut self,
        databases: &Databases,
        count: usize,
        mut visit: impl FnMut(usize, Vec<u8>, Vec<u8>),
    ) {
        let mut left = count;
        while left > 0 {
            let Some(database) = databases.get(self.database) else {
                self.database = 0;
                self.rounds += 1;
                return;
            };
            let after = self.after.take();
            let start = match &after {
                Some(after) => Bound::Excluded(after.as_slice()),
                None => Bound::Unbounded,
            };
            let entries = database.entries().into_iter();
            let range = entries.flat_map(|entries| entries.range((start, Bound::Unbounded)));
            for (key, stored) in range.take(left).flatten() {
                left -= 1;
                self.after = Some(key.clone());
                visit(self.database, key, stored);
            }
            if left > 0 {
                self.after = None;
                self.database += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{Access, Effects, Home, Keys, Keyspace};

    #[test]
    fn each_round_meets_each_key_once() {
        let keyspace = Keyspace::new(Home::Local);
        let mut databases = keyspace.exclude();
        let mut effects = Effects::default();
        let access = Access::Exclusive(&mut databases);
        let mut keys = Keys::new(&keyspace, access, 0, 0, &mut effects);
        for number in 0..100 {
            keys.select(number % 3 * 7);
            keys.set_string(number.to_string().as_bytes(), b"v", None)
                .unwrap();
        }
        drop(keys);
        let mut hand = Hand::default();
        for round in 1..4 {
            let mut met = Vec::new();
            while hand.rounds < round {
                hand.step(&databases, 7, |database, key, _| met.push((database, key)));
            }
            met.sort();
            met.dedup();
            assert_eq!(met.len(), 100);
        }
    }
}
