//! The partitions of a batch's operations.

use crate::dispatch::directory::{PartitionDirectory, PartitionPlace};
use crate::dispatch::shared_scans::{SharedScanPass, SharedScans};
use nearfield_core::{BatchInput, IndexOperation, Words};
use std::hash::BuildHasher;

/// The partition of each operation on a key, and the operation whose result it uses. Both are
/// looked up only once.
#[derive(Debug)]
pub struct BatchRouting {
    /// Places of operations on single keys; [`NOWHERE`] for other operations, and for keys without
    /// a partition.
    places: Vec<u32>,
    /// The operations that share tasks; empty if none do.
    shared: SharedTasks,
    /// True if operations may share results.
    combines: bool,
    /// The shared reads of scans.
    ranges: SharedScans,
}

const NOWHERE: u32 = u32::MAX;

/// The operations on keys that share a task.
#[derive(Debug, Default)]
struct SharedTasks {
    /// For each operation the earlier one whose task and result it uses, or itself.
    sources: Vec<u32>,
    /// For each update the next one of the same task, or itself.
    nexts: Vec<u32>,
}

impl BatchRouting {
    /// Routes the operations of a batch.
    ///
    /// If `combines`, a get uses the result of an earlier get of its key if the key is not written
    /// in between, and scans share reads likewise. An update that expects the value of an earlier
    /// update of its key joins that task, if in between no operation reads the key, or any keys by
    /// their order. Takes O(n log p) for n operations and p partitions.
    pub fn new(
        input: BatchInput<'_, Words>,
        combines: bool,
        directory: &PartitionDirectory,
    ) -> BatchRouting {
        let shared = match combines {
            true => shared(input),
            false => SharedTasks::default(),
        };
        let places = Vec::new();
        let mut requests = BatchRouting {
            places,
            shared,
            combines,
            ranges: SharedScans::default(),
        };
        requests.find(input, directory);
        requests
    }

    /// Looks up all partitions again, after the directory has changed.
    pub fn find(&mut self, input: BatchInput<'_, Words>, directory: &PartitionDirectory) {
        // All places are looked up at once, because planning and the decisions before it need each
        // several times.
        self.places.clear();
        let operations = input.operations().iter();
        self.places.extend(operations.map(|operation| {
            let key = operation.point_key();
            let place = key.and_then(|key| directory.find(key));
            place.map_or(NOWHERE, |place| place.number() as u32)
        }));
        if self.combines {
            let place = |position, key| self.place(position, key, directory);
            self.ranges = SharedScans::new(input, directory, place);
        }
    }

    /// Returns the partition of an operation on a key. Looks up again a key that had no partition
    /// when this was made.
    pub fn place(
        &self,
        position: usize,
        key: u64,
        directory: &PartitionDirectory,
    ) -> Option<PartitionPlace> {
        match self.places.get(position) {
            // A partition that an operation of this batch creates gets its place after this table
            // was made.
            Some(&number) if number != NOWHERE => Some(PartitionPlace::of(number)),
            _ => directory.find(key),
        }
    }

    /// Returns true if operations may share results.
    pub fn combines(&self) -> bool {
        self.combines
    }

    /// Returns a walk through the operations, by which scans find shared reads.
    pub(crate) fn walk(&self) -> SharedScanPass<'_> {
        SharedScanPass::new(&self.ranges)
    }

    /// Returns the earlier operation whose task and result an operation uses.
    pub fn source(&self, position: usize) -> Option<usize> {
        let source = *self.shared.sources.get(position)? as usize;
        debug_assert!(
            source <= position,
            "only results of earlier operations are used"
        );
        (source != position).then_some(source)
    }

    /// Returns the next update of the same task, after the one at a position.
    pub fn next(&self, position: usize) -> Option<usize> {
        let next = *self.shared.nexts.get(position)? as usize;
        debug_assert!(next >= position);
        (next != position).then_some(next)
    }
}

/// Returns true if an update expects the value that an earlier one sets.
fn follows(
    former: &IndexOperation<Words>,
    update: &IndexOperation<Words>,
    input: BatchInput<'_, Words>,
) -> bool {
    match (*former, *update) {
        (
            IndexOperation::Update {
                value,
                previous: first,
                ..
            },
            IndexOperation::Update { previous, .. },
        ) => input.previous(first).is_some() && input.previous(previous) == Some(value),
        _ => false,
    }
}

fn shared(input: BatchInput<'_, Words>) -> SharedTasks {
    /// Mark of an empty slot.
    const EMPTY: u32 = u32::MAX;
    let operations = input.operations();
    debug_assert!(operations.len() <= EMPTY as usize, "positions have 32 bits");
    // An operation that shares nothing is its own source.
    let mut sources: Vec<u32> = (0..operations.len() as u32).collect();
    let mut nexts = sources.clone();
    // Updates cannot join a task from before this position.
    let mut ordered = 0;
    // A hash table with the last operation on each key that has been read or updated: a get, an
    // update, or a later write. At most half of its slots are used.
    let mut last = vec![EMPTY; (2 * operations.len()).next_power_of_two()];
    let mask = last.len() - 1;
    let hasher = foldhash::fast::RandomState::default();
    for (position, operation) in operations.iter().enumerate() {
        let is_get = matches!(operation, IndexOperation::Get { .. });
        let is_update = matches!(operation, IndexOperation::Update { .. });
        let Some(key) = operation
            .point_key()
            .filter(|_| is_get || operation.is_write())
        else {
            // An ordered operation reads keys that are not listed here. A chain of updates across
            // it would show it values too early.
            ordered = position;
            continue;
        };
        let mut at = hasher.hash_one(key) as usize & mask;
        loop {
            // `EMPTY` exceeds all positions, so an empty slot reads as no operation.
            match operations.get(last[at] as usize) {
                // A key that is not read or updated before its write needs no entry.
                None if is_get || is_update => last[at] = position as u32,
                None => {}
                Some(other) if other.point_key() != Some(key) => {
                    at = (at + 1) & mask;
                    continue;
                }
                Some(other) if is_get && !other.is_write() => sources[position] = last[at],
                Some(other) => {
                    // A write ends the sharing of reads before it: the slot names the write.
                    let former = last[at] as usize;
                    last[at] = position as u32;
                    // The chain continues at its first update, which alone has a task.
                    if former >= ordered && follows(other, operation, input) {
                        sources[position] = sources[former];
                        nexts[former] = position as u32;
                    }
                }
            }
            break;
        }
    }
    SharedTasks { sources, nexts }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_core::Batch;

    #[test]
    fn gets_take_what_was_got_since_their_key_was_written() {
        let mut batch = Batch::<Words>::new();
        batch.insert(7, 0);
        for key in [7, 8, 7] {
            batch.get(key);
        }
        batch.remove(7);
        for key in [8, 7] {
            batch.get(key);
        }
        batch.predecessor(8);
        batch.get(7);
        batch.update(8, Some(0), 1);
        batch.get(8);
        let directory = PartitionDirectory::default();
        let requests = BatchRouting::new(batch.input().unwrap(), true, &directory);
        let found: Vec<Option<usize>> = (0..11).map(|number| requests.source(number)).collect();
        let mut expected = vec![None; 11];
        for (taker, giver) in [(3, 1), (5, 2), (8, 6)] {
            expected[taker] = Some(giver);
        }
        assert_eq!(found, expected);
        let requests = BatchRouting::new(batch.input().unwrap(), false, &directory);
        assert_eq!(requests.source(3), None);
    }

    #[test]
    fn updates_that_follow_each_other_share_a_task() {
        let mut batch = Batch::<Words>::new();
        // A chain of updates, with another key in between.
        batch.update(7, Some(1), 2);
        batch.update(8, Some(1), 2);
        batch.update(7, Some(2), 3);
        batch.update(7, Some(3), 4);
        // Updates that expect another value, or follow a get, a scan or an insertion.
        batch.update(7, Some(9), 5);
        batch.get(7);
        batch.update(7, Some(5), 6);
        batch.predecessor(3);
        batch.update(7, Some(6), 7);
        batch.insert(7, 8);
        batch.update(7, Some(8), 9);
        // An update that expects an absent key may not apply, so its value need not be present.
        batch.update(9, None, 2);
        batch.update(9, Some(2), 3);
        let directory = PartitionDirectory::default();
        let requests = BatchRouting::new(batch.input().unwrap(), true, &directory);
        let of = |number| (requests.source(number), requests.next(number));
        let found: Vec<_> = (0..13).map(of).collect();
        let mut expected = vec![(None, None); 13];
        expected[0] = (None, Some(2));
        expected[2] = (Some(0), Some(3));
        expected[3] = (Some(0), None);
        assert_eq!(found, expected);
        let requests = BatchRouting::new(batch.input().unwrap(), false, &directory);
        assert_eq!((requests.source(2), requests.next(0)), (None, None));
    }

    /// Each operation has a key of its own, and many keys collide in the table.
    #[test]
    fn keys_that_meet_are_told_apart() {
        let mut batch = Batch::<Words>::new();
        for turn in 0..3 {
            for key in 0..1000_u64 {
                batch.get(key << 40);
                if turn == 1 && key % 2 == 0 {
                    batch.insert(key << 40, 1);
                }
            }
        }
        let requests =
            BatchRouting::new(batch.input().unwrap(), true, &PartitionDirectory::default());
        for key in 0..1000 {
            assert_eq!(requests.source(key), None);
            let second = 1000 + key + key.div_ceil(2);
            assert_eq!(requests.source(second), Some(key));
            let source = if key % 2 == 0 { None } else { Some(key) };
            assert_eq!(requests.source(2500 + key), source);
        }
    }
}
