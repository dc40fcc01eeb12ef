//! The budget of bytes that may move per second.

use std::time::Duration;

/// A token bucket that fills with a number of bytes each second and holds those of a slice of time.
#[derive(Clone, Debug)]
pub struct Budget {
    bytes_per_second: u64,
    /// Number of bytes in the bucket; negative for a debt. It is in bytes because nanobytes would
    /// overflow.
    there: i64,
    /// The time at which `there` was computed.
    at: Duration,
}

/// The time that fills the bucket, which bounds a burst of moves.
const SLICE: Duration = Duration::from_millis(100);

impl Budget {
    /// Creates a full bucket. A rate of 0 lets nothing move.
    pub fn new(bytes_per_second: u64) -> Budget {
        let mut budget = Budget {
            bytes_per_second,
            there: 0,
            at: Duration::ZERO,
        };
        budget.there = budget.most();
        budget
    }

    fn most(&self) -> i64 {
        let bytes = u128::from(self.bytes_per_second) * SLICE.as_nanos() / 1_000_000_000;
        i64::try_from(bytes).unwrap_or(i64::MAX)
    }

    /// Fills the bucket up to a time. Times increase; an earlier one adds nothing.
    pub fn passed(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.at);
        let bytes = u128::from(self.bytes_per_second) * elapsed.as_nanos() / 1_000_000_000;
        if bytes == 0 {
            // `at` stays, so that times too short for a byte add up.
            return;
        }
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.there = self.there.saturating_add(bytes).min(self.most());
        self.at = now;
    }

    /// Takes the bytes of a move. Returns false if the move must wait.
    pub fn take(&mut self, bytes: u64) -> bool {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let most = self.most();
        debug_assert!(
            self.there <= most,
            "a bucket holds no more than a slice of time"
        );
        // A move larger than the bucket begins when that is full, and leaves a debt. Otherwise no
        // large object could ever move.
        if most == 0 || self.there < bytes.min(most) {
            return false;
        }
        self.there = self.there.saturating_sub(bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_rate_moves_and_a_large_object_waits_but_moves() {
        let mut budget = Budget::new(10_000);
        let mut moved = 0;
        for millisecond in 0..10_000 {
            budget.passed(Duration::from_millis(millisecond));
            while budget.take(100) {
                moved += 100;
            }
        }
        // The bucket was full at the beginning.
        assert!((100_000..=101_000).contains(&moved), "{moved}");
        let mut budget = Budget::new(10_000);
        assert!(budget.take(50_000));
        budget.passed(Duration::from_millis(4_999));
        assert!(!budget.take(50_000));
        budget.passed(Duration::from_millis(5_001));
        assert!(budget.take(50_000));
        assert!(!Budget::new(0).take(1));
    }

    #[test]
    fn times_that_are_too_short_for_a_byte_add_up() {
        let mut budget = Budget::new(1_000);
        assert!(budget.take(100));
        for microsecond in 0..100_000 {
            budget.passed(Duration::from_micros(microsecond));
        }
        assert!(budget.take(99) && !budget.take(2));
    }
}
