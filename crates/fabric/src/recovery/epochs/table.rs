//! The table that participants share: the global epoch, and a slot for each participant.
//!
//! ```text
//! line 0        global epoch | 4 words: a bit for each closed node | number of notices
//! 256 words     slots: kind (2 bits) | count of changes (22) | Live: announced epoch (40)
//!                                                              Draining: slot of the drainer (40)
//! 256 words     rings: addresses, once they have been allocated
//!
//! ring          line: number of entries | entries of 16 bytes: address, length; zero if empty
//! ```
//! Only swaps change a slot's word, and no two of its states are equal.

use super::closed::{CLOSED_WORDS, ClosedNodes};
use crate::address::{GlobalAddress, LINE_BYTES, WORD_BYTES};
use crate::endpoint::Endpoint;
use crate::error::FabricError;
use crate::verb::FabricVerb;

/// Largest number of participants at once.
pub const SLOTS: usize = 256;
/// Length of the table, which must be zero before the first participant joins, and aligned to a
/// line.
pub const TABLE_BYTES: u64 = LINE_BYTES + 2 * SLOTS as u64 * WORD_BYTES;

const KIND_SHIFT: u32 = 62;
const COUNT_SHIFT: u32 = 40;
const COUNT_MASK: u64 = (1 << (KIND_SHIFT - COUNT_SHIFT)) - 1;
/// Mask of an epoch. Epochs have 40 bits: 34 years of one per millisecond.
const REST_MASK: u64 = (1 << COUNT_SHIFT) - 1;

pub(super) const ENTRY_BYTES: u64 = 2 * WORD_BYTES;

/// Number of words of the first line that are used.
const FIRST_WORDS: usize = 1 + CLOSED_WORDS + 1;

#[derive(Clone, Copy, Debug)]
pub(super) struct EpochTable(pub GlobalAddress);

impl EpochTable {
    pub const fn epoch(self) -> GlobalAddress {
        self.0
    }

    pub const fn slot(self, number: usize) -> GlobalAddress {
        debug_assert!(number < 2 * SLOTS, "slots, and behind them rings");
        self.0.plus(LINE_BYTES + number as u64 * WORD_BYTES)
    }

    /// Returns the address of the word with the address of a slot's ring.
    pub const fn ring(self, number: usize) -> GlobalAddress {
        self.slot(SLOTS + number)
    }
}

/// The use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParticipantSlotState {
    /// No participant; the slot's ring is empty.
    Free,
    /// A participant that has announced this epoch.
    Live(u64),
    /// A participant that has left. The one in the given slot, if any, frees the memory that the
    /// ring of this slot names.
    Draining(Option<usize>),
}

impl ParticipantSlotState {
    pub fn of(word: u64) -> ParticipantSlotState {
        let rest = word & REST_MASK;
        match word >> KIND_SHIFT {
            0 => ParticipantSlotState::Free,
            1 => ParticipantSlotState::Live(rest),
            _ => ParticipantSlotState::Draining((rest < SLOTS as u64).then_some(rest as usize)),
        }
    }

    /// Returns the word of this state for a slot that has another word.
    pub fn after(self, word: u64) -> u64 {
        let (kind, rest) = match self {
            ParticipantSlotState::Free => (0, 0),
            ParticipantSlotState::Live(epoch) => (1, epoch),
            ParticipantSlotState::Draining(by) => (2, by.map_or(REST_MASK, |slot| slot as u64)),
        };
        debug_assert!(rest <= REST_MASK, "an epoch does not reach the count");
        // Counts changes, so that no word recurs while another client holds the former one for
        // current.
        let count = ((word >> COUNT_SHIFT) + 1) & COUNT_MASK;
        kind << KIND_SHIFT | count << COUNT_SHIFT | rest
    }
}

/// The content of the table: its first line, which was read first, and the slots.
#[derive(Debug)]
pub(super) struct EpochTableSnapshot {
    pub epoch: u64,
    pub closed: ClosedNodes,
    /// The number of notices to participants.
    pub notices: u64,
    pub words: Vec<u64>,
}

impl EpochTableSnapshot {
    /// Reads the table.
    pub async fn read(
        endpoint: &impl Endpoint,
        table: EpochTable,
    ) -> Result<EpochTableSnapshot, FabricError> {
        EpochTableSnapshot::after(endpoint, table, None)
            .await
            .map(|(_, scan)| scan)
    }

    /// Reads the table after a swap of a word in it, if any, and returns the word that the swap
    /// found.
    pub async fn after(
        endpoint: &impl Endpoint,
        table: EpochTable,
        swap: Option<FabricVerb<'static>>,
    ) -> Result<(u64, EpochTableSnapshot), FabricError> {
        let mut first = [0; FIRST_WORDS * WORD_BYTES as usize];
        let mut slots = vec![0; SLOTS * WORD_BYTES as usize];
        // The epoch is read first, so that it is not newer than the slots.
        let reads = [
            (table.epoch(), &mut first[..]),
            (table.slot(0), &mut slots[..]),
        ];
        let reads = reads.map(|(from, into)| FabricVerb::Read { from, into });
        let mut verbs: Vec<FabricVerb<'_>> = swap.into_iter().chain(reads).collect();
        endpoint.post(&mut verbs).await?;
        let found = verbs[0].found().unwrap_or_default();
        let words = slots.as_chunks().0.iter();
        let mut first_words = [0; FIRST_WORDS];
        for (word, bytes) in first_words.iter_mut().zip(first.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let [epoch, closed @ .., notices] = first_words;
        let scan = EpochTableSnapshot {
            // The node's memory may contain anything; the mask leaves room for later epochs.
            epoch: epoch & REST_MASK,
            closed: ClosedNodes::of_words(closed),
            notices,
            words: words.map(|word| u64::from_le_bytes(*word)).collect(),
        };
        Ok((found, scan))
    }

    /// Returns the slots of participants, with their announced epochs.
    pub fn live(&self) -> impl Iterator<Item = (usize, u64)> {
        let slots = self.words.iter().enumerate();
        slots.filter_map(|(number, word)| match ParticipantSlotState::of(*word) {
            ParticipantSlotState::Live(epoch) => Some((number, epoch)),
            _ => None,
        })
    }

    /// Returns the epoch that all participants have announced, or a later one.
    pub fn announced(&self) -> u64 {
        let epochs = self.live().map(|(_, epoch)| epoch);
        epochs.min().unwrap_or(self.epoch)
    }

    /// Returns true if no live participant will reclaim the blocks of this slot's ring.
    pub fn is_orphan(&self, number: usize) -> bool {
        match ParticipantSlotState::of(self.words[number]) {
            ParticipantSlotState::Draining(None) => true,
            ParticipantSlotState::Draining(Some(by)) => !matches!(
                ParticipantSlotState::of(self.words[by]),
                ParticipantSlotState::Live(_)
            ),
            _ => false,
        }
    }
}

pub(super) async fn read_word(
    endpoint: &impl Endpoint,
    at: GlobalAddress,
) -> Result<u64, FabricError> {
    let mut word = [0; WORD_BYTES as usize];
    endpoint.read(at, &mut word).await?;
    Ok(u64::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_slots_are_and_differ_each_time() {
        let mut word = 0;
        for _ in 0..3 << (KIND_SHIFT - COUNT_SHIFT) {
            let next = ParticipantSlotState::Live(REST_MASK).after(word);
            assert_ne!(next, word);
            word = next;
        }
        assert_eq!(ParticipantSlotState::of(0), ParticipantSlotState::Free);
        for slot in [
            ParticipantSlotState::Free,
            ParticipantSlotState::Live(0),
            ParticipantSlotState::Live(REST_MASK),
            ParticipantSlotState::Draining(None),
            ParticipantSlotState::Draining(Some(255)),
        ] {
            assert_eq!(ParticipantSlotState::of(slot.after(u64::MAX)), slot);
        }
    }
}
