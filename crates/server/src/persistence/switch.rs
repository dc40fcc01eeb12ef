//! The switching of the log on and off while the server runs (`CONFIG SET appendonly`).
//!
//! The parameter says if a log is wanted; the thread that takes snapshots creates or ends it, and
//! retries after a failure.
//!
//! *On*: at one instant a snapshot begins, and commands are logged from then on. When the snapshot
//! is on the medium, a manifest names it as the base, and the log after it. Until then,
//! acknowledged writes are as safe as without a log.
//!
//! *Off*: the content of the log is made safe, and nothing is logged any more. The next start reads
//! the log through its manifest, until a newer dump is saved; then the manifest names no log, and
//! the log's files are deleted.

use super::create_log;
use crate::disk::PersistenceDisk;
use crate::keyspace::snapshot;
use crate::log::manifest::{Manifest, base_name, log_name, numbered_files};
use crate::server::{DirectoryLock, ServerCore};
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Returns true if a log is wanted.
pub(super) fn is_wanted(server: &ServerCore) -> bool {
    server.config.is_on("appendonly")
}

/// Makes the directory ready for a log.
///
/// # Errors
/// The directory cannot be used; the text names the reason.
pub fn prepare(server: &ServerCore) -> Result<(), String> {
    let directory = server.options.persistence.directory();
    let text = |error: io::Error| format!("{}: {error}", directory.display());
    let mut state = server.persistence.state.lock();
    if state.lock.is_some() {
        return Ok(());
    }
    std::fs::create_dir_all(directory).map_err(text)?;
    let lock = DirectoryLock::take(&directory.join("nearfield.lock")).map_err(text)?;
    let Some(lock) = lock else {
        return Err(format!(
            "another server uses the directory {}",
            directory.display()
        ));
    };
    let manifest = Manifest::read(directory).map_err(|error| error.to_string())?;
    let numbers = numbered_files(directory).map_err(text)?;
    let is_unread = match &manifest {
        Some(manifest) => manifest.has_log(),
        None => !numbers.is_empty(),
    };
    if is_unread {
        return Err(format!(
            "the directory {} has a log that was not read; start with --dir to read it",
            directory.display()
        ));
    }
    let last = numbers.iter().map(|(_, number)| *number).max();
    state.next_number = last.unwrap_or(0) + 1;
    state.lock = Some(lock);
    Ok(())
}

/// Begins to log, after a base of the data in memory.
///
/// # Errors
/// Those of the disk. There is no log then.
pub(super) fn turn_on(server: &ServerCore) -> io::Result<()> {
    debug_assert!(!server.log.is_on());
    let options = &server.options.persistence;
    let (disk, directory) = (&*options.disk, options.directory());
    let (number, before) = {
        let mut state = server.persistence.state.lock();
        state.next_number += 1;
        (state.next_number - 1, state.manifest.clone())
    };
    let (base, log) = (base_name(number), log_name(number));
    debug_assert!(!before.holds(&base) && !before.holds(&log));
    let begun = before.clone().with_begun(number);
    let created = begun
        .replace(disk, directory)
        .and_then(|()| create_log(disk, directory.join(&log)));
    let result = created.and_then(|file| {
        // The base has all commands before this instant, and the log all later ones.
        let at_instant = || {
            server.log.open(server.log.policy(), file);
            server.keyspace.set_logging(true);
            server.functions.codes()
        };
        let is_stopping = || server.stopping.load(Ordering::Acquire);
        let path = directory.join(&base);
        let taken = snapshot::take(&server.keyspace, disk, &path, at_instant, is_stopping)?;
        let manifest = Manifest::of(Some(base.clone()), vec![log.clone()]);
        manifest.replace(disk, directory)?;
        let mut state = server.persistence.state.lock();
        state.manifest = manifest;
        state.status.base_bytes = taken.bytes;
        Ok(())
    });
    if result.is_err() {
        close(server);
        // The new manifest may be in place, and come back after a power failure. The files that it
        // names are then complete, and stay until another manifest is on the medium.
        if before.replace(disk, directory).is_ok() {
            for name in [base, log] {
                // A file that stays only wastes space.
                let _ = disk.remove(&directory.join(name));
            }
        }
    }
    result
}

/// Ends logging.
pub(super) fn close(server: &ServerCore) {
    let databases = server.keyspace.exclude();
    server.log.close();
    server.keyspace.set_logging(false);
    drop(databases);
}

/// Returns true if the next start would read a log that is no longer written.
pub(super) fn is_outdated(server: &ServerCore) -> bool {
    !server.log.is_on() && server.persistence.state.lock().manifest.has_log()
}

/// Makes the next start read the dump that was just saved, if the log is outdated.
///
/// # Errors
/// Those of the disk. The next start then reads either of them.
pub(super) fn retire_outdated(server: &ServerCore) -> io::Result<()> {
    if is_outdated(server) {
        let options = &server.options.persistence;
        let manifest = server.persistence.state.lock().manifest.clone();
        retire(&*options.disk, options.directory(), &manifest)?;
        server.persistence.state.lock().manifest = Manifest::default();
    }
    Ok(())
}

/// Replaces the manifest of a directory by one that names no log, and deletes the files of the log
/// that it named.
///
/// # Errors
/// Those of the disk. The manifest may still name the log.
pub(super) fn retire(
    disk: &dyn PersistenceDisk,
    directory: &Path,
    manifest: &Manifest,
) -> io::Result<()> {
    // Before the files go: a manifest must not name files that are missing.
    Manifest::default().replace(disk, directory)?;
    for name in manifest.logs.iter().chain(&manifest.base) {
        // A file that stays only wastes space.
        let _ = disk.remove(&directory.join(name));
    }
    Ok(())
}
