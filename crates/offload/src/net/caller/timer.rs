//! The time at which a request is repeated.

use std::time::Duration;

/// The time for which a caller waits for a response before it repeats a request: the mean of the
/// round trips, and four times their variation, as in TCP (RFC 6298).
#[derive(Clone, Copy, Debug)]
pub struct RetransmissionTimer {
    mean: Option<Duration>,
    variation: Duration,
    least: Duration,
    most: Duration,
}

impl RetransmissionTimer {
    /// Creates a timer of waits from `least` to `most`. If these are out of order, `most` holds.
    pub fn new(least: Duration, most: Duration) -> RetransmissionTimer {
        RetransmissionTimer {
            mean: None,
            variation: Duration::ZERO,
            least: least.min(most),
            most,
        }
    }

    /// Notes the time from a request that was sent once to its response.
    pub fn note(&mut self, round_trip: Duration) {
        match &mut self.mean {
            None => {
                self.mean = Some(round_trip);
                // RFC 6298 starts so, in section 2.2.
                self.variation = round_trip / 2;
            }
            Some(mean) => {
                // The variation is updated first, with the old mean (RFC 6298, section 2.3).
                let off = mean.abs_diff(round_trip);
                self.variation = (self.variation * 3 + off) / 4;
                *mean = (*mean * 7 + round_trip) / 8;
            }
        }
    }

    /// Returns the time to wait after a number of repeats. It doubles with each repeat.
    pub fn wait(&self, repeats: u32) -> Duration {
        // Without any response so far, ten times the minimum.
        let mean = self.mean.unwrap_or(self.least.saturating_mul(10));
        let varied = mean.saturating_add(self.variation.saturating_mul(4));
        let once = varied.clamp(self.least, self.most);
        // The bound keeps the shift in range. The longest wait is reached long before.
        let factor = 1 << repeats.min(16);
        once.saturating_mul(factor).min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn waits_follow_the_round_trips_and_double() {
        let mut timer = RetransmissionTimer::new(MS, MS * 1000);
        assert_eq!(timer.wait(0), MS * 10);
        timer.note(MS * 20);
        assert_eq!(timer.wait(0), MS * 60);
        for _ in 0..100 {
            timer.note(MS * 4);
        }
        assert!(timer.wait(0) >= MS * 4 && timer.wait(0) < MS * 5);
        assert_eq!(timer.wait(3), timer.wait(0) * 8);
        assert_eq!(timer.wait(60), MS * 1000);
    }

    #[test]
    fn any_settings_give_a_wait() {
        assert_eq!(RetransmissionTimer::new(MS * 2, MS).wait(1), MS);
        let timer = RetransmissionTimer::new(Duration::MAX, Duration::MAX);
        assert_eq!(timer.wait(1), Duration::MAX);
    }
}
