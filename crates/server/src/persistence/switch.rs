//! Turning the log on and off while the server runs (`CONFIG SET appendonly`).
//!
//! The parameter says whether there is to be a log; the thread that takes snapshots brings that
//! about, and tries again after a failure.
//!
//! *On*: at one instant a snapshot begins, and commands are logged from then on. When the snapshot
//! is on the medium, a manifest names it as the base, and the log behind it. What is acknowledged
//! until then is as safe as without a log.
//!
//! *Off*: what is in the log is made safe, and nothing is logged any more. The log's manifest is
//! what the next start reads, until a dump is saved that holds more; then it names no log, and the
//! log's files are deleted.

use super::create_log;
use crate::disk::Disk;
use crate::keyspace::snapshot;
use crate::log::manifest::{Manifest, base_name, log_name, numbered_files};
use crate::server::{DirectoryLock, Server};
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

/// True if there is to be a log.
pub(super) fn is_wanted(server: &Server) -> bool {
    server.config.is_on("appendonly")
}

/// Makes the directory ready for a log.
///
/// # Errors
/// It cannot be used, for what reason.
pub fn prepare(server: &Server) -> Result<(), String> {
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
            "there is a log in the directory {} that was not read; --dir at the start reads it",
            directory.display()
        ));
    }
    let last = numbers.iter().map(|(_, number)| *number).max();
    state.next_number = last.unwrap_or(0) + 1;
    state.lock = Some(lock);
    Ok(())
}

/// Begins to log, behind a base of what is in memory.
///
/// # Errors
/// Those of the disk. There is no log then.
pub(super) fn turn_on(server: &Server) -> io::Result<()> {
    let options = &server.options.persistence;
    let (disk, directory) = (&*options.disk, options.directory());
    let (number, before) = {
        let mut state = server.persistence.state.lock();
        state.next_number += 1;
        (state.next_number - 1, state.manifest.clone())
    };
    let (base, log) = (base_name(number), log_name(number));
    let begun = before.clone().with_begun(number);
    let created = begun
        .replace(disk, directory)
        .and_then(|()| create_log(disk, directory.join(&log)));
    let result = created.and_then(|file| {
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
        // The new one may be in place, and come back after a power failure. The files that it names
        // are complete then, and stay until another manifest is on the medium.
        if before.replace(disk, directory).is_ok() {
            for name in [base, log] {
                // Only a waste of space if it stays.
                let _ = disk.remove(&directory.join(name));
            }
        }
    }
    result
}

/// Ends logging.
pub(super) fn close(server: &Server) {
    let databases = server.keyspace.exclude();
    server.log.close();
    server.keyspace.set_logging(false);
    drop(databases);
}

/// True if the next start would read a log that is not written any more.
pub(super) fn is_outdated(server: &Server) -> bool {
    !server.log.is_on() && server.persistence.state.lock().manifest.has_log()
}

/// Has the next start read the dump that was just saved, if the log is outdated.
///
/// # Errors
/// Those of the disk. The next start reads either.
pub(super) fn retire_outdated(server: &Server) -> io::Result<()> {
    if is_outdated(server) {
        let options = &server.options.persistence;
        let manifest = server.persistence.state.lock().manifest.clone();
        retire(&*options.disk, options.directory(), &manifest)?;
        server.persistence.state.lock().manifest = Manifest::default();
    }
    Ok(())
}

/// Has the manifest of a directory name no log, and deletes the files of the one that it named.
///
/// # Errors
/// Those of the disk. The manifest may name the log still.
pub(super) fn retire(disk: &dyn Disk, directory: &Path, manifest: &Manifest) -> io::Result<()> {
    Manifest::default().replace(disk, directory)?;
    for name in manifest.logs.iter().chain(&manifest.base) {
        // Only a waste of space if it stays.
        let _ = disk.remove(&directory.join(name));
    }
    Ok(())
}
