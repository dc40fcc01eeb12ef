//! Blocks of long keys: a slot holds the beginning of a key and a hash of its rest, and the block
//! of the slot holds the rest and the value. Source: CHIME, keys of variable length by indirection.
//!
//! ```text
//! block | number of keys 4 | entry | entry | ...       rests ascend
//! entry | length of rest 2 | length of value 4 | rest | value |
//! ```
//!
//! Almost every block has one key. Keys share one if beginning and hash are equal. A block is never
//! changed: a change of one of its keys writes another, under the lock of the slot's leaf.

use super::form::BLOCK_LENGTH_MAX;
use crate::canary::Check;

/// Number of bytes of the number of keys.
pub(super) const COUNT_BYTES: usize = 4;
/// Number of bytes of the lengths of an entry.
const LENGTHS_BYTES: usize = 6;
/// Number of bytes of a block with one key besides its rest and value.
pub(super) const FIELD_BYTES: usize = COUNT_BYTES + LENGTHS_BYTES;

/// The rest of a long key, and its value.
pub(super) type LongKeyEntry<'b> = (&'b [u8], &'b [u8]);

/// Returns the number of keys of a block, by its first bytes.
pub(super) fn count(block: &[u8]) -> usize {
    let bytes = block.first_chunk::<COUNT_BYTES>();
    bytes.map_or(0, |&bytes| u32::from_le_bytes(bytes) as usize)
}

/// Returns the entries of a block. Damaged ones and those behind them are left out.
pub(super) fn entries(block: &[u8]) -> impl Iterator<Item = LongKeyEntry<'_>> {
    let mut left = block.get(COUNT_BYTES..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (entry, others) = split_entry(left)?;
        left = others;
        Some(entry)
    })
}

/// Returns the value of the key with this rest.
pub(super) fn find<'b>(block: &'b [u8], rest: &[u8]) -> Option<&'b [u8]> {
    let mut entries = entries(block);
    let (_, value) = entries.find(|(found, _)| *found == rest || !Check::Rests.is_made())?;
    Some(value)
}

/// Returns all entries of a block; `None` if any of its bytes is not what a client has written.
pub(super) fn decode(block: &[u8]) -> Option<Vec<LongKeyEntry<'_>>> {
    let found: Vec<LongKeyEntry<'_>> = entries(block).collect();
    let is_whole = count(block) == found.len()
        && !found.is_empty()
        && length(&found) == block.len()
        && found.is_sorted_by(|(one, _), (other, _)| one < other);
    is_whole.then_some(found)
}

/// Returns a block with these entries, whose rests ascend; `None` if no block may be as long.
pub(super) fn encode(entries: &[LongKeyEntry<'_>]) -> Option<Vec<u8>> {
    debug_assert!(
        entries.is_sorted_by(|(one, _), (other, _)| one < other),
        "decoding expects an order"
    );
    let length = length(entries);
    if length > BLOCK_LENGTH_MAX {
        return None;
    }
    let mut block = Vec::with_capacity(length);
    block.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    for (rest, value) in entries {
        block.extend_from_slice(&(rest.len() as u16).to_le_bytes());
        block.extend_from_slice(&(value.len() as u32).to_le_bytes());
        block.extend_from_slice(rest);
        block.extend_from_slice(value);
    }
    Some(block)
}

/// Returns the length of a block with these entries.
fn length(entries: &[LongKeyEntry<'_>]) -> usize {
    let each = entries.iter();
    let each = each.map(|(rest, value)| LENGTHS_BYTES + rest.len() + value.len());
    COUNT_BYTES + each.sum::<usize>()
}

/// Divides the bytes of entries behind the first one.
fn split_entry(bytes: &[u8]) -> Option<(LongKeyEntry<'_>, &[u8])> {
    let (lengths, bytes) = bytes.split_first_chunk::<LENGTHS_BYTES>()?;
    let [low, high, value @ ..] = *lengths;
    let rest_bytes = usize::from(u16::from_le_bytes([low, high]));
    let value_bytes = u32::from_le_bytes(value) as usize;
    let (rest, bytes) = bytes.split_at_checked(rest_bytes)?;
    let (value, bytes) = bytes.split_at_checked(value_bytes)?;
    Some(((rest, value), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    const ENTRIES: [LongKeyEntry<'static>; 3] =
        [(b"\0", b""), (b"rest", b"value"), (b"resting", &[7; 300])];

    #[test]
    fn blocks_hold_rests_and_values() {
        for number in 1..=ENTRIES.len() {
            let some = &ENTRIES[..number];
            let block = encode(some).expect("it is short");
            assert_eq!(decode(&block).as_deref(), Some(some));
            assert_eq!(count(&block[..COUNT_BYTES]), number);
            for &(rest, value) in &ENTRIES {
                let expected = some.iter().any(|entry| entry.0 == rest).then_some(value);
                assert_eq!(find(&block, rest), expected);
            }
            assert_eq!(find(&block, b"res"), None);
        }
    }

    /// A change writes the other keys of a block again, so it must not begin with a part of them.
    #[test]
    fn changed_lengths_and_missing_bytes_are_noticed() {
        let block = encode(&ENTRIES).expect("it is short");
        for length in 0..block.len() {
            assert_eq!(decode(&block[..length]), None, "{length} bytes");
        }
        assert_eq!(decode(&[&block[..], &[0]].concat()), None);
        // The number of keys, and the lengths of the first one.
        for at in 0..COUNT_BYTES + LENGTHS_BYTES {
            let mut other = block.clone();
            other[at] ^= 1;
            assert_eq!(decode(&other), None, "byte {at}");
        }
        let twice = [(&b"a"[..], &b""[..]), (b"b", b"")];
        let mut block = encode(&twice).expect("it is short");
        let last = block.len() - 1;
        block[last] = b'a';
        assert_eq!(decode(&block), None, "a key twice");
    }

    #[test]
    fn random_bytes_are_read_without_a_panic() {
        let mut random = SmallRng::seed_from_u64(7);
        let block = encode(&ENTRIES).expect("it is short");
        for _ in 0..20_000 {
            let mut damaged = block.clone();
            for _ in 0..random.random_range(1..6) {
                let at = random.random_range(0..damaged.len());
                damaged[at] = random.random();
            }
            damaged.truncate(random.random_range(0..=damaged.len()));
            let bytes: usize = entries(&damaged)
                .map(|(rest, value)| rest.len() + value.len())
                .sum();
            assert!(bytes <= damaged.len());
            let _ = (decode(&damaged), find(&damaged, b"rest"), count(&damaged));
        }
    }
}
