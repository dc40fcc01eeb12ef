//! Queries on the model of an accelerator.

use super::offloaded::Offloaded;
use crate::traversal::{NodeMemory, Outcome, Query, Runner, Status};
use nearfield_hardware::Time;
use nearfield_hardware::accelerator::pulse::{Accelerator, Design, ParameterError, Parameters};
use nearfield_hardware::accelerator::{Departure, End, Node, Table};
use std::convert::Infallible;
use std::rc::Rc;

/// A runner of queries on the model of one memory node's accelerator.
#[derive(Debug)]
pub struct Accelerated<M> {
    memory: Rc<M>,
    accelerator: Accelerator<Offloaded<M>>,
    departures: Vec<Departure<Offloaded<M>>>,
    now: Time,
}

impl<M: NodeMemory> Accelerated<M> {
    /// Creates an accelerator attached to memory. `table` lists the memory that it may access.
    ///
    /// # Errors
    /// The parameter whose value makes no sense.
    pub fn new(
        memory: M,
        parameters: Parameters,
        design: Design,
        table: Table,
    ) -> Result<Accelerated<M>, ParameterError> {
        Ok(Accelerated {
            memory: Rc::new(memory),
            accelerator: Accelerator::new(parameters, design, table)?,
            departures: Vec::new(),
            now: Time::ZERO,
        })
    }

    /// Returns the memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Returns the virtual time at which the last query ended.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Runs queries that begin at the same time and compete for the pipelines. Outcomes are in the
    /// order of the queries.
    pub fn run_together(&mut self, queries: &[Query], iterations: u64) -> Vec<Outcome> {
        let mut outcomes: Vec<Option<Outcome>> = Vec::new();
        for query in queries {
            if iterations == 0 {
                outcomes.push(Some(unbegun(query)));
                continue;
            }
            let offloaded = Offloaded::new(query, &self.memory, iterations);
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
                *outcome = Some(traversal.outcome(end));
            }
        }
        let lost = |query| Offloaded::new(query, &self.memory, 0).outcome(End::Limit);
        let all = outcomes.into_iter().zip(queries);
        all.map(|(outcome, query)| outcome.unwrap_or_else(|| lost(query)))
            .collect()
    }
}

/// Returns the outcome of a query that may make no iteration.
fn unbegun(query: &Query) -> Outcome {
    let mut scratchpad = query.scratchpad.clone();
    scratchpad.resize(query.program.scratchpad_bytes(), 0);
    Outcome {
        status: Status::IterationLimit,
        address: query.start,
        scratchpad,
        iterations: 0,
    }
}

impl<M: NodeMemory> Runner for Accelerated<M> {
    type Error = Infallible;

    fn run(&mut self, query: &Query, iterations: u64) -> Result<Outcome, Infallible> {
        let mut outcomes = self.run_together(std::slice::from_ref(query), iterations);
        Ok(outcomes.pop().unwrap_or_else(|| unbegun(query)))
    }
}
