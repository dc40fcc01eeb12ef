//! Virtual time.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A moment of virtual time, or a span of it, in picoseconds: a byte on a fast link takes tens of
/// them. 2^64 are seven months.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualTime(u64);

impl VirtualTime {
    /// The beginning of a simulation.
    pub const ZERO: VirtualTime = VirtualTime(0);

    /// Creates a time from picoseconds.
    pub const fn from_picoseconds(picoseconds: u64) -> VirtualTime {
        VirtualTime(picoseconds)
    }

    /// Creates a time from nanoseconds.
    pub const fn from_nanoseconds(nanoseconds: u64) -> VirtualTime {
        VirtualTime(nanoseconds * 1000)
    }

    /// Returns the time per event at `rate` events per second.
    ///
    /// ```
    /// use nearfield_core::VirtualTime;
    /// assert_eq!(VirtualTime::per_second(1e9), VirtualTime::from_nanoseconds(1));
    /// ```
    pub fn per_second(rate: f64) -> VirtualTime {
        VirtualTime((1e12 / rate).round() as u64)
    }

    /// Returns the time in picoseconds.
    pub const fn as_picoseconds(self) -> u64 {
        self.0
    }

    /// Returns the time in nanoseconds.
    pub fn as_nanoseconds(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Returns the time in seconds.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// Returns half of the time, rounded down.
    pub const fn half(self) -> VirtualTime {
        VirtualTime(self.0 / 2)
    }
}

impl Add for VirtualTime {
    type Output = VirtualTime;
    fn add(self, other: VirtualTime) -> VirtualTime {
        VirtualTime(self.0 + other.0)
    }
}

impl AddAssign for VirtualTime {
    fn add_assign(&mut self, other: VirtualTime) {
        self.0 += other.0;
    }
}

impl Sub for VirtualTime {
    type Output = VirtualTime;
    /// Returns the span from `other` to `self`; zero if `other` is later.
    fn sub(self, other: VirtualTime) -> VirtualTime {
        VirtualTime(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for VirtualTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000_000 => write!(formatter, "{:.1} ns", self.0 as f64 / 1e3),
            1_000_000..1_000_000_000 => write!(formatter, "{:.2} µs", self.0 as f64 / 1e6),
            1_000_000_000..1_000_000_000_000 => write!(formatter, "{:.2} ms", self.0 as f64 / 1e9),
            _ => write!(formatter, "{:.2} s", self.0 as f64 / 1e12),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_the_unit_that_fits() {
        for (picoseconds, text) in [
            (80, "0.1 ns"),
            (2_350_000, "2.35 µs"),
            (7_000_000_000, "7.00 ms"),
            (12_500_000_000_000, "12.50 s"),
        ] {
            assert_eq!(VirtualTime::from_picoseconds(picoseconds).to_string(), text);
        }
    }

    #[test]
    fn spans_never_go_below_none() {
        let (early, late) = (
            VirtualTime::from_nanoseconds(1),
            VirtualTime::from_nanoseconds(3),
        );
        assert_eq!(late - early, VirtualTime::from_nanoseconds(2));
        assert_eq!(early - late, VirtualTime::ZERO);
    }
}
