//! A survey of a sample of all keys.

use super::error::AdviseError;
use super::kind::{STRING_BYTES, SurveyedValueKind};
use super::server::{SurveyedKeyFacts, SurveyedServer};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of keys that are queried together.
const KEYS_PER_REQUEST: usize = 100;
/// Number of values that are read together.
const VALUES_PER_REQUEST: usize = 32;
/// Approximate number of values that are read.
const VALUES: f64 = 8000.0;
/// Least content of a value that moves. For a smaller one, the entry in memory and the record in
/// the tier would take about as much as the value.
pub const LEAST_BYTES: u64 = 64;
/// Seed of the choice of keys: a survey of an unchanged server reads the same keys again.
const SEED: u64 = 1;

/// The results of the survey.
#[derive(Debug, Default)]
pub struct Survey {
    /// Number of keys that the server listed.
    pub named: u64,
    /// Keys of the sample that existed.
    pub seen: Vec<SurveyedKeyFacts>,
    /// Values that were read; of large ones only a part.
    pub values: Vec<Vec<u8>>,
    /// Bytes that the server takes for a string besides key and content, one number for each
    /// string.
    pub overheads: Vec<u64>,
    /// Bytes of content of the values read as a whole, and the memory that the server takes for
    /// them, by type.
    pub contents: [(u64, u64); SurveyedValueKind::ALL.len()],
    /// True if the user stopped the survey.
    pub interrupted: bool,
}

impl Survey {
    /// Surveys about `samples` keys, chosen at random from all, until `stop` is set. `show`
    /// receives the share of the server's keys that have been listed.
    pub fn make(
        server: &mut SurveyedServer,
        samples: u64,
        stop: &AtomicBool,
        mut show: impl FnMut(f64),
    ) -> Result<Survey, AdviseError> {
        let keys = server.facts.keys();
        let mut survey = Survey::default();
        let mut random = SmallRng::seed_from_u64(SEED);
        let key_share = (samples as f64 / keys.max(1) as f64).min(1.0);
        let value_share = (VALUES / samples.min(keys).max(1) as f64).min(1.0);
        debug_assert!((0.0..=1.0).contains(&key_share) && (0.0..=1.0).contains(&value_share));
        for (database, _) in server.facts.databases.clone() {
            server.select(database)?;
            let mut cursor = "0".to_owned();
            loop {
                let (next, names) = server.scan(&cursor)?;
                survey.named += names.len() as u64;
                // Each key is chosen by itself, so that the list of all keys need not be stored.
                let chosen = names.into_iter().filter(|_| random.random_bool(key_share));
                let chosen: Vec<Vec<u8>> = chosen.collect();
                for keys in chosen.chunks(KEYS_PER_REQUEST) {
                    survey.inspect(server, keys, value_share, &mut random)?;
                }
                show(survey.named as f64 / keys as f64);
                if stop.load(Ordering::Relaxed) {
                    survey.interrupted = true;
                    return Ok(survey);
                }
                if next == "0" {
                    break;
                }
                cursor = next;
            }
        }
        Ok(survey)
    }

    fn inspect(
        &mut self,
        server: &mut SurveyedServer,
        keys: &[Vec<u8>],
        value_share: f64,
        random: &mut SmallRng,
    ) -> Result<(), AdviseError> {
        let seen = server.key_facts(keys)?;
        let existing = keys.iter().zip(&seen);
        let existing = existing.filter_map(|(key, seen)| Some((key, (*seen)?)));
        self.seen.extend(existing.clone().map(|(_, seen)| seen));
        let chosen = existing.filter(|(_, seen)| {
            seen.kind != SurveyedValueKind::Other && random.random_bool(value_share)
        });
        let chosen: Vec<_> = chosen.map(|(key, seen)| (key.clone(), seen)).collect();
        for chosen in chosen.chunks(VALUES_PER_REQUEST) {
            let values = server.values(chosen)?;
            for ((_, seen), value) in chosen.iter().zip(values) {
                self.keep(seen, value);
            }
        }
        Ok(())
    }

    fn keep(&mut self, seen: &SurveyedKeyFacts, value: Option<Vec<u8>>) {
        let Some(value) = value else {
            return;
        };
        let content = value.len() as u64;
        match seen.kind {
            // A longer string was read in part only.
            SurveyedValueKind::String if content < STRING_BYTES => {
                let overhead = seen.value_bytes().saturating_sub(content);
                self.overheads.push(overhead);
            }
            // A part of a value gives no size of the whole.
            kind if !seen.is_large() => {
                let at = SurveyedValueKind::ALL
                    .iter()
                    .position(|other| *other == kind);
                if let Some((contents, memory)) = at.and_then(|at| self.contents.get_mut(at)) {
                    *contents += content;
                    *memory += seen.value_bytes();
                }
            }
            _ => {}
        }
        // Smaller values do not move, so the compression of a tier does not depend on them.
        if content >= LEAST_BYTES {
            self.values.push(value);
        }
    }

    /// Returns the estimated content of each surveyed value, in order; `None` for those that would
    /// not move to a tier.
    pub fn contents(&self) -> Vec<Option<u64>> {
        let mut overheads = self.overheads.clone();
        overheads.sort_unstable();
        // The median, which strings with much spare room at their end do not raise.
        let overhead = overheads.get(overheads.len() / 2).copied().unwrap_or(0);
        let share = |kind: SurveyedValueKind| {
            let at = SurveyedValueKind::ALL
                .iter()
                .position(|other| *other == kind);
            match at.and_then(|at| self.contents.get(at)) {
                Some(&(content, memory)) if memory > 0 => (content as f64 / memory as f64).min(1.0),
                // No value of this type was read as a whole.
                _ => 1.0,
            }
        };
        let shares = SurveyedValueKind::ALL.map(|kind| (kind, share(kind)));
        let content = |seen: &SurveyedKeyFacts| {
            let content = match seen.kind {
                SurveyedValueKind::Other => return None,
                SurveyedValueKind::String => seen.value_bytes().saturating_sub(overhead),
                kind => {
                    let share = shares.iter().find(|(other, _)| *other == kind)?.1;
                    (seen.value_bytes() as f64 * share) as u64
                }
            };
            (content >= LEAST_BYTES).then_some(content)
        };
        self.seen.iter().map(content).collect()
    }
}

impl SurveyedKeyFacts {
    /// Returns the memory that the value takes.
    pub fn value_bytes(&self) -> u64 {
        self.memory_bytes.saturating_sub(self.key_bytes)
    }
}
