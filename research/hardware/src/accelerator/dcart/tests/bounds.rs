//! Throughput compared with its bound, with each part as the slowest.

use super::*;
use crate::accelerator::dcart::{DcartPart, Pipeline};
use crate::dram;

/// Runs in many batches, and checks that this part is the slowest, and busy for at least nine
/// tenths of the time.
fn saturates(
    part: DcartPart,
    parameters: DcartParameters,
    operations: &[DcartOperation],
    tree: &mut Paths,
) {
    let parameters = DcartParameters {
        batch: parameters.batch.min(16_384),
        ..parameters
    };
    let report = run(parameters, operations, tree);
    let (slowest, bound) = report.bound.slowest();
    let used = bound.as_seconds() / report.time.as_seconds();
    println!(
        "{slowest:?}: {used:.3} of the bound, {:.1} M/s",
        report.rate() / 1e6
    );
    assert_eq!(slowest, part);
    assert!((0.9..=1.0).contains(&used), "{used} of the bound");
}

/// Returns keys distributed equally over all labels, few enough for the buffers.
fn few(count: u64) -> Vec<DcartOperation> {
    operations((0..count).map(|number| number * 7 % 1024))
}

#[test]
fn the_combining_unit_takes_an_operation_a_cycle() {
    let operations = few(160_000);
    let mut tree = Paths::new(0, &operations);
    let parameters = DcartParameters {
        units: 64,
        buckets: 64,
        pipeline: Pipeline::Interleaved { operations: 16 },
        ..DcartParameters::published()
    };
    saturates(DcartPart::Combining, parameters, &operations, &mut tree);
}

#[test]
fn a_stage_takes_its_cycles_when_all_is_in_the_buffers() {
    let operations = few(160_000);
    let mut tree = Paths::new(6, &operations);
    tree.shared = true;
    let parameters = changed(|one| (one.shortcuts, one.match_cycles) = (false, 9));
    saturates(DcartPart::Stage(1), parameters, &operations, &mut tree);
}

#[test]
fn the_first_stage_may_be_the_slowest() {
    let operations = few(160_000);
    let mut tree = Paths::new(1, &operations);
    tree.shared = true;
    let parameters = changed(|one| one.hash_cycles = 40);
    saturates(DcartPart::Stage(0), parameters, &operations, &mut tree);
}

#[test]
fn the_third_stage_may_be_the_slowest() {
    let operations = few(160_000);
    let mut tree = Paths::new(1, &operations);
    tree.shared = true;
    let parameters = changed(|one| one.read_cycles = 50);
    saturates(DcartPart::Stage(2), parameters, &operations, &mut tree);
}

#[test]
fn memory_opens_as_many_rows_as_it_can() {
    // Each leaf is in its own row, which no other operation reads.
    let operations = operations((0..130_000).map(|number| number * 16_411 % 1_000_003));
    let parameters = DcartParameters {
        units: 64,
        buckets: 64,
        shortcuts: false,
        pipeline: Pipeline::Interleaved { operations: 3 },
        memory: dram::DramParameters {
            channels: 1,
            rows: 1 << 18,
            ..DcartParameters::published().memory
        },
        ..DcartParameters::published()
    };
    let mut tree = Paths::new(3, &operations);
    saturates(DcartPart::Memory, parameters, &operations, &mut tree);
}
