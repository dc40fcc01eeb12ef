//! Disk reads that another thread may run.

use super::buffer::AlignedBuffer;
use super::segment::{DiskRecordPart, TierFileSegment, check};
use crate::place::ColdPlace;
use crate::usage::ReadError;
use std::cell::RefCell;
use std::sync::Arc;

/// A read of a value that waits for a disk. The value's bytes stay as long as it exists, even if
/// the value is released meanwhile.
#[derive(Clone, Debug)]
pub struct PendingTierRead {
    pub(super) segment: Arc<TierFileSegment>,
    pub(super) place: ColdPlace,
    pub(super) start: u64,
    pub(super) value_bytes: usize,
}

/// Number of bytes of a buffer that is kept after a read; larger ones are freed.
pub(super) const KEPT_BYTES: usize = 1 << 20;

thread_local! {
    static SCRATCH: RefCell<AlignedBuffer> = RefCell::default();
}

impl PendingTierRead {
    /// Returns the place that is read.
    pub fn place(&self) -> ColdPlace {
        self.place
    }

    /// Waits for the disk and appends the value to `out`. Reads once.
    ///
    /// # Errors
    /// The disk fails, or returns other bytes than were written.
    pub fn run(&self, out: &mut Vec<u8>) -> Result<(), ReadError> {
        let number = self.place.to_bits();
        SCRATCH.with_borrow_mut(|scratch| {
            let read = self
                .segment
                .read(self.start, self.value_bytes, number, scratch, out);
            // Each thread keeps its buffer, so one long value must not make all of them large.
            if self.value_bytes > KEPT_BYTES {
                scratch.shorten(KEPT_BYTES);
            }
            match read? {
                true => Ok(()),
                false => Err(ReadError::Damaged),
            }
        })
    }

    /// Appends the value to `out`, once the disk has returned a part of its record.
    pub(super) fn finish(
        &self,
        part: &DiskRecordPart,
        scratch: &AlignedBuffer,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        match check(part, scratch, self.value_bytes, self.place.to_bits(), out) {
            true => Ok(()),
            false => Err(ReadError::Damaged),
        }
    }
}
