//! The entries that an index must hold.

use crate::workload::Permutation;

/// The keys in ascending order, and the number of each key's last write. A value is computed from
/// both, so that a wrong outcome is detected.
#[derive(Clone, Debug)]
pub(super) struct ExpectedEntries {
    keys: Vec<u64>,
    writings: Vec<u8>,
    /// Keys that were inserted after the load, in the order of insertion.
    inserted: Vec<u64>,
    /// Inserted keys that are not in `keys` yet.
    coming: Vec<u64>,
}

/// The write number of a removed key.
const REMOVED: u8 = u8::MAX;

/// Returns the value of a key by a write; its low byte is the number of the write.
pub(super) fn value(key: u64, writing: u8) -> u64 {
    // Not the key itself: an index that mixes up keys and values must fail.
    let mixed = (key ^ key >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed & !0xff | u64::from(writing)
}

/// Returns true if `given` is a value of the key.
pub(super) fn is_value(key: u64, given: u64) -> bool {
    value(key, given as u8) == given
}

impl ExpectedEntries {
    /// Creates the data from keys in any order, possibly with duplicates.
    pub(super) fn new(mut keys: Vec<u64>) -> ExpectedEntries {
        keys.sort_unstable();
        keys.dedup();
        let writings = vec![0; keys.len()];
        ExpectedEntries {
            keys,
            writings,
            inserted: Vec::new(),
            coming: Vec::new(),
        }
    }

    /// Returns this number of keys anywhere, in the order in which they are loaded.
    pub(super) fn anywhere(count: usize, seed: u64) -> impl Iterator<Item = u64> {
        let permutation = Permutation::of_words(seed);
        (0..count as u64).map(move |number| permutation.at(number))
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn key(&self, position: usize) -> u64 {
        self.keys[position]
    }

    /// Returns the present value of the key at a position.
    pub(super) fn value(&self, position: usize) -> Option<u64> {
        let writing = self.writings[position];
        (writing != REMOVED).then(|| value(self.keys[position], writing))
    }

    /// Returns the number of keys below `key`, among those that existed before this batch.
    pub(super) fn below(&self, key: u64) -> usize {
        self.keys.partition_point(|&other| other < key)
    }

    /// Returns the number of keys that were inserted after the load and before this batch.
    pub(super) fn inserted(&self) -> u64 {
        debug_assert!(self.coming.len() <= self.inserted.len());
        (self.inserted.len() - self.coming.len()) as u64
    }

    /// Returns the key of an earlier insertion, counted back from the last one, if there were as
    /// many since the load.
    pub(super) fn inserted_before(&self, age: u64) -> Option<u64> {
        let position = self.inserted().checked_sub(age + 1)?;
        Some(self.inserted[position as usize])
    }

    /// Updates a key, and returns the values before and after.
    pub(super) fn update(&mut self, position: usize) -> (Option<u64>, u64) {
        let before = self.value(position);
        let writing = &mut self.writings[position];
        *writing = match *writing {
            // 255 is the mark of a removed key, so numbers start again below it.
            254.. => 0,
            writing => writing + 1,
        };
        (before, value(self.keys[position], *writing))
    }

    /// Removes a key, and returns its value.
    pub(super) fn remove(&mut self, position: usize) -> Option<u64> {
        let before = self.value(position);
        self.writings[position] = REMOVED;
        before
    }

    /// Inserts a new key, and returns its value.
    pub(super) fn insert(&mut self, key: u64) -> u64 {
        self.coming.push(key);
        self.inserted.push(key);
        value(key, 0)
    }

    /// Returns the number of keys that were inserted in this batch.
    pub(super) fn coming(&self) -> usize {
        self.coming.len()
    }

    /// Ends the batch: adds inserted keys and drops removed ones, so that positions change.
    pub(super) fn settle(&mut self) {
        if self.coming.is_empty() && !self.writings.contains(&REMOVED) {
            return;
        }
        self.coming.sort_unstable();
        self.coming.dedup();
        let count = self.keys.len() + self.coming.len();
        let (mut keys, mut writings) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut coming = self.coming.drain(..).peekable();
        for (&key, &writing) in self.keys.iter().zip(&self.writings) {
            while let Some(new) = coming.next_if(|&new| new <= key) {
                // A key that existed before keeps its write number.
                if new < key {
                    keys.push(new);
                    writings.push(0);
                }
            }
            if writing != REMOVED {
                keys.push(key);
                writings.push(writing);
            }
        }
        for new in coming {
            keys.push(new);
            writings.push(0);
        }
        debug_assert!(keys.windows(2).all(|pair| pair[0] < pair[1]));
        debug_assert_eq!(keys.len(), writings.len());
        (self.keys, self.writings) = (keys, writings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserted_and_removed_keys_are_known_after_the_batch() {
        let mut data = ExpectedEntries::new(vec![30, 10, 20, 10]);
        assert_eq!((data.len(), data.below(20), data.below(21)), (3, 1, 2));
        let (before, after) = data.update(1);
        assert_eq!(before, Some(value(20, 0)));
        assert_eq!(data.value(1), Some(after));
        assert_eq!(data.remove(1), Some(after));
        assert_eq!(data.remove(1), None);
        data.insert(5);
        data.insert(25);
        assert_eq!((data.coming(), data.inserted_before(0)), (2, None));
        data.settle();
        let keys: Vec<u64> = (0..data.len()).map(|position| data.key(position)).collect();
        assert_eq!(keys, [5, 10, 25, 30]);
        let ages = [0, 1, 2].map(|age| data.inserted_before(age));
        assert_eq!(ages, [Some(25), Some(5), None]);
        assert!((0..4).all(|position| is_value(keys[position], data.value(position).unwrap())));
        assert!(!is_value(10, 10) && !is_value(10, value(30, 0)));
    }
}
