//! A tier in files on an SSD.
//!
//! Values are appended to *segments*, files of one size. A value is found by its segment, its
//! offset there and its length, so that one read of the disk is enough. The bytes appended last are
//! in a buffer until the buffer is written as a whole. A segment whose values are all released is
//! freed. A segment that is mostly released [asks](FileTier::wants_rewrite) the store to put the
//! rest again, into another segment.
//!
//! Threads that append wait for the disk, for [`PATIENCE`](crate::disk::PATIENCE) at most, and so
//! do threads that read it. A thread that serves clients waits less, and the disk goes on without
//! it. While the disk does not respond, nothing more is appended, but threads that release values
//! or read them from memory continue.
//!
//! Each record has a checksum over its place and its bytes. It detects a disk that returns other
//! bytes, or the bytes of another place.
//!
//! Nothing is left of the files when the process ends (see [`TierDisk`]).

mod buffer;
mod patient;
mod read;
mod ring;
mod segment;

pub use read::PendingTierRead;
pub use ring::TierReadRing;

use crate::disk::{TierDisk, TierFile};
use crate::error::TierOpenError;
use crate::place::ColdPlace;
use crate::specification::{MIN_BYTES, Specification};
use crate::usage::{ReadError, TierRefusal, TierUsage};
use parking_lot::{Mutex, RwLock};
use patient::OneAtATime;
use segment::TierFileSegment;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of bytes of a sector. The disk is read and written in whole sectors.
pub(crate) const SECTOR_BYTES: usize = 4096;
/// Alignment of records in a segment.
const UNIT_BYTES: usize = 16;
/// Number of bytes of a record's length and checksum, before its value.
const HEADER_BYTES: usize = 16;
/// Number of bytes of the largest segment.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// Minimum number of segments of a tier.
const SEGMENTS_MIN: u64 = 16;
/// Maximum number of bytes of the buffer for the bytes appended last.
const BUFFER_BYTES_MAX: usize = 1 << 20;

/// Number of bits of each part of a place, from the lowest: the length of the value, the unit at
/// which its record begins, and the segment.
const LENGTH_BITS: u32 = 20;
const UNIT_BITS: u32 = 22;
const SEGMENT_BITS: u32 = 56 - LENGTH_BITS - UNIT_BITS;
/// Marker for a length that is stored in `long` instead.
const LONG: u64 = (1 << LENGTH_BITS) - 1;

const _: () = assert!(
    HEADER_BYTES == 2 * size_of::<u64>(),
    "a header is two numbers"
);
const _: () = assert!(
    SEGMENT_BYTES_MAX / UNIT_BYTES as u64 <= 1 << UNIT_BITS,
    "a place can name each unit of a segment"
);
const _: () = assert!(
    MIN_BYTES / SEGMENTS_MIN >= SECTOR_BYTES as u64,
    "the segments of the smallest tier are not empty"
);

/// A tier in files. All threads may use it at once.
#[derive(Debug)]
pub struct FileTier {
    tier: usize,
    folder: PathBuf,
    disk: Arc<dyn TierDisk>,
    segment_bytes: u64,
    /// Number of segments that the tier may have.
    segments_max: usize,
    segments: RwLock<TierSegmentTable>,
    open: Mutex<Option<OpenSegment>>,
    /// The creation of the next file.
    creation: OneAtATime<Box<dyn TierFile>>,
    /// The lengths of values that are too long for the bits of their place.
    long: Mutex<HashMap<ColdPlace, usize>>,
    values: AtomicU64,
    value_bytes: AtomicU64,
}

/// The segments by number.
#[derive(Debug, Default)]
struct TierSegmentTable {
    list: Vec<Option<Arc<TierFileSegment>>>,
    count: usize,
}

/// The segment to which values are appended.
#[derive(Debug)]
struct OpenSegment {
    number: usize,
    segment: Arc<TierFileSegment>,
}

/// Reason for which a folder cannot hold a tier.
#[derive(Debug)]
pub(crate) enum FolderError {
    Io(PathBuf, io::Error),
    TooSmall(PathBuf, u64),
}

impl FolderError {
    /// Converts the error for a tier in memory, which has no folder.
    pub(crate) fn of_memory(self, tier: &Specification) -> TierOpenError {
        let source = match self {
            FolderError::Io(_, source) => source,
            FolderError::TooSmall(..) => io::ErrorKind::OutOfMemory.into(),
        };
        let tier = tier.to_string();
        TierOpenError::Memory { tier, source }
    }

    pub(crate) fn of(self, tier: &Specification) -> TierOpenError {
        let tier = tier.to_string();
        match self {
            FolderError::Io(folder, source) => TierOpenError::Folder {
                tier,
                folder,
                source,
            },
            FolderError::TooSmall(folder, free_bytes) => TierOpenError::DiskTooSmall {
                tier,
                folder,
                free_bytes,
            },
        }
    }
}

impl FileTier {
    /// Opens an empty tier in a folder of a disk. The folder must exist.
    pub(crate) fn open(
        tier: usize,
        folder: &Path,
        capacity_bytes: u64,
        disk: Arc<dyn TierDisk>,
    ) -> Result<FileTier, FolderError> {
        let failed = |error| FolderError::Io(folder.to_owned(), error);
        if let Some(free) = disk.free_bytes(folder).map_err(failed)?
            && free < capacity_bytes
        {
            return Err(FolderError::TooSmall(folder.to_owned(), free));
        }
        let segment_bytes = (capacity_bytes / SEGMENTS_MIN).min(SEGMENT_BYTES_MAX);
        let segment_bytes = segment_bytes / SECTOR_BYTES as u64 * SECTOR_BYTES as u64;
        // Tests now that a file can be created, not when the first value moves.
        drop(disk.create(folder, segment_bytes).map_err(failed)?);
        Ok(FileTier {
            tier,
            folder: folder.to_owned(),
            disk,
            segment_bytes,
            // Places cannot name more segments.
            segments_max: ((capacity_bytes / segment_bytes) as usize).min(1 << SEGMENT_BITS),
            segments: RwLock::default(),
            open: Mutex::new(None),
            creation: OneAtATime::default(),
            long: Mutex::default(),
            values: AtomicU64::new(0),
            value_bytes: AtomicU64::new(0),
        })
    }

    /// Returns the usage of the tier. The used bytes are those of whole segments.
    pub fn usage(&self) -> TierUsage {
        let segments = self.segments.read();
        TierUsage {
            capacity_bytes: self.segments_max as u64 * self.segment_bytes,
            used_bytes: segments.count as u64 * self.segment_bytes,
            dictionary_bytes: 0,
            values: self.values.load(Ordering::Relaxed),
            value_bytes: self.value_bytes.load(Ordering::Relaxed),
        }
    }

    /// Returns the number of values in the tier.
    pub(crate) fn values(&self) -> u64 {
        self.values.load(Ordering::Relaxed)
    }

    /// Puts values and returns their places, in the same order.
    ///
    /// # Errors
    /// The tier refuses a value; none of them is put then.
    pub fn put(&self, values: &[&[u8]]) -> Result<Vec<ColdPlace>, TierRefusal> {
        let mut places = Vec::with_capacity(values.len());
        for value in values {
            match self.append(value) {
                Ok(place) => places.push(place),
                Err(error) => {
                    // The store records all places or none; a place without a record would stay.
                    places.into_iter().for_each(|place| self.release(place));
                    return Err(error);
                }
            }
        }
        Ok(places)
    }

    fn append(&self, value: &[u8]) -> Result<ColdPlace, TierRefusal> {
        let record_bytes = record_bytes(value.len());
        let limit = self.segment_bytes as usize - HEADER_BYTES;
        if value.len() > limit || value.len() > u32::MAX as usize {
            let bytes = value.len();
            return Err(TierRefusal::TooLarge { bytes, limit });
        }
        // One thread appends at a time, also while it waits for the disk. Reads and releases do not
        // take this lock.
        let mut open = self.open.lock();
        let disk = |source| TierRefusal::Disk {
            path: self.folder.clone(),
            source,
        };
        if open
            .as_ref()
            .is_none_or(|open| !open.segment.has_room(record_bytes))
        {
            if let Some(full) = open.take_if(|full| full.segment.is_empty()) {
                // All its values were released. Once closed, it makes room for the next segment.
                self.close(&full);
            }
            // While no other segment can be added, shorter values may still fit into this one.
            let next = self.begin_segment()?;
            if let Some(full) = open.as_ref() {
                match full.segment.finish() {
                    Ok(buffer) => next.segment.begin_with(buffer),
                    Err(error) => {
                        // The full segment stays open, because only memory has its last bytes.
                        self.close(&next);
                        return Err(disk(error));
                    }
                }
            }
            if let Some(full) = open.replace(next) {
                self.close(&full);
            }
        }
        let Some(OpenSegment { number, segment }) = open.as_ref() else {
            return Err(TierRefusal::Full);
        };
        let length = (value.len() as u64).min(LONG);
        debug_assert!(*number < 1 << SEGMENT_BITS, "a place can name the segment");
        let place = |start: u64| {
            debug_assert!(
                start.is_multiple_of(UNIT_BYTES as u64),
                "a place names a unit"
            );
            let unit = start / UNIT_BYTES as u64;
            let inner = (((*number as u64) << UNIT_BITS) | unit) << LENGTH_BITS;
            ColdPlace::new(self.tier, inner | length)
        };
        let start = segment
            .append(value, |start| place(start).to_bits())
            .map_err(disk)?;
        if length == LONG {
            // No other thread knows the place yet, so its length may follow the record.
            self.long.lock().insert(place(start), value.len());
        }
        self.values.fetch_add(1, Ordering::Relaxed);
        self.value_bytes
            .fetch_add(value.len() as u64, Ordering::Relaxed);
        Ok(place(start))
    }

    /// Adds a segment. The caller must hold the lock of `open`, so that no other thread adds one
    /// meanwhile.
    fn begin_segment(&self) -> Result<OpenSegment, TierRefusal> {
        debug_assert!(
            self.open.is_locked(),
            "two threads would exceed the capacity"
        );
        if self.segments.read().count >= self.segments_max {
            return Err(TierRefusal::Full);
        }
        let buffer_bytes = (self.segment_bytes as usize / 4).clamp(SECTOR_BYTES, BUFFER_BYTES_MAX);
        let buffer_bytes = buffer_bytes / SECTOR_BYTES * SECTOR_BYTES;
        let (disk, folder) = (Arc::clone(&self.disk), self.folder.clone());
        let segment_bytes = self.segment_bytes;
        let create = move || disk.create(&folder, segment_bytes);
        // The table is not locked meanwhile, so that reads go on while the disk creates the file.
        let created = self.creation.run(create);
        let file = created.map_err(|source| TierRefusal::Disk {
            path: self.folder.clone(),
            source,
        })?;
        let segment = Arc::new(TierFileSegment::new(file, self.segment_bytes, buffer_bytes));
        let mut segments = self.segments.write();
        // Numbers are used again, so that they never need more bits than a place has.
        let free = segments.list.iter().position(Option::is_none);
        let number = free.unwrap_or(segments.list.len());
        match segments.list.get_mut(number) {
            Some(entry) => *entry = Some(Arc::clone(&segment)),
            None => segments.list.push(Some(Arc::clone(&segment))),
        }
        segments.count += 1;
        debug_assert!(segments.count <= self.segments_max);
        Ok(OpenSegment { number, segment })
    }

    fn segment(&self, number: usize) -> Option<Arc<TierFileSegment>> {
        self.segments.read().list.get(number)?.clone()
    }

    /// Appends the value at a place to `out`. Reads the disk once, or not at all if the value is in
    /// the buffer.
    ///
    /// # Errors
    /// The value cannot be read, or is not what was written.
    pub fn read(&self, place: ColdPlace, out: &mut Vec<u8>) -> Result<(), ReadError> {
        let pending = self.pending(place).ok_or(ReadError::Absent)?;
        pending.run(out)
    }

    /// Returns the length of the value at a place.
    fn length(&self, place: ColdPlace) -> Option<usize> {
        match place.inner() & LONG {
            LONG => self.long.lock().get(&place).copied(),
            length => Some(length as usize),
        }
    }

    /// Returns the read of a value, for another thread to run.
    pub fn pending(&self, place: ColdPlace) -> Option<PendingTierRead> {
        let (number, start) = take_apart(place);
        Some(PendingTierRead {
            segment: self.segment(number)?,
            place,
            start,
            value_bytes: self.length(place)?,
        })
    }

    /// Releases the value at a place. Call it once for each place.
    pub fn release(&self, place: ColdPlace) {
        let (number, _) = take_apart(place);
        let (Some(segment), Some(length)) = (self.segment(number), self.length(place)) else {
            return;
        };
        if length as u64 >= LONG {
            self.long.lock().remove(&place);
        }
        self.values.fetch_sub(1, Ordering::Relaxed);
        self.value_bytes.fetch_sub(length as u64, Ordering::Relaxed);
        segment.release(length);
        if segment.is_finished() {
            self.give_back(number);
        }
    }

    /// Closes a segment, so that nothing more is appended to it.
    fn close(&self, open: &OpenSegment) {
        open.segment.close();
        if open.segment.is_finished() {
            self.give_back(open.number);
        }
    }

    /// Frees a segment without values, unless values are still appended to it.
    fn give_back(&self, number: usize) {
        let mut segments = self.segments.write();
        // Asked again under the lock: another thread may have freed the segment, and its number may
        // be that of another one by now.
        if let Some(entry) = segments.list.get_mut(number)
            && entry.as_ref().is_some_and(|segment| segment.is_finished())
        {
            *entry = None;
            segments.count -= 1;
        }
    }

    /// Returns true if the segment of a place is mostly unused, so that the tier uses less once the
    /// value is put again.
    pub fn wants_rewrite(&self, place: ColdPlace) -> bool {
        let (number, _) = take_apart(place);
        self.segment(number).is_some_and(|it| it.is_sparse())
    }
}

/// Returns the bytes that a value occupies in a segment.
fn record_bytes(value_bytes: usize) -> usize {
    (HEADER_BYTES + value_bytes).next_multiple_of(UNIT_BYTES)
}

/// Returns the segment of a place, and the offset of its record there.
fn take_apart(place: ColdPlace) -> (usize, u64) {
    let inner = place.inner() >> LENGTH_BITS;
    let unit = inner & ((1 << UNIT_BITS) - 1);
    ((inner >> UNIT_BITS) as usize, unit * UNIT_BYTES as u64)
}

#[cfg(test)]
mod tests;
