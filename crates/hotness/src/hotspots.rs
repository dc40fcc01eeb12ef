//! The last known positions of hot entries, so that a client can read an entry alone.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Number of entries that share a bucket.
const WAYS: usize = 16;
/// Number of admissions that are skipped after one has evicted another entry, so that rare keys do
/// not evict frequent ones.
const PASSED_OVER: u32 = 10;

/// Guesses of the slot of a node that holds a key, from its former slots: CHIME's hotspot buffer
/// (SOSP'24, section 4.4). A wrong guess costs an access; a guess never proves that a key is
/// absent.
///
/// 16 bytes for each entry: the node, the slot, 16 bits of the key and the number of right guesses.
/// Threads use it at once; concurrent changes of one entry may be lost or mixed, which makes a
/// wrong guess.
///
/// The paper evicts the least frequent entry of two random buckets. Here it is that of the new
/// entry's bucket. Keys of one node and tag share a bucket, so that a guess searches one bucket and
/// not one for each slot.
///
/// ```
/// use nearfield_hotness::Hotspots;
///
/// let hotspots = Hotspots::with_bytes(1 << 16);
/// let (node, slot, tag) = (0x1000, 17, 0xabcd);
/// let slots = |slot| (12..20).contains(&slot);
/// assert_eq!(hotspots.guess(node, slots, tag), None);
/// hotspots.admit(node, slot, tag);
/// assert_eq!(hotspots.guess(node, slots, tag), Some(17));
/// hotspots.confirm(node, slot, tag);
/// assert_eq!(hotspots.guesses(), [1, 0]);
/// ```
#[derive(Debug)]
pub struct Hotspots {
    entries: Box<[HotspotEntry]>,
    /// Number of admissions that are still to be skipped.
    passing_over: AtomicU32,
    right: AtomicU64,
    wrong: AtomicU64,
}

/// A known position; empty if its frequency is 0.
#[derive(Debug, Default)]
struct HotspotEntry {
    node: AtomicU64,
    /// The slot, tag and frequency, from the highest bits down: 16, 16 and 32.
    rest: AtomicU64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct HotspotFields {
    slot: u16,
    tag: u16,
    frequency: u32,
}

impl HotspotFields {
    fn unpack(word: u64) -> HotspotFields {
        HotspotFields {
            slot: (word >> 48) as u16,
            tag: (word >> 32) as u16,
            frequency: word as u32,
        }
    }

    fn pack(self) -> u64 {
        u64::from(self.slot) << 48 | u64::from(self.tag) << 32 | u64::from(self.frequency)
    }
}

impl Hotspots {
    /// Creates an empty buffer of at most `bytes`; with less than 256 it never guesses.
    pub fn with_bytes(bytes: usize) -> Hotspots {
        let buckets = bytes / (WAYS * size_of::<HotspotEntry>());
        Hotspots {
            entries: (0..buckets * WAYS)
                .map(|_| HotspotEntry::default())
                .collect(),
            passing_over: AtomicU32::new(0),
            right: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
        }
    }

    /// Returns the bytes of the buffer.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.entries)
    }

    /// Copies the entries of another buffer of this length; does nothing for one of another length.
    pub fn learn_from(&self, other: &Hotspots) {
        if self.entries.len() != other.entries.len() {
            return;
        }
        for (mine, theirs) in self.entries.iter().zip(&other.entries) {
            mine.node.store(theirs.node.load(Relaxed), Relaxed);
            mine.rest.store(theirs.rest.load(Relaxed), Relaxed);
        }
    }

    fn bucket(&self, node: u64, tag: u16) -> &[HotspotEntry] {
        let buckets = self.entries.len() / WAYS;
        if buckets == 0 {
            return &[];
        }
        // Nodes begin at lines, so node and tag bits do not overlap.
        let hash = (node.rotate_left(16) ^ u64::from(tag))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9);
        // The high half of the product distributes as well as a remainder, and is faster.
        let bucket = ((u128::from(hash) * buckets as u128) >> 64) as usize;
        self.entries
            .get(bucket * WAYS..(bucket + 1) * WAYS)
            .unwrap_or_default()
    }

    /// Returns the entry of a slot with the tag, and its content.
    fn find(&self, node: u64, slot: u16, tag: u16) -> Option<(&HotspotEntry, HotspotFields)> {
        self.bucket(node, tag).iter().find_map(|entry| {
            let rest = HotspotFields::unpack(entry.rest.load(Relaxed));
            let is = rest.frequency > 0
                && (rest.slot, rest.tag) == (slot, tag)
                && entry.node.load(Relaxed) == node;
            is.then_some((entry, rest))
        })
    }

    /// Returns the slot, of those that `may_be`, in which a key of this tag was found most often;
    /// `None` if there is none. Constant.
    pub fn guess(&self, node: u64, may_be: impl Fn(u16) -> bool, tag: u16) -> Option<u16> {
        let known = self.bucket(node, tag).iter().filter_map(|entry| {
            let rest = HotspotFields::unpack(entry.rest.load(Relaxed));
            let is = rest.frequency > 0
                && rest.tag == tag
                && may_be(rest.slot)
                && entry.node.load(Relaxed) == node;
            is.then_some(rest)
        });
        let best = known.max_by_key(|rest| rest.frequency);
        best.map(|rest| rest.slot)
    }

    /// Returns the number of guesses so far that were right, and of those that were wrong.
    pub fn guesses(&self) -> [u64; 2] {
        [self.right.load(Relaxed), self.wrong.load(Relaxed)]
    }

    /// Notes that a guess was right.
    pub fn confirm(&self, node: u64, slot: u16, tag: u16) {
        self.right.fetch_add(1, Relaxed);
        if let Some((entry, rest)) = self.find(node, slot, tag) {
            let frequency = rest.frequency.saturating_add(1);
            entry
                .rest
                .store(HotspotFields { frequency, ..rest }.pack(), Relaxed);
        }
    }

    /// Notes that a guess was wrong: the key is no longer there.
    pub fn forget(&self, node: u64, slot: u16, tag: u16) {
        self.wrong.fetch_add(1, Relaxed);
        // Emptied however frequent it was, because the key has moved.
        if let Some((entry, _)) = self.find(node, slot, tag) {
            entry.rest.store(0, Relaxed);
        }
    }

    /// Notes the slot of a key that was found without a guess. It may be skipped.
    pub fn admit(&self, node: u64, slot: u16, tag: u16) {
        if self.find(node, slot, tag).is_some() {
            // Another thread has admitted it, or the guess was another slot of the tag.
            return;
        }
        let bucket = self.bucket(node, tag);
        let frequency =
            |entry: &&HotspotEntry| HotspotFields::unpack(entry.rest.load(Relaxed)).frequency;
        // From the new entry's bucket, so that no directory is needed besides the entries.
        let Some(entry) = bucket.iter().min_by_key(frequency) else {
            return;
        };
        if frequency(&entry) > 0 {
            let passing = self.passing_over.load(Relaxed);
            if passing > 0 {
                self.passing_over.store(passing - 1, Relaxed);
                return;
            }
            self.passing_over.store(PASSED_OVER, Relaxed);
        }
        let rest = HotspotFields {
            slot,
            tag,
            frequency: 1,
        };
        // The entry is empty in between, so that it never combines the new slot with the former
        // node.
        entry.rest.store(0, Relaxed);
        entry.node.store(node, Relaxed);
        entry.rest.store(rest.pack(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn entries_take_sixteen_bytes_and_no_more_than_was_given() {
        assert_eq!(size_of::<HotspotEntry>(), 16);
        assert_eq!(Hotspots::with_bytes(30 << 20).bytes(), 30 << 20);
        assert!(Hotspots::with_bytes(1000).bytes() <= 1000);
        let none = Hotspots::with_bytes(100);
        none.admit(1, 2, 3);
        assert_eq!((none.bytes(), none.guess(1, |_| true, 3)), (0, None));
    }

    #[test]
    fn what_another_knows_is_taken_over_where_it_fits() {
        let (one, other) = (Hotspots::with_bytes(1 << 12), Hotspots::with_bytes(1 << 12));
        one.admit(64, 3, 9);
        one.confirm(64, 3, 9);
        other.learn_from(&one);
        assert_eq!(other.guess(64, |slot| slot < 8, 9), Some(3));
        assert_eq!(other.guesses(), [0, 0]);
        let small = Hotspots::with_bytes(1 << 11);
        small.learn_from(&one);
        assert_eq!(small.guess(64, |slot| slot < 8, 9), None);
    }

    #[test]
    fn the_most_frequent_of_several_is_guessed() {
        let hotspots = Hotspots::with_bytes(1 << 12);
        // Two keys of one tag, in the same node.
        hotspots.admit(64, 3, 9);
        hotspots.admit(64, 5, 9);
        hotspots.confirm(64, 5, 9);
        assert_eq!(hotspots.guess(64, |slot| slot < 8, 9), Some(5));
        assert_eq!(hotspots.guess(64, |slot| slot < 5, 9), Some(3));
        assert_eq!(hotspots.guess(64, |slot| slot < 8, 8), None);
        assert_eq!(hotspots.guess(128, |slot| slot < 8, 9), None);
        hotspots.forget(64, 5, 9);
        assert_eq!(hotspots.guess(64, |slot| slot < 8, 9), Some(3));
    }

    #[test]
    fn what_is_met_often_stays() {
        let hotspots = Hotspots::with_bytes(256 * 64);
        let random = &mut SmallRng::seed_from_u64(3);
        // There are ten times as many keys as entries, one in a hundred of them hot.
        let place = |key: u64| (key / 8 * 64, (key % 8) as u16, (key * 40_503) as u16);
        let (mut hits, mut asked) = (0, 0);
        for round in 0..400_000 {
            let hot = random.random_bool(0.7);
            let key = if hot {
                random.random_range(0..100)
            } else {
                random.random_range(0..10_000)
            };
            let (node, slot, tag) = place(key);
            let guess = hotspots.guess(node, |it| it == slot, tag);
            if round > 200_000 && key < 100 {
                asked += 1;
                hits += u32::from(guess.is_some());
            }
            match guess {
                Some(slot) => hotspots.confirm(node, slot, tag),
                None => hotspots.admit(node, slot, tag),
            }
        }
        assert!(
            f64::from(hits) > 0.98 * f64::from(asked),
            "{hits} of {asked}"
        );
    }

    #[test]
    fn threads_never_make_slots_that_were_not_admitted() {
        let hotspots = &Hotspots::with_bytes(1 << 10);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    let random = &mut SmallRng::seed_from_u64(thread);
                    for _ in 0..50_000 {
                        let node = random.random_range(0..40_u64);
                        let slot = random.random_range(0..16);
                        match hotspots.guess(node, |slot| slot < 16, 7) {
                            Some(found) if found == slot => hotspots.confirm(node, slot, 7),
                            Some(found) if found > slot => hotspots.forget(node, found, 7),
                            Some(found) => assert!(found < 16),
                            None => hotspots.admit(node, slot, 7),
                        }
                    }
                });
            }
        });
    }
}
