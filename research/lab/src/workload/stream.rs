//! Streams of operations, made before the clock starts.

use std::num::NonZero;
use std::ops::Range;
use std::thread::{self, available_parallelism};

use rand::RngExt;

use super::distribution::{SampledKey, Sampler};
use super::{Distribution, Mix, MixShares, Random, random};
use crate::error::{LabError, check_range};
use crate::memory::check_available;

/// One operation; the numbers are positions in the key set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A lookup of a key that is in the index.
    Read(usize),
    /// An update of the value of a key that is in the index.
    Update(usize),
    /// An insertion of a key that was held out of the load.
    Insert(usize),
    /// A scan of 1 to 100 keys in order: the position of the first key, which is in the index, and
    /// their number.
    Scan(usize, usize),
    /// A lookup of a key that is in the index, followed by an update of its value.
    ReadModifyWrite(usize),
}

/// Longest scan of YCSB's workload E.
const SCAN_LENGTH_MAX: u64 = 100;

/// The most threads: more than any machine has cores.
const THREADS_MAX: usize = 1 << 16;

/// The parameters of streams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamSpec {
    /// The mix of operations.
    pub mix: Mix,
    /// The distribution of the keys; `None` for that of the mix's authors.
    pub distribution: Option<Distribution>,
    /// Number of keys of the whole set, including those that will be inserted.
    pub keys: usize,
    /// Number of threads, each with a stream of its own.
    pub threads: usize,
    /// Number of operations of all threads together.
    pub operations: usize,
    /// The seed of everything random except the choice of hot keys.
    pub seed: u64,
    /// The seed of the choice of hot keys: streams with equal seeds and equal numbers of loaded
    /// keys have the same hot keys.
    pub hot_seed: u64,
}

/// The streams of one run: the keys to load, and each thread's operations after that.
///
/// The first [`loaded`](Self::loaded) keys of the set are in the index before the streams start.
/// Exactly as many are held out as the streams insert, each by one thread and once; a thread's
/// insertions are neighbours in the set and in its order. Streams name only keys that were loaded
/// or that the same thread inserted before, so every read must hit, regardless of the threads'
/// speeds. A second run of a stream with insertions finds the keys there already: start it on a
/// fresh load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Streams {
    loaded: usize,
    threads: Vec<OpStream>,
}

impl Streams {
    /// Returns the number of keys to load, from the first on.
    #[must_use]
    pub fn loaded(&self) -> usize {
        self.loaded
    }

    /// Returns one stream a thread; their lengths differ by at most one.
    #[must_use]
    pub fn threads(&self) -> &[OpStream] {
        &self.threads
    }
}

impl StreamSpec {
    /// Returns the distribution, with its default applied.
    #[must_use]
    pub fn distribution(&self) -> Distribution {
        self.distribution
            .unwrap_or_else(|| self.mix.distribution_default())
    }

    /// Returns the number of keys that the streams insert, which are held out of the load.
    #[must_use]
    pub fn inserts(&self) -> usize {
        (0..self.threads)
            .map(|thread| self.inserts_of(thread))
            .sum()
    }

    /// Generates the streams: 8 bytes and 20 to 200 ns an operation, on all cores.
    ///
    /// # Errors
    /// `OutOfRange` for no keys, threads or operations, over 65,536 threads, or a skew that does
    /// not exist; `TooFewKeys` if the mix inserts more than may be held out (all keys for `load`,
    /// half otherwise); `OutOfMemory` if the streams would take more than is available.
    pub fn generate(&self) -> Result<Streams, LabError> {
        self.check()?;
        let inserts: Vec<usize> = (0..self.threads)
            .map(|thread| self.inserts_of(thread))
            .collect();
        let held_out: usize = inserts.iter().sum();
        self.check_held_out(held_out as u64)?;
        let loaded = self.keys - held_out;
        let mut first_insert = loaded;
        let mut plans = Vec::with_capacity(self.threads);
        for (thread, &inserts) in inserts.iter().enumerate() {
            // A distribution needs a key to choose. `load` begins without any.
            let sampler = match loaded {
                0 => None,
                _ => Some(self.distribution().sampler(
                    loaded as u64,
                    inserts as u64,
                    self.hot_seed,
                )?),
            };
            plans.push(ThreadPlan {
                spec: self,
                thread,
                sampler,
                first_insert,
            });
            first_insert += inserts;
        }
        debug_assert_eq!(first_insert, self.keys, "each held-out key has one thread");
        let threads = generate_all(&plans);
        debug_assert_eq!(threads.len(), self.threads);
        Ok(Streams { loaded, threads })
    }

    fn check(&self) -> Result<(), LabError> {
        let counts = [
            ("keys", self.keys, usize::MAX),
            ("threads", self.threads, THREADS_MAX),
            ("operations", self.operations, usize::MAX),
        ];
        for (subject, count, max) in counts {
            check_range(subject, count as u64, 1..=max as u64)?;
        }
        let need = (self.operations as u64).saturating_mul(size_of::<u64>() as u64);
        check_available(
            || format!("{} pre-generated operations", self.operations),
            need,
        )
    }

    fn check_held_out(&self, inserts: u64) -> Result<(), LabError> {
        let inserts_max = self.mix.inserts_max(self.keys as u64);
        if inserts <= inserts_max {
            return Ok(());
        }
        Err(LabError::TooFewKeys {
            mix: self.mix.name(),
            operations: self.operations as u64,
            inserts,
            keys: self.keys as u64,
            inserts_max,
        })
    }

    /// Returns the number of operations of one thread.
    fn operations_of(&self, thread: usize) -> usize {
        let remainder = usize::from(thread < self.operations % self.threads);
        self.operations / self.threads + remainder
    }

    /// Returns the number of insertions of one thread, by replaying its kinds.
    fn inserts_of(&self, thread: usize) -> usize {
        // Most mixes need no replay of their kinds.
        match self.mix.shares().insert {
            0 => 0,
            100 => self.operations_of(thread),
            _ => self
                .kinds_of(thread)
                .filter(|kind| *kind == MixOperationKind::Insert)
                .count(),
        }
    }

    /// Draws the kinds of one thread's operations.
    fn kinds_of(&self, thread: usize) -> impl Iterator<Item = MixOperationKind> + use<> {
        let shares = self.mix.shares();
        // Kinds have a generator apart from that of the keys, so that `inserts_of` can replay them.
        // Even purposes are for kinds and odd ones for keys.
        let mut random = random(self.seed, 2 * thread as u64);
        std::iter::repeat_with(move || {
            MixOperationKind::of_percentile(shares, random.random_range(0..100))
        })
        .take(self.operations_of(thread))
    }
}

/// Generates the streams of `plans` in order, with one thread for each core.
fn generate_all(plans: &[ThreadPlan<'_>]) -> Vec<OpStream> {
    let cores = available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let workers: Vec<_> = plans
            .chunks(plans.len().div_ceil(cores))
            .map(|part| scope.spawn(move || part.iter().map(ThreadPlan::generate).collect()))
            .collect();
        // Joined in the order of the chunks, which is that of the threads.
        let parts = workers.into_iter().map(|worker| -> Vec<OpStream> {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        parts.flatten().collect()
    })
}

/// The inputs of one thread's stream.
struct ThreadPlan<'a> {
    spec: &'a StreamSpec,
    thread: usize,
    /// The sampler; `None` if no key is loaded, hence none is ever chosen.
    sampler: Option<Sampler>,
    /// Position of the thread's first insertion.
    first_insert: usize,
}

impl ThreadPlan<'_> {
    fn generate(&self) -> OpStream {
        let mut random = random(self.spec.seed, 2 * self.thread as u64 + 1);
        let mut inserted = 0;
        let mut packed = Vec::with_capacity(self.spec.operations_of(self.thread));
        for kind in self.spec.kinds_of(self.thread) {
            let position = match (kind, &self.sampler) {
                (MixOperationKind::Insert, _) | (_, None) => {
                    debug_assert_eq!(kind, MixOperationKind::Insert, "others need a loaded key");
                    inserted += 1;
                    self.first_insert + inserted - 1
                }
                (_, Some(sampler)) => self.chosen(sampler, inserted, &mut random),
            };
            let length = match kind {
                MixOperationKind::Scan => random.random_range(1..=SCAN_LENGTH_MAX),
                _ => 0,
            };
            packed.push(pack(kind, length, position));
        }
        debug_assert_eq!(packed.len(), self.spec.operations_of(self.thread));
        OpStream { packed }
    }

    fn chosen(&self, sampler: &Sampler, inserted: usize, random: &mut Random) -> usize {
        match sampler.sample(inserted as u64, random) {
            SampledKey::Loaded(position) => {
                debug_assert!((position as usize) < self.first_insert);
                position as usize
            }
            SampledKey::Inserted(position) => {
                debug_assert!(
                    (position as usize) < inserted,
                    "other threads' keys may not exist"
                );
                self.first_insert + position as usize
            }
        }
    }
}

/// The operations of one thread, 8 bytes each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpStream {
    /// The packed operations. From the top: 3 bits kind, 7 bits length of a scan, 54 bits position.
    packed: Vec<u64>,
}

const POSITION_BITS: u32 = 54;
const LENGTH_BITS: u32 = 7;
const _: () = assert!(SCAN_LENGTH_MAX < 1 << LENGTH_BITS);

impl OpStream {
    /// Creates the stream of [`words`](Self::words).
    pub(crate) fn of_words(packed: Vec<u64>) -> OpStream {
        OpStream { packed }
    }

    /// Returns the operations, packed, for another process.
    pub(crate) fn words(&self) -> &[u64] {
        &self.packed
    }

    /// Returns the number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packed.len()
    }

    /// Returns true if there is no operation, because there are more threads than operations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// Returns the operation at `index`.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[must_use]
    #[inline]
    pub fn get(&self, index: usize) -> Op {
        unpack(self.packed[index])
    }

    /// Returns the operations in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Op> + '_ {
        self.range(0..self.len())
    }

    /// Returns the operations at `range` in order.
    ///
    /// # Panics
    /// If the range ends beyond [`len`](Self::len).
    #[inline]
    pub fn range(&self, range: Range<usize>) -> impl ExactSizeIterator<Item = Op> + '_ {
        self.packed[range].iter().map(|&word| unpack(word))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MixOperationKind {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

impl MixOperationKind {
    /// Returns the kind that a mix with these shares assigns to a number from 0 to 99.
    fn of_percentile(shares: MixShares, percentile: u32) -> MixOperationKind {
        debug_assert!(percentile < 100);
        let mut end = 0;
        let cuts = [
            (MixOperationKind::Read, shares.read),
            (MixOperationKind::Update, shares.update),
            (MixOperationKind::Insert, shares.insert),
            (MixOperationKind::Scan, shares.scan),
        ];
        for (kind, share) in cuts {
            end += share;
            if percentile < end {
                return kind;
            }
        }
        MixOperationKind::ReadModifyWrite
    }
}

fn pack(kind: MixOperationKind, length: u64, position: usize) -> u64 {
    debug_assert!((position as u64) < 1 << POSITION_BITS);
    debug_assert!(length < 1 << LENGTH_BITS);
    ((kind as u64) << (LENGTH_BITS + POSITION_BITS)) | (length << POSITION_BITS) | position as u64
}

#[inline]
fn unpack(word: u64) -> Op {
    let position = (word & ((1 << POSITION_BITS) - 1)) as usize;
    match word >> (LENGTH_BITS + POSITION_BITS) {
        0 => Op::Read(position),
        1 => Op::Update(position),
        2 => Op::Insert(position),
        3 => Op::Scan(
            position,
            (word >> POSITION_BITS) as usize & ((1 << LENGTH_BITS) - 1),
        ),
        _ => Op::ReadModifyWrite(position),
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
