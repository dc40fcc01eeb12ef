//! The options for the files of a server: its directory, its log and its snapshots.

use super::ConfigFileContents;
use crate::disk::{PersistenceDisk, RealPersistenceDisk};
use crate::log::{Damage, LogSyncPolicy};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The options for files.
#[derive(Clone, Debug)]
pub struct Durability {
    /// The directory of the files. `None`: the working directory, to which nothing is written
    /// unless it is requested.
    pub directory: Option<PathBuf>,
    /// True if commands are logged. `None`: they are logged if there is a directory.
    pub log: Option<bool>,
    /// The policy by which the log is synced to the medium.
    pub policy: Option<LogSyncPolicy>,
    /// The reaction to damage in the log.
    pub damage: Damage,
    /// The times of snapshots. `None`: Redis's defaults if there is a directory and no log.
    pub save: Option<Vec<SavePoint>>,
    /// The file system.
    pub disk: Arc<dyn PersistenceDisk>,
}

/// A condition for a snapshot: enough seconds have passed and there were enough changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// The least number of seconds since the last snapshot.
    pub seconds: u64,
    /// The least number of changes since the last snapshot.
    pub changes: u64,
}

impl SavePoint {
    /// Parses pairs of seconds and changes, as the configuration has them.
    pub fn parse(text: &str) -> Vec<SavePoint> {
        let numbers = text.split_ascii_whitespace();
        let numbers: Vec<u64> = numbers.filter_map(|word| word.parse().ok()).collect();
        // The parameter `save` refuses an odd number of words.
        let (pairs, _) = numbers.as_chunks();
        let point = |&[seconds, changes]: &[u64; 2]| SavePoint { seconds, changes };
        pairs.iter().map(point).collect()
    }

    /// Formats the points for [`parse`](Self::parse).
    pub fn text(points: &[SavePoint]) -> String {
        let text = |point: &SavePoint| format!("{} {}", point.seconds, point.changes);
        points.iter().map(text).collect::<Vec<_>>().join(" ")
    }
}

impl Default for Durability {
    fn default() -> Self {
        Durability {
            directory: None,
            log: None,
            policy: None,
            damage: Damage::default(),
            save: None,
            disk: Arc::new(RealPersistenceDisk),
        }
    }
}

impl Durability {
    /// Returns the directory of the files.
    pub fn directory(&self) -> &Path {
        self.directory.as_deref().unwrap_or(Path::new("."))
    }

    /// Returns true if commands are logged.
    pub fn log(&self) -> bool {
        self.log.unwrap_or(self.directory.is_some())
    }

    /// Returns the policy by which the log is synced to the medium.
    pub fn policy(&self) -> LogSyncPolicy {
        self.policy.unwrap_or_default()
    }

    /// Fills options that are not set from a configuration file.
    pub fn complete(&mut self, settings: &ConfigFileContents) {
        // The command line comes before the file.
        if self.directory.is_none() {
            self.directory = settings.value("dir").map(PathBuf::from);
        }
        if self.log.is_none() {
            self.log = settings.value("appendonly").map(|value| value == "yes");
        }
        if self.policy.is_none() {
            self.policy = settings
                .value("appendfsync")
                .and_then(LogSyncPolicy::from_name);
        }
        if self.save.is_none() {
            self.save = settings.value("save").map(SavePoint::parse);
        }
    }

    /// Returns the conditions for snapshots.
    pub fn save_points(&self) -> Vec<SavePoint> {
        let redis = [(3600, 1), (300, 100), (60, 10_000)];
        let point = |(seconds, changes)| SavePoint { seconds, changes };
        match &self.save {
            Some(points) => points.clone(),
            // The log has all changes, so that snapshots next to it are made only on request.
            None if self.directory.is_some() && !self.log() => redis.map(point).to_vec(),
            None => Vec::new(),
        }
    }
}
