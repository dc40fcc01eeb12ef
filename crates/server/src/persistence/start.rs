//! Starting with what an earlier server has left.

use super::load::{LoadError, Loader, Repeat};
use super::{create_log, dump, switch};
use crate::clock::now_ms;
use crate::keyspace::{Databases, snapshot};
use crate::log::LogFile;
use crate::log::manifest::{Manifest, NAME, base_name, log_name, numbered_files};
use crate::server::{DirectoryLock, Server};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Reads what is on disk, and begins to log. `repeat` executes the commands of a log.
///
/// # Errors
/// What is there is not read entirely, or nothing can be written. The server must not serve then.
pub fn start(server: &Server, repeat: Repeat) -> Result<(), LoadError> {
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
    let manifest = Manifest::read(directory).map_err(io(&directory.join(NAME)))?;
    match &manifest {
        Some(manifest) => {
            // What an interrupted rewrite has left.
            for (name, _) in numbered_files(directory).map_err(io(directory))? {
                if !manifest.holds(&name) {
                    let path = directory.join(name);
                    options.disk.remove(&path).map_err(io(&path))?;
                }
            }
            load_log(server, &mut databases, manifest, repeat)?;
        }
        None => load_foreign(server, &mut databases, directory, repeat)?,
    }
    server.keyspace.changes.store(0, Ordering::Relaxed);
    let mut state = server.persistence.state.lock();
    state.lock = Some(lock);
    let numbers = numbered_files(directory).map_err(io(directory))?;
    state.next_number = 1 + numbers.iter().map(|(_, number)| *number).max().unwrap_or(0);
    if !options.log() {
        if manifest.is_some() {
            give_up_log(server, &databases, directory).map_err(io(directory))?;
        }
        return Ok(());
    }
    let number = state.next_number;
    let (manifest, file) = open_log(server, &databases, manifest, number).map_err(io(directory))?;
    state.next_number = number + 1;
    state.manifest = manifest;
    state.status.base_bytes = bytes_of(directory, &state.manifest);
    server.log.open(options.policy(), file);
    server.keyspace.set_logging(true);
    Ok(())
}

/// The length of all files that a manifest names.
fn bytes_of(directory: &Path, manifest: &Manifest) -> u64 {
    let names = manifest.logs.iter().chain(&manifest.base);
    let length = |name| std::fs::metadata(directory.join(name)).map_or(0, |data| data.len());
    names.map(length).sum()
}

/// Reads base and logs.
///
/// # Errors
/// See [`Loader`].
pub fn load_log(
    server: &Server,
    databases: &mut Databases,
    manifest: &Manifest,
    repeat: Repeat,
) -> Result<(), LoadError> {
    let options = &server.options.persistence;
    let directory = options.directory();
    let mut loader = Loader::new(server, databases, repeat);
    if let Some(base) = &manifest.base {
        loader.snapshot(&directory.join(base), None)?;
    }
    let paths: Vec<PathBuf> = manifest
        .logs
        .iter()
        .map(|log| directory.join(log))
        .collect();
    for (number, path) in paths.iter().enumerate() {
        let is_empty = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|data| data.len() == 0);
        // A file is written to only when the one before is complete.
        let last = paths.iter().skip(number + 1).all(is_empty);
        loader.log(path, last, options.damage)?;
    }
    Ok(())
}

/// Reads what a Redis has left: what its log says, else its snapshot.
fn load_foreign(
    server: &Server,
    databases: &mut Databases,
    directory: &Path,
    repeat: Repeat,
) -> Result<(), LoadError> {
    let mut loader = Loader::new(server, databases, repeat);
    let dump = dump(server);
    if dump.exists() {
        return loader.snapshot(&dump, Some(now_ms()));
    }
    let parts = server.path(&server.config.text("appenddirname"));
    let name = server.config.text("appendfilename");
    let manifest = parts.join(format!("{name}.manifest"));
    if let Ok(text) = std::fs::read_to_string(&manifest) {
        for line in text.lines() {
            // file appendonly.aof.1.base.rdb seq 1 type b
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            match words.as_slice() {
                ["file", name, .., "type", "b" | "i"] if !name.contains('/') => {
                    loader.foreign_log(&parts.join(name))?;
                }
                [] | ["file", .., "h"] => {}
                _ => {
                    return Err(LoadError::Refused {
                        path: manifest,
                        reason: format!("the line \"{line}\" is not understood"),
                    });
                }
            }
        }
        return Ok(());
    }
    let log = directory.join(name);
    if log.exists() {
        return loader.foreign_log(&log);
    }
    Ok(())
}

/// Opens the log that a manifest names last; without one, makes a base of what is in memory and
/// a log behind it.
fn open_log(
    server: &Server,
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
        let file = disk.append(&path)?;
        // After a kill, what was written may not be on the medium yet.
        file.sync()?;
        let synced = length;
        let file = LogFile {
            file,
            path,
            length,
            synced,
        };
        return Ok((manifest, file));
    }
    let mut manifest = Manifest {
        base: None,
        logs: vec![log_name(number)],
    };
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
    manifest.replace(disk, directory)?;
    Ok((manifest, file))
}

/// Goes over from a log to snapshots: a dump holds what the log has held.
fn give_up_log(server: &Server, databases: &Databases, directory: &Path) -> io::Result<()> {
    let disk = &*server.options.persistence.disk;
    let temporary = directory.join("dump.rdb.tmp");
    let codes = server.functions.codes();
    snapshot::take_exclusively(&server.keyspace, databases, &codes, disk, &temporary)?;
    disk.rename(&temporary, &dump(server))?;
    switch::retire(disk, directory)
}
