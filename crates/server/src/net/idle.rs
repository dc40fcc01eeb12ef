//! Clients that do nothing for too long.

use super::thread::IoThread;

impl IoThread<'_> {
    /// Closes clients that have sent nothing for long, and those that take too long to receive.
    pub(super) fn look_for_idle(&mut self) {
        const EVERY_MS: u64 = 1000;
        if self.steady_ms.saturating_sub(self.checks.idle_ms) < EVERY_MS {
            return;
        }
        self.checks.idle_ms = self.steady_ms;
        self.server.statistics.sample(self.steady_ms);
        let (server, now_ms) = (self.server, self.steady_ms);
        let mut due = Vec::new();
        for (index, connection) in self.guard.connections.iter_mut() {
            if connection.is_idle(server, now_ms) || connection.is_over_output_limit(server, now_ms)
            {
                due.push(index);
            }
        }
        for index in due {
            self.close(index);
        }
    }
}
