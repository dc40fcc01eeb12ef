//! Which values move.
//!
//! A value that is used in a cold tier comes into memory if it is used more than those which would
//! have to go for it. A tier that is nearly full sends out what is used least in it. The marks
//! follow from how the bytes of each tier are distributed over frequencies, which the walk over all
//! values tells.

/// Above this part of its capacity a tier sends values out, until it is below the other.
/// *Assumed*: the room between is for values that are written meanwhile.
const HIGH: f64 = 0.97;
const LOW: f64 = 0.95;

/// Frequencies go from 0 to 15.
const FREQUENCIES: usize = 16;

/// A value that was used less of late stays in its cold tier: a pass over all keys uses each once.
const USES_MIN: u8 = 2;

/// A value as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Its bytes.
    pub bytes: u64,
    /// The tier that it is in.
    pub tier: usize,
    /// How often it was used of late, from 0 to 15.
    pub frequency: u8,
}

/// Decides which values move. See the [module](self).
#[derive(Debug)]
pub struct Judge {
    tiers: Vec<Tier>,
}

#[derive(Clone, Debug)]
struct Tier {
    capacity: u64,
    used: u64,
    /// How the bytes are distributed over frequencies, as the walk has met them.
    sampled: [f64; FREQUENCIES],
    sum: f64,
    /// It sends values out.
    drains: bool,
}

impl Judge {
    /// A judge over tiers of these capacities.
    pub fn new(capacities: impl Iterator<Item = u64>) -> Judge {
        let tier = |capacity| Tier {
            capacity,
            used: 0,
            sampled: [0.0; FREQUENCIES],
            sum: 0.0,
            drains: false,
        };
        Judge {
            tiers: capacities.map(tier).collect(),
        }
    }

    /// Tells how many bytes a tier takes.
    pub fn set_used(&mut self, tier: usize, bytes: u64) {
        if let Some(tier) = self.tiers.get_mut(tier) {
            tier.used = bytes;
            let part = bytes as f64 / tier.capacity as f64;
            tier.drains = part > HIGH || tier.drains && part > LOW;
        }
    }

    /// The bytes that should go out of a tier soon.
    pub fn deficit(&self, tier: usize) -> u64 {
        match self.tiers.get(tier) {
            Some(tier) if tier.drains => {
                (tier.used as f64 - tier.capacity as f64 * LOW).max(0.0) as u64
            }
            _ => 0,
        }
    }

    /// The walk meets a value. Should it go out now?
    pub fn met(&mut self, value: &Value) -> bool {
        let deficit = self.deficit(value.tier) as f64;
        let Some(tier) = self.tiers.get_mut(value.tier) else {
            return false;
        };
        tier.sample(value);
        // Twice as much as is needed, so that half of a walk finds it.
        deficit > 0.0 && f64::from(value.frequency) < tier.mark(2.0 * deficit)
    }

    /// A client has used a value of a cold tier. Should it come into memory now?
    pub fn used(&self, value: &Value) -> bool {
        let Some(memory) = self.tiers.first().filter(|_| value.tier > 0) else {
            return false;
        };
        let used = memory.used + value.bytes;
        let has_room = (used as f64) < memory.capacity as f64 * LOW;
        let stands_out = || {
            // One more than what would go for it, so that chance does not move it to and fro.
            let mark = memory.mark(memory.capacity as f64 * (1.0 - LOW));
            used <= memory.capacity && f64::from(value.frequency) > mark + 1.0
        };
        value.frequency >= USES_MIN && (has_room || stands_out())
    }

    /// A value has moved.
    pub fn moved(&mut self, value: &Value, to: usize) {
        if let Some(from) = self.tiers.get_mut(value.tier) {
            from.used = from.used.saturating_sub(value.bytes);
        }
        if let Some(to) = self.tiers.get_mut(to).filter(|_| to == 0) {
            to.used += value.bytes;
        }
    }
}

impl Tier {
    /// Old samples lose weight.
    fn sample(&mut self, value: &Value) {
        let at = usize::from(value.frequency).min(FREQUENCIES - 1);
        self.sampled[at] += value.bytes as f64;
        self.sum += value.bytes as f64;
        if self.sum > 2.0 * self.used as f64 {
            self.sampled.iter_mut().for_each(|bytes| *bytes /= 2.0);
            self.sum /= 2.0;
        }
    }

    /// The frequency below which there are so many bytes, rounded up so that there are some.
    fn mark(&self, bytes: f64) -> f64 {
        let part = bytes / (self.used as f64).max(1.0) * self.sum;
        let mut below = 0.0;
        for (frequency, here) in self.sampled.iter().enumerate() {
            below += here;
            if below >= part {
                return frequency as f64 + 1.0;
            }
        }
        FREQUENCIES as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(tier: usize, frequency: u8) -> Value {
        Value {
            bytes: 100,
            tier,
            frequency,
        }
    }

    #[test]
    fn the_least_used_go_and_the_most_used_come() {
        let mut judge = Judge::new([10_000, 100_000].into_iter());
        judge.set_used(0, 9_600);
        assert_eq!(judge.deficit(0), 0);
        for number in 0..96 {
            assert!(!judge.met(&value(0, if number < 10 { 1 } else { 9 })));
        }
        // There is no room but for what is used more than what would go.
        assert!(judge.used(&value(1, 12)));
        assert!(!judge.used(&value(1, 2)) && !judge.used(&value(1, 1)));
        judge.set_used(0, 9_800);
        assert_eq!(judge.deficit(0), 300);
        assert!(judge.met(&value(0, 1)) && !judge.met(&value(0, 9)));
        (0..3).for_each(|_| judge.moved(&value(0, 1), 1));
        assert_eq!(judge.deficit(0), 0);
        judge.set_used(0, 5_000);
        assert!(judge.used(&value(1, 2)) && !judge.used(&value(1, 1)));
    }

    #[test]
    fn where_all_are_used_alike_some_go_nevertheless() {
        let mut judge = Judge::new([10_000, 100_000].into_iter());
        judge.set_used(0, 10_000);
        assert!((0..100).all(|_| judge.met(&value(0, 15))));
    }
}
