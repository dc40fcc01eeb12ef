//! Batches with their expected outcomes.

use super::data::{ExpectedEntries, is_value};
use super::skew::Chooser;
use crate::workload::Random;
use RadarOperationKind::{Get, Insert, Predecessor, Remove, Scan, Update};
use nearfield_core::{
    Batch, IndexOperation, OperationError, OperationOutcome, ScanDirection, Words,
};
use rand::RngExt;
use std::ops::Bound;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RadarOperationKind {
    Get,
    Predecessor,
    Insert,
    Update,
    Remove,
    Scan,
}

impl RadarOperationKind {
    /// All kinds in the order in which they are run: those that change the index last, so that
    /// inserted keys are removed again.
    pub(super) const ALL: [RadarOperationKind; 6] = [
        RadarOperationKind::Get,
        RadarOperationKind::Predecessor,
        RadarOperationKind::Scan,
        RadarOperationKind::Update,
        RadarOperationKind::Insert,
        RadarOperationKind::Remove,
    ];

    /// Returns the name in the paper.
    pub(super) const fn name(self) -> &'static str {
        match self {
            RadarOperationKind::Get => "Get",
            RadarOperationKind::Predecessor => "Predecessor",
            RadarOperationKind::Insert => "Insert",
            RadarOperationKind::Update => "Update",
            RadarOperationKind::Remove => "Delete",
            RadarOperationKind::Scan => "Scan",
        }
    }

    pub(super) fn is_range(self) -> bool {
        self == RadarOperationKind::Scan
    }
}

/// A mix of operations, in percent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verbs {
    pub name: &'static str,
    pub shares: &'static [(RadarOperationKind, u32)],
}

impl Verbs {
    /// Creates a mix of a single operation.
    pub(super) fn only(verb: RadarOperationKind) -> Verbs {
        let shares: &[(RadarOperationKind, u32)] = match verb {
            Get => &[(Get, 100)],
            Predecessor => &[(Predecessor, 100)],
            Insert => &[(Insert, 100)],
            Update => &[(Update, 100)],
            Remove => &[(Remove, 100)],
            Scan => &[(Scan, 100)],
        };
        Verbs {
            name: verb.name(),
            shares,
        }
    }

    /// YCSB's workloads as RADAR mixes them; the one that inserts is last.
    pub(super) const YCSB: [Verbs; 5] = [
        Verbs {
            name: "C",
            shares: &[(Get, 100)],
        },
        Verbs {
            name: "B",
            shares: &[(Get, 95), (Update, 5)],
        },
        Verbs {
            name: "A",
            shares: &[(Get, 50), (Update, 50)],
        },
        Verbs {
            name: "D",
            shares: &[(Get, 95), (Insert, 5)],
        },
        Verbs {
            name: "E",
            shares: &[(Scan, 95), (Insert, 5)],
        },
    ];

    /// Returns the number of operations of a batch, if one of points has `batch`: scans have a
    /// hundredth.
    pub(super) fn operations(&self, batch: usize) -> usize {
        let scans = self.shares.iter().any(|(verb, _)| verb.is_range());
        (if scans { batch / 100 } else { batch }).max(1)
    }

    fn draw(&self, random: &mut Random) -> RadarOperationKind {
        debug_assert_eq!(self.shares.iter().map(|(_, share)| share).sum::<u32>(), 100);
        let mut at = random.random_range(0..100);
        for &(verb, share) in self.shares {
            if at < share {
                return verb;
            }
            at -= share;
        }
        self.shares
            .first()
            .map_or(RadarOperationKind::Get, |&(verb, _)| verb)
    }
}

/// The expected outcome of an operation.
#[derive(Clone, Copy, Debug)]
enum RadarExpectedOutcome {
    Value(Option<u64>),
    Applied(Option<u64>),
    Entry(Option<(u64, u64)>),
    /// Entries that existed before the batch, between two keys: at least this number.
    Entries {
        from: u64,
        to: u64,
        least: usize,
    },
}

/// The length of a scan, by the number of keys that it is expected to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanLengthRule {
    /// Keys are anywhere: a part of the key space that has this number of keys on average.
    Space,
    /// Keys are not evenly distributed: up to the key at this distance.
    Positions,
}

/// Bounds of the number of entries that a scan is expected to find.
const SCANNED: std::ops::RangeInclusive<u64> = 32..=1024;

/// A single operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum RadarSingleOperation {
    Get(u64),
    Insert(u64, u64),
    Update(u64, u64),
    Remove(u64),
    /// A scan of this number of keys from a key on.
    Scan(u64, usize),
}

impl RadarSingleOperation {
    pub(super) fn key(self) -> u64 {
        match self {
            RadarSingleOperation::Get(key)
            | RadarSingleOperation::Insert(key, _)
            | RadarSingleOperation::Update(key, _)
            | RadarSingleOperation::Remove(key)
            | RadarSingleOperation::Scan(key, _) => key,
        }
    }
}

/// A batch to execute and check.
pub(super) struct RadarCheckedBatch {
    pub batch: Batch<Words>,
    expected: Vec<RadarExpectedOutcome>,
    inserted: usize,
}

impl RadarCheckedBatch {
    /// Creates a batch for an index with the content of `data`, and applies it to `data`.
    pub(super) fn make(
        data: &mut ExpectedEntries,
        chooser: &Chooser<'_>,
        verbs: &Verbs,
        reach: ScanLengthRule,
        operations: usize,
        random: &mut Random,
    ) -> RadarCheckedBatch {
        let mut batch = Batch::with_capacity(operations);
        let mut expected = Vec::with_capacity(operations);
        let drawn = std::iter::repeat_with(|| verbs.draw(random));
        let mut drawn: Vec<RadarOperationKind> = drawn.take(operations).collect();
        // Published indexes execute batches of one kind. An index that must split a batch at its
        // ordered operations has to do so only once.
        drawn.sort_by_key(|verb| {
            !matches!(
                verb,
                RadarOperationKind::Scan | RadarOperationKind::Predecessor
            )
        });
        for verb in drawn {
            expected.push(match verb {
                RadarOperationKind::Get => {
                    // Values follow the batch so far, while positions stay until its end.
                    let position = chooser.existing(data, random);
                    batch.get(data.key(position));
                    RadarExpectedOutcome::Value(data.value(position))
                }
                RadarOperationKind::Predecessor => {
                    let key = chooser.anywhere(data, random);
                    batch.predecessor(key);
                    RadarExpectedOutcome::Entry(at_or_below(data, key))
                }
                RadarOperationKind::Insert => {
                    // Chosen single keys exist already, so a new key is random.
                    let key = match chooser {
                        Chooser::Segments { .. } => chooser.anywhere(data, random),
                        _ => random.random(),
                    };
                    let value = data.insert(key);
                    batch.insert(key, value);
                    RadarExpectedOutcome::Value(None)
                }
                RadarOperationKind::Update => {
                    let position = chooser.existing(data, random);
                    let (before, after) = data.update(position);
                    batch.update(data.key(position), before, after);
                    RadarExpectedOutcome::Applied(before)
                }
                RadarOperationKind::Remove => {
                    let position = chooser.existing(data, random);
                    batch.remove(data.key(position));
                    RadarExpectedOutcome::Value(data.remove(position))
                }
                RadarOperationKind::Scan => {
                    let from = chooser.anywhere(data, random);
                    let to = end_of_scan(data, from, reach, random);
                    debug_assert!(from <= to);
                    let (low, high) = (Bound::Included(from), Bound::Included(to));
                    batch.scan(low, high, u32::MAX, ScanDirection::Ascending);
                    let least = match to.checked_add(1) {
                        Some(end) => data.below(end),
                        None => data.len(),
                    };
                    RadarExpectedOutcome::Entries {
                        from,
                        to,
                        least: least - data.below(from),
                    }
                }
            });
        }
        debug_assert_eq!(batch.len(), expected.len());
        RadarCheckedBatch {
            batch,
            expected,
            inserted: data.coming(),
        }
    }

    /// Returns the operations one by one, for maps that take no batches; without predecessors.
    ///
    /// # Errors
    /// The batch is too large.
    pub(super) fn calls(&self) -> Result<Vec<RadarSingleOperation>, OperationError> {
        let input = self.batch.input()?;
        let operations = input.operations().iter().zip(&self.expected);
        let calls = operations.filter_map(|(operation, expected)| {
            Some(match (*operation, *expected) {
                (IndexOperation::Get { key }, _) => RadarSingleOperation::Get(key),
                (IndexOperation::Insert { key, value }, _) => {
                    RadarSingleOperation::Insert(key, value)
                }
                (IndexOperation::Update { key, value, .. }, _) => {
                    RadarSingleOperation::Update(key, value)
                }
                (IndexOperation::Remove { key }, _) => RadarSingleOperation::Remove(key),
                // Peers scan a number of entries: those that are certainly there.
                (_, RadarExpectedOutcome::Entries { from, least, .. }) => {
                    RadarSingleOperation::Scan(from, least)
                }
                _ => return None,
            })
        });
        Ok(calls.collect())
    }

    /// Returns the number of wrong outcomes and the first of them, if there are any.
    pub(super) fn check(&self) -> Option<(u64, String)> {
        let mut wrong: Option<(u64, String)> = None;
        for (position, expected) in self.expected.iter().enumerate() {
            if self.is_right(position, expected) {
                continue;
            }
            match &mut wrong {
                Some((count, _)) => *count += 1,
                None => {
                    let mut found = format!("{:?}", self.batch.outcome(position));
                    // A scan may have found a thousand entries.
                    found.truncate(200);
                    wrong = Some((1, format!("expected {expected:?}, found {found}")));
                }
            }
        }
        wrong
    }

    fn is_right(&self, position: usize, expected: &RadarExpectedOutcome) -> bool {
        match *expected {
            RadarExpectedOutcome::Value(Some(value)) => self.batch.value(position) == Some(value),
            RadarExpectedOutcome::Value(None) => {
                self.batch.outcome(position) == OperationOutcome::Value(None)
            }
            RadarExpectedOutcome::Applied(before) => {
                let applied = true;
                self.batch.outcome(position) == OperationOutcome::Updated { applied, before }
            }
            RadarExpectedOutcome::Entry(entry) => {
                self.batch.outcome(position) == OperationOutcome::Entry(entry)
            }
            RadarExpectedOutcome::Entries { from, to, least } => {
                let mut before = None;
                let mut entries = self.batch.entries(position);
                let count = entries.len();
                // Keys that this batch inserts may be among them.
                (least..=least + self.inserted).contains(&count)
                    && entries.all(|(key, value)| {
                        let ascends = before.replace(key).is_none_or(|before| before < key);
                        ascends && (from..=to).contains(&key) && is_value(key, value)
                    })
            }
        }
    }
}

fn at_or_below(data: &ExpectedEntries, key: u64) -> Option<(u64, u64)> {
    // Every key is at or below the greatest word.
    let below = match key.checked_add(1) {
        Some(end) => data.below(end),
        None => data.len(),
    };
    let position = below.checked_sub(1)?;
    Some((data.key(position), data.value(position)?))
}

/// Chooses the last key of a scan that is expected to find 32 to 1024 keys.
fn end_of_scan(
    data: &ExpectedEntries,
    from: u64,
    reach: ScanLengthRule,
    random: &mut Random,
) -> u64 {
    let wanted = random.random_range(SCANNED);
    match reach {
        ScanLengthRule::Space => {
            let width = (u128::from(wanted) << 64) / data.len().max(1) as u128;
            (u128::from(from) + width).min(u64::MAX.into()) as u64
        }
        ScanLengthRule::Positions => {
            let last = data.below(from) + wanted as usize - 1;
            data.key(last.min(data.len() - 1)).max(from)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::skew::Skew;
    use super::*;
    use crate::workload::random;
    use nearfield_core::OrderedIndex;
    use nearfield_hardware::modules::ModulePreset;
    use nearfield_pim::device::Model;
    use nearfield_pim_rivals::range_partition::RangePartition;

    fn data() -> ExpectedEntries {
        ExpectedEntries::new(ExpectedEntries::anywhere(40_000, 3).collect())
    }

    fn made(data: &mut ExpectedEntries, verbs: &Verbs, reach: ScanLengthRule) -> RadarCheckedBatch {
        let skew = Skew::Jump(0.6);
        let shares = skew.shares(64);
        let chooser = skew.chooser(&shares, data, 1, 7);
        // The seed differs, so the keys do, too.
        let random = &mut random(5, data.inserted());
        RadarCheckedBatch::make(data, &chooser, verbs, reach, 2000, random)
    }

    #[test]
    fn scans_find_as_many_keys_as_is_said() {
        for reach in [ScanLengthRule::Space, ScanLengthRule::Positions] {
            let work = made(&mut data(), &Verbs::only(RadarOperationKind::Scan), reach);
            let counts = work.expected.iter().map(|expected| match expected {
                RadarExpectedOutcome::Entries { least, .. } => *least,
                _ => panic!("not a scan"),
            });
            let counts: Vec<usize> = counts.collect();
            let mean = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
            assert!((505.0..550.0).contains(&mean), "{mean}");
            assert!(counts.iter().all(|&count| count <= 1200));
        }
    }

    #[test]
    fn answers_are_checked_and_wrong_ones_noticed() {
        let index = RangePartition::new(Model::new(8, ModulePreset::UpmemMeasured.parameters()));
        let mut data = data();
        let mut batch = Batch::new();
        for position in 0..data.len() {
            batch.insert(data.key(position), data.value(position).unwrap());
        }
        index.execute(&mut batch).unwrap();
        for verb in RadarOperationKind::ALL {
            let mut work = made(&mut data, &Verbs::only(verb), ScanLengthRule::Space);
            assert!(work.check().is_some(), "nothing was executed");
            index.execute(&mut work.batch).unwrap();
            assert_eq!(work.check(), None, "{verb:?}");
            data.settle();
        }
        for verbs in Verbs::YCSB {
            let mut work = made(&mut data, &verbs, ScanLengthRule::Space);
            index.execute(&mut work.batch).unwrap();
            assert_eq!(work.check(), None, "{}", verbs.name);
            data.settle();
        }
        let mut work = made(
            &mut data,
            &Verbs::only(RadarOperationKind::Get),
            ScanLengthRule::Space,
        );
        let lost = match work.expected[7] {
            RadarExpectedOutcome::Value(value) => value,
            _ => None,
        };
        let position = (0..data.len()).find(|&at| data.value(at) == lost).unwrap();
        index.remove(data.key(position)).unwrap();
        index.execute(&mut work.batch).unwrap();
        assert!(work.check().is_some_and(|(wrong, _)| wrong >= 1));
        assert_eq!(index.len(), data.len() - 1);
    }
}
