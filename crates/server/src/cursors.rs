//! The positions of scans over a keyspace. A cursor is a number for a key.

use hashbrown::HashMap;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// How many cursors are remembered.
const CURSORS_MAX: usize = 1 << 16;
/// How many bytes the keys of all cursors may have.
const BYTES_MAX: usize = 64 << 20;

/// Remembers behind which key a scan goes on, for the cursors that were used last. A cursor may
/// be used any number of times, by any client, and in any database.
#[derive(Debug, Default)]
pub struct Cursors {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    cursors: HashMap<u64, Cursor>,
    /// Cursors in the order in which they were used last.
    by_use: BTreeMap<u64, u64>,
    bytes: usize,
    /// The last cursor's number.
    last: u64,
    /// How often cursors were used.
    uses: u64,
}

#[derive(Debug)]
struct Cursor {
    key: Vec<u8>,
    used: u64,
}

impl Cursors {
    /// A cursor, never 0, from which a scan goes on behind `key`.
    pub fn begin(&self, key: Vec<u8>) -> u64 {
        let state = &mut *self.state.lock();
        state.last += 1;
        state.uses += 1;
        let (number, used) = (state.last, state.uses);
        state.bytes += key.len();
        state.cursors.insert(number, Cursor { key, used });
        state.by_use.insert(used, number);
        while state.cursors.len() > CURSORS_MAX || state.bytes > BYTES_MAX {
            let Some((_, oldest)) = state.by_use.pop_first() else {
                break;
            };
            if let Some(cursor) = state.cursors.remove(&oldest) {
                state.bytes -= cursor.key.len();
            }
        }
        number
    }

    /// The key behind which a cursor goes on, `None` if it was never given out, or too long ago.
    pub fn key(&self, number: u64) -> Option<Vec<u8>> {
        let state = &mut *self.state.lock();
        let cursor = state.cursors.get_mut(&number)?;
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
