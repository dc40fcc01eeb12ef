//! The directory of modules and their keys.

use crate::dispatch::ordered::SortedPlaceMap;

/// A range of keys that one module owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordPartition {
    /// The greatest key of the range.
    pub last: u64,
    /// The module that owns the keys.
    pub module: usize,
    /// Number of keys that are present.
    pub count: u64,
    /// Address in the module at which the list of keys begins; 0 if only the module knows it.
    pub list: u32,
    /// The number of the last batch with a request for the partition.
    pub used: u64,
    /// The least known key of the partition; `None` if none is known. A search for the predecessor
    /// of a greater key needs no other partition.
    pub least: Option<u64>,
    /// Lower bound of the present keys. For a partition that was empty or has been built since, it
    /// is the least key that may have been inserted, otherwise at least the start of the partition.
    pub lowest: u64,
}

/// The directory: partitions that do not overlap, in the order of their keys.
///
/// While a batch is planned it also knows the possible effects of the operations so far, so that an
/// ordered operation is sent only to the partitions that it may need.
///
/// Every operation looks up its partition, so the search uses an array that contains only their
/// starts.
#[derive(Clone, Debug, Default)]
pub struct PartitionDirectory {
    /// Places of the partitions, by their starts.
    places: SortedPlaceMap,
    /// Partitions by place.
    planned: Vec<PlannedPartition>,
    /// Unused places.
    free: Vec<u32>,
}

/// The place of a partition in a directory, valid while the directory contains the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionPlace(u32);

impl PartitionPlace {
    /// Returns a number less than the count of places of the directory.
    pub fn number(self) -> usize {
        self.0 as usize
    }

    /// Returns the place that has a number.
    pub fn of(number: u32) -> PartitionPlace {
        PartitionPlace(number)
    }
}

#[derive(Clone, Copy, Debug)]
struct PlannedPartition {
    /// The least key of the partition's range.
    start: u64,
    partition: WordPartition,
    /// Number of keys that operations of this batch may insert.
    coming: u64,
    /// Number of keys that operations of this batch may remove.
    going: u64,
    /// True if an operation of this batch may remove the least known key.
    is_least_going: bool,
    /// True if the number of keys is known; false after a module has not reported its changes.
    is_counted: bool,
}

impl PlannedPartition {
    /// Returns true if the partition may have keys.
    fn may_have(&self) -> bool {
        !self.is_counted || self.partition.count + self.coming > 0
    }

    /// Returns a lower bound of the number of keys.
    fn at_least(&self) -> u64 {
        if self.is_counted {
            self.partition.count.saturating_sub(self.going)
        } else {
            0
        }
    }

    /// Returns the least known key, if it certainly still exists.
    fn least(&self) -> Option<u64> {
        // A removal in this batch may or may not be applied. Until it is known, the key proves
        // nothing.
        let least = self.partition.least;
        least.filter(|_| self.is_counted && !self.is_least_going)
    }
}

impl PartitionDirectory {
    /// Adds a partition that begins at `start`, and replaces one that begins there. It must not
    /// overlap others.
    pub fn insert(&mut self, start: u64, partition: WordPartition) {
        let planned = PlannedPartition {
            start,
            partition,
            coming: 0,
            going: 0,
            is_least_going: false,
            is_counted: true,
        };
        if let Some(place) = self.places.get(start) {
            self.planned[place as usize] = planned;
            return;
        }
        // Places are reused, so that arrays indexed by place stay as short as the directory was at
        // most.
        let place = match self.free.pop() {
            Some(place) => {
                self.planned[place as usize] = planned;
                place
            }
            None => {
                self.planned.push(planned);
                self.planned.len() as u32 - 1
            }
        };
        self.places.insert(start, place);
    }

    /// Removes a partition.
    pub fn remove(&mut self, start: u64) -> Option<WordPartition> {
        let place = self.places.remove(start)?;
        self.free.push(place);
        debug_assert_eq!(self.planned[place as usize].start, start);
        Some(self.planned[place as usize].partition)
    }

    /// Returns the place of the partition to which a key belongs. O(log n).
    pub(crate) fn find(&self, key: u64) -> Option<PartitionPlace> {
        let place = self.places.floor(key)?;
        debug_assert!(self.planned[place as usize].start <= key);
        // Partitions may leave gaps, so the partition before a key need not contain it.
        let last = self.planned[place as usize].partition.last;
        (key <= last).then_some(PartitionPlace(place))
    }

    /// Returns the start of the partition in a place.
    pub(crate) fn start(&self, place: PartitionPlace) -> u64 {
        self.planned[place.number()].start
    }

    /// Returns the partition in a place.
    pub fn partition(&self, place: PartitionPlace) -> &WordPartition {
        &self.planned[place.number()].partition
    }

    /// Returns a number that is greater than those of all places.
    pub(crate) fn places(&self) -> usize {
        self.planned.len()
    }

    /// Returns the start of the partition to which a key belongs, and the partition.
    pub fn of(&self, key: u64) -> Option<(u64, WordPartition)> {
        let place = self.find(key)?;
        Some((self.start(place), *self.partition(place)))
    }

    /// Returns the places of all partitions in ascending order.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = PartitionPlace> {
        self.places.places().map(PartitionPlace)
    }

    /// Returns all partitions with their starts, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, WordPartition)> {
        let places = self.in_order();
        places.map(|place| (self.start(place), *self.partition(place)))
    }

    /// Returns the number of partitions.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns true if there are no partitions.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the number of keys in all partitions.
    pub fn keys(&self) -> u64 {
        let places = self.in_order();
        places.map(|place| self.partition(place).count).sum()
    }

    /// Returns true if a partition has a key from `from` up to `to`.
    pub(crate) fn overlaps(&self, from: u64, to: u64) -> bool {
        // Partitions do not overlap, so of those that begin up to `to` the last reaches furthest.
        let before = self.places.floor(to);
        before.is_some_and(|place| self.planned[place as usize].partition.last >= from)
    }

    /// Keeps the partitions for which `is_kept` returns true. It is called in ascending order.
    fn retain(&mut self, mut is_kept: impl FnMut(&PlannedPartition) -> bool) {
        let PartitionDirectory {
            places,
            planned,
            free,
        } = self;
        places.retain(|place| {
            let is_kept = is_kept(&planned[place as usize]);
            if !is_kept {
                free.push(place);
            }
            is_kept
        });
    }

    /// Removes and returns the partitions that are known to be empty.
    pub(crate) fn take_empty(&mut self) -> Vec<(u64, WordPartition)> {
        let mut empty = Vec::new();
        self.retain(|planned| {
            let is_empty = planned.is_counted && planned.partition.count == 0;
            if is_empty {
                empty.push((planned.start, planned.partition));
            }
            !is_empty
        });
        empty
    }

    /// Records that an operation of this batch may insert a key into a partition.
    pub(crate) fn note_insert(&mut self, place: PartitionPlace, key: u64) {
        let planned = &mut self.planned[place.number()];
        planned.coming += 1;
        // The bound stays lowered even if the insert is not applied: it only has to be below all
        // keys.
        planned.partition.lowest = planned.partition.lowest.min(key);
    }

    /// Records that an operation of this batch may remove a key.
    pub(crate) fn note_removal(&mut self, place: PartitionPlace, key: u64) {
        let planned = &mut self.planned[place.number()];
        planned.going += 1;
        planned.is_least_going |= planned.partition.least == Some(key);
    }

    /// Calls `each` with the partitions that must be searched for `wanted` entries from `from` up
    /// to `to`, nearest first: in ascending order or, if `descends`, in descending order.
    pub(crate) fn candidates(
        &self,
        from: u64,
        to: u64,
        wanted: u64,
        descends: bool,
        mut each: impl FnMut(PartitionPlace),
    ) {
        if from > to {
            return;
        }
        // The partition in which the range begins is included.
        let first = self.places.floor(from);
        let first = first.map_or(from, |place| self.planned[place as usize].start);
        let mut range = self.places.range(first, to).map(|(_, place)| place);
        // Partitions are taken until they certainly have enough entries after all operations so
        // far, because the tasks are sent before any of their results is known.
        let mut sure = 0;
        let mut look = |place: u32| {
            let planned = &self.planned[place as usize];
            let last = planned.partition.last;
            let is_above = planned.partition.lowest > to;
            // The first partition may end before the range, which begins in the gap behind it.
            if last >= from && !is_above && planned.may_have() && sure < wanted {
                each(PartitionPlace(place));
                // For a partition at an end of the range, the number of keys within the range is
                // unknown, except that the least key may be known to be in it.
                if planned.start >= from && last <= to {
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
        if descends {
            let _ = range.rev().all(&mut look);
        } else {
            let _ = range.all(&mut look);
        }
    }

    /// Records the batch number in the partitions for which `is_asked` returns true.
    pub(crate) fn touch(
        &mut self,
        batch: u64,
        is_asked: impl Fn(PartitionPlace, &WordPartition) -> bool,
    ) {
        for place in self.places.places() {
            let partition = &mut self.planned[place as usize].partition;
            if is_asked(PartitionPlace(place), partition) {
                partition.used = batch;
            }
        }
    }

    /// Returns the number of partitions that begin within a range.
    pub(crate) fn count_within(&self, from: u64, to: u64) -> usize {
        self.places.range(from, to).count()
    }

    /// Removes the partitions that begin within a range.
    pub(crate) fn remove_within(&mut self, start: u64, last: u64) {
        self.retain(|planned| planned.start < start || planned.start > last);
    }

    /// Sets the address of the list of the partition that begins at `start`.
    pub(crate) fn set_list(&mut self, start: u64, list: u32) {
        if let Some(place) = self.places.get(start) {
            self.planned[place as usize].partition.list = list;
        }
    }

    /// Marks the number of keys of a partition as unknown.
    pub(crate) fn lose_count(&mut self, place: PartitionPlace) {
        let planned = &mut self.planned[place.number()];
        planned.is_counted = false;
        // A failed module may have executed some of its tasks, so the known key may be removed.
        planned.partition.least = None;
    }

    /// Returns the partitions whose numbers of keys are unknown, with their starts.
    pub(crate) fn uncounted(&self) -> Vec<(u64, WordPartition)> {
        let places = self.in_order();
        let places = places.filter(|place| !self.planned[place.number()].is_counted);
        let partitions = places.map(|place| (self.start(place), *self.partition(place)));
        partitions.collect()
    }

    /// Sets the number of keys of the partition that begins at `start`, and its least key, after a
    /// read of all its entries.
    pub(crate) fn count_again(&mut self, start: u64, count: u64, least: Option<u64>) {
        if let Some(place) = self.places.get(start) {
            let planned = &mut self.planned[place as usize];
            planned.partition.count = count;
            planned.partition.least = least;
            planned.coming = 0;
            planned.going = 0;
            planned.is_least_going = false;
            planned.is_counted = true;
        }
    }

    /// Sets the least known key of a partition.
    pub(crate) fn set_least(&mut self, place: PartitionPlace, least: Option<u64>) {
        self.planned[place.number()].partition.least = least;
    }

    /// Ends a batch for a partition, to which `came` keys were added and from which `went` keys
    /// were removed.
    pub(crate) fn settle(&mut self, place: PartitionPlace, came: u64, went: u64) {
        let planned = &mut self.planned[place.number()];
        let partition = &mut planned.partition;
        // After a fault a module may remove keys that were never counted here, so the difference is
        // saturated.
        partition.count = (partition.count + came).saturating_sub(went);
        planned.coming = 0;
        planned.going = 0;
        planned.is_least_going = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(parts: &[(u64, u64, u64)]) -> PartitionDirectory {
        let mut directory = PartitionDirectory::default();
        for (module, &(start, last, count)) in parts.iter().enumerate() {
            let partition = WordPartition {
                last,
                module,
                count,
                list: 0,
                used: 0,
                least: None,
                lowest: start,
            };
            directory.insert(start, partition);
        }
        directory
    }

    fn candidates(
        directory: &PartitionDirectory,
        from: u64,
        to: u64,
        wanted: u64,
        down: bool,
    ) -> Vec<u64> {
        let mut starts = Vec::new();
        directory.candidates(from, to, wanted, down, |place| {
            starts.push(directory.start(place));
        });
        starts
    }

    fn at(directory: &PartitionDirectory, key: u64) -> PartitionPlace {
        directory.find(key).unwrap()
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
    fn a_partition_stays_where_it_is_while_others_come_and_go() {
        let mut directory = directory(&[(0, 9, 1), (20, 29, 2), (40, 49, 3)]);
        let place = at(&directory, 40);
        let partition = directory.remove(20).unwrap();
        assert_eq!((partition.count, directory.remove(20)), (2, None));
        directory.insert(10, partition);
        directory.insert(60, partition);
        directory.remove_within(0, 10);
        directory.settle(place, 4, 0);
        let starts: Vec<u64> = directory.iter().map(|(start, _)| start).collect();
        assert_eq!((starts, directory.places()), (vec![40, 60], 4));
        assert_eq!((directory.start(place), directory.keys()), (40, 9));
        assert_eq!(
            (
                directory.count_within(40, 60),
                directory.count_within(41, 59)
            ),
            (2, 0)
        );
        directory.settle(place, 0, 7);
        assert_eq!(directory.take_empty()[0].0, 40);
        assert_eq!((directory.find(40), directory.len()), (None, 1));
        // A partition replaces one with the same start.
        directory.insert(
            60,
            WordPartition {
                last: 60,
                ..partition
            },
        );
        assert_eq!((directory.find(61), directory.len()), (None, 1));
    }

    #[test]
    fn ordered_operations_look_where_keys_may_be_and_no_further() {
        let parts = [(0, 9, 3), (10, 19, 0), (20, 29, 5), (40, 49, 1)];
        let mut directory = directory(&parts);
        // For a predecessor of 45: all keys from 40 on may be greater.
        assert_eq!(candidates(&directory, 0, 45, 1, true), [40, 20]);
        assert_eq!(candidates(&directory, 0, 49, 1, true), [40]);
        assert_eq!(candidates(&directory, 0, 35, 1, true), [20]);
        // Keys that may be removed are not counted.
        directory.note_removal(at(&directory, 40), 44);
        assert_eq!(candidates(&directory, 0, 49, 1, true), [40, 20]);
        // Partitions with keys that may have been inserted are candidates.
        assert_eq!(candidates(&directory, 5, 60, 4, false), [0, 20]);
        directory.note_insert(at(&directory, 10), 15);
        assert_eq!(candidates(&directory, 5, 60, 4, false), [0, 10, 20]);
        assert_eq!(candidates(&directory, 5, 60, 9, false), [0, 10, 20, 40]);
        assert_eq!(candidates(&directory, 30, 39, 9, false), [0; 0]);
        assert_eq!(candidates(&directory, 39, 30, 9, false), [0; 0]);
        assert_eq!(candidates(&directory, 0, u64::MAX, 0, false), [0; 0]);
        directory.settle(at(&directory, 10), 1, 0);
        directory.settle(at(&directory, 40), 0, 1);
        assert_eq!(directory.keys(), 9);
        assert_eq!(candidates(&directory, 0, 49, 1, true), [20]);
    }

    #[test]
    fn what_has_no_key_as_low_is_not_looked_at() {
        let mut directory = directory(&[(0, 9, 3), (10, 19, 4)]);
        let (start, partition) = directory.of(10).unwrap();
        let lowest = 14;
        directory.insert(
            start,
            WordPartition {
                lowest,
                ..partition
            },
        );
        assert_eq!(candidates(&directory, 0, 13, 1, true), [0]);
        assert_eq!(candidates(&directory, 0, 14, 1, true), [10, 0]);
        assert_eq!(candidates(&directory, 10, 13, 9, false), [0; 0]);
        assert_eq!(candidates(&directory, 5, 20, 9, false), [0, 10]);
        // A possible insert lowers the bound, even if it is not applied.
        let place = at(&directory, 10);
        directory.note_insert(place, 12);
        assert_eq!(candidates(&directory, 0, 13, 1, true), [10, 0]);
        assert_eq!(candidates(&directory, 0, 11, 1, true), [0]);
        directory.settle(place, 0, 0);
        assert_eq!(candidates(&directory, 0, 13, 1, true), [10, 0]);
    }

    #[test]
    fn what_has_a_key_below_is_all_that_is_looked_at() {
        let mut directory = directory(&[(0, 9, 3), (10, 19, 4), (20, 29, 5)]);
        assert_eq!(candidates(&directory, 0, 25, 1, true), [20, 10]);
        directory.set_least(at(&directory, 20), Some(22));
        assert_eq!(candidates(&directory, 0, 25, 1, true), [20]);
        assert_eq!(candidates(&directory, 0, 22, 1, true), [20]);
        assert_eq!(candidates(&directory, 0, 21, 1, true), [20, 10]);
        // The known key counts as one entry only.
        assert_eq!(candidates(&directory, 0, 25, 2, true), [20, 10]);
        assert_eq!(candidates(&directory, 22, 24, 1, false), [20]);
        // The removal of another key makes no difference.
        directory.note_removal(at(&directory, 20), 23);
        assert_eq!(candidates(&directory, 0, 25, 1, true), [20]);
        directory.note_removal(at(&directory, 20), 22);
        assert_eq!(candidates(&directory, 0, 25, 1, true), [20, 10]);
        directory.settle(at(&directory, 20), 0, 1);
        directory.lose_count(at(&directory, 20));
        assert_eq!(candidates(&directory, 0, 25, 1, true), [20, 10]);
    }
}
