//! Files that are replaced as a whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that is replaced as a whole: the content is written to another file next to it, which
/// then takes its name.
#[derive(Debug)]
pub struct ReportFile {
    path: PathBuf,
    draft: PathBuf,
}

/// Error for a report that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct OutputError {
    /// The file.
    pub path: PathBuf,
    /// The operating system's error.
    pub source: io::Error,
}

impl ReportFile {
    /// Checks that `path` can be written, without changing the existing file.
    ///
    /// # Errors
    /// `OutputError` if it cannot be written.
    pub fn open(path: &Path) -> Result<Self, OutputError> {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        // In the same folder, because a rename cannot cross file systems.
        let draft = path.with_file_name(format!(
            ".{}.{}.draft",
            name.as_deref().unwrap_or_default(),
            std::process::id()
        ));
        let output = ReportFile {
            path: path.to_owned(),
            draft,
        };
        let probe = match fs::metadata(path) {
            _ if name.is_none() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
            Ok(target) if target.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
            Ok(target) if target.permissions().readonly() => {
                Err(io::Error::from(io::ErrorKind::PermissionDenied))
            }
            _ => File::create(&output.draft).and_then(|_| fs::remove_file(&output.draft)),
        };
        probe.map_err(|source| output.error(source))?;
        Ok(output)
    }

    /// Replaces the file by `content`.
    ///
    /// # Errors
    /// `OutputError`; the file is unchanged.
    pub fn write(&self, content: &str) -> Result<(), OutputError> {
        let write = || {
            let mut draft = File::create(&self.draft)?;
            draft.write_all(content.as_bytes())?;
            // Before the rename, or a crash could leave the name with half a report.
            draft.sync_all()?;
            fs::rename(&self.draft, &self.path)
        };
        write().map_err(|source| {
            // If this fails, too, only a draft file is left over.
            let _ = fs::remove_file(&self.draft);
            self.error(source)
        })
    }

    fn error(&self, source: io::Error) -> OutputError {
        OutputError {
            path: self.path.clone(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_as_a_whole() {
        let folder = std::env::temp_dir().join(format!("nearfield-output-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("report.json");
        let output = ReportFile::open(&path).unwrap();
        assert!(!path.exists());
        output.write("{}").unwrap();
        output.write("{\"rows\":[]}").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"rows\":[]}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
        assert!(output.write("{}").is_err());
    }

    #[test]
    fn an_unwritable_path_is_refused_at_once() {
        for path in ["/no/such/folder/report.json", "/", "/tmp", ""] {
            let error = ReportFile::open(Path::new(path)).unwrap_err().to_string();
            assert!(error.starts_with("cannot write"), "{path:?}: {error}");
        }
    }
}
