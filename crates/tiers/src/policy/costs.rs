//! The costs of moves between two tiers, and what they save.

/// The costs of a pair of neighbouring tiers, in nanoseconds. Each is a time for an object and a
/// time for each of its kibibytes.
///
/// ```
/// use nearfield_tiers::policy::PairCosts;
///
/// // 25 and 50 ns a cache line: six reads pay for the way in and back.
/// let two_memories = PairCosts::of_lines(25.0, 50.0);
/// assert_eq!(two_memories.break_even(1024).round(), 6.0);
/// assert!(two_memories.writes_count);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairCosts {
    /// The cost of promoting an object, besides the read of the slower tier that a use needs
    /// anyway.
    pub inward: ObjectTimeCost,
    /// The cost of demoting an object.
    pub outward: ObjectTimeCost,
    /// The time that a use saves if the object is in the faster tier.
    pub saved: ObjectTimeCost,
    /// Set if a write is slower in the slower tier, too, as in memories. In compressed memory and
    /// in files values are not written in place: a written object is promoted anyway.
    pub writes_count: bool,
}

/// A time for an object of any size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObjectTimeCost {
    /// The time for the object.
    pub object_ns: f64,
    /// The time for each 1,024 bytes of it.
    pub kibibyte_ns: f64,
}

impl ObjectTimeCost {
    fn of(self, bytes: u64) -> f64 {
        self.object_ns + self.kibibyte_ns * bytes as f64 / 1024.0
    }
}

/// Number of cache lines of a kibibyte.
const LINES: f64 = 16.0;

impl PairCosts {
    /// Returns the costs of two memories, from their times to read one cache line. Each line of a
    /// move is read from one and written to the other.
    pub fn of_lines(fast_ns: f64, slow_ns: f64) -> PairCosts {
        let lines = |line_ns: f64| ObjectTimeCost {
            object_ns: 0.0,
            kibibyte_ns: LINES * line_ns,
        };
        PairCosts {
            inward: lines(fast_ns + slow_ns),
            outward: lines(fast_ns + slow_ns),
            saved: lines(slow_ns - fast_ns),
            writes_count: true,
        }
    }

    /// Returns the costs of memory above the memory of another NUMA node. *Assumed*, for CXL: a
    /// read of a value is two copies of it, the first at 12 nanoseconds a line, and finds it after
    /// 300 nanoseconds.
    pub fn node() -> PairCosts {
        PairCosts {
            inward: ObjectTimeCost {
                object_ns: 200.0,
                kibibyte_ns: 100.0,
            },
            outward: ObjectTimeCost {
                object_ns: 300.0,
                kibibyte_ns: 12.0 * LINES,
            },
            saved: ObjectTimeCost {
                object_ns: 300.0,
                kibibyte_ns: 12.0 * LINES,
            },
            writes_count: false,
        }
    }

    /// Returns the costs of memory above compressed memory. *Assumed*, from zstd's level 3 on text:
    /// 4 microseconds and 3 for each kibibyte to read, three times as much to compress.
    pub fn compressed() -> PairCosts {
        let read = ObjectTimeCost {
            object_ns: 4_000.0,
            kibibyte_ns: 3_000.0,
        };
        PairCosts {
            // The use has already decompressed the value; it is only copied.
            inward: ObjectTimeCost {
                object_ns: 200.0,
                kibibyte_ns: 100.0,
            },
            outward: ObjectTimeCost {
                object_ns: 3.0 * read.object_ns,
                kibibyte_ns: 3.0 * read.kibibyte_ns,
            },
            saved: read,
            writes_count: false,
        }
    }

    /// Returns the costs of memory above files. *Assumed*, for an SSD that reads 4 KiB in 80
    /// microseconds and writes 1 GB per second.
    pub fn file() -> PairCosts {
        PairCosts {
            inward: ObjectTimeCost {
                object_ns: 200.0,
                kibibyte_ns: 100.0,
            },
            outward: ObjectTimeCost {
                object_ns: 500.0,
                kibibyte_ns: 1_000.0,
            },
            saved: ObjectTimeCost {
                object_ns: 80_000.0,
                kibibyte_ns: 250.0,
            },
            writes_count: false,
        }
    }

    /// Returns the number of uses in one residence that pay for the move there and back.
    pub fn break_even(&self, bytes: u64) -> f64 {
        // A pair that saves nothing has an endless break-even instead of a division by 0.
        (self.inward.of(bytes) + self.outward.of(bytes))
            / self.saved.of(bytes).max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_break_even_of_two_memories_is_that_of_their_line_times() {
        let uses = |fast, slow| PairCosts::of_lines(fast, slow).break_even(300);
        assert_eq!(uses(25.0, 50.0), 6.0);
        assert_eq!(uses(42.0, 50.0), 23.0);
        let equal = PairCosts::of_lines(50.0, 50.0);
        assert!(equal.break_even(300) > 1e300, "no use justifies a move");
    }

    #[test]
    fn compressed_values_come_in_after_a_few_uses_and_those_of_a_file_after_one() {
        for bytes in [64, 1024, 100_000] {
            let compressed = PairCosts::compressed().break_even(bytes);
            assert!((2.0..4.0).contains(&compressed), "{compressed}");
            assert!(PairCosts::file().break_even(bytes) < 2.0);
        }
    }
}
