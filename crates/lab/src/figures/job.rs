//! What has to be done for figures, in pieces that can be done at the same time.

use super::kept::Kept;
use super::row::Row;
use crate::error::LabError;
use crate::harness::Interrupt;
use crate::server::ServerError;
use nearfield_pool::PoolError;

/// Some of the points of a figure, or of several that show the same run.
pub(super) struct Job {
    pub figures: Vec<&'static str>,
    /// Whose points they are.
    pub peer: String,
    /// The memory that they take, in bytes.
    pub bytes: usize,
    /// How many phases it has.
    pub phases: usize,
    /// Why it cannot be done, if it cannot.
    pub missing: Option<String>,
    /// Whether no other may run meanwhile, as a clock measures it.
    pub alone: bool,
    pub work: Work,
}

/// Adds its rows to a run, also those before an error.
type Work = Box<dyn FnOnce(&mut Run<'_>) -> Result<(), PointError> + Send>;

/// A job that is being done.
pub(super) struct Run<'r> {
    pub interrupt: &'r Interrupt,
    pub kept: &'r Kept,
    pub rows: Vec<Row>,
    phase_ended: &'r mut dyn FnMut(),
}

impl Run<'_> {
    /// Says that a phase has ended.
    pub(super) fn end_phase(&mut self) {
        (self.phase_ended)();
    }
}

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PointError {
    /// An index of the pool refused or did not do an operation.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// An index of modules refused a batch.
    #[error(transparent)]
    Batch(#[from] nearfield_core::Error),
    /// The workload cannot be made.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A server does not do what it is asked.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Answers were wrong.
    #[error("{wrong} of {operations} operations had a wrong answer; the first: {first}")]
    Wrong {
        /// How many.
        wrong: u64,
        /// Of how many.
        operations: u64,
        /// What was asked, and what was answered.
        first: String,
    },
    /// Clients wait for what never comes.
    #[error("{clients} clients have not ended their operations")]
    Hangs {
        /// How many tasks of clients.
        clients: usize,
    },
    /// What is to be compared is not there.
    #[error("{0}")]
    Missing(String),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// What a job without an index takes.
const BYTES_MIN: usize = 1 << 20;

impl Job {
    pub(super) fn new(
        figure: &'static str,
        peer: &str,
        phases: usize,
        work: impl FnOnce(&mut Run<'_>) -> Result<(), PointError> + Send + 'static,
    ) -> Job {
        Job {
            figures: vec![figure],
            peer: peer.to_owned(),
            bytes: BYTES_MIN,
            phases,
            missing: None,
            alone: false,
            work: Box::new(work),
        }
    }

    /// Computed without clients.
    pub(super) fn count(
        figure: &'static str,
        peer: &str,
        count: impl FnOnce() -> Vec<Row> + Send + 'static,
    ) -> Job {
        Job::new(figure, peer, 1, move |run| {
            run.rows = count();
            run.end_phase();
            Ok(())
        })
    }

    /// What it is, for people.
    pub(super) fn title(&self) -> String {
        format!("figure {}: {}", self.figures.join(", "), self.peer)
    }

    /// Does it, and answers its rows, also those before an error. `kept` is what jobs before have
    /// left.
    pub(super) fn run(
        self,
        interrupt: &Interrupt,
        kept: &Kept,
        mut phase_ended: impl FnMut(),
    ) -> (Vec<Row>, Result<(), PointError>) {
        let mut run = Run {
            interrupt,
            kept,
            rows: Vec::new(),
            phase_ended: &mut phase_ended,
        };
        let done = (self.work)(&mut run);
        (run.rows, done)
    }

    /// Does it with nothing that others have left.
    #[cfg(test)]
    pub(super) fn run_by_itself(self, interrupt: &Interrupt) -> (Vec<Row>, Result<(), PointError>) {
        self.run(interrupt, &Kept::new(0), || {})
    }
}
