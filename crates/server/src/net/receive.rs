//! The data that arrives on connections.

use super::thread::IoThread;
use crate::connection::{RespConnection, SocketReadOutcome};

/// Number of bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// Largest number of bytes of one read within a longer request.
const LONG_READ_BYTES: usize = 1 << 20;
/// Number of reads of one connection before the others have their turn.
const READS_MAX: usize = 16;

impl IoThread<'_> {
    /// Reads the data that has arrived on a connection and executes it, or adds it to the round.
    pub(super) fn receive(&mut self, index: usize) {
        if self
            .connections
            .get(index)
            .is_some_and(RespConnection::is_killed)
        {
            self.close(index);
            return;
        }
        for _ in 0..READS_MAX {
            let Some(connection) = self.connections.get_mut(index) else {
                return;
            };
            if connection.yields {
                // The connection is read after its requests were executed.
                return;
            }
            if connection.waiting && connection.input.len() > READ_BYTES {
                // Data that it sends while it waits stays in the socket until it continues.
                connection.postponed = true;
                return;
            }
            let may_have_more = if connection.input.is_empty() && !connection.waiting {
                self.receive_requests(index)
            } else {
                self.receive_rest(index)
            };
            if !may_have_more {
                return;
            }
        }
        if self.connections.contains(index) {
            self.ready.to_read.push(index);
        }
    }

    /// Reads data of a connection without kept input, and executes the requests in it. Returns true
    /// if more data may have arrived.
    #[inline]
    fn receive_requests(&mut self, index: usize) -> bool {
        let state = &mut *self.guard;
        let connection = &mut state.connections[index];
        let mut scratch = std::mem::take(&mut state.scratch);
        // It is another thread's buffer if the connections were lent.
        if scratch.len() < READ_BYTES {
            scratch.resize(READ_BYTES, 0);
        }
        let buffer = scratch.get_mut(..READ_BYTES).unwrap_or_default();
        let received = connection.receive(buffer);
        let SocketReadOutcome::Bytes(count) = received else {
            self.scratch = scratch;
            if received == SocketReadOutcome::End {
                self.end(index);
            }
            return false;
        };
        // More may have arrived, and no further event reports an end.
        let may_have_more = count == READ_BYTES || connection.ends();
        connection.count_received(&self.server.statistics, count);
        let bytes = scratch.get(..count).unwrap_or_default();
        let used = self.process(index, bytes);
        if let Some(connection) = self.connections.get_mut(index) {
            let rest = bytes.get(used..).unwrap_or_default();
            if !rest.is_empty() {
                connection.input.extend_from_slice(rest);
                connection.show_input();
            }
        }
        self.scratch = scratch;
        may_have_more
    }

    /// Reads data behind the kept input of a connection, and executes the requests in both. Returns
    /// true if more data may have arrived.
    #[inline]
    fn receive_rest(&mut self, index: usize) -> bool {
        let state = &mut *self.guard;
        let connection = &mut state.connections[index];
        // The buffer grows with the data that has arrived, so that no client takes memory by
        // announcing a long request.
        let room = connection.input.len().clamp(READ_BYTES, LONG_READ_BYTES);
        let scratch = &mut state.scratch;
        if scratch.len() < room {
            scratch.resize(room, 0);
        }
        let buffer = scratch.get_mut(..room).unwrap_or_default();
        let received = connection.receive(buffer);
        let count = match received {
            SocketReadOutcome::Bytes(count) => count,
            SocketReadOutcome::Nothing | SocketReadOutcome::End => 0,
        };
        let bytes = buffer.get(..count).unwrap_or_default();
        connection.input.extend_from_slice(bytes);
        let may_have_more = count == room || connection.ends();
        connection.count_received(&self.server.statistics, count);
        if count > 0 {
            // A client that sends a long request is not idle.
            connection.client.shared.touch(state.steady_ms);
        }
        if received == SocketReadOutcome::End {
            self.end(index);
            return false;
        }
        if count == 0 {
            return false;
        }
        self.process_input(index);
        if let Some(connection) = self.connections.get(index) {
            connection.note_held(&self.server.clients.share);
            if connection.is_over_query_limit(self.server) {
                self.close(index);
                return false;
            }
        }
        self.relieve();
        may_have_more
    }

    /// Executes the requests that a connection has kept.
    pub(super) fn process_input(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let mut input = std::mem::take(&mut connection.input);
        let used = self.process(index, &input);
        if let Some(connection) = self.connections.get_mut(index) {
            input.drain(..used);
            // The rest may stay for long.
            if input.capacity() / 2 > input.len() {
                input.shrink_to_fit();
            }
            connection.input = input;
            connection.show_input();
        }
    }

    /// Executes the complete requests in `bytes`, or adds them to the round. Returns the number of
    /// their bytes.
    fn process(&mut self, index: usize, bytes: &[u8]) -> usize {
        let used = self.process_requests(index, bytes);
        if let Some(connection) = self.connections.get_mut(index) {
            // Requests that do not wait for values are looked at again when more of them has
            // arrived.
            connection.fetched_bytes = match &connection.fetching {
                Some(_) => connection.fetched_bytes.saturating_sub(used),
                None => 0,
            };
        }
        used
    }

    /// Closes a connection at the end of the client's data, after the replies to its last requests.
    fn end(&mut self, index: usize) {
        match self.connections.get_mut(index) {
            Some(connection) if connection.fetching.is_some() => {
                connection.ends_after_fetch = true;
            }
            Some(connection) if connection.dirty && !connection.waiting => {
                connection.client.closing = true;
            }
            _ => self.close(index),
        }
    }
}
