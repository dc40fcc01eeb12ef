//! The return of lost memory nodes.
//!
//! A connection to a lost node stays lost, even when the node can be reached again. So threads need
//! new clients then. To try that may take seconds, in which a thread would not serve the keys of
//! the other nodes. A thread of its own tries it, once a second while operations meet the loss.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Time from a failed search to the next.
const PAUSE: Duration = Duration::from_secs(1);

/// The search for the lost nodes of a store.
#[derive(Debug, Default)]
pub(super) struct NodeReturnSearch {
    state: Mutex<SearchProgress>,
    returns: AtomicU64,
}

#[derive(Debug, Default)]
struct SearchProgress {
    is_running: bool,
    /// The end of the last search, if it has failed.
    failed: Option<Instant>,
}

/// A search, which ends when this is dropped.
struct RunningSearch {
    search: Arc<NodeReturnSearch>,
    has_found: bool,
}

impl NodeReturnSearch {
    /// Returns the number of searches that have found all nodes.
    pub fn returns(&self) -> u64 {
        self.returns.load(Ordering::Acquire)
    }

    /// Begins a search by `reaches_all`, which returns true if all nodes can be reached. Does
    /// nothing during another search, or shortly after a failed one.
    pub fn begin(self: &Arc<Self>, reaches_all: impl FnOnce() -> bool + Send + 'static) {
        {
            let mut state = self.state();
            let is_early = state.failed.is_some_and(|at| at.elapsed() < PAUSE);
            if state.is_running || is_early {
                return;
            }
            state.is_running = true;
        }
        let running = RunningSearch {
            search: Arc::clone(self),
            has_found: false,
        };
        let run = move || {
            // Moved as a whole, so that it is dropped at the end of this thread.
            let mut running = running;
            running.has_found = reaches_all();
        };
        // Without a thread the closure is dropped, which ends the search as a failed one.
        let _ = thread::Builder::new()
            .name("node-returns".to_owned())
            .spawn(run);
    }

    fn state(&self) -> MutexGuard<'_, SearchProgress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunningSearch {
    fn drop(&mut self) {
        if self.has_found {
            self.search.returns.fetch_add(1, Ordering::Release);
        }
        let mut state = self.search.state();
        state.is_running = false;
        state.failed = (!self.has_found).then(Instant::now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn wait_until_it_ends(search: &NodeReturnSearch) {
        while search.state().is_running {
            thread::yield_now();
        }
    }

    #[test]
    fn one_search_runs_at_a_time_and_failed_ones_are_apart() {
        let search = Arc::new(NodeReturnSearch::default());
        let (go, wait) = channel::<()>();
        search.begin(move || wait.recv().is_ok());
        search.begin(|| panic!("another search is running"));
        assert_eq!(search.returns(), 0);
        go.send(()).expect("the search waits");
        wait_until_it_ends(&search);
        assert_eq!(search.returns(), 1);
        // After one that has found all nodes the next begins at once.
        search.begin(|| false);
        wait_until_it_ends(&search);
        search.begin(|| true);
        wait_until_it_ends(&search);
        assert_eq!(search.returns(), 1, "a failed search is too short ago");
    }
}
