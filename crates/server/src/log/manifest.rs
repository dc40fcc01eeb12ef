//! The manifest: which files of a directory make up the log.
//!
//! ```text
//! nearfield-log 1
//! base base-3.rdb
//! log log-3.aof
//! log log-4.aof
//! crc32c 0f6fcf30
//! ```
//!
//! The state is that of the base (none: no keys), changed by the commands of the logs in their
//! order. The manifest is replaced as a whole, so that it is either the old or the new one.

use super::frame::checksum;
use crate::disk::{Disk, write_all};
use std::io;
use std::path::Path;

/// The name of the manifest in its directory.
pub const NAME: &str = "nearfield.manifest";
const HEAD: &str = "nearfield-log 1";

/// Which files make up the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The snapshot before all logs.
    pub base: Option<String>,
    /// The logs, the oldest first.
    pub logs: Vec<String>,
}

impl Manifest {
    /// Reads the manifest of a directory, `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn read(directory: &Path) -> io::Result<Option<Manifest>> {
        let text = match std::fs::read(directory.join(NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the manifest is damaged");
        Manifest::parse(&text).map(Some).ok_or_else(damaged)
    }

    /// Takes a manifest's text apart, `None` if it is damaged.
    pub fn parse(text: &[u8]) -> Option<Manifest> {
        let text = std::str::from_utf8(text).ok()?;
        let end = text.rfind("crc32c ")?;
        let (body, last) = (text.get(..end)?, text.get(end..)?);
        if last != format!("crc32c {:08x}\n", checksum(body.as_bytes())) {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != HEAD {
            return None;
        }
        let mut manifest = Manifest::default();
        for line in lines {
            match line.split_once(' ')? {
                (_, name) if name.contains('/') => return None,
                ("base", name) => manifest.base = Some(name.to_owned()),
                ("log", name) => manifest.logs.push(name.to_owned()),
                _ => return None,
            }
        }
        Some(manifest)
    }

    /// The manifest's text.
    pub fn text(&self) -> String {
        let mut text = format!("{HEAD}\n");
        if let Some(base) = &self.base {
            text += &format!("base {base}\n");
        }
        for log in &self.logs {
            text += &format!("log {log}\n");
        }
        let checksum = checksum(text.as_bytes());
        text + &format!("crc32c {checksum:08x}\n")
    }

    /// Puts the manifest in place of the one that is there. When this returns, it is on the
    /// medium; if it fails, either of the two is.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn replace(&self, disk: &dyn Disk, directory: &Path) -> io::Result<()> {
        let temporary = directory.join("nearfield.manifest.tmp");
        let file = disk.create(&temporary)?;
        write_all(&*file, self.text().as_bytes())?;
        file.sync()?;
        disk.rename(&temporary, &directory.join(NAME))?;
        disk.sync_directory(directory)
    }

    /// True if the file of this name belongs to the log.
    pub fn holds(&self, name: &str) -> bool {
        self.base.as_deref() == Some(name) || self.logs.iter().any(|log| log == name)
    }
}

/// The names of bases and logs in a directory, with their numbers.
///
/// # Errors
/// The directory cannot be read.
pub fn numbered_files(directory: &Path) -> io::Result<Vec<(String, u64)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let Ok(name) = entry?.file_name().into_string() else {
            continue;
        };
        let base = name
            .strip_prefix("base-")
            .and_then(|rest| rest.strip_suffix(".rdb"));
        let log = name
            .strip_prefix("log-")
            .and_then(|rest| rest.strip_suffix(".aof"));
        if let Some(number) = base.or(log).and_then(|number| number.parse().ok()) {
            files.push((name, number));
        }
    }
    Ok(files)
}

/// The name of a base.
pub fn base_name(number: u64) -> String {
    format!("base-{number}.rdb")
}

/// The name of a log.
pub fn log_name(number: u64) -> String {
    format!("log-{number}.aof")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read_as_it_is_written_and_not_when_damaged() {
        let manifest = Manifest {
            base: Some(base_name(3)),
            logs: vec![log_name(3), log_name(4)],
        };
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
