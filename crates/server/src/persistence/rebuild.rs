//! The reconstruction of a manifest from the files of a log, if it is damaged, missing or too old.

use super::load::LoadError;
use crate::disk::PersistenceDisk;
use crate::log::manifest::{Manifest, NAME, base_name, log_name, numbered_files};
use crate::rdb::{self, RdbUnsupportedPolicy};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Writes another manifest: of the latest intact base, and of all logs from its number on; without
/// a base, of all logs. An existing manifest is kept under another name.
pub(super) fn rebuild(disk: &dyn PersistenceDisk, directory: &Path) -> Result<Manifest, LoadError> {
    let path = directory.join(NAME);
    let io = |source| LoadError::Io {
        path: directory.to_owned(),
        source,
    };
    let files = numbered_files(directory).map_err(io)?;
    let numbers = |name: fn(u64) -> String| {
        let mut numbers: Vec<u64> = files
            .iter()
            .filter(|(file, number)| *file == name(*number))
            .map(|(_, number)| *number)
            .collect();
        numbers.sort_unstable();
        numbers
    };
    let (bases, mut logs) = (numbers(base_name), numbers(log_name));
    let is_whole = |number: &u64| match check(&directory.join(base_name(*number))) {
        Ok(()) => true,
        Err(error) => {
            tracing::error!("{} is not used: {error}", base_name(*number));
            false
        }
    };
    let base = bases.iter().copied().rev().find(is_whole);
    // A base has the number of the log that began at the same instant, so that it holds everything
    // that the logs before it hold.
    logs.retain(|&number| base.is_none_or(|base| number >= base));
    debug_assert!(logs.is_sorted());
    // Logs that begin before the oldest base need none.
    if base.is_none() && !bases.is_empty() && bases.first() <= logs.first() {
        return Err(LoadError::Refused {
            path,
            reason: "no base is intact. Restore one from a backup, or move the bases away to read \
                     the logs alone"
                .to_owned(),
        });
    }
    let manifest = Manifest::of_any_version(
        base.map(base_name),
        logs.into_iter().map(log_name).collect(),
    );
    if std::fs::symlink_metadata(&path).is_ok() {
        let kept = path.with_extension(format!("manifest.damaged-{}", crate::clock::now_ms()));
        disk.rename(&path, &kept).map_err(io)?;
    }
    manifest.replace(disk, directory).map_err(io)?;
    tracing::error!(
        "{} was rebuilt: {}",
        path.display(),
        manifest.text().escape_debug()
    );
    Ok(manifest)
}

/// Reads a snapshot to its checksum. Returns an error if it is damaged.
fn check(path: &Path) -> Result<(), String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let text = |error: rdb::RdbError| error.to_string();
    let mut reader =
        rdb::RdbReader::new(BufReader::new(file), RdbUnsupportedPolicy::Skip).map_err(text)?;
    reader.try_for_each(|item| item.map(drop)).map_err(text)
}
