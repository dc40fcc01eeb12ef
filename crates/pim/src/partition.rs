//! Which module has which keys.

use std::collections::BTreeMap;

/// Consecutive keys that one module has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The greatest key that belongs to it.
    pub last: u64,
    /// The module that has them.
    pub module: usize,
    /// How many there are.
    pub count: u64,
    /// Where in the module their list begins; 0 if only the module knows.
    pub list: u32,
    /// The number of the batch in which it was last asked for something.
    pub used: u64,
    /// A key that it has, the least of those that are known; `None` if none is known. A search for what is at or below
    /// a greater key need not look at other partitions.
    pub least: Option<u64>,
}

/// Partitions that do not overlap, in the order of their keys.
///
/// While a batch is planned it also knows what the operations so far may have come to, so that an ordered
/// operation is sent to as many partitions as it may have to look at, and no more.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    partitions: BTreeMap<u64, Planned>,
}

#[derive(Clone, Copy, Debug)]
struct Planned {
    partition: Partition,
    /// Keys that may have come in this batch.
    coming: u64,
    /// Keys that may have gone.
    going: u64,
    /// Whether the least key that is known may have gone.
    is_least_going: bool,
    /// False once a module has not answered what has become of its keys.
    is_counted: bool,
}

impl Planned {
    /// True if there may be keys.
    fn may_have(&self) -> bool {
        !self.is_counted || self.partition.count + self.coming > 0
    }

    /// So many keys there are at least.
    fn at_least(&self) -> u64 {
        if self.is_counted {
            self.partition.count.saturating_sub(self.going)
        } else {
            0
        }
    }

    /// The least key of which it is known that it is still there.
    fn least(&self) -> Option<u64> {
        let least = self.partition.least;
        least.filter(|_| self.is_counted && !self.is_least_going)
    }
}

impl Directory {
    /// Adds a partition, which overlaps no other, from `start` on.
    pub fn insert(&mut self, start: u64, partition: Partition) {
        let planned = Planned {
            partition,
            coming: 0,
            going: 0,
            is_least_going: false,
            is_counted: true,
        };
        self.partitions.insert(start, planned);
    }

    /// Takes a partition out.
    pub fn remove(&mut self, start: u64) -> Option<Partition> {
        let planned = self.partitions.remove(&start)?;
        Some(planned.partition)
    }

    /// The partition to which a key belongs, and where it begins.
    pub fn of(&self, key: u64) -> Option<(u64, Partition)> {
        let (&start, planned) = self.partitions.range(..=key).next_back()?;
        (key <= planned.partition.last).then_some((start, planned.partition))
    }

    /// All partitions with where they begin, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Partition)> {
        let partitions = self.partitions.iter();
        partitions.map(|(&start, planned)| (start, planned.partition))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.partitions.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// How many keys there are in all.
    pub fn keys(&self) -> u64 {
        self.iter().map(|(_, partition)| partition.count).sum()
    }

    /// True if a partition has a key from `from` up to `to`.
    pub(crate) fn overlaps(&self, from: u64, to: u64) -> bool {
        let before = self.partitions.range(..=to).next_back();
        before.is_some_and(|(_, planned)| planned.partition.last >= from)
    }

    /// Takes those out of which it is known that they have no keys.
    pub(crate) fn take_empty(&mut self) -> Vec<(u64, Partition)> {
        let mut empty = Vec::new();
        self.partitions.retain(|&start, planned| {
            let is_empty = planned.is_counted && planned.partition.count == 0;
            if is_empty {
                empty.push((start, planned.partition));
            }
            !is_empty
        });
        empty
    }

    /// Notes that a key of the partition that begins at `start` may come in this batch.
    pub(crate) fn may_come(&mut self, start: u64) {
        if let Some(planned) = self.partitions.get_mut(&start) {
            planned.coming += 1;
        }
    }

    /// Notes that a key may go.
    pub(crate) fn may_go(&mut self, start: u64, key: u64) {
        if let Some(planned) = self.partitions.get_mut(&start) {
            planned.going += 1;
            planned.is_least_going |= planned.partition.least == Some(key);
        }
    }

    /// The partitions that have to be looked at for `wanted` entries from `from` up to `to`, nearest first:
    /// from the least on or, descending, from the greatest on.
    pub(crate) fn candidates(
        &self,
        from: u64,
        to: u64,
        wanted: u64,
        descends: bool,
        mut each: impl FnMut(u64, Partition),
    ) {
        let begins = self.partitions.range(..=from).next_back();
        let first = begins.map_or(from, |(&start, _)| start);
        if first > to || from > to {
            return;
        }
        let mut sure = 0;
        let mut look = |start: u64, planned: &Planned| {
            let last = planned.partition.last;
            if last >= from && planned.may_have() && sure < wanted {
                each(start, planned.partition);
                // Of one at an end of the range nobody knows how many belong to it, but of one key.
                if start >= from && last <= to {
                    sure += planned.at_least();
                } else if planned
                    .least()
                    .is_some_and(|key| (from..=to).contains(&key))
                {
                    sure += 1;
                }
            }
            sure < wanted
        };
        let mut range = self.partitions.range(first..=to);
        if descends {
            while let Some((&start, planned)) = range.next_back() {
                if !look(start, planned) {
                    return;
                }
            }
        } else {
            for (&start, planned) in range {
                if !look(start, planned) {
                    return;
                }
            }
        }
    }

    /// Notes that a partition is asked for something in a batch.
    pub(crate) fn touch(&mut self, start: u64, batch: u64) {
        if let Some(planned) = self.partitions.get_mut(&start) {
            planned.partition.used = batch;
        }
    }

    /// How many partitions have a key from `from` up to `to`.
    pub(crate) fn count_within(&self, from: u64, to: u64) -> usize {
        self.partitions.range(from..=to).count()
    }

    /// Takes those out that begin within a range.
    pub(crate) fn remove_within(&mut self, start: u64, last: u64) {
        self.partitions
            .retain(|&other, _| other < start || other > last);
    }

    /// Notes where the list of a partition begins.
    pub(crate) fn set_list(&mut self, start: u64, list: u32) {
        if let Some(planned) = self.partitions.get_mut(&start) {
            planned.partition.list = list;
        }
    }

    /// Notes that nobody knows how many keys a partition has.
    pub(crate) fn lose_count(&mut self, start: u64) {
        if let Some(planned) = self.partitions.get_mut(&start) {
            planned.is_counted = false;
            planned.partition.least = None;
        }
    }

    /// Notes which key a partition has, the least of those that are known.
    pub(crate) fn set_least(&mut self, start: u64, least: Option<u64>) {
        if let Some(planned) = self.partitions.get_mut(&start) {
            planned.partition.least = least;
        }
    }

    /// Notes that so many keys have come to a partition and gone from it, and that the batch is over as far as
    /// it is concerned.
    pub(crate) fn settle(&mut self, start: u64, came: u64, went: u64) {
        if let Some(planned) = self.partitions.get_mut(&start) {
            planned.partition.count = (planned.partition.count + came).saturating_sub(went);
            planned.coming = 0;
            planned.going = 0;
            planned.is_least_going = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(parts: &[(u64, u64, u64)]) -> Directory {
        let mut directory = Directory::default();
        for (module, &(start, last, count)) in parts.iter().enumerate() {
            let partition = Partition {
                last,
                module,
                count,
                list: 0,
                used: 0,
                least: None,
            };
            directory.insert(start, partition);
        }
        directory
    }

    fn candidates(directory: &Directory, from: u64, to: u64, wanted: u64, down: bool) -> Vec<u64> {
        let mut starts = Vec::new();
        directory.candidates(from, to, wanted, down, |start, _| starts.push(start));
        starts
    }

    #[test]
    fn a_key_belongs_to_one_partition_or_none() {
        let directory = directory(&[(0, 9, 1), (20, u64::MAX, 2)]);
        let start = |key| directory.of(key).map(|(start, _)| start);
        assert_eq!(
            [0, 9, 10, 19, 20].map(start),
            [Some(0), Some(0), None, None, Some(20)]
        );
        assert_eq!(start(u64::MAX), Some(20));
        assert_eq!((directory.keys(), directory.len()), (3, 2));
    }

    #[test]
    fn ordered_operations_look_where_keys_may_be_and_no_further() {
        let parts = [(0, 9, 3), (10, 19, 0), (20, 29, 5), (40, 49, 1)];
        let mut directory = directory(&parts);
        // A predecessor of 45: 40 may be greater.
        assert_eq!(candidates(&directory, 0, 45, 1, true), [40, 20]);
        assert_eq!(candidates(&directory, 0, 49, 1, true), [40]);
        assert_eq!(candidates(&directory, 0, 35, 1, true), [20]);
        // Who may be removed is not to be counted on.
        directory.may_go(40, 44);
        assert_eq!(candidates(&directory, 0, 49, 1, true), [40, 20]);
        // Who may have come is to be looked at.
        assert_eq!(candidates(&directory, 5, 60, 4, false), [0, 20]);
        directory.may_come(10);
        assert_eq!(candidates(&directory, 5, 60, 4, false), [0, 10, 20]);
        assert_eq!(candidates(&directory, 5, 60, 9, false), [0, 10, 20, 40]);
        assert_eq!(candidates(&directory, 30, 39, 9, false), [0; 0]);
        assert_eq!(candidates(&directory, 39, 30, 9, false), [0; 0]);
        assert_eq!(candidates(&directory, 0, u64::MAX, 0, false), [0; 0]);
        directory.settle(10, 1, 0);
        directory.settle(40, 0, 1);
        assert_eq!(directory.keys(), 9);
        assert_eq!(candidates(&directory, 0, 49, 1, true), [20]);
    }

    #[test]
    fn what_has_a_key_below_is_all_that_is_looked_at() {
        let mut directory = directory(&[(0, 9, 3), (10, 19, 4), (20, 29, 5)]);
        assert_eq!(candidates(&directory, 0, 25, 1, true), [20, 10]);
        directory.set_least(20, Some(22));
        assert_eq!(candidates(&directory, 0, 25, 1, true), [20]);
        assert_eq!(candidates(&directory, 0, 22, 1, true), [20]);
        assert_eq!(candidates(&directory, 0, 21, 1, true), [20, 10]);
        // It is one entry, and no more.
        assert_eq!(candidates(&directory, 0, 25, 2, true), [20, 10]);
        assert_eq!(candidates(&directory, 22, 24, 1, false), [20]);
        // Another key that goes makes no difference.
        directory.may_go(20, 23);
        assert_eq!(candidates(&directory, 0, 25, 1, true), [20]);
        directory.may_go(20, 22);
        assert_eq!(candidates(&directory, 0, 25, 1, true), [20, 10]);
        directory.settle(20, 0, 1);
        directory.lose_count(20);
        assert_eq!(candidates(&directory, 0, 25, 1, true), [20, 10]);
    }
}
