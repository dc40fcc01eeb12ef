//! The file system of the log and the snapshots. Tests replace it by one that fails.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// The file-system operations for writing.
pub trait PersistenceDisk: Debug + Send + Sync {
    /// Creates a new, empty file in place of an existing one.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn PersistenceFile>>;
    /// Opens an existing file, to be written at its end.
    fn append(&self, path: &Path) -> io::Result<Arc<dyn PersistenceFile>>;
    /// Renames a file, and replaces an existing one.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Deletes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable on the medium.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// A file that is written at its end. One thread writes at a time; another may sync meanwhile.
pub trait PersistenceFile: Debug + Send + Sync {
    /// Writes some of `bytes`, and returns their number.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Makes the written bytes durable on the medium. After an error it is unknown which bytes are,
    /// and a further call does not help.
    fn sync(&self) -> io::Result<()>;
    /// Truncates the file.
    fn truncate(&self, length: u64) -> io::Result<()>;
}

/// Writes all of `bytes`.
///
/// # Errors
/// Those of the file, which may then contain a part of them.
pub fn write_all(file: &dyn PersistenceFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                debug_assert!(count <= bytes.len(), "a file writes what it was given");
                bytes = bytes.get(count..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// This machine's file system.
#[derive(Debug)]
pub struct RealPersistenceDisk;

impl PersistenceDisk for RealPersistenceDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn PersistenceFile>> {
        // The file is opened for appending, so that a write after `truncate` leaves no hole.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(path)?;
        Ok(Arc::new(file))
    }

    fn append(&self, path: &Path) -> io::Result<Arc<dyn PersistenceFile>> {
        Ok(Arc::new(OpenOptions::new().append(true).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

impl PersistenceFile for File {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self;
        Write::write(&mut file, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        // The length of the file is synced as well, and loading needs no times.
        self.sync_data()
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}
