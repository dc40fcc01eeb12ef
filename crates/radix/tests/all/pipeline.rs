//! Streams of batches give the same results as their batches one by one, in order, with any number
//! of workers, and end when they should.

use nearfield_core::{
    Batch, ByteStrings, OperationError, OperationOutcome, OrderedIndex, ScanDirection, Words,
};
use nearfield_radix::{Combine, EngineOptions, RadixForm, RadixIndex};
use nearfield_testkit::keys::{self, Random, SampleForm};
use nearfield_testkit::model::Reference;
use nearfield_testkit::seeds;
use std::ops::{Bound, ControlFlow};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

const WORKERS: [usize; 3] = [1, 2, 4];

/// Random choices from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        bits = (bits ^ bits >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        ((bits ^ bits >> 33) % end as u64) as usize
    }
}

/// The source of batches.
struct RandomBatchSource<F: SampleForm> {
    dice: Dice,
    random: Random,
    keys: Vec<F::OwnedKey>,
    values: Vec<F::OwnedValue>,
}

impl<F: SampleForm> RandomBatchSource<F> {
    fn new(seed: u64) -> Self {
        let mut random = keys::random(seed);
        let kind = F::KINDS[seed as usize % F::KINDS.len()];
        let count = [20, 300, 4000][Dice(seed).below(3)];
        RandomBatchSource {
            dice: Dice(seed),
            keys: F::keys(kind, count, &mut random),
            values: (0..4).map(|_| F::any_value(&mut random)).collect(),
            random,
        }
    }

    fn options(&mut self) -> EngineOptions {
        let mut bit = || self.dice.below(2) == 1;
        EngineOptions {
            interleave: bit(),
            share_paths: bit(),
            trigger_together: bit(),
            keep_hot_close: bit(),
            shortcut_bytes: if bit() { 1 << 12 } else { 0 },
            combine: [Combine::Adaptive, Combine::Always, Combine::Never][self.dice.below(3)],
        }
    }

    /// Returns a batch that writes, or only reads, with or without ordered operations.
    fn batch(&mut self) -> Batch<F> {
        let mut batch = Batch::new();
        let size = [0, 1, 40, 700, 3000][self.dice.below(5)];
        let writes = self.dice.below(4) > 0;
        let ordered = size <= 700 && self.dice.below(4) == 0;
        for _ in 0..self.dice.below(size + 1) {
            self.add_to(&mut batch, writes, ordered);
        }
        batch
    }

    fn add_to(&mut self, batch: &mut Batch<F>, writes: bool, ordered: bool) {
        let dice = &mut self.dice;
        if dice.below(500) == 0
            && let Some(key) = F::oversized_key(&mut self.random)
        {
            batch.get(F::key(&key));
            return;
        }
        let key = F::key(&self.keys[dice.below(self.keys.len())]);
        let value = F::value(&self.values[dice.below(4)]);
        if ordered && dice.below(20) == 0 {
            let other = F::key(&self.keys[dice.below(self.keys.len())]);
            let direction = [ScanDirection::Ascending, ScanDirection::Descending][dice.below(2)];
            match dice.below(3) {
                0 => batch.predecessor(key),
                1 => batch.successor(key),
                _ => batch.scan(Bound::Included(key), Bound::Excluded(other), 9, direction),
            };
            return;
        }
        let previous = F::value(&self.values[dice.below(4)]);
        match dice.below(if writes { 8 } else { 1 }) {
            0 | 1 => batch.get(key),
            2..5 => batch.insert(key, value),
            5 => batch.update(key, None, value),
            6 => batch.update(key, Some(previous), value),
            _ => batch.remove(key),
        };
    }
}

/// Streams random batches through an index and executes them one by one on a `BTreeMap`.
fn equals_one_by_one<F: SampleForm + RadixForm>(seed: u64) {
    let mut source = RandomBatchSource::<F>::new(seed);
    let workers = WORKERS[source.dice.below(3)];
    let index = RadixIndex::new().expect("address space");
    index.set_options(source.options());
    let reference = Reference::new();
    let batches: Vec<Batch<F>> = (0..12).map(|_| source.batch()).collect();
    let mut number = 0;
    index.execute_stream(workers, batches.clone(), |batch, result| {
        assert_eq!(result, Ok(()));
        let mut expected = batches[number].clone();
        reference.execute(&mut expected).expect("it fits");
        assert_eq!(batch.len(), expected.len(), "seed {seed}, batch {number}");
        for position in 0..batch.len() {
            assert_eq!(
                batch.outcome(position),
                expected.outcome(position),
                "seed {seed}, {workers} workers, batch {number}, position {position}"
            );
        }
        number += 1;
        assert_eq!(index.len(), reference.len(), "seed {seed}, batch {number}");
        ControlFlow::Continue(())
    });
    assert_eq!(number, batches.len(), "seed {seed}");
    index.check_invariants();
}

#[test]
fn streams_of_words_equal_batches_one_by_one() {
    seeds::each(80, equals_one_by_one::<Words>);
}

#[test]
fn streams_of_bytes_equal_batches_one_by_one() {
    seeds::each(80, equals_one_by_one::<ByteStrings>);
}

fn new() -> RadixIndex<Words> {
    RadixIndex::new().expect("address space")
}

/// Sets 4000 keys to a value.
fn inserts(value: u64) -> Batch<Words> {
    let mut batch = Batch::new();
    for key in 0..4000 {
        batch.insert(key << 30, value);
    }
    batch
}

#[test]
fn no_batches_call_nothing() {
    for workers in [0, 1, 2, 4] {
        new().execute_stream(workers, [], |_, _| unreachable!("there is no batch"));
    }
}

/// The caller gives batches back to be refilled, and they must come in order.
#[test]
fn batches_may_go_round() {
    for workers in WORKERS {
        let index = new();
        let (back, free) = std::sync::mpsc::channel();
        (0..3).for_each(|_| back.send(Batch::new()).expect("the receiver lives"));
        let mut values = 0..100u64;
        let batches = std::iter::from_fn(move || {
            let value = values.next()?;
            let mut batch: Batch<Words> = free.recv().ok()?;
            batch.clear();
            batch.update(3, value.checked_sub(1), value);
            Some(batch)
        });
        let mut count = 0u64;
        index.execute_stream(workers, batches, |batch, _| {
            let before = count.checked_sub(1);
            let applied = true;
            assert_eq!(
                batch.outcome(0),
                OperationOutcome::Updated { applied, before }
            );
            count += 1;
            let _ = back.send(batch);
            ControlFlow::Continue(())
        });
        assert_eq!(count, 100);
    }
}

#[test]
fn a_batch_that_is_too_large_is_refused_alone() {
    const LIMIT: usize = 1 << 24;
    let mut large = Batch::with_capacity(LIMIT + 1);
    for _ in 0..=LIMIT {
        large.insert(7, 7);
    }
    let index = new();
    let mut results = Vec::new();
    index.execute_stream(2, [inserts(1), large, inserts(2)], |batch, result| {
        results.push((result, batch.outcome(0) == OperationOutcome::Pending));
        ControlFlow::Continue(())
    });
    let error = OperationError::BatchTooLarge {
        size: LIMIT + 1,
        unit: "operations",
        limit: LIMIT,
    };
    let expected = [(Ok(()), false), (Err(error), true), (Ok(()), false)];
    assert_eq!(results, expected);
    assert_eq!(index.get(7), Ok(None));
    assert_eq!(index.get(0), Ok(Some(2)));
}

#[test]
fn a_break_ends_the_stream_between_two_batches() {
    for workers in WORKERS {
        let index = new();
        let taken = AtomicU64::new(0);
        let batches = (0..).map(|value| {
            taken.fetch_add(1, Ordering::Relaxed);
            inserts(value)
        });
        let mut count = 0;
        index.execute_stream(workers, batches, |_, _| {
            count += 1;
            match count {
                5 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        });
        assert_eq!(count, 5);
        assert!((5..=6).contains(&taken.into_inner()), "read too far ahead");
        for key in 0..4000 {
            assert_eq!(index.get(key << 30), Ok(Some(4)));
        }
    }
}

#[test]
fn a_panic_of_the_source_ends_the_stream() {
    for workers in WORKERS {
        let index = new();
        let batches = (0..).map(|value| {
            assert!(value < 5, "no more batches");
            inserts(value)
        });
        let mut count = 0;
        let run = AssertUnwindSafe(|| {
            index.execute_stream(workers, batches, |_, _| {
                count += 1;
                ControlFlow::Continue(())
            });
        });
        let panic = catch_unwind(run).expect_err("the source has panicked");
        assert_eq!(panic.downcast_ref(), Some(&"no more batches"));
        assert_eq!(count, 5);
        assert_eq!(index.get(0), Ok(Some(4)));
    }
}

#[test]
fn a_panic_of_the_receiver_ends_the_stream() {
    for workers in WORKERS {
        let index = new();
        let run = AssertUnwindSafe(|| {
            index.execute_stream(workers, (0..).map(inserts), |_, _| panic!("enough"));
        });
        let panic = catch_unwind(run).expect_err("the receiver has panicked");
        assert_eq!(panic.downcast_ref(), Some(&"enough"));
        assert_eq!(index.get(0), Ok(Some(0)));
        index.check_invariants();
    }
}
