//! The turns of a process's workers: none makes progress while another opens or closes sockets.
//!
//! UCX 1.13 has one table of event handlers for the whole process, by file descriptor
//! (`ucs/async/async.c`). UCX's own thread calls the handler of a descriptor that is ready. If the
//! handler's worker is in a call at that time, the thread appends the number of the descriptor to
//! the worker's missed events, and the worker's next progress calls the handler that has the number
//! then. The call may have been one that closes the descriptor, as the end of a connection does
//! (`uct/tcp/tcp_sockcm_ep.c`). The next socket that is opened gets the same number. If another
//! worker opens it, the missed event is taken for one of the other worker: UCX ends the process
//! (assertion `handler->async == async`), or, if it is compiled without assertions, calls the
//! handler in the wrong thread.
//!
//! So a worker opens and closes sockets [`alone`], and handles its missed events before others go
//! on. Workers that are kept for the life of the process would not be enough, because connections
//! close sockets, too. Each worker has a lock of its own, because all threads that make progress
//! would share the line of memory of a common one.
//!
//! UCX's thread takes no turn. It opens a socket for each client that connects to a node
//! (`uct/tcp/tcp_listener.c`). A process that serves a node and ends other endpoints meanwhile is
//! still exposed between the end of a connection and the handling of its missed events, which are
//! two calls. Our programs do not do both.

use parking_lot::FairMutex;
use std::sync::{Arc, Mutex, PoisonError};

/// The turn of one worker. Its thread holds it while it makes progress. It is fair: a thread that
/// makes progress all the time would leave no time to others.
pub type UcxWorkerTurn = Arc<FairMutex<()>>;

/// The turns of all workers of the process.
static TURNS: Mutex<Vec<UcxWorkerTurn>> = Mutex::new(Vec::new());

/// Opens or closes sockets while no other worker does so or makes progress. `act` gets the turns
/// of all workers, for the one that it creates or destroys; it must neither call this nor take a
/// turn.
pub fn alone<T>(act: impl FnOnce(&mut Vec<UcxWorkerTurn>) -> T) -> T {
    // No change leaves the list between two states, so a panic leaves it whole.
    let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    let all = turns.clone();
    let _held: Vec<_> = all.iter().map(|turn| turn.lock()).collect();
    act(&mut turns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn sockets_are_opened_when_no_worker_makes_progress() {
        let turn = UcxWorkerTurn::default();
        alone(|turns| turns.push(Arc::clone(&turn)));
        let is_in_progress = AtomicBool::new(false);
        let (said, heard) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _turn = turn.lock();
                is_in_progress.store(true, Ordering::Relaxed);
                said.send(()).expect("it is waited for");
                std::thread::sleep(Duration::from_millis(50));
                is_in_progress.store(false, Ordering::Relaxed);
            });
            heard.recv().expect("a worker");
            alone(|_| assert!(!is_in_progress.load(Ordering::Relaxed)));
        });
        alone(|turns| turns.retain(|other| !Arc::ptr_eq(other, &turn)));
    }

    #[test]
    fn no_worker_makes_progress_while_sockets_are_opened() {
        let turn = UcxWorkerTurn::default();
        alone(|turns| turns.push(Arc::clone(&turn)));
        let is_held = alone(|turns| {
            turns.retain(|other| !Arc::ptr_eq(other, &turn));
            turn.try_lock().is_none()
        });
        assert!(is_held, "a worker could take its turn");
        assert!(turn.try_lock().is_some());
    }
}
