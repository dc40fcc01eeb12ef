//! Queries on the model of an accelerator.

use super::offloaded::OffloadedQuery;
use crate::traversal::{
    QueryRunner, TraversalMemory, TraversalOutcome, TraversalQuery, TraversalStatus,
};
use nearfield_hardware::VirtualTime;
use nearfield_hardware::accelerator::pulse::{
    ParameterError, PulseAccelerator, PulseDesign, PulseParameters,
};
use nearfield_hardware::accelerator::{Departure, DepartureReason, RackNode, TranslationTable};
use std::convert::Infallible;
use std::rc::Rc;

/// A runner of queries on the model of one memory node's accelerator.
#[derive(Debug)]
pub struct AcceleratorRunner<M> {
    memory: Rc<M>,
    accelerator: PulseAccelerator<OffloadedQuery<M>>,
    departures: Vec<Departure<OffloadedQuery<M>>>,
    now: VirtualTime,
}

impl<M: TraversalMemory> AcceleratorRunner<M> {
    /// Creates an accelerator attached to memory. `table` lists the memory that it may access.
    ///
    /// # Errors
    /// The parameter whose value makes no sense.
    pub fn new(
        memory: M,
        parameters: PulseParameters,
        design: PulseDesign,
        table: TranslationTable,
    ) -> Result<AcceleratorRunner<M>, ParameterError> {
        Ok(AcceleratorRunner {
            memory: Rc::new(memory),
            accelerator: PulseAccelerator::new(parameters, design, table)?,
            departures: Vec::new(),
            now: VirtualTime::ZERO,
        })
    }

    /// Returns the memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Returns the virtual time at which the last query ended.
    pub fn now(&self) -> VirtualTime {
        self.now
    }

    /// Runs queries that begin at the same time and compete for the pipelines. Outcomes are in the
    /// order of the queries.
    pub fn run_together(
        &mut self,
        queries: &[TraversalQuery],
        iterations: u64,
    ) -> Vec<TraversalOutcome> {
        let mut outcomes: Vec<Option<TraversalOutcome>> = Vec::new();
        for query in queries {
            // The hardware fetches a node before it looks at the limit, and the address may be
            // wrong.
            if iterations == 0 {
                outcomes.push(Some(unbegun(query)));
                continue;
            }
            let offloaded = OffloadedQuery::new(query, &self.memory, iterations);
            let number = outcomes.len() as u64;
            self.accelerator
                .submit(self.now, offloaded.with_number(number));
            outcomes.push(None);
        }
        while self.accelerator.next_event().is_some() {
            self.accelerator.step(&mut self.departures);
        }
        for departure in self.departures.drain(..) {
            self.now = self.now.max(departure.at);
            let Departure { traversal, end, .. } = departure;
            let number = traversal.number() as usize;
            if let Some(outcome) = outcomes.get_mut(number) {
                debug_assert!(outcome.is_none(), "query {number} departs twice");
                *outcome = Some(traversal.outcome(end));
            }
        }
        let lost =
            |query| OffloadedQuery::new(query, &self.memory, 0).outcome(DepartureReason::Limit);
        let all = outcomes.into_iter().zip(queries);
        all.map(|(outcome, query)| outcome.unwrap_or_else(|| lost(query)))
            .collect()
    }
}

/// Returns the outcome of a query that may make no iteration.
fn unbegun(query: &TraversalQuery) -> TraversalOutcome {
    let mut scratchpad = query.scratchpad.clone();
    scratchpad.resize(query.program.scratchpad_bytes(), 0);
    TraversalOutcome {
        status: TraversalStatus::IterationLimit,
        address: query.start,
        scratchpad,
        iterations: 0,
    }
}

impl<M: TraversalMemory> QueryRunner for AcceleratorRunner<M> {
    type Error = Infallible;

    fn run(
        &mut self,
        query: &TraversalQuery,
        iterations: u64,
    ) -> Result<TraversalOutcome, Infallible> {
        let mut outcomes = self.run_together(std::slice::from_ref(query), iterations);
        Ok(outcomes.pop().unwrap_or_else(|| unbegun(query)))
    }
}
