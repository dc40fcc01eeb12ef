//! The moves of the last rounds of the walk, in bounded memory.

/// Number of entries of the table; 8 bytes each.
const ENTRIES: usize = 1 << 14;
/// Number of rounds of the walk after a move's own for which it is recent.
const RECENT_ROUNDS: u16 = 2;

/// The objects that moved recently, and how often each returned. A table with one entry for each
/// hash; a newer move overwrites the entry of an older one, which is then forgotten.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    entries: Box<[RecentMoveEntry]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct RecentMoveEntry {
    tag: u32,
    round: u16,
    /// Number of times that the object returned soon after it had left.
    returns: u8,
    direction: TierMoveDirection,
}

const _: () = assert!(size_of::<RecentMoveEntry>() == 8);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TierMoveDirection {
    #[default]
    None,
    Inward,
    Outward,
}

impl Recent {
    pub(super) fn new() -> Recent {
        Recent {
            entries: vec![RecentMoveEntry::default(); ENTRIES].into_boxed_slice(),
        }
    }

    fn entry(&self, hash: u64) -> Option<&RecentMoveEntry> {
        let entry = &self.entries[hash as usize % ENTRIES];
        let known = entry.tag == tag(hash) && entry.direction != TierMoveDirection::None;
        known.then_some(entry)
    }

    /// Returns true if the object's last move was in this direction, and recent.
    pub(super) fn is(&self, hash: u64, direction: TierMoveDirection, round: u16) -> bool {
        let entry = self
            .entry(hash)
            .filter(|entry| entry.direction == direction);
        entry.is_some_and(|entry| round.wrapping_sub(entry.round) <= RECENT_ROUNDS)
    }

    /// Returns how often the object has recently returned soon after it had left.
    pub(super) fn returns(&self, hash: u64, round: u16) -> u32 {
        let entry = self.entry(hash);
        // Each return makes the entry count as recent for twice as long.
        let recent = |entry: &&RecentMoveEntry| {
            round.wrapping_sub(entry.round) >> entry.returns.min(8) <= RECENT_ROUNDS
        };
        entry.filter(recent).map_or(0, |entry| entry.returns.into())
    }

    /// Notes a move. Returns true if it undoes a recent one: an object that is promoted was just
    /// demoted.
    pub(super) fn note(&mut self, hash: u64, direction: TierMoveDirection, round: u16) -> bool {
        debug_assert_ne!(
            direction,
            TierMoveDirection::None,
            "that marks an empty entry"
        );
        let undoes = direction == TierMoveDirection::Inward
            && self.is(hash, TierMoveDirection::Outward, round);
        let returns = self.returns(hash, round) as u8;
        self.entries[hash as usize % ENTRIES] = RecentMoveEntry {
            tag: tag(hash),
            round,
            returns: returns.saturating_add(u8::from(undoes)),
            direction,
        };
        undoes
    }
}

fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_is_noticed_while_it_is_recent_and_remembered_for_longer() {
        let mut recent = Recent::new();
        let hash = 0x1234_5678_9abc_def0;
        assert!(!recent.note(hash, TierMoveDirection::Outward, 10));
        assert!(recent.is(hash, TierMoveDirection::Outward, 12));
        assert!(!recent.is(hash, TierMoveDirection::Outward, 13));
        assert!(recent.note(hash, TierMoveDirection::Inward, 12));
        assert_eq!(recent.returns(hash, 12), 1);
        assert!(!recent.note(hash, TierMoveDirection::Outward, 15));
        assert_eq!(recent.returns(hash, 20), 1);
        assert_eq!(recent.returns(hash, 21), 0);
        // Another object uses the same entry.
        assert!(!recent.note(hash ^ 1 << 40, TierMoveDirection::Inward, 16));
        assert_eq!(recent.returns(hash, 16), 0);
    }
}
