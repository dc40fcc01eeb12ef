//! The directory of partitions of byte strings.
//!
//! Byte strings have no aligned subranges, so partitions can begin at any key. Together they cover
//! all possible keys: each begins where the one before ends. (The partitions of words in the [other
//! directory](crate::dispatch::directory) have a last key, leave gaps, and are identified by their
//! starts.)

use super::cut::KeyBoundary;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

/// A range of keys that one module owns.
#[derive(Clone, Debug)]
pub(super) struct StringPartition {
    /// The least possible key.
    pub start: Vec<u8>,
    /// The module that owns the keys.
    pub module: usize,
    /// Number of keys.
    pub keys: u64,
    /// Approximate number of bytes that the entries take in a bank.
    pub bytes: u64,
    /// The number of the last batch with a request for the partition.
    pub used: u64,
    /// True if the number of keys is known; false after a module has not reported its changes.
    pub is_counted: bool,
    /// Numbers of keys that operations of this batch may insert and remove.
    coming: u64,
    going: u64,
}

/// The changes of a partition's keys in a batch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StringPartitionChange {
    pub keys_came: u64,
    pub keys_went: u64,
    pub bytes_came: u64,
    pub bytes_went: u64,
    /// True if the number of keys is unknown.
    pub is_lost: bool,
}

impl StringPartition {
    /// Creates a partition without requests.
    pub fn new(start: Vec<u8>, module: usize, keys: u64, bytes: u64, used: u64) -> StringPartition {
        StringPartition {
            start,
            module,
            keys,
            bytes,
            used,
            is_counted: true,
            coming: 0,
            going: 0,
        }
    }

    fn may_have(&self) -> bool {
        !self.is_counted || self.keys + self.coming > 0
    }

    fn at_least(&self) -> u64 {
        match self.is_counted {
            true => self.keys.saturating_sub(self.going),
            false => 0,
        }
    }
}

/// All partitions, by number and in the order of their keys.
#[derive(Debug, Default)]
pub(super) struct StringDirectory {
    numbers: BTreeMap<Vec<u8>, u64>,
    partitions: HashMap<u64, StringPartition>,
}

impl StringDirectory {
    /// Adds a partition.
    pub fn insert(&mut self, number: u64, partition: StringPartition) {
        self.numbers.insert(partition.start.clone(), number);
        self.partitions.insert(number, partition);
        debug_assert_eq!(self.numbers.len(), self.partitions.len());
    }

    /// Removes a partition. Without another in its place, its keys belong to the one before it.
    pub fn remove(&mut self, number: u64) -> Option<StringPartition> {
        let partition = self.partitions.remove(&number)?;
        let named = self.numbers.remove(&partition.start);
        debug_assert_eq!(named, Some(number));
        Some(partition)
    }

    /// Returns a partition by its number.
    pub fn get(&self, number: u64) -> Option<&StringPartition> {
        self.partitions.get(&number)
    }

    /// Returns a partition by its number, mutably.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut StringPartition> {
        self.partitions.get_mut(&number)
    }

    /// Returns the partition to which a key belongs, and its number.
    pub fn of(&self, key: &[u8]) -> Option<(u64, &StringPartition)> {
        let range = (Bound::Unbounded, Bound::Included(key));
        let (_, &number) = self.numbers.range::<[u8], _>(range).next_back()?;
        Some((number, self.partitions.get(&number)?))
    }

    /// Returns all partitions with their numbers, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &StringPartition)> {
        let numbers = self.numbers.values();
        numbers.filter_map(|&number| Some((number, self.partitions.get(&number)?)))
    }

    /// Returns the number of partitions.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the number of keys in all partitions.
    pub fn keys(&self) -> u64 {
        let partitions = self.partitions.values();
        partitions.map(|partition| partition.keys).sum()
    }

    /// Returns the end of the partition that begins at `start`, which is the start of the next one;
    /// `None` if it is the last.
    pub fn end_of(&self, start: &[u8]) -> Option<&[u8]> {
        let behind = (Bound::Excluded(start), Bound::Unbounded);
        let next = self.numbers.range::<[u8], _>(behind).next();
        next.map(|(start, _)| &start[..])
    }

    /// Returns the length of the common prefix of all keys that may belong to the partition that
    /// begins at `start`.
    pub fn skip(&self, start: &[u8]) -> u32 {
        // Keys between two bounds share the prefix that the bounds share. The last partition has no
        // end, and its keys share nothing.
        let end = self.end_of(start).unwrap_or_default();
        let pairs = start.iter().zip(end);
        pairs.take_while(|(one, other)| one == other).count() as u32
    }

    /// Calls `each` with the partitions that must be searched for `wanted` entries between two
    /// cuts, nearest first: in ascending order or, if `descends`, in descending order. Each is
    /// passed with its part of the range.
    pub fn candidates<'k>(
        &self,
        (low, high): (KeyBoundary<'k>, KeyBoundary<'k>),
        wanted: u64,
        descends: bool,
        mut each: impl FnMut(u64, &StringPartition, (KeyBoundary<'k>, KeyBoundary<'k>)),
    ) {
        if low >= high {
            return;
        }
        let first = low.key().unwrap_or_default();
        let below = (Bound::Unbounded, Bound::Included(first));
        let first = self.numbers.range::<[u8], _>(below).next_back();
        let Some((first, _)) = first else {
            return;
        };
        // A partition that begins at the excluded end has no key in the range. One that begins with
        // the range itself must stay.
        let last = match high {
            KeyBoundary::Before(key) if key > &first[..] => Bound::Excluded(key),
            KeyBoundary::Before(key) | KeyBoundary::After(key) => Bound::Included(key),
            KeyBoundary::Begin | KeyBoundary::End => Bound::Unbounded,
        };
        let mut range = self
            .numbers
            .range::<[u8], _>((Bound::Included(&first[..]), last));
        let mut sure = 0;
        while sure < wanted {
            let next = match descends {
                true => range.next_back(),
                false => range.next(),
            };
            let Some((start, &number)) = next else {
                return;
            };
            let Some(partition) = self.partitions.get(&number) else {
                continue;
            };
            if !partition.may_have() {
                continue;
            }
            // Bounds outside the partition do not limit the range within it.
            let low = match low > KeyBoundary::Before(start) {
                true => low,
                false => KeyBoundary::Begin,
            };
            let end = self.end_of(start);
            let high = match end.is_none_or(|end| high < KeyBoundary::Before(end)) {
                true => high,
                false => KeyBoundary::End,
            };
            each(number, partition, (low, high));
            // The number of keys in the range is unknown for a partition at one of its ends.
            if (low, high) == (KeyBoundary::Begin, KeyBoundary::End) {
                sure += partition.at_least();
            }
        }
    }

    /// Records that an operation of this batch may insert a key into a partition or, unless
    /// `comes`, remove one.
    pub fn may_change(&mut self, number: u64, comes: bool) {
        if let Some(partition) = self.partitions.get_mut(&number) {
            match comes {
                true => partition.coming += 1,
                false => partition.going += 1,
            }
        }
    }

    /// Ends a batch for a partition, and applies the changes of its keys.
    pub fn settle(&mut self, number: u64, change: StringPartitionChange) {
        if let Some(partition) = self.partitions.get_mut(&number) {
            debug_assert!(
                change.is_lost
                    || !partition.is_counted
                    || partition.keys + change.keys_came >= change.keys_went
            );
            // Byte counts are estimates, and a failed module may have removed more than was
            // counted.
            let changed = |now: u64, came: u64, went: u64| (now + came).saturating_sub(went);
            partition.keys = changed(partition.keys, change.keys_came, change.keys_went);
            partition.bytes = changed(partition.bytes, change.bytes_came, change.bytes_went);
            partition.is_counted &= !change.is_lost;
            partition.coming = 0;
            partition.going = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(parts: &[(&[u8], u64)]) -> StringDirectory {
        let mut directory = StringDirectory::default();
        for (number, &(start, keys)) in parts.iter().enumerate() {
            let partition = StringPartition::new(start.to_vec(), number, keys, 0, 0);
            directory.insert(number as u64, partition);
        }
        directory
    }

    fn found(
        directory: &StringDirectory,
        cuts: (KeyBoundary<'_>, KeyBoundary<'_>),
        wanted: u64,
        down: bool,
    ) -> Vec<u64> {
        let mut numbers = Vec::new();
        directory.candidates(cuts, wanted, down, |number, _, _| numbers.push(number));
        numbers
    }

    #[test]
    fn every_key_belongs_to_a_partition() {
        let directory = directory(&[(b"", 0), (b"abc", 0), (b"abd", 0)]);
        let number = |key: &[u8]| directory.of(key).map(|(number, _)| number);
        for (key, expected) in [
            (&b""[..], 0),
            (b"abb", 0),
            (b"abc", 1),
            (b"abc\0", 1),
            (b"b", 2),
        ] {
            assert_eq!(number(key), Some(expected));
        }
        assert_eq!(directory.skip(b""), 0);
        assert_eq!(directory.skip(b"abc"), 2);
        assert_eq!(directory.skip(b"abd"), 0, "it has no end");
    }

    #[test]
    fn ordered_operations_look_where_keys_may_be_and_no_further() {
        use KeyBoundary::{After, Before, Begin, End};
        let mut directory = directory(&[(b"", 3), (b"b", 0), (b"c", 5), (b"e", 1)]);
        // Of the keys before g, those in the last partition are greater.
        let ranges: [(_, &[u64]); 4] = [
            ((Begin, After(b"g")), &[3, 2]),
            ((Begin, End), &[3]),
            ((Begin, Before(b"e")), &[2]),
            ((Begin, After(b"e")), &[3, 2]),
        ];
        for (cuts, expected) in ranges {
            assert_eq!(found(&directory, cuts, 1, true), expected, "{cuts:?}");
        }
        // Keys that may be removed are not counted.
        directory.may_change(3, false);
        assert_eq!(found(&directory, (Begin, End), 1, true), [3, 2]);
        // Partitions with keys that may have been inserted are candidates.
        let after = (After(b"a"), End);
        assert_eq!(found(&directory, after, 4, false), [0, 2]);
        directory.may_change(1, true);
        let ranges: [(_, &[u64]); 5] = [
            (after, &[0, 1, 2]),
            ((Before(b"d"), Before(b"d\0")), &[2]),
            ((Before(b"d"), Before(b"d")), &[]),
            ((Before(b""), Before(b"")), &[]),
            ((Before(b""), After(b"")), &[0]),
        ];
        for (cuts, expected) in ranges {
            assert_eq!(found(&directory, cuts, 4, false), expected, "{cuts:?}");
        }
        assert_eq!(found(&directory, (Begin, End), 0, false), [0; 0]);
        let change = StringPartitionChange {
            keys_came: 1,
            ..StringPartitionChange::default()
        };
        directory.settle(1, change);
        directory.settle(3, StringPartitionChange::default());
        assert_eq!((directory.keys(), directory.len()), (10, 4));
    }
}
