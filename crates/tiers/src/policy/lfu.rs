//! The counter in which Redis stores how often an object is used: 8 bits that grow logarithmically,
//! and the minute of the last use. All in integers, as in Redis 4 and later.

/// Initial counter of a new object (`LFU_INIT_VAL`).
pub const LFU_INITIAL: u8 = 5;

/// The two settings of Redis, with its defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LfuSettings {
    /// The slowness of the counter's growth (`lfu-log-factor`).
    pub log_factor: u32,
    /// Number of minutes that subtract 1 from the counter (`lfu-decay-time`); 0 is never.
    pub decay_minutes: u16,
}

impl Default for LfuSettings {
    fn default() -> LfuSettings {
        LfuSettings {
            log_factor: 10,
            decay_minutes: 1,
        }
    }
}

/// The 24 bits of an object: the minute of its last use, and the counter then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lfu {
    /// Minutes of the clock, modulo 65,536.
    pub minutes: u16,
    /// The logarithmic counter.
    pub counter: u8,
}

impl Lfu {
    /// Creates the counter of a new object.
    pub fn new(minutes: u16) -> Lfu {
        Lfu {
            minutes,
            counter: LFU_INITIAL,
        }
    }

    /// Returns the current counter, without a use. Nothing is stored.
    pub fn decayed(self, now: u16, settings: LfuSettings) -> u8 {
        let elapsed = match now < self.minutes {
            // Redis takes this for one wrap-around of the clock, which it counts as 65,535 minutes.
            true => u16::MAX - self.minutes + now,
            false => now - self.minutes,
        };
        let periods = elapsed.checked_div(settings.decay_minutes).unwrap_or(0);
        self.counter.saturating_sub(periods.min(255) as u8)
    }

    /// Counts a use. `draw` is a random number.
    pub fn touch(&mut self, now: u16, settings: LfuSettings, draw: u32) {
        let counter = self.decayed(now, settings);
        let above = u32::from(counter.saturating_sub(LFU_INITIAL));
        // Redis compares a random number with 1 / (factor * above + 1). This is the same without
        // floats.
        let one_of = above.saturating_mul(settings.log_factor).saturating_add(1);
        let raises = counter < u8::MAX && draw.is_multiple_of(one_of);
        *self = Lfu {
            minutes: now,
            counter: counter + u8::from(raises),
        };
    }
}

/// A cheap random number generator (xorshift).
#[derive(Clone, Debug)]
pub struct XorshiftGenerator(u64);

impl XorshiftGenerator {
    /// Creates a generator. The same seed gives the same numbers.
    pub fn new(seed: u64) -> XorshiftGenerator {
        // A state of 0 would stay 0.
        XorshiftGenerator(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns the next number.
    pub fn draw(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        debug_assert_ne!(self.0, 0, "only 0 leads to 0");
        // The low bits of the state are weak, so the product's high half is the number.
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_grows_as_the_table_of_redis_says() {
        // From the configuration file of Redis: the counter after 100, 1,000, 100,000 and 1,000,000
        // uses, by the factor. It reaches 255 long before the column that shows it.
        let table = [
            (0, [104, 255, 255, 255]),
            (1, [18, 49, 255, 255]),
            (10, [10, 18, 142, 255]),
            (100, [8, 11, 49, 143]),
        ];
        for (log_factor, expected) in table {
            let settings = LfuSettings {
                log_factor,
                decay_minutes: 0,
            };
            for (uses, expected) in [100, 1_000, 100_000, 1_000_000].into_iter().zip(expected) {
                let rounds = if uses > 1_000 { 10 } else { 500 };
                let counters = (0..rounds).map(|seed| {
                    let (mut lfu, mut chance) = (Lfu::new(0), XorshiftGenerator::new(seed));
                    (0..uses).for_each(|_| lfu.touch(0, settings, chance.draw()));
                    lfu.counter
                });
                let counters: Vec<u8> = counters.collect();
                // The table is of one run of Redis each, so its values are among those that occur.
                // The test of the mean checks how often.
                let least = counters.iter().min().copied().unwrap_or(0);
                let most = counters.iter().max().copied().unwrap_or(0);
                assert!(
                    (least.saturating_sub(1)..=most.saturating_add(1)).contains(&expected),
                    "factor {log_factor}, {uses} uses: {least} to {most}"
                );
                assert!(most - least < 50, "the range excludes most counters");
            }
        }
    }

    #[test]
    fn the_mean_uses_to_climb_are_those_of_the_closed_form() {
        let settings = LfuSettings {
            log_factor: 10,
            decay_minutes: 0,
        };
        for (steps, expected) in [(5_u8, 105.0), (9, 369.0), (13, 793.0)] {
            let rounds = 2000;
            let uses = (0..rounds).map(|seed| {
                let (mut lfu, mut chance) = (Lfu::new(0), XorshiftGenerator::new(seed));
                let mut uses = 0;
                while lfu.counter < LFU_INITIAL + steps {
                    lfu.touch(0, settings, chance.draw());
                    uses += 1;
                }
                f64::from(uses)
            });
            let mean = uses.sum::<f64>() / rounds as f64;
            assert!(
                (mean / expected - 1.0).abs() < 0.03,
                "{steps} steps: {mean}"
            );
        }
    }

    #[test]
    fn minutes_take_from_the_counter_and_the_clock_turns_once() {
        let settings = LfuSettings::default();
        let lfu = Lfu {
            minutes: 100,
            counter: 9,
        };
        assert_eq!(lfu.decayed(100, settings), 9);
        assert_eq!(lfu.decayed(103, settings), 6);
        assert_eq!(lfu.decayed(5000, settings), 0);
        let late = Lfu {
            minutes: 65_533,
            counter: 9,
        };
        // 65,535 - 65,533 + 1 = 3.
        assert_eq!(late.decayed(1, settings), 6);
        let every_ten = LfuSettings {
            decay_minutes: 10,
            ..settings
        };
        assert_eq!(lfu.decayed(119, every_ten), 8);
        let never = LfuSettings {
            decay_minutes: 0,
            ..settings
        };
        assert_eq!(lfu.decayed(99, never), 9);
        let mut used = lfu;
        // Six above the initial value less four: a draw of 0 always raises.
        used.touch(104, settings, 0);
        let expected = Lfu {
            minutes: 104,
            counter: 6,
        };
        assert_eq!(used, expected);
    }
}
