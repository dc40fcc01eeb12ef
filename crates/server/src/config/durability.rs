//! The options for the files of a server: its directory, its log and its snapshots.

use super::Settings;
use crate::disk::{Disk, RealDisk};
use crate::log::{Damage, Policy};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is kept on disk.
#[derive(Clone, Debug)]
pub struct Durability {
    /// Where files lie; `None`: in the working directory, and nothing is kept unless it is asked
    /// for.
    pub directory: Option<PathBuf>,
    /// Whether commands are logged; `None`: if there is a directory.
    pub log: Option<bool>,
    /// When the log goes to the medium.
    pub policy: Option<Policy>,
    /// What is done about damage in the log.
    pub damage: Damage,
    /// When a snapshot is taken; `None`: as Redis does it, if there is a directory and no log.
    pub save: Option<Vec<SavePoint>>,
    /// The file system.
    pub disk: Arc<dyn Disk>,
}

/// A snapshot is taken after this number of seconds if there were this number of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// Since the last one.
    pub seconds: u64,
    /// Since the last one.
    pub changes: u64,
}

impl SavePoint {
    /// Reads pairs of seconds and changes, as the configuration has them.
    pub fn parse(text: &str) -> Vec<SavePoint> {
        let numbers = text.split_ascii_whitespace();
        let numbers: Vec<u64> = numbers.filter_map(|word| word.parse().ok()).collect();
        let (pairs, _) = numbers.as_chunks();
        let point = |&[seconds, changes]: &[u64; 2]| SavePoint { seconds, changes };
        pairs.iter().map(point).collect()
    }

    /// Writes what [`parse`](Self::parse) reads.
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
            disk: Arc::new(RealDisk),
        }
    }
}

impl Durability {
    /// Where files lie.
    pub fn directory(&self) -> &Path {
        self.directory.as_deref().unwrap_or(Path::new("."))
    }

    /// Whether commands are logged.
    pub fn log(&self) -> bool {
        self.log.unwrap_or(self.directory.is_some())
    }

    /// When the log goes to the medium.
    pub fn policy(&self) -> Policy {
        self.policy.unwrap_or_default()
    }

    /// Takes from a configuration file what is not said otherwise.
    pub fn complete(&mut self, settings: &Settings) {
        if self.directory.is_none() {
            self.directory = settings.value("dir").map(PathBuf::from);
        }
        if self.log.is_none() {
            self.log = settings.value("appendonly").map(|value| value == "yes");
        }
        if self.policy.is_none() {
            self.policy = settings.value("appendfsync").and_then(Policy::from_name);
        }
        if self.save.is_none() {
            self.save = settings.value("save").map(SavePoint::parse);
        }
    }

    /// When a snapshot is taken.
    pub fn save_points(&self) -> Vec<SavePoint> {
        let redis = [(3600, 1), (300, 100), (60, 10_000)];
        let point = |(seconds, changes)| SavePoint { seconds, changes };
        match &self.save {
            Some(points) => points.clone(),
            None if self.directory.is_some() && !self.log() => redis.map(point).to_vec(),
            None => Vec::new(),
        }
    }
}
