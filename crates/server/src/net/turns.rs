//! The limit on how long a thread serves one connection before it serves others.
//!
//! A client may have sent thousands of commands, each of which takes long. Others would wait for
//! all of them. So once a turn of the thread has taken some time, only one command or one batch of
//! each connection is executed in it. The rest is executed in the next turns, each time after the
//! requests that have arrived from others.

use super::thread::IoThread;
use crate::connection::RespConnection;

/// Time after which requests are left to the next turn, in milliseconds.
pub(super) const TURN_MS: u64 = 10;

impl IoThread<'_> {
    /// Postpones the requests of a connection until others were served, if this turn has taken
    /// long. Returns true if it did.
    pub(super) fn yields(&mut self, index: usize) -> bool {
        let state = &mut *self.guard;
        if !self.executor.has_run_until(state.steady_ms + TURN_MS) {
            return false;
        }
        if let Some(connection) = state.connections.get_mut(index) {
            connection.yields = true;
            state.ready.to_process.push(index);
        }
        true
    }

    /// Continues with the requests that were postponed until others were served.
    pub(super) fn resume_yielding(&mut self) {
        for index in std::mem::take(&mut self.ready.to_process) {
            let connection = self.connections.get_mut(index);
            if !connection.is_some_and(|it| std::mem::take(&mut it.yields)) {
                continue;
            }
            let is_killed = self
                .connections
                .get(index)
                .is_some_and(RespConnection::is_killed);
            if !is_killed {
                self.process_input(index);
            }
            // No second event arrives for data that came meanwhile.
            self.ready.to_read.push(index);
        }
    }
}
