//! A thread's connection to memory nodes that run programs.

use crate::filtered::PoolProgramExecutor;
use nearfield_offload::traversal::{TraversalOutcome, TraversalQuery};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Time for which programs are not tried again after no memory node has responded: a client waits
/// for responses for about a second.
const AWAY: Duration = Duration::from_secs(10);

/// A function that connects one thread, or returns the reason for which it cannot.
pub type Connect = dyn Fn() -> Result<Box<dyn PoolProgramExecutor>, String> + Send + Sync;

/// The connection, which is made when it is first needed.
#[derive(Default)]
pub struct ProgramConnection {
    connect: Arc<OnceLock<Box<Connect>>>,
    made: Option<Box<dyn PoolProgramExecutor>>,
    refused: Option<(Instant, String)>,
}

impl ProgramConnection {
    /// Creates a connection that `connect` makes, once that is known.
    pub fn new(connect: Arc<OnceLock<Box<Connect>>>) -> ProgramConnection {
        ProgramConnection {
            connect,
            ..ProgramConnection::default()
        }
    }

    /// Returns true if there may be a connection.
    pub fn is_there(&self) -> bool {
        self.connect.get().is_some()
    }

    fn connection(&mut self) -> Result<&mut Box<dyn PoolProgramExecutor>, String> {
        Ok(match &mut self.made {
            Some(made) => made,
            made => {
                let connect = self.connect.get().ok_or("programs are not reachable")?;
                made.insert(connect()?)
            }
        })
    }

    /// Returns the reason for which no memory node has responded a short time ago.
    fn refusal(&self) -> Option<&str> {
        let (when, why) = self.refused.as_ref()?;
        (when.elapsed() < AWAY).then_some(why.as_str())
    }

    /// Notes the reason for which a run has failed, if it has.
    fn note(&mut self, why: Option<&str>) {
        self.refused = why.map(|why| (Instant::now(), why.to_owned()));
        if self.refused.is_some() {
            // A connection that has failed is made again at the next try.
            self.made = None;
        }
    }
}

impl PoolProgramExecutor for ProgramConnection {
    fn run(&mut self, query: &TraversalQuery, iterations: u64) -> Result<TraversalOutcome, String> {
        if let Some(why) = self.refusal() {
            return Err(why.to_owned());
        }
        let made = self.connection();
        let run = made.and_then(|made| made.run(query, iterations));
        self.note(run.as_ref().err().map(String::as_str));
        run
    }

    fn run_all(
        &mut self,
        queries: &[TraversalQuery],
        iterations: u64,
    ) -> Vec<Result<TraversalOutcome, String>> {
        let fail = |why: &str| queries.iter().map(|_| Err(why.to_owned())).collect();
        if let Some(why) = self.refusal() {
            return fail(why);
        }
        let runs: Vec<Result<TraversalOutcome, String>> = match self.connection() {
            Ok(made) => made.run_all(queries, iterations),
            Err(why) => fail(&why),
        };
        let why = runs.iter().find_map(|run| run.as_ref().err());
        self.note(why.map(String::as_str));
        runs
    }
}

impl std::fmt::Debug for ProgramConnection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Way")
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}
