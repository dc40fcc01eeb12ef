//! The last slow commands (`SLOWLOG`).

use crate::client::ClientSession;
use crate::config::Hot;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A slow command.
#[derive(Clone, Debug)]
pub struct SlowCommand {
    /// The unique number of this record.
    pub id: u64,
    /// The time at which it ended, in seconds since 1970.
    pub at_s: u64,
    /// The time it took, in microseconds.
    pub took_us: u64,
    /// The words of the command, shortened.
    pub args: Vec<Vec<u8>>,
    /// The address of the client.
    pub peer: String,
    /// The client's name.
    pub name: String,
}

/// The last slow commands, the latest first.
#[derive(Debug, Default)]
pub struct SlowLog {
    state: Mutex<(u64, VecDeque<SlowCommand>)>,
}

/// The number of words kept of a command that has more.
const WORDS_MAX: usize = 32;
/// The number of bytes kept of a word that has more.
const WORD_BYTES_MAX: usize = 128;

impl SlowLog {
    /// Records a command if it took long enough. `words` returns the command's words without
    /// secrets.
    pub fn note<'a>(
        &self,
        hot: &Hot,
        client: &ClientSession,
        words: impl FnOnce() -> Vec<&'a [u8]>,
        took: Duration,
    ) {
        let least = hot.slowlog_slower_than_us.load(Ordering::Relaxed);
        let took_us = took.as_micros() as u64;
        if least < 0 || took_us < least as u64 {
            // A negative threshold turns the log off.
            return;
        }
        let entries_max = hot.slowlog_max_len.load(Ordering::Relaxed) as usize;
        let mut state = self.state.lock();
        let (next_id, entries) = &mut *state;
        debug_assert!(entries.front().is_none_or(|latest| latest.id < *next_id));
        entries.push_front(SlowCommand {
            id: *next_id,
            at_s: crate::clock::now_ms() / 1000,
            took_us,
            // Most commands are quick and never get here.
            args: shorten(&words()),
            peer: client.shared.peer.clone(),
            name: client.shared.name.lock().clone(),
        });
        *next_id += 1;
        // The setting may have been lowered by any number.
        entries.truncate(entries_max);
    }

    /// Returns the latest `count` records, the latest first.
    pub fn latest(&self, count: usize) -> Vec<SlowCommand> {
        self.state.lock().1.iter().take(count).cloned().collect()
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.state.lock().1.len()
    }

    /// Returns true if there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all records.
    pub fn clear(&self) {
        // The numbers continue, so that no two records have the same one.
        self.state.lock().1.clear();
    }
}

fn shorten(args: &[&[u8]]) -> Vec<Vec<u8>> {
    // As in Redis, the last word has the number of those left out.
    let kept = if args.len() > WORDS_MAX {
        WORDS_MAX - 1
    } else {
        args.len()
    };
    let mut words: Vec<Vec<u8>> = Vec::with_capacity(kept + 1);
    for word in args.iter().take(kept) {
        let mut shown = word.get(..WORD_BYTES_MAX).unwrap_or(word).to_vec();
        if word.len() > WORD_BYTES_MAX {
            let more = word.len() - WORD_BYTES_MAX;
            shown.extend_from_slice(format!("... ({more} more bytes)").as_bytes());
        }
        words.push(shown);
    }
    if kept < args.len() {
        let more = args.len() - kept;
        words.push(format!("... ({more} more arguments)").into_bytes());
    }
    debug_assert!(words.len() <= WORDS_MAX);
    words
}
