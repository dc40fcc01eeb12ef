//! How long a thread goes on with the requests of one connection before it serves others.
//!
//! What one client has sent may be thousands of commands that take long each. Others would wait for
//! all of them. So once a turn of the thread has taken some time, each connection has one command,
//! or one batch, executed in it. What is left is executed in the next turns, each time behind what
//! has come of others.

use super::thread::IoThread;
use crate::connection::Connection;

/// Time after which requests are left to the next turn, in milliseconds.
pub(super) const TURN_MS: u64 = 10;

impl IoThread<'_> {
    /// Leaves the requests of a connection until others were served, if this turn has taken long.
    pub(super) fn yields(&mut self, index: usize) -> bool {
        let served = &mut *self.served;
        if !self.executor.has_run_until(served.steady_ms + TURN_MS) {
            return false;
        }
        if let Some(connection) = served.connections.get_mut(index) {
            connection.yields = true;
            served.yielding.push(index);
        }
        true
    }

    /// Goes on with the requests that were left until others were served.
    pub(super) fn go_on_yielding(&mut self) {
        for index in std::mem::take(&mut self.yielding) {
            let connection = self.connections.get_mut(index);
            if !connection.is_some_and(|it| std::mem::take(&mut it.yields)) {
                continue;
            }
            let is_killed = self
                .connections
                .get(index)
                .is_some_and(Connection::is_killed);
            if !is_killed {
                self.process_input(index);
            }
            // Nobody tells again of what has come meanwhile.
            self.unread.push(index);
        }
    }
}
