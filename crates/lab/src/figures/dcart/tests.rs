//! The figures in seconds, and the model in a placement's tests.

use super::walker::{Changed, Walker};
use super::*;
use crate::harness::Interrupt;
use nearfield_core::{Batch, Bytes, Error, Operation as BatchOperation, OrderedIndex};
use nearfield_hardware::accelerator::dcart::{Accelerator, Operation, Parameters, Tree, Walk};
use std::sync::Mutex;

fn rows(scale: &Scale, figures: &[&'static str]) -> Vec<Row> {
    let interrupt = Interrupt::default();
    let mut rows = Vec::new();
    for job in scale.jobs(figures) {
        let title = job.title();
        let (more, done) = job.run(&interrupt, || {});
        done.unwrap_or_else(|error| panic!("{title}: {error}"));
        rows.extend(more);
    }
    rows
}

#[test]
fn all_figures_have_points_and_all_claims_numbers() {
    let scale = Scale::tiny();
    let names: Vec<&'static str> = scale.titles().iter().map(|title| title.name).collect();
    let rows = rows(&scale, &names);
    for name in names {
        let points = rows.iter().filter(|row| row.detail.figure == name).count();
        assert!(points > 0, "figure {name} has no points");
    }
    for row in &rows {
        assert!(row.detail.y.value.is_finite(), "{row:?}");
    }
    let missing = ["dcart.contentions", "dcart.contentions.most"];
    for claim in scale.claims(&rows) {
        // Two threads on few keys may never meet.
        let may_miss = missing.contains(&&*claim.id);
        assert!(
            claim.ours.is_some() || may_miss,
            "{} has no number",
            claim.id
        );
    }
}

#[test]
fn modelled_points_are_the_same_in_each_run() {
    let scale = Scale::tiny();
    let figures = ["10", "units", "3b"];
    let once = rows(&scale, &figures);
    assert_eq!(once, rows(&scale, &figures));
}

/// A tree behind the accelerator, as a placement: each batch is executed by the model.
#[derive(Debug, Default)]
struct Accelerated(Mutex<Walker>);

/// The operations of a batch that was executed, for the model.
struct Executed<'w> {
    walker: &'w mut Walker,
    changed: Vec<Option<Changed>>,
}

impl Tree for Executed<'_> {
    fn execute(&mut self, operation: usize, walk: &mut Walk) {
        let changed = self.changed[operation];
        self.walker.walk(operation, changed, walk);
    }
}

impl OrderedIndex<Bytes> for Accelerated {
    fn execute(&self, batch: &mut Batch<Bytes>) -> Result<(), Error> {
        let walker = &mut *self.0.lock().unwrap();
        walker.execute(batch)?;
        let input = batch.input()?;
        let key = |operation: &BatchOperation<Bytes>| match operation {
            BatchOperation::Get { key }
            | BatchOperation::Insert { key, .. }
            | BatchOperation::Remove { key }
            | BatchOperation::Update { key, .. }
            | BatchOperation::RemoveIf { key, .. } => input.key(*key),
            // Of ordered operations the model has the walk to their first key.
            _ => &[],
        };
        let one = |operation: &BatchOperation<Bytes>| {
            let bytes = key(operation);
            let fold =
                |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
            Operation {
                key: bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold),
                label: bytes.first().copied().unwrap_or(0),
                bytes: bytes.len() as u32 + 16,
                writes: !matches!(operation, BatchOperation::Get { .. }),
            }
        };
        let operations: Vec<Operation> = input.operations().iter().map(one).collect();
        let changed = |(position, operation): (usize, &BatchOperation<Bytes>)| match operation {
            BatchOperation::Get { .. } if batch.value(position).is_some() => Some(Changed::Read),
            BatchOperation::Insert { .. }
            | BatchOperation::Remove { .. }
            | BatchOperation::Update { .. }
            | BatchOperation::RemoveIf { .. } => Some(Changed::Nodes),
            _ => None,
        };
        let changed = input.operations().iter().enumerate().map(changed).collect();
        let parameters = Parameters {
            batch: 50,
            tree_buffer: 1 << 10,
            shortcut_buffer: 1 << 8,
            ..Parameters::published()
        };
        let mut executed = Executed { walker, changed };
        let accelerator = Accelerator::new(parameters).unwrap();
        let report = accelerator.run(&operations, &mut executed).unwrap();
        assert_eq!(report.latencies.len(), operations.len());
        Ok(())
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().tree.len()
    }
}

#[test]
fn a_tree_behind_the_accelerator_answers_as_a_model_does() {
    nearfield_testkit::model::check::<Bytes, _>(40, |_| Accelerated::default());
}
