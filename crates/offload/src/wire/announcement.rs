//! The announcement of a memory node to a switch: the addresses that it holds.
//!
//! ```text
//!  0 magic 2 | version 1 | kind 1 | epoch 4
//!  8 place 8
//! 16 tag 16
//! 32 start 8 | bytes 8, for each range
//! ```

use super::key::{AuthenticationKey, TAG_BYTES, are_equal};
use super::message::{ANNOUNCEMENT, DatagramHead, MessageError};
use super::place::ProcessAddress;

/// Largest number of ranges of an announcement.
pub const ANNOUNCED_MAX: usize = 64;
const HEAD_BYTES: usize = 32;
const TAG: std::ops::Range<usize> = 16..16 + TAG_BYTES;
const RANGE_BYTES: usize = 16;
// The tag covers all bytes before and after it.
const _: () = assert!(TAG.end == HEAD_BYTES);

/// The ranges of a memory node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The epoch of the node's memory: a number that grows with each start of the node.
    pub epoch: u32,
    /// The place where the node receives datagrams. The message contains it so that the tag covers
    /// it: the sender's address of a datagram does not prove the sender.
    pub node: ProcessAddress,
    /// The first address of each range, and the number of its addresses.
    pub ranges: Vec<(u64, u64)>,
}

impl Announcement {
    /// Returns true if bytes begin like an announcement.
    pub fn is_one(datagram: &[u8]) -> bool {
        DatagramHead::of(datagram).is_ok_and(|head| head.kind == ANNOUNCEMENT)
    }

    /// Encodes at most [`ANNOUNCED_MAX`] ranges, with the tag of the rack's key.
    pub fn encode(&self, key: &AuthenticationKey) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + RANGE_BYTES * self.ranges.len());
        bytes.extend(DatagramHead::bytes(ANNOUNCEMENT));
        bytes.extend(self.epoch.to_le_bytes());
        bytes.extend(self.node.0.to_le_bytes());
        bytes.extend([0; TAG_BYTES]);
        debug_assert_eq!(bytes.len(), HEAD_BYTES);
        for (start, count) in self.ranges.iter().take(ANNOUNCED_MAX) {
            bytes.extend(start.to_le_bytes());
            bytes.extend(count.to_le_bytes());
        }
        // The tag leaves out its own bytes.
        let tag = tag(&bytes, key);
        bytes[TAG].copy_from_slice(&tag);
        bytes
    }

    /// Decodes bytes whose tag is that of the rack's key.
    ///
    /// # Errors
    /// See [`MessageError`].
    pub fn decode(bytes: &[u8], key: &AuthenticationKey) -> Result<Announcement, MessageError> {
        let head = DatagramHead::of(bytes)?;
        if head.kind != ANNOUNCEMENT {
            let value = head.kind.into();
            return Err(MessageError::Field { at: 3, value });
        }
        let found = bytes.len();
        let Some((fields, ranges)) = bytes.split_at_checked(HEAD_BYTES) else {
            let wanted = HEAD_BYTES;
            return Err(MessageError::Short {
                bytes: found,
                wanted,
            });
        };
        let (ranges, rest) = ranges.as_chunks::<RANGE_BYTES>();
        let count = ranges.len();
        if count > ANNOUNCED_MAX || !rest.is_empty() {
            let wanted = HEAD_BYTES + RANGE_BYTES * count.min(ANNOUNCED_MAX);
            return Err(MessageError::Long {
                bytes: found,
                wanted,
            });
        }
        if !are_equal(&bytes[TAG], tag(bytes, key)) {
            return Err(MessageError::ForeignNode);
        }
        Ok(Announcement {
            epoch: word(&fields[4..8]) as u32,
            node: ProcessAddress(word(&fields[8..16])),
            ranges: ranges
                .iter()
                .map(|range| (word(&range[..8]), word(&range[8..])))
                .collect(),
        })
    }
}

/// Computes the tag of bytes of at least a head's length.
fn tag(bytes: &[u8], key: &AuthenticationKey) -> [u8; TAG_BYTES] {
    debug_assert!(bytes.len() >= HEAD_BYTES);
    key.hash(&[&bytes[..TAG.start], &bytes[TAG.end..]])
}

/// Decodes a number of at most 8 bytes.
fn word(bytes: &[u8]) -> u64 {
    debug_assert!(bytes.len() <= 8);
    bytes
        .iter()
        .rev()
        .fold(0, |word, &byte| word << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: AuthenticationKey = AuthenticationKey([9; 32]);

    #[test]
    fn announcements_come_back_and_any_change_is_found() {
        let announcement = Announcement {
            epoch: 0x0102_0304,
            node: ProcessAddress(0x7f00_0001_1b58),
            ranges: vec![(0x1000, 0x2000), (1 << 48, 1 << 32)],
        };
        let bytes = announcement.encode(&KEY);
        assert!(Announcement::is_one(&bytes));
        assert_eq!(Announcement::decode(&bytes, &KEY), Ok(announcement));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert!(Announcement::decode(&changed, &KEY).is_err(), "{at} {bit}");
            }
            assert!(Announcement::decode(&bytes[..at], &KEY).is_err(), "{at}");
        }
        let foreign = Announcement::decode(&bytes, &AuthenticationKey([8; 32]));
        assert_eq!(foreign, Err(MessageError::ForeignNode));
    }
}
