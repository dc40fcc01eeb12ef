//! Segments: files that values are appended to.

use super::buffer::AlignedBuffer;
use super::patient::OneAtATime;
use super::{HEADER_BYTES, SECTOR_BYTES, record_bytes};
use crate::disk::TierFile;
use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A file to which values are appended, and the counts of those in use.
///
/// The appended bytes are on the disk, then in the buffer that is being written
/// ([`UnwrittenSectors`]), if there is one, then in that of the tail. No thread holds a lock of the
/// segment while the disk works.
#[derive(Debug)]
pub(super) struct TierFileSegment {
    file: Arc<dyn TierFile>,
    bytes: u64,
    buffer_bytes: usize,
    tail: Mutex<Tail>,
    /// The write of `Tail::leaving`.
    write: OneAtATime<()>,
    /// Set while values may still be appended.
    is_open: AtomicBool,
    /// Number of bytes that were appended.
    appended: AtomicU64,
    live_bytes: AtomicU64,
    live_values: AtomicU32,
}

/// The bytes that were appended last.
#[derive(Debug, Default)]
struct Tail {
    leaving: Option<UnwrittenSectors>,
    buffer: AlignedBuffer,
    /// Offset in the file at which the buffer begins: at a sector.
    start: u64,
    /// Number of bytes of the buffer that are in use.
    used: usize,
}

/// Whole sectors that are being written. They end where the buffer of the tail begins.
#[derive(Debug)]
struct UnwrittenSectors {
    buffer: Arc<AlignedBuffer>,
    start: u64,
    bytes: usize,
}

impl Tail {
    /// Returns the offset in the file up to which the disk has the bytes.
    fn end_of_disk(&self) -> u64 {
        self.leaving.as_ref().map_or(self.start, |it| it.start)
    }

    /// Copies the bytes in memory that begin at offset `from` of the file. Returns `None` if memory
    /// does not have all of them.
    fn copy(&self, from: u64, out: &mut [u8]) -> Option<()> {
        // Bytes before the tail are in the sectors that are leaving.
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

impl TierFileSegment {
    /// Creates a segment of `bytes` bytes in a file.
    pub(super) fn new(file: Box<dyn TierFile>, bytes: u64, buffer_bytes: usize) -> TierFileSegment {
        debug_assert!(bytes.is_multiple_of(SECTOR_BYTES as u64));
        debug_assert!(buffer_bytes > 0 && buffer_bytes.is_multiple_of(SECTOR_BYTES));
        TierFileSegment {
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

    /// Returns true if a record of `record_bytes` bytes can be appended.
    pub(super) fn has_room(&self, record_bytes: usize) -> bool {
        self.appended.load(Ordering::Relaxed) + record_bytes as u64 <= self.bytes
    }

    /// Appends a record and returns its offset. Its checksum covers the number that `place_at`
    /// makes of the offset. Only one thread may append at a time.
    ///
    /// # Errors
    /// The disk does not accept the bytes that were appended before, or does not respond. None of
    /// them are lost.
    pub(super) fn append(
        &self,
        value: &[u8],
        place_at: impl FnOnce(u64) -> u64,
    ) -> io::Result<u64> {
        let record_bytes = record_bytes(value.len());
        let mut tail = self.tail.lock();
        // Sectors of a write that failed go first, because the tail has room for one write only.
        if tail.leaving.is_some() || tail.used + record_bytes > self.buffer_bytes {
            tail = self.write_out(tail, false)?;
        }
        let start = self.appended.load(Ordering::Relaxed);
        let used = tail.used;
        debug_assert_eq!(
            start,
            tail.start + used as u64,
            "the tail ends where records end"
        );
        debug_assert!(
            start + record_bytes as u64 <= self.bytes,
            "the caller checks the room"
        );
        tail.buffer.lengthen(used + record_bytes);
        let record = tail.buffer.bytes_mut().get_mut(used..used + record_bytes);
        let record = record.unwrap_or_default();
        let (header, rest) = record.split_at_mut(HEADER_BYTES);
        // The place is part of the checksum, so that the bytes of another place are detected.
        let sum = checksum(value, place_at(start));
        header[..8].copy_from_slice(&(value.len() as u64).to_le_bytes());
        header[8..].copy_from_slice(&sum.to_le_bytes());
        rest[..value.len()].copy_from_slice(value);
        rest[value.len()..].fill(0);
        tail.used += record_bytes;
        // Counted before the place is known to another thread, which may release it at once.
        self.live_bytes
            .fetch_add(record_bytes as u64, Ordering::Relaxed);
        self.live_values.fetch_add(1, Ordering::Relaxed);
        let appended = start + record_bytes as u64;
        self.appended.store(appended, Ordering::Release);
        Ok(start)
    }

    /// Writes the sectors that are leaving, and then the full sectors of the buffer, or all of
    /// them. After an error these are leaving, and nothing is lost.
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
        debug_assert!(tail.leaving.is_none(), "no unwritten sectors are replaced");
        debug_assert!(tail.start.is_multiple_of(SECTOR_BYTES as u64));
        // The last sector is not full yet. It stays in memory, so that it is written only once.
        let mut rest = AlignedBuffer::default();
        if let Some(left) = tail.buffer.bytes().get(bytes..used) {
            rest.begin_with(left);
        }
        let start = tail.start;
        tail.start += bytes as u64;
        tail.used = used.saturating_sub(bytes);
        // If all sectors are written, the last may end with bytes of no record.
        self.appended
            .store(tail.start + tail.used as u64, Ordering::Release);
        tail.leaving = Some(UnwrittenSectors {
            buffer: Arc::new(std::mem::replace(&mut tail.buffer, rest)),
            start,
            bytes,
        });
        self.deliver(tail)
    }

    /// Makes the disk write the sectors that are leaving. The lock is not held meanwhile.
    fn deliver<'s>(&'s self, mut tail: MutexGuard<'s, Tail>) -> io::Result<MutexGuard<'s, Tail>> {
        let Some(leaving) = &tail.leaving else {
            return Ok(tail);
        };
        let (file, buffer) = (Arc::clone(&self.file), Arc::clone(&leaving.buffer));
        let (start, bytes) = (leaving.start, leaving.bytes);
        let write = move || file.write_at(buffer.bytes().get(..bytes).unwrap_or_default(), start);
        // Unlocked, so that values in memory can be read and released while the disk works.
        MutexGuard::unlocked(&mut tail, || self.write.run(write))?;
        // The tail gets its buffer back, so that no new one needs to grow. It begins with the bytes
        // that were appended meanwhile, less than a sector.
        let written = tail.leaving.take().map(|leaving| leaving.buffer);
        if let Some(mut buffer) = written.and_then(Arc::into_inner) {
            let used = tail.used;
            debug_assert!(used < SECTOR_BYTES, "all full sectors have left");
            buffer.begin_with(tail.buffer.bytes().get(..used).unwrap_or_default());
            tail.buffer = buffer;
        }
        Ok(tail)
    }

    /// Writes the rest of the buffer, because nothing more is appended, and returns the buffer.
    pub(super) fn finish(&self) -> io::Result<AlignedBuffer> {
        let mut tail = self.tail.lock();
        if tail.leaving.is_some() || tail.used > 0 {
            tail = self.write_out(tail, true)?;
        }
        Ok(std::mem::take(&mut tail.buffer))
    }

    /// Closes the segment, so that nothing more is appended.
    pub(super) fn close(&self) {
        self.is_open.store(false, Ordering::SeqCst);
    }

    /// Gives an empty segment the buffer of the one before, so that it does not need to grow one.
    pub(super) fn begin_with(&self, buffer: AlignedBuffer) {
        self.tail.lock().buffer = buffer;
    }

    /// Reads a record of `value_bytes` that begins at `start` and appends its value to `out`.
    /// `place` is the number that its checksum covers. Returns false if the bytes differ from those
    /// that were written.
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

    /// Copies the part of a record that is in memory to `scratch`, and returns the part that must
    /// be read from the disk. Returns `None` if the record was never written.
    pub(super) fn prepare(
        &self,
        start: u64,
        value_bytes: usize,
        scratch: &mut AlignedBuffer,
    ) -> Option<DiskRecordPart> {
        let end = start + (HEADER_BYTES + value_bytes) as u64;
        let first = start / SECTOR_BYTES as u64 * SECTOR_BYTES as u64;
        let lead = (start - first) as usize;
        let wanted = (end - first) as usize;
        scratch.lengthen(wanted);
        // The part in memory is copied now, under the lock; the part before it does not change any
        // more.
        let tail = self.tail.lock();
        let on_disk = end.min(tail.end_of_disk()).saturating_sub(first) as usize;
        let rest = scratch.bytes_mut().get_mut(on_disk..wanted);
        tail.copy(first + on_disk as u64, rest.unwrap_or_default())?;
        // Bytes from the buffer begin at a sector, so whole sectors are read before them.
        let disk_bytes = match lead < on_disk {
            true => on_disk.next_multiple_of(SECTOR_BYTES),
            false => 0,
        };
        Some(DiskRecordPart {
            first,
            lead,
            wanted,
            disk_bytes,
        })
    }

    /// Returns the descriptor of the file, for a ring to read it.
    pub(super) fn file_descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.descriptor()
    }

    #[cfg(test)]
    pub(super) fn is_unlocked(&self) -> bool {
        self.tail.try_lock().is_some()
    }

    #[cfg(test)]
    pub(super) fn file(&self) -> &dyn TierFile {
        &*self.file
    }

    /// Counts that a value was released.
    pub(super) fn release(&self, value_bytes: usize) {
        let bytes = record_bytes(value_bytes) as u64;
        self.live_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.live_values.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live_values.load(Ordering::SeqCst) == 0
    }

    /// Returns true if nothing is appended any more, and no value is left.
    pub(super) fn is_finished(&self) -> bool {
        // The thread that releases the last value and the thread that closes the segment both ask
        // this after their own store. Both stores are sequentially consistent, so that at least one
        // of the two threads sees that the segment can be freed.
        !self.is_open.load(Ordering::SeqCst) && self.is_empty()
    }

    /// Returns true if nothing is appended any more, and less than half of the appended bytes is in
    /// use.
    pub(super) fn is_sparse(&self) -> bool {
        !self.is_open.load(Ordering::Relaxed)
            && self.live_bytes.load(Ordering::Relaxed) * 2 < self.appended.load(Ordering::Relaxed)
    }
}

/// The part of a record that must be read from the disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskRecordPart {
    /// Offset in the file of the sector in which the record begins.
    pub(super) first: u64,
    /// Offset of the record in that sector.
    lead: usize,
    /// Offset of the record's end from the beginning of the sector.
    wanted: usize,
    /// Number of bytes to be read from the first sector on, in whole sectors; 0 if all of the
    /// record was in memory.
    pub(super) disk_bytes: usize,
}

/// Appends the value of a record that was read to `out`. Returns false if the bytes differ from
/// those that were written.
pub(super) fn check(
    part: &DiskRecordPart,
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

/// Returns the checksum of a value at a place.
fn checksum(value: &[u8], place: u64) -> u64 {
    xxh3_64_with_seed(value, place)
}
