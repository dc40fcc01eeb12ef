//! Faults that show with a single thread.

use crate::keys::SampleForm;
use crate::model::request::{OwnedOperation, OwnedOutcome, State};
use crate::model::scenario::ScenarioStep;
use crate::model::shrink::FailingScenario;
use crate::model::{self, Reference, write};
use nearfield_core::{
    Batch, ByteStrings, MAX_KEY_BYTES, OperationError, OrderedIndex, PointResult, Words,
};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CanaryFault {
    UpdateIsLost,
    UpdateIgnoresComparison,
    RemoveIfIsLost,
    RemoveIfIgnoresComparison,
    GetIsStaleWithinBatch,
    ScanMissesEntry,
    ScanIgnoresLimit,
    ScanIsAscending,
    PredecessorIsStrict,
    SuccessorIsStrict,
    DuplicatesRunBackwards,
    ScansRunLast,
    LenCountsInserts,
    RemoveOfManyPanics,
    InvariantBreaks,
    LongKeysPass,
    BatchesAreRefused,
    HookLosesEntry,
}

use CanaryFault::*;

const FAULTS: [CanaryFault; 18] = [
    UpdateIsLost,
    UpdateIgnoresComparison,
    RemoveIfIsLost,
    RemoveIfIgnoresComparison,
    GetIsStaleWithinBatch,
    ScanMissesEntry,
    ScanIgnoresLimit,
    ScanIsAscending,
    PredecessorIsStrict,
    SuccessorIsStrict,
    DuplicatesRunBackwards,
    ScansRunLast,
    LenCountsInserts,
    RemoveOfManyPanics,
    InvariantBreaks,
    LongKeysPass,
    BatchesAreRefused,
    HookLosesEntry,
];

struct CanaryIndex<F: SampleForm> {
    inner: Reference<F>,
    fault: CanaryFault,
}

impl<F: SampleForm> CanaryIndex<F> {
    fn new(fault: CanaryFault) -> Self {
        CanaryIndex {
            inner: Reference::new(),
            fault,
        }
    }

    fn between(&self, _number: u64) {
        if self.fault == HookLosesEntry {
            self.inner.state().pop_first();
        }
    }

    /// Returns the order in which the faulty index executes a batch.
    fn order(&self, requests: &BTreeMap<usize, OwnedOperation<F>>) -> Vec<usize> {
        let mut order: Vec<_> = requests.keys().copied().collect();
        let key = |position: &usize| requests[position].keys().next().cloned();
        match self.fault {
            DuplicatesRunBackwards if requests.values().all(is_point) => {
                // The sort is stable, so only operations on one key change their order.
                order.reverse();
                order.sort_by_key(key);
            }
            ScansRunLast => order.sort_by_key(|position| !is_point(&requests[position])),
            _ => {}
        }
        order
    }

    fn answer(
        &self,
        request: &OwnedOperation<F>,
        state: &mut State<F>,
        begin: &State<F>,
    ) -> OwnedOutcome<F> {
        match (self.fault, request) {
            // The outcome is right, so only a later operation can notice.
            (UpdateIsLost, OwnedOperation::Update(..))
            | (RemoveIfIsLost, OwnedOperation::RemoveIf(..)) => request.apply(&mut state.clone()),
            (UpdateIgnoresComparison, OwnedOperation::Update(key, _, value)) => {
                let answer = request.apply(state);
                state.insert(key.clone(), value.clone());
                answer
            }
            (RemoveIfIgnoresComparison, OwnedOperation::RemoveIf(key, _)) => {
                let answer = request.apply(state);
                state.remove(key);
                answer
            }
            (GetIsStaleWithinBatch, OwnedOperation::Get(_)) => request.apply(&mut begin.clone()),
            (ScanMissesEntry, OwnedOperation::Scan(_)) => match request.apply(state) {
                OwnedOutcome::Entries(mut entries) if entries.len() > 2 => {
                    entries.remove(1);
                    OwnedOutcome::Entries(entries)
                }
                answer => answer,
            },
            (ScanIgnoresLimit, OwnedOperation::Scan(scan)) => {
                let mut scan = scan.clone();
                scan.limit = scan.limit.saturating_add(1);
                OwnedOperation::Scan(scan).apply(state)
            }
            (ScanIsAscending, OwnedOperation::Scan(scan)) => {
                let mut scan = scan.clone();
                scan.direction = nearfield_core::ScanDirection::Ascending;
                OwnedOperation::Scan(scan).apply(state)
            }
            (PredecessorIsStrict, OwnedOperation::Predecessor(key))
            | (SuccessorIsStrict, OwnedOperation::Successor(key)) => {
                let mut others = state.clone();
                others.remove(key);
                request.apply(&mut others)
            }
            (RemoveOfManyPanics, OwnedOperation::Remove(_)) if state.len() > 2 => {
                panic!("removed from {} entries", state.len())
            }
            _ => request.apply(state),
        }
    }
}

fn is_point<F: SampleForm>(request: &OwnedOperation<F>) -> bool {
    !matches!(
        request,
        OwnedOperation::Predecessor(_) | OwnedOperation::Successor(_) | OwnedOperation::Scan(_)
    )
}

impl<F: SampleForm> OrderedIndex<F> for CanaryIndex<F> {
    fn execute(&self, batch: &mut Batch<F>) -> Result<(), OperationError> {
        if self.fault == BatchesAreRefused && batch.len() > 2 {
            return Err(OperationError::OutOfMemory {
                what: "canary".to_owned(),
            });
        }
        let (input, mut output) = batch.begin()?;
        let mut state = self.inner.state();
        // Copied only for the fault that needs it: this takes long for many entries.
        let begin = match self.fault {
            GetIsStaleWithinBatch => state.clone(),
            _ => State::<F>::new(),
        };
        let requests = input.operations().iter().enumerate();
        let requests: BTreeMap<_, _> = requests
            .filter_map(|(position, operation)| {
                Some((position, OwnedOperation::read(operation, &input)?))
            })
            .collect();
        for position in self.order(&requests) {
            let request = &requests[&position];
            let answer = self.answer(request, &mut state, &begin);
            write(&mut output, position, request, &answer);
        }
        Ok(())
    }

    fn len(&self) -> usize {
        let len = self.inner.len();
        // Several entries are needed, so that shrinking has something to keep.
        if self.fault == LenCountsInserts && len > 3 {
            len + 1
        } else {
            len
        }
    }

    fn check_invariants(&self) {
        let is_broken = self.fault == InvariantBreaks && self.inner.len() == 3;
        assert!(!is_broken, "three entries");
    }

    fn insert(&self, key: F::Key<'_>, value: F::Value<'_>) -> PointResult<F> {
        if self.fault == LongKeysPass && F::key_bytes(key) > MAX_KEY_BYTES {
            return Ok(None);
        }
        self.inner.insert(key, value)
    }
}

/// Returns the first seed that finds the fault, and its shrunk case.
fn first_failure<F: SampleForm>(fault: CanaryFault) -> (u64, FailingScenario<F>) {
    let build = &mut |_| CanaryIndex::<F>::new(fault);
    (0..1000)
        .find_map(|seed| Some((seed, model::find(seed, build, &mut CanaryIndex::between)?)))
        .expect("some seed finds the fault")
}

fn assert_found_and_small<F: SampleForm>(fault: CanaryFault) {
    let (seed, failing) = first_failure::<F>(fault);
    let sizes = failing.steps.iter().map(|step| match step {
        ScenarioStep::Batch(requests) => requests.len(),
        ScenarioStep::Single(_) => 1,
        ScenarioStep::Between(_) | ScenarioStep::Inspect => 0,
    });
    assert!(
        sizes.sum::<usize>() <= 4,
        "{fault:?} is not small:\n{failing}"
    );
    // Few scenarios have long keys.
    let seeds_max = if fault == LongKeysPass { 200 } else { 30 };
    assert!(seed < seeds_max, "{fault:?} needs seed {seed}:\n{failing}");
}

#[test]
fn the_model_test_finds_each_fault_and_shrinks_it() {
    for fault in FAULTS {
        assert_found_and_small::<ByteStrings>(fault);
        // All words have one length.
        if fault != LongKeysPass {
            assert_found_and_small::<Words>(fault);
        }
    }
}

#[test]
fn a_failure_says_what_to_do_and_what_goes_wrong() {
    let (_, failing) = first_failure::<ByteStrings>(GetIsStaleWithinBatch);
    let report = failing.to_string();
    for expected in [
        "let mut batch = Batch::<ByteStrings>::new();\n",
        "batch.insert(b\"\", b\"\");\nbatch.get(b\"\");\nindex.execute(&mut batch)?;\n",
        "position 1, batch.get(b\"\"): None, expected Some(b\"\")",
    ] {
        assert!(report.contains(expected), "{report}");
    }
}

#[test]
fn the_reference_passes() {
    model::check::<Words, _>(100, |_| Reference::new());
    model::check::<ByteStrings, _>(100, |_| Reference::new());
}
