//! The score by which the system chooses whom to end when memory is short (`oom-score-adj`).

use crate::config::Config;
use parking_lot::Mutex;
use std::fs;
use std::io;
use std::path::PathBuf;

/// Where a process says what is added to its score.
const FILE: &str = "/proc/self/oom_score_adj";
/// The highest; the lowest is as far below 0.
const SCORE_MAX: i32 = 1000;

/// The score, and what it was before it was changed.
#[derive(Debug)]
pub struct OomScore {
    file: PathBuf,
    /// `None` while it is as the server found it.
    before: Mutex<Option<i32>>,
}

impl Default for OomScore {
    fn default() -> OomScore {
        OomScore {
            file: PathBuf::from(FILE),
            before: Mutex::new(None),
        }
    }
}

impl OomScore {
    /// Makes the score what parameters say: `oom-score-adj`, and the first of
    /// `oom-score-adj-values`. The others are those of replicas and of processes that save, of
    /// which there are none.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn adjust(&self, mode: &str, values: &str) -> io::Result<()> {
        let mut before = self.before.lock();
        if mode == "no" {
            if let Some(score) = *before {
                self.write(score)?;
                *before = None;
            }
            return Ok(());
        }
        let found = match *before {
            Some(score) => score,
            None => self.read()?,
        };
        let own = values.split_whitespace().next();
        let own: i32 = own.and_then(|word| word.parse().ok()).unwrap_or(0);
        let base = if mode == "absolute" { 0 } else { found };
        // From here on it may be another one.
        *before = Some(found);
        self.write((base + own).clamp(-SCORE_MAX, SCORE_MAX))
    }

    /// The same by a configuration.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn adjust_by(&self, config: &Config) -> io::Result<()> {
        let values = config.text("oom-score-adj-values");
        self.adjust(&config.text("oom-score-adj"), &values)
    }

    fn read(&self) -> io::Result<i32> {
        let text = fs::read_to_string(&self.file)?;
        text.trim().parse().map_err(io::Error::other)
    }

    fn write(&self, score: i32) -> io::Result<()> {
        fs::write(&self.file, format!("{score}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_is_added_to_what_was_found_and_comes_back() {
        let name = format!("nearfield-oom-score-{}", std::process::id());
        let file = std::env::temp_dir().join(name);
        fs::write(&file, "50\n").unwrap();
        let score = OomScore {
            file: file.clone(),
            ..OomScore::default()
        };
        for (mode, values, written) in [
            ("no", "100 200 300", "50\n"),
            ("yes", "100 200 300", "150\n"),
            ("absolute", "100 200 300", "100\n"),
            ("yes", "-30 0 0", "20\n"),
            ("yes", "2000 0 0", "1000\n"),
            ("absolute", "-1500 0 0", "-1000\n"),
            ("no", "100 200 300", "50\n"),
        ] {
            score.adjust(mode, values).unwrap();
            assert_eq!(
                fs::read_to_string(&file).unwrap(),
                written,
                "{mode} {values}"
            );
        }
        fs::remove_file(&file).unwrap();
        score.adjust("no", "1 2 3").unwrap();
        assert!(score.adjust("yes", "1 2 3").is_err());
    }
}
