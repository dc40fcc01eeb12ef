//! Clients that wait in commands, and get their replies later.

use super::state::ClientDeadline;
use super::thread::IoThread;
use crate::blocking::Wait;

impl IoThread<'_> {
    /// Ends the waits of clients after their timeouts, and sends them the reply for that case.
    pub(super) fn end_waits(&mut self) {
        while let Some(&ClientDeadline { until_ms, client }) = self.deadlines.first() {
            if until_ms > self.steady_ms {
                break;
            }
            self.deadlines.pop_first();
            let is_due = |wait: &Wait| wait.until_ms.is_some_and(|until| until <= self.steady_ms);
            if let Some(waiter) = self.server.blocked.remove_if(client, is_due)
                && let Some(&index) = self.by_client.get(&client)
            {
                self.server.count_wait_in_vain(&waiter);
                self.resume(index, &waiter.wait.in_vain);
            }
        }
    }

    /// Sends the reply to a client that has waited, and continues with its commands.
    fn resume(&mut self, index: usize, answer: &[u8]) {
        self.reply_to_waiting(index, answer);
        self.resume_waiting(index);
    }

    /// Sends the reply to a client that has waited, unless it wants no reply.
    pub(super) fn reply_to_waiting(&mut self, index: usize, answer: &[u8]) {
        let state = &mut *self.guard;
        let connection = &mut state.connections[index];
        debug_assert!(connection.waiting, "a wait ends once");
        if !connection.client.is_silent_wait {
            connection.bound_output(self.server);
            connection.reply.raw(answer);
        }
        connection.client.waiting_bytes = 0;
        if let Some(until_ms) = connection.waits_until_ms.take() {
            let client = connection.client.shared.id;
            state.deadlines.remove(&ClientDeadline { until_ms, client });
        }
        // The client was not idle while it waited.
        connection.client.shared.touch(state.steady_ms);
        self.mark_dirty(index);
    }

    /// Continues with the commands of a client that has waited.
    pub(super) fn resume_waiting(&mut self, index: usize) {
        let state = &mut *self.guard;
        let connection = &mut state.connections[index];
        connection.waiting = false;
        if std::mem::take(&mut connection.postponed) {
            state.ready.to_read.push(index);
        }
        connection.client.show(false);
        self.mark_dirty(index);
        self.process_input(index);
    }
}
