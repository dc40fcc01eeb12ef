//! Batches with their expected outcomes.

use super::data::{Data, is_value};
use super::skew::Chooser;
use crate::workload::Random;
use nearfield_core::{Batch, Direction, Error, Operation, Outcome, Words};
use rand::RngExt;
use std::ops::Bound;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Predecessor,
    Insert,
    Update,
    Remove,
    Scan,
}

impl Verb {
    /// All kinds in the order in which they are run: those that change the index last, so that
    /// inserted keys are removed again.
    pub(super) const ALL: [Verb; 6] = [
        Verb::Get,
        Verb::Predecessor,
        Verb::Scan,
        Verb::Update,
        Verb::Insert,
        Verb::Remove,
    ];

    /// Returns the name in the paper.
    pub(super) fn name(self) -> &'static str {
        match self {
            Verb::Get => "Get",
            Verb::Predecessor => "Predecessor",
            Verb::Insert => "Insert",
            Verb::Update => "Update",
            Verb::Remove => "Delete",
            Verb::Scan => "Scan",
        }
    }

    pub(super) fn is_range(self) -> bool {
        self == Verb::Scan
    }
}

/// A mix of operations, in percent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verbs {
    pub name: &'static str,
    pub shares: &'static [(Verb, u32)],
}

impl Verbs {
    /// Creates a mix of a single operation.
    pub(super) fn only(verb: Verb) -> Verbs {
        let shares: &[(Verb, u32)] = match verb {
            Verb::Get => &[(Verb::Get, 100)],
            Verb::Predecessor => &[(Verb::Predecessor, 100)],
            Verb::Insert => &[(Verb::Insert, 100)],
            Verb::Update => &[(Verb::Update, 100)],
            Verb::Remove => &[(Verb::Remove, 100)],
            Verb::Scan => &[(Verb::Scan, 100)],
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
            shares: &[(Verb::Get, 100)],
        },
        Verbs {
            name: "B",
            shares: &[(Verb::Get, 95), (Verb::Update, 5)],
        },
        Verbs {
            name: "A",
            shares: &[(Verb::Get, 50), (Verb::Update, 50)],
        },
        Verbs {
            name: "D",
            shares: &[(Verb::Get, 95), (Verb::Insert, 5)],
        },
        Verbs {
            name: "E",
            shares: &[(Verb::Scan, 95), (Verb::Insert, 5)],
        },
    ];

    /// Returns the number of operations of a batch, if one of points has `batch`: scans have a
    /// hundredth.
    pub(super) fn operations(&self, batch: usize) -> usize {
        let scans = self.shares.iter().any(|(verb, _)| verb.is_range());
        (if scans { batch / 100 } else { batch }).max(1)
    }

    fn draw(&self, random: &mut Random) -> Verb {
        let mut at = random.random_range(0..100);
        for &(verb, share) in self.shares {
            if at < share {
                return verb;
            }
            at -= share;
        }
        self.shares.first().map_or(Verb::Get, |&(verb, _)| verb)
    }
}

/// The expected outcome of an operation.
#[derive(Clone, Copy, Debug)]
enum Expected {
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
pub(super) enum Reach {
    /// Keys are anywhere: a part of the key space that has this number of keys on average.
    Space,
    /// Keys are not evenly distributed: up to the key at this distance.
    Positions,
}

/// Bounds of the number of entries that a scan is expected to find.
const SCANNED: std::ops::RangeInclusive<u64> = 32..=1024;

/// A single operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Get(u64),
    Insert(u64, u64),
    Update(u64, u64),
    Remove(u64),
    /// A scan of this number of keys from a key on.
    Scan(u64, usize),
}

impl Call {
    pub(super) fn key(self) -> u64 {
        match self {
            Call::Get(key)
            | Call::Insert(key, _)
            | Call::Update(key, _)
            | Call::Remove(key)
            | Call::Scan(key, _) => key,
        }
    }
}

/// A batch to execute and check.
pub(super) struct Work {
    pub batch: Batch<Words>,
    expected: Vec<Expected>,
    inserted: usize,
}

impl Work {
    /// Creates a batch for an index with the content of `data`, and applies it to `data`.
    pub(super) fn make(
        data: &mut Data,
        chooser: &Chooser<'_>,
        verbs: &Verbs,
        reach: Reach,
        operations: usize,
        random: &mut Random,
    ) -> Work {
        let mut batch = Batch::with_capacity(operations);
        let mut expected = Vec::with_capacity(operations);
        let drawn = std::iter::repeat_with(|| verbs.draw(random));
        let mut drawn: Vec<Verb> = drawn.take(operations).collect();
        // Published indexes execute batches of one kind. An index that must split a batch at its
        // ordered operations has to do so only once.
        drawn.sort_by_key(|verb| !matches!(verb, Verb::Scan | Verb::Predecessor));
        for verb in drawn {
            expected.push(match verb {
                Verb::Get => {
                    let position = chooser.existing(data, random);
                    batch.get(data.key(position));
                    Expected::Value(data.value(position))
                }
                Verb::Predecessor => {
                    let key = chooser.anywhere(data, random);
                    batch.predecessor(key);
                    Expected::Entry(at_or_below(data, key))
                }
                Verb::Insert => {
                    // Chosen single keys exist already, so a new key is random.
                    let key = match chooser {
                        Chooser::Segments { .. } => chooser.anywhere(data, random),
                        _ => random.random(),
                    };
                    let value = data.insert(key);
                    batch.insert(key, value);
                    Expected::Value(None)
                }
                Verb::Update => {
                    let position = chooser.existing(data, random);
                    let (before, after) = data.update(position);
                    batch.update(data.key(position), before, after);
                    Expected::Applied(before)
                }
                Verb::Remove => {
                    let position = chooser.existing(data, random);
                    batch.remove(data.key(position));
                    Expected::Value(data.remove(position))
                }
                Verb::Scan => {
                    let from = chooser.anywhere(data, random);
                    let to = end_of_scan(data, from, reach, random);
                    let (low, high) = (Bound::Included(from), Bound::Included(to));
                    batch.scan(low, high, u32::MAX, Direction::Ascending);
                    let least = match to.checked_add(1) {
                        Some(end) => data.below(end),
                        None => data.len(),
                    };
                    Expected::Entries {
                        from,
                        to,
                        least: least - data.below(from),
                    }
                }
            });
        }
        Work {
            batch,
            expected,
            inserted: data.coming(),
        }
    }

    /// Returns the operations one by one, for maps that take no batches; without predecessors.
    ///
    /// # Errors
    /// The batch is too large.
    pub(super) fn calls(&self) -> Result<Vec<Call>, Error> {
        let input = self.batch.input()?;
        let operations = input.operations().iter().zip(&self.expected);
        let calls = operations.filter_map(|(operation, expected)| {
            Some(match (*operation, *expected) {
                (Operation::Get { key }, _) => Call::Get(key),
                (Operation::Insert { key, value }, _) => Call::Insert(key, value),
                (Operation::Update { key, value, .. }, _) => Call::Update(key, value),
                (Operation::Remove { key }, _) => Call::Remove(key),
                (_, Expected::Entries { from, least, .. }) => Call::Scan(from, least),
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
                    found.truncate(200);
                    wrong = Some((1, format!("expected {expected:?}, found {found}")));
                }
            }
        }
        wrong
    }

    fn is_right(&self, position: usize, expected: &Expected) -> bool {
        match *expected {
            Expected::Value(Some(value)) => self.batch.value(position) == Some(value),
            Expected::Value(None) => self.batch.outcome(position) == Outcome::Value(None),
            Expected::Applied(before) => {
                let applied = true;
                self.batch.outcome(position) == Outcome::Updated { applied, before }
            }
            Expected::Entry(entry) => self.batch.outcome(position) == Outcome::Entry(entry),
            Expected::Entries { from, to, least } => {
                let mut before = None;
                let mut entries = self.batch.entries(position);
                let count = entries.len();
                (least..=least + self.inserted).contains(&count)
                    && entries.all(|(key, value)| {
                        let ascends = before.replace(key).is_none_or(|before| before < key);
                        ascends && (from..=to).contains(&key) && is_value(key, value)
                    })
            }
        }
    }
}

fn at_or_below(data: &Data, key: u64) -> Option<(u64, u64)> {
    let below = match key.checked_add(1) {
        Some(end) => data.below(end),
        None => data.len(),
    };
    let position = below.checked_sub(1)?;
    Some((data.key(position), data.value(position)?))
}

/// Chooses the last key of a scan that is expected to find 32 to 1024 keys.
fn end_of_scan(data: &Data, from: u64, reach: Reach, random: &mut Random) -> u64 {
    let wanted = random.random_range(SCANNED);
    match reach {
        Reach::Space => {
            let width = (u128::from(wanted) << 64) / data.len().max(1) as u128;
            (u128::from(from) + width).min(u64::MAX.into()) as u64
        }
        Reach::Positions => {
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
    use nearfield_hardware::modules::Preset;
    use nearfield_pim::device::Model;
    use nearfield_pim::rivals::range_partition::RangePartition;

    fn data() -> Data {
        Data::new(Data::anywhere(40_000, 3).collect())
    }

    fn made(data: &mut Data, verbs: &Verbs, reach: Reach) -> Work {
        let skew = Skew::Jump(0.6);
        let shares = skew.shares(64);
        let chooser = skew.chooser(&shares, data, 1, 7);
        // The seed differs, so the keys do, too.
        let random = &mut random(5, data.inserted());
        Work::make(data, &chooser, verbs, reach, 2000, random)
    }

    #[test]
    fn scans_find_as_many_keys_as_is_said() {
        for reach in [Reach::Space, Reach::Positions] {
            let work = made(&mut data(), &Verbs::only(Verb::Scan), reach);
            let counts = work.expected.iter().map(|expected| match expected {
                Expected::Entries { least, .. } => *least,
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
        let index = RangePartition::new(Model::new(8, Preset::UpmemMeasured.parameters()));
        let mut data = data();
        let mut batch = Batch::new();
        for position in 0..data.len() {
            batch.insert(data.key(position), data.value(position).unwrap());
        }
        index.execute(&mut batch).unwrap();
        for verb in Verb::ALL {
            let mut work = made(&mut data, &Verbs::only(verb), Reach::Space);
            assert!(work.check().is_some(), "nothing was executed");
            index.execute(&mut work.batch).unwrap();
            assert_eq!(work.check(), None, "{verb:?}");
            data.settle();
        }
        for verbs in Verbs::YCSB {
            let mut work = made(&mut data, &verbs, Reach::Space);
            index.execute(&mut work.batch).unwrap();
            assert_eq!(work.check(), None, "{}", verbs.name);
            data.settle();
        }
        let mut work = made(&mut data, &Verbs::only(Verb::Get), Reach::Space);
        let lost = match work.expected[7] {
            Expected::Value(value) => value,
            _ => None,
        };
        let position = (0..data.len()).find(|&at| data.value(at) == lost).unwrap();
        index.remove(data.key(position)).unwrap();
        index.execute(&mut work.batch).unwrap();
        assert!(work.check().is_some_and(|(wrong, _)| wrong >= 1));
        assert_eq!(index.len(), data.len() - 1);
    }
}
