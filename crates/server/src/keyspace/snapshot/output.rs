//! The buffer between the threads that read keys and the snapshot's file. It is bounded:
//! these threads wait while it is full, because a key's bytes must not be lost while a disk is
//! slow.

use crate::disk::{PersistenceFile, write_all};
use parking_lot::{Condvar, Mutex};
use std::io::{self, Write};
use std::sync::Arc;

/// The number of waiting bytes from which the cursor pauses.
const CURSOR_BYTES: usize = 4 << 20;
/// The number of waiting bytes from which a thread that changes a key blocks.
const CHANGE_BYTES: usize = 64 << 20;

/// A buffer that one thread empties into a file. Clones are the same buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct SnapshotBuffer {
    shared: Arc<SharedSnapshotBuffer>,
}

#[derive(Debug, Default)]
struct SharedSnapshotBuffer {
    state: Mutex<SnapshotBufferState>,
    /// Signalled when there is something to write, or the end was reached.
    filled: Condvar,
    /// Signalled when something was written.
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct SnapshotBufferState {
    buffer: Vec<u8>,
    ended: bool,
    failed: Option<io::Error>,
}

impl SnapshotBuffer {
    /// Writes the content of the buffer to `file` until the end. Returns the number of bytes.
    pub fn drain_to(&self, file: &dyn PersistenceFile) -> io::Result<u64> {
        let mut chunk = Vec::new();
        let mut written = 0;
        loop {
            let mut state = self.shared.state.lock();
            while state.buffer.is_empty() && !state.ended && state.failed.is_none() {
                self.shared.filled.wait(&mut state);
            }
            if let Some(error) = &state.failed {
                return Err(again(error));
            }
            if state.buffer.is_empty() {
                return Ok(written);
            }
            // The other buffer is filled while this one is written without the lock.
            debug_assert!(chunk.is_empty());
            std::mem::swap(&mut state.buffer, &mut chunk);
            self.shared.emptied.notify_all();
            drop(state);
            if let Err(error) = write_all(file, &chunk) {
                self.fail(again(&error));
                return Err(error);
            }
            written += chunk.len() as u64;
            chunk.clear();
            // Threads that change keys may have filled far more than the cursor does.
            chunk.shrink_to(CURSOR_BYTES);
        }
    }

    /// Marks the end: no more bytes will come.
    pub fn end(&self) {
        self.shared.state.lock().ended = true;
        self.shared.filled.notify_all();
    }

    /// Discards the buffer, and fails all later writes with `error`.
    pub fn fail(&self, error: io::Error) {
        let mut state = self.shared.state.lock();
        state.buffer = Vec::new();
        // The first error is the cause of the later ones.
        state.failed.get_or_insert(error);
        drop(state);
        self.shared.filled.notify_all();
        self.shared.emptied.notify_all();
    }

    /// Waits until there is room for the cursor.
    pub fn wait_for_room(&self) {
        self.wait_below(CURSOR_BYTES);
    }

    /// Waits until there is room for a thread that changes a key.
    pub fn wait_for_room_of_change(&self) {
        self.wait_below(CHANGE_BYTES);
    }

    fn wait_below(&self, bytes: usize) {
        let mut state = self.shared.state.lock();
        while state.buffer.len() >= bytes && state.failed.is_none() {
            self.shared.emptied.wait(&mut state);
        }
    }
}

impl Write for SnapshotBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.shared.state.lock();
        if let Some(error) = &state.failed {
            return Err(again(error));
        }
        debug_assert!(!state.ended);
        state.buffer.extend_from_slice(bytes);
        self.shared.filled.notify_all();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Creates a copy of the error, for another receiver.
pub(super) fn again(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        // The text names the key of a value that cannot be read.
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
