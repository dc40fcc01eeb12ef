//! `execute`: where a query runs, and how it goes on after it was stopped early.

use super::decision::{Cost, Decision, Hardware};
use super::query::{Outcome, Query, Runner};
use super::status::Status;
use std::num::NonZero;

/// Runs queries at memory nodes if that pays, else on the caller, with the same results.
#[derive(Debug)]
pub struct Dispatch<R, L> {
    /// Runs programs where the data is.
    pub remote: R,
    /// Runs programs here, with loads from afar.
    pub local: L,
    /// What memory nodes are taken to be.
    pub hardware: Hardware,
    /// How many instructions programs are taken to have.
    pub cost: Cost,
    /// The most iterations of one request.
    pub iteration_limit: NonZero<u64>,
    /// The most iterations of a query, after which it is taken to go in circles.
    pub iterations_max: u64,
}

/// The reason why a query has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DispatchError<R, L> {
    /// The memory nodes gave no answer.
    #[error(transparent)]
    Remote(R),
    /// The local run gave none.
    #[error(transparent)]
    Local(L),
    /// The traversal stopped before its end.
    #[error("the traversal stopped at {address:#x} after {iterations} iterations: {status:?}")]
    Stopped {
        /// Why.
        status: Status,
        /// Where.
        address: u64,
        /// After how many iterations.
        iterations: u64,
    },
}

/// Gives free regions to programs that allocate.
pub trait Regions {
    /// Fills the list of free regions in a scratchpad; false if there are none to give.
    fn replenish(&mut self, query: &mut Query) -> bool;
}

/// No regions.
impl Regions for () {
    fn replenish(&mut self, _: &mut Query) -> bool {
        false
    }
}

impl<R: Runner, L: Runner> Dispatch<R, L> {
    /// Where a query runs.
    pub fn decide(&self, query: &Query) -> Decision {
        self.hardware.decide(&query.program, self.cost)
    }

    /// Runs a query to its end. It continues behind limits of iterations, and when regions were
    /// replenished.
    ///
    /// # Errors
    /// See [`DispatchError`].
    pub fn execute(
        &mut self,
        mut query: Query,
        regions: &mut impl Regions,
    ) -> Result<Outcome, DispatchError<R::Error, L::Error>> {
        let decision = self.decide(&query);
        let mut iterations = 0;
        loop {
            let left = self.iterations_max.saturating_sub(iterations);
            let limit = self.iteration_limit.get().min(left);
            let run = match decision {
                Decision::Offload { .. } => {
                    let run = self.remote.run(&query, limit);
                    run.map_err(DispatchError::Remote)
                }
                Decision::OnCaller { .. } => {
                    let run = self.local.run(&query, limit);
                    run.map_err(DispatchError::Local)
                }
            };
            let mut outcome = run?;
            iterations += outcome.iterations;
            outcome.iterations = iterations;
            query.start = outcome.address;
            let goes_on = match outcome.status {
                Status::Done => return Ok(outcome),
                Status::IterationLimit => iterations < self.iterations_max,
                Status::OutOfRegions => true,
                _ => false,
            };
            query.scratchpad = outcome.scratchpad;
            let replenished =
                outcome.status != Status::OutOfRegions || regions.replenish(&mut query);
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
