//! A batch executed by its plan has the same outcomes as its operations executed one after the
//! other.

use super::{GroupKind, Groups, InitialKeyState, OperationGroup, fold, phases, write_outcome};
use crate::{Batch, BatchOutput, IndexOperation, OperationOutcome, ScanDirection, Words};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Bound;

type Map = BTreeMap<u64, u64>;

/// An operation in a random batch.
#[derive(Clone, Debug)]
enum PlanTestOperation {
    Get(u64),
    Insert(u64, u64),
    Update(u64, Option<u64>, u64),
    Remove(u64),
    RemoveIf(u64, u64),
    Predecessor(u64),
    Successor(u64),
    Scan(u64, u64, u32),
}

fn any_operation() -> impl Strategy<Value = PlanTestOperation> {
    // Few keys and values, so that operations often share a key.
    let (key, value) = (0..8_u64, 0..3_u64);
    prop_oneof![
        key.clone().prop_map(PlanTestOperation::Get),
        (key.clone(), value.clone()).prop_map(|(key, value)| PlanTestOperation::Insert(key, value)),
        (
            key.clone(),
            proptest::option::of(value.clone()),
            value.clone()
        )
            .prop_map(|(key, previous, value)| PlanTestOperation::Update(key, previous, value)),
        key.clone().prop_map(PlanTestOperation::Remove),
        (key.clone(), value).prop_map(|(key, expected)| PlanTestOperation::RemoveIf(key, expected)),
        key.clone().prop_map(PlanTestOperation::Predecessor),
        key.clone().prop_map(PlanTestOperation::Successor),
        (key.clone(), key, 0..4_u32)
            .prop_map(|(low, high, limit)| PlanTestOperation::Scan(low, high, limit)),
    ]
}

fn batch_of(list: &[PlanTestOperation]) -> Batch<Words> {
    let mut batch = Batch::new();
    for operation in list {
        match *operation {
            PlanTestOperation::Get(key) => batch.get(key),
            PlanTestOperation::Insert(key, value) => batch.insert(key, value),
            PlanTestOperation::Update(key, previous, value) => batch.update(key, previous, value),
            PlanTestOperation::Remove(key) => batch.remove(key),
            PlanTestOperation::RemoveIf(key, expected) => batch.remove_if(key, expected),
            PlanTestOperation::Predecessor(key) => batch.predecessor(key),
            PlanTestOperation::Successor(key) => batch.successor(key),
            PlanTestOperation::Scan(low, high, limit) => batch.scan(
                Bound::Included(low),
                Bound::Included(high),
                limit,
                ScanDirection::Ascending,
            ),
        };
    }
    batch
}

fn ordered(
    map: &Map,
    operation: &IndexOperation<Words>,
    position: usize,
    output: &mut BatchOutput<'_, Words>,
) {
    let entry = |(&key, &value): (&u64, &u64)| (key, value);
    match *operation {
        IndexOperation::Predecessor { key } => {
            output.entry(position, map.range(..=key).next_back().map(entry));
        }
        IndexOperation::Successor { key } => {
            output.entry(position, map.range(key..).next().map(entry));
        }
        _ => unreachable!("scans are executed with their bounds"),
    }
}

/// Executes a batch by its plan. `order` is the order of the groups of a phase, which must not
/// matter.
fn planned(
    map: &mut Map,
    batch: &mut Batch<Words>,
    order: impl Fn(&[OperationGroup]) -> Vec<OperationGroup>,
) {
    let (input, mut output) = batch.begin().expect("a small batch");
    let mut groups = Groups::new(input.operations().len());
    for phase in phases(input.operations()) {
        // Pairs of keys share a hash, which must not confuse them.
        groups.fill(&input, phase, |key| key / 2, |_, _| false);
        for group in order(groups.all()) {
            let position = group.first();
            let operation = &input.operations()[position];
            if group.kind() == GroupKind::Ordered {
                match *operation {
                    IndexOperation::Scan { range, limit, .. } => {
                        let (low, high) = input.range(range);
                        let found: Vec<_> = map
                            .iter()
                            .filter(|(key, _)| std::ops::RangeBounds::contains(&(low, high), *key))
                            .map(|(&key, &value)| (key, value))
                            .take(limit as usize)
                            .collect();
                        output.entries(position, found);
                    }
                    _ => ordered(map, operation, position, &mut output),
                }
                continue;
            }
            let key = operation.point_key().expect("a group on a key");
            let value = map.get(&key).copied();
            let positions = groups.operations(group);
            let fate = fold(&input, positions, InitialKeyState::of(value), |found| {
                write_outcome(&input, &mut output, found, value);
            });
            match fate.value(&input, value) {
                Some(value) => map.insert(key, value),
                None => map.remove(&key),
            };
        }
    }
}

/// The outcome of an operation.
#[derive(Debug, PartialEq)]
enum PlanTestOutcome {
    Value(Option<u64>),
    Updated(bool, Option<u64>),
    Entry(Option<(u64, u64)>),
    Entries(Vec<(u64, u64)>),
    /// The operation was not executed.
    None,
}

/// Executes operations on a map, one after the other and without a plan.
fn one_by_one(map: &mut Map, list: &[PlanTestOperation]) -> Vec<PlanTestOutcome> {
    let entry = |(&key, &value): (&u64, &u64)| (key, value);
    let mut execute = |operation: &PlanTestOperation| match *operation {
        PlanTestOperation::Get(key) => PlanTestOutcome::Value(map.get(&key).copied()),
        PlanTestOperation::Insert(key, value) => PlanTestOutcome::Value(map.insert(key, value)),
        PlanTestOperation::Update(key, previous, value) => {
            let before = map.get(&key).copied();
            if before == previous {
                map.insert(key, value);
            }
            PlanTestOutcome::Updated(before == previous, before)
        }
        PlanTestOperation::Remove(key) => PlanTestOutcome::Value(map.remove(&key)),
        PlanTestOperation::RemoveIf(key, expected) => {
            let before = map.get(&key).copied();
            if before == Some(expected) {
                map.remove(&key);
            }
            PlanTestOutcome::Updated(before == Some(expected), before)
        }
        PlanTestOperation::Predecessor(key) => {
            PlanTestOutcome::Entry(map.range(..=key).next_back().map(entry))
        }
        PlanTestOperation::Successor(key) => {
            PlanTestOutcome::Entry(map.range(key..).next().map(entry))
        }
        PlanTestOperation::Scan(low, high, limit) => {
            let within = map.iter().filter(|(key, _)| (low..=high).contains(*key));
            PlanTestOutcome::Entries(within.take(limit as usize).map(entry).collect())
        }
    };
    list.iter().map(&mut execute).collect()
}

fn outcome_at(batch: &Batch<Words>, position: usize) -> PlanTestOutcome {
    match batch.outcome(position) {
        OperationOutcome::Value(value) => PlanTestOutcome::Value(value),
        OperationOutcome::Updated { applied, before } => PlanTestOutcome::Updated(applied, before),
        OperationOutcome::Entry(entry) => PlanTestOutcome::Entry(entry),
        OperationOutcome::Entries(entries) => PlanTestOutcome::Entries(entries),
        OperationOutcome::Pending => PlanTestOutcome::None,
        OperationOutcome::Failed(error) => unreachable!("a map accepts every operation: {error}"),
    }
}

fn agrees(
    start: &Map,
    list: &[PlanTestOperation],
    order: impl Fn(&[OperationGroup]) -> Vec<OperationGroup>,
) -> bool {
    let (mut map, mut model) = (start.clone(), start.clone());
    let mut batch = batch_of(list);
    planned(&mut map, &mut batch, order);
    let expected = one_by_one(&mut model, list);
    let found: Vec<_> = (0..list.len()).map(|at| outcome_at(&batch, at)).collect();
    found == expected && map == model
}

proptest! {
    #[test]
    fn a_plan_has_the_outcomes_of_operations_one_by_one(
        start in proptest::collection::btree_map(0..8_u64, 0..3_u64, 0..8),
        list in proptest::collection::vec(any_operation(), 0..40),
    ) {
        prop_assert!(agrees(&start, &list, <[OperationGroup]>::to_vec));
        let reversed = |groups: &[OperationGroup]| groups.iter().rev().copied().collect();
        prop_assert!(agrees(&start, &list, reversed));
    }
}

/// A plan that forgets a write is noticed, so the test above can fail.
#[test]
fn a_forgotten_write_is_noticed() {
    let list = [
        PlanTestOperation::Insert(1, 1),
        PlanTestOperation::Get(2),
        PlanTestOperation::Insert(3, 1),
    ];
    let is_change = |group: &&OperationGroup| group.kind() == GroupKind::Change;
    let forgets = |groups: &[OperationGroup]| {
        let first = groups.iter().find(is_change).copied();
        let others = groups.iter().copied();
        others.filter(|group| Some(*group) != first).collect()
    };
    assert!(!agrees(&Map::new(), &list, forgets));
}

#[test]
fn operations_that_are_refused_are_in_no_group() {
    let mut batch = batch_of(&[
        PlanTestOperation::Get(1),
        PlanTestOperation::Get(1),
        PlanTestOperation::Insert(2, 1),
    ]);
    let (input, _) = batch.begin().expect("a small batch");
    let mut groups = Groups::new(3);
    groups.fill(&input, 0..3, |key| key, |position, _| position == 1);
    let (reads, others) = groups.split();
    assert_eq!((reads.len(), others.len()), (1, 1));
    assert!(groups.operations(reads[0]).eq([0]));
    assert_eq!(others[0].kind(), GroupKind::Change);
}
