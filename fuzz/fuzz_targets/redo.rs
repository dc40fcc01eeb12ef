//! No bytes make the reader of redo records panic. It accepts only what the writer has written:
//! records are read as they were written, and a record that differs in a byte or is truncated is
//! refused.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfield_fabric::recovery::redo::{RedoRecord, record_bytes};
use nearfield_fabric::{GlobalAddress, NodeId};
use xxhash_rust::xxh3::xxh3_64;

type Writes = Vec<(u64, Vec<u8>)>;

const CHECKSUM_BYTES: usize = 8;
/// Bytes of the length, which is in their lower 19 bits.
const LENGTH: std::ops::Range<usize> = 16..19;

fuzz_target!(
    |input: (u16, (u64, u64, Writes, Vec<u8>), usize, u8, Vec<u8>)| {
        let (node, (word, offset, writes, note), place, change, bytes) = input;
        let node = NodeId(node);
        read(&bytes, node);
        read(&sealed(bytes), node);

        let writes = writes.into_iter();
        let record = RedoRecord {
            word,
            lock: GlobalAddress::new(node, offset % (1 << 48) / 8 * 8),
            writes: writes
                .map(|(to, bytes)| (GlobalAddress::from_bits(to), bytes))
                .collect(),
            note,
        };
        let lengths = record.writes.iter().map(|(_, bytes)| bytes.len());
        let length = record_bytes(lengths, record.note.len());
        assert!(record.encode(length - 1).is_err());
        // Inputs are short enough for their lengths to fit.
        let mut slot = record.encode(length).expect("it fits");
        assert_eq!(slot.len(), length);
        assert_eq!(RedoRecord::decode(&slot, node).as_ref(), Some(&record));
        let place = place % length;
        assert_eq!(RedoRecord::decode(&slot[..place], node), None);
        slot[place] ^= change;
        let found = RedoRecord::decode(&slot, node);
        assert_eq!(found, (change == 0).then_some(record));
        // Bytes that are nearly a record reach more of the reader.
        read(&sealed(slot), node);
    }
);

/// Returns the bytes with a correct length and checksum.
fn sealed(mut record: Vec<u8>) -> Vec<u8> {
    if record.len() >= LENGTH.end {
        let length = record.len().to_le_bytes();
        record[16] = length[0];
        record[17] = length[1];
        record[18] = record[18] & !7 | length[2] & 7;
        let checksum = xxh3_64(&record[CHECKSUM_BYTES..]);
        record[..CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
    }
    record
}

/// Reads a slot, and checks that the writer encodes its record to the same bytes.
fn read(slot: &[u8], node: NodeId) {
    if let Some(record) = RedoRecord::decode(slot, node) {
        let written = record.encode(slot.len()).expect("it fits where it was");
        assert_eq!(written, slot[..written.len()]);
        assert_eq!(record.lock.node(), node);
    }
}
