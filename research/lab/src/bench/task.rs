//! Operations in the form that the measured loops read.

use crate::workload::Op;
use nearfield_peers::{PeerKey, PeerTextKey};

/// Number of bits of a value that follow from its key; the other bits identify the writer.
const DIGEST_BITS: u32 = 48;

/// The kind of operation on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BenchOperationKind {
    Get,
    Update,
    Insert,
    Scan(u32),
    ReadModifyWrite,
}

/// One operation: its kind, its key, and the digest that the key's value must contain.
#[derive(Clone, Copy, Debug)]
pub(super) struct BenchOperation<K> {
    pub(super) key: K,
    pub(super) digest: u64,
    pub(super) verb: BenchOperationKind,
}

impl<K> BenchOperation<K> {
    /// Returns the value to write; `version` distinguishes writers.
    #[inline]
    pub(super) fn value(&self, version: u16) -> u64 {
        debug_assert!(self.digest < 1 << DIGEST_BITS);
        self.digest | u64::from(version) << DIGEST_BITS
    }

    /// Returns true if `value` was written for this key.
    #[inline]
    pub(super) fn has_value(&self, value: Option<u64>) -> bool {
        value.is_some_and(|value| (value ^ self.digest) << (u64::BITS - DIGEST_BITS) == 0)
    }
}

/// Keys that values can be checked against.
pub(super) trait DigestKey: PeerKey {
    /// Returns 48 bits that follow from the key.
    fn digest(self) -> u64;

    /// Copies keys side by side in the order of the operations, as a server would find them in its
    /// read buffer. The copies live as long as the process: one set for each stream.
    fn queries(keys: &[Self], positions: impl Iterator<Item = usize>) -> Vec<Self>;
}

impl DigestKey for u64 {
    fn digest(self) -> u64 {
        self.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - DIGEST_BITS)
    }

    fn queries(keys: &[u64], positions: impl Iterator<Item = usize>) -> Vec<u64> {
        positions.map(|position| keys[position]).collect()
    }
}

impl DigestKey for PeerTextKey {
    fn digest(self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for &byte in self.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - DIGEST_BITS)
    }

    fn queries(keys: &[PeerTextKey], positions: impl Iterator<Item = usize>) -> Vec<PeerTextKey> {
        let positions: Vec<usize> = positions.collect();
        let bytes = positions
            .iter()
            .map(|&position| keys[position].terminated().len())
            .sum();
        let mut text = Vec::with_capacity(bytes);
        for &position in &positions {
            text.extend_from_slice(keys[position].terminated());
        }
        let text: &'static [u8] = text.leak();
        let strings = text.split_inclusive(|&byte| byte == 0);
        strings.filter_map(PeerTextKey::from_terminated).collect()
    }
}

/// Turns operations on positions into tasks on keys in the map's form.
///
/// # Errors
/// The reason why the map cannot hold one of the keys.
pub(super) fn tasks<S: DigestKey, K>(
    keys: &[S],
    ops: &[Op],
    convert: impl Fn(S) -> Result<K, &'static str>,
) -> Result<Vec<BenchOperation<K>>, &'static str> {
    let queries = S::queries(keys, ops.iter().map(|&op| position(op)));
    debug_assert_eq!(queries.len(), ops.len(), "an operation would be left out");
    let task = |(&op, query): (&Op, S)| {
        let (key, verb) = match op {
            Op::Read(_) => (query, BenchOperationKind::Get),
            Op::Update(_) => (query, BenchOperationKind::Update),
            // The map may keep the slice, so it is that of the key set.
            Op::Insert(position) => (keys[position], BenchOperationKind::Insert),
            Op::Scan(_, length) => (query, BenchOperationKind::Scan(length as u32)),
            Op::ReadModifyWrite(_) => (query, BenchOperationKind::ReadModifyWrite),
        };
        Ok(BenchOperation {
            key: convert(key)?,
            digest: key.digest(),
            verb,
        })
    };
    ops.iter().zip(queries).map(task).collect()
}

fn position(op: Op) -> usize {
    match op {
        Op::Read(position)
        | Op::Update(position)
        | Op::Insert(position)
        | Op::Scan(position, _)
        | Op::ReadModifyWrite(position) => position,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_answers_its_own_key_in_every_version() {
        let task = |key: u64| BenchOperation {
            key,
            digest: key.digest(),
            verb: BenchOperationKind::Get,
        };
        for version in [0, 1, u16::MAX] {
            assert!(task(7).has_value(Some(task(7).value(version))));
            assert!(!task(7).has_value(Some(task(8).value(version))));
        }
        assert!(!task(7).has_value(None));
    }

    #[test]
    fn queries_are_copies_in_order_and_inserts_are_not() {
        let text = |bytes: &'static [u8]| PeerTextKey::from_terminated(bytes).unwrap();
        let keys = [text(b"near\0"), text(b"field\0")];
        let ops = [Op::Read(1), Op::Insert(0), Op::Scan(1, 9)];
        let tasks = tasks(&keys, &ops, |key| Ok(key.bytes())).unwrap();
        let strings: Vec<_> = tasks.iter().map(|task| task.key).collect();
        assert_eq!(strings, [&b"field"[..], b"near", b"field"]);
        assert_ne!(strings[0].as_ptr(), keys[1].bytes().as_ptr());
        assert_eq!(strings[1].as_ptr(), keys[0].bytes().as_ptr());
        assert_eq!(tasks[2].verb, BenchOperationKind::Scan(9));
        assert_eq!(tasks[0].digest, keys[1].digest());
    }

    #[test]
    fn a_refused_key_refuses_the_stream() {
        let refusal = tasks(&[1u64], &[Op::Read(0)], |_| Err::<u64, _>("too long"));
        assert_eq!(refusal.map(|tasks| tasks.len()), Err("too long"));
    }
}
