//! Posts by a deadline, marked for other clients while they are in flight.
//!
//! The scheduler may interrupt a client for any time, even between its read of the clock and the
//! last word of its write. So a client that posts by a deadline first takes a *place* in the node's
//! header, then reads the clock, and releases the place when the post is done. A client that is
//! about to change another's data, and knows that the other's deadlines have passed, waits for the
//! owners of all places that it finds taken. A client that takes a place later is too late by its
//! own clock.
//!
//! ```text
//!  63     42 41        18 17      0
//! ┌─────────┬────────────┬─────────┐
//! │ process │ start time │ number  │
//! └─────────┴────────────┴─────────┘
//! ```
//!
//! The start time distinguishes a process from a later one of the same number; it is cut off to 24
//! bits, 46 hours of ticks. The number differs from one post to the next. No client waits for a
//! dead process.

use super::mapping::{PLACES, ShmHeader, ShmPostSlot};
use super::process::{is_alive, started};
use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::thread;

/// The position of the process in a word. Numbers of processes are less than 2^22 on Linux.
const PROCESS_SHIFT: u32 = 42;
const START_SHIFT: u32 = 18;
const START_MASK: u64 = (1 << (PROCESS_SHIFT - START_SHIFT)) - 1;
const NUMBER_MASK: u64 = (1 << START_SHIFT) - 1;

/// The upper bits of the words of this process.
static ME: LazyLock<u64> = LazyLock::new(|| {
    let process = std::process::id();
    let started = started(process).unwrap_or_default();
    debug_assert!(u64::from(process) >> (u64::BITS - PROCESS_SHIFT) == 0);
    u64::from(process) << PROCESS_SHIFT | (started & START_MASK) << START_SHIFT
});

thread_local! {
    /// The index of the place that this thread took last, and the number of its next post.
    static LAST: Cell<(usize, u64)> = {
        static THREADS: AtomicU64 = AtomicU64::new(0);
        let thread = THREADS.fetch_add(1, Ordering::Relaxed);
        // Different threads and processes begin at different places, most of the time.
        let place = (u64::from(std::process::id()) + thread).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Cell::new(((place >> 32) as usize % PLACES, 0))
    };
}

/// A place that is taken until this is dropped.
#[derive(Debug)]
pub struct PostSlotGuard<'h>(&'h ShmPostSlot);

impl PostSlotGuard<'_> {
    /// Takes a place. Waits while living processes have all places.
    pub fn take(header: &ShmHeader) -> PostSlotGuard<'_> {
        let (last, number) = LAST.get();
        let word = *ME | number & NUMBER_MASK;
        debug_assert_ne!(word, 0, "zero is a free place");
        loop {
            // Begins at the last place, whose line is probably still in the cache of this
            // processor.
            for at in (last..PLACES).chain(0..last) {
                let place = &header.places[at];
                // The clock is read only after all can see that the place is taken.
                // A load first: a failing exchange would take the line from its owner.
                let free = place.0.load(Ordering::Relaxed) == 0;
                if free
                    && place
                        .0
                        .compare_exchange(0, word, Ordering::SeqCst, Ordering::Relaxed)
                        .is_ok()
                {
                    fence(Ordering::SeqCst);
                    LAST.set((at, number + 1));
                    return PostSlotGuard(place);
                }
            }
            // Many places at once are those of interrupted threads, which must run to release them.
            thread::yield_now();
            // Dead processes release nothing.
            for place in &header.places {
                let word = place.0.load(Ordering::Acquire);
                has_ended(place, word);
            }
        }
    }
}

impl Drop for PostSlotGuard<'_> {
    fn drop(&mut self) {
        self.0.0.store(0, Ordering::Release);
    }
}

/// A set of posts that were in flight.
#[derive(Debug)]
pub struct UnderWay<'h>(Vec<(&'h ShmPostSlot, u64)>);

impl UnderWay<'_> {
    /// Returns all posts in flight.
    pub fn of(header: &ShmHeader) -> UnderWay<'_> {
        fence(Ordering::SeqCst);
        let word = |place: &'_ ShmPostSlot| place.0.load(Ordering::SeqCst);
        let places = header.places.iter().map(|place| (place, word(place)));
        UnderWay(places.filter(|(_, word)| *word != 0).collect())
    }

    /// Returns true if all of them are done, or their processes have died.
    pub fn are_done(&mut self) -> bool {
        self.0.retain(|(place, word)| !has_ended(place, *word));
        self.0.is_empty()
    }
}

/// Returns true if the post of a word is done. Releases the place of a dead process.
fn has_ended(place: &ShmPostSlot, word: u64) -> bool {
    if word == 0 || place.0.load(Ordering::Acquire) != word {
        return true;
    }
    let process = (word >> PROCESS_SHIFT) as u32;
    let lives = is_alive(process)
        && started(process)
            .is_none_or(|ticks| ticks & START_MASK == word >> START_SHIFT & START_MASK);
    if !lives {
        let free = place
            .0
            .compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed);
        // If the swap fails, another client has released it already.
        let _ = free;
    }
    !lives
}
