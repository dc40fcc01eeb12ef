//! Reads of the entries of a block in order.

use super::racing::{self, CHUNKS_BYTES};
use super::{BLOCK_MAX, STRINGS_MAX, StringBlock, below};
use crate::leaf::RadixScanRange;
use crate::memory::RadixMemory;
use crate::node::Ref;
use crossbeam_epoch::Guard;
use nearfield_core::{ByteStrings, EntriesWriter, ScanDirection};
use std::mem::MaybeUninit;
use std::ops::{Bound, ControlFlow, Range};
use std::sync::atomic::Ordering;

/// The room for a copy of the entries of a block, and for the bytes that are copied after the last
/// one.
const COPY_BYTES: usize = BLOCK_MAX + CHUNKS_BYTES;

/// The maximum number of parts for which entries are copied part by part; entries in more parts are
/// copied one by one.
const PARTS_MAX: u32 = 2;

impl StringBlock<'_> {
    /// Copies the entries at positions below the count, in order. Returns the number of bytes. Must
    /// be validated.
    #[inline]
    fn copy(self, range: Range<usize>, to: &mut [u8]) -> usize {
        debug_assert!(to.len() >= COPY_BYTES);
        let jumps = self.jumps().load(Ordering::Relaxed) & below(range.end);
        // Many short runs cost a call each. Then it is faster to copy entries of a fixed length.
        if (jumps & !below(range.start + 1)).count_ones() >= PARTS_MAX {
            return self.copy_each(range, to);
        }
        let mut length = 0;
        self.for_runs(range, |bytes, _| {
            // A change may have left offsets that do not delimit the bytes of a run.
            let count = bytes.len().min(BLOCK_MAX - length);
            // SAFETY: the bytes from an offset on belong to the block up to its end, and change
            // only by `racing::store`. There is room for `BLOCK_MAX` bytes.
            unsafe {
                let to = to.as_mut_ptr().add(length);
                racing::load(self.start.add(bytes.start), to, count);
            }
            length += count;
        });
        length
    }

    /// Copies like `copy`, entry by entry.
    // More bytes are copied of each entry than a short one has, because its length cannot be
    // predicted.
    #[inline]
    fn copy_each(self, range: Range<usize>, to: &mut [u8]) -> usize {
        let (mut length, chunks_until) = (0, self.length() - CHUNKS_BYTES);
        for position in range {
            let offset = self.offset(position);
            let own = self.length_at(offset);
            if length + own > BLOCK_MAX {
                // A change has left an entry at several positions.
                break;
            }
            // SAFETY: an entry of `own` bytes is stored at the offset, and the block, which has
            // this many bytes, is changed only by `racing::store`. The room for the copy has
            // `CHUNKS_BYTES` after its first `BLOCK_MAX`.
            unsafe {
                let (from, to) = (self.start.add(offset), to.as_mut_ptr().add(length));
                if own <= CHUNKS_BYTES && offset <= chunks_until {
                    racing::load_chunks(from, to);
                } else {
                    racing::load(from, to, own);
                }
            }
            length += own;
        }
        length
    }

    /// Calls `each` for each run of entries that are stored one directly after the other, with the
    /// offsets of its bytes and with its positions. The positions together are `range`.
    #[inline]
    pub(super) fn for_runs(
        self,
        range: Range<usize>,
        mut each: impl FnMut(Range<usize>, Range<usize>),
    ) {
        let jumps = self.jumps().load(Ordering::Relaxed);
        let mut first = range.start;
        while first < range.end {
            let jump = (u64::from(jumps & !below(first + 1)) | 1 << STRINGS_MAX).trailing_zeros();
            let behind = range.end.min(jump as usize);
            let (start, end) = (self.offset(first), self.end_of(behind - 1));
            each(start..end, first..behind);
            first = behind;
        }
    }
}

/// Calls `visit` for the entries of a block in `direction`. The keys are those of one instant, and
/// each value is one that its key had at about that time.
#[inline]
pub fn entries<'g>(
    memory: &'g RadixMemory,
    leaf: Ref,
    direction: ScanDirection,
    guard: &'g Guard,
    mut visit: impl FnMut(&'g [u8], &[u8]) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut offsets = [0; STRINGS_MAX];
    let block = loop {
        let block = StringBlock::at(memory, leaf, guard);
        if !block.state.is_outside() {
            for (position, offset) in offsets[..block.count()].iter_mut().enumerate() {
                *offset = block.offset(position);
            }
        }
        if block.is_unchanged() {
            break block;
        }
    };
    let mut copy = [MaybeUninit::<u8>::uninit(); BLOCK_MAX];
    for i in 0..block.count() {
        let position = match direction {
            ScanDirection::Ascending => i,
            ScanDirection::Descending => block.count() - 1 - i,
        };
        let parts = match block.state.is_outside() {
            true => block.parts_outside(),
            false => block.parts_at(offsets[position]),
        };
        if block.state.is_outside() {
            // An entry outside never changes, so it needs no copy.
            return visit(parts.key, parts.value());
        }
        // An entry that has since been replaced keeps its last value.
        let lock = &block.header().lock;
        let (from, length) = (parts.value.as_ptr(), parts.value_length);
        loop {
            let version = lock.read();
            // SAFETY: the value has this many bytes, which change only by `racing::store`. `copy`
            // has room for the bytes of a block.
            unsafe { racing::load(from, copy.as_mut_ptr().cast(), length) };
            if lock.validate(version) {
                break;
            }
        }
        // SAFETY: `length` bytes have been written.
        let value = unsafe { std::slice::from_raw_parts(copy.as_ptr().cast(), length) };
        visit(parts.key, value)?;
    }
    ControlFlow::Continue(())
}

/// Writes the entries of a block that are in the range of an ascending scan, and sets `last` to the
/// last one. Breaks when the scan is complete.
#[inline]
pub fn write_entries<'g>(
    memory: &'g RadixMemory,
    leaf: Ref,
    scan: &RadixScanRange<&'g [u8]>,
    last: &mut Option<&'g [u8]>,
    guard: &'g Guard,
    writer: &mut EntriesWriter<'_, ByteStrings>,
) -> ControlFlow<()> {
    loop {
        let block = StringBlock::at(memory, leaf, guard);
        let (mut first, mut behind) = (0, block.count());
        let is_next = |position| scan.is_next(*last, block.key(position));
        if let Some(last) = *last {
            // A leaf after the first one mostly begins after the last key that was read.
            if behind > 0 && !is_next(0) {
                first = block.rank(last);
            }
        } else if let Bound::Included(from) | Bound::Excluded(from) = scan.from {
            first = block.likely_rank(from);
        }
        if first < behind && !is_next(first) {
            first += 1;
        }
        let mut ended = false;
        if scan.to != Bound::Unbounded {
            while first < behind && scan.is_behind(block.key(behind - 1)) {
                behind -= 1;
                ended = true;
            }
        }
        behind = behind.min(first + (scan.limit - writer.count()));
        // The key is read before the version is checked, and borrowed: keys never change in place.
        let greatest = (first < behind).then(|| block.key(behind - 1));
        let mut length = 0;
        if greatest.is_some() && !block.state.is_outside() {
            length = block.copy(first..behind, writer.room(COPY_BYTES));
        }
        if !block.is_unchanged() {
            continue;
        }
        if let Some(greatest) = greatest {
            *last = Some(greatest);
            if block.state.is_outside() {
                let (key, value) = block.entry(0);
                writer.push(key, value)?;
            } else {
                writer.written(length, behind - first)?;
            }
        }
        return match ended || writer.count() >= scan.limit {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
    }
}
