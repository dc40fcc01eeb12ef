//! A disk for tiers with faults that a test sets.

use nearfield_tiers::disk::{RealTierDisk, TierDisk, TierFile};
use parking_lot::{Mutex, MutexGuard};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The faults of a disk of tiers, each with the system's error.
#[derive(Debug, Default)]
pub struct TierFaults {
    /// Error of creating files.
    pub creates: Option<i32>,
    /// Error of all reads.
    pub reads: Option<i32>,
    /// True if reads by the kernel's ring fail with `EIO`, and other reads do not.
    pub ring_reads: bool,
    /// Error of writes, after half of their bytes are written.
    pub writes: Option<i32>,
    /// True while no operation returns.
    pub hangs: bool,
    /// True if reads return wrong bytes.
    pub flips: bool,
    /// Number of operations that have failed or returned wrong bytes.
    pub failed: u64,
}

impl TierFaults {
    fn fail(&mut self, error: Option<i32>) -> io::Result<()> {
        error.map_or(Ok(()), |error| {
            self.failed += 1;
            Err(io::Error::from_raw_os_error(error))
        })
    }
}

/// A disk with [`TierFaults`]. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct FaultyTierDisk {
    /// The present faults.
    pub faults: Arc<Mutex<TierFaults>>,
}

#[derive(Debug)]
struct FaultyTierFile {
    file: Box<dyn TierFile>,
    /// An unmapped part of this process's memory: the kernel returns `EIO` for reads of it.
    unreadable: File,
    faults: Arc<Mutex<TierFaults>>,
}

/// Returns the faults of a disk, once it does not hang.
fn answer(faults: &Mutex<TierFaults>) -> MutexGuard<'_, TierFaults> {
    loop {
        let faults = faults.lock();
        if !faults.hangs {
            return faults;
        }
        drop(faults);
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl TierDisk for FaultyTierDisk {
    fn create(&self, folder: &Path, bytes: u64) -> io::Result<Box<dyn TierFile>> {
        let mut faults = answer(&self.faults);
        let creates = faults.creates;
        faults.fail(creates)?;
        Ok(Box::new(FaultyTierFile {
            file: RealTierDisk.create(folder, bytes)?,
            unreadable: File::open("/proc/self/mem")?,
            faults: Arc::clone(&self.faults),
        }))
    }

    fn free_bytes(&self, folder: &Path) -> io::Result<Option<u64>> {
        RealTierDisk.free_bytes(folder)
    }
}

impl TierFile for FaultyTierFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut faults = answer(&self.faults);
        let reads = faults.reads;
        faults.fail(reads)?;
        self.file.read_at(buffer, offset)?;
        if faults.flips {
            faults.failed += 1;
            buffer.iter_mut().for_each(|byte| *byte ^= 0x10);
        }
        Ok(())
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        const SECTOR: usize = 4096;
        let mut faults = answer(&self.faults);
        let writes = faults.writes;
        if writes.is_some() {
            // The file may be open for direct writes, which take whole sectors.
            let half = buffer.len() / 2 / SECTOR * SECTOR;
            self.file
                .write_at(buffer.get(..half).unwrap_or_default(), offset)?;
        }
        faults.fail(writes)?;
        self.file.write_at(buffer, offset)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let mut faults = self.faults.lock();
        if faults.ring_reads {
            faults.failed += 1;
            return Some(self.unreadable.as_fd());
        }
        // The faults that the kernel does not produce are those of `read_at`.
        let is_sound = faults.reads.is_none() && !faults.flips && !faults.hangs;
        is_sound.then(|| self.file.descriptor())?
    }
}
