//! The import of the data that a Redis has left in a directory.

use super::dump;
use super::load::{KeyspaceLoader, LoadError, open};
use crate::clock::now_ms;
use crate::server::ServerCore;
use std::io::{self, Read};
use std::path::Path;

/// Largest length of the manifest of a log of several files. A line of Redis has 1,024 bytes at
/// most.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;

/// Reads the data that a Redis has left: its snapshot, its log of several files, or that of one
/// file. Several of them are refused.
pub(super) fn load_foreign(
    loader: &mut KeyspaceLoader<'_>,
    server: &ServerCore,
) -> Result<(), LoadError> {
    let (dump, name) = (dump(server), server.config.text("appendfilename"));
    let parts = server.path(&server.config.text("appenddirname"));
    let log = server.options.persistence.directory().join(&name);
    let mut found = Vec::new();
    for path in [&dump, &parts, &log] {
        if is_there(path)? {
            found.push(path);
        }
    }
    match *found {
        [] => Ok(()),
        [one] if *one == dump => loader.snapshot(&dump, Some(now_ms())),
        [one] if *one == parts => load_parts(loader, &parts, &name),
        [_] => loader.foreign_log(&log, true),
        // Only one of them can be the latest state. Which one depends on the settings of the server
        // that has left them.
        [first, ref others @ ..] => Err(LoadError::Refused {
            path: first.clone(),
            reason: format!(
                "the directory also has {}, and only one of them can be the latest state. Move the \
                 others away: a Redis with appendonly yes reads its log, one without its snapshot",
                others
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        }),
    }
}

/// Returns true if there is a file of a name.
fn is_there(path: &Path) -> Result<bool, LoadError> {
    // A link that leads nowhere counts, too: a server that starts empty would hide the mistake.
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(LoadError::Io {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Reads a log of several files, which are in the folder `parts`.
fn load_parts(loader: &mut KeyspaceLoader<'_>, parts: &Path, name: &str) -> Result<(), LoadError> {
    let path = parts.join(format!("{name}.manifest"));
    let refused = |reason: String| LoadError::Refused {
        path: path.clone(),
        reason,
    };
    let io = |source| LoadError::Io {
        path: path.clone(),
        source,
    };
    if !is_there(&path)? {
        let count = std::fs::read_dir(parts).map_err(io)?.count();
        return match count {
            0 => Ok(()),
            _ => Err(refused(format!(
                "it is missing, but its directory has other files. Restore it from a backup, or \
                 move {} away to start without it",
                parts.display()
            ))),
        };
    }
    let mut text = String::new();
    let mut manifest = open(&path)?.take(MANIFEST_BYTES_MAX + 1);
    manifest.read_to_string(&mut text).map_err(io)?;
    if text.len() as u64 > MANIFEST_BYTES_MAX {
        return Err(refused("it is too long for a manifest".to_owned()));
    }
    let mut names = Vec::new();
    for line in text.lines() {
        // An example line: file appendonly.aof.1.base.rdb seq 1 type b
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words.as_slice() {
            ["file", name, .., "type", "b" | "i"] if !name.contains('/') => names.push(*name),
            [] | ["file", .., "h"] => {}
            _ => {
                let reason = format!("the line \"{line}\" is not understood");
                return Err(refused(reason));
            }
        }
    }
    if names.is_empty() {
        return Err(refused("it names no file".to_owned()));
    }
    for (number, name) in names.iter().enumerate() {
        loader.foreign_log(&parts.join(name), number + 1 == names.len())?;
    }
    Ok(())
}
