//! The name of an experiment's key set, as the user writes it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::{KeySet, digits, email, file, integers, ipv4, words};
use crate::error::LabError;
use crate::memory::check_available;
use crate::text::shortened;

/// The description of a key set, as written on a command line: `sparse`, `dense`,
/// `random-dense`, `digits`, `words`, `ipv4`, `email` or `file:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySetSpec {
    /// Random 64-bit integers: a bijective mixer of a counter, hence without duplicates.
    Sparse,
    /// 0, 1, 2, … in ascending order.
    Dense,
    /// The integers below the count, in random order.
    RandomDense,
    /// 0, 1, 2, … as strings of sixteen decimal digits, in ascending order.
    Digits,
    /// Synthetic words with the lengths and shared stems of English ones, in random order.
    Words,
    /// Starts of IPv4 address ranges as integers, clustered like the registries', in random
    /// order.
    Ipv4,
    /// Synthetic e-mail addresses, in random order.
    Email,
    /// The lines of a file, each once, in random order. Gzip is recognized by content. When the
    /// name ends in `.csv` or `.csv.gz` and the first columns are all unsigned 64-bit integers,
    /// those are the keys (country ranges: the range starts); otherwise the lines are, as bytes
    /// without their `\n` or `\r\n`. Empty lines are skipped.
    File(PathBuf),
}

/// The names that `KeySetSpec` parses.
const ALLOWED: &str = "sparse, dense, random-dense, digits, words, ipv4, email, file:PATH";

impl KeySetSpec {
    /// Returns the number of keys that [`generate`](Self::generate) makes without a count: 10
    /// million integers or strings of digits, as many words and address ranges as the public lists
    /// that they imitate have (466,551 and 139,614), a million e-mail addresses; `None` for a file,
    /// which is used completely.
    #[must_use]
    pub fn count_default(&self) -> Option<u64> {
        match self {
            KeySetSpec::Sparse
            | KeySetSpec::Dense
            | KeySetSpec::RandomDense
            | KeySetSpec::Digits => Some(10_000_000),
            KeySetSpec::Words => Some(466_551),
            KeySetSpec::Ipv4 => Some(139_614),
            KeySetSpec::Email => Some(1_000_000),
            KeySetSpec::File(_) => None,
        }
    }

    /// Returns the size of the largest set that can be made, regardless of memory. A synthetic
    /// language has a limited number of words; a file gives all its keys, even if more are
    /// requested.
    #[must_use]
    pub fn count_max(&self) -> u64 {
        match self {
            KeySetSpec::Digits => digits::COUNT_MAX,
            KeySetSpec::Words => words::COUNT_MAX,
            KeySetSpec::Ipv4 => ipv4::COUNT_MAX,
            KeySetSpec::Email => email::COUNT_MAX,
            _ => u64::MAX,
        }
    }

    /// Makes `count` keys (`None`: [`count_default`](Self::count_default)), all different,
    /// determined by `seed`.
    ///
    /// Every set except `dense` and `digits` is in random order. A smaller file gives all its keys:
    /// the count is the length of the set returned. Takes 4 ns (integers) to 800 ns (millions of
    /// words) a key.
    ///
    /// # Errors
    /// `OutOfRange` for no keys or more than [`count_max`](Self::count_max); `OutOfMemory` if
    /// making them would take more than is available; `KeyFile` for a file that is not a list of
    /// keys.
    pub fn generate(&self, count: Option<u64>, seed: u64) -> Result<KeySet, LabError> {
        self.generate_reporting(count, seed, &mut |_, _| {})
    }

    /// Generates as [`generate`](Self::generate), calling `progress(done, total)` every 2^16 keys
    /// or so, in keys, or in bytes read while reading a file.
    ///
    /// # Errors
    /// As [`generate`](Self::generate).
    pub fn generate_reporting(
        &self,
        count: Option<u64>,
        seed: u64,
        progress: Progress<'_>,
    ) -> Result<KeySet, LabError> {
        if let KeySetSpec::File(path) = self {
            let count = self.checked(count.unwrap_or(u64::MAX))?;
            let mut set = file::read(path, progress)?;
            // Shuffled first, so that a smaller set has keys of all parts of the file.
            set.shuffle(seed);
            set.truncate(count);
            return Ok(set);
        }
        let count = self.checked(count.or(self.count_default()).unwrap_or(0))?;
        Ok(match self {
            KeySetSpec::Sparse => KeySet::Words(integers::sparse(count, seed, progress)),
            KeySetSpec::Dense => KeySet::Words(integers::dense(count, progress)),
            KeySetSpec::RandomDense => KeySet::Words(integers::random_dense(count, seed, progress)),
            KeySetSpec::Digits => KeySet::Bytes(digits::generate(count, progress)),
            KeySetSpec::Words => KeySet::Bytes(words::generate(count, seed, progress)),
            KeySetSpec::Ipv4 => KeySet::Words(ipv4::generate(count, seed, progress)),
            KeySetSpec::Email => KeySet::Bytes(email::generate(count, seed, progress)),
            KeySetSpec::File(_) => unreachable!("handled above"),
        })
    }

    /// Checks a count against its limit and the available memory, and returns it as a length.
    fn checked(&self, count: u64) -> Result<usize, LabError> {
        let need = count.saturating_mul(self.bytes_per_key());
        check_available(|| format!("{count} {self} keys"), need)?;
        if count == 0 || count > self.count_max() {
            return Err(LabError::OutOfRange {
                subject: "count of keys",
                given: count.to_string(),
                allowed: match self.count_max() {
                    u64::MAX => "at least 1".to_owned(),
                    max => format!("1 to {max} for key set {self}"),
                },
            });
        }
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Returns the peak memory of generation for each key.
    fn bytes_per_key(&self) -> u64 {
        match self {
            KeySetSpec::Sparse | KeySetSpec::Dense | KeySetSpec::RandomDense => 8,
            KeySetSpec::Ipv4 => 24,
            KeySetSpec::Digits => digits::BYTES_PER_KEY,
            KeySetSpec::Words => words::BYTES_PER_KEY,
            KeySetSpec::Email => email::BYTES_PER_KEY,
            // `file::read` checks its memory itself, by the size of the lines so far.
            KeySetSpec::File(_) => 0,
        }
    }
}

/// Callback that receives the work done and the total work now and then.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

impl FromStr for KeySetSpec {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        Ok(match text {
            "sparse" => KeySetSpec::Sparse,
            "dense" => KeySetSpec::Dense,
            "random-dense" => KeySetSpec::RandomDense,
            "digits" => KeySetSpec::Digits,
            "words" => KeySetSpec::Words,
            "ipv4" => KeySetSpec::Ipv4,
            "email" => KeySetSpec::Email,
            _ => match text.strip_prefix("file:") {
                Some(path) if !path.is_empty() => KeySetSpec::File(PathBuf::from(path)),
                _ => {
                    return Err(LabError::UnknownName {
                        subject: "key set",
                        given: shortened(text),
                        allowed: ALLOWED,
                    });
                }
            },
        })
    }
}

impl fmt::Display for KeySetSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            KeySetSpec::Sparse => "sparse",
            KeySetSpec::Dense => "dense",
            KeySetSpec::RandomDense => "random-dense",
            KeySetSpec::Digits => "digits",
            KeySetSpec::Words => "words",
            KeySetSpec::Ipv4 => "ipv4",
            KeySetSpec::Email => "email",
            KeySetSpec::File(path) => return write!(f, "file:{}", path.display()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const NAMES: [&str; 7] = [
        "sparse",
        "dense",
        "random-dense",
        "digits",
        "words",
        "ipv4",
        "email",
    ];

    /// The sets in ascending order, which are the same for every seed.
    const ASCENDING: [&str; 2] = ["dense", "digits"];

    fn spec(name: &str) -> KeySetSpec {
        name.parse().unwrap()
    }

    #[test]
    fn names_are_given_back() {
        for name in NAMES.iter().chain(&["file:../keys.csv.gz"]) {
            assert_eq!(spec(name).to_string(), *name);
        }
        assert_eq!(format!("{:>8}|", KeySetSpec::Dense), "   dense|");
    }

    #[test]
    fn errors_of_unknown_names_list_the_allowed_ones() {
        for bad in ["", "Sparse", "file", "file:", "ipv6"] {
            let error = bad.parse::<KeySetSpec>().unwrap_err().to_string();
            assert!(
                error.contains(ALLOWED) && error.contains(&format!("{bad:?}")),
                "{error}"
            );
        }
    }

    #[test]
    fn every_set_has_the_requested_count_and_no_duplicates() {
        for name in NAMES {
            for count in [1, 2, 1000, 50_000] {
                let set = spec(name).generate(Some(count), 3).unwrap();
                assert_eq!(set.len() as u64, count, "{name}");
                let unique = match &set {
                    KeySet::Words(words) => words.iter().collect::<HashSet<_>>().len(),
                    KeySet::Bytes(strings) => strings.iter().collect::<HashSet<_>>().len(),
                };
                assert_eq!(unique as u64, count, "{name}");
            }
        }
    }

    #[test]
    fn the_seed_determines_the_set() {
        for name in NAMES {
            let set = |seed| spec(name).generate(Some(5000), seed).unwrap();
            assert_eq!(set(1), set(1), "{name}");
            if !ASCENDING.contains(&name) {
                assert_ne!(set(1), set(2), "{name}");
            }
        }
    }

    #[test]
    fn only_ascending_sets_come_in_order() {
        for name in NAMES {
            let set = spec(name).generate(Some(5000), 1).unwrap();
            let mut sorted = set.clone();
            sorted.sort();
            assert_eq!(set == sorted, ASCENDING.contains(&name), "{name}");
        }
    }

    #[test]
    fn absurd_counts_name_the_memory_they_would_take() {
        for name in NAMES {
            for count in [1_000_000_000_000, u64::MAX] {
                let error = spec(name).generate(Some(count), 1).unwrap_err();
                assert!(
                    matches!(error, LabError::OutOfMemory { .. }),
                    "{name}: {error}"
                );
                assert!(
                    error.to_string().contains(&format!("{count} {name} keys")),
                    "{error}"
                );
            }
            let error = spec(name).generate(Some(0), 1).unwrap_err();
            assert!(matches!(error, LabError::OutOfRange { .. }), "{error}");
        }
    }

    #[test]
    fn progress_rises_to_the_total() {
        for name in NAMES {
            let mut last = 0;
            let mut report = |done, total| {
                assert!(
                    done >= last && done <= total && total == 200_000,
                    "{name} {done} {total}"
                );
                last = done;
            };
            spec(name)
                .generate_reporting(Some(200_000), 1, &mut report)
                .unwrap();
            assert!(last > 100_000, "{name} {last}");
        }
    }
}
