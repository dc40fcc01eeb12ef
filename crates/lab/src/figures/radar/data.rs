//! The entries that an index must hold.

use crate::workload::Permutation;

/// Keys in ascending order, and which writing of each is the last. Values are made of both, so that
/// a wrong answer shows.
#[derive(Clone, Debug)]
pub(super) struct Data {
    keys: Vec<u64>,
    writings: Vec<u8>,
    /// Those that were inserted after the load, in their order.
    inserted: Vec<u64>,
    /// Inserted, and not yet in `keys`.
    coming: Vec<u64>,
}

/// In place of the number of a writing, that the key is gone.
const GONE: u8 = u8::MAX;

/// The value of a key by a writing: its low byte.
pub(super) fn value(key: u64, writing: u8) -> u64 {
    // Not the key itself: an index that mixes them up has to fail.
    let mixed = (key ^ key >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed & !0xff | u64::from(writing)
}

/// Whether something is a value of a key.
pub(super) fn is_value(key: u64, given: u64) -> bool {
    value(key, given as u8) == given
}

impl Data {
    /// Of keys in any order, of which some may be there twice.
    pub(super) fn new(mut keys: Vec<u64>) -> Data {
        keys.sort_unstable();
        keys.dedup();
        let writings = vec![0; keys.len()];
        Data {
            keys,
            writings,
            inserted: Vec::new(),
            coming: Vec::new(),
        }
    }

    /// So many keys anywhere, in the order in which they are to be loaded.
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

    /// What an index has now at a position.
    pub(super) fn value(&self, position: usize) -> Option<u64> {
        let writing = self.writings[position];
        (writing != GONE).then(|| value(self.keys[position], writing))
    }

    /// The number of keys below one, of those that were there before this batch.
    pub(super) fn below(&self, key: u64) -> usize {
        self.keys.partition_point(|&other| other < key)
    }

    /// How many were inserted after the load and before this batch.
    pub(super) fn inserted(&self) -> u64 {
        (self.inserted.len() - self.coming.len()) as u64
    }

    /// The key of an earlier insertion, counted back from the last one, if there were as many since
    /// the load.
    pub(super) fn inserted_before(&self, age: u64) -> Option<u64> {
        let position = self.inserted().checked_sub(age + 1)?;
        Some(self.inserted[position as usize])
    }

    /// Writes again, and answers the values before and after.
    pub(super) fn update(&mut self, position: usize) -> (Option<u64>, u64) {
        let before = self.value(position);
        let writing = &mut self.writings[position];
        *writing = match *writing {
            254.. => 0,
            writing => writing + 1,
        };
        (before, value(self.keys[position], *writing))
    }

    /// Takes a key out, and answers its value.
    pub(super) fn remove(&mut self, position: usize) -> Option<u64> {
        let before = self.value(position);
        self.writings[position] = GONE;
        before
    }

    /// Puts a key in that is new, and answers its value.
    pub(super) fn insert(&mut self, key: u64) -> u64 {
        self.coming.push(key);
        self.inserted.push(key);
        value(key, 0)
    }

    /// How many were inserted in this batch.
    pub(super) fn coming(&self) -> usize {
        self.coming.len()
    }

    /// The batch is over: positions are now those of what has come and not gone.
    pub(super) fn settle(&mut self) {
        if self.coming.is_empty() && !self.writings.contains(&GONE) {
            return;
        }
        self.coming.sort_unstable();
        self.coming.dedup();
        let count = self.keys.len() + self.coming.len();
        let (mut keys, mut writings) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut coming = self.coming.drain(..).peekable();
        for (&key, &writing) in self.keys.iter().zip(&self.writings) {
            while let Some(new) = coming.next_if(|&new| new <= key) {
                // One that was there already is written now.
                if new < key {
                    keys.push(new);
                    writings.push(0);
                }
            }
            if writing != GONE {
                keys.push(key);
                writings.push(writing);
            }
        }
        for new in coming {
            keys.push(new);
            writings.push(0);
        }
        (self.keys, self.writings) = (keys, writings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_and_goes_is_known_after_the_batch() {
        let mut data = Data::new(vec![30, 10, 20, 10]);
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
