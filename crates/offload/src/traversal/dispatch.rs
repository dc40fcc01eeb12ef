//! `execute`: the choice where a query runs, and its continuation after it was stopped early.

use super::decision::{Hardware, IterationCost, OffloadDecision};
use super::query::{QueryRunner, TraversalOutcome, TraversalQuery};
use super::status::TraversalStatus;
use std::num::NonZero;

/// A dispatcher: it runs queries at memory nodes if that pays, and otherwise on the caller, with
/// the same results.
#[derive(Debug)]
pub struct Dispatch<R, L> {
    /// The runner of programs where the data is.
    pub remote: R,
    /// The runner of programs on the caller, with loads over the network.
    pub local: L,
    /// The assumed speed of memory nodes.
    pub hardware: Hardware,
    /// The assumed number of instructions of programs.
    pub cost: IterationCost,
    /// Largest number of iterations of one request.
    pub iteration_limit: NonZero<u64>,
    /// Largest number of iterations of a query. A query that needs more is assumed to loop.
    pub iterations_max: u64,
}

/// The reason why a query has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DispatchError<R, L> {
    /// The memory nodes returned no result.
    #[error(transparent)]
    Remote(R),
    /// The local run returned no result.
    #[error(transparent)]
    Local(L),
    /// The traversal stopped before its end.
    #[error("the traversal stopped at {address:#x} after {iterations} iterations: {status:?}")]
    Stopped {
        /// The reason of the stop.
        status: TraversalStatus,
        /// The address where it stopped.
        address: u64,
        /// Number of iterations before the stop.
        iterations: u64,
    },
}

/// A source of free regions for programs that allocate.
pub trait RegionSource {
    /// Fills the list of free regions in a scratchpad. Returns false if there are none to give.
    fn replenish(&mut self, query: &mut TraversalQuery) -> bool;
}

/// The source without regions.
impl RegionSource for () {
    fn replenish(&mut self, _: &mut TraversalQuery) -> bool {
        false
    }
}

impl<R: QueryRunner, L: QueryRunner> Dispatch<R, L> {
    /// Decides where a query runs.
    pub fn decide(&self, query: &TraversalQuery) -> OffloadDecision {
        self.hardware.decide(&query.program, self.cost)
    }

    /// Runs a query to its end. Continues it after iteration limits, and after regions were
    /// replenished.
    ///
    /// # Errors
    /// See [`DispatchError`].
    pub fn execute(
        &mut self,
        mut query: TraversalQuery,
        regions: &mut impl RegionSource,
    ) -> Result<TraversalOutcome, DispatchError<R::Error, L::Error>> {
        // The decision depends on the program only, so a continuation runs where the query began.
        let decision = self.decide(&query);
        let mut iterations = 0;
        loop {
            let left = self.iterations_max.saturating_sub(iterations);
            let limit = self.iteration_limit.get().min(left);
            let run = match decision {
                OffloadDecision::Offload { .. } => {
                    let run = self.remote.run(&query, limit);
                    run.map_err(DispatchError::Remote)
                }
                OffloadDecision::OnCaller { .. } => {
                    let run = self.local.run(&query, limit);
                    run.map_err(DispatchError::Local)
                }
            };
            let mut outcome = run?;
            iterations += outcome.iterations;
            outcome.iterations = iterations;
            query.start = outcome.address;
            let goes_on = match outcome.status {
                TraversalStatus::Done => return Ok(outcome),
                TraversalStatus::IterationLimit => iterations < self.iterations_max,
                // Replenished regions let it go on, so this is no loop without progress.
                TraversalStatus::OutOfRegions => true,
                _ => false,
            };
            // A stopped query keeps its state: regions are added to the list in the scratchpad.
            query.scratchpad = outcome.scratchpad;
            let replenished =
                outcome.status != TraversalStatus::OutOfRegions || regions.replenish(&mut query);
            if !goes_on || !replenished {
                return Err(DispatchError::Stopped {
                    status: outcome.status,
                    address: outcome.address,
                    iterations,
                });
            }
        }
    }
}
