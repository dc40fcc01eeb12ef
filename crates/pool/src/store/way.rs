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

    fn try_run(
        &mut self,
        query: &TraversalQuery,
        iterations: u64,
    ) -> Result<TraversalOutcome, String> {
        let made = match &mut self.made {
            Some(made) => made,
            made => {
                let connect = self.connect.get().ok_or("programs are not reachable")?;
                made.insert(connect()?)
            }
        };
        made.run(query, iterations)
    }
}

impl PoolProgramExecutor for ProgramConnection {
    fn run(&mut self, query: &TraversalQuery, iterations: u64) -> Result<TraversalOutcome, String> {
        if let Some((when, why)) = &self.refused
            && when.elapsed() < AWAY
        {
            return Err(why.clone());
        }
        let run = self.try_run(query, iterations);
        self.refused = match &run {
            Ok(_) => None,
            Err(why) => {
                // A connection that has failed is made again at the next try.
                self.made = None;
                Some((Instant::now(), why.clone()))
            }
        };
        run
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
