//! The manifest, which names the files of a directory that make up the log.
//!
//! ```text
//! nearfield-log 3
//! base base-3.rdb
//! log log-3.aof
//! log log-4.aof
//! crc32c 0f6fcf30
//! ```
//!
//! The state is that of the base (without one: no keys), changed by the commands of the logs in
//! their order. The manifest is replaced as a whole, so that it is either the old or the new one.
//!
//! A manifest that names no log means that there is no log. If there are bases or logs but no
//! manifest, the manifest is missing. Before another log begins, the manifest announces it by
//! `begun` and its number: a base and a log of that number do not count until they are named.
//!
//! Version 2 means that each log begins with a frame without commands, which was on the medium
//! before the manifest named the log. Version 3 means that frames may repeat a tag of their log,
//! which older servers do not know.

use super::frame::checksum;
use crate::disk::{PersistenceDisk, write_all};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The name of the manifest in its directory.
pub const NAME: &str = "nearfield.manifest";
const HEAD: &str = "nearfield-log ";
const VERSION: u32 = 3;
/// The maximum number of bytes read. Manifests are far shorter.
const BYTES_MAX: u64 = 1 << 20;

/// The error for a manifest that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The manifest cannot be read.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    /// The manifest has changed since it was written.
    #[error(
        "damaged: its checksum does not match its text. Restore it from a backup, or start once \
         with --repair-log, which rebuilds it from the existing files"
    )]
    Damaged,
    /// The manifest was written by a newer server.
    #[error("version {0} of the manifest is unknown. Start the newer server that wrote it")]
    Newer(u32),
}

/// The list of the files that make up the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    version: u32,
    /// The snapshot before all logs.
    pub base: Option<String>,
    /// The logs, the oldest first.
    pub logs: Vec<String>,
    /// The number of a base and a log with which another log was about to begin. Their content does
    /// not count until a manifest names them.
    pub begun: Option<u64>,
}

impl Default for Manifest {
    /// Creates a manifest that names no log.
    fn default() -> Manifest {
        Manifest::of(None, Vec::new())
    }
}

impl Manifest {
    /// Creates a manifest of a base and logs.
    pub fn of(base: Option<String>, logs: Vec<String>) -> Manifest {
        Manifest {
            version: VERSION,
            base,
            logs,
            begun: None,
        }
    }

    /// Creates a manifest of files that an older version may have written.
    pub fn of_any_version(base: Option<String>, logs: Vec<String>) -> Manifest {
        Manifest {
            version: 1,
            ..Manifest::of(base, logs)
        }
    }

    /// Adds another log at the end.
    pub fn push(&mut self, log: String) {
        // A manifest of the first version keeps its version, because its logs may lack their first
        // frame.
        if self.has_openings() {
            self.version = VERSION;
        }
        self.logs.push(log);
    }

    /// Creates the manifest that is written before another log begins.
    pub fn with_begun(self, number: u64) -> Manifest {
        Manifest {
            begun: Some(number),
            ..self
        }
    }

    /// Returns true if each log begins with a frame without commands.
    pub fn has_openings(&self) -> bool {
        self.version >= 2
    }

    /// Reads the manifest of a directory, `None` if there is none.
    ///
    /// # Errors
    /// The manifest cannot be read, is damaged, or has a newer version.
    pub fn read(directory: &Path) -> Result<Option<Manifest>, ManifestError> {
        let path = directory.join(NAME);
        // A link that leads nowhere is an error, and not a directory without a manifest.
        let found = std::fs::symlink_metadata(&path);
        if matches!(&found, Err(error) if error.kind() == io::ErrorKind::NotFound) {
            return Ok(None);
        }
        if !std::fs::metadata(&path)?.is_file() {
            return Err(ManifestError::Damaged);
        }
        let mut text = Vec::new();
        File::open(path)?.take(BYTES_MAX).read_to_end(&mut text)?;
        let manifest = Manifest::parse(&text).ok_or(ManifestError::Damaged)?;
        match manifest.version {
            1..=VERSION => Ok(Some(manifest)),
            newer => Err(ManifestError::Newer(newer)),
        }
    }

    /// Parses the text of a manifest; `None` if it is damaged.
    pub fn parse(text: &[u8]) -> Option<Manifest> {
        let text = std::str::from_utf8(text).ok()?;
        let end = text.rfind("crc32c ")?;
        let (body, last) = (text.get(..end)?, text.get(end..)?);
        if last != format!("crc32c {:08x}\n", checksum(body.as_bytes())) {
            return None;
        }
        let mut lines = body.lines();
        let mut manifest = Manifest {
            version: lines.next()?.strip_prefix(HEAD)?.parse().ok()?,
            ..Manifest::default()
        };
        // A newer version may have other lines.
        if manifest.version > VERSION {
            return Some(manifest);
        }
        for line in lines {
            match line.split_once(' ')? {
                // No file outside of the directory belongs to the log.
                (_, name) if name.contains('/') => return None,
                ("base", name) => manifest.base = Some(name.to_owned()),
                ("log", name) => manifest.logs.push(name.to_owned()),
                ("begun", number) => manifest.begun = Some(number.parse().ok()?),
                _ => return None,
            }
        }
        Some(manifest)
    }

    /// Returns the manifest's text.
    pub fn text(&self) -> String {
        let mut text = format!("{HEAD}{}\n", self.version);
        if let Some(base) = &self.base {
            text += &format!("base {base}\n");
        }
        for log in &self.logs {
            text += &format!("log {log}\n");
        }
        if let Some(number) = self.begun {
            text += &format!("begun {number}\n");
        }
        let checksum = checksum(text.as_bytes());
        text + &format!("crc32c {checksum:08x}\n")
    }

    /// Replaces the manifest in the directory. When this returns, the new one is on the medium; if
    /// it fails, either of the two is.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn replace(&self, disk: &dyn PersistenceDisk, directory: &Path) -> io::Result<()> {
        let temporary = directory.join("nearfield.manifest.tmp");
        let text = self.text();
        debug_assert_eq!(Manifest::parse(text.as_bytes()).as_ref(), Some(self));
        let file = disk.create(&temporary)?;
        write_all(&*file, text.as_bytes())?;
        // Before the rename, which could otherwise reach the medium first.
        file.sync()?;
        disk.rename(&temporary, &directory.join(NAME))?;
        disk.sync_directory(directory)
    }

    /// Returns true if the manifest names a log.
    pub fn has_log(&self) -> bool {
        !self.logs.is_empty()
    }

    /// Returns true if the file with this number, a base or log that the manifest does not name,
    /// may be newer than the manifest.
    pub fn may_predate(&self, number: u64) -> bool {
        let newest = self.logs.iter().filter_map(|name| number_of(name)).max();
        newest.is_some_and(|newest| number > newest) && self.begun.is_none_or(|it| number < it)
    }

    /// Returns true if the file of this name belongs to the log.
    pub fn holds(&self, name: &str) -> bool {
        self.base.as_deref() == Some(name) || self.logs.iter().any(|log| log == name)
    }
}

/// Returns the names of bases and logs in a directory, with their numbers.
///
/// # Errors
/// The directory cannot be read.
pub fn numbered_files(directory: &Path) -> io::Result<Vec<(String, u64)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let Ok(name) = entry?.file_name().into_string() else {
            continue;
        };
        if let Some(number) = number_of(&name) {
            files.push((name, number));
        }
    }
    Ok(files)
}

/// Returns the number in the name of a base or log.
fn number_of(name: &str) -> Option<u64> {
    let base = name
        .strip_prefix("base-")
        .and_then(|rest| rest.strip_suffix(".rdb"));
    let log = name
        .strip_prefix("log-")
        .and_then(|rest| rest.strip_suffix(".aof"));
    base.or(log)?.parse().ok()
}

/// Returns the name of a base.
pub fn base_name(number: u64) -> String {
    format!("base-{number}.rdb")
}

/// Returns the name of a log.
pub fn log_name(number: u64) -> String {
    format!("log-{number}.aof")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read_as_it_is_written_and_not_when_damaged() {
        let manifest = Manifest::of(Some(base_name(3)), vec![log_name(3), log_name(4)]);
        let text = manifest.text().into_bytes();
        assert_eq!(Manifest::parse(&text), Some(manifest));
        for length in 0..text.len() {
            assert_eq!(Manifest::parse(&text[..length]), None);
            let mut damaged = text.clone();
            damaged[length] ^= 1;
            assert_eq!(Manifest::parse(&damaged), None);
        }
    }
}
