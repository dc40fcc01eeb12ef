//! The encoding of a record.
//!
//! ```text
//! 0   checksum: xxh3 of all that follows
//! 8   word of the acquisition under which the change is made
//! 16  lock: offset in its node, in words (45 bits) | length of the record in bytes (19 bits)
//! 24  length of the note (16 bits), note
//!     of each write: address (64 bits), length (16 bits), bytes
//! ```
//! All in little-endian order, and nothing is aligned.

use super::RedoError;
use crate::address::{GlobalAddress, NodeId, WORD_BYTES};
use xxhash_rust::xxh3::xxh3_64;

/// Length of checksum, acquisition, lock and length, and the length of the note.
const HEADER_BYTES: usize = 26;
const CHECKSUM_BYTES: usize = 8;
/// Length of each write, besides its bytes.
const WRITE_HEADER_BYTES: usize = 10;
const LENGTH_BITS: u32 = 19;
/// Length of the longest record.
pub(super) const RECORD_BYTES_MAX: usize = (1 << LENGTH_BITS) - 1;

/// A change under a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedoRecord {
    /// The word of the lock during the change.
    pub word: u64,
    /// The lock.
    pub lock: GlobalAddress,
    /// The writes, in this order.
    pub writes: Vec<(GlobalAddress, Vec<u8>)>,
    /// A further task, in a format of the index.
    pub note: Vec<u8>,
}

impl RedoRecord {
    /// Encodes the record.
    ///
    /// # Errors
    /// `TooLong` if it has more than `limit` bytes, or more than 524,287.
    pub fn encode(&self, limit: usize) -> Result<Vec<u8>, RedoError> {
        let writes = self.writes.iter();
        let writes: Vec<_> = writes.map(|(to, bytes)| (*to, &bytes[..])).collect();
        encode(self.word, self.lock, &writes, &self.note, limit)
    }

    /// Decodes the record at the beginning of a slot of this node, if it is whole.
    pub fn decode(slot: &[u8], node: NodeId) -> Option<RedoRecord> {
        let place = word_at(slot, 16)?;
        // A torn length is found by the checksum, which covers it.
        let record = slot.get(..(place as usize & RECORD_BYTES_MAX))?;
        let checksum = xxh3_64(record.get(CHECKSUM_BYTES..)?);
        (word_at(record, 0)? == checksum).then_some(())?;
        parse(record, node)
    }
}

/// Returns the number of bytes in the record of a change, with writes of these lengths.
///
/// ```
/// use nearfield_fabric::recovery::redo::record_bytes;
/// // One entry of 20 bytes, and a note of 8.
/// assert_eq!(record_bytes([20], 8), 64);
/// ```
pub fn record_bytes(writes: impl IntoIterator<Item = usize>, note: usize) -> usize {
    // A write that is too long for the length field is split into several.
    let pieces = |length: usize| length.div_ceil(usize::from(u16::MAX)).max(1);
    let of_write = |length| length + pieces(length) * WRITE_HEADER_BYTES;
    HEADER_BYTES + note + writes.into_iter().map(of_write).sum::<usize>()
}

/// Encodes a record.
pub(super) fn encode(
    word: u64,
    lock: GlobalAddress,
    writes: &[(GlobalAddress, &[u8])],
    note: &[u8],
    limit: usize,
) -> Result<Vec<u8>, RedoError> {
    let bytes = record_bytes(writes.iter().map(|(_, bytes)| bytes.len()), note.len());
    let limit = limit.min(RECORD_BYTES_MAX);
    let note_length = u16::try_from(note.len());
    let (true, Ok(note_length)) = (bytes <= limit, note_length) else {
        return Err(RedoError::TooLong { bytes, limit });
    };
    let mut record = Vec::with_capacity(bytes);
    record.extend_from_slice(&[0; CHECKSUM_BYTES]);
    record.extend_from_slice(&word.to_le_bytes());
    debug_assert!(lock.offset().is_multiple_of(WORD_BYTES));
    let place = (lock.offset() / WORD_BYTES) << LENGTH_BITS | bytes as u64;
    record.extend_from_slice(&place.to_le_bytes());
    record.extend_from_slice(&note_length.to_le_bytes());
    record.extend_from_slice(note);
    for &(to, bytes) in writes {
        let mut to = to.to_bits();
        // A mark has no bytes and so no chunks, but a place in the record.
        let is_mark = bytes.is_empty().then_some(bytes);
        for piece in is_mark
            .into_iter()
            .chain(bytes.chunks(usize::from(u16::MAX)))
        {
            record.extend_from_slice(&to.to_le_bytes());
            record.extend_from_slice(&(piece.len() as u16).to_le_bytes());
            record.extend_from_slice(piece);
            to = to.wrapping_add(piece.len() as u64);
        }
    }
    debug_assert_eq!(record.len(), bytes, "the slot was chosen by this length");
    let checksum = xxh3_64(&record[CHECKSUM_BYTES..]);
    record[..CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
    Ok(record)
}

/// Decodes the record in a slot of this node, if it is whole and belongs to the acquisition of this
/// word.
pub(super) fn of_acquisition(slot: &[u8], node: NodeId, word: u64) -> Option<RedoRecord> {
    RedoRecord::decode(slot, node).filter(|record| record.word == word)
}

/// Parses a record.
pub(super) fn parse(record: &[u8], node: NodeId) -> Option<RedoRecord> {
    let offset = (word_at(record, 16)? >> LENGTH_BITS) * WORD_BYTES;
    let word = word_at(record, 8)?;
    let (note_length, rest) = record.get(24..)?.split_first_chunk()?;
    let (note, mut rest) = rest.split_at_checked(u16::from_le_bytes(*note_length).into())?;
    let mut writes = Vec::new();
    while !rest.is_empty() {
        let (to, after) = rest.split_first_chunk()?;
        let (length, after) = after.split_first_chunk()?;
        let (bytes, after) = after.split_at_checked(u16::from_le_bytes(*length).into())?;
        let to = GlobalAddress::from_bits(u64::from_le_bytes(*to));
        writes.push((to, bytes.to_vec()));
        rest = after;
    }
    Some(RedoRecord {
        word,
        lock: GlobalAddress::new(node, offset),
        writes,
        note: note.to_vec(),
    })
}

fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    const NODE: NodeId = NodeId(3);
    const LOCK: GlobalAddress = GlobalAddress::new(NODE, (1 << 48) - 8);

    #[test]
    fn records_are_read_as_they_were_written() {
        for seed in 0..200 {
            let random = &mut SmallRng::seed_from_u64(seed);
            let writes: Vec<(GlobalAddress, Vec<u8>)> = (0..random.random_range(0..5))
                .map(|_| {
                    let length = random.random_range(0..300);
                    let at = GlobalAddress::new(
                        NodeId(random.random()),
                        random.random_range(0..1 << 40),
                    );
                    (at, (0..length).map(|_| random.random()).collect())
                })
                .collect();
            let note: Vec<u8> = (0..random.random_range(0..40))
                .map(|_| random.random())
                .collect();
            let as_given: Vec<_> = writes.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
            let word = random.random();
            let mut slot = encode(word, LOCK, &as_given, &note, 4096).unwrap();
            let lengths = writes.iter().map(|(_, bytes)| bytes.len());
            assert_eq!(slot.len(), record_bytes(lengths, note.len()));
            slot.resize(4096, random.random());
            let lock = LOCK;
            let record = RedoRecord {
                word,
                lock,
                writes,
                note,
            };
            assert_eq!(RedoRecord::decode(&slot, NODE), Some(record));
            // A change of any bit makes the record invalid.
            let bit = random.random_range(0..HEADER_BYTES * 8);
            slot[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                RedoRecord::decode(&slot, NODE),
                None,
                "seed {seed}, bit {bit}"
            );
        }
    }

    #[test]
    fn long_writes_are_in_pieces_and_too_long_ones_are_refused() {
        let bytes = vec![7; 100_000];
        let to = GlobalAddress::new(NODE, 4096);
        let slot = encode(9, LOCK, &[(to, &bytes)], &[], 1 << 19).unwrap();
        assert_eq!(slot.len(), record_bytes([100_000], 0));
        let record = RedoRecord::decode(&slot, NODE).unwrap();
        assert_eq!(record.writes.len(), 2);
        assert_eq!(record.writes[1].0, to.plus(65535));
        let error = encode(9, LOCK, &[(LOCK, &bytes)], &[], 2048).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a record of 100046 bytes does not fit into a slot of 2048"
        );
        assert!(encode(9, LOCK, &[], &[0; 1 << 16], 1 << 19).is_err());
        assert_eq!(RedoRecord::decode(&[], NODE), None);
        assert_eq!(RedoRecord::decode(&[0; 64], NODE), None);
    }
}
