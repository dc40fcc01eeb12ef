//! The controller that keeps the process's memory near the limit, if the counted data take more
//! memory than their bytes.
//!
//! The allocator rounds sizes up, and partly free pages and blocks stay. So a part of the limit is
//! withheld once the process takes more than [`most`]: keys are evicted, or writes are refused,
//! earlier by that part. A little is withheld at a time, because a page returns to the system only
//! when everything in it is freed, so that the effect comes late. The part is released again, more
//! slowly, when the process takes less.

use std::sync::atomic::{AtomicU64, Ordering};

/// The part of the limit that the process may take beyond it, for the allocator's rounding.
const MORE_PART: u64 = 8;
/// The bytes beyond that, for its code, stacks, buffers, and one page for each size of object.
const MORE_BYTES: u64 = 32 << 20;
/// The bytes beyond what it took before it had any keys. The greater of the two counts.
const MORE_THAN_BASE_BYTES: u64 = 8 << 20;

/// The part of the limit that is never withheld: a server whose memory is not its keys' keeps some.
const KEPT_PART: u64 = 4;

/// The part of the excess that is withheld at a time.
const STEP_PART: u64 = 16;

/// The part of the room that is released at a time.
const FREED_PART: u64 = 128;

/// Number of timed checks between two requests to the allocator.
const LOOKS_UNTIL_ASKED: u64 = 10;

/// Number of passes of eviction between two checks. A pass frees about a thousandth of the limit.
const PASSES_UNTIL_LOOK: u64 = 8;

/// Returns the bytes that a process may take if it took `base` bytes before it had any keys.
fn most(limit: u64, base: u64) -> u64 {
    limit + limit / MORE_PART + u64::max(MORE_BYTES, base + MORE_THAN_BASE_BYTES)
}

/// The controller of the part of the limit that is withheld, because the process takes more than is
/// counted.
#[derive(Debug, Default)]
pub struct WithheldPart {
    bytes: AtomicU64,
    /// The resident memory before there were any keys; 0 while it is unknown.
    base_bytes: AtomicU64,
    /// Number of timed checks since the last request to the allocator that found an excess.
    looks: AtomicU64,
    /// Number of passes of eviction.
    passes: AtomicU64,
}

impl WithheldPart {
    /// Returns the bytes of the limit that are withheld.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Sets the memory of the process without any keys.
    pub fn set_base(&self, resident: u64) {
        self.base_bytes.store(resident, Ordering::Relaxed);
    }

    /// Releases the withheld part.
    pub fn clear(&self) {
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Counts a pass of eviction. Returns true if the process must be checked.
    pub fn note_pass(&self) -> bool {
        let passes = self.passes.fetch_add(1, Ordering::Relaxed);
        passes.is_multiple_of(PASSES_UNTIL_LOOK)
    }

    /// Checks the `resident` bytes of the process while `used` bytes of the limit are used. Returns
    /// true if the process takes more than it may.
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
            // Rounded up, so that the last bytes of the part are released, too.
            let less = (most - resident).div_ceil(FREED_PART).min(withheld);
            self.bytes.store(withheld - less, Ordering::Relaxed);
            return false;
        }
        // Only a part of the excess: a page returns to the system after everything in it is freed,
        // so that the effect comes late.
        let aim = used.saturating_sub((resident - most) / STEP_PART);
        let wanted = limit.saturating_sub(aim).min(limit - limit / KEPT_PART);
        self.bytes.store(wanted.max(withheld), Ordering::Relaxed);
        true
    }

    /// Returns true if the allocator should give back free memory. Called after each timed check
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

    /// Simulates a process that takes `taken` times the used bytes and fills its memory, and
    /// returns the bytes that it takes in the end.
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
        // Without a base, other memory of the process cannot be distinguished from keys.
        assert!(!WithheldPart::default().look(LIMIT, LIMIT, 4 * LIMIT));
    }
}
