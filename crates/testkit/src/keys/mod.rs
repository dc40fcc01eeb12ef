//! Small key sets for tests, the same for the same seed.
//!
//! Each kind of keys is chosen for a shape that an index can get wrong: keys that are prefixes of
//! each other, the ends of the key space, prefixes that end just before or after a multiple of
//! eight bytes.
//!
//! ```
//! use nearfield_core::ByteStrings;
//! use nearfield_testkit::keys::{self, ByteKeys, SampleForm};
//!
//! let keys = ByteStrings::keys(ByteKeys::Prefixes, 100, &mut keys::random(7));
//! assert_eq!(keys.len(), 100);
//! ```

mod bytes;
mod words;

pub use bytes::ByteKeys;
pub use words::WordKeys;

use nearfield_core::EntryForm;
use rand::SeedableRng;
use rand::seq::IndexedRandom;
use std::collections::BTreeSet;
use std::fmt::Debug;

/// The generator of everything random in this crate: small, fast, and with the same output on all
/// machines.
pub type Random = rand::rngs::Xoshiro256PlusPlus;

/// Returns a generator that begins with `seed`.
pub fn random(seed: u64) -> Random {
    Random::seed_from_u64(seed)
}

/// A form of entries that tests can generate, simplify and print.
///
/// A *sealed* value contains a number with check bits, so that a value put together from two others
/// does not open.
pub trait SampleForm: EntryForm + Eq {
    /// The type of the kinds of key sets.
    type Kind: Copy + Debug + Send + Sync + 'static;
    /// All kinds of key sets.
    const KINDS: &'static [Self::Kind];

    /// Generates distinct keys, in no order: `count` of them, or fewer where the kind has fewer.
    fn keys(kind: Self::Kind, count: usize, random: &mut Random) -> Vec<Self::OwnedKey>;
    /// Returns a key close to `key` in the order or in shape, perhaps `key` itself.
    fn near(key: Self::Key<'_>, random: &mut Random) -> Self::OwnedKey;
    /// Returns a key that every index refuses, where the form has such keys.
    fn oversized_key(random: &mut Random) -> Option<Self::OwnedKey>;
    /// Generates a value.
    fn any_value(random: &mut Random) -> Self::OwnedValue;

    /// Returns the length of a key in bytes.
    fn key_bytes(key: Self::Key<'_>) -> usize;
    /// Returns the length of a value in bytes.
    fn value_bytes(value: Self::Value<'_>) -> usize;

    /// Returns the sealed value of a number below 2⁴⁰.
    fn seal(number: u64) -> Self::OwnedValue;
    /// Returns the number of a sealed value, or `None` if the value is not one.
    fn open(value: Self::Value<'_>) -> Option<u64>;

    /// Returns simpler keys to try in place of `key` while shrinking. `rank` is the position of the
    /// key among those in use.
    fn simpler_keys(key: &Self::OwnedKey, rank: usize) -> Vec<Self::OwnedKey>;
    /// Returns simpler values, as [`simpler_keys`](SampleForm::simpler_keys) does.
    fn simpler_values(value: &Self::OwnedValue, rank: usize) -> Vec<Self::OwnedValue>;
    /// Returns a key as Rust source.
    fn show_key(key: Self::Key<'_>) -> String;
    /// Returns a value as Rust source.
    fn show_value(value: Self::Value<'_>) -> String;
}

/// Returns one of some choices.
pub(crate) fn choose<'a, T>(choices: &'a [T], random: &mut Random) -> &'a T {
    choices.choose(random).expect("there are choices")
}

/// Calls `draw` until it has returned `count` distinct keys or seems to have no more.
fn distinct<K: Ord + Clone>(count: usize, mut draw: impl FnMut() -> K) -> Vec<K> {
    let mut seen = BTreeSet::new();
    let mut keys = Vec::with_capacity(count);
    // A kind may have fewer keys than are asked for, which only many repetitions show.
    for _ in 0..count * 4 {
        if keys.len() == count {
            break;
        }
        let key = draw();
        if seen.insert(key.clone()) {
            keys.push(key);
        }
    }
    keys
}

const SEAL_BITS: u32 = 24;

/// Appends check bits to a number below 2⁴⁰.
fn seal_word(number: u64) -> u64 {
    assert!(
        number >> (64 - SEAL_BITS) == 0,
        "{number} is too great to seal"
    );
    number << SEAL_BITS | scramble(number) >> (64 - SEAL_BITS)
}

fn open_word(word: u64) -> Option<u64> {
    // Any 40 bits are a number, so the check bits alone decide.
    let number = word >> SEAL_BITS;
    (seal_word(number) == word).then_some(number)
}

/// Spreads the bits of a number (the finisher of MurmurHash3).
fn scramble(number: u64) -> u64 {
    let mut bits = number ^ 0x9e37_79b9_7f4a_7c15;
    bits = (bits ^ bits >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits = (bits ^ bits >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ bits >> 33
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_core::{ByteStrings, Words};

    fn keys_are_distinct_and_repeatable<F: SampleForm>() {
        for &kind in F::KINDS {
            let keys = F::keys(kind, 100, &mut random(7));
            assert_eq!(keys, F::keys(kind, 100, &mut random(7)));
            assert!(!keys.is_empty(), "{kind:?} has no keys");
            assert_eq!(keys.len(), keys.iter().collect::<BTreeSet<_>>().len());
            for key in &keys {
                assert!(F::key_bytes(F::key(key)) <= nearfield_core::MAX_KEY_BYTES);
            }
        }
    }

    #[test]
    fn keys_are_distinct_and_repeatable_in_both_forms() {
        keys_are_distinct_and_repeatable::<Words>();
        keys_are_distinct_and_repeatable::<ByteStrings>();
    }

    #[test]
    fn a_sealed_value_opens_and_a_torn_one_does_not() {
        for number in (0..5000).chain([(1 << 40) - 1]) {
            assert_eq!(Words::open(Words::seal(number)), Some(number));
            assert_eq!(Words::open(Words::seal(number) ^ 1 << 30), None);
            let mut sealed = ByteStrings::seal(number);
            assert_eq!(ByteStrings::open(&sealed), Some(number));
            let end = sealed.len() - 1;
            assert_eq!(ByteStrings::open(&sealed[..end]), None);
            sealed[end] ^= 1;
            assert_eq!(ByteStrings::open(&sealed), None);
        }
    }
}
