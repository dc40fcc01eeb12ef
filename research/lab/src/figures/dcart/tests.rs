//! Tests that run the figures in seconds, and the model in the tests of a placement.

use super::walker::{BlockTree, OperationEffect, PaperTree, Walker};
use super::workload::DcartWorkloadKind;
use super::*;
use crate::harness::Interrupt;
use nearfield_core::{
    Batch, ByteStrings, IndexOperation as BatchOperation, OperationError, OrderedIndex, Words,
};
use nearfield_hardware::accelerator::dcart::{
    DcartAccelerator, DcartOperation, DcartParameters, DcartTree, DcartWalk,
};
use nearfield_radix_rivals::RivalForm;
use nearfield_testkit::keys::SampleForm;
use std::sync::Mutex;

fn rows(scale: &DcartScale, figures: &[&'static str]) -> Vec<Row> {
    let interrupt = Interrupt::default();
    let mut rows = Vec::new();
    for job in scale.jobs(figures) {
        let title = job.title();
        let (more, done) = job.run_by_itself(&interrupt);
        done.unwrap_or_else(|error| panic!("{title}: {error}"));
        rows.extend(more);
    }
    scale.finish("", rows)
}

/// Returns a scale with a third of the operations of pinned runs.
fn few() -> DcartScale {
    DcartScale {
        dcart_operations: 1300,
        ..DcartScale::tiny()
    }
}

#[test]
fn all_figures_have_points_and_all_claims_numbers() {
    let scale = few();
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
        // Two threads on few keys may never contend.
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
    let scale = few();
    let figures = ["10", "units", "3b"];
    let once = rows(&scale, &figures);
    assert_eq!(once, rows(&scale, &figures));
}

#[test]
fn points_name_the_source_of_their_keys() {
    let path = std::env::temp_dir().join(format!("nearfield-dcart-{}.csv", std::process::id()));
    let lines = (0..5000_u64).map(|number| format!("{},x\n", number * 100_003));
    std::fs::write(&path, lines.collect::<String>()).unwrap();
    let scale = few().with_key_file("ipgeo", path.clone()).unwrap();
    for row in rows(&scale, &["8", "10", "12b", "3b", "ours"]) {
        let keys = row.detail.key_source.as_deref();
        match rows::workload_of(&row) {
            Some(DcartWorkloadKind::Ipgeo) => assert_eq!(keys, path.to_str()),
            Some(_) => assert_eq!(keys, Some("generated")),
            None => assert_eq!(row.detail.panel, "area", "{row:?}"),
        }
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn bad_input_is_named() {
    let scale = DcartScale::tiny;
    let error = scale().with_key_file("XX", "keys".into()).unwrap_err();
    let expected = "unknown workload \"XX\"; allowed: IPGEO, DICT, EA, DE, RS, RD";
    assert_eq!(error.to_string(), expected);
    let set = |name: &str, value: &str| {
        let single = [(name.to_owned(), value.to_owned())];
        scale()
            .with_parameters("", &single)
            .unwrap_err()
            .to_string()
    };
    assert!(set("unit", "1").contains("there is no parameter \"unit\""));
    assert!(set("units", "0").contains("units is 0"));
    assert!(set("shortcut_buffer", "0").contains("shortcut_buffer is 0"));
    // Larger than the block memories of the card.
    assert!(set("tree_buffer", "1gb").contains("the buffers take"));
    assert!(set("memory.channels", "0").contains("channels"));
    let text = scale().with_parameters("units=4\nbatch\n", &[]);
    assert!(text.unwrap_err().to_string().contains("line 2"));
    // A set of keys that does not fit into the card's memory.
    let small = [("memory.rows".to_owned(), "32".to_owned())];
    let small = scale().with_parameters("memory.channels=16\nbatch=64", &small);
    let small = small.and_then(|scale| scale.with_keys(400_000));
    let jobs = small.map(|scale| scale.jobs(&["parts"]));
    let interrupt = Interrupt::default();
    let mut errors = jobs
        .unwrap()
        .into_iter()
        .map(|job| job.run_by_itself(&interrupt).1);
    let error = errors.find_map(Result::err).unwrap().to_string();
    assert!(error.contains("memory: the tree"), "{error}");
    let missing = scale()
        .with_key_file("DICT", "/nonexistent".into())
        .unwrap();
    let jobs = missing.jobs(&["3"]);
    let mut errors = jobs.into_iter().map(|job| job.run_by_itself(&interrupt).1);
    let error = errors.find_map(Result::err).unwrap().to_string();
    assert!(error.contains("key file /nonexistent"), "{error}");
}

#[test]
fn parameters_change_the_designs() {
    let base = few();
    let single = [("match_cycles".to_owned(), "500".to_owned())];
    let slow = base.clone().with_parameters("units=2", &single).unwrap();
    let rate = |scale: &DcartScale| {
        let all = rows(scale, &["parts"]);
        all.iter().map(|row| row.detail.y.value).sum::<f64>()
    };
    assert!(rate(&slow) < rate(&base) / 2.0);
}

/// Creates a scale with a trace of these lines, and the file, which the caller removes.
fn with_trace(name: &str, lines: &str) -> (DcartScale, std::path::PathBuf) {
    let file = format!("nearfield-dcart-{}-{name}", std::process::id());
    let path = std::env::temp_dir().join(file);
    std::fs::write(&path, lines).unwrap();
    (few().with_trace(path.clone()).unwrap(), path)
}

#[test]
fn a_trace_takes_the_place_of_the_workloads() {
    // The trace has all four operations, on keys that come and go; the walks check every outcome.
    let names = ["get", "insert", "update", "remove"];
    let line = |number: u64| {
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (name, key) = (names[(hash >> 62) as usize], (hash >> 40) % 500);
        format!("{name} user:{key}:name\n")
    };
    let (scale, path) = with_trace("all", &(0..1600).map(line).collect::<String>());
    let names: Vec<&'static str> = scale.titles().iter().map(|title| title.name).collect();
    assert!(!names.contains(&"12a") && names.contains(&"sensitivity"));
    let rows = rows(&scale, &names);
    for name in names {
        let points = rows.iter().filter(|row| row.detail.figure == name).count();
        assert!(points > 0, "figure {name} has no points");
    }
    for row in rows.iter().filter(|row| row.detail.panel != "area") {
        assert!(row.detail.y.value.is_finite(), "{row:?}");
        assert_eq!(row.detail.key_source.as_deref(), path.to_str(), "{row:?}");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_trace_is_walked_as_it_changes_the_tree() {
    let text = "get a\nremove a\nget a\ninsert a\nget a\nget b\nremove c\nremove c\n";
    let (scale, path) = with_trace("changes", text);
    let load = workload::DcartWorkload::new(
        DcartWorkloadKind::Trace,
        crate::workload::Mix::DcartC,
        workload::ZIPF,
        1,
        &scale,
    );
    std::fs::remove_file(&path).unwrap();
    let (load, interrupt) = (load.unwrap(), Interrupt::default());
    let mut walked = walked::RecordedTree::<PaperTree>::new(&load, &interrupt).unwrap();
    let mut walk = |operation| {
        let mut walk = DcartWalk::default();
        walked.execute(operation, &mut walk);
        let freed = !walk.freed().is_empty();
        (walk.target_before().is_some(), walk.stores().len(), freed)
    };
    let walks: Vec<_> = (0..8).map(&mut walk).collect();
    let found: Vec<bool> = walks.iter().map(|walk| walk.0).collect();
    assert_eq!(found, [true, false, false, false, true, true, false, false]);
    let frees: Vec<bool> = walks.iter().map(|walk| walk.2).collect();
    assert_eq!(
        frees,
        [false, true, false, false, false, false, true, false]
    );
    let stores: Vec<bool> = walks.iter().map(|walk| walk.1 > 0).collect();
    let writes = [false, true, false, true, false, false, true, false];
    assert_eq!(stores, writes);
    walked.check().unwrap();
}

/// A tree behind the accelerator, as a placement: each batch is executed by the model.
#[derive(Debug, Default)]
struct AcceleratedTree<W>(Mutex<W>);

/// The operations of an executed batch, for the model.
struct ExecutedBatchTree<'w, W> {
    walker: &'w mut W,
    changed: Vec<Option<OperationEffect>>,
}

impl<W: Walker> DcartTree for ExecutedBatchTree<'_, W> {
    fn execute(&mut self, operation: usize, walk: &mut DcartWalk) {
        let changed = self.changed[operation];
        self.walker.walk(operation, changed, walk);
    }
}

impl<W: Walker + Send> OrderedIndex<W::Form> for AcceleratedTree<W> {
    fn execute(&self, batch: &mut Batch<W::Form>) -> Result<(), OperationError> {
        let walker = &mut *self.0.lock().unwrap();
        walker.execute(batch)?;
        let input = batch.input()?;
        let one = |operation: &BatchOperation<W::Form>| {
            // The model has no walk for ordered operations.
            let key = operation.point_key().map(|key| input.key(key));
            let bytes = key.map(W::Form::bytes);
            let bytes = bytes.as_ref().map_or(&[][..], AsRef::as_ref);
            let fold =
                |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
            DcartOperation {
                key: bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold),
                label: bytes.first().copied().unwrap_or(0),
                bytes: bytes.len() as u32 + 16,
                writes: operation.is_write(),
            }
        };
        let operations: Vec<DcartOperation> = input.operations().iter().map(one).collect();
        let changed = |(position, operation): (usize, &BatchOperation<W::Form>)| {
            let is_found_get =
                !operation.is_ordered() && !operation.is_write() && batch.value(position).is_some();
            match operation {
                BatchOperation::Remove { .. } if batch.value(position).is_some() => {
                    Some(OperationEffect::Removed)
                }
                _ if operation.is_write() => Some(OperationEffect::Nodes),
                _ => is_found_get.then_some(OperationEffect::Read),
            }
        };
        let changed = input.operations().iter().enumerate().map(changed).collect();
        let parameters = DcartParameters {
            batch: 50,
            tree_buffer: 1 << 10,
            shortcut_buffer: 1 << 8,
            ..DcartParameters::published()
        };
        let mut executed = ExecutedBatchTree { walker, changed };
        let accelerator = DcartAccelerator::new(parameters).unwrap();
        let report = accelerator.run(&operations, &mut executed).unwrap();
        assert_eq!(report.latencies.len(), operations.len());
        Ok(())
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

fn answers_as_a_model_does<W>()
where
    W: Walker<Form: SampleForm> + Send,
{
    nearfield_testkit::model::check::<W::Form, _>(13, |_| AcceleratedTree::<W>::default());
}

#[test]
fn a_tree_behind_the_accelerator_answers_as_a_model_does() {
    answers_as_a_model_does::<PaperTree>();
    answers_as_a_model_does::<BlockTree<Words>>();
    answers_as_a_model_does::<BlockTree<ByteStrings>>();
}

/// Returns the walks of some operations on a tree with some keys.
fn walks(keys: u64, fill: impl FnOnce(&mut Batch<Words>)) -> Vec<DcartWalk> {
    let mut tree = BlockTree::<Words>::default();
    let mut batch = Batch::new();
    for key in 0..keys {
        batch.insert(key << 32, key);
    }
    tree.execute(&mut batch).unwrap();
    for operation in 0..batch.len() {
        tree.walk(
            operation,
            Some(OperationEffect::Nodes),
            &mut DcartWalk::default(),
        );
    }
    let mut batch = Batch::new();
    fill(&mut batch);
    tree.execute(&mut batch).unwrap();
    let walk = |operation| {
        let mut walk = DcartWalk::default();
        tree.walk(operation, Some(OperationEffect::Value), &mut walk);
        walk
    };
    (0..batch.len()).map(walk).collect()
}

#[test]
fn a_walk_of_blocks_has_the_accesses_of_the_engine() {
    let walks = walks(5, |batch| {
        batch.get(3 << 32);
        batch.insert(3 << 32, 9);
    });
    let [get, update] = &walks[..] else {
        panic!("{walks:?}")
    };
    // The root's slot has four bytes. The block has two lines: the keys, and the value of one.
    let [root, block] = get.visits() else {
        panic!("{get:?}")
    };
    assert_eq!((root.first.bytes, root.matches), (4, true));
    assert_eq!((block.first.bytes, block.also.bytes), (64, 8));
    assert_eq!(block.also.address, block.node + 64 + 3 * 8);
    assert_eq!(get.target_before(), Some([block.node, root.node]));
    // One byte of the value has changed, under the latch of the block.
    let [store] = update.stores() else {
        panic!("{update:?}")
    };
    assert_eq!((store.address, store.bytes), (block.also.address, 1));
    assert_eq!(update.locks(), [block.node]);
    assert_eq!(update.target_after(), get.target_before());
}

#[test]
fn a_block_that_is_divided_moves_keys() {
    let walks = walks(7, |batch| {
        batch.insert(1 << 31, 0);
        batch.get(1 << 31);
        batch.get(6 << 32);
    });
    let [insert, get, other] = &walks[..] else {
        panic!("{walks:?}")
    };
    assert_eq!(insert.freed().len(), 1, "{insert:?}");
    assert_eq!(insert.target_after(), get.target_before());
    assert_ne!(insert.target_before(), other.target_before());
}
