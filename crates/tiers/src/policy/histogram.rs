//! The bytes of a tier by the heat of its objects.

/// Number of levels of heat.
pub(super) const LEVELS: usize = 2048;

/// Number of objects that the sample represents, so it is never older than a walk over twice as
/// many. It gives the bytes above a mark to about a hundredth.
const SAMPLED_MAX: f64 = 8192.0;

/// The distribution of a tier's bytes over heats: a sample of the objects that the walk visits, and
/// the exact number of bytes.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    sampled: Box<[f64; LEVELS]>,
    sum: f64,
    /// Number of objects in the sample.
    count: f64,
    /// Number of bytes of the tier.
    pub(super) bytes: u64,
}

impl Histogram {
    pub(super) fn new() -> Histogram {
        Histogram {
            sampled: Box::new([0.0; LEVELS]),
            sum: 0.0,
            count: 0.0,
            bytes: 0,
        }
    }

    /// Returns the ratio of the sample's bytes to the tier's, which is the weight of an object that
    /// joins or leaves.
    fn part(&self) -> f64 {
        match self.bytes {
            0 => 1.0,
            all => self.sum / all as f64,
        }
    }

    fn add(&mut self, level: u16, bytes: f64, count: f64) {
        self.sampled[usize::from(level)] += bytes;
        self.sum += bytes;
        self.count += count;
        if self.count > SAMPLED_MAX {
            // Halved instead of emptied, so that old samples lose weight little by little.
            self.sampled.iter_mut().for_each(|bytes| *bytes /= 2.0);
            self.sum /= 2.0;
            self.count /= 2.0;
        }
    }

    /// Adds an object that joins the tier.
    pub(super) fn join(&mut self, level: u16, bytes: u64) {
        // Many may join at once. With their whole bytes they would displace the rest of the sample.
        let part = self.part();
        self.bytes += bytes;
        self.add(level, bytes as f64 * part, part);
    }

    /// Sets the bytes of the tier, with heats distributed as in the sample.
    pub(super) fn set_bytes(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// Subtracts an object that leaves the tier.
    pub(super) fn leave(&mut self, level: u16, bytes: u64) {
        let part = self.part();
        self.bytes = self.bytes.saturating_sub(bytes);
        let there = &mut self.sampled[usize::from(level)];
        // The object may have been sampled at another heat, or not at all.
        let gone = (bytes as f64 * part).min(*there);
        *there -= gone;
        self.sum -= gone;
        self.count = (self.count - part).max(0.0);
    }

    /// Samples an object of the tier that the walk visits.
    pub(super) fn sample(&mut self, level: u16, bytes: u64) {
        self.add(level, bytes as f64, 1.0);
    }

    /// Replaces all heats by what `half` returns for them.
    pub(super) fn age(&mut self, half: impl Fn(u16) -> u16) {
        let before = std::mem::replace(&mut self.sampled, Box::new([0.0; LEVELS]));
        for (level, bytes) in (0..LEVELS as u16).zip(*before) {
            let halved = half(level);
            debug_assert!(halved <= level, "ageing raises no heat");
            self.sampled[usize::from(halved)] += bytes;
        }
    }

    /// Returns the bytes of a heat.
    pub(super) fn at(&self, level: u16) -> f64 {
        match self.sum > 0.0 {
            true => self.sampled[usize::from(level)] * self.bytes as f64 / self.sum,
            false => 0.0,
        }
    }
}

/// Returns the mark above which there are exactly `bytes` bytes, in heats and fractions of a heat:
/// of the heat at the mark, the fraction of objects that fits is above it. Returns 0 if all fit.
pub(super) fn mark_above(at: impl Fn(u16) -> f64, bytes: f64) -> f32 {
    let mut above = 0.0;
    for level in (0..LEVELS as u16).rev() {
        let here = at(level);
        if above + here > bytes {
            return f32::from(level) + (1.0 - (bytes - above) / here) as f32;
        }
        above += here;
    }
    0.0
}

/// Returns the mark below which there are exactly `bytes` bytes; the number of levels if there are
/// fewer.
pub(super) fn mark_below(at: impl Fn(u16) -> f64, bytes: f64) -> f32 {
    let mut below = 0.0;
    for level in 0..LEVELS as u16 {
        let here = at(level);
        if below + here > bytes {
            return f32::from(level) + ((bytes - below) / here) as f32;
        }
        below += here;
    }
    LEVELS as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_divide_the_bytes() {
        let mut histogram = Histogram::new();
        for level in [0, 10, 20] {
            (0..10).for_each(|_| histogram.join(level, 100));
        }
        let at = |level| histogram.at(level);
        assert_eq!(mark_above(at, 1500.0), 10.5);
        assert_eq!(mark_above(at, 1000.0), 11.0);
        assert_eq!(mark_above(at, 3000.0), 0.0);
        assert_eq!(mark_below(at, 250.0), 0.25);
        assert_eq!(mark_below(at, 1500.0), 10.5);
        assert_eq!(mark_below(at, 4000.0), LEVELS as f32);
    }

    #[test]
    fn the_sample_follows_the_tier_and_the_bytes_are_exact() {
        let mut histogram = Histogram::new();
        (0..100).for_each(|_| histogram.join(40, 10));
        (0..50).for_each(|_| histogram.leave(40, 10));
        assert_eq!((histogram.bytes, histogram.at(40).round()), (500, 500.0));
        histogram.age(|level| level / 2);
        assert_eq!((histogram.at(40), histogram.at(20).round()), (0.0, 500.0));
        // The objects became hot, and the walk visits them a few times.
        for _ in 0..1000 {
            (0..50).for_each(|_| histogram.sample(90, 10));
        }
        assert!(histogram.at(90) > 490.0 && histogram.at(20) < 10.0);
        assert_eq!(histogram.bytes, 500);
    }
}
