//! A radix tree returns for batches what a `BTreeMap` returns that executes them one operation at a
//! time, with any techniques enabled.
//!
//! With `NEARFIELD_FUZZ_CANARY` in the environment the tree does not remove keys, which a working
//! fuzzer finds within seconds. This proves that faults are noticed.

#![no_main]

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use nearfield_core::{Batch, ByteStrings, EntryForm, OrderedIndex, ScanDirection, Words};
use nearfield_radix::{Combine, EngineOptions, RadixForm, RadixIndex};
use nearfield_testkit::model::Reference;
use std::env;
use std::ops::Bound;
use std::sync::LazyLock;

/// Memory limit of a tree: more than any input needs, yet little to reserve for each.
const MEMORY_BYTES: usize = 64 << 20;

static CANARY: LazyLock<bool> = LazyLock::new(|| env::var_os("NEARFIELD_FUZZ_CANARY").is_some());

/// The plan that an input encodes. It is read byte by byte, because derived reading takes four
/// bytes for each choice, three of which the fuzzer would mutate in vain.
#[derive(Debug)]
struct BatchFuzzPlan<T> {
    /// The keys and values of all steps. Steps refer to them by position, so that each is used
    /// often.
    pool: Vec<T>,
    batches: Vec<(EngineOptions, Vec<BatchFuzzStep>)>,
}

/// An operation; numbers are positions in the pool, taken modulo its length.
#[derive(Clone, Copy, Debug)]
enum BatchFuzzStep {
    Get(u8),
    Insert(u8, u8),
    /// An update; `None` as the expected value stands for an absent key.
    Update(u8, Option<u8>, u8),
    Remove(u8),
    RemoveIf(u8, u8),
    Predecessor(u8),
    Successor(u8),
    Scan(Bound<u8>, Bound<u8>, u32, ScanDirection),
}

fuzz_target!(|input: &[u8]| {
    let mut input = Unstructured::new(input);
    // An input that ends early is ignored.
    let _ = match input.arbitrary() {
        Ok(false) => plan(&mut input).map(|plan| check::<Words>(&plan)),
        _ => plan(&mut input).map(|plan| check::<ByteStrings>(&plan)),
    };
});

fn plan<'a, T: Arbitrary<'a>>(input: &mut Unstructured<'a>) -> Result<BatchFuzzPlan<T>> {
    let count = input.int_in_range(1_u8..=24)?;
    let pool = (0..count).map(|_| input.arbitrary());
    let pool = pool.collect::<Result<_>>()?;
    let mut batches = Vec::new();
    while !input.is_empty() {
        let options = options(input.arbitrary()?, input.arbitrary()?);
        let mut steps = Vec::new();
        while let Some(step) = step(input)? {
            steps.push(step);
        }
        batches.push((options, steps));
    }
    Ok(BatchFuzzPlan { pool, batches })
}

fn options(bits: u8, shortcut_bytes: u8) -> EngineOptions {
    EngineOptions {
        combine: match bits & 3 {
            0 => Combine::Adaptive,
            1 => Combine::Never,
            _ => Combine::Always,
        },
        interleave: bits & 4 != 0,
        share_paths: bits & 8 != 0,
        trigger_together: bits & 16 != 0,
        shortcut_bytes: usize::from(shortcut_bytes) * 16,
        keep_hot_close: bits & 32 != 0,
    }
}

/// Returns the next step of a batch, or `None` at its end.
fn step(input: &mut Unstructured<'_>) -> Result<Option<BatchFuzzStep>> {
    if input.is_empty() {
        return Ok(None);
    }
    let kind: u8 = input.arbitrary()?;
    let at: u8 = input.arbitrary()?;
    Ok(Some(match kind % 16 {
        0..=3 => BatchFuzzStep::Insert(at, input.arbitrary()?),
        4 | 5 => BatchFuzzStep::Get(at),
        6 | 7 => BatchFuzzStep::Remove(at),
        8 => BatchFuzzStep::Update(at, None, input.arbitrary()?),
        9 => BatchFuzzStep::Update(at, Some(input.arbitrary()?), input.arbitrary()?),
        10 => BatchFuzzStep::Predecessor(at),
        11 => BatchFuzzStep::Successor(at),
        12 | 13 => {
            let direction = match kind % 16 {
                12 => ScanDirection::Ascending,
                _ => ScanDirection::Descending,
            };
            let other = input.arbitrary()?;
            let shape: u8 = input.arbitrary()?;
            let limit = u32::from(shape >> 4);
            BatchFuzzStep::Scan(bound(at, shape), bound(other, shape >> 2), limit, direction)
        }
        14 => BatchFuzzStep::RemoveIf(at, input.arbitrary()?),
        _ => return Ok(None),
    }))
}

fn bound(position: u8, shape: u8) -> Bound<u8> {
    match shape & 3 {
        0 => Bound::Unbounded,
        1 => Bound::Excluded(position),
        _ => Bound::Included(position),
    }
}

fn check<F>(plan: &BatchFuzzPlan<F::OwnedKey>)
where
    F: RadixForm<OwnedValue = <F as EntryForm>::OwnedKey> + PartialEq,
{
    let radix = RadixIndex::<F>::with_memory_limit(MEMORY_BYTES).expect("64 MiB can be allocated");
    let reference = Reference::<F>::new();
    for (options, steps) in &plan.batches {
        radix.set_options(*options);
        let mut actual = fill::<F>(&plan.pool, steps, *CANARY);
        let mut expected = fill::<F>(&plan.pool, steps, false);
        radix.execute(&mut actual).expect("the batch is small");
        let result = reference.execute(&mut expected);
        result.expect("the batch is small");
        for (position, step) in steps.iter().enumerate() {
            let (actual, expected) = (actual.outcome(position), expected.outcome(position));
            assert_eq!(actual, expected, "{step:?} at position {position}");
        }
        assert_eq!(radix.len(), reference.len());
        radix.check_invariants();
    }
}

/// Creates a batch. A `forgetful` one has gets in place of removes.
fn fill<F>(pool: &[F::OwnedKey], steps: &[BatchFuzzStep], forgetful: bool) -> Batch<F>
where
    F: EntryForm<OwnedValue = <F as EntryForm>::OwnedKey>,
{
    let owned = |position: u8| &pool[usize::from(position) % pool.len()];
    let key = |position: u8| F::key(owned(position));
    let value = |position: u8| F::value(owned(position));
    let mut batch = Batch::with_capacity(steps.len());
    for &step in steps {
        match step {
            BatchFuzzStep::Get(at) => batch.get(key(at)),
            BatchFuzzStep::Insert(at, new) => batch.insert(key(at), value(new)),
            BatchFuzzStep::Update(at, previous, new) => {
                batch.update(key(at), previous.map(value), value(new))
            }
            BatchFuzzStep::Remove(at) if forgetful => batch.get(key(at)),
            BatchFuzzStep::Remove(at) => batch.remove(key(at)),
            BatchFuzzStep::RemoveIf(at, expected) => batch.remove_if(key(at), value(expected)),
            BatchFuzzStep::Predecessor(at) => batch.predecessor(key(at)),
            BatchFuzzStep::Successor(at) => batch.successor(key(at)),
            BatchFuzzStep::Scan(low, high, limit, direction) => {
                batch.scan(low.map(key), high.map(key), limit, direction)
            }
        };
    }
    batch
}
