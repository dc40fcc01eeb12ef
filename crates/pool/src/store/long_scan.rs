//! Scans of stores with long keys: slots of keys with one beginning are in the order of hashes, so
//! all are read before the first one is returned.

use super::client::SlotRange;
use super::form::Codec;
use super::long_keys;
use crate::index::Entry;
use nearfield_core::ScanDirection;

/// The entries of a scan, in the order of keys as far as that is certain.
pub(super) struct LongKeyScan<'s> {
    codec: &'s Codec,
    range: &'s SlotRange,
    direction: ScanDirection,
    entries: Vec<Entry>,
    /// The number of entries that are in their places. The keys of the others have the beginning of
    /// `open`.
    settled: usize,
    /// The family of slots that was read last, of which more slots may follow.
    open: Option<Vec<u8>>,
}

impl<'s> LongKeyScan<'s> {
    pub fn new(
        codec: &'s Codec,
        range: &'s SlotRange,
        direction: ScanDirection,
    ) -> LongKeyScan<'s> {
        LongKeyScan {
            codec,
            range,
            direction,
            entries: Vec::new(),
            settled: 0,
            open: None,
        }
    }

    /// Returns the number of entries in their places.
    pub fn settled(&self) -> usize {
        self.settled
    }

    /// Returns true if more slots of the last family may follow.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes the next slot, with its value or its block.
    pub fn take(&mut self, mut slot: Vec<u8>, held: Vec<u8>) {
        let codec = self.codec;
        if !codec.is_long(&slot) {
            self.settle();
            let length = codec.decode_key(&slot).len();
            slot.truncate(length);
            self.entries.push((slot, held));
            self.settled = self.entries.len();
            return;
        }
        let family = codec.family(&slot);
        if self.open.as_deref() != Some(family) {
            self.settle();
            self.open = Some(family.to_vec());
        }
        for (rest, value) in long_keys::entries(&held) {
            let key = [codec.beginning(&slot), rest].concat();
            if self.range.has_long_key(&key) {
                self.entries.push((key, value.to_vec()));
            }
        }
    }

    /// Returns the entries in their places, and the rest of the range behind them.
    pub fn finish(mut self, rest: Option<SlotRange>) -> (Vec<Entry>, Option<SlotRange>) {
        let Some(rest) = rest else {
            self.settle();
            return (self.entries, None);
        };
        let rest = match &self.open {
            Some(family) => rest.with_family(self.codec, family, self.direction),
            None => rest,
        };
        self.entries.truncate(self.settled);
        (self.entries, Some(rest))
    }

    /// Puts the entries of the open family in their places.
    fn settle(&mut self) {
        if self.open.take().is_some() {
            let family = &mut self.entries[self.settled..];
            family.sort_unstable_by(|(one, _), (other, _)| match self.direction {
                ScanDirection::Ascending => one.cmp(other),
                ScanDirection::Descending => other.cmp(one),
            });
        }
        self.settled = self.entries.len();
    }
}
