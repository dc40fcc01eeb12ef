//! Reading the entries of a block in order.

use super::{BLOCK_MAX, STRINGS_MAX, Strings, below, racing};
use crate::leaf::Scan;
use crate::memory::Memory;
use crate::node::Ref;
use crossbeam_epoch::Guard;
use nearfield_core::{Bytes, Direction, EntriesWriter};
use std::mem::MaybeUninit;
use std::ops::{Bound, ControlFlow, Range};
use std::sync::atomic::Ordering;

impl Strings<'_> {
    /// Calls `each` for the offsets of the bytes of entries that lie one behind the other, and for
    /// their positions, which together are those of `range`.
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
/// each value is one that its key had about then.
#[inline]
pub fn entries<'g>(
    memory: &'g Memory,
    leaf: Ref,
    direction: Direction,
    guard: &'g Guard,
    mut visit: impl FnMut(&'g [u8], &[u8]) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut offsets = [0; STRINGS_MAX];
    let block = loop {
        let block = Strings::at(memory, leaf, guard);
        if !block.state.is_outside() {
            for (position, offset) in offsets[..block.count()].iter_mut().enumerate() {
                *offset = block.offset(position);
            }
        }
        if block.is_unchanged() {
            break block;
        }
    };
    for i in 0..block.count() {
        let position = match direction {
            Direction::Ascending => i,
            Direction::Descending => block.count() - 1 - i,
        };
        let parts = match block.state.is_outside() {
            true => block.parts_outside(),
            false => block.parts_at(offsets[position]),
        };
        // An entry that has been replaced since keeps its last value.
        let lock = &block.header().lock;
        let found = loop {
            let version = lock.read();
            let found = parts.found();
            if lock.validate(version) {
                break found;
            }
        };
        visit(parts.key, found.value())?;
    }
    ControlFlow::Continue(())
}

/// Writes the entries of a block that an ascending scan is to read, and sets `last` to the last.
/// Breaks when the scan is complete.
#[inline]
pub fn write_entries<'g>(
    memory: &'g Memory,
    leaf: Ref,
    scan: &Scan<&'g [u8]>,
    last: &mut Option<&'g [u8]>,
    guard: &'g Guard,
    writer: &mut EntriesWriter<'_, Bytes>,
) -> ControlFlow<()> {
    let mut packed = [MaybeUninit::<u8>::uninit(); BLOCK_MAX];
    loop {
        let block = Strings::at(memory, leaf, guard);
        let (mut first, mut behind) = (0, block.count());
        if last.is_none()
            && let Bound::Included(from) | Bound::Excluded(from) = scan.from
        {
            first = block.likely_rank(from);
            if first < behind && !scan.is_past(block.key(first)) {
                first += 1;
            }
        }
        let mut ended = false;
        if scan.to != Bound::Unbounded {
            while first < behind && scan.is_behind(block.key(behind - 1)) {
                behind -= 1;
                ended = true;
            }
        }
        behind = behind.min(first + (scan.limit - writer.count()));
        let greatest = (first < behind).then(|| block.key(behind - 1));
        let mut length = 0;
        if greatest.is_some() && !block.state.is_outside() {
            block.for_runs(first..behind, |bytes, _| {
                // A change may have left offsets of which these are not the bytes of a run.
                let count = bytes.len().min(BLOCK_MAX - length);
                // SAFETY: the bytes from an offset on are the block's, as far as they reach, and
                // those of values are changed by `racing::store` alone. The buffer has room.
                unsafe {
                    let to = packed.as_mut_ptr().cast::<u8>().add(length);
                    racing::load(block.start.add(bytes.start), to, count);
                }
                length += count;
            });
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
                // SAFETY: so many bytes of the buffer have been written.
                let packed =
                    unsafe { std::slice::from_raw_parts(packed.as_ptr().cast::<u8>(), length) };
                writer.push_packed(packed, behind - first)?;
            }
        }
        return match ended || writer.count() >= scan.limit {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
    }
}
