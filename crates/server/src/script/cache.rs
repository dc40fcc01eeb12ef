//! The cache of scripts, which are found by their digests.

use super::lowercase;
use super::source::{Script, ScriptError};
use hashbrown::HashMap;
use std::sync::Arc;

/// Largest number of scripts kept of those that arrived by `EVAL`, as in Valkey. The least recently
/// run ones are forgotten.
const EVALUATED_MAX: usize = 500;

/// Limit of the bytes of memory for the texts of loaded scripts.
const LOADED_BYTES_MAX: usize = 256 << 20;

/// Error for a script beyond the limit.
const FULL: &str = "OOM loaded scripts would exceed 268435456 bytes. Use SCRIPT FLUSH.";

const _: () = assert!(LOADED_BYTES_MAX == 268_435_456, "the error names the limit");

/// A script, and the time of its last use.
#[derive(Debug)]
struct EvaluatedScript {
    script: Arc<Script>,
    used: u64,
}

/// The known scripts.
#[derive(Debug, Default)]
pub struct ScriptCache {
    /// Scripts loaded by `SCRIPT LOAD`. They stay.
    loaded: HashMap<String, Arc<Script>>,
    /// Scripts run by `EVAL`.
    evaluated: HashMap<String, EvaluatedScript>,
    /// Number of lookups, which serves as the clock of last uses.
    clock: u64,
    /// Bytes of memory of all scripts, and of the loaded ones among them.
    bytes: usize,
    loaded_bytes: usize,
}

impl ScriptCache {
    /// Returns the script of a digest, in upper or lower case.
    pub fn find(&mut self, digest: &[u8]) -> Option<Arc<Script>> {
        let digest = lowercase(std::str::from_utf8(digest).ok()?);
        self.clock += 1;
        if let Some(evaluated) = self.evaluated.get_mut(&*digest) {
            evaluated.used = self.clock;
            return Some(Arc::clone(&evaluated.script));
        }
        self.loaded.get(&*digest).cloned()
    }

    /// Adds a script that is run. Returns the script that is forgotten in its place.
    pub fn evaluate(&mut self, script: &Arc<Script>) -> Option<Arc<Script>> {
        if self.find(script.digest.as_bytes()).is_some() {
            return None;
        }
        debug_assert!(is_lower_case(&script.digest), "it would not be found");
        let oldest = match self.evaluated.len() {
            // A search of all is cheap beside the compilation that has preceded this.
            EVALUATED_MAX.. => self.evaluated.values().min_by_key(|it| it.used),
            _ => None,
        };
        let oldest = oldest.map(|it| Arc::clone(&it.script));
        if let Some(oldest) = &oldest {
            self.forget_evaluated(&oldest.digest);
        }
        self.bytes += script.memory_bytes();
        let (script, used) = (Arc::clone(script), self.clock);
        self.evaluated
            .insert(script.digest.clone(), EvaluatedScript { script, used });
        debug_assert!(self.evaluated.len() <= EVALUATED_MAX);
        oldest
    }

    /// Adds a script that stays.
    ///
    /// # Errors
    /// The loaded scripts take too much memory.
    pub fn load(&mut self, script: &Arc<Script>) -> Result<(), ScriptError> {
        if self.loaded.contains_key(&script.digest) {
            return Ok(());
        }
        let bytes = script.memory_bytes();
        if self.loaded_bytes + bytes > LOADED_BYTES_MAX {
            return Err(ScriptError::Text(FULL.to_owned()));
        }
        debug_assert!(is_lower_case(&script.digest), "it would not be found");
        // A script is in one of the maps only, so that its bytes are counted once.
        self.forget_evaluated(&script.digest);
        self.bytes += bytes;
        self.loaded_bytes += bytes;
        self.loaded
            .insert(script.digest.clone(), Arc::clone(script));
        Ok(())
    }

    fn forget_evaluated(&mut self, digest: &str) {
        if let Some(evaluated) = self.evaluated.remove(digest) {
            self.bytes -= evaluated.script.memory_bytes();
        }
        debug_assert!(
            self.loaded_bytes <= self.bytes,
            "they are among all scripts"
        );
    }

    /// Returns the number of known scripts.
    pub fn len(&self) -> usize {
        self.loaded.len() + self.evaluated.len()
    }

    /// Returns the bytes of memory that the scripts take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Returns true if a digest is in the form in which lookups have it.
fn is_lower_case(digest: &str) -> bool {
    !digest.bytes().any(|byte| byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(number: usize) -> Arc<Script> {
        let text = format!("return {number}");
        Arc::new(Script::parse(text.as_bytes(), format!("{number:040x}")).unwrap())
    }

    fn knows(cache: &mut ScriptCache, number: usize) -> bool {
        cache.find(format!("{number:040X}").as_bytes()).is_some()
    }

    #[test]
    fn scripts_that_were_run_longest_ago_are_forgotten() {
        let mut cache = ScriptCache::default();
        let (stays, runs) = (script(1), script(2));
        cache.load(&stays).unwrap();
        assert!(cache.evaluate(&runs).is_none());
        for number in 3..3 + EVALUATED_MAX {
            assert!(knows(&mut cache, 2));
            let forgotten = cache.evaluate(&script(number));
            assert_eq!(forgotten.is_some(), number == 2 + EVALUATED_MAX);
        }
        assert_eq!(cache.len(), EVALUATED_MAX + 1);
        assert!(knows(&mut cache, 1) && knows(&mut cache, 2) && !knows(&mut cache, 3));
        cache.load(&runs).unwrap();
        assert_eq!(cache.len(), EVALUATED_MAX + 1);
        let bytes: usize = cache.loaded.values().map(|it| it.memory_bytes()).sum();
        let evaluated = cache.evaluated.values();
        let evaluated: usize = evaluated.map(|it| it.script.memory_bytes()).sum();
        assert_eq!(cache.bytes(), bytes + evaluated);
    }

    #[test]
    fn scripts_that_stay_have_a_bound() {
        let mut cache = ScriptCache::default();
        let text = "x".repeat(LOADED_BYTES_MAX / 2);
        for number in 0..2 {
            let digest = format!("{number:040x}");
            let script = Arc::new(Script::parse(text.as_bytes(), digest).unwrap());
            assert_eq!(cache.load(&script).is_ok(), number == 0);
        }
    }
}
