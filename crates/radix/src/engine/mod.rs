//! The engine: executes batches by *combine*, *traverse* and *trigger*, the model of the DCART
//! paper (§III), in software.

mod ascending;
mod combine;
mod in_order;
mod options;
pub(crate) mod ordered;
pub(crate) mod pipeline;
mod reads;
mod recorded;
mod shortcut;
mod traverse;
mod trigger;

pub use options::{Combine, EngineOptions};
pub use recorded::execute_recorded;

use crate::counters::RadixProbe;
use crate::cursor::RadixScanScratch;
use crate::leaf::LeafForm;
use crate::shortcut::Shortcuts;
use crate::tree::RadixTree;
use crate::writer::PinnedWriter;
use combine::VisitPlan;
use in_order::{InOrder, Operations};
use nearfield_core::{Batch, BatchInput, BatchOutput, IndexOperation, OperationError};
use reads::{GetExecutor, GetVisits};
use std::ops::Range;
use std::sync::Arc;
use traverse::{Manner, PlannedVisits, TraversalScratch};
use trigger::Trigger;

/// The maximum number of keys per visit for which paths are shared.
const KEYS_PER_SHARED_VISIT: usize = 64;

/// The share (1 in this number) of operations that must need the lock of a node above a leaf, for
/// these locks to be prefetched with the leaves.
const LOCKS_EXPECTED_FROM: usize = 16;

/// Reusable memory of a call of [`execute`].
#[derive(Debug, Default)]
pub struct RadixWorkspace {
    plan: VisitPlan,
    traversal: TraversalScratch,
    scratches: Vec<RadixScanScratch>,
    /// True if many operations of the last batch that was executed in order have locked the node
    /// above their leaf. Those of the next batch probably will, too.
    locks_parents: bool,
}

/// Executes a batch.
pub fn execute<F: LeafForm>(
    tree: &RadixTree<F>,
    options: &EngineOptions,
    batch: &mut Batch<F>,
    workspace: &mut RadixWorkspace,
    probe: &mut impl RadixProbe,
) -> Result<(), OperationError> {
    let (input, mut output) = batch.begin()?;
    let guard = tree.writer();
    let kinds = BatchOperationKinds::of(&input);
    let mut engine = RadixBatchExecution {
        tree,
        options,
        input,
        output: &mut output,
        guard: &guard,
        probe,
    };
    if kinds.one_by_one(options) {
        engine.one_by_one(workspace);
        return Ok(());
    }
    // Scans are executed first, see `ordered`: only those that earlier writes affect wait for their
    // turn.
    let barriers = match kinds.ordered {
        true => engine.execute_ordered(workspace, kinds.writes),
        false => Vec::new(),
    };
    let mut start = 0;
    for barrier in barriers {
        engine.execute_points(workspace, start..barrier, kinds);
        engine.execute_barrier(workspace, barrier);
        start = barrier + 1;
    }
    if kinds.points {
        engine.execute_points(workspace, start..input.operations().len(), kinds);
    }
    Ok(())
}

/// Executes the visits of the plan in `workspace`.
fn visit_planned<F: LeafForm>(
    tree: &RadixTree<F>,
    options: &EngineOptions,
    (input, mut output): (BatchInput<'_, F>, BatchOutput<'_, F>),
    workspace: &mut RadixWorkspace,
    probe: &mut impl RadixProbe,
) {
    let guard = tree.writer();
    RadixBatchExecution {
        tree,
        options,
        input,
        output: &mut output,
        guard: &guard,
        probe,
    }
    .visit_all(workspace);
}

/// The kinds of operations in a batch.
#[derive(Clone, Copy, Debug, Default)]
struct BatchOperationKinds {
    points: bool,
    writes: bool,
    ordered: bool,
    gets_only: bool,
    points_only: bool,
}

impl BatchOperationKinds {
    fn of<F: LeafForm>(input: &BatchInput<'_, F>) -> Self {
        // One test per operation: a bit for each kind that occurs.
        const GET: u8 = 1;
        const WRITE: u8 = 2;
        const ORDERED: u8 = 4;
        const REFUSED: u8 = 8;
        let mut seen = 0;
        for operation in input.operations() {
            seen |= match operation {
                IndexOperation::Get { .. } => GET,
                IndexOperation::Insert { .. }
                | IndexOperation::Update { .. }
                | IndexOperation::Remove { .. }
                | IndexOperation::RemoveIf { .. } => WRITE,
                IndexOperation::Predecessor { .. }
                | IndexOperation::Successor { .. }
                | IndexOperation::Scan { .. } => ORDERED,
                IndexOperation::Refused => REFUSED,
            };
        }
        BatchOperationKinds {
            points: seen & (GET | WRITE) != 0,
            writes: seen & WRITE != 0,
            ordered: seen & ORDERED != 0,
            gets_only: seen == GET,
            points_only: seen & (ORDERED | REFUSED) == 0,
        }
    }

    /// Returns true if the operations must be executed one at a time.
    fn one_by_one(self, options: &EngineOptions) -> bool {
        options.combine == Combine::Never && !options.interleave
    }

    /// Returns true if the point operations must be combined.
    fn combine<F: LeafForm>(self, options: &EngineOptions, input: &BatchInput<'_, F>) -> bool {
        match options.combine {
            Combine::Always => true,
            Combine::Adaptive => combine::repeats_keys(input),
            Combine::Never => false,
        }
    }
}

/// One execution of a batch.
struct RadixBatchExecution<'e, 'b, 'o, F: LeafForm, P> {
    tree: &'e RadixTree<F>,
    options: &'e EngineOptions,
    input: BatchInput<'b, F>,
    output: &'e mut BatchOutput<'o, F>,
    guard: &'e PinnedWriter<'e, F>,
    probe: &'e mut P,
}

impl<'e, 'b: 'e, 'o, F: LeafForm, P: RadixProbe> RadixBatchExecution<'e, 'b, 'o, F, P> {
    /// Executes the point operations of a part of the batch.
    fn execute_points(
        &mut self,
        workspace: &mut RadixWorkspace,
        positions: Range<usize>,
        kinds: BatchOperationKinds,
    ) {
        let shortcuts = self.shortcuts(positions.len()).is_some();
        // Visits that take a shortcut overtake others, so visits must have different keys.
        let combine = kinds.combine(self.options, &self.input) || kinds.writes && shortcuts;
        // The simplest batches have paths without a plan, because making one takes a part of their
        // time.
        if !combine && kinds.gets_only && self.options.interleave && !shortcuts {
            return self.read_all(workspace);
        }
        if !combine && kinds.points_only && self.options.interleave && !shortcuts {
            return self.execute_in_order(workspace);
        }
        if combine {
            workspace.plan.combine(self.tree, &self.input, positions);
        } else {
            workspace.plan.take_in_order(&self.input, positions);
        }
        self.visit_all(workspace);
    }

    /// Executes a batch of point operations only, each by itself.
    fn execute_in_order(&mut self, workspace: &mut RadixWorkspace) {
        let first = self.insert_ascending();
        let mut arrivals = InOrder {
            tree: self.tree,
            input: self.input,
            output: self.output,
            guard: self.guard,
            probe: self.probe,
            parents_locked: 0,
        };
        let manner = Manner {
            from_root: false,
            share_paths: false,
            trigger_together: false,
            keep_hot_close: self.options.keep_hot_close,
        };
        let operations = Operations {
            input: self.input,
            first,
            lock_parents: workspace.locks_parents,
        };
        workspace
            .traversal
            .run(self.tree, self.guard, operations, manner, &mut arrivals);
        let locks = arrivals.parents_locked * LOCKS_EXPECTED_FROM;
        // The next batch of a caller mostly resembles this one.
        workspace.locks_parents = locks > self.input.operations().len() - first;
    }

    /// Executes a batch of gets only.
    fn read_all(&mut self, workspace: &mut RadixWorkspace) {
        let mut reads = GetExecutor {
            tree: self.tree,
            output: self.output,
            guard: self.guard,
            probe: self.probe,
        };
        let manner = Manner {
            from_root: false,
            share_paths: false,
            trigger_together: false,
            keep_hot_close: self.options.keep_hot_close,
        };
        workspace.traversal.run(
            self.tree,
            self.guard,
            GetVisits(self.input),
            manner,
            &mut reads,
        );
    }

    /// Returns the executor of a plan's visits, whose keys are `keys`.
    fn trigger<'t>(
        &'t mut self,
        keys: &'t [F::Key<'b>],
        plan: &'t VisitPlan,
        shortcuts: Option<&'t Shortcuts>,
    ) -> Trigger<'t, 'b, 'o, F, P> {
        Trigger {
            tree: self.tree,
            keys,
            plan,
            input: self.input,
            output: self.output,
            guard: self.guard,
            probe: self.probe,
            shortcuts,
            postponed: Vec::new(),
        }
    }

    /// Returns the shortcut table, if a number of visits should use it.
    fn shortcuts(&self, visits: usize) -> Option<Arc<Shortcuts>> {
        if self.options.shortcut_bytes == 0 || !self.options.interleave {
            return None;
        }
        // The guard is older than this lookup: see `crate::shortcut`.
        let table = self.tree.shortcuts.current()?;
        if self.options.combine != Combine::Always && !table.is_useful() {
            // A table that has not paid is tried again after many visits.
            table.rest(visits);
            return None;
        }
        Some(table)
    }

    /// Executes the visits of the plan whose leaves the shortcut table knows, and removes them from
    /// the plan.
    fn take_shortcuts(&mut self, table: &Shortcuts, plan: &mut VisitPlan) {
        let keys: Vec<F::Key<'_>> = plan.keys(&self.input);
        let together = self.options.trigger_together;
        let rest = self
            .trigger(&keys, plan, Some(table))
            .take_shortcuts(table, together);
        // The plan keeps its order: sorted visits stay sorted.
        plan.visits = rest
            .iter()
            .map(|&number| plan.visits[number as usize])
            .collect();
    }

    /// Executes the visits of the plan.
    fn visit_all(&mut self, workspace: &mut RadixWorkspace) {
        let RadixWorkspace {
            plan, traversal, ..
        } = workspace;
        let shortcuts = self.shortcuts(plan.visits.len());
        if let Some(table) = &shortcuts {
            self.take_shortcuts(table, plan);
        }
        let keys: Vec<F::Key<'_>> = plan.keys(&self.input);
        let manner = Manner {
            from_root: false,
            share_paths: plan.sorted && self.options.share_paths && self.shares_pay(plan),
            trigger_together: self.options.trigger_together,
            keep_hot_close: self.options.keep_hot_close,
        };
        let (tree, options, guard) = (self.tree, self.options, self.guard);
        let mut trigger = self.trigger(&keys, plan, shortcuts.as_deref());
        if options.interleave {
            let visits = PlannedVisits {
                keys: &keys,
                visits: &plan.visits,
            };
            traversal.run(tree, guard, visits, manner, &mut trigger);
        } else {
            trigger.visit_all_from_root();
        }
    }

    /// Returns true if a batch is so large, compared with the tree, that neighbouring visits share
    /// more than the uppermost nodes.
    fn shares_pay(&self, plan: &VisitPlan) -> bool {
        self.options.combine == Combine::Always
            || plan.visits.len() * KEYS_PER_SHARED_VISIT > self.tree.len()
    }

    /// Executes all operations, one at a time.
    fn one_by_one(&mut self, workspace: &mut RadixWorkspace) {
        for position in 0..self.input.operations().len() {
            self.probe.operation(position);
            self.execute_one(workspace, position);
        }
    }

    /// Executes one operation by a walk from the root.
    fn execute_one(&mut self, workspace: &mut RadixWorkspace, position: usize) {
        let operation = &self.input.operations()[position];
        if operation.is_ordered() {
            self.execute_barrier(workspace, position);
        } else if operation.point_key().is_some() {
            workspace.plan.take_one(&self.input, position);
            let plan = &workspace.plan;
            let keys = [plan.key(&self.input, &plan.visits[0])];
            self.trigger(&keys, plan, None).visit_all_from_root();
        }
    }
}
