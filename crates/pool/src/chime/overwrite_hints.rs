//! The slots in which keys were last overwritten, so that the next overwrite need not read them
//! first. Not in the paper.

use nearfield_fabric::GlobalAddress;
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Number of places that share a bucket; the least recently used one is replaced first.
const WAYS: usize = 8;
/// Time after which all hints are forgotten. A stamp repeats only after many more acquisitions of
/// locks by one client than are possible in that time.
const PERIOD: Duration = Duration::from_secs(1);
/// Number of bytes up to which keys are remembered, because an entry holds the key itself, not a
/// hash of it.
const KEY_BYTES: usize = 8;
const SLOT_BITS: u32 = 16;

/// The slots of keys, and the stamps that their leaves' lock words had then
/// ([`StampedLayout`](crate::layout::StampedLayout)). As long as a leaf has the same stamp the key
/// is in the same slot.
///
/// 25 bytes per place. Threads share it.
#[derive(Debug)]
pub(super) struct OverwriteHints {
    bytes: usize,
    /// Created for the first hint.
    buckets: OnceLock<Box<[Mutex<Bucket>]>>,
    /// Time when the last period began, in nanoseconds.
    since: AtomicU64,
}

type Bucket = [OverwriteHintSlot; WAYS];

/// A hint; empty if its stamp is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OverwriteHintSlot {
    leaf: u64,
    key: u64,
    /// The stamp, and the slot in the lowest bits.
    rest: u64,
}

/// The slot of a key, while the leaf has this stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OverwriteHint {
    pub slot: usize,
    pub stamp: u64,
}

impl OverwriteHints {
    /// Creates an empty table with room for `bytes` of hints.
    pub fn with_bytes(bytes: usize) -> OverwriteHints {
        OverwriteHints {
            bytes: bytes / size_of::<Mutex<Bucket>>() * size_of::<Mutex<Bucket>>(),
            buckets: OnceLock::new(),
            since: AtomicU64::new(0),
        }
    }

    /// Returns the bytes that are reserved for it.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the slot of a key of a leaf, which is valid unless the leaf has another stamp by
    /// now.
    pub fn get(&self, leaf: GlobalAddress, key: &[u8], now: Duration) -> Option<OverwriteHint> {
        self.begin_period(now);
        let buckets = self.buckets.get()?;
        let (leaf, key) = (leaf.to_bits(), number(key)?);
        let mut bucket = bucket(buckets, leaf, key).lock();
        let at = position(&bucket, leaf, key)?;
        // The first place is the one used last, so the last one is replaced.
        bucket[..=at].rotate_right(1);
        let rest = bucket[0].rest;
        // An empty place looks like a hint for key 0 of leaf 0.
        (rest != 0).then_some(OverwriteHint {
            slot: (rest & ((1 << SLOT_BITS) - 1)) as usize,
            stamp: rest >> SLOT_BITS,
        })
    }

    /// Remembers that a key is in a slot of a leaf whose lock word has this stamp.
    pub fn put(&self, leaf: GlobalAddress, key: &[u8], known: OverwriteHint, now: Duration) {
        let Some(key) = number(key) else {
            return;
        };
        let count = self.bytes / size_of::<Mutex<Bucket>>();
        if known.stamp == 0 || count == 0 {
            return;
        }
        self.begin_period(now);
        let buckets = self
            .buckets
            .get_or_init(|| (0..count).map(|_| Mutex::default()).collect());
        let leaf = leaf.to_bits();
        let mut bucket = bucket(buckets, leaf, key).lock();
        // A key has one hint in its bucket, or an old one might be found later.
        let at = position(&bucket, leaf, key).unwrap_or(WAYS - 1);
        bucket[..=at].rotate_right(1);
        debug_assert!(known.slot >> SLOT_BITS == 0 && known.stamp >> (u64::BITS - SLOT_BITS) == 0);
        let rest = known.stamp << SLOT_BITS | known.slot as u64;
        bucket[0] = OverwriteHintSlot { leaf, key, rest };
    }

    /// Forgets all hints if a period has ended.
    fn begin_period(&self, now: Duration) {
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let since = self.since.load(Relaxed);
        let is_over = now.saturating_sub(since) >= PERIOD.as_nanos() as u64;
        if is_over
            && self
                .since
                .compare_exchange(since, now, Relaxed, Relaxed)
                .is_ok()
        {
            // One thread clears the table. Until it has reached a bucket, others may use hints
            // there that are hardly older than a period.
            for bucket in self.buckets.get().into_iter().flatten() {
                *bucket.lock() = Bucket::default();
            }
        }
    }
}

/// Returns a key as a number, if it is short; all keys of an index have the same length.
fn number(key: &[u8]) -> Option<u64> {
    let mut bytes = [0; KEY_BYTES];
    bytes.get_mut(..key.len())?.copy_from_slice(key);
    Some(u64::from_le_bytes(bytes))
}

fn position(bucket: &Bucket, leaf: u64, key: u64) -> Option<usize> {
    bucket
        .iter()
        .position(|place| (place.leaf, place.key) == (leaf, key))
}

fn bucket(buckets: &[Mutex<Bucket>], leaf: u64, key: u64) -> &Mutex<Bucket> {
    let hash = (leaf ^ key.rotate_left(32))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    // The upper bits of a product depend on all bits of the factors, so they select the bucket.
    &buckets[((u128::from(hash) * buckets.len() as u128) >> 64) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_fabric::NodeId;

    fn leaf(number: u64) -> GlobalAddress {
        GlobalAddress::new(NodeId(1), number * 64)
    }

    const NOW: Duration = Duration::from_millis(10);

    #[test]
    fn a_place_is_known_until_the_period_is_over() {
        let overwrite_hints = OverwriteHints::with_bytes(1 << 12);
        assert!(overwrite_hints.bytes() <= 1 << 12);
        let known = OverwriteHint { slot: 63, stamp: 9 };
        overwrite_hints.put(leaf(1), b"some key", known, NOW);
        assert_eq!(overwrite_hints.get(leaf(1), b"some key", NOW), Some(known));
        assert_eq!(overwrite_hints.get(leaf(2), b"some key", NOW), None);
        assert_eq!(overwrite_hints.get(leaf(1), b"same key", NOW), None);
        let another = OverwriteHint { slot: 1, stamp: 10 };
        overwrite_hints.put(leaf(1), b"some key", another, NOW);
        assert_eq!(
            overwrite_hints.get(leaf(1), b"some key", NOW),
            Some(another)
        );
        assert_eq!(
            overwrite_hints.get(leaf(1), b"some key", NOW + PERIOD),
            None
        );
    }

    #[test]
    fn what_cannot_be_told_apart_is_not_remembered() {
        let overwrite_hints = OverwriteHints::with_bytes(1 << 12);
        let known = OverwriteHint { slot: 0, stamp: 1 };
        overwrite_hints.put(leaf(1), b"a long key", known, NOW);
        assert_eq!(overwrite_hints.get(leaf(1), b"a long key", NOW), None);
        let unstamped = OverwriteHint { stamp: 0, ..known };
        overwrite_hints.put(leaf(1), b"key", unstamped, NOW);
        assert_eq!(overwrite_hints.get(leaf(1), b"key", NOW), None);
        let none = OverwriteHints::with_bytes(100);
        none.put(leaf(1), b"key", known, NOW);
        assert_eq!((none.bytes(), none.get(leaf(1), b"key", NOW)), (0, None));
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let overwrite_hints = OverwriteHints::with_bytes(size_of::<Mutex<Bucket>>());
        let known = |slot| OverwriteHint { slot, stamp: 5 };
        for slot in 0..WAYS {
            overwrite_hints.put(leaf(1), &[slot as u8], known(slot), NOW);
        }
        assert_eq!(overwrite_hints.get(leaf(1), &[0], NOW), Some(known(0)));
        overwrite_hints.put(leaf(1), &[99], known(99), NOW);
        assert_eq!(overwrite_hints.get(leaf(1), &[0], NOW), Some(known(0)));
        assert_eq!(overwrite_hints.get(leaf(1), &[1], NOW), None);
    }
}
