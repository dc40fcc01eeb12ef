//! A file system with faults, which a test sets or which occur by chance.

use nearfield_server::disk::{PersistenceDisk, PersistenceFile, RealPersistenceDisk};
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// No space left on device.
pub const ENOSPC: i32 = 28;
/// Input/output error.
pub const EIO: i32 = 5;

/// The faults of a disk.
#[derive(Debug, Default)]
pub struct DiskFaults {
    /// Number of bytes that can still be written until there is no space.
    pub space: Option<u64>,
    /// Error of all writes.
    pub writes: Option<i32>,
    /// Number of writes that succeed; later ones fail because there is no space.
    pub writes_left: Option<u64>,
    /// Error of all syncs. The bytes written since the last sync are lost.
    pub syncs: Option<i32>,
    /// Error of truncating files.
    pub truncates: Option<i32>,
    /// Error of creating, renaming and deleting files, and of syncing directories.
    pub names: Option<i32>,
    /// Error of syncing directories.
    pub directories: Option<i32>,
    /// Largest number of bytes that one write takes.
    pub short: Option<usize>,
    /// Faults that come and go by chance.
    pub chance: Option<RandomDiskFaults>,
    /// Number of operations that have failed.
    pub failed: u64,
}

/// Faults that come and go by chance.
#[derive(Debug)]
pub struct RandomDiskFaults {
    random: SmallRng,
    /// Number of further operations that fail.
    burst: u32,
}

impl RandomDiskFaults {
    /// Creates faults that follow from a seed.
    pub fn new(seed: u64) -> RandomDiskFaults {
        RandomDiskFaults {
            random: SmallRng::seed_from_u64(seed),
            burst: 0,
        }
    }

    fn fails(&mut self, of: u32) -> Option<i32> {
        if self.burst == 0 && self.random.random_range(0..of) == 0 {
            self.burst = 1 << self.random.random_range(0..4);
        }
        self.burst = self.burst.checked_sub(1)?;
        Some(if self.random.random() { ENOSPC } else { EIO })
    }
}

/// A file system with [`DiskFaults`]. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct FaultyDisk {
    /// The present faults.
    pub faults: Arc<Mutex<DiskFaults>>,
}

#[derive(Debug)]
struct FaultyFile {
    file: Arc<dyn PersistenceFile>,
    path: PathBuf,
    synced: Mutex<u64>,
    faults: Arc<Mutex<DiskFaults>>,
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |data| data.len())
}

impl FaultyDisk {
    fn wrap(&self, path: &Path, file: Arc<dyn PersistenceFile>) -> Arc<dyn PersistenceFile> {
        Arc::new(FaultyFile {
            file,
            path: path.to_owned(),
            // The bytes of an earlier run are on the medium.
            synced: Mutex::new(length(path)),
            faults: Arc::clone(&self.faults),
        })
    }

    fn check_names(&self) -> io::Result<()> {
        let mut faults = self.faults.lock();
        let chance = faults.chance.as_mut().and_then(|chance| chance.fails(40));
        let failure = faults.names.or(chance);
        faults.fail(failure)
    }
}

impl DiskFaults {
    fn fail(&mut self, error: Option<i32>) -> io::Result<()> {
        match error {
            Some(error) => {
                self.failed += 1;
                Err(io::Error::from_raw_os_error(error))
            }
            None => Ok(()),
        }
    }
}

impl PersistenceDisk for FaultyDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn PersistenceFile>> {
        self.check_names()?;
        Ok(self.wrap(path, RealPersistenceDisk.create(path)?))
    }

    fn append(&self, path: &Path) -> io::Result<Arc<dyn PersistenceFile>> {
        Ok(self.wrap(path, RealPersistenceDisk.append(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check_names()?;
        RealPersistenceDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check_names()?;
        RealPersistenceDisk.remove(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.check_names()?;
        let mut faults = self.faults.lock();
        let failure = faults.directories;
        faults.fail(failure)?;
        drop(faults);
        RealPersistenceDisk.sync_directory(path)
    }
}

impl PersistenceFile for FaultyFile {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut faults = self.faults.lock();
        let mut count = bytes.len();
        if let Some(chance) = &mut faults.chance {
            // A part is written before the failure.
            if chance.random.random_range(0..4) == 0 {
                count = chance.random.random_range(1..=count);
            }
            let failure = chance.fails(60);
            faults.fail(failure)?;
        }
        let writes = faults.writes;
        faults.fail(writes)?;
        match &mut faults.writes_left {
            Some(0) => faults.fail(Some(ENOSPC))?,
            Some(left) => *left -= 1,
            None => {}
        }
        count = count.min(faults.short.unwrap_or(count));
        if let Some(space) = &mut faults.space {
            count = count.min(usize::try_from(*space).unwrap_or(count));
            *space -= count as u64;
            if count == 0 {
                faults.fail(Some(ENOSPC))?;
            }
        }
        drop(faults);
        debug_assert!(count <= bytes.len());
        self.file.write(&bytes[..count])
    }

    fn sync(&self) -> io::Result<()> {
        let failure = {
            let mut faults = self.faults.lock();
            let chance = faults.chance.as_mut().and_then(|chance| chance.fails(60));
            let failure = faults.syncs.or(chance);
            faults.fail(failure)
        };
        if let Err(error) = failure {
            // The worst case: no page that was not synced before is on the medium.
            self.file.truncate(*self.synced.lock())?;
            return Err(error);
        }
        let length = length(&self.path);
        self.file.sync()?;
        let mut synced = self.synced.lock();
        *synced = length.max(*synced);
        Ok(())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        {
            let mut faults = self.faults.lock();
            let chance = faults.chance.as_mut().and_then(|chance| chance.fails(20));
            let failure = faults.truncates.or(chance);
            faults.fail(failure)?;
        }
        self.file.truncate(length)
    }
}
