//! Faults that show only with concurrent threads. Each of these indexes passes the model test.

use crate::concurrent::{self, ConcurrentTestConfig, Violation};
use crate::keys::SampleForm;
use crate::model::request::{OwnedOperation, OwnedOutcome, State};
use crate::model::{self, Reference, write};
use nearfield_core::{Batch, ByteStrings, EntryForm, OperationError, OrderedIndex, Words};
use std::collections::HashMap;
use std::sync::Mutex;
use std::thread::{self, ThreadId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CanaryRace {
    /// A get returns the value that the thread has read or written last.
    GetIsCached,
    /// Other threads can write between comparison and write.
    UpdateIsTwoSteps,
    /// Other threads can write between comparison and removal.
    RemoveIfIsTwoSteps,
    /// A scan continues by position instead of by key.
    ScanResumesByPosition,
    /// A value is written in two halves.
    WriteIsTorn,
    /// A batch's operations on one key take effect in order, but each read after a write is served
    /// from the batch, and the writes are applied last.
    WritesAreLate,
}

/// A form whose values can be torn: put together from two values.
trait TearableForm: SampleForm {
    fn tear(old: &Self::OwnedValue, new: &Self::OwnedValue) -> Self::OwnedValue;
}

impl TearableForm for Words {
    fn tear(old: &u64, new: &u64) -> u64 {
        // As two stores of four bytes would leave it in between.
        old & 0xffff_ffff | new & !0xffff_ffff
    }
}

impl TearableForm for ByteStrings {
    fn tear(old: &Vec<u8>, new: &Vec<u8>) -> Vec<u8> {
        [&new[..new.len() / 2], &old[old.len() / 2..]].concat()
    }
}

type Cache<F> = HashMap<(ThreadId, Vec<u8>), Option<<F as EntryForm>::OwnedValue>>;

struct Racy<F: TearableForm> {
    inner: Reference<F>,
    race: CanaryRace,
    cache: Mutex<Cache<F>>,
}

impl<F: TearableForm> Racy<F> {
    fn new(race: CanaryRace) -> Self {
        Racy {
            inner: Reference::new(),
            race,
            cache: Mutex::default(),
        }
    }

    fn apply(&self, request: &OwnedOperation<F>) -> OwnedOutcome<F> {
        match (self.race, request) {
            (CanaryRace::GetIsCached, OwnedOperation::Get(key)) => {
                OwnedOutcome::Value(self.cached(key))
            }
            (CanaryRace::UpdateIsTwoSteps, OwnedOperation::Update(key, previous, value)) => {
                let before = self.inner.state().get(key).cloned();
                // Widens the gap, so that few operations are needed to meet it.
                thread::yield_now();
                let applies = before == *previous;
                if applies {
                    self.inner.state().insert(key.clone(), value.clone());
                }
                OwnedOutcome::Updated(applies, before)
            }
            (CanaryRace::RemoveIfIsTwoSteps, OwnedOperation::RemoveIf(key, expected)) => {
                let before = self.inner.state().get(key).cloned();
                thread::yield_now();
                let applies = before.as_ref() == Some(expected);
                if applies {
                    self.inner.state().remove(key);
                }
                OwnedOutcome::Updated(applies, before)
            }
            (CanaryRace::ScanResumesByPosition, OwnedOperation::Scan(_)) => self.scan(request),
            (CanaryRace::WriteIsTorn, OwnedOperation::Insert(key, value)) => {
                let before = self.inner.state().get(key).cloned();
                if let Some(old) = &before {
                    self.inner.state().insert(key.clone(), F::tear(old, value));
                    thread::yield_now();
                }
                self.inner.state().insert(key.clone(), value.clone());
                OwnedOutcome::Value(before)
            }
            _ => {
                let mut state = self.inner.state();
                let answer = request.apply(&mut state);
                self.remember(request, &state);
                answer
            }
        }
    }

    fn cached(&self, key: &F::OwnedKey) -> Option<F::OwnedValue> {
        let state = self.inner.state();
        let mut cache = self.cache.lock().unwrap();
        let slot = cache.entry(cache_key::<F>(key));
        slot.or_insert_with(|| state.get(key).cloned()).clone()
    }

    fn remember(&self, request: &OwnedOperation<F>, state: &State<F>) {
        if self.race == CanaryRace::GetIsCached {
            let mut cache = self.cache.lock().unwrap();
            for key in request.keys() {
                cache.insert(cache_key::<F>(key), state.get(key).cloned());
            }
        }
    }

    fn scan(&self, request: &OwnedOperation<F>) -> OwnedOutcome<F> {
        let entries = || match request.apply(&mut self.inner.state()) {
            OwnedOutcome::Entries(entries) => entries,
            answer => unreachable!("a scan has the outcome {answer:?}"),
        };
        let mut first = entries();
        // A write before the middle shifts the rest, of which an entry is then missed or repeated.
        first.truncate(first.len() / 2);
        thread::yield_now();
        first.extend(entries().into_iter().skip(first.len()));
        OwnedOutcome::Entries(first)
    }

    /// Executes a batch on a copy of the entries, and writes the changes later.
    fn execute_late(&self, requests: &[Option<OwnedOperation<F>>]) -> Vec<Option<OwnedOutcome<F>>> {
        let mut copy = self.inner.state().clone();
        thread::yield_now();
        let apply = |request: &Option<OwnedOperation<F>>| Some(request.as_ref()?.apply(&mut copy));
        let answers = requests.iter().map(apply).collect();
        let mut state = self.inner.state();
        for request in requests.iter().flatten() {
            request.apply(&mut state);
        }
        answers
    }
}

fn cache_key<F: EntryForm>(key: &F::OwnedKey) -> (ThreadId, Vec<u8>) {
    (thread::current().id(), format!("{key:?}").into_bytes())
}

impl<F: TearableForm> OrderedIndex<F> for Racy<F> {
    fn execute(&self, batch: &mut Batch<F>) -> Result<(), OperationError> {
        let (input, mut output) = batch.begin()?;
        let requests = input.operations().iter();
        let requests: Vec<_> = requests
            .map(|operation| OwnedOperation::read(operation, &input))
            .collect();
        let answers = match self.race {
            CanaryRace::WritesAreLate => self.execute_late(&requests),
            _ => {
                let apply = |request: &Option<_>| Some(self.apply(request.as_ref()?));
                requests.iter().map(apply).collect()
            }
        };
        for (position, (request, answer)) in requests.iter().zip(&answers).enumerate() {
            if let (Some(request), Some(answer)) = (request, answer) {
                write(&mut output, position, request, answer);
            }
        }
        Ok(())
    }

    fn len(&self) -> usize {
        self.inner.len()
    }
}

const CONFIG: ConcurrentTestConfig = ConcurrentTestConfig {
    threads: 4,
    operations: 2000,
    // Few keys, so that threads often meet at one.
    keys_max: 50,
    batch_size_max: 30,
};

fn violations<F: TearableForm>(race: CanaryRace) -> Vec<Violation> {
    // A race does not show with every seed.
    (0..20)
        .filter_map(|seed| concurrent::run::<F, _>(&Racy::new(race), seed, &CONFIG).err())
        .collect()
}

fn is_disorder(violation: &Violation) -> bool {
    matches!(violation, Violation::NotLinearizable(..))
}

fn only_threads_find<F: TearableForm>(race: CanaryRace, is_expected: impl Fn(&Violation) -> bool) {
    // One thread alone must not notice it, or the concurrent test would not be needed for it.
    model::check::<F, _>(20, |_| Racy::new(race));
    let violations = violations::<F>(race);
    assert!(
        violations.iter().any(is_expected),
        "{race:?}: {violations:?}"
    );
}

#[test]
fn stale_reads_are_found() {
    only_threads_find::<Words>(CanaryRace::GetIsCached, is_disorder);
    only_threads_find::<ByteStrings>(CanaryRace::GetIsCached, is_disorder);
}

#[test]
fn lost_updates_are_found() {
    only_threads_find::<Words>(CanaryRace::UpdateIsTwoSteps, is_disorder);
}

#[test]
fn writes_lost_to_a_conditional_remove_are_found() {
    only_threads_find::<Words>(CanaryRace::RemoveIfIsTwoSteps, is_disorder);
}

#[test]
fn late_writes_are_found() {
    only_threads_find::<Words>(CanaryRace::WritesAreLate, is_disorder);
}

#[test]
fn scans_that_miss_or_repeat_an_entry_are_found() {
    only_threads_find::<Words>(CanaryRace::ScanResumesByPosition, |violation| {
        matches!(violation, Violation::Wrong(what)
            if what.contains("not in order") || what.contains("which no thread writes"))
    });
}

#[test]
fn torn_values_are_found() {
    let is_torn = |violation: &Violation| match violation {
        Violation::Wrong(what) => what.contains("torn"),
        _ => false,
    };
    only_threads_find::<Words>(CanaryRace::WriteIsTorn, is_torn);
    only_threads_find::<ByteStrings>(CanaryRace::WriteIsTorn, is_torn);
}

#[test]
fn a_counterexample_is_short() {
    let violation = violations::<Words>(CanaryRace::GetIsCached).pop().unwrap();
    let text = violation.to_string();
    assert!(text.lines().count() < 30, "{text}");
}

#[test]
fn the_reference_passes() {
    concurrent::check::<Words, _>(8, &CONFIG, |_| Reference::new());
    concurrent::check::<ByteStrings, _>(8, &CONFIG, |_| Reference::new());
}
