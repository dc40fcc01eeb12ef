//! A table of values that concern all keys or channels of a prefix.

use crate::steps;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The values by prefixes. Finding those of a key takes work in proportion to the key's own
/// prefixes, not to all prefixes.
#[derive(Debug)]
pub struct PrefixTable<T> {
    by_prefix: BTreeMap<Vec<u8>, T>,
}

impl<T> Default for PrefixTable<T> {
    fn default() -> Self {
        PrefixTable {
            by_prefix: BTreeMap::new(),
        }
    }
}

impl<T> PrefixTable<T> {
    /// Returns the value of a prefix, which is created if it is absent.
    pub fn get_or_default(&mut self, prefix: &[u8]) -> &mut T
    where
        T: Default,
    {
        self.by_prefix.entry(prefix.to_vec()).or_default()
    }

    /// Changes the value of a prefix, and removes it if `change` returns true.
    pub fn change(&mut self, prefix: &[u8], change: impl FnOnce(&mut T) -> bool) {
        if let Some(value) = self.by_prefix.get_mut(prefix)
            && change(value)
        {
            self.by_prefix.remove(prefix);
        }
    }

    /// Returns the number of prefixes.
    pub fn len(&self) -> usize {
        self.by_prefix.len()
    }

    /// Returns true if there are no prefixes.
    pub fn is_empty(&self) -> bool {
        self.by_prefix.is_empty()
    }

    /// Returns all prefixes in order, with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &T)> {
        self.by_prefix
            .iter()
            .map(|(prefix, value)| (&prefix[..], value))
    }

    /// Returns the prefixes of `key`, the longest one first, with their values.
    pub fn of<'t>(&'t self, key: &[u8]) -> impl Iterator<Item = (&'t [u8], &'t T)> {
        // All prefixes that are left are prefixes of these bytes of the key.
        let mut left = Some(key);
        std::iter::from_fn(move || {
            while let Some(key) = left {
                steps::count(1);
                let up_to = (Bound::Unbounded, Bound::Included(key));
                let found = self.by_prefix.range::<[u8], _>(up_to).next_back();
                let (prefix, value) = found?;
                let same = prefix
                    .iter()
                    .zip(key)
                    .take_while(|(one, other)| one == other);
                let same = same.count();
                if same < prefix.len() {
                    // A longer prefix of the key would come after it in the order.
                    left = key.get(..same);
                    continue;
                }
                // Those that are left are shorter. After the empty one there is none.
                left = prefix.len().checked_sub(1).and_then(|rest| key.get(..rest));
                return Some((&prefix[..], value));
            }
            None
        })
    }

    /// Returns a prefix of the table of which `prefix` is a prefix, or the reverse.
    pub fn overlapping(&self, prefix: &[u8]) -> Option<&[u8]> {
        // Those that begin with `prefix` follow it directly in the order.
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let next = self.by_prefix.range::<[u8], _>(from).next();
        let longer = next.map(|(other, _)| &other[..]);
        longer
            .filter(|other| other.starts_with(prefix))
            .or_else(|| Some(self.of(prefix).next()?.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    use std::collections::BTreeSet;

    #[test]
    fn all_prefixes_of_a_key_are_found() {
        let random = &mut SmallRng::seed_from_u64(1);
        for _ in 0..2000 {
            let mut word = || -> Vec<u8> {
                let length = random.random_range(0..6);
                (0..length)
                    .map(|_| random.random_range(b'a'..b'd'))
                    .collect()
            };
            let prefixes: BTreeSet<Vec<u8>> = (0..word().len() * 8).map(|_| word()).collect();
            let key = word();
            let mut table = PrefixTable::<()>::default();
            for prefix in &prefixes {
                table.get_or_default(prefix);
            }
            let found: Vec<&[u8]> = table.of(&key).map(|(prefix, ())| prefix).collect();
            let all = prefixes.iter().map(|prefix| &prefix[..]);
            let mut expected: Vec<&[u8]> = all.filter(|it| key.starts_with(it)).collect();
            expected.reverse();
            assert_eq!(found, expected, "{key:?} of {prefixes:?}");
            let overlaps = |it: &Vec<u8>| it.starts_with(&key) || key.starts_with(it);
            let is_there = table.overlapping(&key).is_some();
            assert_eq!(
                is_there,
                prefixes.iter().any(overlaps),
                "{key:?}, {prefixes:?}"
            );
        }
    }

    #[test]
    fn other_prefixes_cost_nothing() {
        let mut table = PrefixTable::<()>::default();
        table.get_or_default(b"user:");
        let find = |table: &PrefixTable<()>| {
            let mut found = 0;
            let steps = steps::taken_by(|| found = table.of(b"user:17:name").count());
            (found, steps)
        };
        let before = find(&table);
        assert_eq!(before.0, 1);
        for number in 0..10_000 {
            table.get_or_default(format!("other:{number}").as_bytes());
            table.get_or_default(format!("user:18:{number}").as_bytes());
        }
        // One step more, because some of the other prefixes are between those of the key.
        let after = find(&table);
        assert!(
            after.1 <= before.1.map(|steps| steps + 1),
            "{after:?}, before {before:?}"
        );
    }
}
