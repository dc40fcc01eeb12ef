//! The part of a walk that the techniques save, in the terms of the DCART paper (Fig. 7 and 8). The
//! counts of one thread are the same in every run.

use nearfield_core::{Batch, ByteStrings, OrderedIndex, Words};
use nearfield_radix::{EngineOptions, RadixCounters, RadixForm, RadixIndex};
use std::sync::{Mutex, PoisonError};

const KEYS: usize = 140_000;
const OPERATIONS: usize = 65_536;
const SHORTCUT_BYTES: usize = 4 << 20;
const WARM_UP: usize = 8;
const COUNTED: usize = 2;

/// The maximum percentage of the baseline's.
const PARTIAL_KEY_MATCHES_PERCENT_MAX: u64 = 16;
const LOCK_ACQUISITIONS_PERCENT_MAX: u64 = 20;

/// A sequence of numbers without visible order: splitmix64.
struct SplitMixSequence(u64);

impl SplitMixSequence {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// Returns a number from 0 to 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Returns the starts of address ranges, in a tree of about 7,000 inner nodes like that of the
/// public lists: a few first bytes have most of them, some /16 have most of their /24 and others
/// few, and some /24 are divided further.
fn addresses() -> Vec<u32> {
    let mut random = SplitMixSequence(1);
    let mut addresses = std::collections::BTreeSet::new();
    while addresses.len() < KEYS {
        let first = (256.0 * random.fraction().powi(3)) as u32 * 167 % 256;
        let second = random.next() as u32 % 256;
        let filled = 0.55 * random.fraction().powi(3);
        for third in 0..256 {
            if random.fraction() > filled {
                continue;
            }
            let start = first << 24 | second << 16 | third << 8;
            addresses.insert(start);
            if random.next().is_multiple_of(60) {
                addresses.insert(start | 128);
            }
        }
    }
    addresses.into_iter().take(KEYS).collect()
}

#[derive(Clone, Copy, Debug)]
enum AddressDistribution {
    Uniform,
    /// Half of the operations are on 374 keys, the root of the number of keys: about Zipf's law.
    Skewed,
}

impl AddressDistribution {
    fn choose(self, random: &mut SplitMixSequence) -> usize {
        let fraction = random.fraction();
        match self {
            AddressDistribution::Uniform => (fraction * KEYS as f64) as usize,
            // The rank is log-uniform; the assignment of keys to ranks is scattered.
            AddressDistribution::Skewed => (KEYS as f64).powf(fraction) as usize * 7919 % KEYS,
        }
    }
}

/// The keys and values of a form.
trait AddressForm: RadixForm {
    fn with<R>(address: u32, use_it: impl FnOnce(Self::Key<'_>) -> R) -> R;
    fn sample_value(number: &u64) -> Self::Value<'_>;
}

impl AddressForm for Words {
    fn with<R>(address: u32, use_it: impl FnOnce(u64) -> R) -> R {
        use_it(u64::from(address) << 32)
    }
    fn sample_value(number: &u64) -> u64 {
        *number
    }
}

impl AddressForm for ByteStrings {
    fn with<R>(address: u32, use_it: impl FnOnce(&[u8]) -> R) -> R {
        use_it(&address.to_be_bytes())
    }
    fn sample_value(number: &u64) -> &[u8] {
        // Long enough to distinguish writes, by their lowest bit.
        if number.is_multiple_of(2) {
            b"even    "
        } else {
            b"odd     "
        }
    }
}

/// Returns the counts of batches after a warm-up, under some options.
fn count<F: AddressForm>(
    addresses: &[u32],
    choice: AddressDistribution,
    options: EngineOptions,
) -> RadixCounters {
    let index = RadixIndex::<F>::new().expect("address space");
    for address in addresses {
        F::with(*address, |key| index.insert(key, F::sample_value(&0))).expect("insert");
    }
    index.set_options(options);
    let mut random = SplitMixSequence(2);
    let mut counters = RadixCounters::default();
    for round in 0..WARM_UP + COUNTED {
        let mut batch = Batch::<F>::new();
        for _ in 0..OPERATIONS {
            let address = addresses[choice.choose(&mut random)];
            let number = random.next() >> 32;
            F::with(address, |key| match number % 2 {
                0 => batch.get(key),
                _ => batch.insert(key, F::sample_value(&(number / 2))),
            });
        }
        let mut counted = RadixCounters::default();
        index
            .execute_counted(&mut batch, &mut counted)
            .expect("batch");
        if round == WARM_UP - 1 {
            counters = RadixCounters::default();
        } else {
            counters = sum(counters, counted);
        }
    }
    assert_eq!(index.len(), KEYS);
    index.check_invariants();
    counters
}

/// Adds the counters that the test compares.
fn sum(a: RadixCounters, b: RadixCounters) -> RadixCounters {
    RadixCounters {
        partial_key_matches: a.partial_key_matches + b.partial_key_matches,
        lock_acquisitions: a.lock_acquisitions + b.lock_acquisitions,
        shortcut_hits: a.shortcut_hits + b.shortcut_hits,
        shortcut_misses: a.shortcut_misses + b.shortcut_misses,
        ..RadixCounters::default()
    }
}

/// The lock by which tests take turns. Blocks are freed once no thread of the process may be
/// reading them, so an index next to another one counts more: shortcuts to blocks that wait to be
/// freed lead nowhere.
static TURN: Mutex<()> = Mutex::new(());

fn data_centric_saves<F: AddressForm>(form: &str) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let addresses = addresses();
    for choice in [AddressDistribution::Uniform, AddressDistribution::Skewed] {
        let baseline = count::<F>(&addresses, choice, EngineOptions::operation_centric());
        let counters = count::<F>(
            &addresses,
            choice,
            EngineOptions::data_centric(SHORTCUT_BYTES),
        );
        let matches = counters.partial_key_matches * 100 / baseline.partial_key_matches;
        let locks = counters.lock_acquisitions * 100 / baseline.lock_acquisitions;
        let probes = counters.shortcut_hits + counters.shortcut_misses;
        println!(
            "{form}, {choice:?}: {matches} % of the partial key matches, {locks} % of the lock \
             acquisitions, {} % of the lookups hit",
            counters.shortcut_hits * 100 / probes
        );
        println!("  {baseline:?}\n  {counters:?}");
        assert!(matches <= PARTIAL_KEY_MATCHES_PERCENT_MAX, "{matches} %");
        assert!(locks <= LOCK_ACQUISITIONS_PERCENT_MAX, "{locks} %");
    }
}

#[test]
fn data_centric_saves_walks_and_locks_of_words() {
    data_centric_saves::<Words>("words");
}

#[test]
fn data_centric_saves_walks_and_locks_of_bytes() {
    data_centric_saves::<ByteStrings>("bytes");
}
