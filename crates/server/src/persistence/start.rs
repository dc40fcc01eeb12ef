//! The start with the data that an earlier server has left.

use super::foreign::load_foreign;
use super::load::{KeyspaceLoader, LoadError, Repeat};
use super::{create_log, dump, rebuild, switch};
use crate::disk::PersistenceDisk;
use crate::keyspace::{Databases, snapshot};
use crate::log::frame::{OPENING_BYTES, tag_of};
use crate::log::manifest::{Manifest, ManifestError, NAME, base_name, log_name, numbered_files};
use crate::log::{Damage, LogFile};
use crate::server::{DirectoryLock, ServerCore};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Reads the data on disk, and begins to log. `repeat` executes the commands of a log.
///
/// # Errors
/// The data cannot be read entirely, or nothing can be written. The server must not serve then.
pub fn start(server: &ServerCore, repeat: Repeat) -> Result<(), LoadError> {
    let options = &server.options.persistence;
    if options.directory.is_none() && !options.log() {
        return Ok(());
    }
    let directory = options.directory();
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| LoadError::Io { path, source }
    };
    std::fs::create_dir_all(directory).map_err(io(directory))?;
    let path = directory.join("nearfield.lock");
    let lock = DirectoryLock::take(&path).map_err(io(&path))?;
    let lock = lock.ok_or_else(|| LoadError::Refused {
        path,
        reason: "another server uses this directory".to_owned(),
    })?;
    let mut databases = server.keyspace.exclude();
    let manifest = find_manifest(&*options.disk, directory, options.damage)?;
    match &manifest {
        Some(manifest) if manifest.has_log() => {
            load_log(
                server,
                &mut databases,
                manifest,
                repeat,
                Some(options.damage),
            )?;
        }
        _ => {
            let mut loader = KeyspaceLoader::new(server, &mut databases, repeat);
            load_foreign(&mut loader, server)?;
        }
    }
    // Everything that counts has been read.
    remove_leftovers(&*options.disk, directory, manifest.as_ref()).map_err(io(directory))?;
    let manifest = manifest.filter(Manifest::has_log);
    // The next snapshot would hold nothing that the files lack.
    server.keyspace.changes.store(0, Ordering::Relaxed);
    let mut state = server.persistence.state.lock();
    state.lock = Some(lock);
    let numbers = numbered_files(directory).map_err(io(directory))?;
    state.next_number = 1 + numbers.iter().map(|(_, number)| *number).max().unwrap_or(0);
    if !options.log() {
        if let Some(manifest) = &manifest {
            give_up_log(server, &databases, directory, manifest).map_err(io(directory))?;
        }
        return Ok(());
    }
    let number = state.next_number;
    let is_new = |manifest: &Manifest| !manifest.holds(&log_name(number));
    debug_assert!(manifest.as_ref().is_none_or(is_new));
    let (manifest, file) = open_log(server, &databases, manifest, number).map_err(io(directory))?;
    state.next_number = number + 1;
    state.manifest = manifest;
    state.status.base_bytes = bytes_of(directory, &state.manifest);
    server.log.open(options.policy(), file);
    server.keyspace.set_logging(true);
    Ok(())
}

/// Returns the length of all files that a manifest names.
fn bytes_of(directory: &Path, manifest: &Manifest) -> u64 {
    let names = manifest.logs.iter().chain(&manifest.base);
    let length = |name| std::fs::metadata(directory.join(name)).map_or(0, |data| data.len());
    names.map(length).sum()
}

/// Returns the manifest of a directory, `None` if there is no log. With `Repair` a manifest that is
/// damaged or missing is rebuilt.
fn find_manifest(
    disk: &dyn PersistenceDisk,
    directory: &Path,
    damage: Damage,
) -> Result<Option<Manifest>, LoadError> {
    let path = directory.join(NAME);
    let io = |source| LoadError::Io {
        path: directory.to_owned(),
        source,
    };
    let repairs = damage == Damage::Repair;
    let manifest = match Manifest::read(directory) {
        Err(ManifestError::Damaged) if repairs => {
            return rebuild::rebuild(disk, directory).map(Some);
        }
        manifest => manifest.map_err(|source| LoadError::Manifest {
            path: path.clone(),
            source,
        })?,
    };
    let is_unused = |name: &str| {
        let length = std::fs::metadata(directory.join(name)).map(|data| data.len());
        name.starts_with("log-") && length.is_ok_and(|length| length <= OPENING_BYTES)
    };
    // Files that the manifest does not name may hold acknowledged writes.
    let files = numbered_files(directory).map_err(io)?;
    let strays = files.into_iter().filter(|(name, number)| match &manifest {
        None => true,
        // An interrupted rewrite may have created a log that nothing was written to.
        Some(manifest) => {
            manifest.may_predate(*number) && !manifest.holds(name) && !is_unused(name)
        }
    });
    let mut strays: Vec<String> = strays.map(|(name, _)| name).collect();
    if strays.is_empty() {
        return Ok(manifest);
    }
    if repairs {
        return rebuild::rebuild(disk, directory).map(Some);
    }
    strays.sort();
    let strays = strays.join(", ");
    let what = match manifest {
        None => format!("it is missing, but {strays} exist"),
        Some(_) => format!("it is older than {strays}, which it does not name"),
    };
    Err(LoadError::Refused {
        path,
        reason: format!(
            "{what}. Restore it from a backup; or start once with --repair-log, which rebuilds it \
             from the existing files; or move these away to start without them"
        ),
    })
}

/// Deletes the files that an interrupted rewrite has left, and files of obsolete logs.
fn remove_leftovers(
    disk: &dyn PersistenceDisk,
    directory: &Path,
    manifest: Option<&Manifest>,
) -> io::Result<()> {
    for (name, _) in numbered_files(directory)? {
        if manifest.is_none_or(|manifest| !manifest.holds(&name)) {
            disk.remove(&directory.join(name))?;
        }
    }
    Ok(())
}

/// Reads base and logs. `damage` is the treatment of damage; with `None` the log is still being
/// written to.
///
/// # Errors
/// See [`KeyspaceLoader`].
pub fn load_log(
    server: &ServerCore,
    databases: &mut Databases,
    manifest: &Manifest,
    repeat: Repeat,
    damage: Option<Damage>,
) -> Result<(), LoadError> {
    let directory = server.options.persistence.directory();
    for name in manifest.base.iter().chain(&manifest.logs) {
        let path = directory.join(name);
        if !path.exists() {
            return Err(LoadError::Refused {
                path,
                reason: format!("it is missing, and {NAME} names it. Restore it from a backup"),
            });
        }
    }
    let mut loader = KeyspaceLoader::new(server, databases, repeat);
    if let Some(base) = &manifest.base {
        loader.snapshot(&directory.join(base), None)?;
    }
    loader.logs(directory, manifest, damage)
}

/// Opens the log that a manifest names last; without a manifest, creates a base of the data in
/// memory and a log after it.
fn open_log(
    server: &ServerCore,
    databases: &Databases,
    manifest: Option<Manifest>,
    number: u64,
) -> io::Result<(Manifest, LogFile)> {
    let options = &server.options.persistence;
    let (disk, directory) = (&*options.disk, options.directory());
    if let Some(manifest) = manifest
        && let Some(name) = manifest.logs.last()
    {
        let path = directory.join(name);
        let length = std::fs::metadata(&path)?.len();
        let tag = tag_of(&mut File::open(&path)?)?;
        let file = disk.append(&path)?;
        // After a kill, the written bytes may not be on the medium yet.
        file.sync()?;
        let synced = length;
        let file = LogFile {
            file,
            path,
            tag,
            length,
            synced,
        };
        return Ok((manifest, file));
    }
    // Announced first: if the server is killed in between, the next start must not take the files
    // for a log without a manifest.
    let begun = Manifest::default().with_begun(number);
    begun.replace(disk, directory)?;
    let mut manifest = Manifest::of(None, vec![log_name(number)]);
    let codes = server.functions.codes();
    let mut databases_in_use = databases
        .iter()
        .map(|database| database.is_empty() != Ok(true));
    if !codes.is_empty() || databases_in_use.any(|in_use| in_use) {
        let path = directory.join(base_name(number));
        snapshot::take_exclusively(&server.keyspace, databases, &codes, disk, &path)?;
        manifest.base = Some(base_name(number));
    }
    let file = create_log(disk, directory.join(log_name(number)))?;
    // Last, because it may name only files that are on the medium.
    manifest.replace(disk, directory)?;
    Ok((manifest, file))
}

/// Replaces a log by snapshots: a dump gets the content of the log.
fn give_up_log(
    server: &ServerCore,
    databases: &Databases,
    directory: &Path,
    manifest: &Manifest,
) -> io::Result<()> {
    debug_assert!(manifest.has_log());
    let disk = &*server.options.persistence.disk;
    let temporary = directory.join("dump.rdb.tmp");
    let codes = server.functions.codes();
    snapshot::take_exclusively(&server.keyspace, databases, &codes, disk, &temporary)?;
    disk.rename(&temporary, &dump(server))?;
    // The log is given up only after the dump is on the medium.
    disk.sync_directory(directory)?;
    switch::retire(disk, directory, manifest)
}
