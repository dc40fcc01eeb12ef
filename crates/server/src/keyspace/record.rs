//! The record that the index stores for a key: a tag byte, the time at which the key expires, and
//! either the string itself, or the number of the slot that holds the object, or the place of the
//! value in a [cold tier](super::cold). If the key is noted to expire too early (see
//! [`notes`](super::notes)), the difference follows the time.

use super::slots::ObjectSlot;
use crate::object::RedisType;
use nearfield_tiers::ColdPlace;

const KIND_BITS: u8 = 0b0000_0111;
const EXPIRES: u8 = 0b0000_1000;
/// The string was changed in place, so that it is not encoded as an integer or embedded.
const RAW: u8 = 0b0001_0000;
/// The payload is a slot: for all types except strings, and for strings that are long or were
/// changed in place.
const IN_SLOT: u8 = 0b0010_0000;
/// The key's note is earlier than its time. The difference is in the four bytes after the time.
const NOTED_EARLY: u8 = 0b0100_0000;
/// The payload is a place in a cold tier.
const IN_TIER: u8 = 0b1000_0000;

// Each type has a number in the tag.
const _: () = assert!(RedisType::ALL.len() <= KIND_BITS as usize + 1);

/// The first byte of a string that does not expire, which is followed by the string itself. This
/// byte also stands before each word of a request, so that a request has its words in their stored
/// form. All first bytes are stored as their difference to it.
pub const PLAIN_STRING: u8 = b'\n';

/// Returns true if the record is a string that does not expire, so that nothing else needs to be
/// parsed.
#[inline]
pub fn is_plain(stored: &[u8]) -> bool {
    stored.first() == Some(&PLAIN_STRING)
}

/// The maximum length of a record's head: its tag, its time, the time by which its note is early,
/// and a reference to what is stored elsewhere. Only the bytes of a string come on top.
pub const HEAD_BYTES_MAX: usize = 1 + 8 + 4 + 8;

/// The length up to which a string is stored in the index. Longer ones are in a slot, so that the
/// index does not copy them.
pub const INLINE_BYTES_MAX: usize = 64 << 10;

/// The value of a key, or its location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordPayload<'a> {
    /// A string, itself.
    Inline(&'a [u8]),
    /// An object, or a long string.
    InSlot(ObjectSlot),
    /// A value in a cold tier: a string itself, or a frozen object.
    InTier(ColdPlace),
}

/// The parts of a stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueRecord<'a> {
    /// The type.
    pub kind: RedisType,
    /// True if the string was changed in place.
    pub raw: bool,
    /// The time at which the key expires, in milliseconds since 1970.
    pub expires_at_ms: Option<u64>,
    /// The time by which the key's note is earlier.
    pub early_ms: u32,
    /// The value.
    pub payload: RecordPayload<'a>,
}

impl<'a> ValueRecord<'a> {
    /// Creates the record of a string that does not expire.
    pub fn string(value: &'a [u8]) -> ValueRecord<'a> {
        ValueRecord {
            kind: RedisType::String,
            raw: false,
            expires_at_ms: None,
            early_ms: 0,
            payload: RecordPayload::Inline(value),
        }
    }

    /// Creates the record of an object that does not expire.
    pub fn object(kind: RedisType, slot: ObjectSlot) -> ValueRecord<'static> {
        ValueRecord {
            kind,
            raw: false,
            expires_at_ms: None,
            early_ms: 0,
            payload: RecordPayload::InSlot(slot),
        }
    }

    /// Parses what [`write`](ValueRecord::write) has written.
    ///
    /// # Panics
    /// If `stored` is something else; only this module writes values.
    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "only `write` makes what is read here"
    )]
    pub fn parse(stored: &'a [u8]) -> ValueRecord<'a> {
        let tag = stored[0] ^ PLAIN_STRING;
        debug_assert!(tag & IN_SLOT == 0 || tag & IN_TIER == 0);
        let mut rest = &stored[1..];
        let expires_at_ms = (tag & EXPIRES != 0).then(|| {
            let (time, after) = rest.split_at(8);
            rest = after;
            number(time)
        });
        let mut early_ms = 0;
        if tag & NOTED_EARLY != 0 {
            let (early, after) = rest.split_at(4);
            rest = after;
            early_ms = number(early) as u32;
        }
        let payload = if tag & IN_SLOT != 0 {
            RecordPayload::InSlot(ObjectSlot::from_number(number(rest) as u32))
        } else if tag & IN_TIER != 0 {
            RecordPayload::InTier(ColdPlace::from_bits(number(rest)))
        } else {
            RecordPayload::Inline(rest)
        };
        ValueRecord {
            kind: RedisType::ALL[usize::from(tag & KIND_BITS)],
            raw: tag & RAW != 0,
            expires_at_ms,
            early_ms,
            payload,
        }
    }

    /// Appends the stored form.
    pub fn write(&self, out: &mut Vec<u8>) {
        debug_assert!(
            self.expires_at_ms
                .is_none_or(|time| time >= u64::from(self.early_ms)),
            "the key's note is before all times"
        );
        let mut tag = self.kind as u8;
        if self.raw {
            tag |= RAW;
        }
        if self.expires_at_ms.is_some() {
            tag |= EXPIRES;
        }
        match self.payload {
            RecordPayload::Inline(_) => {}
            RecordPayload::InSlot(_) => tag |= IN_SLOT,
            RecordPayload::InTier(_) => tag |= IN_TIER,
        }
        let is_early = self.expires_at_ms.is_some() && self.early_ms > 0;
        if is_early {
            tag |= NOTED_EARLY;
        }
        out.push(tag ^ PLAIN_STRING);
        if let Some(time) = self.expires_at_ms {
            out.extend_from_slice(&time.to_le_bytes());
        }
        if is_early {
            out.extend_from_slice(&self.early_ms.to_le_bytes());
        }
        match self.payload {
            RecordPayload::Inline(value) => out.extend_from_slice(value),
            RecordPayload::InSlot(slot) => out.extend_from_slice(&slot.number().to_le_bytes()),
            RecordPayload::InTier(place) => out.extend_from_slice(&place.to_bits().to_le_bytes()),
        }
    }

    /// Returns the time at which the key is noted, if it expires.
    #[inline]
    pub fn note(&self) -> Option<u64> {
        let early_ms = u64::from(self.early_ms);
        self.expires_at_ms.map(|time| time.saturating_sub(early_ms))
    }

    /// Returns the record with the key's note left at `note`, if that is not after the key's time,
    /// and not too long before it to be stored. Otherwise the note is at the key's time.
    #[inline]
    pub fn keeping_note(self, note: Option<u64>) -> Self {
        let early_ms = match (self.expires_at_ms, note) {
            (Some(time), Some(note)) => time.checked_sub(note),
            _ => None,
        };
        ValueRecord {
            // A difference of more than seven weeks does not fit. The note moves then.
            early_ms: early_ms.and_then(|ms| ms.try_into().ok()).unwrap_or(0),
            ..self
        }
    }

    /// Returns true if the key has expired.
    #[inline]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms.is_some_and(|time| time <= now_ms)
    }
}

/// Reads a number of four or eight bytes in little-endian order.
#[inline]
fn number(bytes: &[u8]) -> u64 {
    debug_assert!(matches!(bytes.len(), 4 | 8));
    match (bytes.first_chunk(), bytes.first_chunk()) {
        (Some(eight), _) => u64::from_le_bytes(*eight),
        (None, Some(four)) => u64::from(u32::from_le_bytes(*four)),
        (None, None) => 0,
    }
}

/// The length up to which a string that is changed in place stays in the index. A longer one goes
/// into a slot, where the next change need not copy it.
const CHANGED_INLINE_BYTES_MAX: usize = 1024;

/// Returns true if a string of this length, changed in place or not, is stored in a slot.
pub(super) fn is_in_slot(changed: bool, bytes: usize) -> bool {
    let inline_max = match changed {
        true => CHANGED_INLINE_BYTES_MAX,
        false => INLINE_BYTES_MAX,
    };
    bytes > inline_max
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_are_written() {
        let payloads = [
            RecordPayload::Inline(b""),
            RecordPayload::Inline(b"value"),
            RecordPayload::InSlot(ObjectSlot::from_number(77_000)),
            RecordPayload::InTier(ColdPlace::from_bits(0x0123_4567_89ab_cdef)),
        ];
        for kind in RedisType::ALL {
            for raw in [false, true] {
                for (expires_at_ms, early_ms) in [
                    (None, 0),
                    (Some(0), 0),
                    (Some(1_800_000_000_123), 0),
                    (Some(1_800_000_000_123), 1),
                    (Some(u64::MAX), u32::MAX),
                ] {
                    for payload in payloads {
                        let record = ValueRecord {
                            kind,
                            raw,
                            expires_at_ms,
                            early_ms,
                            payload,
                        };
                        let mut out = Vec::new();
                        record.write(&mut out);
                        assert_eq!(ValueRecord::parse(&out), record);
                        let head = out.get(..HEAD_BYTES_MAX).unwrap_or(&out);
                        let head = ValueRecord::parse(head);
                        assert_eq!(head.outside(), record.outside());
                        assert_eq!(head.note(), record.note());
                    }
                }
            }
        }
        let mut out = Vec::new();
        ValueRecord::string(b"v").write(&mut out);
        assert_eq!(out, [PLAIN_STRING, b'v']);
    }
    #[test]
    fn a_note_is_kept_if_it_is_not_late_and_not_far_too_early() {
        const NOW: u64 = 1_800_000_000_000;
        const FAR: u64 = NOW + (1 << 32);
        for (note, time, expected) in [
            (None, None, None),
            (Some(NOW), None, None),
            (None, Some(NOW), Some(NOW)),
            (Some(NOW), Some(NOW), Some(NOW)),
            (Some(NOW), Some(NOW + 1), Some(NOW)),
            (Some(NOW), Some(NOW - 1), Some(NOW - 1)),
            (Some(NOW), Some(FAR - 1), Some(NOW)),
            (Some(NOW), Some(FAR), Some(FAR)),
        ] {
            let record = ValueRecord {
                expires_at_ms: time,
                ..ValueRecord::string(b"v")
            };
            assert_eq!(record.keeping_note(note).note(), expected);
        }
    }
}
