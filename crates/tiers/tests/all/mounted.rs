//! Tests of tiers on file systems of their own, which are full or cannot be written to.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_tiers::{ColdPlace, TierOpenError, TierRefusal, Tiers};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A file system in memory that exists until this is dropped.
struct TmpfsMount {
    folder: TempDir,
}

impl TmpfsMount {
    /// Mounts a file system; returns `None`, with the reason on the terminal, if this process may
    /// not.
    fn new(options: &str) -> Option<TmpfsMount> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "nearfield-test"]);
        match mount.arg(folder.path()).output() {
            Ok(output) if output.status.success() => Some(TmpfsMount { folder }),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr);
                println!("skipped: no file system can be mounted: {}", why.trim());
                None
            }
            Err(error) => {
                println!("skipped: no file system can be mounted: {error}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for TmpfsMount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.folder.path()).status();
    }
}

fn open(folder: &Path, mebibytes: u64) -> Result<Tiers, TierOpenError> {
    let file = format!("file:{}={mebibytes}mb", folder.display());
    Tiers::open(&["memory=1mb".parse().unwrap(), file.parse().unwrap()])
}

fn value(number: usize) -> Vec<u8> {
    format!("value {number} ").repeat(100).into_bytes()
}

/// Puts values until the tier refuses one.
fn put_all(tiers: &Tiers, kept: &mut Vec<(ColdPlace, Vec<u8>)>) -> TierRefusal {
    loop {
        let value = value(kept.len());
        match tiers.put(1, &[&value]) {
            Ok(place) => kept.push((place[0], value)),
            Err(error) => return error,
        }
    }
}

fn check(tiers: &Tiers, kept: &[(ColdPlace, Vec<u8>)]) {
    for (place, value) in kept {
        let mut read = Vec::new();
        tiers.read(*place, &mut read).unwrap();
        assert_eq!(&read, value);
    }
    let usage = tiers.usage(1).unwrap();
    let bytes: usize = kept.iter().map(|(_, value)| value.len()).sum();
    assert_eq!(
        (usage.values, usage.value_bytes),
        (kept.len() as u64, bytes as u64)
    );
}

#[test]
fn a_disk_that_others_fill_is_named_and_taken_again_when_it_has_room() {
    let Some(disk) = TmpfsMount::new("size=6m") else {
        return;
    };
    let tiers = open(disk.path(), 4).unwrap();
    let mut kept = Vec::new();
    for number in 0..200 {
        let value = value(number);
        kept.push((tiers.put(1, &[&value]).unwrap()[0], value));
    }
    let filler = disk.path().join("filler");
    let filled = std::fs::write(&filler, vec![1; 6 << 20]);
    assert_eq!(
        filled.unwrap_err().raw_os_error(),
        Some(28),
        "the disk is full"
    );
    let error = put_all(&tiers, &mut kept);
    assert!(matches!(error, TierRefusal::Disk { .. }), "{error}");
    let text = error.to_string();
    let named = disk.path().display().to_string();
    assert!(
        text.contains(&named) && text.contains("No space left"),
        "{text}"
    );
    check(&tiers, &kept);
    std::fs::remove_file(&filler).unwrap();
    // The system frees the room of a file with some delay.
    let deadline = Instant::now() + Duration::from_secs(10);
    let error = loop {
        match put_all(&tiers, &mut kept) {
            TierRefusal::Disk { .. } if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            error => break error,
        }
    };
    assert!(matches!(error, TierRefusal::Full), "{error}");
    check(&tiers, &kept);
    kept.drain(..).for_each(|(place, _)| tiers.release(place));
    check(&tiers, &kept);
}

#[test]
fn folders_that_cannot_be_written_to_are_named() {
    let Some(disk) = TmpfsMount::new("size=6m,ro") else {
        return;
    };
    let text = open(disk.path(), 4).unwrap_err().to_string();
    let named = disk.path().display().to_string();
    assert!(
        text.contains(&named) && text.contains("cannot write"),
        "{text}"
    );
}
