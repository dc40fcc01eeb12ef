//! Executes tasks on a map.

mod nearfield;
mod peer;

pub(super) use nearfield::NearfieldEngine;
pub(super) use peer::PeerEngine;

use super::task::Task;
use crate::harness::{Counts, Durations};

/// A map and the way its operations are carried out.
pub(super) trait Engine<S>: Sized {
    /// A key as the map wants it.
    type Key: Copy + Send + Sync;
    /// One thread's access to the map.
    type Lane<'e>: Lane<Key = Self::Key> + Send
    where
        Self: 'e;

    /// Converts a key, or says why the map cannot hold it.
    fn key(source: S) -> Result<Self::Key, &'static str>;

    /// One lane for each of `threads` threads, for batches of `batch` operations where the map
    /// takes batches.
    fn lanes(&mut self, threads: usize, batch: usize) -> Vec<Self::Lane<'_>>;
}

/// One thread's access to a map. This is what is measured: everything in
/// [`run`](Lane::run) counts.
pub(super) trait Lane {
    /// A key as the map wants it.
    type Key: Copy;

    /// Carries out `tasks` in order and answers how many had a wrong answer. Writes values of
    /// `version`, and records latencies.
    ///
    /// # Errors
    /// Says why the map refused.
    fn run(
        &mut self,
        tasks: &[Task<Self::Key>],
        version: u16,
        durations: &mut Durations,
    ) -> Result<u64, String>;

    /// Carries out `tasks` and counts what that takes; `None` for maps that do not count.
    fn count(&mut self, _tasks: &[Task<Self::Key>], _version: u16) -> Option<Counts> {
        None
    }
}
