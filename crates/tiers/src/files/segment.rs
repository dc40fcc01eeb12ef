//! Segments: files that values are appended to.

use super::buffer::AlignedBuffer;
use super::patient::OneAtATime;
use super::{HEADER_BYTES, SECTOR_BYTES, record_bytes};
use crate::disk::{DiskFile, PATIENCE};
use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A file that values are appended to, and the counts of those that are in use.
///
/// What was appended lies on the disk, then in the buffer that [leaves](Leaving), if one does, then
/// in that of the tail. Nobody has a lock of the segment while the disk works.
#[derive(Debug)]
pub(super) struct Segment {
    file: Arc<dyn DiskFile>,
    bytes: u64,
    buffer_bytes: usize,
    tail: Mutex<Tail>,
    /// The write of what leaves.
    write: OneAtATime<()>,
    /// Values may still be appended.
    is_open: AtomicBool,
    /// The bytes that were appended.
    appended: AtomicU64,
    live_bytes: AtomicU64,
    live_values: AtomicU32,
}

/// What was appended last.
#[derive(Debug, Default)]
struct Tail {
    leaving: Option<Leaving>,
    buffer: AlignedBuffer,
    /// Where in the file the buffer begins: at a sector.
    start: u64,
    /// The bytes of the buffer that are in use.
    used: usize,
}

/// Whole sectors that are to be written. They end where the buffer of the tail begins.
#[derive(Debug)]
struct Leaving {
    buffer: Arc<AlignedBuffer>,
    start: u64,
    bytes: usize,
}

impl Tail {
    /// Where in the file it begins that the disk does not have.
    fn end_of_disk(&self) -> u64 {
        self.leaving.as_ref().map_or(self.start, |it| it.start)
    }

    /// Copies what lies in memory from a place of the file on. `None` if that is not all of it.
    fn copy(&self, from: u64, out: &mut [u8]) -> Option<()> {
        let leaves = (self.start.saturating_sub(from) as usize).min(out.len());
        let (first, second) = out.split_at_mut(leaves);
        if let (false, Some(leaving)) = (first.is_empty(), &self.leaving) {
            let at = from.checked_sub(leaving.start)? as usize;
            first.copy_from_slice(leaving.buffer.bytes().get(at..at + leaves)?);
        }
        if !second.is_empty() {
            let at = (from + leaves as u64).checked_sub(self.start)? as usize;
            second.copy_from_slice(self.buffer.bytes().get(at..at + second.len())?);
        }
        Some(())
    }
}

impl Segment {
    /// A new segment of `bytes` bytes in a file.
    pub(super) fn new(file: Box<dyn DiskFile>, bytes: u64, buffer_bytes: usize) -> Segment {
        Segment {
            file: Arc::from(file),
            bytes,
            buffer_bytes,
            tail: Mutex::default(),
            write: OneAtATime::default(),
            is_open: AtomicBool::new(true),
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
    ///
    /// # Errors
    /// The disk does not take what was appended before, or does not answer. Nothing of that is
    /// lost.
    pub(super) fn append(
        &self,
        value: &[u8],
        place_at: impl FnOnce(u64) -> u64,
    ) -> io::Result<u64> {
        let record_bytes = record_bytes(value.len());
        let mut tail = self.tail.lock();
        if tail.leaving.is_some() || tail.used + record_bytes > self.buffer_bytes {
            tail = self.write_out(tail, false)?;
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

    /// Writes what leaves, and then the sectors of the buffer that are full, or all of them. After
    /// an error they leave, and nothing is lost.
    fn write_out<'s>(
        &'s self,
        mut tail: MutexGuard<'s, Tail>,
        all: bool,
    ) -> io::Result<MutexGuard<'s, Tail>> {
        if tail.leaving.is_some() {
            tail = self.deliver(tail)?;
        }
        let used = tail.used;
        let bytes = match all {
            true => used.next_multiple_of(SECTOR_BYTES),
            false => used / SECTOR_BYTES * SECTOR_BYTES,
        };
        if bytes == 0 {
            return Ok(tail);
        }
        let mut rest = AlignedBuffer::default();
        if let Some(left) = tail.buffer.bytes().get(bytes..used) {
            rest.begin_with(left);
        }
        let start = tail.start;
        tail.start += bytes as u64;
        tail.used = used.saturating_sub(bytes);
        // If these are all, they may end with bytes of no record.
        self.appended
            .store(tail.start + tail.used as u64, Ordering::Release);
        tail.leaving = Some(Leaving {
            buffer: Arc::new(std::mem::replace(&mut tail.buffer, rest)),
            start,
            bytes,
        });
        self.deliver(tail)
    }

    /// Has the disk write what leaves. The lock is not held meanwhile.
    fn deliver<'s>(&'s self, mut tail: MutexGuard<'s, Tail>) -> io::Result<MutexGuard<'s, Tail>> {
        let Some(leaving) = &tail.leaving else {
            return Ok(tail);
        };
        let (file, buffer) = (Arc::clone(&self.file), Arc::clone(&leaving.buffer));
        let (start, bytes) = (leaving.start, leaving.bytes);
        let write = move || file.write_at(buffer.bytes().get(..bytes).unwrap_or_default(), start);
        MutexGuard::unlocked(&mut tail, || self.write.run(write, PATIENCE))?;
        // The buffer is the tail's again, so that none need grow. It begins with what has come
        // there, less than a sector.
        let written = tail.leaving.take().map(|leaving| leaving.buffer);
        if let Some(mut buffer) = written.and_then(Arc::into_inner) {
            let used = tail.used;
            buffer.begin_with(tail.buffer.bytes().get(..used).unwrap_or_default());
            tail.buffer = buffer;
        }
        Ok(tail)
    }

    /// Writes what is left in the buffer, as nothing more is appended, and answers the buffer.
    pub(super) fn finish(&self) -> io::Result<AlignedBuffer> {
        let mut tail = self.tail.lock();
        if tail.leaving.is_some() || tail.used > 0 {
            tail = self.write_out(tail, true)?;
        }
        Ok(std::mem::take(&mut tail.buffer))
    }

    /// Says that nothing will be appended any more.
    pub(super) fn close(&self) {
        self.is_open.store(false, Ordering::SeqCst);
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
        // What is in memory is copied at once; what lies before it does not change any more.
        let tail = self.tail.lock();
        let on_disk = end.min(tail.end_of_disk()).saturating_sub(first) as usize;
        let rest = scratch.bytes_mut().get_mut(on_disk..wanted);
        tail.copy(first + on_disk as u64, rest.unwrap_or_default())?;
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
    pub(super) fn is_unlocked(&self) -> bool {
        self.tail.try_lock().is_some()
    }

    #[cfg(test)]
    pub(super) fn file(&self) -> &dyn DiskFile {
        &*self.file
    }

    /// Counts that a value is given up.
    pub(super) fn release(&self, value_bytes: usize) {
        let bytes = record_bytes(value_bytes) as u64;
        self.live_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.live_values.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live_values.load(Ordering::SeqCst) == 0
    }

    /// True if nothing is appended any more, and nothing is left. Who releases the last value and
    /// who [closes](Segment::close) the segment both ask then: one of them is told so.
    pub(super) fn is_over(&self) -> bool {
        !self.is_open.load(Ordering::SeqCst) && self.is_empty()
    }

    /// True if nothing is appended any more, and less than half of what was is in use.
    pub(super) fn is_sparse(&self) -> bool {
        !self.is_open.load(Ordering::Relaxed)
            && self.live_bytes.load(Ordering::Relaxed) * 2 < self.appended.load(Ordering::Relaxed)
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
