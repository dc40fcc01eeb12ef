//! Ranges that several scans of a batch share.

use crate::dispatch::directory::{PartitionDirectory, PartitionPlace, WordPartition};
use crate::dispatch::task::ModuleTask;
use nearfield_core::plan::inclusive;
use nearfield_core::{BatchInput, IndexOperation, ScanDirection, Words};

/// The reads of partitions by the scans of a batch, merged where they overlap. Each merged range is
/// read once, and each scan takes its part.
///
/// Scans share a read only if no operation writes the partition between them. Descending scans do
/// not share reads.
#[derive(Debug, Default)]
pub(crate) struct SharedScans {
    /// The shared reads, ordered by section and start.
    joint: Vec<Joint>,
}

/// The part of a batch between two writes of a partition, during which the partition does not
/// change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WriteFreeSection {
    place: u32,
    /// Number of earlier writes of the partition in the batch.
    writes: u32,
}

/// The range that a scan reads: up to `limit` entries from `from` to `to`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ScanKeyRange {
    pub from: u64,
    pub to: u64,
    pub limit: u64,
}

impl ScanKeyRange {
    /// Returns the range of the first entry from a key on.
    pub fn next(key: u64) -> ScanKeyRange {
        ScanKeyRange {
            from: key,
            to: u64::MAX,
            limit: 1,
        }
    }

    /// Returns the part of the range within a partition.
    pub fn within(self, start: u64, partition: &WordPartition) -> ScanKeyRange {
        let part = ScanKeyRange {
            from: self.from.max(start),
            to: self.to.min(partition.last),
            ..self
        };
        debug_assert!(part.from <= part.to, "the partition overlaps the range");
        part
    }

    /// Returns the task that reads the range in the partition in a place.
    pub fn task(
        self,
        directory: &PartitionDirectory,
        place: PartitionPlace,
        descends: bool,
    ) -> ModuleTask<'static> {
        let ScanKeyRange { from, to, limit } = self;
        ModuleTask::Scan {
            start: directory.start(place),
            from,
            to,
            limit,
            descends,
        }
    }

    /// Returns true if this read includes all of another.
    fn covers(&self, other: &ScanKeyRange) -> bool {
        // The limit may end a read anywhere, but a range with the same start contains its first
        // entries.
        let has_enough =
            self.limit == u64::MAX || self.from == other.from && self.limit >= other.limit;
        self.from <= other.from && self.to >= other.to && has_enough
    }

    /// Returns the expected number of entries in a partition, if keys are spread evenly.
    fn entries(self, start: u64, partition: &WordPartition) -> u64 {
        part_of_scan(start, partition, self).2
    }
}

/// A read that several scans share.
#[derive(Clone, Copy, Debug)]
struct Joint {
    section: WriteFreeSection,
    reach: ScanKeyRange,
}

impl SharedScans {
    /// Finds the shared reads of a batch's scans. `place` returns the partition of a writing
    /// operation. Takes O(n log n) for n reads of partitions by scans.
    pub fn new(
        input: BatchInput<'_, Words>,
        directory: &PartitionDirectory,
        place: impl Fn(usize, u64) -> Option<PartitionPlace>,
    ) -> SharedScans {
        let scans = input
            .operations()
            .iter()
            .filter(|operation| is_shared(operation));
        // Most batches have no scans, and one scan has no one to share with.
        if scans.count() < 2 {
            return SharedScans::default();
        }
        let mut writes = PartitionWriteCounts::default();
        // The reads with their expected numbers of entries.
        let mut wanted: Vec<(WriteFreeSection, ScanKeyRange, u64)> = Vec::new();
        for (position, operation) in input.operations().iter().enumerate() {
            match *operation {
                IndexOperation::Scan { range, limit, .. } if is_shared(operation) => {
                    let Some((from, to)) = inclusive(input.range(range)) else {
                        continue;
                    };
                    let limit = u64::from(limit);
                    let reach = ScanKeyRange { from, to, limit };
                    let mut left = limit;
                    directory.candidates(from, to, limit, false, |place| {
                        let (start, partition) =
                            (directory.start(place), directory.partition(place));
                        let own = reach.within(start, partition);
                        let entries = ScanKeyRange { limit: left, ..own }.entries(start, partition);
                        // Entries that earlier partitions are expected to return are not read here.
                        // The range keeps the whole limit, since that is only an estimate.
                        left = left.saturating_sub(entries);
                        wanted.push((writes.section(place), own, entries));
                    });
                }
                _ if operation.is_write() => {
                    let place = operation.point_key().and_then(|key| place(position, key));
                    if let Some(place) = place {
                        // A write begins a new section, so that reads on both its sides are kept
                        // apart.
                        writes.note(place);
                    }
                }
                _ => {}
            }
        }
        wanted.sort_unstable();
        // Sections come first in the order, so each is one chunk, with its ranges by their starts.
        let mut joint = Vec::new();
        for of_section in wanted.chunk_by(|one, other| one.0 == other.0) {
            let section = of_section[0].0;
            let place = PartitionPlace::of(section.place);
            let (start, partition) = (directory.start(place), directory.partition(place));
            let reaches = join(start, partition, of_section);
            joint.extend(reaches.into_iter().map(|reach| Joint { section, reach }));
        }
        debug_assert!(joint.is_sorted_by_key(|joint| (joint.section, joint.reach.from)));
        SharedScans { joint }
    }

    /// Returns the number of the shared read that includes a scan's read in a section.
    fn find(&self, section: WriteFreeSection, reach: &ScanKeyRange) -> Option<usize> {
        let of = |joint: &Joint| (joint.section, joint.reach.from);
        let after = self
            .joint
            .partition_point(|joint| of(joint) <= (section, reach.from));
        let number = after.checked_sub(1)?;
        let joint = &self.joint[number];
        (joint.section == section && joint.reach.covers(reach)).then_some(number)
    }
}

/// Returns true if other operations may share an operation's read.
pub(crate) fn is_shared(operation: &IndexOperation<Words>) -> bool {
    let direction = ScanDirection::Ascending;
    matches!(operation, IndexOperation::Scan { direction: own, .. } if *own == direction)
}

/// Returns a scan's expected read of a partition, assuming that keys are spread evenly: the first
/// and the last key, and the number of entries.
pub(crate) fn part_of_scan(
    start: u64,
    partition: &WordPartition,
    reach: ScanKeyRange,
) -> (u64, u64, u64) {
    let ScanKeyRange { from, to, limit } = reach;
    let (first, end) = (from.max(start), to.min(partition.last).max(from.max(start)));
    // A subrange may span all 2^64 keys, so its width is computed in floating point.
    let width = (partition.last - start) as f64 + 1.0;
    let density = partition.count as f64 / width;
    let within = ((end - first) as f64 + 1.0) * density;
    let entries = (within.ceil() as u64).min(limit);
    let reach = (entries as f64 / density.max(f64::MIN_POSITIVE)) as u64;
    (first, end.min(first.saturating_add(reach)), entries)
}

/// Merges ordered ranges of a partition where that reduces the number of entries read. Returns the
/// ranges that several scans share.
fn join(
    start: u64,
    partition: &WordPartition,
    wanted: &[(WriteFreeSection, ScanKeyRange, u64)],
) -> Vec<ScanKeyRange> {
    /// A range, its number of entries, and its number of scans.
    struct SharedRangeGroup {
        reach: ScanKeyRange,
        entries: u64,
        scans: usize,
    }
    let mut groups: Vec<SharedRangeGroup> = Vec::new();
    for &(_, reach, entries) in wanted {
        debug_assert!(
            groups
                .last()
                .is_none_or(|last| last.reach.from <= reach.from)
        );
        if let Some(last) = groups.last_mut()
            && reach.from <= last.reach.to
        {
            let is_prefix = last.reach.from == reach.from;
            // Only ranges with one start agree on their first entries. Otherwise the limit says
            // nothing about which entries are needed, so the merged range is read whole.
            let both = ScanKeyRange {
                from: last.reach.from,
                to: last.reach.to.max(reach.to),
                limit: match is_prefix {
                    true => last.reach.limit.max(reach.limit),
                    false => u64::MAX,
                },
            };
            let entries_of_both = both.entries(start, partition);
            // Ranges that overlap little may cost more together, because the merged one has no
            // limit.
            if is_prefix || entries_of_both <= last.entries + entries {
                *last = SharedRangeGroup {
                    reach: both,
                    entries: entries_of_both,
                    scans: last.scans + 1,
                };
                continue;
            }
        }
        groups.push(SharedRangeGroup {
            reach,
            entries,
            scans: 1,
        });
    }
    // Ranges with limits may have not been merged pairwise, and yet together read more entries than
    // the whole range contains.
    let all = ScanKeyRange {
        from: wanted.first().map_or(start, |(_, reach, _)| reach.from),
        to: wanted
            .iter()
            .map(|(_, reach, _)| reach.to)
            .max()
            .unwrap_or(start),
        limit: u64::MAX,
    };
    if all.entries(start, partition) < groups.iter().map(|group| group.entries).sum() {
        return vec![all];
    }
    // A range of one scan is read for that scan alone, with its limit.
    groups.retain(|group| group.scans > 1);
    groups.into_iter().map(|group| group.reach).collect()
}

/// Numbers of writes of the partitions so far, by place.
#[derive(Debug, Default)]
struct PartitionWriteCounts(Vec<u32>);

impl PartitionWriteCounts {
    fn note(&mut self, place: PartitionPlace) {
        let number = place.number();
        if self.0.len() <= number {
            self.0.resize(number + 1, 0);
        }
        self.0[number] += 1;
    }

    fn section(&self, place: PartitionPlace) -> WriteFreeSection {
        WriteFreeSection {
            place: place.number() as u32,
            writes: self.0.get(place.number()).copied().unwrap_or(0),
        }
    }
}

/// A pass over the operations of a batch that records the shared ranges read so far.
#[derive(Debug)]
pub(crate) struct SharedScanPass<'r> {
    ranges: &'r SharedScans,
    writes: PartitionWriteCounts,
    /// The note of each shared range that was read.
    read: Vec<Option<u32>>,
}

/// A scan's read of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartitionScanRead {
    /// A read for this scan alone.
    Own,
    /// The first of the scans that share this read. The number is used for its
    /// [note](SharedScanPass::note).
    First(usize, ScanKeyRange),
    /// A read that an earlier scan has made, with its note.
    Again(u32),
}

impl<'r> SharedScanPass<'r> {
    pub fn new(ranges: &'r SharedScans) -> SharedScanPass<'r> {
        SharedScanPass {
            ranges,
            writes: PartitionWriteCounts::default(),
            read: vec![None; ranges.joint.len()],
        }
    }

    /// Records a possible write of a partition.
    pub fn wrote(&mut self, place: PartitionPlace) {
        // Sections are compared only with those of shared reads.
        if !self.ranges.joint.is_empty() {
            self.writes.note(place);
        }
    }

    /// Returns the kind of a scan's read of the partition in a place.
    pub fn read(&self, place: PartitionPlace, reach: &ScanKeyRange) -> PartitionScanRead {
        match self.ranges.find(self.writes.section(place), reach) {
            None => PartitionScanRead::Own,
            Some(number) => match self.read[number] {
                None => PartitionScanRead::First(number, self.ranges.joint[number].reach),
                Some(noted) => PartitionScanRead::Again(noted),
            },
        }
    }

    /// Stores a note for a shared range that is read.
    pub fn note(&mut self, number: usize, what: u32) {
        debug_assert!(self.read[number].is_none(), "a shared range is read once");
        self.read[number] = Some(what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_core::Batch;
    use std::ops::Bound::Included;

    /// Returns a partition of a hundred keys from 1000 to 1999.
    fn partition() -> WordPartition {
        WordPartition {
            last: 1999,
            module: 0,
            count: 100,
            list: 0,
            used: 0,
            least: None,
            lowest: 1000,
        }
    }

    fn reach(from: u64, to: u64, limit: u64) -> ScanKeyRange {
        ScanKeyRange { from, to, limit }
    }

    #[test]
    fn a_scan_reads_what_lies_in_its_range_up_to_its_limit() {
        let partition = partition();
        let found = |from, to, limit| part_of_scan(1000, &partition, reach(from, to, limit));
        assert_eq!(found(0, u64::MAX, 500), (1000, 1999, 100));
        assert_eq!(found(1500, u64::MAX, 500), (1500, 1999, 50));
        assert_eq!(found(1500, 1599, 500), (1500, 1599, 10));
        assert_eq!(found(1500, u64::MAX, 20), (1500, 1700, 20));
        assert_eq!(found(0, 1000, 20), (1000, 1000, 1));
        assert_eq!(found(0, u64::MAX, 0).2, 0);
        let all = WordPartition {
            last: u64::MAX,
            count: u64::MAX,
            ..partition
        };
        assert_eq!(part_of_scan(0, &all, reach(0, u64::MAX, 7)).2, 7);
    }

    /// Returns the shared reads that [`join`] makes of these ranges.
    fn joined(wanted: &[ScanKeyRange]) -> Vec<ScanKeyRange> {
        let partition = partition();
        let section = WriteFreeSection {
            place: 0,
            writes: 0,
        };
        let with_entries =
            |&reach: &ScanKeyRange| (section, reach, reach.entries(1000, &partition));
        let mut wanted: Vec<_> = wanted.iter().map(with_entries).collect();
        wanted.sort_unstable();
        join(1000, &partition, &wanted)
    }

    #[test]
    fn what_overlaps_is_read_once_and_nothing_between() {
        let all = u64::MAX;
        let wanted = [
            reach(1000, 1199, all),
            reach(1100, 1299, all),
            reach(1250, 1260, all),
            reach(1500, 1599, all),
            reach(1700, 1799, all),
            reach(1700, 1749, all),
        ];
        let expected = [reach(1000, 1299, all), reach(1700, 1799, all)];
        assert_eq!(joined(&wanted), expected);
    }

    #[test]
    fn what_limits_cut_off_is_read_as_a_whole_once_that_is_less() {
        let from = |key, limit| reach(key, 1999, limit);
        // Ranges with the same start share their first entries.
        assert_eq!(joined(&[from(1000, 5), from(1000, 9)]), [from(1000, 9)]);
        assert_eq!(joined(&[from(1000, 5), from(1100, 5)]), []);
        let many: Vec<ScanKeyRange> = (0..30).map(|number| from(1000 + 10 * number, 5)).collect();
        assert_eq!(joined(&many), [from(1000, u64::MAX)]);
    }

    #[test]
    fn a_write_ends_what_is_read_together() {
        let mut directory = PartitionDirectory::default();
        directory.insert(1000, partition());
        let place = directory.find(1000).unwrap();
        let mut batch = Batch::<Words>::new();
        for turn in 0..2 {
            for (from, to, direction) in [
                (1000, 1199, ScanDirection::Ascending),
                (1100, 1299, ScanDirection::Ascending),
                (1200, 1999, ScanDirection::Descending),
            ] {
                batch.scan(Included(from), Included(to), u32::MAX, direction);
            }
            batch.insert(1150, turn);
        }
        let find = |_, key| directory.find(key);
        let ranges = SharedScans::new(batch.input().unwrap(), &directory, find);
        let (one, other) = (reach(1000, 1199, 9), reach(1100, 1299, u64::MAX));
        let both = reach(1000, 1299, u64::MAX);
        let mut walk = SharedScanPass::new(&ranges);
        assert_eq!(walk.read(place, &one), PartitionScanRead::First(0, both));
        walk.note(0, 7);
        assert_eq!(walk.read(place, &other), PartitionScanRead::Again(7));
        assert_eq!(
            walk.read(place, &reach(1000, 1300, 9)),
            PartitionScanRead::Own
        );
        walk.wrote(place);
        assert_eq!(walk.read(place, &other), PartitionScanRead::First(1, both));
        walk.note(1, 8);
        assert_eq!(walk.read(place, &one), PartitionScanRead::Again(8));
        walk.wrote(place);
        assert_eq!(walk.read(place, &one), PartitionScanRead::Own);
    }
}
