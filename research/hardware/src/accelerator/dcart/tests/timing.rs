//! Durations of single operations, and their counts.

use super::*;
use crate::VirtualTime;
use crate::accelerator::dcart::{DcartError, LineBufferPolicy, Pipeline};

/// Runs one operation on a tree of one leaf.
fn alone(parameters: DcartParameters) -> DcartReport {
    let operations = operations(0..1);
    run(parameters, &operations, &mut Paths::new(0, &operations))
}

fn cycles(time: VirtualTime) -> f64 {
    time.as_seconds() * 230e6
}

#[test]
fn a_stage_takes_the_cycles_of_its_parameters() {
    let base = cycles(alone(DcartParameters::published()).latency(1.0));
    let with =
        |change: fn(&mut DcartParameters)| cycles(alone(changed(change)).latency(1.0)) - base;
    // Memory completes reads at edges of its own clock, a fifth of a cycle apart.
    let near = |found: f64, wanted: f64| {
        assert!((found - wanted).abs() < 0.5, "{found} cycles, not {wanted}");
    };
    near(with(|one| one.hash_cycles += 10), 10.0);
    near(with(|one| one.match_cycles += 10), 10.0);
    near(with(|one| one.read_cycles += 10), 10.0);
    near(with(|one| one.write_cycles += 10), 0.0);
    near(with(|one| one.generate_cycles += 10), 0.0);
    // The buffers of shortcuts and of the tree are looked up.
    near(with(|one| one.buffer_cycles += 10), 20.0);
    // The record, the shortcut and the leaf are read.
    near(with(|one| one.port_cycles += 10), 30.0);
    // Without shortcuts, their stage takes one cycle, and nothing is read. The leaf is in a bank in
    // which the records have opened another row.
    let read = cycles(VirtualTime::from_nanoseconds(14 + 14 + 14 + 2 + 1)) + 8.0;
    near(with(|one| one.shortcuts = false), -(3.0 + read));
}

#[test]
fn each_level_takes_a_read_and_a_match() {
    let operations = operations(0..1);
    let latency = |levels| {
        let mut tree = Paths::new(levels, &operations);
        cycles(run(DcartParameters::published(), &operations, &mut tree).latency(1.0))
    };
    let level = (latency(9) - latency(1)) / 8.0;
    // Two cycles of the buffer, one of the match, the way to memory, and a read whose row is open
    // or not.
    assert!((2.0 + 1.0 + 8.0 + 3.0..50.0).contains(&level), "{level}");
}

#[test]
fn a_shortcut_spares_the_walk() {
    let operations = operations((0..100).chain(0..100));
    let mut tree = Paths::new(5, &operations);
    let report = run(DcartParameters::published(), &operations, &mut tree);
    assert_eq!(report.shortcuts_missing, 100);
    assert_eq!(report.shortcuts_used, 100);
    assert_eq!(report.matches, 500, "only the first walks match");
    assert_eq!(report.leaves, 200);
    let parameters = changed(|one| one.shortcuts = false);
    let without = run(parameters, &operations, &mut Paths::new(5, &operations));
    assert_eq!(without.matches, 1000);
    assert!(without.time > report.time);
}

#[test]
fn a_shortcut_that_is_stale_costs_a_read_and_the_walk() {
    /// A tree that moves its only leaf in each operation.
    struct MovingLeafTree;
    impl DcartTree for MovingLeafTree {
        fn execute(&mut self, operation: usize, walk: &mut DcartWalk) {
            walk.visit(DcartVisit::inner(line(0), MemorySpan::default()));
            walk.visit(DcartVisit::leaf(line(1 + operation as u64)));
            walk.found();
            walk.moved((2 + operation as u64) * 64 + 6400, 0);
        }
    }
    // Other keys in between, so that each operation finds the shortcut of the one before.
    let mut operations = operations([7, 1, 2, 3, 4, 7, 5, 6, 8, 9, 7].into_iter());
    operations.iter_mut().for_each(|one| one.label = 0);
    let accelerator = DcartAccelerator::new(DcartParameters::published()).unwrap();
    let report = accelerator.run(&operations, &mut MovingLeafTree).unwrap();
    assert_eq!((report.shortcuts_missing, report.shortcuts_stale), (9, 2));
    assert_eq!(report.matches, 11);
}

#[test]
fn units_that_write_one_node_wait_for_each_other_unless_combined() {
    let mut operations = operations((0..4000).map(|number| number % 4));
    for operation in &mut operations {
        operation.writes = true;
    }
    let with = |combines| {
        let parameters = changed(|one| (one.combines, one.write_cycles) = (combines, 20));
        run(parameters, &operations, &mut Paths::new(2, &operations))
    };
    assert_eq!(with(true).locks.contended, 0);
    let dealt = with(false);
    assert!(dealt.locks.contended > 500, "{:?}", dealt.locks);
    assert_eq!(dealt.locks.acquired, 4000);
}

#[test]
fn overlap_hides_combining() {
    let operations = operations(0..8192);
    let with = |overlaps| {
        let parameters = changed(|one| (one.overlaps, one.batch) = (overlaps, 1024));
        run(parameters, &operations, &mut Paths::new(1, &operations))
    };
    let (apart, together) = (with(false), with(true));
    let hidden = cycles(apart.time - together.time);
    // All batches except the first are combined meanwhile, and their first records are read.
    assert!((7.0 * 1024.0..8.0 * 1024.0).contains(&hidden), "{hidden}");
    assert_eq!(cycles(apart.combined).round(), 8192.0);
}

#[test]
fn operations_of_a_unit_hide_memory_if_they_interleave() {
    let operations = operations(0..4096);
    let with = |pipeline| {
        let parameters = changed(|one| one.pipeline = pipeline);
        run(parameters, &operations, &mut Paths::new(3, &operations))
    };
    let in_order = with(Pipeline::InOrder);
    let interleaved = with(Pipeline::Interleaved { operations: 16 });
    assert!(in_order.rate() * 3.0 < interleaved.rate());
    assert_eq!(in_order.matches, interleaved.matches);
}

#[test]
fn interleaved_operations_on_one_key_are_executed_together() {
    let operations = operations(std::iter::repeat_n(3, 1000));
    let parameters = changed(|one| one.pipeline = Pipeline::Interleaved { operations: 16 });
    let report = run(parameters, &operations, &mut Paths::new(3, &operations));
    assert!(report.riders > 900, "{}", report.riders);
    assert_eq!(report.latencies.len(), 1000);
    assert!(report.matches <= 3 * (1000 - report.riders));
}

#[test]
fn the_nodes_of_the_largest_bucket_stay_in_the_buffer() {
    // A tenth of the operations scans many keys; the others use a few keys with another prefix.
    let keys = (0..40_000_u64).map(|number| match number % 10 {
        0 => 256 * (number / 10) + 200,
        other => 256 * (other + number / 10 % 40 * 10),
    });
    let operations = operations(keys);
    let with = |tree_policy| {
        let parameters = DcartParameters {
            tree_policy,
            tree_buffer: 1 << 16,
            shortcuts: false,
            batch: 8192,
            ..DcartParameters::published()
        };
        run(parameters, &operations, &mut Paths::new(1, &operations))
            .tree_buffer
            .rate()
    };
    let (value, lru) = (with(LineBufferPolicy::Value), with(LineBufferPolicy::Lru));
    assert!(value > 0.85 && value > lru, "{value} against {lru}");
}

#[test]
fn every_operation_ends_once_in_all_designs() {
    // Three batches: two whole ones and a part.
    let keys = (0..1600_u64).map(|number| number * number % 997);
    let mut operations = operations(keys);
    for (number, operation) in operations.iter_mut().enumerate() {
        operation.writes = number % 3 == 0;
    }
    for bits in 0..32_u32 {
        let is = |bit: u32| bits & 1 << bit != 0;
        let parameters = DcartParameters {
            combines: is(0),
            shortcuts: is(1),
            overlaps: is(2),
            tree_policy: if is(3) {
                LineBufferPolicy::Lru
            } else {
                LineBufferPolicy::Value
            },
            pipeline: match is(4) {
                true => Pipeline::Interleaved { operations: 7 },
                false => Pipeline::InOrder,
            },
            batch: 700,
            units: 5,
            tree_buffer: 1 << 14,
            bucket_buffer: 1 << 12,
            scan_buffer: 64,
            shortcut_buffer: 1 << 10,
            ..DcartParameters::published()
        };
        let mut tree = Paths::new(2, &operations);
        let report = run(parameters.clone(), &operations, &mut tree);
        assert_eq!(report.latencies.len(), operations.len(), "{parameters:?}");
        assert_eq!(tree.executed, operations.len());
        let (part, bound) = report.bound.slowest();
        assert!(bound <= report.time, "{part:?} {bound} {}", report.time);
        let again = run(parameters, &operations, &mut Paths::new(2, &operations));
        assert_eq!(again.time, report.time, "the same run takes the same time");
    }
}

#[test]
fn parameters_that_cannot_be_are_named() {
    let error = |change: fn(&mut DcartParameters)| {
        let accelerator = DcartAccelerator::new(changed(change));
        accelerator.map(|_| ()).unwrap_err().to_string()
    };
    assert_eq!(
        error(|one| one.units = 0),
        "units is 0, but must be 1 to 256"
    );
    assert!(error(|one| one.batch = 0).starts_with("batch is 0"));
    assert!(error(|one| one.tree_buffer = 0).starts_with("tree_buffer is 0"));
    assert!(error(|one| one.tree_buffer = 1 << 30).contains("block memory"));
    assert!(error(|one| one.tree_buffer = u64::MAX).starts_with("tree_buffer is"));
    assert!(error(|one| one.buffer_cycles = 0).starts_with("buffer_cycles is 0"));
    assert!(error(|one| one.hash_cycles = u64::MAX).starts_with("hash_cycles is"));
    assert!(error(|one| one.memory.rows = 0).starts_with("the memory of the card"));
    assert!(error(|one| one.memory.rows = 1).starts_with("memory is"));
    let zero = changed(|one| one.pipeline = Pipeline::Interleaved { operations: 0 });
    assert!(matches!(
        DcartAccelerator::new(zero),
        Err(DcartError::Parameter { .. })
    ));
}

#[test]
fn a_run_without_operations_takes_no_time() {
    let report = run(DcartParameters::published(), &[], &mut Paths::new(1, &[]));
    assert_eq!((report.operations, report.time), (0, VirtualTime::ZERO));
    assert_eq!(report.bound.slowest().1, VirtualTime::ZERO);
}

#[test]
fn a_batch_that_is_too_large_is_refused() {
    let mut operations = operations(0..1000);
    operations.iter_mut().for_each(|one| one.bytes = 1 << 20);
    let accelerator = DcartAccelerator::new(DcartParameters::published()).unwrap();
    let error = accelerator.run(&operations, &mut Paths::new(1, &operations));
    let text = error.unwrap_err().to_string();
    assert!(text.starts_with("batch: the records"), "{text}");
}

#[test]
fn a_tree_that_is_too_large_is_refused() {
    let operations = operations([1 << 40].into_iter());
    let accelerator = DcartAccelerator::new(DcartParameters::published()).unwrap();
    let error = accelerator.run(&operations, &mut Paths::new(1, &operations));
    assert!(
        error
            .unwrap_err()
            .to_string()
            .starts_with("memory: the tree")
    );
}

#[test]
fn a_shortcut_leads_to_a_leaf_of_several_parts() {
    /// A root, and a leaf whose header gives the places of two entries that may have the key.
    struct BlockLeafTree;
    impl DcartTree for BlockLeafTree {
        fn execute(&mut self, _: usize, walk: &mut DcartWalk) {
            walk.visit(DcartVisit::inner(line(0), MemorySpan::default()));
            walk.visit(DcartVisit {
                then: line(3),
                ..DcartVisit::leaf(line(2))
            });
            walk.visit(DcartVisit::more(line(4)));
            walk.found();
        }
    }
    let mut walk = DcartWalk::default();
    BlockLeafTree.execute(0, &mut walk);
    assert_eq!(walk.target_before(), Some([2 * 64, 0]));
    let mut operations = operations([7, 1, 2, 3, 4, 7].into_iter());
    operations.iter_mut().for_each(|one| one.label = 0);
    let accelerator = DcartAccelerator::new(DcartParameters::published()).unwrap();
    let report = accelerator.run(&operations, &mut BlockLeafTree).unwrap();
    assert_eq!((report.shortcuts_missing, report.shortcuts_used), (5, 1));
    // A leaf is compared once, even if reached by a shortcut.
    assert_eq!((report.matches, report.leaves), (5, 6));
    // By a shortcut as by a walk: root, header and both entries.
    let buffer = report.tree_buffer;
    assert_eq!(buffer.hits + buffer.misses, 6 * 4);
}
