//! Shrinking of a failing scenario while it keeps failing.

use super::request::{OwnedOperation, OwnedScan};
use super::run::ScenarioFailure;
use super::scenario::ScenarioStep;
use super::show;
use crate::keys::SampleForm;
use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::ops::Bound;
use std::time::{Duration, Instant};

/// The time after which shrinking stops.
const TIME_MAX: Duration = Duration::from_secs(20);

/// A scenario that fails.
#[derive(Clone, Debug)]
pub(crate) struct FailingScenario<F: SampleForm> {
    pub(crate) steps: Vec<ScenarioStep<F>>,
    pub(crate) failure: ScenarioFailure,
}

/// Display of the steps as Rust source, and of the fault that they show.
impl<F: SampleForm> Display for FailingScenario<F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", show::steps(&self.steps), self.failure.what)
    }
}

/// Drops steps, drops operations within batches, and simplifies keys, values and scans, until
/// nothing more can be removed or `TIME_MAX` has passed. `run` executes steps on a fresh index.
pub(crate) fn shrink<F: SampleForm>(
    failing: FailingScenario<F>,
    run: impl FnMut(&[ScenarioStep<F>]) -> Result<(), ScenarioFailure>,
) -> FailingScenario<F> {
    let mut shrinker = Shrinker {
        best: failing,
        run,
        deadline: Instant::now() + TIME_MAX,
        has_progressed: true,
    };
    while shrinker.has_progressed {
        // Passes that remove much come first, because each try runs all remaining steps. One pass
        // may make another possible again, so all are repeated until none helps.
        shrinker.has_progressed = false;
        shrinker.drop_after_failure();
        shrinker.drop_steps();
        shrinker.drop_requests();
        shrinker.widen_scans();
        shrinker.lower_limits();
        shrinker.simplify_keys();
        shrinker.simplify_values();
    }
    shrinker.best
}

struct Shrinker<F: SampleForm, R> {
    best: FailingScenario<F>,
    run: R,
    deadline: Instant,
    has_progressed: bool,
}

impl<F: SampleForm, R: FnMut(&[ScenarioStep<F>]) -> Result<(), ScenarioFailure>> Shrinker<F, R> {
    /// Makes `steps` the best case and returns true if they fail.
    fn accept(&mut self, steps: Vec<ScenarioStep<F>>) -> bool {
        if Instant::now() > self.deadline {
            // Every pass ends once nothing more is accepted.
            return false;
        }
        let Err(failure) = (self.run)(&steps) else {
            return false;
        };
        self.best = FailingScenario { steps, failure };
        self.has_progressed = true;
        true
    }

    fn drop_after_failure(&mut self) {
        let end = self.best.failure.step + 1;
        if end < self.best.steps.len() {
            self.accept(self.best.steps[..end].to_vec());
        }
    }

    fn drop_steps(&mut self) {
        self.drop_chunks(
            |steps| steps.len(),
            |steps, start, end| drop(steps.drain(start..end)),
        );
    }

    fn drop_requests(&mut self) {
        for position in (0..self.best.steps.len()).rev() {
            self.drop_chunks(
                |steps| match &steps[position] {
                    ScenarioStep::Batch(requests) => requests.len(),
                    _ => 0,
                },
                |steps, start, end| {
                    if let ScenarioStep::Batch(requests) = &mut steps[position] {
                        requests.drain(start..end);
                    }
                },
            );
        }
    }

    /// Drops chunks of the `len` parts that steps have: halves first, finally single parts.
    fn drop_chunks(
        &mut self,
        len: impl Fn(&[ScenarioStep<F>]) -> usize,
        drain: impl Fn(&mut Vec<ScenarioStep<F>>, usize, usize),
    ) {
        let mut size = len(&self.best.steps).div_ceil(2);
        while size > 0 {
            let mut start = 0;
            while start < len(&self.best.steps) {
                let end = (start + size).min(len(&self.best.steps));
                let mut steps = self.best.steps.clone();
                drain(&mut steps, start, end);
                // After a success the next chunk begins at `start`, too.
                if !self.accept(steps) {
                    start = end;
                }
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
    }

    fn widen_scans(&mut self) {
        let widenings: [fn(&mut OwnedScan<F>); 3] = [
            |scan| scan.low = Bound::Unbounded,
            |scan| scan.high = Bound::Unbounded,
            |scan| scan.limit = u32::MAX,
        ];
        for position in 0..requests(&self.best.steps).count() {
            for widen in widenings {
                let mut steps = self.best.steps.clone();
                let request = requests_mut(&mut steps).nth(position);
                if let Some(OwnedOperation::Scan(scan)) = request {
                    let before = restrictions(scan);
                    widen(scan);
                    // A scan that stays the same would be accepted in every round, without end.
                    if restrictions(scan) < before {
                        self.accept(steps);
                    }
                }
            }
        }
    }

    /// Lowers the limits of scans that need one to fail: with a lower limit fewer entries are
    /// needed.
    fn lower_limits(&mut self) {
        for position in 0..requests(&self.best.steps).count() {
            // Halves find the order of magnitude in few tries, then single steps the least limit.
            for lower in [|limit: u32| limit / 2, |limit: u32| limit - 1] {
                loop {
                    let mut steps = self.best.steps.clone();
                    match requests_mut(&mut steps).nth(position) {
                        Some(OwnedOperation::Scan(scan)) if !matches!(scan.limit, 0 | u32::MAX) => {
                            scan.limit = lower(scan.limit);
                        }
                        _ => break,
                    }
                    if !self.accept(steps) {
                        break;
                    }
                }
            }
        }
    }

    fn simplify_keys(&mut self) {
        let keys: BTreeSet<_> = requests(&self.best.steps)
            .flat_map(OwnedOperation::keys)
            .cloned()
            .collect();
        for (rank, mut key) in keys.into_iter().enumerate() {
            while let Some(simpler) = F::simpler_keys(&key, rank).into_iter().find(|simpler| {
                let mut steps = self.best.steps.clone();
                // Replaced everywhere, because a fault often needs two operations on one key.
                requests_mut(&mut steps).for_each(|request| {
                    request.change_keys(|it| {
                        if *it == key {
                            *it = simpler.clone();
                        }
                    });
                });
                self.accept(steps)
            }) {
                key = simpler;
            }
        }
    }

    fn simplify_values(&mut self) {
        let values: BTreeSet<_> = requests(&self.best.steps)
            .flat_map(OwnedOperation::values)
            .cloned()
            .collect();
        for (rank, mut value) in values.into_iter().enumerate() {
            while let Some(simpler) = F::simpler_values(&value, rank).into_iter().find(|simpler| {
                let mut steps = self.best.steps.clone();
                // Everywhere, so that comparisons with the value still hold.
                requests_mut(&mut steps)
                    .for_each(|request| replace_value(request, &value, simpler));
                self.accept(steps)
            }) {
                value = simpler;
            }
        }
    }
}

fn requests<F: SampleForm>(steps: &[ScenarioStep<F>]) -> impl Iterator<Item = &OwnedOperation<F>> {
    steps.iter().flat_map(|step| match step {
        ScenarioStep::Batch(requests) => requests.as_slice(),
        ScenarioStep::Single(request) => std::slice::from_ref(request),
        ScenarioStep::Between(_) | ScenarioStep::Inspect => &[],
    })
}

fn requests_mut<F: SampleForm>(
    steps: &mut [ScenarioStep<F>],
) -> impl Iterator<Item = &mut OwnedOperation<F>> {
    steps.iter_mut().flat_map(|step| match step {
        ScenarioStep::Batch(requests) => requests.as_mut_slice(),
        ScenarioStep::Single(request) => std::slice::from_mut(request),
        ScenarioStep::Between(_) | ScenarioStep::Inspect => &mut [],
    })
}

/// Returns the number of restrictions of a scan.
fn restrictions<F: SampleForm>(scan: &OwnedScan<F>) -> usize {
    let bounds = [&scan.low, &scan.high];
    let bounded = bounds
        .iter()
        .filter(|bound| !matches!(bound, Bound::Unbounded));
    bounded.count() + usize::from(scan.limit != u32::MAX)
}

fn replace_value<F: SampleForm>(
    request: &mut OwnedOperation<F>,
    from: &F::OwnedValue,
    to: &F::OwnedValue,
) {
    let replace = |value: &mut F::OwnedValue| {
        if value == from {
            *value = to.clone();
        }
    };
    match request {
        OwnedOperation::Insert(_, value) | OwnedOperation::RemoveIf(_, value) => replace(value),
        OwnedOperation::Update(_, previous, value) => {
            previous.iter_mut().for_each(replace);
            replace(value);
        }
        _ => {}
    }
}
