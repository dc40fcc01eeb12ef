//! Segments: files that values are appended to.

use super::buffer::AlignedBuffer;
use super::{HEADER_BYTES, SECTOR_BYTES, record_bytes};
use crate::disk::DiskFile;
use parking_lot::Mutex;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A file that values are appended to, and the counts of those that are in use.
///
/// Bytes before `Tail::start` are on the disk, those behind it in the buffer of the tail.
#[derive(Debug)]
pub(super) struct Segment {
    file: Box<dyn DiskFile>,
    bytes: u64,
    buffer_bytes: usize,
    tail: Mutex<Tail>,
    /// The bytes that were appended.
    appended: AtomicU64,
    live_bytes: AtomicU64,
    live_values: AtomicU32,
}

/// What was appended last.
#[derive(Debug, Default)]
struct Tail {
    buffer: AlignedBuffer,
    /// Where in the file the buffer begins: at a sector.
    start: u64,
    /// The bytes of the buffer that are in use.
    used: usize,
}

impl Segment {
    /// A new segment of `bytes` bytes in a file.
    pub(super) fn new(file: Box<dyn DiskFile>, bytes: u64, buffer_bytes: usize) -> Segment {
        Segment {
            file,
            bytes,
            buffer_bytes,
            tail: Mutex::default(),
            appended: AtomicU64::new(0),
            live_bytes: AtomicU64::new(0),
            live_values: AtomicU32::new(0),
        }
    }

    /// True if a record of so many bytes can be appended.
    pub(super) fn has_room(&self, record_bytes: usize) -> bool {
        self.appended.load(Ordering::Relaxed) + record_bytes as u64 <= self.bytes
    }

    /// Appends a record, whose checksum has the number that `place_at` makes of where it begins,
    /// and answers where that is. Only one thread may append at a time.
    pub(super) fn append(
        &self,
        value: &[u8],
        place_at: impl FnOnce(u64) -> u64,
    ) -> io::Result<u64> {
        let record_bytes = record_bytes(value.len());
        let mut tail = self.tail.lock();
        if tail.used + record_bytes > self.buffer_bytes {
            self.write_out(&mut tail, false)?;
        }
        let start = self.appended.load(Ordering::Relaxed);
        let used = tail.used;
        tail.buffer.lengthen(used + record_bytes);
        let record = tail.buffer.bytes_mut().get_mut(used..used + record_bytes);
        let record = record.unwrap_or_default();
        let (header, rest) = record.split_at_mut(HEADER_BYTES);
        let sum = checksum(value, place_at(start));
        header[..8].copy_from_slice(&(value.len() as u64).to_le_bytes());
        header[8..].copy_from_slice(&sum.to_le_bytes());
        rest[..value.len()].copy_from_slice(value);
        rest[value.len()..].fill(0);
        tail.used += record_bytes;
        self.live_bytes
            .fetch_add(record_bytes as u64, Ordering::Relaxed);
        self.live_values.fetch_add(1, Ordering::Relaxed);
        let appended = start + record_bytes as u64;
        self.appended.store(appended, Ordering::Release);
        Ok(start)
    }

    /// Writes the sectors of the buffer that are full, or all of them. After an error nothing is
    /// lost: the buffer has what is not on the disk.
    fn write_out(&self, tail: &mut Tail, all: bool) -> io::Result<()> {
        let full = match all {
            true => tail.used.next_multiple_of(SECTOR_BYTES),
            false => tail.used / SECTOR_BYTES * SECTOR_BYTES,
        };
        let bytes = tail.buffer.bytes().get(..full).unwrap_or_default();
        self.file.write_at(bytes, tail.start)?;
        let left = tail.used.saturating_sub(full);
        tail.buffer.bytes_mut().copy_within(full..full + left, 0);
        tail.start += full as u64;
        tail.used = left;
        Ok(())
    }

    /// Writes what is left in the buffer, as nothing more is appended, and answers the buffer.
    pub(super) fn finish(&self) -> io::Result<AlignedBuffer> {
        let mut tail = self.tail.lock();
        if tail.used > 0 {
            self.write_out(&mut tail, true)?;
        }
        Ok(std::mem::take(&mut tail.buffer))
    }

    /// Gives a segment to which nothing was appended yet the buffer of the one before, so that it
    /// need not grow one.
    pub(super) fn begin_with(&self, buffer: AlignedBuffer) {
        self.tail.lock().buffer = buffer;
    }

    /// Reads a record of `value_bytes` that begins at `start` and appends its value to `out`.
    /// `place` is the number that its checksum has. Answers false if it is not what was written.
    pub(super) fn read(
        &self,
        start: u64,
        value_bytes: usize,
        place: u64,
        scratch: &mut AlignedBuffer,
        out: &mut Vec<u8>,
    ) -> io::Result<bool> {
        let Some(part) = self.prepare(start, value_bytes, scratch) else {
            return Ok(false);
        };
        if part.disk_bytes > 0 {
            let bytes = scratch.bytes_mut().get_mut(..part.disk_bytes);
            self.file.read_at(bytes.unwrap_or_default(), part.first)?;
        }
        Ok(check(&part, scratch, value_bytes, place, out))
    }

    /// Copies to `scratch` what the buffer has of a record, and answers what the disk has of it.
    /// `None` if nobody has written it.
    pub(super) fn prepare(
        &self,
        start: u64,
        value_bytes: usize,
        scratch: &mut AlignedBuffer,
    ) -> Option<Part> {
        let end = start + (HEADER_BYTES + value_bytes) as u64;
        let first = start / SECTOR_BYTES as u64 * SECTOR_BYTES as u64;
        let lead = (start - first) as usize;
        let wanted = (end - first) as usize;
        scratch.lengthen(wanted);
        // What is in the buffer is copied at once; what lies before it does not change any more.
        let tail = self.tail.lock();
        let on_disk = end.min(tail.start).saturating_sub(first) as usize;
        let from = (first + on_disk as u64).saturating_sub(tail.start) as usize;
        let rest = scratch
            .bytes_mut()
            .get_mut(on_disk..wanted)
            .unwrap_or_default();
        match tail.buffer.bytes().get(from..from + rest.len()) {
            Some(bytes) => rest.copy_from_slice(bytes),
            None if rest.is_empty() => {}
            None => return None,
        }
        // Bytes from the buffer begin at a sector, so that whole sectors are read before them.
        let disk_bytes = match lead < on_disk {
            true => on_disk.next_multiple_of(SECTOR_BYTES),
            false => 0,
        };
        Some(Part {
            first,
            lead,
            wanted,
            disk_bytes,
        })
    }

    /// The file, for a ring to read it.
    pub(super) fn file_descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.descriptor()
    }

    #[cfg(test)]
    pub(super) fn file(&self) -> &dyn DiskFile {
        &*self.file
    }

    /// Counts that a value is given up, and says whether none is left.
    pub(super) fn release(&self, value_bytes: usize) -> bool {
        let bytes = record_bytes(value_bytes) as u64;
        self.live_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.live_values.fetch_sub(1, Ordering::AcqRel) == 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live_values.load(Ordering::Acquire) == 0
    }

    /// True if less than half of what was appended is in use.
    pub(super) fn is_sparse(&self) -> bool {
        self.live_bytes.load(Ordering::Relaxed) * 2 < self.appended.load(Ordering::Relaxed)
    }
}

/// What is to be read of the disk for a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// The sector that it begins in.
    pub(super) first: u64,
    /// Where it begins there.
    lead: usize,
    /// Where it ends, from the beginning of the sector.
    wanted: usize,
    /// The bytes that are to be read from the first sector on, whole sectors; 0 if all of it was in
    /// the buffer.
    pub(super) disk_bytes: usize,
}

/// Appends the value of a record that was read to `out`. False if it is not what was written.
pub(super) fn check(
    part: &Part,
    scratch: &AlignedBuffer,
    value_bytes: usize,
    place: u64,
    out: &mut Vec<u8>,
) -> bool {
    let record = scratch.bytes().get(part.lead..part.wanted);
    let split = record.unwrap_or_default().split_at_checked(HEADER_BYTES);
    let Some((header, value)) = split else {
        return false;
    };
    let (length, sum) = header.split_at(8);
    let is_right =
        length == (value_bytes as u64).to_le_bytes() && sum == checksum(value, place).to_le_bytes();
    if is_right {
        out.extend_from_slice(value);
    }
    is_right
}

/// A checksum of a value at a place.
fn checksum(value: &[u8], place: u64) -> u64 {
    xxh3_64_with_seed(value, place)
}
