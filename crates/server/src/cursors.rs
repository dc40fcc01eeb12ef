//! The positions of scans over a keyspace. A cursor is a number that stands for a key.

use hashbrown::HashMap;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Largest number of cursors that are remembered.
const CURSORS_MAX: usize = 1 << 16;
/// Largest number of bytes of the keys of all cursors.
const BYTES_MAX: usize = 64 << 20;

/// The key after which a scan continues, for each of the most recently used cursors. A cursor may
/// be used any number of times, by any client, and in any database.
#[derive(Debug, Default)]
pub struct Cursors {
    state: Mutex<SavedScanCursors>,
}

#[derive(Debug, Default)]
struct SavedScanCursors {
    cursors: HashMap<u64, SavedScanCursor>,
    /// Cursors in the order of their last use.
    by_use: BTreeMap<u64, u64>,
    bytes: usize,
    /// The last cursor's number.
    last: u64,
    /// Number of uses of cursors.
    uses: u64,
}

#[derive(Debug)]
struct SavedScanCursor {
    key: Vec<u8>,
    used: u64,
}

impl Cursors {
    /// Creates a cursor, never 0, from which a scan continues after `key`.
    pub fn begin(&self, key: Vec<u8>) -> u64 {
        let state = &mut *self.state.lock();
        // Clients begin a scan with 0, so no cursor has that number.
        state.last += 1;
        state.uses += 1;
        let (number, used) = (state.last, state.uses);
        state.bytes += key.len();
        state.cursors.insert(number, SavedScanCursor { key, used });
        state.by_use.insert(used, number);
        // A key that alone exceeds the limit evicts its own cursor as the last one.
        while state.cursors.len() > CURSORS_MAX || state.bytes > BYTES_MAX {
            debug_assert_eq!(state.cursors.len(), state.by_use.len());
            let Some((_, oldest)) = state.by_use.pop_first() else {
                break;
            };
            if let Some(cursor) = state.cursors.remove(&oldest) {
                state.bytes -= cursor.key.len();
            }
        }
        number
    }

    /// Returns the key after which a cursor continues; `None` if the cursor was never given out, or
    /// too long ago.
    pub fn key(&self, number: u64) -> Option<Vec<u8>> {
        let state = &mut *self.state.lock();
        let cursor = state.cursors.get_mut(&number)?;
        debug_assert_eq!(state.by_use.get(&cursor.used), Some(&number));
        state.uses += 1;
        state.by_use.remove(&cursor.used);
        cursor.used = state.uses;
        state.by_use.insert(state.uses, number);
        Some(cursor.key.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_that_was_used_least_recently_is_forgotten() {
        let cursors = Cursors::default();
        let first = cursors.begin(b"first".to_vec());
        let second = cursors.begin(b"second".to_vec());
        assert_eq!(cursors.key(first).as_deref(), Some(&b"first"[..]));
        for _ in 0..CURSORS_MAX - 1 {
            cursors.begin(b"other".to_vec());
        }
        assert_eq!(cursors.key(second), None);
        assert!(cursors.key(first).is_some());
        assert_eq!(cursors.key(0), None);
    }

    #[test]
    fn long_keys_leave_room_for_fewer_cursors() {
        let cursors = Cursors::default();
        let first = cursors.begin(vec![1; 60_000]);
        for _ in 0..BYTES_MAX / 60_000 {
            cursors.begin(vec![2; 60_000]);
        }
        assert_eq!(cursors.key(first), None);
        assert!(cursors.state.lock().bytes <= BYTES_MAX);
    }
}
