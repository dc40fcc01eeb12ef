//! The score by which the system chooses a process to end when memory is short (`oom-score-adj`).

use crate::config::ConfigParameters;
use parking_lot::Mutex;
use std::fs;
use std::io;
use std::path::PathBuf;

/// The file that holds the value added to a process's score.
const FILE: &str = "/proc/self/oom_score_adj";
/// The highest score; the lowest is as far below 0.
const SCORE_MAX: i32 = 1000;

/// The score of the process, and its value before the change.
#[derive(Debug)]
pub struct OomScore {
    file: PathBuf,
    /// The score that the server found; `None` while it is unchanged.
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
    /// Sets the score to the values of the parameters `oom-score-adj` and `oom-score-adj-values`.
    /// Of the latter only the first counts: the others are for replicas and for processes that
    /// save, which do not exist here.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn adjust(&self, mode: &str, values: &str) -> io::Result<()> {
        let mut before = self.before.lock();
        if mode == "no" {
            if let Some(score) = *before {
                self.write(score)?;
                // Not before: if the write fails, the next change repeats it.
                *before = None;
            }
            return Ok(());
        }
        // The score before the first change is the base of all later ones.
        let found = match *before {
            Some(score) => score,
            None => self.read()?,
        };
        let own = values.split_whitespace().next();
        let own: i32 = own.and_then(|word| word.parse().ok()).unwrap_or(0);
        let base = if mode == "absolute" { 0 } else { found };
        // The following write may change the score, so the found one is kept first.
        *before = Some(found);
        // The system refuses values beyond its limits.
        self.write((base + own).clamp(-SCORE_MAX, SCORE_MAX))
    }

    /// Sets the score to the values of a configuration.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn adjust_by(&self, config: &ConfigParameters) -> io::Result<()> {
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
