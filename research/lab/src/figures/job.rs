//! Jobs: the work for figures, in pieces that can run at the same time.

use super::result_cache::ResultCache;
use super::row::Row;
use crate::error::LabError;
use crate::harness::Interrupt;
use crate::server::ServerError;
use nearfield_pool::PoolError;

/// The work for some points of a figure, or of several figures that show the same run.
pub(super) struct FigureJob {
    pub figures: Vec<&'static str>,
    /// The contender of the points.
    pub peer: String,
    /// The memory that the job takes, in bytes.
    pub bytes: usize,
    /// Number of phases.
    pub phases: usize,
    /// Reason why the job cannot run, if it cannot.
    pub missing: Option<String>,
    /// True if no other job may run at the same time, because a clock measures this one.
    pub alone: bool,
    pub work: Work,
}

/// The work: adds its rows to a run, including those before an error.
type Work = Box<dyn FnOnce(&mut RunningJob<'_>) -> Result<(), PointError> + Send>;

/// A job that is running.
pub(super) struct RunningJob<'r> {
    pub interrupt: &'r Interrupt,
    pub results: &'r ResultCache,
    pub rows: Vec<Row>,
    phase_ended: &'r mut dyn FnMut(),
}

impl RunningJob<'_> {
    /// Reports that a phase has ended.
    pub(super) fn end_phase(&mut self) {
        (self.phase_ended)();
    }
}

/// Reason why a point has no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PointError {
    /// An operation that an index of the pool refused or failed.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A batch that an index of modules refused.
    #[error(transparent)]
    Batch(#[from] nearfield_core::OperationError),
    /// A workload that cannot be made.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A server that does not do what it is asked to.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Wrong outcomes.
    #[error("{wrong} of {operations} operations had a wrong outcome; the first: {first}")]
    Wrong {
        /// Number of wrong outcomes.
        wrong: u64,
        /// Number of operations.
        operations: u64,
        /// The first wrong outcome, with its operation.
        first: String,
    },
    /// Clients that wait for an event that never comes.
    #[error("{clients} clients have unfinished operations")]
    Hangs {
        /// Number of waiting client tasks.
        clients: usize,
    },
    /// A program or file that is missing, so that nothing can be compared.
    #[error("{0}")]
    Missing(String),
    /// A request of the user to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Memory of a job without an index, in bytes.
const BYTES_MIN: usize = 1 << 20;

impl FigureJob {
    pub(super) fn new(
        figure: &'static str,
        peer: &str,
        phases: usize,
        work: impl FnOnce(&mut RunningJob<'_>) -> Result<(), PointError> + Send + 'static,
    ) -> FigureJob {
        FigureJob {
            figures: vec![figure],
            peer: peer.to_owned(),
            bytes: BYTES_MIN,
            phases,
            missing: None,
            alone: false,
            work: Box::new(work),
        }
    }

    /// Creates a job that computes its rows without clients.
    pub(super) fn count(
        figure: &'static str,
        peer: &str,
        count: impl FnOnce() -> Vec<Row> + Send + 'static,
    ) -> FigureJob {
        FigureJob::new(figure, peer, 1, move |run| {
            run.rows = count();
            run.end_phase();
            Ok(())
        })
    }

    /// Describes the job in words.
    pub(super) fn title(&self) -> String {
        format!("figure {}: {}", self.figures.join(", "), self.peer)
    }

    /// Runs the job and returns its rows, including those before an error. `results` has those of
    /// earlier jobs.
    pub(super) fn run(
        self,
        interrupt: &Interrupt,
        results: &ResultCache,
        mut phase_ended: impl FnMut(),
    ) -> (Vec<Row>, Result<(), PointError>) {
        let mut run = RunningJob {
            interrupt,
            results,
            rows: Vec::new(),
            phase_ended: &mut phase_ended,
        };
        let done = (self.work)(&mut run);
        (run.rows, done)
    }

    /// Runs the job without results of earlier jobs.
    #[cfg(test)]
    pub(super) fn run_by_itself(self, interrupt: &Interrupt) -> (Vec<Row>, Result<(), PointError>) {
        self.run(interrupt, &ResultCache::new(0), || {})
    }
}
