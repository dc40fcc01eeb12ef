//! Files with secrets that are read and rewritten: configurations and users. At each moment, other
//! users can read them no more than before.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// Mode of a new file: only the server's own user can read it.
const OWN_MODE: u32 = 0o600;
/// The permission bits of a mode.
const MODE_BITS: u32 = 0o7777;

/// Longest file that is read. A longer one was not written by hand.
const BYTES_MAX: u64 = 64 << 20;

/// Reads a whole file. A device or pipe that never ends is an error, too.
///
/// # Errors
/// Those of the system; `FileTooLarge` beyond 64 MiB.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(io::Error::new(
            ErrorKind::FileTooLarge,
            "the file has more than 64 MiB",
        ));
    }
    Ok(bytes)
}

/// Replaces the whole file, or nothing: the old one stays until the new one is durable on the
/// medium. The new one has the mode and, if the system allows it, the owner of the old one.
///
/// # Errors
/// Those of the system.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    // The file behind a symbolic link is replaced, not the link.
    let path = match std::fs::canonicalize(path) {
        Ok(path) => path,
        Err(error) if error.kind() == ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error),
    };
    // In the same folder, because files are not renamed across file systems.
    let temporary = temporary(&path);
    let written = create(&temporary).and_then(|file| fill(file, &path, contents));
    let replaced = written.and_then(|()| std::fs::rename(&temporary, &path));
    if replaced.is_err() {
        // The temporary file is useless now, and the first error is the one to report.
        let _ = std::fs::remove_file(&temporary);
    }
    replaced?;
    // The new name is durable only once its folder is.
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn temporary(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".tmp-{}", std::process::id()));
    name.into()
}

/// Creates a file that no other user can read. The leftover of an interrupted attempt is deleted.
fn create(path: &Path) -> io::Result<File> {
    let new = || {
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create_new(true)
            .mode(OWN_MODE)
            .open(path)
    };
    match new() {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            std::fs::remove_file(path)?;
            new()
        }
        other => other,
    }
}

fn fill(mut file: File, old: &Path, contents: &[u8]) -> io::Result<()> {
    file.write_all(contents)?;
    match std::fs::metadata(old) {
        Ok(old) => {
            // Only a server that may change the owner of files can keep another owner.
            let owned = fchown(&file, Some(old.uid()), Some(old.gid()));
            let mode = old.mode() & MODE_BITS;
            // The bits of the group are meant for the old group only.
            let mode = if owned.is_ok() { mode } else { mode & !0o070 };
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_mode_and_a_link_stays_one() {
        let folder = std::env::temp_dir().join(format!("nearfield-{}-modes", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("users.acl");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & MODE_BITS;
        for kept in [0o600, 0o640, 0o644, 0o400] {
            std::fs::write(&path, "old and longer").unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(kept)).unwrap();
            // A temporary file that a killed server has left behind.
            std::fs::write(temporary(&path), "half").unwrap();
            replace(&path, b"new").unwrap();
            assert_eq!(mode(&path), kept);
            assert_eq!(std::fs::read(&path).unwrap(), b"new");
            std::fs::remove_file(&path).unwrap();
        }
        replace(&path, b"first").unwrap();
        assert_eq!(mode(&path), OWN_MODE);
        let link = folder.join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        replace(&link, b"second").unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::read(&path).unwrap(), b"second");
        assert!(replace(&folder.join("none/at/all"), b"").is_err());
        let left = std::fs::read_dir(&folder).unwrap().count();
        assert_eq!(left, 2, "files are left over");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_without_an_end_is_refused() {
        let error = read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
    }
}
