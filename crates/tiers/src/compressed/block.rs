//! Blocks: values that are compressed together.

use super::BLOCK_VALUES_MAX;
use super::dictionary::{Dictionaries, Number};
use crate::usage::{ReadError, TierRefusal};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use zstd::zstd_safe::{CCtx, DCtx, DParameter, FrameFormat, MAGICNUMBER};

/// The level of compression. Measured on text and JSON records against level 3: blocks are 6 to 7 %
/// smaller, take three to four times as long to write, and no longer to read. Level 9 gains 2 %
/// more for twice the time.
pub(super) const LEVEL: i32 = 6;

/// The level of compression in haste: zstd's fastest search, for which a dictionary is prepared
/// apart. *Assumed*: blocks take about a fifth of the time to write, and as long to read.
pub(super) const LEVEL_IN_HASTE: i32 = 1;

/// The part of its values' size that a block must be smaller than, or it is refused.
const WORTH: (usize, usize) = (15, 16);

/// The part of a block's bytes, `parts` of `of`, that must be in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct LivePart {
    pub(super) parts: u64,
    pub(super) of: u64,
}

/// Values that are compressed together: first the lengths of the values, as integers of variable
/// size, then the compressed values.
#[derive(Debug)]
pub(super) struct CompressedBlock {
    bytes: Box<[u8]>,
    dictionary: Option<Number>,
    count: u16,
    /// Number of values that are in use.
    live: AtomicU16,
    /// Number of bytes of these values, before compression.
    live_bytes: AtomicU32,
    /// Set if it was compressed in haste.
    is_hasty: bool,
}

thread_local! {
    // A context takes long to create, so each thread keeps one.
    static CODER: RefCell<Coder> = RefCell::new(Coder::new());
}

/// Contexts of zstd and buffers of one thread.
struct Coder {
    compressor: CCtx<'static>,
    decompressor: DCtx<'static>,
    raw: Vec<u8>,
    block: Vec<u8>,
}

/// Number of bytes of the magic number that each zstd frame begins with.
const MAGIC_BYTES: usize = 4;

/// Number of bytes of a buffer that is kept after a use; larger ones are freed.
const KEPT_BYTES: usize = 256 << 10;

impl Coder {
    fn new() -> Coder {
        let mut decompressor = DCtx::create();
        let set = decompressor.set_parameter(DParameter::Format(FrameFormat::Magicless));
        debug_assert!(set.is_ok(), "zstd has this parameter");
        Coder {
            compressor: CCtx::create(),
            decompressor,
            raw: Vec::new(),
            block: Vec::new(),
        }
    }

    fn keep_little(&mut self) {
        for buffer in [&mut self.raw, &mut self.block] {
            if buffer.capacity() > KEPT_BYTES {
                *buffer = Vec::new();
            }
        }
    }
}

impl CompressedBlock {
    /// Compresses values with the newest dictionary, which counts the block from then on. In haste
    /// the block is larger and takes less time.
    pub(super) fn compress(
        values: &[&[u8]],
        dictionaries: &Dictionaries,
        is_hasty: bool,
    ) -> Result<CompressedBlock, TierRefusal> {
        debug_assert!(values.len() <= BLOCK_VALUES_MAX, "the count has 16 bits");
        CODER.with_borrow_mut(|coder| {
            let Coder {
                compressor,
                raw,
                block,
                ..
            } = coder;
            raw.clear();
            block.clear();
            for value in values {
                write_length(block, value.len());
                raw.extend_from_slice(value);
            }
            let newest = dictionaries.join_newest();
            let lengths = block.len();
            // With this much room, compression never fails because the target is too short.
            block.resize(lengths + zstd::zstd_safe::compress_bound(raw.len()), 0);
            let target = block.get_mut(lengths..).unwrap_or_default();
            let written = match &newest {
                Some((_, dictionary)) => {
                    let dictionary = dictionary.compressing(is_hasty);
                    compressor.compress_using_cdict(target, raw, dictionary)
                }
                None if is_hasty => compressor.compress(target, raw, LEVEL_IN_HASTE),
                None => compressor.compress(target, raw, LEVEL),
            };
            let newest = newest.map(|(number, _)| number);
            // zstd fails only when memory runs out; the values then stay where they are.
            let Ok(written) = written else {
                dictionaries.leave(newest);
                return Err(TierRefusal::Full);
            };
            block.truncate(lengths + written);
            // In small blocks each byte matters. The reader does not expect the magic number.
            let magic = block.drain(lengths..lengths + MAGIC_BYTES);
            debug_assert!(magic.as_slice() == MAGICNUMBER.to_le_bytes());
            drop(magic);
            // Each read would decompress the values for next to no memory saved.
            if block.len() * WORTH.1 > raw.len() * WORTH.0 {
                dictionaries.leave(newest);
                return Err(TierRefusal::Incompressible);
            }
            let compressed = CompressedBlock {
                bytes: block.as_slice().into(),
                dictionary: newest,
                count: values.len() as u16,
                live: AtomicU16::new(values.len() as u16),
                live_bytes: AtomicU32::new(raw.len() as u32),
                is_hasty,
            };
            coder.keep_little();
            Ok(compressed)
        })
    }

    /// Returns the number of bytes of the block.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the dictionary that it needs.
    pub(super) fn dictionary(&self) -> Option<Number> {
        self.dictionary
    }

    /// Returns true if it was compressed in haste.
    pub(super) fn is_hasty(&self) -> bool {
        self.is_hasty
    }

    /// Returns true if less than `part` of the bytes of its values are in use.
    pub(super) fn uses_less_than(&self, part: LivePart) -> bool {
        // Most blocks have all their values, and need no sum.
        if self.live.load(Ordering::Relaxed) == self.count {
            return false;
        }
        let bytes: u64 = self.lengths().0.map(|length| length as u64).sum();
        let live = u64::from(self.live_bytes.load(Ordering::Relaxed));
        live * part.of < bytes * part.parts
    }

    /// Returns the lengths of the values, and the offset of the compressed part.
    fn lengths(&self) -> (impl Iterator<Item = usize>, usize) {
        // The end of the lengths is needed at once, before the iterator has reached it.
        let mut start = 0;
        for _ in 0..self.count {
            start += read_length(&self.bytes, start).1;
        }
        debug_assert!(start >= usize::from(self.count), "each length has a byte");
        let mut at = 0;
        let lengths = (0..self.count).map(move |_| {
            let (length, taken) = read_length(&self.bytes, at);
            at += taken;
            length
        });
        (lengths, start)
    }

    /// Appends a value to `out`.
    pub(super) fn read(
        &self,
        index: usize,
        dictionaries: &Dictionaries,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        let (lengths, compressed) = self.lengths();
        let (mut start, mut end, mut raw_bytes) = (0, None, 0);
        for (number, length) in lengths.enumerate() {
            if number == index {
                (start, end) = (raw_bytes, Some(raw_bytes + length));
            }
            raw_bytes += length;
        }
        let end = end.ok_or(ReadError::Absent)?;
        // A frame cannot be entered in the middle, so one value costs the whole block.
        let compressed = self.bytes.get(compressed..).unwrap_or_default();
        CODER.with_borrow_mut(|coder| {
            let Coder {
                decompressor, raw, ..
            } = coder;
            raw.clear();
            raw.reserve(raw_bytes);
            let got = match self.dictionary {
                Some(number) => {
                    let dictionary = dictionaries.get(number).ok_or(ReadError::Damaged)?;
                    let dictionary = dictionary.decompressing();
                    decompressor.decompress_using_ddict(raw, compressed, dictionary)
                }
                None => decompressor.decompress(raw, compressed),
            };
            if got != Ok(raw_bytes) {
                return Err(ReadError::Damaged);
            }
            out.extend_from_slice(raw.get(start..end).ok_or(ReadError::Damaged)?);
            coder.keep_little();
            Ok(())
        })
    }

    /// Releases a value, and returns its bytes and the number of values that are still in use;
    /// `None` if there is no such value.
    pub(super) fn release(&self, index: usize) -> Option<(usize, u16)> {
        let bytes = self.lengths().0.nth(index)?;
        self.live_bytes.fetch_sub(bytes as u32, Ordering::Relaxed);
        let live = self.live.fetch_sub(1, Ordering::AcqRel) - 1;
        Some((bytes, live))
    }
}

/// Appends a length, seven bits per byte, low bits first.
fn write_length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

/// Reads what [`write_length`] wrote at `at`, and returns the length and the number of bytes that
/// it occupies.
fn read_length(bytes: &[u8], at: usize) -> (usize, usize) {
    let (mut length, mut taken) = (0, 0);
    for &byte in bytes.get(at..).unwrap_or_default() {
        length |= usize::from(byte & 0x7f) << (7 * taken);
        taken += 1;
        if byte < 0x80 {
            break;
        }
    }
    (length, taken)
}
