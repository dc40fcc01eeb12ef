//! *Overlap of combining and operating* (DCART §III-D): a stream of batches, each of which is
//! planned while the one before it is executed.
//!
//! ```text
//! combiner             plan 1 │ plan 2    │ plan 3    │ ...
//! calling thread              │ operate 1 │ operate 2 │ operate 3 │ ...
//! other workers               │ operate 1 │ operate 2 │ operate 3 │ ...
//! ```
//!
//! The tree affects only how well a plan sorts, so a plan may be made while the tree changes. A
//! batch is executed only after the whole batch before it: the calling thread has finished its own
//! part, and has received the parts of the others, before it takes the next plan. The visits of a
//! plan have different keys. Each worker gets a range of them, and may therefore execute it in any
//! order.
//!
//! # Ends and panics
//!
//! Threads wait only for channels, and one thread holds the other end of each. A thread that ends
//! or panics drops its ends. The threads at the other ends notice that, and end too.

use super::combine::{KeyVisit, VisitPlan};
use super::{BatchOperationKinds, EngineOptions, RadixWorkspace};
use crate::counters::RadixProbe;
use crate::leaf::LeafForm;
use crate::tree::RadixTree;
use nearfield_core::{Batch, BatchInput, BatchOutput, OperationError, Outcomes};
use std::mem;
use std::ops::{ControlFlow, Range};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::{self, Scope, ScopedJoinHandle};

/// The minimum number of operations for a worker, because waking it takes as long as executing some
/// hundreds.
const OPERATIONS_PER_WORKER: usize = 512;

/// Executes batches one after another; see [`RadixIndex::execute_stream`](crate::RadixIndex).
pub fn execute<F: LeafForm, P: RadixProbe + Clone + Send>(
    tree: &RadixTree<F>,
    options: &EngineOptions,
    workers: usize,
    batches: impl Iterator<Item = Batch<F>> + Send,
    mut done: impl FnMut(Batch<F>, Result<(), OperationError>) -> ControlFlow<()>,
    probe: &P,
) {
    let workers = workers.max(1);
    thread::scope(|scope| {
        // No buffer: the combiner is one batch ahead.
        let (plans, arriving) = mpsc::sync_channel(0);
        let (used, reused) = mpsc::channel();
        let combiner = Combiner {
            tree,
            options,
            workers,
            plan: VisitPlan::default(),
            reused,
        };
        let combiner = scope.spawn(move || combiner.run(batches, &plans));
        let mut crew = BatchWorkerPool {
            lead: Operator::new(tree, options, probe.clone()),
            outcomes: Outcomes::default(),
            workers: (1..workers)
                .map(|_| {
                    BatchWorkerThread::start(scope, Operator::new(tree, options, probe.clone()))
                })
                .collect(),
            used,
        };
        for (mut batch, course) in &arriving {
            let result = match course {
                PipelineBatchPlan::Whole => crew.lead.execute(&mut batch),
                PipelineBatchPlan::Parts(mut parts) if parts.len() == 1 => {
                    crew.execute_alone(&mut batch, parts.remove(0))
                }
                PipelineBatchPlan::Parts(parts) => {
                    batch = crew.execute(batch, parts);
                    Ok(())
                }
            };
            if done(batch, result).is_break() {
                break;
            }
        }
        // The combiner may wait to hand over a plan. Without a receiver that fails, and it ends.
        drop(arriving);
        join(combiner);
    });
}

/// The course of a batch's execution.
enum PipelineBatchPlan {
    /// Execution as if the batch were not in a stream.
    Whole,
    /// Plans of visits, one for each worker.
    Parts(Vec<VisitPlan>),
}

/// The thread that makes plans.
struct Combiner<'t, F: LeafForm> {
    tree: &'t RadixTree<F>,
    options: &'t EngineOptions,
    workers: usize,
    plan: VisitPlan,
    /// The executed plans, for reuse.
    reused: Receiver<VisitPlan>,
}

impl<F: LeafForm> Combiner<'_, F> {
    fn run(
        mut self,
        batches: impl Iterator<Item = Batch<F>>,
        plans: &SyncSender<(Batch<F>, PipelineBatchPlan)>,
    ) {
        for batch in batches {
            let course = self.plan(&batch);
            if plans.send((batch, course)).is_err() {
                return;
            }
        }
    }

    fn plan(&mut self, batch: &Batch<F>) -> PipelineBatchPlan {
        let Ok(input) = batch.input() else {
            return PipelineBatchPlan::Whole;
        };
        let kinds = BatchOperationKinds::of(&input);
        if kinds.ordered || !kinds.points || kinds.one_by_one(self.options) {
            return PipelineBatchPlan::Whole;
        }
        // Workers that write must have different keys. A batch that only reads may have a key in
        // two parts.
        let apart = kinds.writes && self.workers > 1;
        if apart || kinds.combine(self.options, &input) {
            // The plan reads nodes to learn the bytes that all keys share.
            let _guard = crossbeam_epoch::pin();
            self.plan
                .combine(self.tree, &input, 0..input.operations().len());
        } else if self.workers > 1 {
            self.plan.take_in_order(&input, 0..input.operations().len());
        } else {
            return PipelineBatchPlan::Whole;
        }
        PipelineBatchPlan::Parts(self.split())
    }

    /// Splits the plan into parts with about the same number of operations.
    fn split(&mut self) -> Vec<VisitPlan> {
        let operations = self.plan.order.len();
        let parts = (operations / OPERATIONS_PER_WORKER).clamp(1, self.workers);
        if parts == 1 {
            let next = self.empty_plan();
            return vec![mem::replace(&mut self.plan, next)];
        }
        let mut start = 0;
        (1..=parts)
            .map(|part| {
                let operation = operations * part / parts;
                let end =
                    (self.plan.visits).partition_point(|visit| (visit.first as usize) < operation);
                let mut plan = self.empty_plan();
                plan.take_part(&self.plan, start..end);
                start = end;
                plan
            })
            .collect()
    }

    fn empty_plan(&self) -> VisitPlan {
        self.reused.try_recv().unwrap_or_default()
    }
}

impl VisitPlan {
    /// Plans some of the visits of another plan.
    fn take_part(&mut self, whole: &VisitPlan, visits: Range<usize>) {
        let visits = &whole.visits[visits];
        let start = visits.first().map_or(0, |visit| visit.first);
        let end = visits.last().map_or(0, |visit| visit.first + visit.count);
        self.order.clear();
        self.order
            .extend_from_slice(&whole.order[start as usize..end as usize]);
        self.visits.clear();
        self.visits.extend(visits.iter().map(|visit| KeyVisit {
            first: visit.first - start,
            ..*visit
        }));
        self.sorted = whole.sorted;
    }
}

/// The state of a thread that executes batches and parts of them.
struct Operator<'t, F: LeafForm, P> {
    tree: &'t RadixTree<F>,
    options: &'t EngineOptions,
    workspace: RadixWorkspace,
    probe: P,
}

impl<'t, F: LeafForm, P: RadixProbe> Operator<'t, F, P> {
    fn new(tree: &'t RadixTree<F>, options: &'t EngineOptions, probe: P) -> Self {
        Operator {
            tree,
            options,
            workspace: RadixWorkspace::default(),
            probe,
        }
    }

    fn execute(&mut self, batch: &mut Batch<F>) -> Result<(), OperationError> {
        super::execute(
            self.tree,
            self.options,
            batch,
            &mut self.workspace,
            &mut self.probe,
        )
    }

    /// Executes the visits of a plan; returns the plan.
    fn visit_all(
        &mut self,
        plan: VisitPlan,
        halves: (BatchInput<'_, F>, BatchOutput<'_, F>),
    ) -> VisitPlan {
        self.workspace.plan = plan;
        super::visit_planned(
            self.tree,
            self.options,
            halves,
            &mut self.workspace,
            &mut self.probe,
        );
        mem::take(&mut self.workspace.plan)
    }

    /// Executes the visits of a part of a batch whose outcomes are joined later.
    fn visit_part(&mut self, batch: &Batch<F>, part: &mut BatchPlanPart<F>) {
        let halves = batch.begin_apart(&mut part.outcomes);
        let halves = halves.expect("a batch that has a plan can be begun");
        part.plan = self.visit_all(mem::take(&mut part.plan), halves);
    }
}

/// A part of a batch.
struct BatchPlanPart<F: LeafForm> {
    plan: VisitPlan,
    outcomes: Outcomes<F>,
}

/// The calling thread and the other workers.
struct BatchWorkerPool<'scope, 't, F: LeafForm, P> {
    lead: Operator<'t, F, P>,
    /// The outcomes of the calling thread when there are other workers.
    outcomes: Outcomes<F>,
    workers: Vec<BatchWorkerThread<'scope, F>>,
    /// The sender of executed plans, for reuse.
    used: Sender<VisitPlan>,
}

impl<F: LeafForm, P: RadixProbe> BatchWorkerPool<'_, '_, F, P> {
    /// Executes a batch on the calling thread only, which writes to the batch directly.
    fn execute_alone(
        &mut self,
        batch: &mut Batch<F>,
        plan: VisitPlan,
    ) -> Result<(), OperationError> {
        let plan = self.lead.visit_all(plan, batch.begin()?);
        self.reuse(plan);
        Ok(())
    }

    /// Executes a batch, the first part on the calling thread; returns the batch.
    fn execute(&mut self, batch: Batch<F>, parts: Vec<VisitPlan>) -> Batch<F> {
        let count = parts.len();
        let batch = Arc::new(batch);
        let mut parts = parts.into_iter();
        let own = parts.next().unwrap_or_default();
        for (worker, plan) in self.workers.iter_mut().zip(parts) {
            worker.begin(&batch, plan);
        }
        let mut own = BatchPlanPart {
            plan: own,
            outcomes: mem::take(&mut self.outcomes),
        };
        self.lead.visit_part(&batch, &mut own);
        let mut outcomes = vec![own.outcomes];
        self.reuse(own.plan);
        // The results are collected in the order of the parts, in which outcomes are joined.
        for number in 0..count - 1 {
            let part = self.workers[number].finish();
            outcomes.push(part.outcomes);
            self.reuse(part.plan);
        }
        let mut batch =
            Arc::into_inner(batch).expect("workers drop a batch before they send its outcomes");
        batch.join(&mut outcomes);
        let mut outcomes = outcomes.into_iter();
        self.outcomes = outcomes.next().unwrap_or_default();
        for (worker, outcomes) in self.workers.iter_mut().zip(outcomes) {
            worker.outcomes = outcomes;
        }
        batch
    }

    fn reuse(&self, plan: VisitPlan) {
        // The combiner may have ended, and then needs no plan.
        let _ = self.used.send(plan);
    }
}

/// A worker other than the calling thread.
struct BatchWorkerThread<'scope, F: LeafForm> {
    tasks: SyncSender<(Arc<Batch<F>>, BatchPlanPart<F>)>,
    results: Receiver<BatchPlanPart<F>>,
    /// Memory for outcomes, reused from batch to batch.
    outcomes: Outcomes<F>,
    /// The thread, `None` once it has been joined.
    thread: Option<ScopedJoinHandle<'scope, ()>>,
}

impl<'scope, F: LeafForm> BatchWorkerThread<'scope, F> {
    fn start<'env, P: RadixProbe + Send + 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        mut operator: Operator<'scope, F, P>,
    ) -> Self {
        let (tasks, begun) = mpsc::sync_channel::<(Arc<Batch<F>>, BatchPlanPart<F>)>(1);
        let (finished, results) = mpsc::sync_channel(1);
        let thread = scope.spawn(move || {
            for (batch, mut part) in begun {
                operator.visit_part(&batch, &mut part);
                // The calling thread takes the batch back out of its `Arc` when all parts have
                // arrived.
                drop(batch);
                if finished.send(part).is_err() {
                    return;
                }
            }
        });
        BatchWorkerThread {
            tasks,
            results,
            outcomes: Outcomes::default(),
            thread: Some(thread),
        }
    }

    /// Sends a part of a batch to the worker.
    fn begin(&mut self, batch: &Arc<Batch<F>>, plan: VisitPlan) {
        let outcomes = mem::take(&mut self.outcomes);
        let task = (Arc::clone(batch), BatchPlanPart { plan, outcomes });
        if self.tasks.send(task).is_err() {
            self.panic();
        }
    }

    /// Waits until the part has been executed.
    fn finish(&mut self) -> BatchPlanPart<F> {
        match self.results.recv() {
            Ok(part) => part,
            Err(_) => self.panic(),
        }
    }

    /// Panics with the worker's panic.
    fn panic(&mut self) -> ! {
        if let Some(thread) = self.thread.take() {
            join(thread);
        }
        unreachable!("a worker that has work ends only by a panic")
    }
}

/// Waits for a thread, and panics if it has panicked.
fn join(thread: ScopedJoinHandle<'_, ()>) {
    if let Err(panic) = thread.join() {
        resume_unwind(panic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_core::Words;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};

    const OPERATIONS: u64 = 4 * OPERATIONS_PER_WORKER as u64;

    fn batch(value: u64) -> Batch<Words> {
        let mut batch = Batch::new();
        for key in 0..OPERATIONS {
            batch.insert(key << 20, value);
        }
        batch
    }

    /// A probe that panics at a lock, if that is allowed here.
    #[derive(Clone)]
    struct LockPanicProbe<'a> {
        is_at_fault: fn() -> bool,
        locks_left: &'a AtomicUsize,
    }

    impl RadixProbe for LockPanicProbe<'_> {
        fn lock(&mut self, _waits: u32) {
            if (self.is_at_fault)() && self.locks_left.fetch_sub(1, Ordering::Relaxed) == 1 {
                panic!("a fault");
            }
        }
    }

    fn panics_as_a_worker(workers: usize, locks: usize, is_at_fault: fn() -> bool) {
        let tree = RadixTree::<Words>::new(usize::MAX).unwrap();
        let options = EngineOptions::default();
        let locks_left = AtomicUsize::new(locks);
        let probe = LockPanicProbe {
            is_at_fault,
            locks_left: &locks_left,
        };
        let mut batches_done = 0;
        let run = AssertUnwindSafe(|| {
            let done = |_, _| {
                batches_done += 1;
                ControlFlow::Continue(())
            };
            execute(&tree, &options, workers, (0..).map(batch), done, &probe);
        });
        let panic = catch_unwind(run).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"a fault"));
        // The state is still valid after the panic, and no lock is held.
        let mut after = batch(7);
        super::super::execute(
            &tree,
            &options,
            &mut after,
            &mut RadixWorkspace::default(),
            &mut crate::counters::Off,
        )
        .unwrap();
        tree.check_invariants();
        if batches_done > 0 {
            assert!((0..OPERATIONS as usize).all(|position| after.value(position).is_some()));
        }
    }

    #[test]
    fn a_panic_of_the_calling_thread_ends_the_stream() {
        for workers in [1, 2, 4] {
            for locks in [1, 1000, 5000] {
                // Threads of the test harness have the name of the test, others have none.
                panics_as_a_worker(workers, locks, || thread::current().name().is_some());
            }
        }
    }

    #[test]
    fn a_panic_of_another_worker_ends_the_stream() {
        for workers in [2, 4] {
            for locks in [1, 1000, 5000] {
                panics_as_a_worker(workers, locks, || thread::current().name().is_none());
            }
        }
    }

    #[test]
    fn parts_have_each_visit_once_and_end_between_keys() {
        let tree = RadixTree::<Words>::new(usize::MAX).unwrap();
        let mut batch = Batch::<Words>::new();
        for i in 0..OPERATIONS {
            // Half of the operations have the same key.
            batch.insert(if i % 2 == 0 { 1 << 40 } else { i << 20 }, i);
        }
        let mut combiner = Combiner {
            tree: &tree,
            options: &EngineOptions::default(),
            workers: 3,
            plan: VisitPlan::default(),
            reused: mpsc::channel().1,
        };
        let PipelineBatchPlan::Parts(parts) = combiner.plan(&batch) else {
            panic!("writes are combined");
        };
        assert_eq!(parts.len(), 3);
        let input = batch.input().unwrap();
        let keys = parts
            .iter()
            .flat_map(|part| part.visits.iter().map(|visit| part.key(&input, visit)));
        assert!(keys.is_sorted_by(|a, b| a < b), "a key has two visits");
        let mut positions: Vec<u32> = parts
            .iter()
            .flat_map(|part| {
                let positions =
                    |visit: &KeyVisit| &part.order[visit.first as usize..][..visit.count as usize];
                part.visits.iter().flat_map(positions)
            })
            .copied()
            .collect();
        positions.sort_unstable();
        assert!(positions.iter().copied().eq(0..OPERATIONS as u32));
    }
}
