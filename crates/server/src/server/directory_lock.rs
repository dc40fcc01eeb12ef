//! The lock of a directory.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

/// A lock that keeps other servers from using a directory. It ends when this is dropped.
#[derive(Debug)]
pub struct DirectoryLock(File);

impl DirectoryLock {
    /// Takes the lock of a file, which is created. Returns `None` if another server holds it.
    ///
    /// # Errors
    /// The file cannot be opened or locked.
    pub fn take(path: &Path) -> io::Result<Option<DirectoryLock>> {
        let mut options = File::options();
        let file = options
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)?;
        // The file itself is no lock, because a server that is killed leaves it behind.
        match file.try_lock() {
            Ok(()) => Ok(Some(DirectoryLock(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that another thread starts meanwhile has it
        // open, too, until it runs its program, and would keep the lock until then.
        if let Err(error) = self.0.unlock() {
            tracing::error!("cannot release the directory lock: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_one_servers_and_ends_also_if_a_new_process_has_the_file_open() {
        let folder = std::env::temp_dir().join(format!("nearfield-lock-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("lock");
        let lock = DirectoryLock::take(&path).unwrap().unwrap();
        assert!(DirectoryLock::take(&path).unwrap().is_none());
        // A process that is about to run its program has the file open like this.
        let open = lock.0.try_clone().unwrap();
        drop(lock);
        assert!(DirectoryLock::take(&path).unwrap().is_some());
        drop(open);
        let error = DirectoryLock::take(&folder.join("no/such")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
