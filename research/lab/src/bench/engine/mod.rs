//! Execution of tasks on a map.

mod nearfield;
mod peer;

pub(super) use nearfield::NearfieldEngine;
pub(super) use peer::PeerEngine;

use super::task::BenchOperation;
use crate::harness::{Durations, MapCostCounts};

/// A map and the code that carries out its operations.
pub(super) trait BenchEngine<S>: Sized {
    /// A key in the form that the map takes.
    type Key: Copy + Send + Sync;
    /// One thread's access to the map.
    type Lane<'e>: BenchLane<Key = Self::Key> + Send
    where
        Self: 'e;

    /// Converts a key, or returns the reason why the map cannot hold it.
    fn key(source: S) -> Result<Self::Key, &'static str>;

    /// Creates one lane for each of `threads` threads, for batches of `batch` operations if the map
    /// takes batches.
    fn lanes(&mut self, threads: usize, batch: usize) -> Vec<Self::Lane<'_>>;
}

/// One thread's access to a map. The time of [`run`](BenchLane::run), with everything in it, is
/// measured.
pub(super) trait BenchLane {
    /// A key in the form that the map takes.
    type Key: Copy;

    /// Carries out `tasks` in order and returns the number of wrong outcomes. Writes values of
    /// `version`, and records latencies.
    ///
    /// # Errors
    /// The map's reason for a refusal.
    fn run(
        &mut self,
        tasks: &[BenchOperation<Self::Key>],
        version: u16,
        durations: &mut Durations,
    ) -> Result<u64, String>;

    /// Carries out `tasks` and counts their work; returns `None` for maps that do not count.
    fn count(
        &mut self,
        _tasks: &[BenchOperation<Self::Key>],
        _version: u16,
    ) -> Option<MapCostCounts> {
        None
    }
}
