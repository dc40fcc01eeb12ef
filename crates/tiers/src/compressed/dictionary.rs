//! Dictionaries: the parts that values have in common, so that not every compressed block contains
//! them.
//!
//! A dictionary is trained on a sample of the values that are put. A new one is trained once four
//! times as many bytes were put, on a larger sample, because the values of a store change with time
//! and a larger dictionary makes blocks smaller. Blocks keep the dictionary that they were
//! compressed with, and ask to be put again with the newest one. A dictionary that no block needs
//! is freed.
//!
//! Training takes up to a few seconds, so a thread that puts values only adds to the sample. The
//! store trains on a thread of its own ([`Dictionaries::tend`]).

use super::block::{LEVEL, LEVEL_IN_HASTE};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use zstd::zstd_safe::{CDict, DDict};

/// Number of bytes of the largest dictionary. Measured at level 6 on 10 MB of JSON records: with
/// 256 KiB, blocks are 4 % larger.
const DICTIONARY_BYTES_MAX: usize = 512 << 10;
/// The part of its tier that a dictionary may use: one in this number. *Assumed*: prepared, a
/// dictionary uses a few times its bytes.
const DICTIONARY_PART_MAX: u64 = 128;
/// The ratio of a dictionary's sample to its bytes.
const SAMPLE_FACTOR: usize = 8;
/// Number of bytes of the sample from which the first dictionary is trained.
const FIRST_SAMPLE_BYTES: usize = 256 << 10;
const SAMPLE_BYTES_MAX: usize = DICTIONARY_BYTES_MAX * SAMPLE_FACTOR;
/// Maximum number of bytes that are sampled of a value.
const SAMPLED_VALUE_BYTES_MAX: usize = 8 << 10;
/// The factor by which the bytes put must grow before the next dictionary is trained.
const GROWTH: u64 = 4;
/// Maximum number of dictionaries that are kept at once.
const DICTIONARIES_MAX: usize = 16;

const _: () = assert!(DICTIONARIES_MAX <= 1 << u16::BITS, "a number has 16 bits");

/// The number of a dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(u16);

/// A dictionary, prepared for both levels of compression and for reads.
pub(super) struct Dictionary {
    compressing: CDict<'static>,
    compressing_in_haste: CDict<'static>,
    decompressing: DDict<'static>,
    bytes: u64,
    /// Number of blocks that need it.
    blocks: AtomicUsize,
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "a dictionary of {} bytes", self.bytes)
    }
}

impl Dictionary {
    /// Trains a dictionary on the first values of a list; returns `None` if they have nothing in
    /// common.
    pub(super) fn trained_on(values: &[&[u8]]) -> Option<Dictionary> {
        let mut sample = DictionarySample::default();
        for value in values {
            if sample.bytes.len() >= SAMPLE_BYTES_MAX {
                break;
            }
            sample.add(value);
        }
        sample.train(DICTIONARY_BYTES_MAX)
    }

    fn new(content: &[u8]) -> Dictionary {
        // Prepared once for all blocks, because preparing takes longer than a block does.
        let compressing = CDict::create(content, LEVEL);
        let compressing_in_haste = CDict::create(content, LEVEL_IN_HASTE);
        let decompressing = DDict::create(content);
        let bytes = compressing.sizeof() + compressing_in_haste.sizeof() + decompressing.sizeof();
        Dictionary {
            compressing,
            compressing_in_haste,
            decompressing,
            bytes: bytes as u64,
            blocks: AtomicUsize::new(0),
        }
    }

    pub(super) fn compressing(&self, is_hasty: bool) -> &CDict<'static> {
        match is_hasty {
            true => &self.compressing_in_haste,
            false => &self.compressing,
        }
    }

    pub(super) fn decompressing(&self) -> &DDict<'static> {
        &self.decompressing
    }
}

/// All dictionaries of a tier.
#[derive(Debug, Default)]
pub(super) struct Dictionaries {
    list: RwLock<DictionaryList>,
    bytes: AtomicU64,
    /// Number of bytes of this tier's largest dictionary.
    dictionary_bytes_max: usize,
    sample: Mutex<DictionarySample>,
    /// Set if the sample is large enough to train on.
    is_complete: AtomicBool,
    put_bytes: AtomicU64,
    /// The value of `put_bytes` at which sampling begins again.
    next_sample: AtomicU64,
}

#[derive(Debug, Default)]
struct DictionaryList {
    dictionaries: Vec<Option<Arc<Dictionary>>>,
    newest: Option<Number>,
}

#[derive(Debug, Default)]
struct DictionarySample {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
}

impl DictionarySample {
    fn add(&mut self, value: &[u8]) {
        let part = value.get(..SAMPLED_VALUE_BYTES_MAX).unwrap_or(value);
        self.bytes.extend_from_slice(part);
        self.lengths.push(part.len());
    }

    /// Trains a dictionary; returns `None` if the values have nothing in common.
    fn train(&self, bytes_max: usize) -> Option<Dictionary> {
        debug_assert_eq!(
            self.lengths.iter().sum::<usize>(),
            self.bytes.len(),
            "zstd divides the sample by the lengths"
        );
        let limit = (self.bytes.len() / SAMPLE_FACTOR).min(bytes_max);
        let mut content = zstd::dict::from_continuous(&self.bytes, &self.lengths, limit).ok()?;
        // zstd does not write a dictionary number of 0 into each block.
        if let Some(number) = content.get_mut(4..8) {
            number.fill(0);
        }
        Some(Dictionary::new(&content))
    }
}

impl Dictionaries {
    /// Creates the dictionaries of a tier of this capacity; there are none yet.
    pub(super) fn new(capacity_bytes: u64) -> Dictionaries {
        let most = usize::try_from(capacity_bytes / DICTIONARY_PART_MAX).unwrap_or(usize::MAX);
        Dictionaries {
            dictionary_bytes_max: most.min(DICTIONARY_BYTES_MAX),
            ..Dictionaries::default()
        }
    }

    /// Returns the memory of all dictionaries.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the dictionary for new blocks.
    pub(super) fn newest(&self) -> Option<Number> {
        self.list.read().newest
    }

    /// Returns a dictionary that a block needs.
    pub(super) fn get(&self, number: Number) -> Option<Arc<Dictionary>> {
        let list = self.list.read();
        list.dictionaries.get(usize::from(number.0))?.clone()
    }

    /// Returns the newest dictionary, after counting one more block that needs it.
    pub(super) fn join_newest(&self) -> Option<(Number, Arc<Dictionary>)> {
        let list = self.list.read();
        let number = list.newest?;
        let dictionary = list.dictionaries.get(usize::from(number.0))?.clone()?;
        // Counted while the list is locked: `leave` frees a dictionary under the same lock, so this
        // one stays until the block exists.
        dictionary.blocks.fetch_add(1, Ordering::Relaxed);
        Some((number, dictionary))
    }

    /// Counts that a block is gone, and frees a dictionary that no block needs any more.
    pub(super) fn leave(&self, number: Option<Number>) {
        let Some(number) = number else {
            return;
        };
        let Some(dictionary) = self.get(number) else {
            return;
        };
        let blocks = dictionary.blocks.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(blocks > 0, "each block has joined its dictionary");
        if blocks > 1 {
            return;
        }
        let mut list = self.list.write();
        // A block can join it only while it is the newest.
        if list.newest != Some(number)
            && dictionary.blocks.load(Ordering::Relaxed) == 0
            && let Some(entry) = list.dictionaries.get_mut(usize::from(number.0))
            && entry.take().is_some()
        {
            self.bytes.fetch_sub(dictionary.bytes, Ordering::Relaxed);
        }
    }

    /// Samples values that are put.
    pub(super) fn learn(&self, values: &[&[u8]]) {
        let bytes: usize = values.iter().map(|value| value.len()).sum();
        let before = self.put_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let begin = self.next_sample.load(Ordering::Relaxed);
        if before < begin || self.is_complete.load(Ordering::Relaxed) {
            return;
        }
        let Some(mut sample) = self.sample.try_lock() else {
            // Any values make a sample, so no thread waits to add its own.
            return;
        };
        for value in values {
            sample.add(value);
        }
        let most = self.dictionary_bytes_max * SAMPLE_FACTOR;
        let wanted = (begin as usize).clamp(FIRST_SAMPLE_BYTES, most.max(FIRST_SAMPLE_BYTES));
        if sample.bytes.len() >= wanted {
            self.is_complete.store(true, Ordering::Relaxed);
        }
    }

    /// Trains a dictionary if its sample is complete. It becomes the newest if `admits` accepts its
    /// bytes.
    pub(super) fn tend(&self, admits: impl FnOnce(u64) -> bool) {
        if !self.is_complete.load(Ordering::Relaxed) {
            return;
        }
        // Values that are put meanwhile are not sampled.
        let sample = std::mem::take(&mut *self.sample.lock());
        // Training fails if the values have nothing in common; the next sample may succeed.
        if let Some(dictionary) = sample.train(self.dictionary_bytes_max)
            && admits(dictionary.bytes)
        {
            self.add(dictionary);
        }
        let put = self.put_bytes.load(Ordering::Relaxed);
        self.next_sample.store(put * GROWTH, Ordering::Relaxed);
        self.is_complete.store(false, Ordering::Relaxed);
    }

    /// Adds a dictionary, which becomes the newest, unless there are too many.
    pub(super) fn add(&self, dictionary: Dictionary) {
        let bytes = dictionary.bytes;
        let mut list = self.list.write();
        let free = list.dictionaries.iter().position(Option::is_none);
        let at = free.unwrap_or(list.dictionaries.len());
        if at >= DICTIONARIES_MAX {
            // Blocks need all of them; the newest one goes on to serve new blocks.
            return;
        }
        let dictionary = Some(Arc::new(dictionary));
        match list.dictionaries.get_mut(at) {
            Some(entry) => *entry = dictionary,
            None => list.dictionaries.push(dictionary),
        }
        list.newest = Some(Number(at as u16));
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        debug_assert_eq!(
            self.bytes.load(Ordering::Relaxed),
            list.dictionaries
                .iter()
                .flatten()
                .map(|it| it.bytes)
                .sum::<u64>(),
            "the bytes change only while the list is locked"
        );
    }
}
