//! The room of the fast tier, for a policy that fills it by thresholds.

use super::adaptive::{HIGH, LOW};

/// The bytes of the fast tier. Without a capacity there is always room.
#[derive(Clone, Debug)]
pub(super) struct FastTierRoom {
    capacity: u64,
    bytes: u64,
    /// Set from when the tier is nearly full until it has room again.
    drains: bool,
    /// Number of bytes that left in this round of the walk.
    left_bytes: u64,
    /// Number of rounds in which the tier had no room and nothing left it.
    rounds_in_vain: u32,
}

impl Default for FastTierRoom {
    fn default() -> FastTierRoom {
        FastTierRoom {
            capacity: u64::MAX,
            bytes: 0,
            drains: false,
            left_bytes: 0,
            rounds_in_vain: 0,
        }
    }
}

impl FastTierRoom {
    pub(super) fn set_capacity(&mut self, bytes: u64) {
        self.capacity = bytes;
        // A store that estimates its movable bytes sets both. Between the two, the old bytes may
        // seem to fit.
    }

    pub(super) fn set_bytes(&mut self, bytes: u64) {
        self.bytes = bytes;
        self.count();
    }

    pub(super) fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.count();
    }

    pub(super) fn subtract(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.left_bytes = self.left_bytes.saturating_add(bytes);
        self.count();
    }

    fn count(&mut self) {
        let (bytes, capacity) = (self.bytes as f64, self.capacity as f64);
        if bytes > capacity * HIGH {
            self.drains = true;
        } else if bytes <= capacity * LOW {
            self.drains = false;
        }
    }

    /// Returns true while values should leave, whatever their counters.
    pub(super) fn drains(&self) -> bool {
        self.drains
    }

    /// Returns the bytes that should leave.
    pub(super) fn deficit(&self) -> u64 {
        match self.drains {
            true => (self.bytes as f64 - self.capacity as f64 * LOW).max(0.0) as u64,
            false => 0,
        }
    }

    /// Returns true if there is room for an object to be promoted.
    pub(super) fn admits(&self, bytes: u64) -> bool {
        // The rest of a nearly full tier is for values that are written meanwhile.
        !self.drains && self.bytes.saturating_add(bytes) <= self.capacity
    }

    /// Returns the counter below which objects leave while there is no room.
    pub(super) fn bar(&self, threshold_out: u32) -> u32 {
        match self.rounds_in_vain {
            _ if !self.drains => 0,
            0 => 0,
            // Those that came in a while ago and were hardly used since.
            1 => threshold_out.saturating_mul(2).saturating_add(1),
            _ => u32::MAX,
        }
    }

    /// Ends a round of the walk.
    pub(super) fn end_round(&mut self) {
        if !self.drains {
            self.rounds_in_vain = 0;
        } else if self.left_bytes == 0 {
            self.rounds_in_vain += 1;
        }
        self.left_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The store refuses writes after some rounds in vain, so an estimate that varies must not make
    /// the policy wait longer.
    #[test]
    fn rounds_in_vain_count_while_the_estimate_of_movable_bytes_varies() {
        const UNMOVABLE: u64 = 400;
        const CAPACITY: u64 = 1400;
        const USED: u64 = 1401;
        let mut room = FastTierRoom::default();
        for estimate in [1000, 900, 1100] {
            room.set_capacity(CAPACITY + estimate - USED);
            room.set_bytes(estimate);
            assert!(room.drains());
            room.end_round();
        }
        assert_eq!(room.bar(0), u32::MAX);
        room.set_capacity(CAPACITY - UNMOVABLE);
        room.set_bytes(900);
        assert!(!room.drains());
        room.end_round();
        room.set_bytes(1000);
        assert_eq!(room.bar(3), 0, "the rounds count from the last room");
    }
}
