//! Keeps the process's memory near the limit, where what is counted takes more than its bytes.
//!
//! The allocator rounds sizes up, and pages and blocks that are partly free stay. So a part of the
//! limit is withheld once the process takes more than [`most`]: keys go, or writes are refused,
//! earlier by that part. A little is withheld at a time, as a page returns to the system
//! only when all that lay there is gone, so that the effect comes late. It is given free again,
//! slower, when the process takes less.

use std::sync::atomic::{AtomicU64, Ordering};

/// The process may take this part of the limit more, for what the allocator rounds up,
const MORE_PART: u64 = 8;
/// and so many bytes, for its code, stacks, buffers, and one page for each size of object,
const MORE_BYTES: u64 = 32 << 20;
/// or so many more than it took before it had any keys.
const MORE_THAN_BASE_BYTES: u64 = 8 << 20;

/// This part of the limit is never withheld: a server whose memory is not its keys' keeps some.
const KEPT_PART: u64 = 4;

/// Part of the excess that is withheld at a time.
const STEP_PART: u64 = 16;

/// Part of the room that is given free at a time.
const FREED_PART: u64 = 128;

/// Number of timed looks between two requests to the allocator.
const LOOKS_UNTIL_ASKED: u64 = 10;

/// Number of passes of eviction between two looks. A pass frees about a thousandth of the limit.
const PASSES_UNTIL_LOOK: u64 = 8;

/// Returns what a process may take that took `base` bytes before it had any keys.
fn most(limit: u64, base: u64) -> u64 {
    limit + limit / MORE_PART + u64::max(MORE_BYTES, base + MORE_THAN_BASE_BYTES)
}

/// Controller of the part of the limit that is withheld, as the process takes more than is counted.
#[derive(Debug, Default)]
pub struct WithheldPart {
    bytes: AtomicU64,
    /// Resident memory before there were any keys; 0 while that is not known.
    base_bytes: AtomicU64,
    /// Number of timed looks since the last request to the allocator that found an excess.
    looks: AtomicU64,
    /// Number of passes of eviction.
    passes: AtomicU64,
}

impl WithheldPart {
    /// Returns how much of the limit is withheld.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Says what the process takes without any keys.
    pub fn set_base(&self, resident: u64) {
        self.base_bytes.store(resident, Ordering::Relaxed);
    }

    /// Withholds nothing.
    pub fn clear(&self) {
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Counts a pass of eviction. Returns true if the process is to be looked at.
    pub fn note_pass(&self) -> bool {
        let passes = self.passes.fetch_add(1, Ordering::Relaxed);
        passes.is_multiple_of(PASSES_UNTIL_LOOK)
    }

    /// Looks at the `resident` bytes of the process while `used` bytes of the limit are used.
    /// Returns true if the process takes more than it may.
    ///
    /// Called fifty times a second, and once for each [`PASSES_UNTIL_LOOK`] passes of eviction.
    pub fn look(&self, limit: u64, used: u64, resident: u64) -> bool {
        let base = self.base_bytes.load(Ordering::Relaxed);
        if limit == 0 || base == 0 {
            return false;
        }
        let most = most(limit, base);
        let withheld = self.bytes();
        if resident <= most {
            let less = (most - resident).div_ceil(FREED_PART).min(withheld);
            self.bytes.store(withheld - less, Ordering::Relaxed);
            return false;
        }
        let aim = used.saturating_sub((resident - most) / STEP_PART);
        let wanted = limit.saturating_sub(aim).min(limit - limit / KEPT_PART);
        self.bytes.store(wanted.max(withheld), Ordering::Relaxed);
        true
    }

    /// Returns true if the allocator is to give back what is free. Called after each timed look
    /// that found an excess.
    pub fn asks(&self) -> bool {
        let looks = 1 + self.looks.fetch_add(1, Ordering::Relaxed);
        looks.is_multiple_of(LOOKS_UNTIL_ASKED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 1000 << 20;
    const BASE: u64 = 10 << 20;

    fn part() -> WithheldPart {
        let part = WithheldPart::default();
        part.set_base(BASE);
        part
    }

    /// Has a process that takes `taken` times what is used fill its memory, and returns what it
    /// takes in the end.
    fn settled(part: &WithheldPart, taken: f64) -> u64 {
        let resident = |used: u64| BASE + (used as f64 * taken) as u64;
        for _ in 0..1500 {
            let used = LIMIT - part.bytes();
            part.look(LIMIT, used, resident(used));
        }
        resident(LIMIT - part.bytes())
    }

    #[test]
    fn what_is_withheld_keeps_the_process_near_the_limit() {
        for taken in [1.2, 1.5, 2.5] {
            let resident = settled(&part(), taken);
            assert!(
                resident < most(LIMIT, BASE) * 101 / 100,
                "{taken}: {resident}"
            );
            assert!(resident > LIMIT, "{taken}: {resident}");
        }
        let part = part();
        settled(&part, 1.05);
        assert_eq!(part.bytes(), 0);
    }

    #[test]
    fn it_is_given_free_when_the_process_takes_less() {
        let part = part();
        settled(&part, 1.5);
        assert!(part.bytes() > 0);
        settled(&part, 1.0);
        assert_eq!(part.bytes(), 0);
    }

    #[test]
    fn a_part_of_the_limit_stays_whatever_the_process_takes() {
        let part = part();
        let mut asked = 0;
        for _ in 0..500 {
            let is_over = part.look(LIMIT, LIMIT - part.bytes(), 4 * LIMIT);
            asked += usize::from(is_over && part.asks());
        }
        assert_eq!(part.bytes(), LIMIT - LIMIT / 4);
        assert!((40..60).contains(&asked), "{asked}");
        // Without a base, other things in the process are not told from keys.
        assert!(!WithheldPart::default().look(LIMIT, LIMIT, 4 * LIMIT));
    }
}
